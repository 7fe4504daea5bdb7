//! The answer to `measure --probe`: whether a device is right, and the times of a few operators.

use crate::measure::device::{Cache, Sensors};
use crate::measure::probe::Probe;
use crate::report::Report;
use crate::report::table::{dash, left, right, row, table};
use crate::report::tables::measure::{LostPath, Unchecked};
use crate::units::{BytesPerSecond, FlopsPerSecond, Hertz, Seconds};
use serde::Serialize;
use utoipa::ToSchema;

/// A probe of a device.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProbeReport {
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
    /// Kernels and library paths that were compared with the CPU.
    pub checked_paths: u64,
    /// Results of them.
    pub checked_results: u64,
    /// Paths with a result that disagrees.
    pub wrong_paths: Vec<LostPath>,
    /// Paths of which nothing ran.
    pub missing_paths: Vec<LostPath>,
    /// Single operators of the checks that did not run.
    pub unchecked: Vec<Unchecked>,
    /// Duration of the checks.
    pub checks_s: f64,
    /// Sensors before the warm-up.
    pub before: SensorLine,
    /// Sensors after it.
    pub after: SensorLine,
    /// Why the warm-up failed; `None` if it did not.
    pub soak_failed: Option<String>,
    /// Operators.
    pub operators: Vec<ProbedOperator>,
    /// Share of the replays with a clock; `None` if nothing was timed.
    pub clocked: Option<f64>,
    /// How the device was lost; `None` if it was not.
    pub lost: Option<String>,
    /// Duration of the whole probe.
    pub spent_s: f64,
}

/// Readings of the sensors.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SensorLine {
    /// Power of the board.
    pub power_watts: Option<f64>,
    /// Temperature of the chip.
    pub temperature_celsius: Option<f64>,
}

impl From<Sensors> for SensorLine {
    fn from(sensors: Sensors) -> Self {
        Self {
            power_watts: sensors.power_watts,
            temperature_celsius: sensors.temperature_celsius,
        }
    }
}

impl SensorLine {
    fn text(&self) -> String {
        let shown = |value: Option<f64>, unit: &str| dash(value.map(|value| format!("{value:.0} {unit}")));
        let power = shown(self.power_watts, "W");
        format!("{power}, {}", shown(self.temperature_celsius, "C"))
    }
}

/// One operator, timed or with the reason why not.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ProbedOperator {
    /// The operator.
    pub operator: String,
    /// State of the last-level cache before a call.
    pub cache: Cache,
    /// Time from opening the case to its last replay, without the replays.
    pub set_up_ms: Option<f64>,
    /// Time of a call on its own.
    pub alone_us: Option<Seconds>,
    /// Time of a call in a chain.
    pub chained_us: Option<Seconds>,
    /// Rate of its arithmetic in the chain.
    pub flops_per_s: Option<FlopsPerSecond>,
    /// Rate of its compulsory traffic in the chain.
    pub bytes_per_s: Option<BytesPerSecond>,
    /// Median clock of the processors.
    pub clock_hz: Option<Hertz>,
    /// Why it was not timed.
    pub reason: Option<String>,
}

