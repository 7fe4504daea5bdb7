//! A whole run: self-check, probe, soak, the cases in their order, anchors, repeats, active rounds, the file at the end.

mod besides;
mod course;
mod prepare;
mod shares;

use super::describe::describe;
use super::device::{Case, Checked, Device};
use super::drift::{Drift, drift};
use super::journal::{Existing, Header, Journal, Wanted};
use super::plan::{Plan, Scale, Shard};
use super::protocol::median;
use crate::dataset;
use crate::dataset::Cache;
use crate::dataset::Role;
use crate::dataset::Row;
use crate::dataset::RunToRun;
use crate::dataset::Skipped;
use crate::error::Error;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::ops::Op;
use crate::units::Hertz;
use crate::units::Seconds;
use course::Run;
use prepare::prepare;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// What to measure and where to put it.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The Parquet file.
    pub out: &'a Path,
    /// What to do with one that is there.
    pub existing: Existing,
    /// The plan.
    pub plan: &'a Plan,
    /// How long this run may take on the device's clock, from now.
    pub budget: Duration,
    /// Seed of shapes and order.
    pub seed: u64,
    /// Part of the plan.
    pub shard: Shard,
}

/// News from a run.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// Every kernel and library path agrees with the reference.
    Checked { paths: &'a [Checked] },
    /// The rates that the sizes follow from, and whether they were measured just now.
    Scaled { scale: &'a Scale, probed: bool },
    /// An earlier run is gone on with.
    Resumed { rows: usize, torn: bool },
    /// Cases to come, in this part of the plan.
    Planned { cases: usize },
    /// The device is kept busy before the first timing.
    Soaking { duration: Duration },
    /// A row is safe; `done` of `cases`, `spent` of the budget.
    Measured {
        row: &'a Row,
        done: usize,
        cases: usize,
        spent: Duration,
    },
    /// A case failed and is left out.
    Failed { case: &'a Case, reason: &'a str },
    /// Cases were asked for where the rows so far disagree.
    Round { round: usize, cases: usize },
    /// The file is being written.
    Writing { rows: usize },
}

/// Takes news; a break ends the run after the row in flight, with its file.
pub type Watch<'a> = dyn FnMut(&Event<'_>) -> ControlFlow<()> + 'a;

/// Places of the candidates to measure next, at most so many, given the part and its rows so far.
pub type Propose<'a> = dyn FnMut(&Gpu, &[Row], &[Op], usize) -> Vec<usize> + 'a;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every case was measured, refused or failed.
    Complete,
    /// The budget was used up.
    Budget,
    /// Somebody asked it to.
    Interrupted,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whose rows they are, and the rates that the plan was scaled by.
    pub header: Header,
    /// All rows of the file.
    pub rows: Vec<Row>,
    /// Those of them that this run added.
    pub added: usize,
    /// Cases of this part of the plan that were never reached.
    pub unreached: usize,
    /// Cases without a row, by reason.
    pub skipped: Skipped,
    /// Why it ended.
    pub ended: Ended,
    /// How far anchors moved; none without two visits.
    pub drift: Option<Drift>,
    /// Noise from run to run; none where nothing was repeated.
    pub noise: Option<RunToRun>,
    /// Median clock over rows, where the device tells.
    pub clock: Option<Hertz>,
    /// Mean time of a case beyond its calls.
    pub set_up: Seconds,
    /// Time of this run on the device's clock.
    pub spent: Duration,
    /// Paths that were compared with the reference.
    pub checked: usize,
}

/// Measures a plan on a device and writes the file.
pub fn measure(
    device: &mut dyn Device,
    options: &Options<'_>,
    propose: &mut Propose<'_>,
    watch: &mut Watch<'_>,
) -> Result<Outcome> {
    let start = device.now();
    let identity = device.identity().clone();
    let wanted = Wanted {
        identity: &identity,
        plan: options.plan,
        seed: options.seed,
        shard: options.shard,
    };
    let (mut journal, left) = Journal::open(options.out, options.existing, &wanted)?;
    let begun = left.header.is_some();
    let prepared = prepare(device, options, &wanted, &left, &journal, watch);
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            if !begun {
                journal.discard();
            }
            return Err(error);
        }
    };
    journal.begin(&prepared.header)?;
    let checked = prepared.checked;
    let mut run = Run::new(device, options, prepared, journal, left, start);
    let ended = run.go(propose, watch)?;
    let spent = run.spent();
    let (unreached, set_up, added) = (run.queue.len(), run.set_up(), run.added);
    let Run {
        journal,
        header,
        rows,
        skipped,
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
    let mut gpus = GpuCatalog::default();
    gpus.extend(describe(&identity.gpu, &identity.facts, &rows)?);
    journal.finish(&header, &rows, &gpus)?;
    Ok(Outcome {
        drift: drift(&rows),
        noise: dataset::run_to_run(&rows),
        clock: median(rows.iter().filter_map(|row| row.clock).map(Hertz::hertz))
            .map(Hertz::from_hertz),
        header,
        rows,
        added,
        unreached,
        skipped,
        ended,
        set_up,
        spent,
        checked,
    })
}

/// Whether a row was measured for its own sake.
fn is_own(row: &Row) -> bool {
    let role = row.measured.as_ref().map(|about| about.role);
    matches!(role, Some(Role::Plan | Role::Active))
}

/// The case of a row of our own.
fn case_of(row: &Row) -> Case {
    let about = row.measured.as_ref();
    Case {
        op: row.op,
        cache: about.map_or(Cache::Cold, |about| about.cache),
        rank: about.map_or(0, |about| about.rank),
    }
}

/// A case as the journal names it.
fn name_of(case: &Case) -> String {
    format!(
        "{} {} {} {:?}",
        case.op,
        case.cache.name(),
        case.rank,
        case.op
    )
}
