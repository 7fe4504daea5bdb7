//! Exact parameter counts.
//!
//! Classic layer (GELU MLP of 4h, biases, two layer norms): `12h² + 13h`. Llama-style layer:
//! `h·(a+2g)·d + a·d·h + 3·h·f + 2h`. The sums run over the linear maps and norms that the
//! lowering executes, and tests pin them to published totals.

use super::layer::{
    Linear, Shards, StageLayers, attention_linears, attention_norm_width, compression_vectors, hidden_norms,
    index_linears, linear_attention_linears, linear_attention_parameters, mlp_linears, moe_linears, moe_vectors,
    rank_vocab, sinks,
};
use super::{Architecture, NormKind, NormPlacement, Positions, Role};

/// How many parameters an architecture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterCount {
    /// All of them; a tied head counts once.
    pub total: u64,
    /// Token embedding with its norm, learned positions and, where it is separate, the output head.
    pub embedding: u64,
    /// `total - embedding`: layers and final norm.
    pub non_embedding: u64,
    /// Those that one token meets: `total` without the routed experts it does not visit.
    pub active: u64,
}

/// Counts the parameters of a valid architecture.
pub fn parameters(arch: &Architecture) -> ParameterCount {
    let embedding = embedding(arch, 1, true, true);
    let layers = StageLayers::new(arch, 1, 1);
    let non_embedding = layer_parameters(arch, Shards::WHOLE, layers) + norm_parameters(arch, arch.hidden);
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
    shards: Shards,
    layers: StageLayers,
    first: bool,
    last: bool,
) -> u64 {
    let final_norm = if last { norm_parameters(arch, arch.hidden) } else { 0 };
    embedding(arch, shards.tp, first, last) + layer_parameters(arch, shards, layers) + final_norm
}

/// The linear maps on one rank of a stage, and how many layers have each; a head of its own is one of one layer.
pub(super) fn rank_linears(arch: &Architecture, shards: Shards, stage: StageLayers, last: bool) -> Vec<(Linear, u64)> {
    let tp = shards.tp;
    let head = Linear::new(Role::Logits, arch.hidden, rank_vocab(arch, tp), false);
    let head = (last && !arch.tied_embeddings).then_some(head);
    let of = |linears: Vec<Linear>, layers| linears.into_iter().map(move |linear| (linear, layers));
    stage
        .parts(arch)
        .flat_map(|(arch, stage)| {
            of(attention_linears(&arch, tp).collect(), stage.attention())
                .chain(of(index_linears(&arch), stage.indexed))
                .chain(of(linear_attention_linears(&arch, tp), stage.linear))
                .chain(of(mlp_linears(&arch, tp).to_vec(), stage.dense))
                .chain(of(moe_linears(&arch, shards), stage.moe))
        })
        .chain(arch.further_linears(stage))
        .chain(head.map(|head| (head, 1)))
        .filter(|(_, layers)| *layers > 0)
        .collect()
}

/// Those of [`rank_parameters`] that belong to routed experts.
pub(super) fn rank_expert_parameters(arch: &Architecture, shards: Shards, layers: StageLayers) -> u64 {
    layers.moe * expert_parameters(arch, shards)
}

/// Parameters of the routed experts of one layer on one rank.
fn expert_parameters(arch: &Architecture, shards: Shards) -> u64 {
    let linears = moe_linears(arch, shards).into_iter();
    let experts = linears.filter(|linear| linear.role.is_of_experts());
    total(experts, |linear| linear.parameters())
}

/// Weights that multiply each token: `2 ·` this is the forward arithmetic of the linear maps per token,
/// returned for the layers and for the head, which may run for fewer positions.
pub(super) fn active_weights(arch: &Architecture) -> (u64, u64) {
    let weights = |linear: Linear| {
        let copies = match arch.moe {
            Some(moe) if linear.role.is_of_experts() => moe.top_k,
            _ => linear.members,
        };
        copies * linear.inputs * linear.outputs
    };
    let layers = arch.sum(|arch| {
        let moe_layers = arch.moe_layers();
        mixer_total(arch, weights)
            + (arch.layers_with_mlp() - moe_layers) * total(mlp_linears(arch, 1), weights)
            + moe_layers * total(moe_linears(arch, Shards::WHOLE), weights)
    });
    (layers + arch.further_weights(), arch.hidden * arch.vocab)
}

