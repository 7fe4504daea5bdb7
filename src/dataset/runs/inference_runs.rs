//! Latencies that serving engines and their vendors publish with layout, concurrency and lengths.
//!
//! A request under load gives up to two runs: the time to its first token, which is the prefill of
//! one prompt, and the time per further token, which is a decode step of all requests in flight.

use super::cells::Cells;
use super::{Measure, Publisher, Reason, Run, Runs, Serving, known_gpu};
use crate::arch::{Architecture, KvCacheDtype, Preset, Recipe, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::gpu::{Generation, Gpu};
use crate::ops::Dtype;
use crate::units::Seconds;

/// What a table must have.
const COLUMNS: &[&str] = &[
    "gpu",
    "num_gpus",
    "model",
    "dtype",
    "kv_dtype",
    "framework",
    "version",
    "mode",
    "tp",
    "pp",
    "ep",
    "dp",
    "moe_tp",
    "concurrency",
    "isl",
    "osl",
    "ttft_ms",
    "tpot_ms",
    "suspect",
    "note",
    "source_repo",
    "config_key",
];

/// Why an engine is left out that the source marks, or that spans more GPUs than reach each other over a link.
const DOUBTFUL: &str = "the source's layout is doubtful";

/// The note on the runs of this benchmark.
const INFERENCE_MAX: &str = "InferenceMAX";

/// Mean length over nominal length where lengths are drawn from 80 to 100 % of the nominal.
const DRAWN: f64 = 0.9;

/// Models and GPUs whose servers InferenceMAX starts with an fp8 cache (its `benchmarks/70b_*.sh` and `dsr1_*.sh`).
const FP8_CACHES: &[(&str, &str)] = &[
    ("llama-3-70b", "b200"),
    ("llama-3-70b", "h200"),
    ("deepseek-v3", "b200"),
];

/// Share of a request's time before its first token above which requests wait for a place in the batch.
const QUEUED: f64 = 0.25;

/// Runs of every row that states GPUs, layout, concurrency and lengths.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    let mut runs = Runs::default();
    Cells::each(file, COLUMNS, |cells| {
        match Setting::of(cells).and_then(|setting| Ok((setting.times(cells)?, setting))) {
            Ok((times, setting)) => {
                let found = times.into_iter();
                found.for_each(|time| runs.keep(time.map(|time| setting.run(time))));
            }
            Err(reason) => runs.keep(Err(reason)),
        }
    })?;
    Ok(runs)
}

/// What a row ran.
struct Setting {
    gpu: &'static Gpu,
    architecture: Architecture,
    /// Layout and number format; the mode is that of the time.
    layout: Workload,
    /// Whether requests came and went; otherwise one batch was timed.
    served: bool,
    load: Serving,
    software: String,
    configuration: String,
    unfitted: Option<String>,
}

/// A time of a row: what was timed, what ran, and how long.
type Time = (Measure, Workload, f64);

impl Setting {
    fn of(cells: Cells<'_>) -> Result<Self, Reason> {
        let served = match cells.text_or_empty("mode")? {
            "serving" => true,
            "static" => false,
            "serving-disaggregated" => {
                return Err("prefill and decode ran on GPUs of their own".to_owned());
            }
            other => return Err(format!("mode {other}: the batch is not stated")),
        };
        if cells.flag("suspect")? {
            return Err(DOUBTFUL.to_owned());
        }
        let gpu = known_gpu(cells.text_or_empty("gpu")?)?;
        let model = cells.text_or_empty("model")?;
        let preset = Preset::find(match model {
            "llama-3-405b" => "llama-3.1-405b",
            // The shape of M2; the weights are newer.
            "minimax-m2.5" => "minimax-m2",
            "mistral-7b" => "mistral-7b-v0.1",
            other => other,
        });
        let preset = preset.map_err(|_| format!("no preset describes `{model}`"))?;
        let architecture = preset.architecture.clone();
        let note = cells.text_or_empty("note")?;
        let drawn = if note.contains(INFERENCE_MAX) { DRAWN } else { 1.0 };
        let output = cells.number("osl")?.ok_or("`osl` is not stated")?;
        let length = |tokens: f64| (tokens * drawn).round() as u64;
        let load = Serving {
            concurrency: cells.size("concurrency")?,
            prompt: length(cells.size("isl")? as f64),
            output: length(output),
        };
        let (name, version) = (cells.text_or_empty("framework")?, cells.text_or_empty("version")?);
        let name = match name {
            "trtllm" => "TensorRT-LLM",
            "vllm" => "vLLM",
            "sglang" => "SGLang",
            "lmdeploy" => "LMDeploy",
            other => other,
        };
        Ok(Self {
            gpu,
            layout: layout(cells, gpu, &architecture)?,
            architecture,
            served,
            load,
            software: format!("{name} {version}").trim_end().to_owned(),
            configuration: cells.text_or_empty("config_key")?.replace('|', " "),
            unfitted: note
                .contains("limited to 330 W")
                .then(|| "the GPU is limited to 330 W".to_owned()),
        })
    }

