//! Peak memory of published training runs, and runs that ran out of it, against the memory model.

use crate::arch::{
    Architecture, Loss, MemoryUse, MemoryVerdict, Offload, Optimizer, OptimizerStates, Recompute, Workload, memory_use,
};
use crate::dataset::runs::read_runs;
use crate::framework::Framework;
use crate::gpu::{Gpu, GpuCatalog};
use crate::ops::Dtype;
use crate::plan::memory_share;
use crate::stats;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Text in a table's name of a model, our name of its shape.
const MODELS: [(&str, &str); 12] = [
    ("Mistral-7B-v0.1", "mistral-7b-v0.1"),
    ("Meta-Llama-3-8B", "llama-3-8b"),
    ("Llama-3-8B", "llama-3-8b"),
    ("Llama 3.1 8B", "llama-3-8b"),
    ("Llama-2-70b-hf", "llama-2-70b"),
    ("Llama2-70B", "llama-2-70b"),
    ("Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    ("Llama-3.2-3B", "llama-3.2-3b"),
    ("Llama 3.2 3B", "llama-3.2-3b"),
    ("Llama-3-70B", "llama-3-70b"),
    ("Llama-3.1-405B", "llama-3.1-405b"),
    ("Vicuna-7B", "llama-7b"),
];

/// The same of a GPU.
const GPUS: [(&str, &str); 8] = [
    ("A100 80GB", "a100"),
    ("A100 40GB", "a100-40gb"),
    ("H100", "h100"),
    ("H100 96GB", "h100-hbm2e"),
    ("L40", "l40"),
    ("A800", "a100"),
    ("RTX 4090", "rtx4090"),
    ("B200", "b200"),
];

/// The same of a trainer, and whether its update makes copies.
const TRAINERS: [(&str, &str, bool); 7] = [
    ("hf-trainer", "fsdp1", true),
    ("hf-trainer+fms", "fsdp1", true),
    ("torchtune", "pytorch", false),
    ("torchtitan", "fsdp2", false),
    ("megatron-bridge", "megatron", false),
    ("megatron-swift", "megatron", false),
    ("megatron", "megatron", false),
];

/// A run as a question, or why it is none.
struct Asked {
    arch: Architecture,
    work: Workload,
    gpu: &'static Gpu,
    memory: MemoryUse,
}

fn named<'a, T>(known: &'a [T], name: &str, key: impl Fn(&T) -> &str) -> Option<&'a T> {
    known.iter().find(|one| key(one) == name)
}

/// The workload of a row that states all that memory depends on.
fn asked(row: &HashMap<String, String>) -> Option<Asked> {
    let text = |key: &str| row.get(key).map_or("", String::as_str);
    let number = |key: &str, otherwise: u64| match text(key) {
        "" => Some(otherwise),
        text => text.parse::<f64>().ok().map(|value| value as u64),
    };
    let arch = Architecture::find(named(&MODELS, text("model"), |one| one.0)?.1).ok()?;
    let gpu = Gpu::find(named(&GPUS, text("gpu"), |one| one.0)?.1).ok()?;
    let (_, framework, foreach) = named(&TRAINERS, text("framework"), |one| one.0)?;
    if !matches!(text("seq_kind"), "packed" | "fixed") || !text("suspect").is_empty() {
        return None;
    }
    let gpus = number("n_gpus", 0)?;
    let [tp, pp, cp, ep] = ["tp", "pp", "cp", "ep"].map(|key| number(key, 1));
    let (tp, pp, cp, ep) = (tp?, pp?, cp?, ep?);
    let dp = gpus / (tp * pp * cp);
    let sharding = text("sharding");
    let zero = match sharding {
        "" | "none" => 0,
        text if text.contains("fsdp") || text.contains('3') => 3,
        text if text.contains('2') => 2,
        _ => 1,
    };
    // One GPU of the trainer of Hugging Face keeps the format that it loads.
    let (dtype, optimizer) = (text("dtype"), text("optimizer"));
    let loads = text("framework").starts_with("hf-trainer") && gpus == 1;
    let is_pure = dtype.contains("pure") || loads;
    let is_sharded_fp32 = dtype.contains("autocast") || *framework == "fsdp2";
    let optimizer_kind = match optimizer {
        text if text.contains("paged") && text.contains('8') => Optimizer::PagedAdamW8bit,
        text if text.contains("paged") => Optimizer::PagedAdamW,
        text if text.contains("8-bit") => Optimizer::AdamW8bit,
        _ => Optimizer::AdamW,
    };
    let has_states = optimizer_kind.has_moments();
    let compiled = text("compile") == "yes";
    let (recompute, recompute_layers) = match text("recompute") {
        "full" => (Recompute::Full, 0),
        "every second layer" => (Recompute::Full, arch.layers / 2),
        "none" | "" => (Recompute::None, 0),
        _ => return None,
    };
    let work = Workload {
        dtype: if dtype.contains("fp8") { Dtype::Fp8 } else { Dtype::Bf16 },
        tp,
        cp,
        ep,
        pp,
        dp,
        zero: if dp * cp > 1 { zero } else { 0 },
        recompute,
        recompute_layers,
        microbatches: number("grad_accum", 1)?,
        sequence_parallel: tp > 1,
        optimizer: optimizer_kind,
        optimizer_in_backward: optimizer.contains("backward"),
        optimizer_states: match is_pure && has_states {
            true => OptimizerStates::Bf16,
            false => OptimizerStates::Fp32,
        },
        autocast: is_sharded_fp32 && !is_pure && !dtype.contains("fp8"),
        loss: match text("loss") {
            "plain" if compiled => Loss::Compiled,
            "plain" => Loss::Eager,
            "triton" => Loss::Triton,
            "chunked" => Loss::Chunked,
            "fused linear" | "liger" => Loss::Fused,
            _ => Loss::Auto,
        },
        offload: match text("offload") {
            "" | "none" => Offload::None,
            "activations" => Offload::Activations,
            "optimizer" => Offload::Optimizer,
            _ => return None,
        },
        ..Workload::train(number("micro_batch", 0)?, number("seq_len", 0)?)
    };
    let framework = Framework::all().iter().find(|known| known.name == *framework)?;
    let mut practice = framework.practice.clone();
    practice.foreach = *foreach;
    let memory = memory_use(&arch, &work, &practice).ok()?;
    Some(Asked {
        arch,
        work,
        gpu,
        memory,
    })
}

