//! Steps of modern training software that vendors and benchmarks publish with their layout.
//!
//! One row is one optimizer step: Megatron-Bridge and dgxc-benchmarking releases, MLPerf Training
//! logs, torchtitan, torchao, fms-fsdp, NeMo AutoModel, InternEvo and modded-nanogpt.

use super::cells::Cells;
use super::{Publisher, Reason, Run, Runs, gpt, known_gpu};
use crate::arch::{Architecture, Norm, NormKind, OptimizerStates, Positions, Preset, Recipe, Recompute, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::{BytesPerSecond, Seconds};

/// What a table must have.
const COLUMNS: &[&str] = &[
    "gpu",
    "model",
    "task",
    "dtype",
    "num_gpus",
    "seq_len",
    "global_batch",
    "micro_batch",
    "tp",
    "pp",
    "cp",
    "vp",
    "ep",
    "fsdp",
    "activation_ckpt",
    "recipe_recompute",
    "recipe_seq_parallel",
    "cfg_path",
    "cfg_recompute",
    "cfg_precision",
    "cfg_seq_parallel",
    "step_time_s",
    "suspect",
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "experts",
    "topk",
    "note",
    "software",
    "source_repo",
    "config_key",
];

/// Families of `config_key` whose shape needs more than the table's columns, and our preset.
const PRESETS: &[(&str, &str)] = &[
    ("deepseek_v3_671b", "deepseek-v3"),
    ("deepseekv3", "deepseek-v3"),
    ("gpt_oss_120b", "gpt-oss-120b"),
    ("grok1_314b", "grok-1"),
    ("grok_1_314b", "grok-1"),
    ("internlm_7b", "internlm-7b"),
    ("kimi_k2", "kimi-k2"),
    ("llama2_13b", "llama-2-13b"),
    ("llama2_34b", "llama-2-34b"),
    ("llama2_70b", "llama-2-70b"),
    ("llama2_7b", "llama-2-7b"),
    ("llama3_405b", "llama-3.1-405b"),
    ("llama3_70b", "llama-3-70b"),
    ("llama3_8b", "llama-3-8b"),
    ("maxtext_llama2_70b", "llama-2-70b"),
    ("maxtext_llama3_70b", "llama-3-70b"),
    ("nemo_megatron", "gpt3-175b"),
    ("nemotron_3_nano", "nemotron-3-nano-30b-a3b"),
    ("nemotron_3_super", "nemotron-3-super-120b-a12b"),
    ("nemotron4_15b", "nemotron-4-15b"),
    ("nemotron4_340b", "nemotron-4-340b"),
    ("nemotron_340b", "nemotron-4-340b"),
    ("nemotron_v3_nano_30b_26.02", "nemotron-3-nano-30b-a3b"),
    ("nemotron_v3_super_120b_26.02", "nemotron-3-super-120b-a12b"),
    ("qwen3_235b_a22b", "qwen3-235b-a22b"),
    ("qwen3_30b_a3b", "qwen3-30b-a3b"),
    ("qwen3_moe_30b", "qwen3-30b-a3b"),
];

/// What a source writes of the network between its nodes, and Gb/s of one GPU.
const NETWORKS: &[(&str, f64)] = &[
    ("400 Gb/s per GPU", 400.0),
    ("400 Gb/s per node", 400.0 / 8.0),
    ("800 Gb/s per node", 800.0 / 8.0),
    ("4x100 Gb/s RoCE a node", 400.0 / 8.0),
];

const MEGATRON_BRIDGE: &str = "NVIDIA-NeMo/Megatron-Bridge";
const TORCHTITAN: &str = "pytorch/torchtitan";
const AUTOMODEL: &str = "NVIDIA-NeMo/Automodel";

/// Rows whose table states another layout than the recipe of the release that they ran with, one that does not fit the
/// GPU: software, `config_key` and what the recipe says (Megatron-Bridge, `scripts/performance/configs`).
const CONTRADICTED: &[(&str, &str, &str)] = &[
    (
        "NeMo container 25.11, Megatron-Bridge",
        "gpt_oss_120b|H100|bf16|pretrain",
        "the table states micro-batches of 4, the recipe of its release of 1",
    ),
    (
        "NeMo container 26.02.01, Megatron-Bridge",
        "llama3_70b|GB300|nvfp4|pretrain",
        "the table states no pipeline, the recipe of its release 4 stages",
    ),
];

/// The configuration whose optimizer keeps bf16 states (`optim.dtype: bf16`).
const BF16_STATES: &str = "nemotron/nemotron4-340b-synth.yaml";

/// One step of every replica.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    Runs::of_rows(file, COLUMNS, run)
}

