//! A whole run: self-check, probe of the rates, soak, the cases in their order with anchors and repeats between them,
//! and the file at the end.

mod anchors_and_repeats;
mod fair_share;
mod prepare;
mod queue;
mod scheduler;
mod steps;

use super::checks::Verdict;
use super::describe::gpu_of;
use super::device::Device;
use super::journal::{Existing, Header};
use crate::dataset::steps::MeasuredStep;
use crate::dataset::{self, Drift, Row, RunToRun, Skipped, drift};
use crate::error::{Error, Result};
use crate::measure::plan::Plan;
use crate::named_enum;
use crate::ops::Op;
use crate::shard::Shard;
use crate::stats::median;
use crate::units::{Hertz, Seconds};
use prepare::prepare;
use scheduler::Run;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// What to measure, and the file for it.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The Parquet file.
    pub out: &'a Path,
    /// What to do with a file that exists.
    pub existing: Existing,
    /// The plan.
    pub plan: &'a Plan,
    /// Time that this run may take on the device's clock.
    pub budget: Duration,
    /// Seed of shapes and order.
    pub seed: u64,
    /// Shard of the plan.
    pub shard: Shard,
    /// Whether one wrong path ends the run.
    pub strict: bool,
}

/// Progress of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Kernels and library paths were compared with the reference.
    Checked {
        /// What the comparison says.
        verdict: &'a Verdict,
    },
    /// The device was probed for the rates that sizes follow from.
    Probed,
    /// An earlier run is continued.
    Resumed {
        /// Its rows.
        rows: usize,
        /// Whether its last line was torn.
        torn: bool,
    },
    /// What this shard of the plan measures.
    Planned {
        /// Its cases.
        cases: usize,
    },
    /// The device warms up.
    Soaking {
        /// For how long.
        duration: Duration,
    },
    /// A row is in the journal.
    Measured {
        /// The row.
        row: &'a Row,
        /// Cases so far.
        done: usize,
        /// Cases in all.
        cases: usize,
        /// What of the budget is used up.
        spent: Duration,
    },
    /// A case failed and is left out.
    Failed {
        /// Its operator.
        op: &'a Op,
        /// Why.
        reason: &'a str,
    },
    /// A whole step is in the journal.
    Stepped {
        /// The step.
        step: &'a MeasuredStep,
    },
    /// A whole step failed and is left out.
    StepFailed {
        /// Its name.
        name: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// The file is being written.
    Writing {
        /// Its rows.
        rows: usize,
    },
}

/// Receives progress; a break ends the run after the row in flight, with its file.
pub type Watch<'a> = dyn FnMut(&Event<'_>) -> ControlFlow<()> + 'a;

named_enum! {
    /// Why a run ended.
    Ended {
        /// Every case was measured, refused or failed.
        Complete = "complete",
        /// The budget was used up.
        Budget = "budget",
        /// The watcher broke off.
        Interrupted = "interrupted",
        /// The device was lost.
        DeviceLost = "device_lost",
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Header of the journal: device, software, plan and rates.
    pub header: Header,
    /// All rows of the file.
    pub rows: Vec<Row>,
    /// All whole steps of the file beside it.
    pub steps: Vec<MeasuredStep>,
    /// Rows that this run added.
    pub added: usize,
    /// Cases of this shard that were not reached.
    pub unreached: usize,
    /// Cases without a row, by reason.
    pub skipped: Skipped,
    /// Why it ended.
    pub ended: Ended,
    /// How the device was lost, if it was.
    pub lost: Option<String>,
    /// Drift of the anchors; none without two visits.
    pub drift: Option<Drift>,
    /// Noise from run to run; none without repeats.
    pub noise: Option<RunToRun>,
    /// Median clock over rows, where the device reports it.
    pub clock: Option<Hertz>,
    /// Mean time of a case beyond its calls.
    pub set_up: Seconds,
    /// Time of this run on the device's clock.
    pub spent: Duration,
    /// Paths that were compared with the reference, those that are wrong, and those that are missing.
    pub verdict: Verdict,
}

/// Measures a plan on a device and writes the file.
pub fn measure(device: &mut dyn Device, options: &Options<'_>, watch: &mut Watch<'_>) -> Result<Outcome> {
    let start = device.now();
    let mut run = prepare(device, options, start, watch)?;
    let ended = run.execute(watch)?;
    let spent = run.spent();
    let unreached = run.queue.len() + run.planned_steps.len();
    let set_up = run.set_up();
    let Run {
        journal,
        header,
        verdict,
        rows,
        steps,
        added,
        skipped,
        lost,
        ..
    } = run;
    if rows.is_empty() {
        journal.discard();
        let reasons: Vec<_> = skipped.iter().map(|(reason, _)| reason).collect();
        return Err(Error::infeasible(format!(
            "no case was measured, so {} is not written ({})",
            options.out.display(),
            if reasons.is_empty() {
                "the budget or an interrupt came first".into()
            } else {
                reasons.join("; ")
            }
        )));
    }
    let _ = watch(&Event::Writing { rows: rows.len() });
    // The files of a device without a datasheet carry its description.
    let gpu = gpu_of(&header.run.identity.gpu, &header.run.identity.driver, &rows)?;
    journal.finish(&header, &rows, &steps, &gpu)?;
    let clocks = rows.iter().filter_map(|row| row.clock);
    Ok(Outcome {
        drift: drift(&rows),
        noise: dataset::run_to_run(&rows),
        clock: median(clocks.map(Hertz::hertz).collect()).map(Hertz::from_hertz),
        header,
        rows,
        steps,
        added,
        unreached,
        skipped,
        ended,
        lost,
        set_up,
        spent,
        verdict,
    })
}