/// Weights of the linear maps of attention in all layers, without biases: those with linear attention count as if they attended, unless
/// all have it.
pub fn attention_weights(arch: &Architecture) -> u64 {
    let weights = |linear: Linear| linear.members * linear.inputs * linear.outputs;
    arch.sum(|arch| match arch.attention_layers() {
        0 => mixer_total(arch, weights),
        attending => {
            let of_linear = arch.linear_layers() * total(linear_attention_linears(arch, 1), weights);
            let of_attention = mixer_total(arch, weights) - of_linear;
            of_attention * (attending + arch.linear_layers()) / attending
        }
    })
}

/// The sum over the linear maps of attention of either kind, in layers of one shape, of a count of each.
fn mixer_total(arch: &Architecture, count: impl Fn(Linear) -> u64) -> u64 {
    arch.index.map_or(0, |index| index.layers) * total(index_linears(arch), &count)
        + arch.attention_layers() * total(attention_linears(arch, 1), &count)
        + arch.linear_layers() * total(linear_attention_linears(arch, 1), count)
}

/// The sum over linear maps of a count of each.
fn total(linears: impl IntoIterator<Item = Linear>, count: impl Fn(Linear) -> u64) -> u64 {
    linears.into_iter().map(count).sum()
}

fn embedding(arch: &Architecture, tp: u64, first: bool, last: bool) -> u64 {
    let table = rank_vocab(arch, tp) * arch.hidden;
    let mut count = 0;
    if first {
        count += table;
        if let Positions::Learned { max, spare } = arch.positions {
            count += (max + spare) * arch.hidden;
        }
        if arch.norm.placement == NormPlacement::PreAndEmbedding {
            count += norm_parameters(arch, arch.hidden);
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

fn layer_parameters(arch: &Architecture, shards: Shards, stage: StageLayers) -> u64 {
    let layers = match arch.kinds.is_empty() {
        true => part_parameters(arch, shards, stage),
        false => {
            let parts = stage.parts(arch);
            parts.map(|(part, stage)| part_parameters(&part, shards, stage)).sum()
        }
    };
    layers + arch.further_parameters(stage)
}

fn part_parameters(arch: &Architecture, shards: Shards, stage: StageLayers) -> u64 {
    let tp = shards.tp;
    let parameters = |linear: Linear| linear.parameters();
    let attention = total(attention_linears(arch, tp), parameters) + compression_vectors(arch) + sinks(arch, tp);
    let within = norm_parameters(arch, attention_norm_width(arch, tp));
    // A layer norm of the index's keys, with biases, or norms of its queries and keys.
    let index_norm = match arch.compressed {
        Some(_) => 0,
        None => arch.index.map_or(0, |index| 2 * index.head_dim),
    };
    let activation = if arch.biases.activation { 2 } else { 0 };
    stage.layers * norm_parameters(arch, hidden_norms(arch) * arch.hidden)
        + stage.attention() * (attention + within)
        + stage.indexed * (total(index_linears(arch), parameters) + index_norm)
        + stage.linear * linear_attention_parameters(arch, tp)
        + stage.dense * (total(mlp_linears(arch, tp), parameters) + activation)
        + stage.moe * (total(moe_linears(arch, shards), parameters) + moe_vectors(arch))
}

fn norm_parameters(arch: &Architecture, width: u64) -> u64 {
    match arch.norm.kind {
        NormKind::UnweightedLayerNorm | NormKind::UnweightedRmsNorm => 0,
        NormKind::LayerNorm | NormKind::RmsNorm if arch.biases.norm => 2 * width,
        NormKind::LayerNorm | NormKind::RmsNorm => width,
    }
}

fn idle_expert_parameters(arch: &Architecture) -> u64 {
    let Some(moe) = arch.moe else { return 0 };
    let all = expert_parameters(arch, Shards::WHOLE);
    arch.moe_layers() * (all / moe.experts) * (moe.experts - moe.top_k)
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    fn count(name: &str) -> ParameterCount {
        parameters(&Preset::find(name).unwrap().architecture)
    }

    /// Model cards of EleutherAI/pythia-*.
    #[test]
    fn pythia_non_embedding_counts_are_exact() {
        for (name, published) in [
            ("pythia-410m", 302_311_424),
            ("pythia-1b", 805_736_448),
            ("pythia-1.4b", 1_208_602_624),
            ("pythia-2.8b", 2_517_652_480),
        ] {
            assert_eq!(count(name).non_embedding, published, "{name}");
        }
    }

    /// Where only rounded totals are published.
    #[test]
    fn counts_round_to_what_papers_say() {
        let billions = |count: u64, published: f64| {
            let digit = if published < 100.0 { 0.05 } else { 0.5 };
            let counted = count as f64 / 1e9;
            assert!((counted - published).abs() <= digit, "{counted} {published}");
        };
        // arXiv 2402.16819, section 2.
        billions(count("nemotron-4-15b").embedding, 3.1);
        billions(count("nemotron-4-15b").non_embedding, 12.5);
        // arXiv 2406.11704, section 2.1.
        billions(count("nemotron-4-340b").embedding, 9.4);
        billions(count("nemotron-4-340b").non_embedding, 332.0);
        // arXiv 2508.10925, table 1: the head counts as active, the embedding does not.
        for (name, active) in [("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13)] {
            let count = count(name);
            billions(count.active - count.embedding / 2, active);
        }
    }

    /// Totals in billions of models without published exact totals: arXiv 2005.14165, table 2.1; xai-org/grok-1;
    /// the card of mosaicml/mpt-30b; arXiv 2402.16819 and 2406.11704; arXiv 2205.01068, table 1.
    const ROUNDED: [(&str, f64); 13] = [
        ("gpt3-1.3b", 1.3),
        ("gpt3-125m", 0.125),
        ("gpt3-13b", 13.0),
        ("gpt3-175b", 175.0),
        ("gpt3-2.7b", 2.7),
        ("gpt3-350m", 0.35),
        ("gpt3-6.7b", 6.7),
        ("gpt3-760m", 0.76),
        ("grok-1", 314.0),
        ("mpt-30b", 30.0),
        ("nemotron-4-15b", 15.6),
        ("nemotron-4-340b", 341.0),
        ("opt-66b", 66.0),
    ];

    #[test]
    fn every_preset_without_an_exact_total_rounds_to_the_published_one() {
        let presets = Preset::all().iter();
        let inexact = presets.filter(|preset| preset.published_parameters.is_none());
        let names: Vec<_> = inexact.map(|preset| &preset.architecture.name).collect();
        assert_eq!(names, ROUNDED.map(|(name, _)| name));
        for (name, published) in ROUNDED {
            let billions = count(name).total as f64 / 1e9;
            assert!((billions / published - 1.0).abs() < 0.025, "{name}: {billions}");
        }
    }

    #[test]
    fn only_mixtures_have_idle_parameters() {
        let dense = count("llama-2-7b");
        assert_eq!(dense.active, dense.total);
        for (name, billions) in [("mixtral-8x7b", 12.9), ("qwen3-30b-a3b", 3.3), ("deepseek-v3", 37.6)] {
            let active = count(name).active as f64 / 1e9;
            assert!((active - billions).abs() < 0.1, "{name}: {active}");
        }
    }

    #[test]
    fn ranks_and_stages_together_hold_the_model() {
        let arch = &Preset::find("llama-2-70b").unwrap().architecture;
        let total = parameters(arch).total;
        let stage = StageLayers::new(arch, 4, 1);
        let shards = Shards { tp: 8, ..Shards::WHOLE };
        let ends =
            rank_parameters(arch, shards, stage, true, false) + rank_parameters(arch, shards, stage, false, true);
        let middle = rank_parameters(arch, shards, stage, false, false);
        // Norms are on every one of the eight ranks.
        let replicated = 7 * (2 * arch.layers + 1) * arch.hidden;
        assert_eq!(8 * (ends + 2 * middle), total + replicated);
    }
}
