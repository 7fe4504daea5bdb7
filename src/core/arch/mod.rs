//! Transformer architectures: parameters, memory, lowering to operators, presets, Hugging Face configs.
//!
//! An [`Architecture`] is every number that shapes a decoder-only transformer. Together with a
//! [`Workload`] (what is run, and over how many GPUs) it answers three questions: how many
//! parameters ([`parameters`]), how much memory on one GPU ([`memory_use`]), and which operators
//! one GPU executes for one step ([`lower`]).

mod adapter;

mod dimension;

mod further;

mod validate;

mod kinds;
mod layer;

mod params;
mod placement;

mod workload;

mod memory;

mod optimizer;

mod step;

mod speculation;

mod stored;

mod lowering;

mod communication;

mod presets;

mod config;

pub use adapter::{BaseDtype, Targets};
pub use config::{Stated, config_json, layers_json, parse_config, read_config, read_object};
pub use dimension::Dimension;
pub use further::FurtherMap;
pub use kinds::LayerKind;
pub use lowering::lower;
pub use memory::{HostTraffic, MemoryUse, MemoryVerdict, Peak, Practice, host_traffic, memory_use};
pub use optimizer::Optimizer;
pub use params::{ParameterCount, attention_weights, parameters};
pub use placement::Group;
pub use presets::Preset;
pub use speculation::{Acceptance, Draft};
pub use step::{Item, Phase, Role, Step};
pub use stored::Stored;
pub use workload::{
    AttentionKernel, GradientDtype, ITERATION_TOKENS, KvCacheDtype, Loss, Mode, Offload, OptimizerStates, Recipe,
    Recompute, Workload,
};

use crate::error::Result;
use crate::ops::Recurrence;
use serde::{Deserialize, Serialize};
use std::path::Path;
use workload::is_default;

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
    /// An index chooses which keys a query of latent attention attends to.
    #[serde(default)]
    pub index: Option<Index>,
    /// Sliding-window attention in some or all layers.
    #[serde(default)]
    pub window: Option<Window>,
    /// Linear attention in place of softmax attention in some layers.
    #[serde(default)]
    pub linear: Option<LinearLayers>,
    /// Layers that are an MLP alone, where a layer is either attention or linear attention or MLP (Nemotron-H); absent, every
    /// layer ends with an MLP.
    #[serde(default)]
    pub mlp_layers: Option<u64>,
    /// A gate as wide as the attention output multiplies it (Qwen3-Next).
    #[serde(default)]
    pub output_gate: bool,
    /// One number a query head multiplies the attention output of that head (Step-3.5, Laguna, Ling 3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub head_gate: bool,
    /// Width of a value head, where it is not that of a key head and attention is not latent (MiMo-V2-Flash).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_head_dim: Option<u64>,
    /// What gives keys and values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key_values: KeyValues,
    /// Keys that are compressed, behind a window (DeepSeek-V4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressed: Option<Compressed>,
    /// Linear maps and weights beside attention, MLP and head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherMap>,
    /// Layers of other shapes; `layers` counts them, the fields above describe the others alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<LayerKind>,
    /// What the config says beyond the shape.
    #[serde(skip)]
    pub stated: Stated,
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
        /// Gate and up fused into one GEMM, gated elementwise function (SwiGLU, GeGLU), down.
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
    /// A learned table, added to the token embedding.
    Learned {
        /// Positions.
        max: u64,
        /// Rows of the table that no position reads.
        #[serde(default, skip_serializing_if = "is_default")]
        spare: u64,
    },
    /// Rotation of queries and keys.
    Rotary,
    /// A bias on the attention scores that grows with distance.
    Alibi,
    /// Nothing.
    None,
}

impl Positions {
    /// The longest sequence that they number.
    pub const fn longest(self) -> u64 {
        match self {
            Self::Learned { max, .. } => max,
            Self::Rotary | Self::Alibi | Self::None => u64::MAX,
        }
    }
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
        /// Layer norm without weights (OLMo 1).
        UnweightedLayerNorm = "unweighted_layer_norm",
        /// Scales only, without weights (nanochat).
        UnweightedRmsNorm = "unweighted_rms_norm",
    }
}

