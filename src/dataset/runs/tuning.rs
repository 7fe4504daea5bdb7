//! Fine-tuning runs that trainers and their users publish: all weights or adapters, with times, peaks of memory, or the fact
//! that memory ran out.
//!
//! A row is asked as it is stated; what a source leaves open is what its trainer does. Rows whose sequences are shorter than their
//! limit, and rows marked as suspect, are left out.

use super::cells::Cells;
use super::{Publisher, Reason, Run, Runs, known_gpu};
use crate::arch::{
    Architecture, BaseDtype, Loss, Offload, Optimizer, OptimizerStates, Preset, Recompute, Targets, Workload,
};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::{Bytes, Seconds};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// What a table must have.
const COLUMNS: &[&str] = &[
    "source",
    "model",
    "gpu",
    "n_gpus",
    "method",
    "rank",
    "targets",
    "base_quant",
    "dtype",
    "optimizer",
    "framework",
    "micro_batch",
    "grad_accum",
    "seq_len",
    "seq_kind",
    "recompute",
    "loss",
    "sharding",
    "tp",
    "pp",
    "cp",
    "ep",
    "offload",
    "compile",
    "step_time_s",
    "peak_memory_gib",
    "memory_kind",
    "outcome",
    "suspect",
    "config_key",
];

/// `data/tuning.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    models: BTreeMap<String, Model>,
    gpus: BTreeMap<String, String>,
    trainers: BTreeMap<String, Trainer>,
    targets: BTreeMap<String, Targets>,
    bases: BTreeMap<String, BaseDtype>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    like: String,
    layers: Option<u64>,
    hidden: Option<u64>,
    heads: Option<u64>,
    d_ff: Option<u64>,
    vocab: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trainer {
    /// What selects the framework; if absent, PyTorch on one GPU, FSDP or DDP.
    software: Option<String>,
    /// Whether its update makes copies.
    #[serde(default)]
    foreach: bool,
}

static NAMES: LazyLock<Names> = built_in!("data/tuning.toml");

/// A fine-tuning run, which may have no time.
#[derive(Clone, Debug)]
pub struct TuningRun {
    /// The run; its time is 0 where none is stated.
    pub run: Run,
    /// The peak of memory on a GPU.
    pub peak: Option<Bytes>,
    /// Whether that is what lives, as PyTorch counts what is allocated.
    pub reads_live: bool,
    /// Whether memory ran out.
    pub ran_out: bool,
    /// Whether the update makes copies.
    pub foreach: bool,
}

/// All runs of a table that can be asked.
pub fn read_tuning(path: &Path) -> Result<Vec<TuningRun>> {
    let mut runs = Vec::new();
    let file = Parquet::open(path)?;
    Cells::each(&file, COLUMNS, |cells| runs.extend(tuning_run(cells)))?;
    runs.retain(|TuningRun { run, .. }| run.workload.validate(&run.architecture).is_ok());
    Ok(runs)
}

/// The runs with a time.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    Runs::of_rows(file, COLUMNS, |cells| {
        let found = tuning_run(cells)?;
        match found.run.time > Seconds::ZERO && !found.ran_out {
            true => Ok(found.run),
            false => Err("the time of a step is not stated".to_owned()),
        }
    })
}

/// The entry of a table of names.
fn named<'a, T>(known: &'a BTreeMap<String, T>, name: &str, what: &str) -> Result<&'a T, Reason> {
    known
        .get(name)
        .ok_or_else(|| format!("{what} `{name}` is not in data/tuning.toml"))
}

fn architecture(name: &str) -> Result<Architecture, Reason> {
    let model = named(&NAMES.models, name, "model")?;
    let base = Preset::find(&model.like).map_err(|error| error.to_string())?;
    let mut arch = base.architecture.clone();
    if let Some(heads) = model.heads {
        (arch.heads, arch.kv_heads) = (heads, heads);
    }
    arch.hidden = model.hidden.unwrap_or(arch.hidden);
    arch.mlp.d_ff = model.d_ff.unwrap_or(arch.mlp.d_ff);
    if let Some(vocab) = model.vocab {
        (arch.vocab, arch.name) = (vocab, name.to_lowercase());
    }
    arch.rescale_layers(model.layers.unwrap_or(arch.layers));
    Ok(arch)
}

