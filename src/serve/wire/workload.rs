//! Models and what one step of them does, as JSON.

use super::Architecture;
use super::size::{Cached, CachedSpan, Int, Whole, WholeSpan, one};
use super::usual_gpu;
use crate::arch::AttentionKernel;
use crate::arch::Mode;
use crate::arch::Recompute;
use crate::ops::Dtype;
use crate::query::Size;
use crate::query::sweep::Sizes;
use crate::query::workload;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// The keys of a workload, so that messages can say where they stand.
pub const KEYS: [&str; 13] = [
    "mode",
    "batch",
    "seq",
    "context",
    "dtype",
    "tp",
    "pp",
    "dp",
    "zero",
    "recompute",
    "attention",
    "microbatches",
    "sequence_parallel",
];

/// Declares a workload with sizes of one kind.
macro_rules! workload {
    ($(#[$about:meta])* $name:ident, $size:ty, $cached:ty => $plain:ty) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, ToSchema, IntoParams)]
        #[serde(deny_unknown_fields, default)]
        #[into_params(parameter_in = Query)]
        pub struct $name {
            /// What one step does.
            pub mode: Mode,
            /// Sequences per micro-batch; 4 in training, 1 in prefill, 8 in decode where left out.
            pub batch: Option<$size>,
            /// Tokens per sequence; 2048 or what the position table holds where left out; in decode the cached ones.
            pub seq: Option<$size>,
            /// Cached tokens per sequence; 2048 or what the position table leaves in decode, else 0, where left out.
            pub context: Option<$cached>,
            /// Number format of the linear layers.
            pub dtype: Dtype,
            /// Tensor-parallel ranks.
            pub tp: $size,
            /// Pipeline stages.
            pub pp: Whole,
            /// Data-parallel replicas.
            pub dp: Whole,
            /// ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
            pub zero: Int<0, 3>,
            /// What the backward pass recomputes.
            pub recompute: Recompute,
            /// Fused or unfused attention.
            pub attention: AttentionKernel,
            /// Micro-batches per step: they fill the pipeline and accumulate gradients.
            pub microbatches: Whole,
            /// Whether norms and residual adds are sharded over the tensor-parallel ranks too.
            pub sequence_parallel: bool,
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    mode: Mode::Train,
                    batch: None,
                    seq: None,
                    context: None,
                    dtype: Dtype::Bf16,
                    tp: one(),
                    pp: one(),
                    dp: one(),
                    zero: Int(0),
                    recompute: Recompute::None,
                    attention: AttentionKernel::Flash,
                    microbatches: one(),
                    sequence_parallel: false,
                }
            }
        }

        impl From<&$name> for workload::Workload<$plain> {
            fn from(wire: &$name) -> Self {
                Self {
                    mode: wire.mode,
                    batch: wire.batch.map(|batch| batch.0),
                    seq: wire.seq.map(|seq| seq.0),
                    context: wire.context.map(|context| context.0),
                    dtype: wire.dtype,
                    tp: wire.tp.0,
                    pp: wire.pp.0,
                    dp: wire.dp.0,
                    zero: wire.zero.0 as u8,
                    recompute: wire.recompute,
                    attention: wire.attention,
                    microbatches: wire.microbatches.0,
                    sequence_parallel: wire.sequence_parallel,
                }
            }
        }
    };
}

workload! {
    /// What one step does and over how many GPUs it is spread.
    Workload, Whole, Cached => u64
}

workload! {
    /// What one step does and over how many GPUs it is spread; one size may be the range of a sweep.
    SweptWorkload, WholeSpan, CachedSpan => Size
}

/// A step of a whole model.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// A preset or a config.json.
    pub architecture: Architecture,
    /// What one step does.
    #[serde(default)]
    pub workload: Workload,
    /// The GPU; `/v1/gpus` lists them.
    #[serde(default = "usual_gpu")]
    #[schema(default = "h200")]
    pub gpu: String,
    /// A built-in model by name; by default the model of the GPU.
    pub model: Option<String>,
    /// Whether the body was the config.json itself.
    #[serde(skip)]
    pub bare: bool,
}

/// A question about a model, or the config.json of one: then the query string holds the rest, as in
/// `?gpu=a100&mode=decode&batch=8`.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code)] // described, never built
pub enum ModelOrConfig {
    /// A question.
    Question(Model),
    /// A Hugging Face config.json.
    Config(Config),
}

/// What a query string says beside a config.json, along with the keys of a workload. Where the body is a question,
/// there is no query string.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)] // described, never built
pub struct BesideConfig {
    /// The GPU; `/v1/gpus` lists them.
    #[param(default = "h200")]
    gpu: Option<String>,
    /// A built-in model by name; by default the model of the GPU.
    model: Option<String>,
}

/// A Hugging Face config.json; which fields it has depends on its type.
#[derive(ToSchema)]
#[allow(dead_code)] // described, never built
pub struct Config {
    /// `llama`, `gpt2`, `mixtral`, …
    model_type: String,
}

/// A step of a whole model along one of its sizes, which is a range. Sizes of the architecture that are left out stay
/// as they are or follow: `heads` keeps the width of attention and the queries per key head, `hidden` keeps the number
/// of heads and the ratio of the MLP.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SweptModel {
    /// A preset or a config.json.
    pub architecture: Architecture,
    /// Transformer layers.
    pub layers: Option<WholeSpan>,
    /// Width of the residual stream.
    pub hidden: Option<WholeSpan>,
    /// Query heads.
    #[schema(examples("8:64:8"))]
    pub heads: Option<WholeSpan>,
    /// Key/value heads, a divisor of the query heads.
    pub kv_heads: Option<WholeSpan>,
    /// Inner width of the MLP, or of one expert.
    pub d_ff: Option<WholeSpan>,
    /// Rows of the token embedding.
    pub vocab: Option<WholeSpan>,
    /// What one step does.
    #[serde(default)]
    pub workload: SweptWorkload,
    /// The GPU; `/v1/gpus` lists them.
    #[serde(default = "usual_gpu")]
    #[schema(default = "h200")]
    pub gpu: String,
    /// A built-in model by name; by default the model of the GPU.
    pub model: Option<String>,
}

impl From<&SweptModel> for Sizes {
    fn from(wire: &SweptModel) -> Self {
        let size = |span: Option<WholeSpan>| span.map(|span| span.0);
        Self {
            layers: size(wire.layers),
            hidden: size(wire.hidden),
            heads: size(wire.heads),
            kv_heads: size(wire.kv_heads),
            d_ff: size(wire.d_ff),
            vocab: size(wire.vocab),
        }
    }
}
