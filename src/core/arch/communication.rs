//! The collectives of a step: tensor, context, expert, pipeline and data parallelism.
//!
//! Tensor parallelism follows Megatron-LM (arXiv 1909.08053): one all-reduce per block and direction,
//! two blocks per layer, one with parallel layers. Sequence parallelism (arXiv 2205.05198) splits
//! each into a reduce-scatter and an all-gather and gathers the sharded inputs once more in backward. In fp8 what a linear
//! map takes is cast before it is gathered, one byte an element; sums stay in 16 bits (Transformer Engine, `LayerNormLinear`
//! and `LayerNormMLP`). Under autocast the embedding gives fp32, and is summed so.
//! ZeRO follows arXiv 1910.02054: stage 1 scatters gradients once per step, stages 2 and 3 after every
//! micro-batch, stage 3 gathers weights for forward and again for backward.
//! Context parallelism passes keys and values around a ring, their gradients too in backward (arXiv 2310.01889).
//! Expert parallelism sends each token once to every rank that holds one of its experts and back (Megatron-Core,
//! all-to-all dispatcher).

use super::layer::{StageLayers, rank_heads, rank_kv_heads};
use super::placement::Group;
use super::step::{Phase, Role};
use super::{Architecture, Recompute, Workload};
use crate::ops::{Collective, CollectiveKind, Op};

/// Calls `push(role, phase, op, count)` for every collective of the last pipeline stage.
pub(super) fn collectives(
    arch: &Architecture,
    work: &Workload,
    stage: StageLayers,
    mut push: impl FnMut(Role, Phase, Op, u64),
) {
    tensor_parallel(arch, work, stage, &mut push);
    context_parallel(arch, work, stage, &mut push);
    expert_parallel(arch, work, stage, &mut push);
    pipeline_parallel(arch, work, &mut push);
    if work.trains() {
        data_parallel(arch, work, stage, &mut push);
    }
}

fn collective(kind: CollectiveKind, bytes: u64, group: Group) -> Op {
    Op::Collective(Collective {
        stride: group.stride,
        ..Collective::new(kind, bytes, group.size)
    })
}

fn hidden_bytes(arch: &Architecture, work: &Workload) -> u64 {
    work.rank_tokens() * arch.hidden * work.activation_dtype().size()
}

fn tensor_parallel(
    arch: &Architecture,
    work: &Workload,
    stage: StageLayers,
    push: &mut impl FnMut(Role, Phase, Op, u64),
) {
    if work.tp == 1 {
        return;
    }
    let micro = work.microbatches;
    let wide = hidden_bytes(arch, work);
    // Blocks that begin with a linear map, and those of experts, which begin with a router.
    let (linear, routed) = match (arch.parallel_layers, work.expert_ranks() == work.tp) {
        (true, _) => (stage.mixers(), 0),
        (false, true) => (stage.mixers() + stage.dense, stage.moe),
        // Experts that are not split take whole tokens from the dispatch.
        (false, false) => (stage.mixers() + stage.dense, 0),
    };
    let blocks = linear + routed;
    let first = u64::from(work.pp == 1);
    // What the embedding gives is of the residual stream, which under autocast stays in fp32.
    let embedded = work.rank_tokens() * arch.hidden * work.weight_dtype().size();
    let mut exchange = |phase, kind, bytes, count: u64| {
        if count > 0 {
            let op = collective(kind, bytes, work.tensor_group());
            push(Role::TensorParallel, phase, op, count * micro);
        }
    };
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let again = |count| match work.recompute {
        Recompute::Full => stage.recomputed(work, count),
        _ => 0,
    };
    let recomputed = again(blocks);
    if work.sequence_parallel {
        let narrow = work.rank_tokens() * arch.hidden * work.dtype.size();
        // `casts` gathers of what linear maps take, `whole` others, and reduce-scatters.
        let mut split = |phase, casts, whole, scatters| {
            exchange(phase, AllGather, narrow, casts);
            exchange(phase, AllGather, wide, whole);
            exchange(phase, ReduceScatter, wide, scatters);
        };
        // Forward: gather before each block and before the head, scatter after each block and, below, after the embedding.
        split(Phase::Forward, linear, routed + 1, blocks);
        let whole = again(routed);
        split(Phase::Recompute, recomputed - whole, whole, recomputed);
        if work.trains() {
            split(Phase::Backward, 2 * linear, 2 * routed + 1, blocks + 1);
            exchange(Phase::Backward, AllGather, embedded, first);
        }
        exchange(Phase::Forward, ReduceScatter, embedded, first);
    } else {
        exchange(Phase::Forward, AllReduce, embedded, first);
        exchange(Phase::Forward, AllReduce, wide, blocks);
        exchange(Phase::Recompute, AllReduce, wide, recomputed);
        if work.trains() {
            exchange(Phase::Backward, AllReduce, wide, blocks + 1);
        }
    }
    if !work.trains() {
        let bytes = work.head_rows() * arch.vocab * work.activation_dtype().size();
        let op = collective(AllGather, bytes, work.tensor_group());
        push(Role::TensorParallel, Phase::Forward, op, micro);
    }
}

