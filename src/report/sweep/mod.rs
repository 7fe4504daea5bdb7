//! The answer to `sweep`: a curve with its drops, and measured points beside it.

mod chart;

mod keys;

mod text;

use crate::arch::{Architecture, Workload};
use crate::gpu::Gpu;
use crate::ops::{Dtype, Op, RouterLoad};
use crate::predict::estimate::Caveats;
use crate::report::shape::Shape;
use crate::report::sweep::keys::{MeasuredKeys, PointKeys, RangeKeys, SkippedKeys};
use crate::report::{Basis, NamedGpu, Warning, joined};
use crate::sweep::{DROP, Drop, Point, Range, Rate, Subject, Sweep, drops};
use crate::units::Seconds;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A predicted curve.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SweepReport {
    gpu: NamedGpu,
    subject: String,
    dimension: String,
    range: RangeKeys,
    /// Everything else that shapes what was predicted, at the first and at the last point.
    first: Value,
    last: Value,
    /// Name of the framework that runs the steps; none for operators.
    framework: Option<String>,
    basis: Vec<Basis>,
    /// The size whose largest power of two is the `alignment` of a point.
    alignment_of: String,
    /// What sizes should be a multiple of on this GPU in this format.
    alignment_wanted: u64,
    points: Vec<PointKeys>,
    drops_above: f64,
    /// The key of the points that falls at a drop.
    drops_of: &'static str,
    drops: Vec<Drop>,
    measured: Vec<MeasuredKeys>,
    /// Where the measured rate falls; empty where more than one stack was measured.
    measured_drops: Vec<Drop>,
    skipped: Vec<SkippedKeys>,
    caveats: Vec<Warning>,
}

/// The key of points that drops of a decode step are falls of.
const BANDWIDTH: &str = "bandwidth_fraction";

/// What was swept, where, and based on what.
pub struct Swept<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// The number format of the GEMMs.
    pub dtype: Dtype,
    /// Which size varies, as the document names it.
    pub dimension: String,
    /// Its values.
    pub range: Range,
    /// Name of the framework that runs the steps; none for operators.
    pub framework: Option<String>,
    /// What the predictions are based on.
    pub basis: Vec<Basis>,
}

/// A measured operator of the curve.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The value of the swept dimension.
    pub value: u64,
    /// What was measured.
    pub op: Op,
    /// How long it took.
    pub time: Seconds,
    /// The software that ran it.
    pub stack: String,
}

impl SweepReport {
    /// Describes a sweep of operators, with measured ones beside it.
    pub fn operators(swept: Swept<'_>, sweep: &Sweep, measured: &[Measured]) -> Self {
        let shape = |point: Option<&Point>| match point.map(|point| &point.subject) {
            Some(Subject::Operator(op)) => keys(&Shape::from(op)),
            _ => Value::Null,
        };
        let first = shape(sweep.points.first());
        let subject = first["kind"].as_str().unwrap_or_default().to_owned();
        let ends = [first, shape(sweep.points.last())];
        let stack = measured.first().map(|point| &point.stack);
        let one_curve = measured.iter().all(|point| Some(&point.stack) == stack);
        let curve = measured.iter().filter(|_| one_curve);
        let curve = curve.map(|point| (point.value, (point.op.flops() / point.time).flops_per_sec()));
        Self {
            measured: measured.iter().map(MeasuredKeys::from).collect(),
            measured_drops: drops(curve),
            ..Self::new(swept, subject, ends, sweep)
        }
    }

    /// Describes a sweep of models; `ends` are those at the first and at the last point.
    pub fn models(swept: Swept<'_>, sweep: &Sweep, ends: &[(Architecture, Workload); 2]) -> Self {
        let subject = ends[0].0.name.clone();
        let described = ends.each_ref().map(|(architecture, workload)| {
            let mut described = serde_json::json!({
                "layers": architecture.layers,
                "hidden": architecture.hidden,
                "heads": architecture.heads,
                "kv_heads": architecture.kv_heads,
                "head_dim": architecture.head_dim,
                "d_ff": architecture.moe.map_or(architecture.mlp.d_ff, |moe| moe.d_ff),
                "vocab": architecture.vocab,
            });
            let sizes = described.as_object_mut();
            let workload = keys(workload);
            if let (Some(sizes), Value::Object(workload)) = (sizes, workload) {
                sizes.extend(workload);
            }
            described
        });
        Self::new(swept, subject, described, sweep)
    }

    fn new(swept: Swept<'_>, subject: String, ends: [Value; 2], sweep: &Sweep) -> Self {
        let [first, last] = ends;
        // What lies side by side in memory is the width of a head, not their number.
        let by_width = swept.dimension == "heads" && first["head_dim"] != last["head_dim"];
        let points = sweep.points.iter().map(|point| PointKeys::new(point, by_width));
        let caveats = sweep.points.iter().map(|point| point.caveats);
        Self {
            gpu: swept.gpu.into(),
            subject,
            range: RangeKeys {
                start: swept.range.start(),
                end: swept.range.end(),
                step: swept.range.step(),
                text: swept.range.to_string(),
            },
            alignment_of: if by_width {
                "head_dim".to_owned()
            } else {
                swept.dimension.clone()
            },
            alignment_wanted: swept.gpu.alignment(swept.dtype),
            dimension: swept.dimension,
            first,
            last,
            framework: swept.framework,
            basis: swept.basis,
            points: points.collect(),
            drops_above: DROP,
            drops_of: match (sweep.drops_of, sweep.points[0].subject) {
                (Rate::Traffic, _) => BANDWIDTH,
                (Rate::Arithmetic, Subject::Model(_)) => "mfu",
                (Rate::Arithmetic, Subject::Operator(_)) => "tflops_per_s",
            },
            drops: sweep.drops.clone(),
            measured: Vec::new(),
            measured_drops: Vec::new(),
            skipped: sweep
                .skipped
                .iter()
                .map(|skip| SkippedKeys {
                    reason: skip.reason.clone(),
                    points: skip.values.len(),
                    values: skip.values.clone(),
                })
                .collect(),
            caveats: caveats
                .fold(Caveats::default(), Caveats::union)
                .iter()
                .map(Warning::from)
                .collect(),
        }
    }

    fn is_model(&self) -> bool {
        self.points.iter().any(|point| point.model.is_some())
    }

    /// Every size that stays, in words: `m 2304, k 4096, tn, bf16`.
    fn constants(&self) -> String {
        let Value::Object(first) = &self.first else {
            return String::new();
        };
        let words = first.iter().filter_map(|(key, value)| {
            let usual = match key.as_str() {
                "kind" => true,
                "batch" if !self.is_model() => *value == 1,
                "tp" | "cp" | "ep" | "pp" | "vp" | "dp" | "microbatches" | "stride" => *value == 1,
                "recipe" => value == "tensorwise",
                "pass" => value == "forward",
                "recompute" => value == "none",
                "router_load" => value == RouterLoad::default().name(),
                _ => *value == 0 || *value == false,
            };
            let named = match value {
                Value::String(text) => match key.as_str() {
                    "attention" => format!("{text} attention"),
                    "optimizer_states" => format!("{text} optimizer states"),
                    "kv_cache_dtype" => format!("{text} KV cache"),
                    "router_load" => format!("{text} router load"),
                    _ => text.clone(),
                },
                Value::Bool(_) => key.replace('_', " "),
                number => format!("{key} {number}"),
            };
            (!usual && self.last[key] == *value).then_some(named)
        });
        joined(", ", words)
    }
}

/// A value as the keys it has on the wire.
fn keys(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("keys hold strings, numbers and truth values only")
}

#[cfg(test)]
mod tests;