named_enum! {
    /// Where a layer normalises the residual stream; every model ends with one more norm.
    NormPlacement {
        /// Before attention and before the MLP (GPT-2, Llama; also GPT-NeoX with parallel layers).
        Pre = "pre",
        /// As `pre`, and once after the embedding (BLOOM).
        PreAndEmbedding = "pre_and_embedding",
        /// Once for both branches of a parallel layer (GPT-J, Falcon-7B).
        Shared = "shared",
        /// After attention and after the MLP, before the residual add (OLMo 2).
        Post = "post",
        /// Before and after each of the two (Gemma 2 and 3).
        Sandwich = "sandwich",
    }
}

impl NormPlacement {
    /// Whether attention and MLP each end with a norm.
    pub const fn follows_branches(self) -> bool {
        matches!(self, Self::Post | Self::Sandwich)
    }
}

named_enum! {
    /// Normalisation of queries and keys before attention.
    QkNorm {
        /// None.
        None = "none",
        /// One weight of length `head_dim` for all query heads and one for all key heads (Qwen3, Gemma 3).
        Head = "head",
        /// A weight for every element of the projected query and key (OLMo 2; by head in Command R+).
        Full = "full",
    }
}

named_enum! {
    /// What gives the keys and values of a layer with attention.
    #[derive(Default)]
    KeyValues {
        /// A projection each.
        #[default]
        Two = "two",
        /// One projection: values are the keys before norm and rotation (Gemma 4).
        One = "one",
        /// An earlier layer: there is neither a projection nor a cache (Gemma 3n).
        Earlier = "earlier",
    }
}

/// Which parts carry a bias vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Biases {
    /// The maps to queries, keys and values.
    pub qkv: bool,
    /// The map behind attention.
    pub attention_output: bool,
    /// Both maps of a dense MLP.
    pub mlp: bool,
    /// Both maps of every routed expert (gpt-oss).
    pub experts: bool,
    /// Every norm.
    pub norm: bool,
    /// The map to the vocabulary.
    pub head: bool,
    /// A learned score per query head that takes part in every softmax (attention sinks of gpt-oss).
    pub sinks: bool,
    /// Two learned numbers in the elementwise function of every dense MLP (xIELU of Apertus).
    pub activation: bool,
}

impl Biases {
    /// Every part of GPT-2 but the output head.
    pub const ALL_BUT_HEAD: Self = Self {
        qkv: true,
        attention_output: true,
        mlp: true,
        experts: false,
        norm: true,
        head: false,
        sinks: false,
        activation: false,
    };
}

/// Mixture of experts; the experts are MLPs of the architecture's kind.
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
    /// Of the other layers every so many-th one has experts, the rest keep the dense MLP (2 in Llama 4 Maverick).
    #[serde(default = "Moe::every_layer")]
    pub interval: u64,
    /// Whether a dot product of each token with a weight scales what the shared experts add (Qwen2-MoE).
    #[serde(default)]
    pub shared_gate: bool,
    /// Whether the router holds one term per expert: a bias (gpt-oss) or a correction (DeepSeek-V3).
    #[serde(default)]
    pub router_bias: bool,
    /// Width that tokens are projected to before they go to their routed experts, and from behind them (LatentMoE, Nemotron 3
    /// Super); absent, experts take the residual stream.
    #[serde(default)]
    pub latent: Option<u64>,
    /// Norms of the residual stream that a layer with experts has more than one without, scales of its router counted (Gemma 4).
    #[serde(default, skip_serializing_if = "is_default")]
    pub norms: u64,
}

impl Moe {
    const fn every_layer() -> u64 {
        1
    }

    /// Width of the tokens that experts take.
    pub fn routed_width(&self, hidden: u64) -> u64 {
        self.latent.unwrap_or(hidden)
    }

