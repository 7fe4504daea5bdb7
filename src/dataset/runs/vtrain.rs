//! VIA-Research/vTrain: training iterations of GPT models under Megatron-DeepSpeed on A100.
//!
//! What the table leaves open stands in `config/validation` of the commit: activation checkpointing
//! is on, gradients are not bucketed (so not overlapped), servers of eight GPUs share 800 Gb/s of network,
//! and `src/config.py` sets the vocabulary to 50257 words.

use super::{Publisher, Reason, Run, Runs, gpt, known_gpu};
use crate::arch::{Architecture, AttentionKernel, Biases, Positions, Recompute, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::{BytesPerSecond, Seconds};

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
    let mut runs = Runs::default();
    for batch in file.batches(COLUMNS, None)? {
        let batch = batch?;
        let count = |column| batch.counts(column);
        let gpu = batch.texts("gpu")?;
        let (gpus, global, micro) = (count("# GPUs")?, count("global batch")?, count("micro batch")?);
        let (hidden, heads) = (count("hidden size")?, count("attention heads")?);
        let (layers, seq) = (count("# layers")?, count("sequence length")?);
        let (tp, dp, pp) = (
            count("tensor parallelism")?,
            count("data parallelism")?,
            count("pipeline parallelism")?,
        );
        let times = batch.numbers("iteration time (ms)")?;
        let read_row = |row: usize| -> std::result::Result<Run, Reason> {
            let gpu = known_gpu(gpu.get(row).unwrap_or("null"))?;
            let (tp, dp, pp) = (tp.size(row), dp.size(row), pp.size(row));
            if tp * dp * pp != gpus.size(row) {
                return Err("the degrees of parallelism do not multiply to the GPUs".to_owned());
            }
            let each = micro.size(row) * dp;
            if each == 0 || !global.size(row).is_multiple_of(each) {
                return Err("the micro-batches do not fill the batch".to_owned());
            }
            let seq = seq.size(row);
            let workload = Workload {
                dtype: Dtype::Fp16,
                tp,
                pp,
                dp,
                recompute: Recompute::Full,
                attention: AttentionKernel::Unfused,
                microbatches: global.size(row) / each,
                ..Workload::train(micro.size(row), seq)
            };
            let architecture = megatron(hidden.size(row), heads.size(row), layers.size(row), tp, seq)?;
            let time = times.time(row, Seconds::from_secs(1e-3));
            Ok(Run {
                label: format!(
                    "{}, tp {tp} x pp {pp} x dp {dp}, batch {} x {}, {seq} tokens",
                    architecture.name, workload.batch, workload.microbatches
                ),
                network: Some(NETWORK),
                ..Run::step(Publisher::Vtrain, gpu, architecture, workload, time)
            })
        };
        (0..batch.len()).for_each(|row| runs.keep(read_row(row)));
    }
    Ok(runs)
}

/// Megatron's GPT: learned positions, biases everywhere but in the tied head.
fn megatron(hidden: u64, heads: u64, layers: u64, tp: u64, seq: u64) -> std::result::Result<Architecture, Reason> {
    let name = format!("gpt-{hidden}x{layers}");
    let vocab = WORDS.next_multiple_of(PADDING * tp.max(1));
    Ok(Architecture {
        positions: Positions::Learned { max: seq },
        biases: Biases::ALL_BUT_HEAD,
        ..gpt(&name, hidden, heads, layers, 4 * hidden, vocab)?
    })
}