    /// The first token and the further ones, as far as the row states them.
    fn times(&self, cells: Cells<'_>) -> Result<Vec<Result<Time, Reason>>, Reason> {
        let (first, further) = (cells.number("ttft_ms")?, cells.number("tpot_ms")?);
        let Serving { prompt, output, .. } = self.load;
        let batch = self.load.per_rank(self.layout.dp);
        let decode = Workload::decode(batch, prompt + output / 2);
        let (ttft, tpot) = match self.served {
            true => (Measure::Ttft, Measure::Tpot),
            false => (Measure::Step, Measure::Step),
        };
        let mut times = Vec::new();
        if let Some(first) = first {
            let sequences = if self.served { 1 } else { batch };
            // LMDeploy sends the requests of a batch together and prefills them in turn.
            let queued = !self.served && batch > 1 && cells.text("source_repo")? == Some("InternLM/lmdeploy");
            times.push(if queued {
                Err("the first token of a batch waits for the prefill of others".to_owned())
            } else {
                Ok((ttft, Workload::prefill(sequences, prompt), first))
            });
        }
        if let Some(further) = further {
            let waiting = first.unwrap_or(0.0);
            let whole = waiting + further * output.saturating_sub(1) as f64;
            times.push(if self.served && waiting > QUEUED * whole {
                Err("over a quarter of a request passes before its first token: fewer ran than were sent".to_owned())
            } else {
                Ok((tpot, decode, further))
            });
        }
        if times.is_empty() {
            return Err("only the time of prefill and decode together is stated".to_owned());
        }
        Ok(times)
    }

    fn run(&self, (measure, work, millis): Time) -> Run {
        let Self {
            gpu,
            architecture,
            layout,
            load,
            ..
        } = self;
        let workload = Workload {
            mode: work.mode,
            batch: work.batch,
            seq: work.seq,
            context: work.context,
            ..*layout
        };
        Run {
            label: format!(
                "{}, {measure}, {} x {}, tp {}, {}, concurrency {}, {} and {} tokens",
                architecture.name,
                workload.gpus(),
                gpu.name,
                workload.tp,
                self.software,
                load.concurrency,
                load.prompt,
                load.output
            ),
            measure,
            serving: self.served.then_some(*load),
            software: self.software.clone(),
            configuration: self.configuration.clone(),
            unfitted: self.unfitted.clone(),
            ..Run::step(
                Publisher::InferenceRuns,
                gpu,
                architecture.clone(),
                workload,
                Seconds::from_secs(millis * 1e-3),
            )
        }
    }
}

/// Ranks and number format.
fn layout(cells: Cells<'_>, gpu: &Gpu, architecture: &Architecture) -> Result<Workload, Reason> {
    let (gpus, tp) = (cells.size("num_gpus")?, cells.size("tp")?);
    let pp = cells.whole("pp")?.unwrap_or(1).max(1);
    let dp = match cells.whole("dp")? {
        Some(dp) => dp,
        None => gpus / (tp * pp),
    };
    if tp * pp * dp != gpus {
        return Err("the degrees of parallelism do not multiply to the GPUs".to_owned());
    }
    if gpu.gpus_per_node().is_some_and(|most| gpus > most) {
        return Err(DOUBTFUL.to_owned());
    }
    let (ep, expert_tp) = match (architecture.moe, cells.whole("ep")?, cells.whole("moe_tp")?) {
        (None, ..) => (1, 0),
        (Some(_), Some(ep), Some(moe_tp)) if ep * moe_tp == tp * dp => (ep, moe_tp),
        _ => return Err("how the experts are spread is not stated".to_owned()),
    };
    let (dtype, recipe) = match cells.text_or_empty("dtype")? {
        "bf16" => (Dtype::Bf16, Recipe::Tensorwise),
        "fp16" => (Dtype::Fp16, Recipe::Tensorwise),
        "fp8" => (Dtype::Fp8, Recipe::Tensorwise),
        "fp4" if gpu.generation == Generation::Blackwell => (Dtype::Fp8, Recipe::Nvfp4),
        // Older GPUs compute in 16 bits.
        "fp4" | "int4" | "int4_awq" | "int4_weight" => (Dtype::Bf16, Recipe::W4a16),
        "int8_weight" => (Dtype::Bf16, Recipe::W8a16),
        other => return Err(format!("weights of {other} have no format")),
    };
    let served = (cells.text_or_empty("model")?, gpu.name.as_str());
    let inference_max = cells.text_or_empty("note")?.contains(INFERENCE_MAX);
    let kv_cache_dtype = match cells.text("kv_dtype")? {
        Some("fp8") => KvCacheDtype::Fp8,
        None if inference_max && FP8_CACHES.contains(&served) => KvCacheDtype::Fp8,
        _ => KvCacheDtype::Auto,
    };
    Ok(Workload {
        dtype,
        recipe,
        kv_cache_dtype,
        tp,
        ep,
        expert_tp,
        pp,
        dp,
        ..Workload::decode(1, 0)
    })
}
