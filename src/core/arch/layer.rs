//! What one layer consists of on one tensor-parallel rank: its linear maps and its norm widths.
//!
//! Parameter counts, memory and lowering all read this one description, so they cannot disagree.
//! Column-parallel maps divide their outputs by `tp`, row-parallel maps their inputs (Megatron-LM,
//! arXiv 1909.08053); routers, latent down-projections and norms are replicated.

use super::step::Role;
use super::{Architecture, KeyValues, LinearLayers, NormPlacement, QkNorm, Workload};
use crate::ops::Recurrence;
use std::borrow::Cow;

/// A linear map of one layer, already divided among the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Linear {
    pub role: Role,
    /// Reduction dimension of the forward GEMM.
    pub inputs: u64,
    /// Output width of the forward GEMM.
    pub outputs: u64,
    /// Length of the bias vector, 0 without one.
    pub bias: u64,
    /// Independent copies: the routed experts of a layer, else 1.
    pub members: u64,
    /// Of the outputs, those that are keys and those that are values beside queries.
    pub keys_values: [u64; 2],
}

impl Linear {
    pub fn new(role: Role, inputs: u64, outputs: u64, bias: bool) -> Self {
        Self {
            role,
            inputs,
            outputs,
            bias: if bias { outputs } else { 0 },
            members: 1,
            keys_values: [0; 2],
        }
    }

    /// Weights and biases.
    pub fn parameters(&self) -> u64 {
        self.members * (self.inputs * self.outputs + self.bias)
    }
}

/// Query heads on one rank.
pub(super) fn rank_heads(arch: &Architecture, tp: u64) -> u64 {
    arch.heads / tp
}

/// Key/value heads on one rank: a share, or one replicated head when there are fewer heads than ranks.
pub(super) fn rank_kv_heads(arch: &Architecture, tp: u64) -> u64 {
    (arch.kv_heads / tp).max(1)
}

/// Widths of the keys and of the values of a token on one rank, and in the cache; 0 where they are those of an earlier layer.
pub(super) fn keys_values(arch: &Architecture, tp: u64) -> [u64; 2] {
    let heads = match arch.key_values {
        KeyValues::Earlier => 0,
        KeyValues::One | KeyValues::Two => rank_kv_heads(arch, tp),
    };
    // Compressed keys are their own values.
    let values = arch.compressed.map_or(arch.value_dim(), |_| 0);
    [heads * arch.head_dim, heads * values]
}

/// Vocabulary rows on one rank, padded up to equal shares.
pub(super) fn rank_vocab(arch: &Architecture, tp: u64) -> u64 {
    arch.vocab.div_ceil(tp)
}

/// The linear maps of the attention block, in order of execution.
pub(super) fn attention_linears(arch: &Architecture, tp: u64) -> impl Iterator<Item = Linear> {
    let heads = rank_heads(arch, tp);
    let (hidden, biases) = (arch.hidden, arch.biases);
    let inputs = match (arch.mla, arch.compressed) {
        (None, Some(compressed)) => {
            let rank = compressed.query_rank;
            let widths = compressed_widths(arch).into_iter().sum::<u64>();
            let compression = Linear::new(Role::KeyCompression, hidden, 2 * widths, false);
            [
                Some(Linear::new(Role::QueryDown, hidden, rank, biases.qkv)),
                Some(Linear::new(Role::QueryUp, rank, heads * arch.head_dim, false)),
                Some(Linear::new(Role::KeyValueDown, hidden, arch.head_dim, biases.qkv)),
                (widths > 0).then_some(compression),
            ]
        }
        (None, None) => {
            let per_element = if arch.output_gate { heads } else { 0 };
            let per_head = if arch.head_gate { heads } else { 0 };
            let [keys, values] = keys_values(arch, tp);
            let keys_values = match arch.key_values {
                KeyValues::Two => [keys, values],
                KeyValues::One => [keys, 0],
                KeyValues::Earlier => [0; 2],
            };
            let width = (heads + per_element) * arch.head_dim + per_head + keys_values.into_iter().sum::<u64>();
            [
                Some(Linear {
                    keys_values,
                    ..Linear::new(Role::Qkv, hidden, width, biases.qkv)
                }),
                None,
                None,
                None,
            ]
        }
        (Some(mla), _) => {
            let rank = mla.q_lora_rank;
            let down = rank.map(|rank| Linear::new(Role::QueryDown, hidden, rank, biases.qkv));
            let queries = heads * arch.head_dim;
            let latent = mla.kv_lora_rank + mla.qk_rope;
            let expanded = heads * (mla.qk_nope + mla.v_head_dim);
            [
                down,
                Some(Linear::new(Role::QueryUp, rank.unwrap_or(hidden), queries, false)),
                Some(Linear::new(Role::KeyValueDown, hidden, latent, biases.qkv)),
                Some(Linear::new(Role::KeyValueUp, mla.kv_lora_rank, expanded, false)),
            ]
        }
    };
    let values = heads * arch.value_dim();
    let gate = match (arch.output_gate, arch.head_gate) {
        (true, _) => values,
        (false, true) => heads,
        (false, false) => 0,
    };
    let gate = (gate > 0 && arch.mla.is_some()).then(|| Linear::new(Role::AttentionGate, hidden, gate, false));
    let output = biases.attention_output;
    let projection = |inputs| Some(Linear::new(Role::AttentionProjection, inputs, hidden, output));
    let outputs = match arch.compressed {
        None => [None, projection(values)],
        Some(compressed) => {
            let groups = (compressed.output_groups / tp).max(1);
            let down = Linear::new(
                Role::AttentionOutputDown,
                values / groups,
                compressed.output_rank,
                false,
            );
            let down = Linear {
                members: groups,
                ..down
            };
            [Some(down), projection(groups * compressed.output_rank)]
        }
    };
    inputs.into_iter().chain([gate]).chain(outputs).flatten()
}

