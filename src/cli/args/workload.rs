//! What one step does and over how many GPUs it is spread, for every command that predicts whole models.

use super::{Extent, dimension, dtype, one_of};
use crate::arch::AttentionKernel;
use crate::arch::Mode;
use crate::arch::Recompute;
use crate::op::Dtype;
use clap::Args;

/// A workload; what is left out depends on the architecture.
#[derive(Clone, Debug, Args)]
pub struct WorkloadArgs<E: Extent = u64> {
    /// What one step does.
    #[arg(long, default_value = "train", value_parser = one_of(Mode::ALL.iter().map(|mode| mode.name()), Mode::parse))]
    pub mode: Mode,
    /// Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    #[arg(long, value_name = "B", value_parser = E::dimension, allow_negative_numbers = true)]
    pub batch: Option<E>,
    /// Tokens per sequence [default: 2048 or what the position table holds]; in decode the cached ones, as --context.
    #[arg(long, value_name = "S", value_parser = E::dimension, allow_negative_numbers = true)]
    pub seq: Option<E>,
    /// Cached tokens per sequence [default: 2048 or what the position table leaves in decode, else 0].
    #[arg(long, value_name = "T", value_parser = E::cached, allow_negative_numbers = true)]
    pub context: Option<E>,
    /// Number format of the linear layers.
    #[arg(long, default_value = "bf16", value_parser = dtype())]
    pub dtype: Dtype,
    /// Tensor-parallel ranks.
    #[arg(long, default_value = "1", value_name = "T", value_parser = E::dimension, allow_negative_numbers = true)]
    pub tp: E,
    /// Pipeline stages.
    #[arg(long, default_value = "1", value_name = "P", value_parser = dimension, allow_negative_numbers = true)]
    pub pp: u64,
    /// Data-parallel replicas.
    #[arg(long, default_value = "1", value_name = "R", value_parser = dimension, allow_negative_numbers = true)]
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
    #[arg(long, default_value = "1", value_name = "N", value_parser = dimension, allow_negative_numbers = true)]
    pub microbatches: u64,
    /// Shard norms and residual adds over the tensor-parallel ranks too.
    #[arg(long)]
    pub sequence_parallel: bool,
}

impl<E: Extent> WorkloadArgs<E> {
    /// The same workload with other sizes; each is asked for by its option.
    pub fn map<F: Extent>(&self, mut size: impl FnMut(&'static str, &E) -> F) -> WorkloadArgs<F> {
        WorkloadArgs {
            mode: self.mode,
            batch: self.batch.as_ref().map(|batch| size("--batch", batch)),
            seq: self.seq.as_ref().map(|seq| size("--seq", seq)),
            context: self
                .context
                .as_ref()
                .map(|context| size("--context", context)),
            dtype: self.dtype,
            tp: size("--tp", &self.tp),
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
