//! VIA-Research/vTrain: training iterations of GPT models under Megatron-DeepSpeed on A100.
//!
//! What the table leaves open is in `config/validation` of the commit: activation checkpointing
//! is on, gradients are not bucketed (so not overlapped), servers of eight GPUs share 800 Gb/s of network,
//! and `src/config.py` sets the vocabulary to 50257 words.

use super::cells::Cells;
use super::{Publisher, Reason, Run, Runs, gpt, known_gpu};
use crate::arch::{Architecture, AttentionKernel, Biases, Positions, Recompute, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::{BytesPerSecond, Seconds};

/// What a table must have.
const COLUMNS: &[&str] = &[
    "gpu",
    "# GPUs",
    "global batch",
    "micro batch",
    "hidden size",
    "attention heads",
    "# layers",
    "sequence length",
    "tensor parallelism",
    "data parallelism",
    "pipeline parallelism",
    "iteration time (ms)",
];

/// Words of GPT-2's vocabulary.
const WORDS: u64 = 50_257;

/// Megatron pads the vocabulary to a multiple of this on every tensor-parallel rank.
const PADDING: u64 = 128;

/// The share of a GPU in the 800 Gb/s of its server of eight.
const NETWORK: BytesPerSecond = BytesPerSecond::from_bytes_per_sec(12.5e9);

/// One training iteration, which is one step of every replica.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    Runs::of_rows(file, COLUMNS, run)
}

fn run(cells: Cells<'_>) -> Result<Run, Reason> {
    let gpu = known_gpu(cells.text_or_empty("gpu")?)?;
    let [tp, dp, pp] = ["tensor", "data", "pipeline"].map(|kind| cells.size(&format!("{kind} parallelism")));
    let (tp, dp, pp) = (tp?, dp?, pp?);
    if tp * dp * pp != cells.size("# GPUs")? {
        return Err("the degrees of parallelism do not multiply to the GPUs".to_owned());
    }
    let (micro, global, seq) = (
        cells.size("micro batch")?,
        cells.size("global batch")?,
        cells.size("sequence length")?,
    );
    let each = micro * dp;
    if !global.is_multiple_of(each) {
        return Err("the micro-batches do not fill the batch".to_owned());
    }
    let workload = Workload {
        dtype: Dtype::Fp16,
        tp,
        pp,
        dp,
        recompute: Recompute::Full,
        attention: AttentionKernel::Unfused,
        microbatches: global / each,
        ..Workload::train(micro, seq)
    };
    let (hidden, heads) = (cells.size("hidden size")?, cells.size("attention heads")?);
    let architecture = megatron(hidden, heads, cells.size("# layers")?, tp, seq)?;
    let time = cells.number("iteration time (ms)")?.unwrap_or(0.0);
    Ok(Run {
        label: format!(
            "{}, tp {tp} x pp {pp} x dp {dp}, batch {} x {}, {seq} tokens",
            architecture.name, workload.batch, workload.microbatches
        ),
        network: Some(NETWORK),
        ..Run::step(
            Publisher::Vtrain,
            gpu,
            architecture,
            workload,
            Seconds::from_secs(time * 1e-3),
        )
    })
}

/// Megatron's GPT: learned positions, biases everywhere but in the tied head.
fn megatron(hidden: u64, heads: u64, layers: u64, tp: u64, seq: u64) -> Result<Architecture, Reason> {
    let name = format!("gpt-{hidden}x{layers}");
    let vocab = WORDS.next_multiple_of(PADDING * tp);
    Ok(Architecture {
        positions: Positions::Learned { max: seq },
        biases: Biases::ALL_BUT_HEAD,
        ..gpt(&name, hidden, heads, layers, 4 * hidden, vocab)?
    })
}
