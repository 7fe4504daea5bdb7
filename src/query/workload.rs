//! What one step does and over how many GPUs it is spread, with defaults that fit the architecture.

use crate::arch;
use crate::arch::Architecture;
use crate::arch::AttentionKernel;
use crate::arch::Mode;
use crate::arch::Positions;
use crate::arch::Recompute;
use crate::error::Error;
use crate::error::Result;
use crate::ops::Dtype;
use crate::query::Extent;

/// New tokens per sequence in training and prefill, and cached tokens in decode, unless told otherwise.
const USUAL_SEQUENCE: u64 = 2048;

/// A workload; what is left out depends on the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields of `arch::Workload`
pub struct Workload<E: Extent = u64> {
    pub mode: Mode,
    /// 4 in training, 1 in prefill, 8 in decode where left out.
    pub batch: Option<E>,
    /// In decode the cached tokens, as `context`.
    pub seq: Option<E>,
    pub context: Option<E>,
    pub dtype: Dtype,
    pub tp: E,
    pub pp: u64,
    pub dp: u64,
    pub zero: u8,
    pub recompute: Recompute,
    pub attention: AttentionKernel,
    pub microbatches: u64,
    pub sequence_parallel: bool,
}

impl<E: Extent> Workload<E> {
    /// The same workload with other sizes; each is asked for by its key.
    pub fn map<F: Extent>(&self, mut size: impl FnMut(&'static str, &E) -> F) -> Workload<F> {
        Workload {
            mode: self.mode,
            batch: self.batch.as_ref().map(|batch| size("batch", batch)),
            seq: self.seq.as_ref().map(|seq| size("seq", seq)),
            context: self
                .context
                .as_ref()
                .map(|context| size("context", context)),
            dtype: self.dtype,
            tp: size("tp", &self.tp),
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

impl Workload {
    /// The workload on this architecture; fails where it cannot run on it.
    pub fn on(&self, architecture: &Architecture) -> Result<arch::Workload> {
        let workload = self.described(architecture)?;
        workload.validate(architecture)?;
        Ok(workload)
    }

    /// The workload on this architecture, whether or not it can run.
    pub fn described(&self, architecture: &Architecture) -> Result<arch::Workload> {
        let decode = self.mode == Mode::Decode;
        if decode
            && let (Some(seq), Some(context)) = (self.seq, self.context)
            && seq != 1
            && seq != context
        {
            let allowed = format!(
                "what context says, {context}, or nothing: in decode both are the cached tokens"
            );
            return Err(Error::field("decode", "seq", seq, &allowed));
        }
        let room = match architecture.positions {
            Positions::Learned { max } => max,
            _ => u64::MAX,
        };
        // A decoding step makes one new token, so there `seq` can only mean what is cached.
        let cached = self.context.or(self.seq.filter(|_| decode));
        let context = cached.unwrap_or(if decode {
            USUAL_SEQUENCE.min(room - 1)
        } else {
            0
        });
        let (batch, seq) = match self.mode {
            Mode::Train => (4, USUAL_SEQUENCE),
            Mode::Prefill => (1, USUAL_SEQUENCE),
            Mode::Decode => (8, 1),
        };
        Ok(arch::Workload {
            mode: self.mode,
            batch: self.batch.unwrap_or(batch),
            seq: self
                .seq
                .filter(|_| !decode)
                .unwrap_or(seq.min(room.saturating_sub(context)).max(1)),
            context,
            dtype: self.dtype,
            tp: self.tp,
            pp: self.pp,
            dp: self.dp,
            zero: self.zero,
            recompute: self.recompute,
            attention: self.attention,
            sequence_parallel: self.sequence_parallel,
            microbatches: self.microbatches,
        })
    }
}