impl ProbeReport {
    /// What a probe has found.
    pub fn new(probe: &Probe) -> Self {
        let (identity, verdict) = (&probe.identity, &probe.verdict);
        let operators = probe.timed.iter().map(|(case, outcome)| {
            let timed = outcome.as_ref().ok();
            ProbedOperator {
                operator: match case.op {
                    crate::ops::Op::Attention(op) => format!("{} {}", case.op, op.pass),
                    op => op.to_string(),
                },
                cache: case.cache,
                set_up_ms: timed.map(|timed| timed.set_up.as_secs_f64() * 1e3),
                alone_us: timed.map(|timed| timed.alone),
                chained_us: timed.map(|timed| timed.chained),
                flops_per_s: timed
                    .map(|timed| case.op.flops() / timed.chained)
                    .filter(|rate| *rate > FlopsPerSecond::ZERO),
                bytes_per_s: timed.map(|timed| case.op.bytes() / timed.chained),
                clock_hz: timed.and_then(|timed| timed.clock),
                reason: outcome.as_ref().err().cloned(),
            }
        });
        let shares = probe.timed.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
        let shares: Vec<f64> = shares.map(|timed| timed.clocked).collect();
        Self {
            gpu: identity.gpu.clone(),
            title: identity.driver.title.clone(),
            stack: identity.stack.clone(),
            libraries: identity.libraries.clone(),
            library_files: identity.files.clone(),
            checked_paths: verdict.paths.len() as u64,
            checked_results: verdict.compared as u64,
            wrong_paths: LostPath::of(&verdict.wrong),
            missing_paths: LostPath::of(&verdict.missing),
            unchecked: Unchecked::of(verdict),
            checks_s: probe.checks_took.as_secs_f64(),
            before: probe.before.into(),
            after: probe.after.into(),
            soak_failed: probe.soak_failed.clone(),
            operators: operators.collect(),
            clocked: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
            lost: probe.lost.clone(),
            spent_s: probe.spent.as_secs_f64(),
        }
    }

    /// Whether every checked path is right and the device lasted.
    pub fn is_sound(&self) -> bool {
        self.wrong_paths.is_empty() && self.lost.is_none()
    }
}

impl Report for ProbeReport {
    const LISTS: &'static [&'static str] = &["operators"];

    fn page(&self) -> String {
        let columns = [
            left("operator"),
            left("cache"),
            right("set-up ms"),
            right("alone us"),
            right("in a chain us"),
            right("TFLOP/s"),
            right("GB/s"),
            right("MHz"),
        ];
        let number = |value: Option<f64>, digits: usize| dash(value.map(|value| format!("{value:.digits$}")));
        let timed = self.operators.iter().filter(|line| line.reason.is_none());
        let rows = timed.map(|line| {
            row![
                line.operator,
                line.cache,
                number(line.set_up_ms, 2),
                number(line.alone_us.map(Seconds::micros), 2),
                number(line.chained_us.map(Seconds::micros), 2),
                number(line.flops_per_s.map(|rate| rate.flops_per_sec() * 1e-12), 1),
                number(line.bytes_per_s.map(|rate| rate.bytes_per_sec() * 1e-9), 0),
                number(line.clock_hz.map(|clock| clock.hertz() * 1e-6), 0),
            ]
        });
        let mut lines = vec![table(columns, rows)];
        lines.push(format!(
            "device      {} ({}), {}; {}",
            self.gpu, self.title, self.stack, self.libraries
        ));
        lines.extend(self.library_files.iter().map(|file| format!("library     {file}")));
        lines.push(format!(
            "checked     {} results of {} kernels and library paths against the CPU in {:.1} s, {} wrong, {} missing",
            self.checked_results,
            self.checked_paths,
            self.checks_s,
            self.wrong_paths.len(),
            self.missing_paths.len()
        ));
        let mut named = |name: &str, what: &str, reason: &str| {
            lines.push(format!("{name:<12}{what}: {reason}"));
        };
        for lost in &self.wrong_paths {
            named("wrong", &lost.path, &lost.reason);
        }
        for lost in &self.missing_paths {
            named("missing", &lost.path, &lost.reason);
        }
        for check in &self.unchecked {
            named("unchecked", &check.operator, &check.reason);
        }
        for line in &self.operators {
            if let Some(reason) = &line.reason {
                let what = format!("{} {}", line.operator, line.cache);
                named("not timed", &what, reason);
            }
        }
        if let Some(reason) = &self.soak_failed {
            named("warm-up", "failed", reason);
        }
        if let Some(reason) = &self.lost {
            named("lost", "device", reason);
        }
        lines.push(format!(
            "sensors     {} before the warm-up, {} after it",
            self.before.text(),
            self.after.text()
        ));
        let clocked = self.clocked.map_or(0.0, |share| 100.0 * share);
        lines.push(format!("clock       reported for {clocked:.0} % of the replays"));
        lines.push(format!("took        {:.1} s", self.spent_s));
        format!("{}\n", lines.join("\n"))
    }
}
