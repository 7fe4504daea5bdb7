//! Transformer architectures: parameters, memory, lowering to operators, presets, Hugging Face configs.
//!
//! An [`Architecture`] is every number that shapes a decoder-only transformer. Together with a
//! [`Workload`] (what is run, and over how many GPUs) it answers three questions: how many
//! parameters ([`parameters`]), how much memory on one GPU ([`memory_use`]), and which operators
//! one GPU executes for one step ([`lower`]).

mod names;

mod layer;

mod params;

mod workload;

mod memory;

mod step;

mod lowering;

mod communication;

mod presets;

mod config;

pub use config::{parse_config, read_config};
pub use lowering::lower;
pub use memory::{MemoryUse, memory_use};
pub use params::{ParameterCount, parameters};
pub use presets::Preset;
pub use step::{Item, Phase, Role, Step};
pub use workload::{AttentionKernel, Mode, Recompute, Workload};

use crate::error::{Error, Result};
use names::named_enum;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The shape of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// Name used in tables and messages.
    pub name: String,
    /// Transformer layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads; equal to `heads` without grouped-query attention.
    pub kv_heads: u64,
    /// Width of a query and key head; need not be `hidden / heads`.
    pub head_dim: u64,
    /// The MLP of the dense layers.
    pub mlp: Mlp,
    /// Rows of the token embedding, padding included.
    pub vocab: u64,
    /// Whether the output head reuses the token embedding.
    pub tied_embeddings: bool,
    /// How positions enter.
    pub positions: Positions,
    /// Kind and place of the normalisations.
    pub norm: Norm,
    /// Which parts carry a bias vector.
    #[serde(default)]
    pub biases: Biases,
    /// Attention and MLP read the same residual stream and are added together (GPT-J, GPT-NeoX).
    #[serde(default)]
    pub parallel_layers: bool,
    /// Mixture of experts in place of the MLP in all but the leading dense layers.
    #[serde(default)]
    pub moe: Option<Moe>,
    /// Multi-head latent attention in place of the fused QKV projection.
    #[serde(default)]
    pub mla: Option<Mla>,
    /// Sliding-window attention in some or all layers.
    #[serde(default)]
    pub window: Option<Window>,
}

/// A two-layer perceptron, gated or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mlp {
    /// Two or three matrices.
    pub kind: MlpKind,
    /// Inner width; with mixture of experts and no dense layer, that of one expert.
    pub d_ff: u64,
}

named_enum! {
    /// How many matrices an MLP has; which elementwise function sits between them costs the same.
    MlpKind {
        /// Up, elementwise function (GELU, ReLU, SiLU), down.
        Gelu = "gelu",
        /// Gate and up fused into one product, gated elementwise function (SwiGLU, GeGLU), down.
        Swiglu = "swiglu",
    }
}

impl MlpKind {
    /// Width of the up projection in units of `d_ff`.
    pub const fn up_factor(self) -> u64 {
        match self {
            Self::Gelu => 1,
            Self::Swiglu => 2,
        }
    }
}

/// How positions enter the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Positions {
    /// A learned table of `max` rows, added to the token embedding.
    Learned {
        /// Rows of the table.
        max: u64,
    },
    /// Rotation of queries and keys.
    Rotary,
    /// A bias on the attention scores that grows with distance.
    Alibi,
    /// Nothing.
    None,
}

/// The normalisations of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Norm {
    /// Which function.
    pub kind: NormKind,
    /// Where in the layer.
    #[serde(default = "Norm::pre")]
    pub placement: NormPlacement,
    /// Whether queries and keys are normalised.
    #[serde(default = "Norm::no_qk")]
    pub qk: QkNorm,
}

impl Norm {
    const fn pre() -> NormPlacement {
        NormPlacement::Pre
    }

    const fn no_qk() -> QkNorm {
        QkNorm::None
    }
}

named_enum! {
    /// The normalisation function.
    NormKind {
        /// Centres and scales.
        LayerNorm = "layer_norm",
        /// Scales only.
        RmsNorm = "rms_norm",
    }
}