fn run(cells: Cells<'_>) -> Result<Run, Reason> {
    let model = cells.text_or_empty("model")?;
    if cells.text("task")? == Some("lora") || model.contains("LORA") {
        return Err("LoRA trains adapters, not the weights".to_owned());
    }
    let note = cells.text_or_empty("note")?;
    if note.contains("power-limited") {
        return Err("the limit of power that held the GPUs back is not stated".to_owned());
    }
    let gpu = known_gpu(match note.contains("HBM2e") {
        true => "h100-hbm2e",
        false => cells.text_or_empty("gpu")?,
    })?;
    let row = [cells.text_or_empty("software")?, cells.text_or_empty("config_key")?];
    let mut contradicted = CONTRADICTED.iter();
    if let Some((.., why)) = contradicted.find(|(software, key, _)| [*software, *key] == row) {
        return Err((*why).to_owned());
    }
    let key: Vec<&str> = cells.text_or_empty("config_key")?.split('|').collect();
    let [family, _, format, ..] = key[..] else {
        return Err("`config_key` does not name model, GPU and format".to_owned());
    };
    let architecture = architecture(cells, family)?;
    let workload = workload(cells, &architecture)?;
    let seconds = cells.number("step_time_s")?;
    let seconds = seconds.ok_or("the time of a step is not stated")?;
    let gpus = workload.gpus();
    let software = software(cells)?;
    let networks = NETWORKS.iter();
    let network = networks
        .filter(|(text, _)| note.contains(text) || software.contains(text))
        .map(|&(_, gigabits)| BytesPerSecond::from_bytes_per_sec(gigabits / 8.0 * 1e9))
        .next();
    Ok(Run {
        label: format!("{}, {gpus} x {}, {software}", architecture.name, gpu.name),
        configuration: format!("{family} {} {format}", gpu.name),
        network,
        recompute_stated: stated_recompute(cells)?.is_some_and(|text| text != "none stated" && text != "Selective AC"),
        unfitted: unfitted(cells, &architecture)?.map(str::to_owned),
        software,
        ..Run::step(
            Publisher::TrainingSteps,
            gpu,
            architecture,
            workload,
            Seconds::from_secs(seconds),
        )
    })
}

/// The preset of a family of `config_key`.
fn preset_of(family: &str) -> Option<&'static Architecture> {
    let (_, name) = PRESETS.iter().find(|(known, _)| *known == family)?;
    Preset::find(name).ok().map(|preset| &preset.architecture)
}

/// The preset with the row's layers and vocabulary, or the row's own shape.
fn architecture(cells: Cells<'_>, family: &str) -> Result<Architecture, Reason> {
    if cells.whole("layers")?.is_none() {
        // A hybrid has no columns for its shape: the preset says all.
        let hybrid = preset_of(family).filter(|arch| arch.linear.is_some());
        return match hybrid {
            Some(architecture) => Ok(architecture.clone()),
            None => Err("the shape of the model is not stated".to_owned()),
        };
    }
    let layers = cells.size("layers")?;
    let (hidden, heads) = (cells.size("hidden")?, cells.size("heads")?);
    let (d_ff, vocab) = (cells.size("ffn")?, cells.size("vocab")?);
    if family.starts_with("modded_gpt") {
        let name = format!("modded-gpt-{layers}x{hidden}-{heads}-heads");
        let base = gpt(&name, hidden, heads, layers, d_ff, vocab)?;
        return Ok(Architecture {
            positions: Positions::Rotary,
            norm: Norm {
                kind: NormKind::RmsNorm,
                ..base.norm
            },
            ..base
        });
    }
    let Some(base) = preset_of(family) else {
        return Err(format!("no preset describes `{family}`"));
    };
    let inner = base.moe.map_or(base.mlp.d_ff, |moe| moe.d_ff);
    let experts = base.moe.map(|moe| (moe.experts, moe.top_k));
    let row = (cells.whole("experts")?, cells.whole("topk")?);
    if (base.hidden, base.heads, base.head_dim) != (hidden, heads, cells.size("head_dim")?)
        || base.kv_heads != cells.size("kv_heads")?
        || inner != d_ff
        || experts != row.0.zip(row.1)
    {
        return Err(format!("the row and the preset of `{family}` differ"));
    }
    let name = if layers == base.layers {
        base.name.clone()
    } else {
        format!("{} with {layers} layers", base.name)
    };
    let mut architecture = Architecture {
        name,
        vocab,
        ..base.clone()
    };
    architecture.rescale_layers(layers);
    Ok(architecture)
}

