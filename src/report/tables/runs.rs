//! The answer to `evaluate --runs`: the errors of whole models.

use crate::evaluate::Score;
use crate::evaluate::layouts::PairErrors;
use crate::evaluate::runs::{Comparison, Judged, RunErrors, RunGroup, RunKey};
use crate::report::table::{dash, left, right, row, table};
use crate::report::tables::{SkippedRows, csv, skipped_text};
use crate::report::{Report, grouped, percent, signed};
use serde::Serialize;

/// Errors of predicted whole models over all runs and per group.
#[derive(Clone, Debug, Serialize)]
pub struct RunsReport {
    overall: RunKeys,
    groups: Vec<RunGroupKeys>,
    layouts: Vec<PairErrors>,
    skipped: Vec<SkippedRows>,
}

/// Statistics on the wire: fractions, not percent; null where too few runs give none.
#[derive(Clone, Copy, Debug, Serialize)]
struct RunKeys {
    n: usize,
    median_ape: Option<f64>,
    mean_ape: Option<f64>,
    p90_ape: Option<f64>,
    bias: f64,
    coverage_90: Option<f64>,
    interval_half_width_median: Option<f64>,
    spearman: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct RunGroupKeys {
    #[serde(flatten)]
    key: RunKey,
    #[serde(flatten)]
    errors: RunKeys,
    worst: String,
    /// Runs whose predicted memory does not fit the GPU that they ran on, whatever is recomputed where the source does not
    /// say.
    misfits: usize,
}

/// One run beside its prediction.
#[derive(Serialize)]
struct RunLine<'a> {
    measure: &'static str,
    kind: &'static str,
    framework: &'a str,
    gpu: &'a str,
    dtype: &'static str,
    publisher: &'static str,
    software: &'a str,
    run: &'a str,
    measured_s: f64,
    predicted_s: f64,
    /// Empty where the framework has no interval of such steps.
    low_s: Option<f64>,
    high_s: Option<f64>,
    fits: bool,
    /// Empty where constants may be fitted to the run.
    unfitted: Option<&'a str>,
}

/// Every run as a table for other programs, units in the heading.
pub fn runs_csv(judged: &[Judged<'_>]) -> Vec<u8> {
    csv(judged.iter().map(|judged| {
        let (run, framework) = (judged.run, &judged.framework);
        let Score { measured, estimate } = judged.score();
        let known = judged.half_width().is_some();
        RunLine {
            measure: run.measure.name(),
            kind: judged.kind().name(),
            framework: &framework.name,
            gpu: &run.gpu.name,
            dtype: run.workload.format_name(),
            publisher: run.publisher.name(),
            software: &run.software,
            run: &run.label,
            measured_s: measured.secs(),
            predicted_s: estimate.time.secs(),
            low_s: known.then(|| estimate.low().secs()),
            high_s: known.then(|| estimate.high().secs()),
            fits: judged.fits,
            unfitted: run.unfitted.as_deref(),
        }
    }))
}

impl RunsReport {
    /// One sentence a kind of step: how often the faster of two measured layouts is predicted to be faster.
    fn order_text(&self) -> String {
        let sentences = self.layouts.iter().map(|pairs| {
            let right = dash(pairs.order_right.map(percent));
            format!(
                "{}, pairs of measured layouts {}: the faster one is predicted to be faster in {right} of {} that differ by over 5 %; error of the ratio {} (60 % of {}), {} (90 %)\n",
                pairs.kind,
                if pairs.same_release { "on one release" } else { "across releases" },
                grouped(pairs.apart as u64),
                percent(pairs.error_60.exp_m1()),
                grouped(pairs.pairs as u64),
                percent(pairs.error_90.exp_m1()),
            )
        });
        sentences.collect()
    }

    /// Describes a comparison; `skipped` are all rows without a prediction.
    pub fn new(comparison: &Comparison, skipped: Vec<SkippedRows>) -> Self {
        Self {
            overall: RunKeys::from(&comparison.overall),
            groups: comparison.groups.iter().map(RunGroupKeys::from).collect(),
            layouts: comparison.order.clone(),
            skipped,
        }
    }
}

impl From<&RunErrors> for RunKeys {
    fn from(RunErrors { errors, bias }: &RunErrors) -> Self {
        Self {
            n: errors.n,
            median_ape: errors.median_ape,
            mean_ape: errors.mean_ape,
            p90_ape: errors.p90_ape,
            bias: *bias,
            coverage_90: errors.coverage_90,
            interval_half_width_median: errors.interval_half_width_median,
            spearman: errors.spearman,
        }
    }
}

impl From<&RunGroup> for RunGroupKeys {
    fn from(group: &RunGroup) -> Self {
        Self {
            key: group.key.clone(),
            errors: RunKeys::from(&group.errors),
            worst: group.worst.clone(),
            misfits: group.misfits,
        }
    }
}

impl RunKeys {
    fn cells(&self) -> [String; 8] {
        let share = |value: Option<f64>| dash(value.map(percent));
        [
            grouped(self.n as u64),
            share(self.median_ape),
            share(self.mean_ape),
            share(self.p90_ape),
            signed(self.bias),
            share(self.coverage_90),
            share(self.interval_half_width_median),
            dash(self.spearman.map(|value| format!("{value:.3}"))),
        ]
    }
}

impl Report for RunsReport {
    const LISTS: &'static [&'static str] = &["groups"];

    fn page(&self) -> String {
        let headings = [
            left("measure"),
            left("kind"),
            left("framework"),
            left("GPU"),
            left("format"),
            right("runs"),
            right("median"),
            right("mean").minor(6),
            right("p90").minor(3),
            right("bias").minor(4),
            right("inside"),
            right("half width").minor(5),
            right("Spearman").minor(7),
        ];
        let line = |names: [String; 5], errors: &RunKeys| {
            let mut cells = names.into_iter().chain(errors.cells());
            std::array::from_fn::<String, 13, _>(|_| cells.next().unwrap_or_default())
        };
        let groups = self.groups.iter().map(|RunGroupKeys { key, errors, .. }| {
            let names = row![key.measure, key.kind, key.framework, key.gpu, key.dtype];
            line(names, errors)
        });
        let misfits: usize = self.groups.iter().map(|group| group.misfits).sum();
        let memory = format!(
            "{} {} whose predicted memory does not fit the GPU that they ran on, whatever is recomputed where the source does not say\n",
            grouped(misfits as u64),
            if misfits == 1 { "run" } else { "runs" },
        );
        let all = std::iter::once(line(row!["all", "", "", "", ""], &self.overall));
        let table = table(headings, groups.chain(all));
        format!("{table}{memory}{}{}", self.order_text(), skipped_text(&self.skipped))
    }
}
