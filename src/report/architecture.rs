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
    /// Widths of the experts; absent without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_d_ff: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe_shared_d_ff: Option<u64>,
}

impl From<&Architecture> for ArchitectureShape {
    fn from(arch: &Architecture) -> Self {
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
            parameters: parameters(arch).total,
            moe_d_ff: arch.moe.map(|moe| moe.d_ff),
            moe_shared_d_ff: arch.moe.map(|moe| moe.shared_d_ff),
        }
    }
}
