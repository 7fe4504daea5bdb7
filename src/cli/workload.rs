//! The workload that a command line describes, with defaults that fit the architecture.

use crate::arch::Architecture;
use crate::arch::Mode;
use crate::arch::Positions;
use crate::arch::Workload;
use crate::cli::args::workload::WorkloadArgs;
use crate::error::Error;
use crate::error::Result;

/// New tokens per sequence in training and prefill, and cached tokens in decode, unless told otherwise.
const USUAL_SEQUENCE: u64 = 2048;

/// The workload that was asked for, with defaults that fit the architecture.
///
/// Fails where it cannot run on the architecture.
pub(super) fn workload(args: &WorkloadArgs, architecture: &Architecture) -> Result<Workload> {
    let workload = described(args, architecture)?;
    workload.validate(architecture)?;
    Ok(workload)
}

/// The workload that was asked for, whether or not it can run.
pub(super) fn described(args: &WorkloadArgs, architecture: &Architecture) -> Result<Workload> {
    if args.mode == Mode::Decode
        && let (Some(seq), Some(context)) = (args.seq, args.context)
        && seq != 1
        && seq != context
    {
        let allowed = format!(
            "what --context says, {context}, or nothing: in decode both are the cached tokens"
        );
        return Err(Error::field("decode", "--seq", seq, &allowed));
    }
    let room = match architecture.positions {
        Positions::Learned { max } => max,
        _ => u64::MAX,
    };
    let decode = args.mode == Mode::Decode;
    // A decoding step makes one new token, so there `--seq` can only mean what is cached.
    let cached = args.context.or(args.seq.filter(|_| decode));
    let context = cached.unwrap_or(if decode {
        USUAL_SEQUENCE.min(room - 1)
    } else {
        0
    });
    let (batch, seq) = match args.mode {
        Mode::Train => (4, USUAL_SEQUENCE),
        Mode::Prefill => (1, USUAL_SEQUENCE),
        Mode::Decode => (8, 1),
    };
    Ok(Workload {
        mode: args.mode,
        batch: args.batch.unwrap_or(batch),
        seq: args
            .seq
            .filter(|_| !decode)
            .unwrap_or(seq.min(room.saturating_sub(context)).max(1)),
        context,
        dtype: args.dtype,
        tp: args.tp,
        pp: args.pp,
        dp: args.dp,
        zero: args.zero,
        recompute: args.recompute,
        attention: args.attention,
        sequence_parallel: args.sequence_parallel,
        microbatches: args.microbatches,
    })
}