named_enum! {
    /// Where a layer normalises the residual stream; every model ends with one more norm.
    NormPlacement {
        /// Before attention and before the MLP (GPT-2, Llama; also GPT-NeoX with parallel layers).
        Pre = "pre",
        /// Once for both branches of a parallel layer (GPT-J, Falcon-7B).
        Shared = "shared",
        /// After attention and after the MLP, before the residual add (OLMo 2).
        Post = "post",
        /// Before and after each of the two (Gemma 2 and 3).
        Sandwich = "sandwich",
    }
}

named_enum! {
    /// Normalisation of queries and keys before attention.
    QkNorm {
        /// None.
        None = "none",
        /// One weight of length `head_dim` for all query heads and one for all key heads (Qwen3, Gemma 3).
        Head = "head",
        /// Over the whole projected query and the whole projected key (OLMo 2).
        Full = "full",
    }
}

/// Which parts carry a bias vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Biases {
    pub qkv: bool,
    pub attention_output: bool,
    pub mlp: bool,
    pub norm: bool,
    pub head: bool,
}

impl Biases {
    /// Every part but the output head, as in GPT-2.
    pub const ALL_BUT_HEAD: Self = Self {
        qkv: true,
        attention_output: true,
        mlp: true,
        norm: true,
        head: false,
    };
}

/// Mixture of experts; the experts are MLPs of the architecture's kind, without bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moe {
    /// Routed experts per layer.
    pub experts: u64,
    /// Routed experts that each token visits.
    pub top_k: u64,
    /// Inner width of one routed expert.
    pub d_ff: u64,
    /// Inner width of all shared experts together, which every token visits; 0 = none.
    #[serde(default)]
    pub shared_d_ff: u64,
    /// Leading layers that keep the dense MLP.
    #[serde(default)]
    pub dense_layers: u64,
    /// Whether the router holds one correction term per expert (DeepSeek-V3).
    #[serde(default)]
    pub router_bias: bool,
}

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values come from one narrow latent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mla {
    /// Width of the query latent; absent = queries are projected directly.
    #[serde(default)]
    pub q_lora_rank: Option<u64>,
    /// Width of the key/value latent, which is what the cache holds.
    pub kv_lora_rank: u64,
    /// Part of a query/key head without position.
    pub qk_nope: u64,
    /// Rotated part of a query/key head; the key's is shared by all heads.
    pub qk_rope: u64,
    /// Width of a value head.
    pub v_head_dim: u64,
}

/// Sliding-window attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Keys a query sees at most, itself included.
    pub size: u64,
    /// Layers that use the window; the others see everything.
    pub layers: u64,
}

/// Bounds that keep every count below 2^64.
const MAX_LAYERS: u64 = 1000;
const MAX_HIDDEN: u64 = 1 << 17;
const MAX_WIDTH: u64 = 1 << 19;
const MAX_HEADS: u64 = 4096;
const MAX_VOCAB: u64 = 1 << 24;
const MAX_EXPERTS: u64 = 1024;

impl Architecture {
    /// The preset with this name, or the Hugging Face config at this path (anything that ends in `.json`).
    pub fn find(name_or_path: &str) -> Result<Self> {
        let path = Path::new(name_or_path);
        let is_config = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if is_config {
            read_config(path)
        } else {
            Preset::find(name_or_path).map(|preset| preset.architecture.clone())
        }
    }

    /// Width of a value head.
    pub fn value_dim(&self) -> u64 {
        self.mla.map_or(self.head_dim, |mla| mla.v_head_dim)
    }

    /// Layers that hold a mixture of experts.
    pub fn moe_layers(&self) -> u64 {
        self.moe.map_or(0, |moe| self.layers - moe.dense_layers)
    }

