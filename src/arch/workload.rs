//! What is run on an architecture, and over how many GPUs.

use super::{Architecture, Dimension, Positions};
use crate::error::{Error, Result};
use crate::ops::Dtype;
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

named_enum! {
    /// What one step does.
    #[derive(Default)]
    Mode {
        /// Forward, backward and optimizer step.
        #[default]
        Train = "train",
        /// Forward over a prompt; logits of the last position only, as serving engines do.
        Prefill = "prefill",
        /// One new token per sequence against a key/value cache.
        Decode = "decode",
    }
}

named_enum! {
    /// Which activations the backward pass recomputes (Korthikanti et al., arXiv 2205.05198).
    #[derive(Default)]
    Recompute {
        /// Everything is kept.
        #[default]
        None = "none",
        /// The attention core runs again; with flash attention this saves nothing that flash has not saved.
        Selective = "selective",
        /// Only layer inputs are kept and each layer runs forward again.
        Full = "full",
    }
}

named_enum! {
    /// How attention is executed.
    #[derive(Default)]
    AttentionKernel {
        /// One fused kernel; training without dropout, as models are pre-trained today.
        #[default]
        Flash = "flash",
        /// Score GEMM, mask, softmax, dropout, value GEMM; training with dropout on scores and residuals.
        Unfused = "unfused",
    }
}

/// One step of one model replica and how it is spread over GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ToSchema)]
pub struct Workload {
    /// Train, prefill or decode.
    pub mode: Mode,
    /// Sequences per micro-batch and replica.
    pub batch: u64,
    /// New tokens per sequence; 1 in decode.
    pub seq: u64,
    /// Tokens per sequence that are already cached; 0 in training.
    pub context: u64,
    /// Operand format of the linear maps. With `fp8` everything else (attention, head, router,
    /// memory-bound kernels, cache) stays bf16.
    pub dtype: Dtype,
    /// Tensor-parallel ranks.
    pub tp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// Data-parallel replicas.
    pub dp: u64,
    /// ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    pub zero: u8,
    /// What the backward pass recomputes.
    pub recompute: Recompute,
    /// Fused or unfused attention.
    pub attention: AttentionKernel,
    /// Shards norms and residual adds over the tensor-parallel ranks too.
    pub sequence_parallel: bool,
    /// Micro-batches per step: they fill the pipeline and accumulate gradients.
    pub microbatches: u64,
}

/// Bounds that keep every count below 2^64.
pub(super) const MAX_BATCH: u64 = 1 << 20;
pub(super) const MAX_SEQUENCE: u64 = 1 << 26;
const MAX_TOKENS: u64 = 1 << 32;
pub(super) const MAX_RANKS: u64 = 1 << 20;

impl Workload {
    /// A training step of `batch` sequences of `seq` tokens on one GPU, bf16, flash attention.
    pub const fn train(batch: u64, seq: u64) -> Self {
        Self {
            mode: Mode::Train,
            batch,
            seq,
            context: 0,
            dtype: Dtype::Bf16,
            tp: 1,
            pp: 1,
            dp: 1,
            zero: 0,
            recompute: Recompute::None,
            attention: AttentionKernel::Flash,
            sequence_parallel: false,
            microbatches: 1,
        }
    }

    /// The prompt pass of `batch` sequences of `seq` tokens on one GPU.
    pub const fn prefill(batch: u64, seq: u64) -> Self {
        Self {
            mode: Mode::Prefill,
            ..Self::train(batch, seq)
        }
    }

    /// One new token for each of `batch` sequences with `context` cached tokens, on one GPU.
    pub const fn decode(batch: u64, context: u64) -> Self {
        Self {
            mode: Mode::Decode,
            context,
            ..Self::train(batch, 1)
        }
    }

    /// Tokens of one micro-batch.
    pub const fn tokens(&self) -> u64 {
        self.batch * self.seq
    }

    /// Keys that the last query sees: cached and new tokens.
    pub const fn keys(&self) -> u64 {
        self.context + self.seq
    }

    /// Whether a backward pass follows.
    pub fn trains(&self) -> bool {
        self.mode == Mode::Train
    }

    /// Format of activations and of every GEMM that stays out of fp8.
    pub fn activation_dtype(&self) -> Dtype {
        match self.dtype {
            Dtype::Fp8 => Dtype::Bf16,
            other => other,
        }
    }

    /// Rows of the residual stream that one rank normalises and adds.
    pub(super) fn residual_rows(&self) -> u64 {
        if self.sequence_parallel {
            self.tokens() / self.tp
        } else {
            self.tokens()
        }
    }

    /// Checks that this workload can run on this architecture.
    pub fn validate(&self, arch: &Architecture) -> Result<()> {
        for dimension in Dimension::of_workload() {
            let [least, mut most] = dimension.limits();
            if *dimension == Dimension::Pp {
                most = arch.layers;
            }
            let value = dimension.get(arch, self);
            if value < least || value > most {
                return fail(dimension.field(), value, &format!("{least} to {most}"));
            }
        }
        if self.batch * self.keys() > MAX_TOKENS {
            let allowed = format!("at most {MAX_TOKENS} tokens in all");
            return fail("batch", self.batch, &allowed);
        }
        if let Positions::Learned { max } = arch.positions
            && self.keys() > max
        {
            let allowed = format!("at most {max} with the context, the rows of the position table");
            return fail("seq", self.seq, &allowed);
        }
        self.validate_mode()?;
        self.validate_ranks(arch)
    }

