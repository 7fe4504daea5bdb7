//! The answer to `measure`: what is in the file, how noisy the machine was, and how the plan was scaled to it.

use crate::dataset::steps::{MeasuredStep, steps_path, steps_run_to_run};
use crate::dataset::{RunToRun, SCRIPTED};
use crate::measure::Outcome;
use crate::measure::checks::{Lost, Verdict};
use crate::report::table::{dash, left, right, row, table};
use crate::report::tables::{SkippedRows, skipped_text};
use crate::report::{Report, grouped, signed};
use crate::units::{BytesPerSecond, FlopsPerSecond, Hertz, Seconds};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use utoipa::ToSchema;

/// A run of `measure`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MeasureReport {
    /// The file that was written.
    pub out: String,
    /// GPU.
    pub gpu: String,
    /// What its driver calls it.
    pub title: String,
    /// Software stack.
    pub stack: String,
    /// Versions below the stack.
    pub libraries: String,
    /// Files of these libraries.
    pub library_files: Vec<String>,
    /// Whether a script made the rows up; no model is trained on them.
    pub scripted: bool,
    /// Plan.
    pub plan: String,
    /// Seed of the plan.
    pub seed: u64,
    /// Part of the plan.
    pub shard: String,
    /// Why the run ended: `complete`, `budget`, `interrupted` or `device_lost`.
    pub ended: &'static str,
    /// How the device was lost; `None` if it was not.
    pub lost: Option<String>,
    /// Rows of the file.
    pub rows: u64,
    /// Rows that this run added.
    pub added_rows: u64,
    /// Rows of the file by set and reason.
    pub sets: Vec<SetRows>,
    /// Cases of this part of the plan that were not reached.
    pub unreached_cases: u64,
    /// Cases that were refused or failed.
    pub skipped: Vec<SkippedRows>,
    /// Kernels and library paths that were compared with the CPU.
    pub checked_paths: u64,
    /// Those of them with a result that disagrees, which are not timed.
    pub wrong_paths: Vec<LostPath>,
    /// Kernels and library paths that did not run in the checks, which are not timed.
    pub missing_paths: Vec<LostPath>,
    /// Single operators of the checks that did not run.
    pub unchecked: Vec<Unchecked>,
    /// Difference between two times of one case, far apart; `None` if nothing was repeated.
    pub run_to_run: Option<Noise>,
    /// Movement of the anchors; none without two visits.
    pub drift: Option<DriftLine>,
    /// Median processor clock.
    pub clock_hz: Option<Hertz>,
    /// Mean time of a case beyond its calls.
    pub set_up_us: Seconds,
    /// Duration of the run on the device's clock.
    pub spent_s: f64,
    /// Whole steps in the file beside the rows; `None` if the plan has none.
    pub steps: Option<StepsLine>,
    /// Rates that the sizes of the plan follow from.
    pub scale: ScaleLine,
}

/// Whole steps of transformers.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct StepsLine {
    /// The file that was written, with the columns of docs/runs.md.
    pub out: String,
    /// Timings, of most shapes two.
    pub steps: u64,
    /// Difference between two times of one shape, far apart; `None` if nothing was repeated.
    pub run_to_run: Option<Noise>,
}

/// A kernel or library path that is not timed.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct LostPath {
    /// Family, pass, mask, layout and format.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl LostPath {
    pub(super) fn of(lost: &[Lost]) -> Vec<Self> {
        let of = |lost: &Lost| Self {
            path: lost.path.to_string(),
            reason: lost.reason.clone(),
        };
        lost.iter().map(of).collect()
    }
}

/// An operator of the checks that did not run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Unchecked {
    /// Path and shape.
    pub operator: String,
    /// Why.
    pub reason: String,
}

impl Unchecked {
    pub(super) fn of(verdict: &Verdict) -> Vec<Self> {
        let of = |(operator, reason): &(String, String)| Self {
            operator: operator.clone(),
            reason: reason.clone(),
        };
        verdict.not_run.iter().map(of).collect()
    }
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SetRows {
    /// Set of the plan.
    pub set: String,
    /// `plan`, `anchor` or `repeat`.
    pub role: &'static str,
    /// How many.
    pub rows: u64,
    /// Median half-width of the 95 % interval of the median, relative; `None` if no row claims one.
    pub half_width_median: Option<f64>,
}

/// Noise from run to run.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Noise {
    /// Cases that were timed twice.
    pub pairs: u64,
    /// Median relative difference.
    pub median: f64,
    /// 90th percentile of the same.
    pub p90: f64,
}