    /// Whether a layer, counted from 0, has experts.
    pub fn is_in(&self, layer: u64) -> bool {
        let behind = layer.checked_sub(self.dense_layers);
        behind.is_some_and(|behind| (behind + 1).is_multiple_of(self.interval))
    }

    /// Inner width that a token meets: that of the experts it visits and of the shared ones.
    pub const fn active_width(&self) -> u64 {
        self.top_k * self.d_ff + self.shared_d_ff
    }

    /// Inner width of the dense MLP of a model that is built like most: where there are layers without experts, what a
    /// token meets in one with them.
    pub const fn dense_width(&self) -> u64 {
        match (self.dense_layers, self.interval) {
            (0, 1) => self.d_ff,
            _ => self.active_width(),
        }
    }
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

/// The index of DeepSeek Sparse Attention (arXiv 2512.02556) and MiniMax-M3: narrow heads score every key, the best are
/// attended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Query heads of the index, whole on every rank; they share one key.
    pub heads: u64,
    /// Width of its heads.
    pub head_dim: u64,
    /// Keys that a query attends to at most.
    pub top_k: u64,
    /// Layers with an index of their own; each of the others takes the choice of the one before (GLM-5.2).
    pub layers: u64,
    /// Neighbouring keys that are chosen together, for each head of the index where they are several (MiniMax-M3).
    #[serde(default = "Index::single", skip_serializing_if = "Index::is_single")]
    pub block: u64,
}

impl Index {
    const fn single() -> u64 {
        1
    }

    const fn is_single(block: &u64) -> bool {
        *block == 1
    }
}

/// Attention of DeepSeek-V4: queries come from a latent, one key is the value of all heads, outputs leave in groups of heads.
/// Behind its window a query sees one key for each block of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compressed {
    /// Width of the query latent.
    pub query_rank: u64,
    /// Groups of heads that leave by a linear map of their own.
    pub output_groups: u64,
    /// Width of the output of a group.
    pub output_rank: u64,
    /// Tokens of a block; 0 where a layer sees its window alone. Blocks overlap where an index chooses among them.
    pub stride: u64,
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

impl Window {
    /// The window in the same share of `to` layers as it now has of `from`, rounded down, in one at least.
    #[must_use]
    pub fn scaled(self, from: u64, to: u64) -> Self {
        Self {
            layers: (self.layers * to / from).max(1),
            ..self
        }
    }

    /// Windowed layers for each one that sees everything, of so many layers, rounded; `None` if all are windowed.
    pub fn pattern(self, layers: u64) -> Option<u64> {
        let full = layers.saturating_sub(self.layers);
        (full > 0).then(|| (self.layers as f64 / full as f64).round() as u64)
    }
}

/// Layers with linear attention, a state-space model or a short convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearLayers {
    /// How a token changes the state of a head; `None` for a short convolution between two gates (LFM2) and Mamba-1.
    #[serde(default)]
    pub kind: Option<Recurrence>,
    /// Layers that use it; the others attend.
    pub layers: u64,
    /// Query and key heads; groups of a state-space model.
    pub key_heads: u64,
    /// Value heads, each with a state.
    pub heads: u64,
    /// Width of a query and key head; the state size of a state-space model; any without a recurrence.
    pub head_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Taps of the convolution in front; 0 without one, which with one decay a head is lightning attention (MiniMax-01).
    pub taps: u64,
    /// Whether every layer has it beside attention, and adds the two (Falcon-H1).
    #[serde(default, skip_serializing_if = "is_default")]
    pub beside: bool,
    /// Width that the step sizes of Mamba-1 come from, whose every channel has a state of `head_dim`; 0 of other kinds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub step_rank: u64,
    /// Whether the output gate of Kimi Delta Attention reads the residual stream itself (Kimi K3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub full_gate: bool,
    /// Whether its decays do (Ling 3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub full_decay: bool,
    /// Whether lightning attention has norms of its queries and keys, each as wide as a head (Ling 2.5).
    #[serde(default, skip_serializing_if = "is_default")]
    pub normed_keys: bool,
    /// Whether a state-space model has no norm of its outputs, or Mamba-1 none of its inputs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unnormed: bool,
}

