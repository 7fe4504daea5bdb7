//! An architecture on the wire, for every document that proposes one.

use crate::arch::Architecture;
use crate::arch::parameters;
use serde::Serialize;
use utoipa::ToSchema;

/// The dimensions of an architecture and what they add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[allow(missing_docs)]
pub struct ArchitectureShape {
    pub name: String,
    pub layers: u64,
    pub hidden: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub d_ff: u64,
    /// Kind of the MLP.
    pub mlp: &'static str,
    pub vocab: u64,
    pub parameters: u64,
    /// Parameters that a token meets, the experts of a layer, how many of them it visits and their widths; absent without
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_parameters: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_d_ff: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_shared_d_ff: Option<u64>,
}

impl ArchitectureShape {
    /// The inner width of the MLP, `11008`, or of the experts, `8 of 128 x 768`; with `+ 1536` for shared ones.
    pub(super) fn inner_width(&self) -> String {
        let (Some(experts), Some(top_k), Some(width)) = (self.experts, self.top_k, self.moe_d_ff)
        else {
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
        }
    }
}