/// A setting that was run: its readings, and whether it ran out of memory.
#[derive(Default)]
struct Setting {
    readings: Vec<f64>,
    ran_out: bool,
    asked: Option<Asked>,
    kind: String,
}

#[test]
fn peak_memory_of_published_runs_is_near_and_verdicts_are_right() {
    let Some(folder) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
        eprintln!("SKIPPED: SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables");
        return;
    };
    let file = Path::new(&folder).join("tuning_runs.csv");
    let mut table = csv::Reader::from_path(file).unwrap();
    let mut settings: BTreeMap<String, Setting> = BTreeMap::new();
    for row in table.deserialize::<HashMap<String, String>>() {
        let row = row.unwrap();
        let trains_all = matches!(row["method"].as_str(), "full" | "pretrain");
        if !trains_all || row["model"].is_empty() {
            continue;
        }
        let Some(asked) = asked(&row) else {
            continue;
        };
        let ran_out = row["outcome"] == "oom";
        let name = format!("{} {} {}", asked.arch.name, asked.gpu.name, asked.work);
        let setting = settings.entry(format!("{name} {ran_out}")).or_default();
        setting.ran_out = ran_out;
        setting.kind = row["memory_kind"].clone();
        setting.readings.extend(row["peak_memory_gib"].parse::<f64>().ok());
        setting.asked = Some(asked);
    }
    let (mut errors, mut right) = (Vec::new(), [[0; 2]; 2]);
    for (name, setting) in settings {
        let asked = setting.asked.unwrap();
        let live = asked.memory.total().bytes() / f64::from(1 << 30);
        let fits = asked.memory.verdict(asked.gpu) != MemoryVerdict::DoesNotFit;
        right[usize::from(setting.ran_out)][usize::from(fits != setting.ran_out)] += 1;
        let reads_live = ["allocated", "active"].iter().any(|kind| setting.kind.contains(kind));
        let measured = stats::median(setting.readings).filter(|_| !setting.ran_out);
        let error = measured.map(|measured| (live / measured - 1.0, measured));
        if let Some((error, _)) = error.filter(|_| reads_live) {
            errors.push(error.abs());
        }
        eprintln!(
            "{name}: {live:.2} GiB at {}, measured {error:?} {}, out of memory {}, fits {fits}",
            asked.memory.peak, setting.kind, setting.ran_out
        );
    }
    let count = errors.len();
    let median = stats::median(errors).unwrap();
    eprintln!("{count} readings, median {median:.4}; [wrong, right] of runs and of failures: {right:?}");
    assert!(count >= 40 && median < 0.06, "{median}");
}

/// The share of memory that published layouts take, which `data/layouts.toml` holds plans to.
#[test]
fn plans_fill_as_much_as_published_layouts_do() {
    let Some(folder) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
        eprintln!("SKIPPED: SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables");
        return;
    };
    let table = Path::new(&folder).join("training_steps.parquet");
    let runs = read_runs(&[table], &GpuCatalog::default()).unwrap();
    let mut filled: BTreeMap<String, f64> = BTreeMap::new();
    for run in runs.runs.iter().filter(|run| run.recompute_stated) {
        let (mode, generation) = (run.workload.mode, run.gpu.generation);
        let framework = Framework::recognise(&run.software, mode, generation);
        let framework = framework.unwrap_or_else(|| Framework::default_for(mode));
        let Ok(memory) = memory_use(&run.architecture, &run.workload, &framework.practice) else {
            continue;
        };
        let name = format!(
            "{} {} {} {}",
            framework.name, run.architecture.name, run.gpu.name, run.workload
        );
        filled.insert(name, memory.total() / run.gpu.memory());
    }
    let mut shares: Vec<f64> = filled.values().copied().collect();
    shares.sort_by(f64::total_cmp);
    let mut fullest: Vec<_> = filled.iter().collect();
    fullest.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, share) in fullest.iter().take(30) {
        eprintln!("{share:.3} {name}");
    }
    let [half, most] = [0.5, 0.95].map(|share| stats::quantile(&shares, share));
    eprintln!("{} layouts: {half:.3}, {most:.3}", shares.len());
    assert!((most - memory_share()).abs() < 0.01, "{most}");
}