/// Widths of a token's share of the compressed key and of the key of the index; 0 without.
fn compressed_widths(arch: &Architecture) -> [u64; 2] {
    match (arch.stride(), arch.index) {
        (0, _) => [0, 0],
        (_, None) => [arch.head_dim, 0],
        // Blocks overlap.
        (_, Some(index)) => [2 * arch.head_dim, 2 * index.head_dim],
    }
}

/// Weights of the compression of keys that are of no linear map: one for each place in a block, and norms.
pub(super) fn compression_vectors(arch: &Architecture) -> u64 {
    let norms = match arch.stride() {
        0 => 0,
        _ => arch.head_dim + arch.index.map_or(0, |index| index.head_dim),
    };
    arch.stride() * compressed_widths(arch).into_iter().sum::<u64>() + norms
}

/// The linear maps of the index of one layer, whole on every rank; empty without one.
pub(super) fn index_linears(arch: &Architecture) -> Vec<Linear> {
    let Some(index) = arch.index else {
        return Vec::new();
    };
    let compressed = arch.compressed.map(|compressed| compressed.query_rank);
    let rank = compressed.or(arch.mla.and_then(|mla| mla.q_lora_rank));
    let queries = rank.unwrap_or(arch.hidden);
    let mut linears = vec![Linear::new(
        Role::IndexQuery,
        queries,
        index.heads * index.head_dim,
        false,
    )];
    if compressed.is_none() {
        linears.push(Linear::new(Role::IndexKey, arch.hidden, index.head_dim, false));
    }
    // Heads of queries that come from the residual stream choose for themselves.
    if rank.is_some() {
        linears.push(Linear::new(Role::IndexWeights, arch.hidden, index.heads, false));
    }
    linears
}

/// Linear attention on one rank: value heads, and key heads, of which there is at least one.
pub(super) fn rank_linear(linear: &LinearLayers, tp: u64) -> LinearLayers {
    LinearLayers {
        heads: linear.heads / tp,
        key_heads: (linear.key_heads / tp).max(1),
        ..*linear
    }
}

impl LinearLayers {
    /// Channels of the convolution: queries, keys and values, without a recurrence values alone.
    pub(super) fn channels(&self) -> u64 {
        let keys = self.kind.map_or(0, |_| self.key_heads * self.head_dim);
        2 * keys + self.values()
    }

    /// What each token gives Mamba-1: inputs of step sizes, and what goes into and out of a state.
    fn step_inputs(&self) -> u64 {
        self.step_rank + 2 * self.head_dim
    }

    /// Elements of the states of a sequence.
    pub(super) fn states(&self) -> u64 {
        match (self.kind, self.step_rank) {
            (None, 0) => 0,
            _ => self.values() * self.head_dim,
        }
    }

    /// Width of the values of all heads.
    pub(super) fn values(&self) -> u64 {
        self.heads * self.value_dim
    }