    /// Checks that the numbers describe a model that can be built.
    pub fn validate(&self) -> Result<()> {
        let fail = |field: &str, value: u64, allowed: &str| {
            let place = format!("architecture `{}`", self.name);
            Err(Error::field(place, field, value, allowed))
        };
        for (field, value, most) in [
            ("layers", self.layers, MAX_LAYERS),
            ("hidden", self.hidden, MAX_HIDDEN),
            ("heads", self.heads, MAX_HEADS),
            ("kv_heads", self.kv_heads, MAX_HEADS),
            ("head_dim", self.head_dim, MAX_HEADS),
            ("mlp.d_ff", self.mlp.d_ff, MAX_WIDTH),
            ("vocab", self.vocab, MAX_VOCAB),
        ] {
            if !(1..=most).contains(&value) {
                return fail(field, value, &format!("1 to {most}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let allowed = format!("a divisor of heads = {}", self.heads);
            return fail("kv_heads", self.kv_heads, &allowed);
        }
        if let Positions::Learned { max } = self.positions
            && !(1..=MAX_VOCAB).contains(&max)
        {
            return fail("positions.learned.max", max, &format!("1 to {MAX_VOCAB}"));
        }
        if self.norm.placement == NormPlacement::Shared && !self.parallel_layers {
            return Err(Error::field(
                format!("architecture `{}`", self.name),
                "norm.placement",
                "`shared`",
                "`shared` only with parallel_layers = true",
            ));
        }
        if let Some(window) = self.window {
            if window.size == 0 || window.size > MAX_VOCAB {
                return fail("window.size", window.size, &format!("1 to {MAX_VOCAB}"));
            }
            if !(1..=self.layers).contains(&window.layers) {
                return fail(
                    "window.layers",
                    window.layers,
                    &format!("1 to layers = {}", self.layers),
                );
            }
        }
        self.validate_moe()?;
        self.validate_mla()
    }

    fn validate_moe(&self) -> Result<()> {
        let Some(moe) = self.moe else { return Ok(()) };
        let fail = |field: &str, value: u64, allowed: String| {
            let place = format!("architecture `{}`", self.name);
            Err(Error::field(place, field, value, &allowed))
        };
        if !(2..=MAX_EXPERTS).contains(&moe.experts) {
            return fail("moe.experts", moe.experts, format!("2 to {MAX_EXPERTS}"));
        }
        if !(1..=moe.experts).contains(&moe.top_k) {
            let allowed = format!("1 to experts = {}", moe.experts);
            return fail("moe.top_k", moe.top_k, allowed);
        }
        if !(1..=MAX_WIDTH).contains(&moe.d_ff) {
            return fail("moe.d_ff", moe.d_ff, format!("1 to {MAX_WIDTH}"));
        }
        if moe.shared_d_ff > MAX_WIDTH {
            return fail(
                "moe.shared_d_ff",
                moe.shared_d_ff,
                format!("0 to {MAX_WIDTH}"),
            );
        }
        if moe.dense_layers >= self.layers {
            let allowed = format!("0 to layers - 1 = {}", self.layers - 1);
            return fail("moe.dense_layers", moe.dense_layers, allowed);
        }
        if moe.dense_layers == 0 && self.mlp.d_ff != moe.d_ff {
            let allowed = format!("moe.d_ff = {}, as no layer is dense", moe.d_ff);
            return fail("mlp.d_ff", self.mlp.d_ff, allowed);
        }
        Ok(())
    }

    fn validate_mla(&self) -> Result<()> {
        let Some(mla) = self.mla else { return Ok(()) };
        let fail = |field: &str, value: u64, allowed: String| {
            let place = format!("architecture `{}`", self.name);
            Err(Error::field(place, field, value, &allowed))
        };
        for (field, value) in [
            ("mla.q_lora_rank", mla.q_lora_rank.unwrap_or(1)),
            ("mla.kv_lora_rank", mla.kv_lora_rank),
            ("mla.qk_nope", mla.qk_nope),
            ("mla.qk_rope", mla.qk_rope),
            ("mla.v_head_dim", mla.v_head_dim),
        ] {
            if !(1..=MAX_HIDDEN).contains(&value) {
                return fail(field, value, format!("1 to {MAX_HIDDEN}"));
            }
        }
        if self.head_dim != mla.qk_nope + mla.qk_rope {
            let allowed = format!("mla.qk_nope + mla.qk_rope = {}", mla.qk_nope + mla.qk_rope);
            return fail("head_dim", self.head_dim, allowed);
        }
        if self.kv_heads != self.heads {
            let allowed = format!("heads = {}, as every head has its own keys", self.heads);
            return fail("kv_heads", self.kv_heads, allowed);
        }
        Ok(())
    }
}
