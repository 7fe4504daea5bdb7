//! The collectives of a step: tensor, pipeline and data parallelism.
//!
//! Tensor parallelism follows Megatron-LM (arXiv 1909.08053): one all-reduce per block and direction,
//! two blocks per layer, one with parallel layers. Sequence parallelism (arXiv 2205.05198) splits
//! each into a reduce-scatter and an all-gather and gathers the sharded inputs once more in backward.
//! ZeRO follows arXiv 1910.02054: stage 1 scatters gradients once per step, stages 2 and 3 after every
//! micro-batch, stage 3 gathers weights for forward and again for backward.

use super::layer::StageLayers;
use super::params::rank_parameters;
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
    pipeline_parallel(arch, work, &mut push);
    if work.trains() {
        data_parallel(arch, work, stage, &mut push);
    }
}

fn collective(kind: CollectiveKind, bytes: u64, ranks: u64) -> Op {
    Op::Collective(Collective { kind, bytes, ranks })
}

fn hidden_bytes(arch: &Architecture, work: &Workload) -> u64 {
    work.tokens() * arch.hidden * work.activation_dtype().size()
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
    let bytes = hidden_bytes(arch, work);
    let blocks = stage.layers * if arch.parallel_layers { 1 } else { 2 };
    let first = u64::from(work.pp == 1);
    let mut tensor = |phase, kind, count: u64| {
        if count > 0 {
            let op = collective(kind, bytes, work.tp);
            push(Role::TensorParallel, phase, op, count * micro);
        }
    };
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let recomputed = if work.recompute == Recompute::Full {
        blocks
    } else {
        0
    };
    if work.sequence_parallel {
        // Forward: gather before each block and before the head, scatter after each block and the embedding.
        tensor(Phase::Forward, AllGather, blocks + 1);
        tensor(Phase::Forward, ReduceScatter, blocks + first);
        tensor(Phase::Recompute, AllGather, recomputed);
        tensor(Phase::Recompute, ReduceScatter, recomputed);
        if work.trains() {
            tensor(Phase::Backward, AllGather, 2 * blocks + first + 1);
            tensor(Phase::Backward, ReduceScatter, blocks + 1);
        }
    } else {
        tensor(Phase::Forward, AllReduce, blocks + first);
        tensor(Phase::Recompute, AllReduce, recomputed);
        if work.trains() {
            tensor(Phase::Backward, AllReduce, blocks + 1);
        }
    }
    if !work.trains() {
        let bytes = work.batch * arch.vocab * work.activation_dtype().size();
        let op = collective(AllGather, bytes, work.tp);
        push(Role::TensorParallel, Phase::Forward, op, micro);
    }
}

fn pipeline_parallel(
    arch: &Architecture,
    work: &Workload,
    push: &mut impl FnMut(Role, Phase, Op, u64),
) {
    if work.pp == 1 {
        return;
    }
    let bytes = work.residual_rows() * arch.hidden * work.activation_dtype().size();
    let op = collective(CollectiveKind::SendReceive, bytes, 2);
    push(
        Role::PipelineParallel,
        Phase::Forward,
        op,
        work.microbatches,
    );
    if work.trains() {
        push(
            Role::PipelineParallel,
            Phase::Backward,
            op,
            work.microbatches,
        );
    }
}

fn data_parallel(
    arch: &Architecture,
    work: &Workload,
    stage: StageLayers,
    push: &mut impl FnMut(Role, Phase, Op, u64),
) {
    if work.dp == 1 {
        return;
    }
    let weights = rank_parameters(arch, work.tp, stage, work.pp == 1, true);
    let bytes = weights * work.activation_dtype().size();
    let mut data = |phase, kind, count| {
        push(
            Role::DataParallel,
            phase,
            collective(kind, bytes, work.dp),
            count,
        );
    };
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
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