    /// Parameters besides the linear maps: convolution, decays and their biases, and the norm of the outputs.
    fn own_parameters(&self) -> u64 {
        let taps = self.channels() * self.taps;
        taps + match self.kind {
            None if self.step_rank == 0 => 0,
            // Biases of the convolution and of the step sizes, decays, a skip connection.
            None => {
                let norms = if self.unnormed { 0 } else { self.step_inputs() };
                self.values() * (3 + self.head_dim) + norms
            }
            Some(Recurrence::GatedDeltaNet) => 2 * self.heads + self.value_dim,
            Some(Recurrence::KimiDelta) => self.heads * (1 + self.head_dim) + self.value_dim,
            Some(Recurrence::Mamba2) => {
                let norm = if self.unnormed { 0 } else { self.values() };
                let keys = if self.normed_keys { 2 * self.head_dim } else { 0 };
                // A bias a channel, a skip connection a head, a norm over all heads.
                let inputs = if self.taps > 0 {
                    self.channels() + 3 * self.heads
                } else {
                    0
                };
                inputs + norm + keys
            }
        }
    }
}

/// The linear maps of a layer with linear attention, in order of execution; empty without any.
///
/// One GEMM gives queries, keys, values and what the output gate reads (Qwen3-Next; of a state-space model the step sizes,
/// too). Decays and gates of Kimi Delta Attention go through a width of one head.
pub(super) fn linear_attention_linears(arch: &Architecture, tp: u64) -> Vec<Linear> {
    let Some(whole) = &arch.linear else {
        return Vec::new();
    };
    let linear = rank_linear(whole, tp);
    let (hidden, heads, values) = (arch.hidden, linear.heads, linear.values());
    let from_hidden = |role, outputs| Linear::new(role, hidden, outputs, false);
    let gated = linear.channels() + values;
    let mut linears = match linear.kind {
        // What the gates before and after the convolution read, and what passes them.
        None if linear.step_rank == 0 => vec![from_hidden(Role::LinearInput, 3 * values)],
        None => vec![
            from_hidden(Role::LinearInput, 2 * values),
            Linear::new(Role::LinearDecay, values, linear.step_inputs(), false),
            Linear::new(Role::LinearGate, linear.step_rank, values, false),
        ],
        Some(Recurrence::GatedDeltaNet) => vec![
            from_hidden(Role::LinearInput, gated),
            from_hidden(Role::LinearDecay, 2 * heads),
        ],
        Some(Recurrence::KimiDelta) => {
            let wide = |is_full| if is_full { values } else { 0 };
            let narrow = u64::from(!linear.full_gate) + u64::from(!linear.full_decay);
            let decay = narrow * linear.head_dim + wide(linear.full_decay) + heads;
            let mut linears = vec![
                from_hidden(Role::LinearInput, linear.channels() + wide(linear.full_gate)),
                from_hidden(Role::LinearDecay, decay),
            ];
            linears.extend((narrow > 0).then(|| Linear {
                members: narrow,
                ..Linear::new(Role::LinearGate, linear.head_dim, values, false)
            }));
            linears
        }
        Some(Recurrence::Mamba2) => {
            let steps = if linear.taps > 0 { heads } else { 0 };
            vec![from_hidden(Role::LinearInput, gated + steps)]
        }
    };
    linears.push(Linear::new(Role::LinearOutput, values, hidden, false));
    linears
}

/// Up and down projection of the dense MLP.
pub(super) fn mlp_linears(arch: &Architecture, tp: u64) -> [Linear; 2] {
    let inner = arch.mlp.d_ff / tp;
    let up = arch.mlp.kind.up_factor() * inner;
    [
        Linear::new(Role::MlpUp, arch.hidden, up, arch.biases.mlp),
        Linear::new(Role::MlpDown, inner, arch.hidden, arch.biases.mlp),
    ]
}

/// The GPUs that weights are divided among, whatever their data-parallel replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shards {
    pub tp: u64,
    /// GPUs that share one routed expert.
    pub expert_tp: u64,
    /// GPUs that hold different routed experts.
    pub ep: u64,
}

impl Shards {
    /// One GPU holds everything.
    pub const WHOLE: Self = Self {
        tp: 1,
        expert_tp: 1,
        ep: 1,
    };

    pub fn of(work: &Workload) -> Self {
        Self {
            tp: work.tp,
            expert_tp: work.expert_ranks(),
            ep: work.ep,
        }
    }
}

