//! The answer to `evaluate --runs`: the errors of whole models.

use crate::evaluate::runs::{Comparison, RunErrors, RunGroup};
use crate::report::Report;
use crate::report::SkippedRows;
use crate::report::grouped;
use crate::report::percent;
use crate::report::signed;
use crate::report::skipped_text;
use crate::report::table::{Side, table};
use serde::Serialize;

/// Errors of predicted whole models over all runs and per group.
#[derive(Clone, Debug, Serialize)]
pub struct RunsReport {
    overall: RunKeys,
    groups: Vec<RunGroupKeys>,
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
    measure: &'static str,
    kind: &'static str,
    framework: String,
    gpu: String,
    dtype: &'static str,
    publisher: &'static str,
    #[serde(flatten)]
    errors: RunKeys,
    worst: String,
    /// Runs whose predicted memory does not fit the GPU that they ran on, whatever is recomputed where the source does not
    /// say.
    misfits: usize,
}

impl RunsReport {
    /// Describes a comparison; `skipped` are all rows without a prediction.
    pub fn new(comparison: &Comparison, skipped: Vec<SkippedRows>) -> Self {
        Self {
            overall: RunKeys::from(&comparison.overall),
            groups: comparison.groups.iter().map(RunGroupKeys::from).collect(),
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
            measure: group.key.measure.name(),
            kind: group.key.kind.name(),
            framework: group.key.framework.clone(),
            gpu: group.key.gpu.clone(),
            dtype: group.key.dtype,
            publisher: group.key.publisher.name(),
            errors: RunKeys::from(&group.errors),
            worst: group.worst.clone(),
            misfits: group.misfits,
        }
    }
}

impl RunKeys {
    fn cells(&self) -> [String; 8] {
        let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), percent);
        [
            grouped(self.n as u64),
            share(self.median_ape),
            share(self.mean_ape),
            share(self.p90_ape),
            signed(self.bias),
            share(self.coverage_90),
            share(self.interval_half_width_median),
            self.spearman
                .map_or_else(|| "-".to_owned(), |value| format!("{value:.3}")),
        ]
    }
}

impl Report for RunsReport {
    fn text(&self) -> String {
        let headings = [
            ("measure", Side::Left),
            ("kind", Side::Left),
            ("framework", Side::Left),
            ("GPU", Side::Left),
            ("format", Side::Left),
            ("runs", Side::Right),
            ("median", Side::Right),
            ("mean", Side::Right),
            ("p90", Side::Right),
            ("bias", Side::Right),
            ("inside", Side::Right),
            ("half width", Side::Right),
            ("Spearman", Side::Right),
        ];
        let line = |names: [&str; 5], errors: &RunKeys| {
            let mut cells: Vec<String> = names.map(str::to_owned).into();
            cells.extend(errors.cells());
            cells.try_into().expect("five names and eight figures")
        };
        let groups = self.groups.iter().map(|group| {
            let names = [
                group.measure,
                group.kind,
                &group.framework,
                &group.gpu,
                group.dtype,
            ];
            line(names, &group.errors)
        });
        let misfits: usize = self.groups.iter().map(|group| group.misfits).sum();
        let memory = format!(
            "{} {} whose predicted memory does not fit the GPU that they ran on, whatever is recomputed where the source does not say\n",
            grouped(misfits as u64),
            if misfits == 1 { "run" } else { "runs" },
        );
        let all = std::iter::once(line(["all", "", "", "", ""], &self.overall));
        let rows: Vec<[String; 13]> = groups.chain(all).collect();
        let table = table(headings, rows);
        format!("{table}{memory}{}", skipped_text(&self.skipped))
    }
}
