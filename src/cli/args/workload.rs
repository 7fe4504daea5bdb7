//! What one step does and over how many GPUs it is spread, for every command that predicts whole models.

use super::{cached, dimension, dtype, one_of};
use crate::arch::AttentionKernel;
use crate::arch::Mode;
use crate::arch::Recompute;
use crate::ops::Dtype;
use crate::query::Extent;
use crate::query::workload::Workload;
use clap::Args;

/// A workload; what is left out depends on the architecture.
#[derive(Clone, Debug, Args)]
pub struct WorkloadArgs<E: Extent = u64> {
    /// What one step does.
    #[arg(long, default_value = "train", value_parser = one_of(Mode::ALL.iter().map(|mode| mode.name()), Mode::parse))]
    pub mode: Mode,
    /// Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    #[arg(long, value_name = "B", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub batch: Option<E>,
    /// Tokens per sequence [default: 2048 or what the position table holds]; in decode the cached ones, as --context.
    #[arg(long, value_name = "S", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub seq: Option<E>,
    /// Cached tokens per sequence [default: 2048 or what the position table leaves in decode, else 0].
    #[arg(long, value_name = "T", value_parser = cached::<E>, allow_negative_numbers = true)]
    pub context: Option<E>,
    /// Number format of the linear layers.
    #[arg(long, default_value = "bf16", value_parser = dtype())]
    pub dtype: Dtype,
    /// Tensor-parallel ranks.
    #[arg(long, default_value = "1", value_name = "T", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub tp: E,
    /// Pipeline stages.
    #[arg(long, default_value = "1", value_name = "P", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub pp: u64,
    /// Data-parallel replicas.
    #[arg(long, default_value = "1", value_name = "R", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub dp: u64,
    /// ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    #[arg(long, default_value = "0", value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// What the backward pass recomputes.
    #[arg(long, default_value = "none", value_parser = one_of(Recompute::ALL.iter().map(|kind| kind.name()), Recompute::parse))]
    pub recompute: Recompute,
    /// Fused or unfused attention.
    #[arg(long, default_value = "flash", value_parser = one_of(AttentionKernel::ALL.iter().map(|kind| kind.name()), AttentionKernel::parse))]
    pub attention: AttentionKernel,
    /// Micro-batches per step: they fill the pipeline and accumulate gradients.
    #[arg(long, default_value = "1", value_name = "N", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub microbatches: u64,
    /// Shard norms and residual adds over the tensor-parallel ranks too.
    #[arg(long)]
    pub sequence_parallel: bool,
}

impl<E: Extent> WorkloadArgs<E> {
    /// The question.
    pub fn query(&self) -> Workload<E> {
        Workload {
            mode: self.mode,
            batch: self.batch.clone(),
            seq: self.seq.clone(),
            context: self.context.clone(),
            dtype: self.dtype,
            tp: self.tp.clone(),
            pp: self.pp,
            dp: self.dp,
            zero: self.zero,
            recompute: self.recompute,
            attention: self.attention,
            microbatches: self.microbatches,
            sequence_parallel: self.sequence_parallel,
        }
    }
}