/// Router, routed experts and shared experts of a mixture-of-experts layer; empty without one.
pub(super) fn moe_linears(arch: &Architecture, shards: Shards) -> Vec<Linear> {
    let Some(moe) = arch.moe else {
        return Vec::new();
    };
    let factor = arch.mlp.kind.up_factor();
    let inner = moe.d_ff / shards.expert_tp;
    let shared = moe.shared_d_ff / shards.tp;
    let experts = |role, inputs, outputs| Linear {
        members: moe.experts / shards.ep,
        ..Linear::new(role, inputs, outputs, arch.biases.experts)
    };
    let mut linears = vec![
        Linear::new(Role::Router, arch.hidden, moe.experts, moe.router_bias),
        experts(Role::ExpertsUp, moe.routed_width(arch.hidden), factor * inner),
        experts(Role::ExpertsDown, inner, moe.routed_width(arch.hidden)),
    ];
    if let Some(latent) = moe.latent {
        linears.push(Linear::new(Role::ExpertsLatentDown, arch.hidden, latent, false));
        linears.push(Linear::new(Role::ExpertsLatentUp, latent, arch.hidden, false));
    }
    if shared > 0 {
        linears.push(Linear::new(Role::SharedUp, arch.hidden, factor * shared, false));
        linears.push(Linear::new(Role::SharedDown, shared, arch.hidden, false));
    }
    linears
}

/// Weights of a layer with experts that are of no linear map: its further norms, and the gate of its shared experts, a dot
/// product with each token.
pub(super) fn moe_vectors(arch: &Architecture) -> u64 {
    arch.moe
        .map_or(0, |moe| (moe.norms + u64::from(moe.shared_gate)) * arch.hidden)
}

/// Norms over the whole hidden width per layer, one where a layer is one block.
pub(super) fn hidden_norms(arch: &Architecture) -> u64 {
    match arch.norm.placement {
        _ if arch.mlp_layers.is_some() => 1,
        NormPlacement::Shared => 1,
        NormPlacement::Pre | NormPlacement::PreAndEmbedding | NormPlacement::Post => 2,
        NormPlacement::Sandwich => 4,
    }
}

/// Sum of the widths of the norms inside attention: of queries and keys, of latents.
pub(super) fn attention_norm_width(arch: &Architecture, tp: u64) -> u64 {
    let qk = match arch.norm.qk {
        QkNorm::None => 0,
        QkNorm::Head if arch.key_values == KeyValues::Earlier => arch.head_dim,
        QkNorm::Head => 2 * arch.head_dim,
        QkNorm::Full => rank_heads(arch, tp) * arch.head_dim + keys_values(arch, tp)[0],
    };
    let latent = arch
        .mla
        .map_or(0, |mla| mla.q_lora_rank.unwrap_or(0) + mla.kv_lora_rank);
    // Of the query latent and of the key.
    let compressed = arch
        .compressed
        .map_or(0, |compressed| compressed.query_rank + arch.head_dim);
    qk + latent + compressed
}

/// Parameters of a layer with linear attention on one rank, but for its norm of the residual stream.
pub(super) fn linear_attention_parameters(arch: &Architecture, tp: u64) -> u64 {
    let linears = linear_attention_linears(arch, tp);
    let own = arch
        .linear
        .map_or(0, |linear| rank_linear(&linear, tp).own_parameters());
    own + linears.iter().map(Linear::parameters).sum::<u64>()
}

/// Attention sinks per layer on one rank.
pub(super) fn sinks(arch: &Architecture, tp: u64) -> u64 {
    if arch.biases.sinks { rank_heads(arch, tp) } else { 0 }
}

/// How many layers of each kind the slowest (last) pipeline stage runs.
///
/// Layers with softmax attention count first, then those that are an MLP alone; the rest have linear attention. Leading dense layers of a mixture of experts leave the last stage as few of them as possible; dense layers between
/// those with experts, and layers with full attention, are spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageLayers {
    pub layers: u64,
    pub dense: u64,
    pub moe: u64,
    pub full_attention: u64,
    pub windowed: u64,
    /// Of those with softmax attention the ones that have an index of their own.
    pub indexed: u64,
    pub linear: u64,
    /// Stages of the pipeline.
    stages: u64,
    /// Whether embedding and head each take the place of one layer, so that the last stage has one layer less.
    pub head_is_a_layer: bool,
}

impl StageLayers {
    /// No layers: embedding and head alone.
    pub const NONE: Self = Self {
        layers: 0,
        dense: 0,
        moe: 0,
        full_attention: 0,
        windowed: 0,
        indexed: 0,
        linear: 0,
        stages: 1,
        head_is_a_layer: false,
    };

