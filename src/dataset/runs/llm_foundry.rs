//! mosaicml/llm-foundry: throughput of MPT models under FSDP (`scripts/train/benchmarking`).

use super::cells::Cells;
use super::{Publisher, Reason, Run, Runs, gpt, known_gpu};
use crate::arch::{Architecture, Positions, Recompute, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::units::Seconds;

/// What a table must have.
const COLUMNS: &[&str] = &[
    "Model",
    "GPU",
    "# GPUs",
    "SeqLen (T)",
    "MicroBatchSize",
    "GradAccum",
    "Throughput (T/s/GPU)",
    "Precision",
    "Sharding Strategy",
    "Activation Checkpointing",
    "d_model",
    "n_heads",
    "n_layers",
    "expansion_ratio",
    "vocab_size",
];

/// One training step of one replica, from the tokens a GPU trains per second.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    Runs::of_rows(file, COLUMNS, run)
}

fn run(cells: Cells<'_>) -> Result<Run, Reason> {
    let gpu = known_gpu(match cells.text_or_empty("GPU")? {
        // Both of theirs are SXM parts; our `a100` is the 80 GB one.
        "a100_40gb" => "a100-40gb",
        other => other,
    })?;
    match cells.text_or_empty("Precision")? {
        "bf16" | "amp_bf16" => {}
        other => return Err(format!("precision {other} has no net")),
    }
    let zero = match cells.text_or_empty("Sharding Strategy")? {
        "FULL_SHARD" => 3,
        "SHARD_GRAD_OP" => 2,
        other => return Err(format!("sharding {other} is not known")),
    };
    let recompute = match cells.text_or_empty("Activation Checkpointing")? {
        "True" => Recompute::Full,
        "False" => Recompute::None,
        _ => return Err("activation checkpointing is not stated".to_owned()),
    };
    let name = format!("mpt-{}", cells.text_or_empty("Model")?);
    let (hidden, expansion) = (cells.size("d_model")?, cells.size("expansion_ratio")?);
    let (heads, layers, vocab) = (
        cells.size("n_heads")?,
        cells.size("n_layers")?,
        cells.size("vocab_size")?,
    );
    // ALiBi, no biases, tied embeddings (llm-foundry `scripts/train/yamls/pretrain/mpt-*.yaml`).
    let architecture = Architecture {
        positions: Positions::Alibi,
        ..gpt(&name, hidden, heads, layers, hidden * expansion, vocab)?
    };
    let ranks = cells.size("# GPUs")?;
    let workload = Workload {
        dp: ranks,
        zero,
        recompute,
        microbatches: cells.size("GradAccum")?,
        ..Workload::train(cells.size("MicroBatchSize")?, cells.size("SeqLen (T)")?)
    };
    let tokens = workload.tokens() * workload.microbatches;
    let time = Seconds::from_secs(tokens as f64 / cells.size("Throughput (T/s/GPU)")? as f64);
    Ok(Run {
        label: format!(
            "{name}, {ranks} x {}, batch {} x {}, {} tokens",
            gpu.name, workload.batch, workload.microbatches, workload.seq
        ),
        ..Run::step(Publisher::LlmFoundry, gpu, architecture, workload, time)
    })
}