fn workload(cells: Cells<'_>, architecture: &Architecture) -> Result<Workload, Reason> {
    let source = cells.text_or_empty("source_repo")?;
    let jax = jax(cells)?;
    let (gpus, global) = (cells.size("num_gpus")?, cells.size("global_batch")?);
    let (tp, pp, cp) = (cells.size("tp")?, cells.size("pp")?, cells.size("cp")?);
    let mut micro = cells.size("micro_batch")?;
    if !gpus.is_multiple_of(tp * pp * cp) {
        return Err("the degrees of parallelism do not divide the GPUs".to_owned());
    }
    let dp = gpus / (tp * pp * cp);
    // The column of torchtitan holds what a replica trains in a step, which its pipeline cuts by the stages.
    if source == TORCHTITAN {
        if !micro.is_multiple_of(pp) {
            return Err("the pipeline stages do not divide the local batch".to_owned());
        }
        micro /= pp;
    }
    if !global.is_multiple_of(micro * dp) {
        return Err("the micro-batches do not fill the batch".to_owned());
    }
    let sharded = cells.whole("fsdp")?.is_some_and(|ranks| ranks > 0);
    let zero = match source {
        "KellerJordan/modded-nanogpt" => 0,
        TORCHTITAN | "pytorch/ao" | AUTOMODEL | "foundation-model-stack/fms-fsdp" => 3,
        _ if sharded || jax => 3,
        _ => 1,
    };
    let (dtype, recipe) = precision(cells)?;
    let (recompute, recompute_layers) = recompute(cells, architecture.layers / pp)?;
    let ep = cells.whole("ep")?.unwrap_or(1).max(1);
    let expert_tp = match architecture.name.starts_with("grok") {
        false if ep > 1 => 1,
        _ => 0,
    };
    let stated = match cells.text("cfg_seq_parallel")? {
        None => cells.text("recipe_seq_parallel")?,
        stated => stated,
    };
    // AutoModel's benchmarks run `torch.optim.Adam` on 16-bit weights.
    let narrow = source == AUTOMODEL || cells.text("cfg_path")? == Some(BF16_STATES);
    let optimizer_states = match narrow {
        true => OptimizerStates::Bf16,
        false => OptimizerStates::Fp32,
    };
    Ok(Workload {
        dtype,
        recipe,
        optimizer_states,
        tp,
        cp,
        ep,
        expert_tp,
        pp,
        vp: cells.whole("vp")?.unwrap_or(1).max(1),
        dp,
        zero,
        recompute,
        recompute_layers,
        sequence_parallel: tp > 1 && stated != Some("off"),
        microbatches: global / (micro * dp),
        ..Workload::train(micro, cells.size("seq_len")?)
    })
}

fn precision(cells: Cells<'_>) -> Result<(Dtype, Recipe), Reason> {
    let mut name = cells.text_or_empty("dtype")?;
    if name == "fp8_or_fp4" {
        let stated = cells.text("cfg_precision")?;
        name = stated.ok_or("whether the step ran in fp8 or fp4 is not stated")?;
    }
    Ok(match name {
        "bf16" | "bf16_autocast" => (Dtype::Bf16, Recipe::Tensorwise),
        "fp8" | "fp8_cs" | "fp8_subchannel" | "fp8_tensorwise" | "fp8 tensorwise" => (Dtype::Fp8, Recipe::Tensorwise),
        "fp8_rowwise" | "fp8_rowwise_gw_hp" => (Dtype::Fp8, Recipe::Rowwise),
        "mxfp8" => (Dtype::Fp8, Recipe::Mxfp8),
        "nvfp4" => (Dtype::Fp8, Recipe::Nvfp4),
        other => return Err(format!("precision {other} is not known")),
    })
}

