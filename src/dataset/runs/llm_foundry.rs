//! mosaicml/llm-foundry: throughput of MPT models under FSDP (`scripts/train/benchmarking`).

use super::{Publisher, Reason, Run, Runs, gpt, known_gpu};
use crate::arch::{Architecture, Positions, Recompute, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::units::Seconds;

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
    let mut runs = Runs::default();
    for batch in file.batches(COLUMNS, None)? {
        let batch = batch?;
        let count = |column| batch.counts(column);
        let (gpus, seq) = (count("# GPUs")?, count("SeqLen (T)")?);
        let (micro, accumulated) = (count("MicroBatchSize")?, count("GradAccum")?);
        let rate = count("Throughput (T/s/GPU)")?;
        let shape = [
            count("d_model")?,
            count("n_heads")?,
            count("n_layers")?,
            count("expansion_ratio")?,
            count("vocab_size")?,
        ];
        let (model, gpu) = (batch.texts("Model")?, batch.texts("GPU")?);
        let precision = batch.texts("Precision")?;
        let sharding = batch.texts("Sharding Strategy")?;
        let checkpointing = batch.texts("Activation Checkpointing")?;
        let read = |row: usize| -> std::result::Result<Run, Reason> {
            let gpu = foundry_gpu(gpu.get(row).unwrap_or("null"))?;
            match precision.get(row) {
                Some("bf16" | "amp_bf16") => {}
                other => return Err(format!("precision {} has no net", other.unwrap_or("null"))),
            }
            let zero = match sharding.get(row) {
                Some("FULL_SHARD") => 3,
                Some("SHARD_GRAD_OP") => 2,
                other => return Err(format!("sharding {} is not known", other.unwrap_or("null"))),
            };
            let recompute = match checkpointing.get(row) {
                Some("True") => Recompute::Full,
                Some("False") => Recompute::None,
                _ => return Err("activation checkpointing is not stated".to_owned()),
            };
            let name = format!("mpt-{}", model.get(row).unwrap_or("null"));
            let architecture = mpt(&name, shape.each_ref().map(|column| column.size(row)))?;
            let (ranks, tokens_per_s) = (gpus.size(row), rate.size(row) as f64);
            let workload = Workload {
                dp: ranks,
                zero,
                recompute,
                microbatches: accumulated.size(row),
                ..Workload::train(micro.size(row), seq.size(row))
            };
            let tokens = workload.tokens() * workload.microbatches;
            let time = Seconds::from_secs(tokens as f64 / tokens_per_s);
            Ok(Run {
                label: format!(
                    "{name}, {ranks} x {}, batch {} x {}, {} tokens",
                    gpu.name, workload.batch, workload.microbatches, workload.seq
                ),
                ..Run::step(Publisher::LlmFoundry, gpu, architecture, workload, time)
            })
        };
        (0..batch.len()).for_each(|row| runs.keep(read(row)));
    }
    Ok(runs)
}

/// Their `a100_40gb` and `a100_80gb` are SXM parts; our `a100` is the 80 GB one.
fn foundry_gpu(name: &str) -> std::result::Result<&'static Gpu, Reason> {
    known_gpu(match name {
        "a100_40gb" => "a100-40gb",
        other => other,
    })
}

/// MPT: ALiBi, no biases, tied embeddings (llm-foundry `scripts/train/yamls/pretrain/mpt-*.yaml`).
fn mpt(name: &str, shape: [u64; 5]) -> std::result::Result<Architecture, Reason> {
    let [hidden, heads, layers, expansion, vocab] = shape;
    Ok(Architecture {
        positions: Positions::Alibi,
        ..gpt(name, hidden, heads, layers, hidden * expansion, vocab)?
    })
}