    fn validate_mode(&self) -> Result<()> {
        match self.mode {
            Mode::Train if self.context > 0 => fail("context", self.context, "0 in training"),
            Mode::Decode if self.seq != 1 => fail(
                "seq",
                self.seq,
                "1 in decode; the cached tokens are `context`",
            ),
            Mode::Prefill | Mode::Decode if self.recompute != Recompute::None => {
                fail("recompute", self.recompute, "`none` outside training")
            }
            Mode::Prefill | Mode::Decode if self.zero > 0 => {
                fail("zero", self.zero, "0 outside training")
            }
            _ => Ok(()),
        }
    }

    fn validate_ranks(&self, arch: &Architecture) -> Result<()> {
        let tp = self.tp;
        let moe = arch.moe;
        for (name, width) in [
            ("heads", arch.heads),
            ("mlp.d_ff", arch.mlp.d_ff),
            ("moe.d_ff", moe.map_or(0, |moe| moe.d_ff)),
            ("moe.shared_d_ff", moe.map_or(0, |moe| moe.shared_d_ff)),
        ] {
            if !width.is_multiple_of(tp) {
                return fail("tp", tp, &format!("a divisor of {name} = {width}"));
            }
        }
        let kv = arch.kv_heads;
        if !kv.is_multiple_of(tp) && !tp.is_multiple_of(kv) {
            return fail(
                "tp",
                tp,
                &format!("a divisor or a multiple of kv_heads = {kv}"),
            );
        }
        if self.sequence_parallel && !self.tokens().is_multiple_of(tp) {
            let allowed = format!(
                "a divisor of batch x seq = {} with sequence parallelism",
                self.tokens()
            );
            return fail("tp", tp, &allowed);
        }
        Ok(())
    }
}

/// `train: batch 4, seq 2048, bf16, flash attention`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: batch {}, seq {}", self.mode, self.batch, self.seq)?;
        if self.context > 0 {
            write!(f, ", context {}", self.context)?;
        }
        write!(f, ", {}", self.dtype)?;
        for (name, value) in [
            ("tp", self.tp),
            ("pp", self.pp),
            ("dp", self.dp),
            ("micro-batches", self.microbatches),
        ] {
            if value > 1 {
                write!(f, ", {name} {value}")?;
            }
        }
        if self.zero > 0 {
            write!(f, ", ZeRO {}", self.zero)?;
        }
        if self.recompute != Recompute::None {
            write!(f, ", {} recompute", self.recompute)?;
        }
        if self.sequence_parallel {
            write!(f, ", sequence parallel")?;
        }
        write!(f, ", {} attention", self.attention)
    }
}

fn fail(field: &str, value: impl std::fmt::Display, allowed: &str) -> Result<()> {
    Err(Error::field("workload", field, value, allowed))
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn impossible_workloads_are_refused_by_field() {
        let train = Workload::train(1, 1024);
        for (name, work, part) in [
            ("gpt2", Workload::train(1, 1025), "`seq` is 1025"),
            ("gpt2", Workload::decode(1, 1024), "position table"),
            (
                "gpt2",
                Workload { tp: 5, ..train },
                "a divisor of heads = 12",
            ),
            (
                "llama-3-8b",
                Workload { batch: 0, ..train },
                "`batch` is 0; allowed: 1 to",
            ),
            (
                "llama-3-8b",
                Workload { pp: 33, ..train },
                "`pp` is 33; allowed: 1 to 32",
            ),
            (
                "llama-3-8b",
                Workload { zero: 4, ..train },
                "`zero` is 4; allowed: 0 to 3",
            ),
            (
                "llama-3-8b",
                Workload {
                    seq: 2,
                    ..Workload::decode(1, 10)
                },
                "1 in decode",
            ),
            (
                "llama-3-8b",
                Workload {
                    recompute: Recompute::Full,
                    ..Workload::prefill(1, 10)
                },
                "`recompute` is full",
            ),
            (
                "llama-3-8b",
                Workload {
                    tp: 8,
                    sequence_parallel: true,
                    seq: 1001,
                    ..train
                },
                "sequence parallelism",
            ),
            (
                "llama-3-8b",
                Workload {
                    batch: 1 << 20,
                    seq: 1 << 20,
                    ..train
                },
                "tokens in all",
            ),
        ] {
            let arch = &Preset::find(name).unwrap().architecture;
            let message = work.validate(arch).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn fewer_key_heads_than_ranks_are_replicated() {
        let arch = &Preset::find("llama-3-8b").unwrap().architecture;
        let work = Workload {
            tp: 16,
            ..Workload::prefill(1, 128)
        };
        work.validate(arch).unwrap();
    }

    #[test]
    fn names_round_trip() {
        assert!(Mode::ALL.iter().all(|&m| Mode::parse(m.name()) == Some(m)));
        assert_eq!(Recompute::parse("full"), Some(Recompute::Full));
        assert_eq!(AttentionKernel::parse("paged"), None);
    }
}