impl Architecture {
    /// A model built like GPT-2, without a name and without positions.
    pub fn gpt(hidden: u64, layers: u64, heads: u64) -> Self {
        Self {
            name: String::new(),
            layers,
            hidden,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads.max(1),
            mlp: Mlp {
                kind: MlpKind::Gelu,
                d_ff: hidden.saturating_mul(4),
            },
            vocab: 50_257,
            tied_embeddings: true,
            positions: Positions::None,
            norm: Norm {
                kind: NormKind::LayerNorm,
                placement: NormPlacement::Pre,
                qk: QkNorm::None,
            },
            biases: Biases::ALL_BUT_HEAD,
            parallel_layers: false,
            moe: None,
            mla: None,
            index: None,
            window: None,
            linear: None,
            mlp_layers: None,
            output_gate: false,
            head_gate: false,
            value_head_dim: None,
            key_values: KeyValues::Two,
            compressed: None,
            further: Vec::new(),
            kinds: Vec::new(),
            stated: Stated::default(),
        }
    }

    /// The preset with this name, its weights as published, else the Hugging Face config at this path: a file, a folder with a `config.json`, or `-` for
    /// standard input.
    pub fn find(name_or_path: &str) -> Result<Self> {
        let path = Path::new(name_or_path);
        let is_file = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if is_file || name_or_path == "-" {
            return read_config(path);
        }
        match Preset::published(name_or_path) {
            Err(_) if path.exists() => read_config(path),
            published => published,
        }
    }

    /// Width of a value head.
    pub fn value_dim(&self) -> u64 {
        self.mla
            .map_or(self.value_head_dim.unwrap_or(self.head_dim), |mla| mla.v_head_dim)
    }

    /// Tokens of which a layer keeps one key behind its window; 0 without compressed keys.
    pub(in crate::arch) fn stride(&self) -> u64 {
        self.compressed.map_or(0, |compressed| compressed.stride)
    }

    /// Layers that hold an MLP or a mixture of experts.
    pub fn layers_with_mlp(&self) -> u64 {
        self.sum(|part| part.mlp_layers.unwrap_or(part.layers))
    }

    /// Layers that mix tokens, by attention or a recurrence: all but those that are an MLP alone.
    pub fn mixing_layers(&self) -> u64 {
        self.layers.saturating_sub(self.mlp_layers.unwrap_or(0))
    }

    /// Layers with linear attention.
    pub fn linear_layers(&self) -> u64 {
        self.linear.map_or(0, |linear| linear.layers)
    }

    /// Layers with softmax attention; 0 if more layers are something else than there are, which is not valid.
    pub fn attention_layers(&self) -> u64 {
        self.sum(|part| {
            let linear = part.linear.filter(|linear| !linear.beside);
            let others = linear.map_or(0, |linear| linear.layers) + part.mlp_layers.unwrap_or(0);
            part.layers.saturating_sub(others)
        })
    }

    /// Layers that hold a mixture of experts; 0 if more layers are dense than there are, which is not valid.
    pub fn moe_layers(&self) -> u64 {
        self.sum(|part| {
            let with_mlp = part.mlp_layers.unwrap_or(part.layers);
            part.moe
                .map_or(0, |moe| with_mlp.saturating_sub(moe.dense_layers) / moe.interval)
        })
    }

    /// Changes the layers; those of each kind keep their share.
    pub fn rescale_layers(&mut self, layers: u64) {
        let scaled = |part: u64, from: u64| (part * layers / from).max(1);
        self.window = self.window.map(|window| window.scaled(self.layers, layers));
        if let Some(linear) = &mut self.linear {
            linear.layers = scaled(linear.layers, self.layers);
        }
        if let Some(index) = &mut self.index {
            index.layers = scaled(index.layers, self.layers);
        }
        self.mlp_layers = self
            .mlp_layers
            .map(|alone| scaled(alone, self.layers).min(alone * layers));
        self.layers = layers;
    }
}