fn tuning_run(cells: Cells<'_>) -> Result<TuningRun, Reason> {
    let text = |column| cells.text_or_empty(column);
    if !text("suspect")?.is_empty() {
        return Err("marked as suspect".to_owned());
    }
    let adapts = match text("method")? {
        "full" | "pretrain" => false,
        "lora" | "qlora" => true,
        method => return Err(format!("no option trains as `{method}`")),
    };
    if !matches!(text("seq_kind")?, "packed" | "fixed" | "fixed (dummy data)") {
        return Err("sequences are shorter than their limit".to_owned());
    }
    let architecture = architecture(text("model")?)?;
    let gpu = known_gpu(named(&NAMES.gpus, text("gpu")?, "GPU")?)?;
    let trainer = named(&NAMES.trainers, text("framework")?, "trainer")?;
    let work = workload(cells, &architecture, adapts)?;
    let software = match (&trainer.software, work.zero, work.dp) {
        (Some(software), ..) => software.as_str(),
        (None, _, 1) if text("compile")? == "yes" => "PyTorch compiled",
        (None, _, 1) => "PyTorch eager",
        (None, 0, _) => "DDP",
        (None, ..) => "FSDP",
    };
    let source = text("source")?.split(['@', ':', '#']).next().unwrap_or_default();
    let gib = cells.number("peak_memory_gib")?;
    let kind = text("memory_kind")?;
    let time = Seconds::from_secs(cells.number("step_time_s")?.unwrap_or(0.0));
    let run = Run::step(Publisher::TuningRuns, gpu, architecture, work, time);
    Ok(TuningRun {
        peak: gib.map(|gib| Bytes::from_bytes(gib * f64::from(1 << 30))),
        reads_live: kind.contains("allocated") || kind.contains("active"),
        ran_out: text("outcome")? == "oom",
        foreach: trainer.foreach,
        run: Run {
            configuration: format!("{source} {} {}", run.architecture.name, gpu.name),
            software: software.to_owned(),
            ..run
        },
    })
}

fn workload(cells: Cells<'_>, arch: &Architecture, adapts: bool) -> Result<Workload, Reason> {
    let text = |column| cells.text_or_empty(column);
    let number = |column, otherwise| Ok::<u64, Reason>(cells.number(column)?.map_or(otherwise, |number| number as u64));
    let (gpus, tp, pp, cp) = (
        number("n_gpus", 0)?,
        number("tp", 1)?,
        number("pp", 1)?,
        number("cp", 1)?,
    );
    let dp = gpus / (tp * pp * cp);
    let zero = match text("sharding")? {
        _ if dp * cp <= 1 => 0,
        "" | "none" | "ddp" => 0,
        text if text.contains("fsdp") || text.contains('3') => 3,
        text if text.contains('2') => 2,
        _ => 1,
    };
    let (dtype, trainer) = (text("dtype")?, text("framework")?);
    // One GPU of the trainer of Hugging Face keeps the format that it loads.
    let is_pure = dtype.contains("pure") || !adapts && trainer.starts_with("hf-trainer") && gpus == 1;
    let is_fp32 = dtype.contains("autocast") || dtype.contains("fp32") || trainer == "torchtitan";
    let optimizer = match text("optimizer")? {
        text if text.contains("paged") && text.contains('8') => Optimizer::PagedAdamW8bit,
        text if text.contains("paged") => Optimizer::PagedAdamW,
        text if text.contains("8-bit") => Optimizer::AdamW8bit,
        _ => Optimizer::AdamW,
    };
    let (recompute, recompute_layers) = match text("recompute")? {
        "full" => (Recompute::Full, 0),
        "every second layer" => (Recompute::Full, arch.layers / 2),
        "none" | "" => (Recompute::None, 0),
        other => return Err(format!("what `{other}` recomputes is not known")),
    };
    let plain = match text("compile")? {
        "yes" => Loss::Compiled,
        _ => Loss::Eager,
    };
    let is_fp8 = dtype.contains("fp8");
    Ok(Workload {
        dtype: match () {
            () if is_fp8 => Dtype::Fp8,
            () if dtype.starts_with("fp16") => Dtype::Fp16,
            () => Dtype::Bf16,
        },
        tp,
        cp,
        ep: number("ep", 1)?,
        pp,
        dp,
        zero,
        recompute,
        recompute_layers,
        microbatches: number("grad_accum", 1)?,
        sequence_parallel: tp > 1,
        optimizer,
        optimizer_in_backward: text("optimizer")?.contains("backward"),
        optimizer_states: match is_pure && optimizer.has_moments() {
            true => OptimizerStates::Bf16,
            false => OptimizerStates::Fp32,
        },
        autocast: is_fp32 && !is_pure && !is_fp8,
        loss: match text("loss")? {
            "plain" => plain,
            "triton" => Loss::Triton,
            text if text.starts_with("chunked") => Loss::Chunked,
            text if text.starts_with("fused linear") || text == "liger" => Loss::Fused,
            _ => Loss::Auto,
        },
        offload: match text("offload")? {
            "" | "none" => Offload::None,
            "activations" => Offload::Activations,
            "optimizer" => Offload::Optimizer,
            other => return Err(format!("no option offloads `{other}`")),
        },
        lora: if adapts { number("rank", 8)? } else { 0 },
        lora_targets: match adapts {
            true => *named(&NAMES.targets, text("targets")?, "target")?,
            false => Targets::default(),
        },
        base_dtype: match adapts {
            true => *named(&NAMES.bases, text("base_quant")?, "base format")?,
            false => BaseDtype::Auto,
        },
        ..Workload::train(number("micro_batch", 0)?, number("seq_len", 0)?)
    })
}
