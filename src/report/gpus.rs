//! The answer to `gpus`: all parts in one table, or one part with the source of every figure.

use crate::families::{Family, Variant};
use crate::framework::Engine;
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::predict::estimate::{Caveats, Tier};
use crate::report::table::{dash, left, right, row, table};
use crate::report::{Report, Warning, joined};
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, significant};
use serde::Serialize;
use utoipa::ToSchema;

/// Every known GPU.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GpusReport {
    gpus: Vec<GpuLine>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct GpuLine {
    name: String,
    title: String,
    sm_count: u64,
    peak_bf16_flops_per_s: Option<FlopsPerSecond>,
    memory_bandwidth_bytes_per_s: BytesPerSecond,
    memory_bytes: Bytes,
    models: Vec<String>,
}

impl GpusReport {
    /// All GPUs; `models` names the built-in models that were learned on one.
    pub fn new(models: impl Fn(&Gpu) -> Vec<String>) -> Self {
        let gpus = Gpu::all().iter().map(|gpu| GpuLine {
            name: gpu.name.clone(),
            title: gpu.title.clone(),
            sm_count: gpu.sm_count(),
            peak_bf16_flops_per_s: gpu.peak(Dtype::Bf16),
            memory_bandwidth_bytes_per_s: gpu.bandwidth(),
            memory_bytes: gpu.memory(),
            models: models(gpu),
        });
        Self { gpus: gpus.collect() }
    }
}

impl Report for GpusReport {
    const LISTS: &'static [&'static str] = &["gpus"];

    fn page(&self) -> String {
        let rows = self.gpus.iter().map(|gpu| {
            let peak = gpu.peak_bf16_flops_per_s;
            row![
                gpu.name,
                gpu.title,
                gpu.sm_count,
                dash(peak.map(|peak| significant(peak.flops_per_sec() / 1e12))),
                significant(gpu.memory_bandwidth_bytes_per_s.bytes_per_sec() / 1e9),
                gpu.memory_bytes,
                dash((!gpu.models.is_empty()).then(|| gpu.models.join(", "))),
            ]
        });
        table(
            [
                left("name"),
                left("title"),
                right("SMs").minor(2),
                right("bf16 TFLOP/s"),
                right("GB/s"),
                right("memory"),
                left("models"),
            ],
            rows,
        )
    }
}

/// One GPU with the source of every figure.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GpuReport {
    name: String,
    title: String,
    aliases: Vec<String>,
    models: Vec<String>,
    answers: Vec<AnswerLine>,
    figures: Vec<FigureLine>,
}

/// What answers for one operator family and number format.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct AnswerLine {
    family: Family,
    dtype: String,
    /// The serving engine that it answers for in place of the default; absent for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<Engine>,
    stack: String,
    tier: Tier,
    caveats: Vec<Warning>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
struct FigureLine {
    figure: String,
    value: f64,
    source: String,
}

impl GpuReport {
    /// Everything that is known about `gpu`, the built-in models that were learned on it, and the stack that answers
    /// for each family and format with what is unlike the question.
    pub fn new<'a>(
        gpu: &Gpu,
        models: Vec<String>,
        answers: impl Iterator<Item = (Family, Variant, Option<Engine>, &'a str, Caveats)>,
    ) -> Self {
        let answers = answers.map(|(family, variant, engine, stack, caveats)| AnswerLine {
            family,
            dtype: variant.to_string(),
            engine,
            stack: stack.to_owned(),
            tier: if caveats == Caveats::default() {
                Tier::Learned
            } else {
                Tier::Transferred
            },
            caveats: caveats.iter().map(Warning::from).collect(),
        });
        let figures = gpu.figures().map(|(key, figure)| FigureLine {
            figure: key.to_owned(),
            value: figure.value,
            source: figure.source.clone(),
        });
        Self {
            name: gpu.name.clone(),
            title: gpu.title.clone(),
            aliases: gpu.aliases.clone(),
            models,
            answers: answers.collect(),
            figures: figures.collect(),
        }
    }
}

impl GpuReport {
    fn answers_text(&self) -> String {
        let rows = self.answers.iter().map(|line| {
            let unlike = line.caveats.iter().map(|warning| warning.text);
            row![
                format!("{} {}", line.family, line.dtype),
                line.engine.map_or("any", Engine::name),
                line.tier,
                line.stack,
                joined(", ", unlike),
            ]
        });
        let headings = ["operators", "engine", "tier", "answered by", "because"];
        table(headings.map(left), rows)
    }
}

impl Report for GpuReport {
    const LISTS: &'static [&'static str] = &["figures"];

    fn page(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.title);
        for (what, names) in [("also", &self.aliases), ("models", &self.models)] {
            if !names.is_empty() {
                text += &format!("{what}: {}\n", names.join(", "));
            }
        }
        let rows = self.figures.iter().map(|line| {
            let value = if (1e-3..1e6).contains(&line.value) {
                line.value.to_string()
            } else {
                format!("{:e}", line.value)
            };
            row![line.figure, value, line.source]
        });
        let headings = [left("figure"), right("value"), left("source")];
        text + "\n" + &self.answers_text() + "\n" + &table(headings, rows)
    }
}