/// Movement of the anchors.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DriftLine {
    /// Anchors.
    pub anchors: u64,
    /// Visits, the first included.
    pub visits: u64,
    /// Largest change of the median anchor against its first visit, relative and signed.
    pub largest: f64,
    /// Change at the last visit.
    pub last: f64,
    /// Whether it is too large for the rows to be trusted.
    pub bad: bool,
}

/// Rates of the probe, rounded to powers of two.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ScaleLine {
    /// Time of the shortest GEMM.
    pub floor_us: f64,
    /// Rate of GEMMs by format.
    pub gemm_flops_per_s: BTreeMap<&'static str, f64>,
    /// Rate of attention by format.
    pub attention_flops_per_s: BTreeMap<&'static str, f64>,
    /// Bandwidth of memory-bound kernels.
    pub memory_bytes_per_s: Option<f64>,
}

impl MeasureReport {
    /// What a run gave.
    pub fn new(out: &Path, outcome: &Outcome, skipped: Vec<SkippedRows>) -> Self {
        let header = &outcome.header;
        let (run, identity, verdict) = (&header.run, &header.run.identity, &outcome.verdict);
        let rates = |rates: &BTreeMap<crate::ops::Dtype, f64>| {
            rates.iter().map(|(dtype, rate)| (dtype.name(), *rate)).collect()
        };
        Self {
            out: out.display().to_string(),
            gpu: identity.gpu.clone(),
            title: identity.driver.title.clone(),
            stack: identity.stack.clone(),
            libraries: identity.libraries.clone(),
            library_files: identity.files.clone(),
            scripted: identity.gpu == SCRIPTED,
            plan: run.plan.clone(),
            seed: run.seed,
            shard: run.shard.clone(),
            ended: outcome.ended.name(),
            lost: outcome.lost.clone(),
            rows: outcome.rows.len() as u64,
            added_rows: outcome.added as u64,
            sets: sets(outcome),
            unreached_cases: outcome.unreached as u64,
            skipped,
            checked_paths: verdict.paths.len() as u64,
            wrong_paths: LostPath::of(&verdict.wrong),
            missing_paths: LostPath::of(&verdict.missing),
            unchecked: Unchecked::of(verdict),
            run_to_run: outcome.noise.map(Noise::of),
            drift: outcome.drift.map(|drift| DriftLine {
                anchors: drift.anchors as u64,
                visits: drift.visits as u64,
                largest: drift.largest,
                last: drift.last,
                bad: drift.is_bad(),
            }),
            clock_hz: outcome.clock,
            set_up_us: outcome.set_up,
            spent_s: outcome.spent.as_secs_f64(),
            steps: StepsLine::new(out, &outcome.steps),
            scale: ScaleLine {
                floor_us: header.rates.floor_us,
                gemm_flops_per_s: rates(&header.rates.gemm_flops_per_s),
                attention_flops_per_s: rates(&header.rates.attention_flops_per_s),
                memory_bytes_per_s: header.rates.memory_bytes_per_s,
            },
        }
    }
}

impl Noise {
    fn of(noise: RunToRun) -> Self {
        Self {
            pairs: noise.pairs as u64,
            median: noise.median,
            p90: noise.p90,
        }
    }

    fn text(&self, what: &str) -> String {
        format!(
            "median difference {:.2} %, p90 {:.2} % ({} {what} timed twice)",
            100.0 * self.median,
            100.0 * self.p90,
            self.pairs
        )
    }
}

impl StepsLine {
    fn new(out: &Path, steps: &[MeasuredStep]) -> Option<Self> {
        (!steps.is_empty()).then(|| Self {
            out: steps_path(out).display().to_string(),
            steps: steps.len() as u64,
            run_to_run: steps_run_to_run(steps).map(Noise::of),
        })
    }

    fn text(&self) -> String {
        let noise = self.run_to_run.as_ref();
        let noise = noise.map_or_else(
            || "no shape timed twice".to_owned(),
            |noise| format!("run to run {}", noise.text("shapes")),
        );
        format!("steps       {} of transformers, {noise}: {}", self.steps, self.out)
    }
}

impl MeasureReport {
    /// Whether every checked path is right and the device lasted.
    pub fn is_sound(&self) -> bool {
        self.wrong_paths.is_empty() && self.lost.is_none()
    }
}

