//! Exact parameter counts.
//!
//! Classic layer (GELU MLP of 4h, biases, two layer norms): `12h² + 13h`. Llama-style layer:
//! `h·(a+2g)·d + a·d·h + 3·h·f + 2h`. The sums run over the linear maps and norms that the
//! lowering executes, and tests pin them to published totals.

use super::layer::{
    Linear, StageLayers, attention_linears, mlp_linears, moe_linears, norm_width, rank_vocab,
};
use super::{Architecture, Positions};

/// How many parameters an architecture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterCount {
    /// All of them; a tied head counts once.
    pub total: u64,
    /// Token embedding, learned positions and, where it is separate, the output head.
    pub embedding: u64,
    /// `total - embedding`: layers and final norm.
    pub non_embedding: u64,
    /// Those that one token meets: `total` without the routed experts it does not visit.
    pub active: u64,
}

/// Counts the parameters of a valid architecture.
pub fn parameters(arch: &Architecture) -> ParameterCount {
    let embedding = embedding(arch, 1, true, true);
    let layers = StageLayers::new(arch, 1);
    let non_embedding = layer_parameters(arch, 1, layers) + norm_parameters(arch, arch.hidden);
    let total = embedding + non_embedding;
    ParameterCount {
        total,
        embedding,
        non_embedding,
        active: total - idle_expert_parameters(arch),
    }
}

/// Parameters on one rank of a stage with these layers; the first stage embeds, the last one predicts.
pub(super) fn rank_parameters(
    arch: &Architecture,
    tp: u64,
    layers: StageLayers,
    first: bool,
    last: bool,
) -> u64 {
    let final_norm = if last {
        norm_parameters(arch, arch.hidden)
    } else {
        0
    };
    embedding(arch, tp, first, last) + layer_parameters(arch, tp, layers) + final_norm
}

/// Weights that multiply each token: `2 ·` this is the forward arithmetic of the linear maps per token,
/// returned for the layers and for the head, which may run for fewer positions.
pub(super) fn active_weights(arch: &Architecture) -> (u64, u64) {
    let weights = |linears: &[Linear]| -> u64 {
        linears
            .iter()
            .map(|linear| {
                let visited = match arch.moe {
                    Some(moe) if linear.members > 1 => moe.top_k,
                    _ => 1,
                };
                visited * linear.inputs * linear.outputs
            })
            .sum()
    };
    let moe_layers = arch.moe_layers();
    let layers = arch.layers * weights(&attention_linears(arch, 1))
        + (arch.layers - moe_layers) * weights(&mlp_linears(arch, 1))
        + moe_layers * weights(&moe_linears(arch, 1));
    (layers, arch.hidden * arch.vocab)
}

fn embedding(arch: &Architecture, tp: u64, first: bool, last: bool) -> u64 {
    let table = rank_vocab(arch, tp) * arch.hidden;
    let mut count = 0;
    if first {
        count += table;
        if let Positions::Learned { max } = arch.positions {
            count += max * arch.hidden;
        }
    }
    if last {
        // A tied head needs its own copy of the table only where the embedding lives elsewhere.
        if !arch.tied_embeddings || !first {
            count += table;
        }
        if arch.biases.head {
            count += rank_vocab(arch, tp);
        }
    }
    count
}

fn layer_parameters(arch: &Architecture, tp: u64, stage: StageLayers) -> u64 {
    let sum =
        |linears: &[Linear]| -> u64 { linears.iter().map(|linear| linear.parameters()).sum() };
    stage.layers * (sum(&attention_linears(arch, tp)) + norm_parameters(arch, norm_width(arch, tp)))
        + stage.dense * sum(&mlp_linears(arch, tp))
        + stage.moe * sum(&moe_linears(arch, tp))
}

fn norm_parameters(arch: &Architecture, width: u64) -> u64 {
    width * if arch.biases.norm { 2 } else { 1 }
}

fn idle_expert_parameters(arch: &Architecture) -> u64 {
    let Some(moe) = arch.moe else { return 0 };
    let all: u64 = moe_linears(arch, 1)
        .iter()
        .filter(|linear| linear.members > 1)
        .map(|linear| linear.parameters())
        .sum();
    arch.moe_layers() * (all / moe.experts) * (moe.experts - moe.top_k)
}
