//! argonne-lcf/LLM-Inference-Bench: latencies of whole static batches (`Plots/All_results.csv`, arXiv 2411.00136).

use super::cells::Cells;
use super::{Measure, Publisher, Reason, Run, Runs, Serving, known_gpu};
use crate::arch::{Practice, Preset, Workload, memory_use};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::Seconds;

/// What a table must have.
const COLUMNS: &[&str] = &[
    "Hardware",
    "Num of Hardware",
    "Framework",
    "Model",
    "Input Output Length",
    "Batch Size",
    "Latency",
    "Throughput",
];

/// The most that tokens over latency may differ from the rate that a row states, as a share of it.
const ROUNDING: f64 = 0.01;

/// One batch a row: its prompts together, then all further tokens.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    Runs::of_rows(file, COLUMNS, run)
}

fn run(cells: Cells<'_>) -> Result<Run, Reason> {
    let gpu = known_gpu(match cells.text_or_empty("Hardware")? {
        // Polaris of the Argonne Leadership Computing Facility, where its scripts ran.
        "Nvidia A100 GPU" => "a100-40gb",
        "Nvidia H100 GPU" => "h100",
        "Nvidia GH200 GPU" => "gh200",
        "AMD MI300X GPU" => "mi300x",
        other => other,
    })?;
    let model = cells.text_or_empty("Model")?;
    let name = model.rsplit('/').next().unwrap_or("").to_lowercase();
    let preset = Preset::find(match &*name {
        "llama-2-7b-hf" => "llama-2-7b",
        "llama-2-70b-hf" => "llama-2-70b",
        "meta-llama-3-8b" => "llama-3-8b",
        "meta-llama-3-70b" => "llama-3-70b",
        "mixtral-8x7b-v0.1" => "mixtral-8x7b",
        // Of the same shape.
        "qwen2-7b" => "qwen2.5-7b",
        "qwen2-72b" => "qwen2.5-72b",
        other => other,
    });
    let preset = preset.map_err(|_| format!("no preset describes `{model}`"))?;
    let architecture = preset.architecture.clone();
    let (tp, batch) = (cells.size("Num of Hardware")?, cells.size("Batch Size")?);
    let tokens = cells.size("Input Output Length")?;
    let software = cells.text_or_empty("Framework")?;
    if software == "llama.cpp" && tp > 1 {
        return Err("llama.cpp cuts a model between layers, one GPU after the other".to_owned());
    }
    let [time, rate] = ["Latency", "Throughput"].map(|column| cells.number(column));
    let (time, rate) = (time?.unwrap_or(0.0), rate?.unwrap_or(0.0));
    let from_time = (2 * batch * tokens) as f64 / time;
    let agree = (from_time / rate - 1.0).abs() < ROUNDING;
    if !agree {
        return Err("latency and throughput of the row disagree".to_owned());
    }
    let workload = Workload {
        dtype: Dtype::Fp16,
        tp,
        ..Workload::decode(batch, tokens + tokens / 2)
    };
    let full = Workload {
        context: 2 * tokens,
        ..workload
    };
    let memory = memory_use(&architecture, &full, &Practice::default()).map_err(|error| error.to_string())?;
    if !memory.fits(gpu) {
        return Err("the caches of the batch do not fit: fewer requests ran at once".to_owned());
    }
    let fastest = memory.weights / gpu.bandwidth() * tokens as f64;
    if architecture.moe.is_none() && time < fastest.secs() {
        return Err("faster than the weights can be read once a token".to_owned());
    }
    let label = format!(
        "{}, {tp} x {}, {software}, batch {batch}, {tokens} and {tokens} tokens",
        architecture.name, gpu.name
    );
    let time = Seconds::from_secs(time);
    let step = Run::step(Publisher::LlmInferenceBench, gpu, architecture, workload, time);
    Ok(Run {
        label,
        measure: Measure::Batch,
        serving: Some(Serving {
            concurrency: batch,
            prompt: tokens,
            output: tokens,
        }),
        configuration: format!("{} {software}", step.configuration),
        software: software.to_owned(),
        ..step
    })
}