fn sets(outcome: &Outcome) -> Vec<SetRows> {
    let mut groups: BTreeMap<(&str, &'static str), (u64, Vec<f64>)> = BTreeMap::new();
    for row in &outcome.rows {
        if let Some(about) = &row.measured {
            let group = groups.entry((&about.set, about.role.name())).or_default();
            group.0 += 1;
            group.1.extend(about.half_width);
        }
    }
    let line = |((set, role), (rows, mut widths)): ((&str, _), (u64, Vec<f64>))| {
        widths.sort_by(f64::total_cmp);
        SetRows {
            set: set.to_owned(),
            role,
            rows,
            half_width_median: widths.get(widths.len() / 2).copied(),
        }
    };
    groups.into_iter().map(line).collect()
}

impl Report for MeasureReport {
    const LISTS: &'static [&'static str] = &["sets"];

    fn page(&self) -> String {
        let rows = self.sets.iter().map(|set| {
            let width = set.half_width_median;
            row![
                set.set,
                set.role,
                grouped(set.rows),
                dash(width.map(|width| format!("{:.2} %", 100.0 * width))),
            ]
        });
        let columns = [
            left("set"),
            left("measured as"),
            right("rows"),
            right("half width of the median"),
        ];
        let mut lines = vec![table(columns, rows)];
        lines.push(format!(
            "{} written: {} rows, {} of them new, of {} ({}) on {}; {}",
            self.out,
            grouped(self.rows),
            grouped(self.added_rows),
            self.gpu,
            self.title,
            self.stack,
            self.libraries
        ));
        lines.extend(self.library_files.iter().map(|file| format!("library     {file}")));
        if self.scripted {
            lines.push("scripted    a script made these rows up; no model is trained on them".to_owned());
        }
        let unreached = match self.unreached_cases {
            0 => String::new(),
            cases => format!(", {} cases not reached", grouped(cases)),
        };
        lines.push(format!(
            "plan        {}, seed {}, part {}: ended by {} after {:.1} s{unreached}",
            self.plan, self.seed, self.shard, self.ended, self.spent_s
        ));
        lines.push(match &self.run_to_run {
            Some(noise) => format!("run to run  {}", noise.text("cases")),
            None => "run to run  unknown: the run was too short to time a case twice".to_owned(),
        });
        lines.push(match &self.drift {
            Some(drift) => format!(
                "drift       {} at most, {} at the end ({} anchors, {} visits){}",
                signed(drift.largest),
                signed(drift.last),
                drift.anchors,
                drift.visits,
                if drift.bad {
                    ": over 2 %, measure again on a quiet machine"
                } else {
                    ""
                }
            ),
            None => "drift       unknown: no anchor was visited twice".to_owned(),
        });
        if let Some(clock) = self.clock_hz {
            lines.push(format!("clock       {:.0} MHz in the median", clock.hertz() / 1e6));
        }
        lines.push(format!("set-up      {} a case", self.set_up_us));
        lines.extend(self.steps.as_ref().map(StepsLine::text));
        lines.push(format!("scaled to   {}", self.scale.text()));
        lines.push(format!(
            "checked     {} kernels and library paths against the CPU, {} wrong, {} missing",
            self.checked_paths,
            self.wrong_paths.len(),
            self.missing_paths.len()
        ));
        let named = |name: &'static str, lost: &[LostPath]| {
            let line = |lost: &LostPath| format!("{name:<12}{}: {}", lost.path, lost.reason);
            lost.iter().map(line).collect::<Vec<_>>()
        };
        lines.extend(named("wrong", &self.wrong_paths));
        lines.extend(named("missing", &self.missing_paths));
        lines.extend(
            self.unchecked
                .iter()
                .map(|check| format!("unchecked   {}: {}", check.operator, check.reason)),
        );
        lines.extend(
            self.lost
                .iter()
                .map(|reason| format!("lost        {reason}; the rows before are in the file")),
        );
        format!("{}\n{}", lines.join("\n"), skipped_text(&self.skipped))
    }
}

impl ScaleLine {
    fn text(&self) -> String {
        let rates = |name: &str, rates: &BTreeMap<&str, f64>| {
            let rate =
                |(dtype, rate): (&&str, &f64)| format!("{name} {dtype} {}", FlopsPerSecond::from_flops_per_sec(*rate));
            rates.iter().map(rate).collect::<Vec<_>>()
        };
        let mut parts = vec![format!("floor {}", Seconds::from_micros(self.floor_us))];
        parts.extend(rates("gemm", &self.gemm_flops_per_s));
        parts.extend(rates("attention", &self.attention_flops_per_s));
        if let Some(rate) = self.memory_bytes_per_s.map(BytesPerSecond::from_bytes_per_sec) {
            parts.push(format!("memory {:.0} GB/s", rate.bytes_per_sec() / 1e9));
        }
        parts.join(", ")
    }
}