    /// Layers of the last stage of a workload: where in training they do not divide evenly but do with embedding and head
    /// counted as a layer each, they are divided so (Megatron-LM, `--account-for-embedding-in-pipeline-split`), else the
    /// last stage has no fewer than any other.
    pub fn of(arch: &Architecture, work: &Workload) -> Self {
        Self::divided(arch, work.pp, work.vp, work.trains())
    }

    /// The same of the last of `pp` stages with `vp` virtual stages each, in training.
    pub fn new(arch: &Architecture, pp: u64, vp: u64) -> Self {
        Self::divided(arch, pp, vp, true)
    }

    fn divided(arch: &Architecture, pp: u64, vp: u64, trains: bool) -> Self {
        let chunks = pp * vp;
        let head_is_a_layer =
            trains && pp > 1 && !arch.layers.is_multiple_of(chunks) && (arch.layers + 2).is_multiple_of(chunks);
        let layers = if head_is_a_layer {
            (arch.layers + 2) / pp
        } else {
            arch.layers.div_ceil(pp)
        };
        let whole = Self {
            stages: pp,
            head_is_a_layer,
            ..Self::NONE
        };
        whole.holding(arch, layers)
    }

    /// The same stage with so many layers.
    pub fn holding(self, arch: &Architecture, layers: u64) -> Self {
        let whole = Self {
            layers,
            stages: self.stages,
            head_is_a_layer: self.head_is_a_layer,
            ..Self::NONE
        };
        if arch.kinds.is_empty() {
            return whole.of_part(arch, layers);
        }
        whole.parts(arch).fold(whole, |sum, (_, part)| Self {
            dense: sum.dense + part.dense,
            moe: sum.moe + part.moe,
            full_attention: sum.full_attention + part.full_attention,
            windowed: sum.windowed + part.windowed,
            indexed: sum.indexed + part.indexed,
            linear: sum.linear + part.linear,
            ..sum
        })
    }

    /// The parts of the model with the layers that the stage runs of each: as many as its share of all layers, rounded so that
    /// their sum is that of the stage.
    pub fn parts(self, arch: &Architecture) -> impl Iterator<Item = (Cow<'_, Architecture>, Self)> {
        let until = move |layers: u64| (layers * self.layers).div_ceil(arch.layers);
        let mut before = 0;
        arch.parts().map(move |part| {
            let layers = until(before + part.layers) - until(before);
            before += part.layers;
            let stage = self.of_part(&part, layers);
            (part, stage)
        })
    }

    /// A stage with so many layers of a model whose layers are of one kind.
    fn of_part(self, arch: &Architecture, layers: u64) -> Self {
        let pp = self.stages;
        let attention = match arch.attention_layers() {
            all if all == arch.layers => layers,
            some => some.div_ceil(pp).min(layers),
        };
        let with_mlp = match arch.mlp_layers {
            None => layers,
            Some(alone) if alone == arch.layers => layers,
            Some(alone) => alone.div_ceil(pp).min(layers - attention),
        };
        let interval = arch.moe.map_or(1, |moe| moe.interval);
        let moe = arch.moe_layers().min(with_mlp.div_ceil(interval));
        let windows = arch.window.map_or(0, |window| window.layers);
        let full = arch.attention_layers().saturating_sub(windows);
        let full_attention = full.div_ceil(pp).min(attention);
        Self {
            layers,
            dense: with_mlp - moe,
            moe,
            full_attention,
            windowed: attention - full_attention,
            indexed: arch.index.map_or(0, |index| index.layers.div_ceil(pp).min(attention)),
            linear: match arch.mlp_layers {
                None if arch.linear.is_some_and(|linear| linear.beside) => layers,
                None => layers - attention,
                Some(_) => layers - attention - with_mlp,
            },
            ..self
        }
    }

    /// Layers with softmax attention.
    pub fn attention(&self) -> u64 {
        self.full_attention + self.windowed
    }

    /// Layers with attention of either kind.
    pub fn mixers(&self) -> u64 {
        self.attention() + self.linear
    }

    /// Layers with an MLP or experts.
    pub fn with_mlp(&self) -> u64 {
        self.dense + self.moe
    }

    /// How many of the layers recompute, where any do.
    pub fn recomputing(&self, work: &Workload) -> u64 {
        match work.recompute_layers {
            0 => self.layers,
            some => some.min(self.layers),
        }
    }

    /// How many of `times` repetitions over all layers are in layers that recompute.
    pub fn recomputed(&self, work: &Workload, times: u64) -> u64 {
        (times * self.recomputing(work)).div_ceil(self.layers)
    }
}