/// Recomputation as the source states it.
fn stated_recompute<'a>(cells: Cells<'a>) -> Result<Option<&'a str>, Reason> {
    let mut stated = None;
    for column in ["cfg_recompute", "activation_ckpt", "recipe_recompute"] {
        stated = stated.or(cells.text(column)?);
    }
    Ok(stated)
}

/// What is recomputed, and in how many layers of a stage (0: all).
fn recompute(cells: Cells<'_>, stage_layers: u64) -> Result<(Recompute, u64), Reason> {
    let stated = stated_recompute(cells)?;
    let per_operator = cells.text_or_empty("source_repo")?.starts_with("pytorch/");
    let all = |recompute| Ok((recompute, 0));
    match stated.unwrap_or(if jax(cells)? { "policy" } else { "none" }) {
        "none" | "none stated" | "No AC" => all(Recompute::None),
        "selective mla_up_proj" => all(Recompute::LatentUp),
        "selective (per op)" => all(Recompute::Operators),
        "selective" if per_operator => all(Recompute::Operators),
        "selective" => all(Recompute::Selective),
        "selective layernorm" | "selective layernorm, moe_act" | "selective moe_act, layernorm" => {
            all(Recompute::Pointwise)
        }
        "Selective AC" => Ok((Recompute::Full, stage_layers.div_ceil(2))),
        "policy save_dot_only" => all(Recompute::Pointwise),
        policy if policy.starts_with("policy") => all(Recompute::Mlp),
        "full" => all(Recompute::Full),
        other => {
            let layers = other.strip_prefix("full, ");
            let layers = layers.and_then(|text| text.strip_suffix(" layers")?.parse().ok());
            let layers = layers.ok_or_else(|| format!("recomputation `{other}` is not known"))?;
            Ok((Recompute::Full, layers))
        }
    }
}

/// Whether the trainer is MaxText or Paxml.
fn jax(cells: Cells<'_>) -> Result<bool, Reason> {
    let model = cells.text_or_empty("model")?;
    Ok(model.starts_with("Maxtext") || model.starts_with("Paxml"))
}

/// The source's text, with the trainer where only the benchmark suite is named.
fn software(cells: Cells<'_>) -> Result<String, Reason> {
    let text = cells.text_or_empty("software")?;
    if !text.starts_with("dgxc-benchmarking") {
        return Ok(text.to_owned());
    }
    let model = cells.text_or_empty("model")?;
    Ok(if model.starts_with("Maxtext") {
        format!("{text}, MaxText")
    } else if model.starts_with("Paxml") {
        format!("{text}, Paxml")
    } else if text.contains("NeMo") {
        text.to_owned()
    } else {
        format!("{text}, NeMo")
    })
}

/// Why no constant may be fitted to a row.
fn unfitted(cells: Cells<'_>, architecture: &Architecture) -> Result<Option<&'static str>, Reason> {
    let (model, gpu) = (cells.text_or_empty("model")?, cells.text_or_empty("gpu")?);
    let software = cells.text_or_empty("software")?;
    let release = |name: &str| software.contains(&format!("container {name},"));
    let slow_qwen = (release("25.11") || release("26.02")) && matches!(gpu, "B200" | "H100");
    let slow_gpt_oss = release("26.06.01") && cells.text("dtype")? == Some("mxfp8");
    Ok(if cells.flag("suspect")? {
        Some("the source's own figures disagree")
    } else if model.starts_with("Qwen3_30B") && slow_qwen || model.starts_with("GPT OSS") && slow_gpt_oss {
        Some("the release ran this model twice as long as those before and after")
    } else if model.ends_with("(w/ MTP)") {
        Some("the layer for multi-token prediction is not described")
    } else if architecture.moe.is_none()
        && cells.text("source_repo")? == Some(MEGATRON_BRIDGE)
        && cells.size("pp")? > 1
        && cells.whole("vp")?.is_none()
    {
        Some("the virtual pipeline stages are not stated")
    } else {
        None
    })
}