/// Each rank passes its keys and values on `cp - 1` times; backward passes on their gradients beside them.
fn context_parallel(
    arch: &Architecture,
    work: &Workload,
    stage: StageLayers,
    push: &mut impl FnMut(Role, Phase, Op, u64),
) {
    if work.cp == 1 {
        return;
    }
    for (arch, part) in stage.parts(arch) {
        let heads = match arch.mla {
            Some(_) => rank_heads(&arch, work.tp),
            None => rank_kv_heads(&arch, work.tp),
        };
        let width = heads * (arch.head_dim + arch.value_dim());
        let bytes = work.rank_tokens() * width * work.activation_dtype().size();
        let op = collective(CollectiveKind::SendReceive, bytes, work.context_group());
        let times = part.attention() * (work.cp - 1) * work.microbatches;
        push(Role::ContextParallel, Phase::Forward, op, times);
        if work.recompute == Recompute::Full {
            let again = stage.recomputed(work, times);
            push(Role::ContextParallel, Phase::Recompute, op, again);
        }
        if work.trains() {
            push(Role::ContextParallel, Phase::Backward, op, 2 * times);
        }
    }
}

/// Tokens travel to their experts and back, forward and backward; `n` ranks of which `k` are drawn at random are
/// `n (1 - (1 - 1/n)^k)` different ones.
fn expert_parallel(
    arch: &Architecture,
    work: &Workload,
    stage: StageLayers,
    push: &mut impl FnMut(Role, Phase, Op, u64),
) {
    let Some(moe) = arch.moe.filter(|_| work.ep > 1) else {
        return;
    };
    let ranks = work.ep as f64;
    let visited = ranks * (1.0 - (1.0 - 1.0 / ranks).powf(moe.top_k as f64));
    let width = moe.routed_width(arch.hidden) as f64 / arch.hidden as f64;
    let sent = hidden_bytes(arch, work) as f64 * width;
    let tokens = sent * work.expert_ranks() as f64 / work.tp as f64;
    let bytes = (tokens * visited) as u64;
    let op = collective(CollectiveKind::AllToAll, bytes, work.expert_group());
    let times = 2 * stage.moe * work.microbatches;
    push(Role::ExpertParallel, Phase::Forward, op, times);
    let again = match work.recompute {
        Recompute::Full => times,
        // What the down projections give is not needed again.
        Recompute::Mlp => times / 2,
        _ => 0,
    };
    push(
        Role::ExpertParallel,
        Phase::Recompute,
        op,
        stage.recomputed(work, again),
    );
    if work.trains() {
        push(Role::ExpertParallel, Phase::Backward, op, times);
    }
}

fn pipeline_parallel(arch: &Architecture, work: &Workload, push: &mut impl FnMut(Role, Phase, Op, u64)) {
    if work.pp == 1 {
        return;
    }
    let bytes = work.residual_rows() * arch.hidden * work.weight_dtype().size();
    let op = collective(CollectiveKind::SendReceive, bytes, work.pipeline_group());
    let times = work.microbatches * work.vp;
    push(Role::PipelineParallel, Phase::Forward, op, times);
    if work.trains() {
        push(Role::PipelineParallel, Phase::Backward, op, times);
    }
}

fn data_parallel(
    arch: &Architecture,
    work: &Workload,
    stage: StageLayers,
    push: &mut impl FnMut(Role, Phase, Op, u64),
) {
    let first = work.pp == 1;
    let [trained, experts] = work.trained(arch, stage, first, true);
    let [frozen, frozen_experts] = work.frozen_bytes(arch, stage, first, true);
    for (trained, frozen, group) in [
        (trained - experts, frozen - frozen_experts, work.data_group()),
        (experts, frozen_experts, work.expert_data_group()),
    ] {
        let bytes = trained * work.trained_dtype().size();
        let frozen = if work.zero == 3 { frozen as u64 } else { 0 };
        if group.size > 1 && bytes + frozen > 0 {
            replicas(work, [bytes + frozen, bytes], group, push);
        }
    }
}

/// What replicas exchange per step: so many bytes of weights, and of what is trained of them.
fn replicas(work: &Workload, [weights, trained]: [u64; 2], group: Group, push: &mut impl FnMut(Role, Phase, Op, u64)) {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let mut data = |phase, kind, count| {
        let bytes = if kind == AllGather { weights } else { trained };
        let op = collective(kind, bytes, group);
        push(Role::DataParallel, phase, op, count);
    };
    match work.zero {
        0 => data(Phase::Update, AllReduce, 1),
        1 => {
            data(Phase::Update, ReduceScatter, 1);
            data(Phase::Update, AllGather, 1);
        }
        2 => {
            data(Phase::Backward, ReduceScatter, work.microbatches);
            data(Phase::Update, AllGather, 1);
        }
        _ => {
            data(Phase::Forward, AllGather, work.microbatches);
            data(Phase::Backward, AllGather, work.microbatches);
            data(Phase::Backward, ReduceScatter, work.microbatches);
        }
    }
}
