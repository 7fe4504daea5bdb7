//! An architecture on the wire, for every document that proposes one.

use crate::arch::{Architecture, LayerKind, parameters};
use serde::Serialize;
use utoipa::ToSchema;

/// The dimensions of an architecture and what they add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ArchitectureShape {
    /// Its name.
    pub name: String,
    /// Transformer layers.
    pub layers: u64,
    /// Width of the residual stream, in elements.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key/value heads.
    pub kv_heads: u64,
    /// Width of a query and key head, in elements.
    pub head_dim: u64,
    /// Inner width of the MLP, in elements.
    pub d_ff: u64,
    /// Kind of the MLP.
    pub mlp: &'static str,
    /// Rows of the token embedding.
    pub vocab: u64,
    /// All parameters.
    pub parameters: u64,
    /// Parameters that a token meets; this and what follows are absent without experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_parameters: Option<u64>,
    /// Routed experts of a layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<u64>,
    /// Routed experts that a token visits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// Inner width of a routed expert, in elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_d_ff: Option<u64>,
    /// Inner width of all shared experts together, in elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_shared_d_ff: Option<u64>,
    /// Keys that a query of a windowed layer sees; this and the next are absent without windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Layers whose attention sees a sliding window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_layers: Option<u64>,
    /// How the state of a layer with linear attention changes; this and the next are absent without such layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recurrence: Option<&'static str>,
    /// Layers with linear attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linear_layers: Option<u64>,
    /// Width of the key/value latent, in elements; absent without latent attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_lora_rank: Option<u64>,
    /// Layers of other shapes; what is above describes the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<LayerKind>,
}

impl ArchitectureShape {
    /// The layers, `24 (20 windowed)` where some see a sliding window, `48 (36 linear)` where some have linear attention.
    pub(super) fn layers_text(&self) -> String {
        match (self.window_layers, self.linear_layers) {
            (Some(windowed), _) => format!("{} ({windowed} windowed)", self.layers),
            (None, Some(linear)) => format!("{} ({linear} linear)", self.layers),
            (None, None) => self.layers.to_string(),
        }
    }

    /// The key/value heads, or the latent in their place: `latent 512`.
    pub(super) fn keys_text(&self) -> String {
        match self.kv_lora_rank {
            Some(rank) => format!("latent {rank}"),
            None => self.kv_heads.to_string(),
        }
    }

    /// The inner width of the MLP, `11008`, or of the experts, `8 of 128 x 768`; with `+ 1536` for shared ones.
    pub(super) fn inner_width(&self) -> String {
        let (Some(experts), Some(top_k), Some(width)) = (self.experts, self.top_k, self.moe_d_ff) else {
            return self.d_ff.to_string();
        };
        let shared = self.moe_shared_d_ff.filter(|shared| *shared > 0);
        let shared = shared.map_or_else(String::new, |shared| format!(" + {shared}"));
        format!("{top_k} of {experts} x {width}{shared}")
    }
}

impl From<&Architecture> for ArchitectureShape {
    fn from(arch: &Architecture) -> Self {
        let count = parameters(arch);
        Self {
            name: arch.name.clone(),
            layers: arch.layers,
            hidden: arch.hidden,
            heads: arch.heads,
            kv_heads: arch.kv_heads,
            head_dim: arch.head_dim,
            d_ff: arch.mlp.d_ff,
            mlp: arch.mlp.kind.name(),
            vocab: arch.vocab,
            parameters: count.total,
            active_parameters: arch.moe.map(|_| count.active),
            experts: arch.moe.map(|moe| moe.experts),
            top_k: arch.moe.map(|moe| moe.top_k),
            moe_d_ff: arch.moe.map(|moe| moe.d_ff),
            moe_shared_d_ff: arch.moe.map(|moe| moe.shared_d_ff),
            window: arch.window.map(|window| window.size),
            window_layers: arch.window.map(|window| window.layers),
            recurrence: arch
                .linear
                .map(|linear| linear.kind.map_or("short_convolution", |kind| kind.name())),
            linear_layers: arch.linear.map(|linear| linear.layers),
            kv_lora_rank: arch.mla.map(|mla| mla.kv_lora_rank),
            kinds: arch.kinds.clone(),
        }
    }
}
