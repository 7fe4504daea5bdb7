//! The scheduler of a run: it times one case after the other, journals each before the next, and
//! stops in time.

use super::fair_share::FairShare;
use super::prepare::Prepared;
use super::{Ended, Event, Options, Propose, Watch};
use crate::dataset::{Measured, Role, Row, Skipped, line};
use crate::error::{Error, Result};
use crate::measure::device::{Case, Device};
use crate::measure::journal::{Earlier, Header, Journal};
use crate::measure::plan::{Planned, Sizing};
use crate::measure::protocol::{Clocks, Timing, time};
use crate::measure::stopping::Limits;
use crate::units::Seconds;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// Every so many cases, one is a repeat.
pub(super) const REPEAT_EVERY: usize = 20;

/// Largest share of the budget that the soak takes.
const SOAK_SHARE: f64 = 0.05;

/// Failures in a row after which the device is taken for broken.
const FAILURES: usize = 5;

/// The state of a run.
pub struct Run<'a> {
    pub(super) device: &'a mut dyn Device,
    pub(super) options: &'a Options<'a>,
    pub header: Header,
    pub(super) sizing: Sizing<'a>,
    shared: line::Shared,
    pub journal: Journal,
    start: Duration,
    /// End of the run that is continued, in seconds; added to the device's clock.
    pub(super) earlier: f64,
    pub queue: VecDeque<(Planned, Role)>,
    pub rows: Vec<Row>,
    pub added: usize,
    pub skipped: Skipped,
    clocks: Clocks,
    limits: Limits,
    pub(super) anchors: Vec<Planned>,
    /// Time of the last visit of all anchors.
    pub(super) anchor_cost: Duration,
    pub(super) next_anchors: Duration,
    /// Index of the next row to repeat.
    pub(super) next_repeat: usize,
    pub(super) repeats: usize,
    failures: usize,
    /// Time of this run's cases by set.
    shares: FairShare,
    /// Time of their calls.
    busy: Seconds,
}

impl<'a> Run<'a> {
    /// A run that has measured nothing yet.
    pub fn new(
        device: &'a mut dyn Device,
        options: &'a Options<'a>,
        prepared: Prepared<'a>,
        journal: Journal,
        earlier: Earlier,
        start: Duration,
    ) -> Self {
        let about = |row: &Row| row.measured.as_ref().map(|about| (about.at_s, about.role));
        let times = earlier.rows.iter().filter_map(about).map(|(at, _)| at);
        let mut anchors: Vec<Planned> = Vec::new();
        for row in &earlier.rows {
            let planned = Planned::of(row);
            if about(row).is_some_and(|(_, role)| role == Role::Anchor)
                && !anchors.contains(&planned)
            {
                anchors.push(planned);
            }
        }
        Self {
            shares: FairShare::new(&prepared.queue, options.budget),
            earlier: times.fold(0.0, f64::max),
            next_repeat: earlier.rows.len(),
            shared: prepared.header.shared(),
            header: prepared.header,
            sizing: prepared.sizing,
            queue: prepared.queue,
            skipped: prepared.skipped,
            rows: earlier.rows,
            device,
            options,
            journal,
            start,
            anchors,
            added: 0,
            clocks: Clocks::default(),
            limits: Limits::default(),
            anchor_cost: Duration::ZERO,
            next_anchors: Duration::ZERO,
            repeats: 0,
            failures: 0,
            busy: Seconds::ZERO,
        }
    }

    /// Time since the run began.
    pub fn spent(&self) -> Duration {
        self.device.now().saturating_sub(self.start)
    }

    /// Mean time of a case beyond its calls.
    pub fn set_up(&self) -> Seconds {
        let (cases, took) = self.shares.total();
        let beyond = Seconds::from_secs(took.as_secs_f64()) - self.busy;
        beyond.max(Seconds::ZERO) / f64::from(cases.max(1))
    }

    /// Time that another case may take: twice the mean of the slowest set.
    pub(super) fn margin(&self) -> Duration {
        2 * self.shares.slowest()
    }

    /// The next case whose set has not overused its share; where all sets have, the first.
    fn next_planned(&mut self) -> Option<(Planned, Role)> {
        let mut queued = self.queue.iter();
        let place = queued.position(|(planned, _)| !self.shares.must_wait(planned.set));
        self.queue.remove(place.unwrap_or(0))
    }

    /// Whether the budget allows another case and the last visit of the anchors after it.
    fn is_in_time(&self) -> bool {
        self.spent() + self.margin() + self.anchor_cost < self.options.budget
    }

    /// Measures until the end of the plan or of the budget, or until the watcher breaks off.
    pub fn execute(&mut self, propose: &mut Propose<'_>, watch: &mut Watch<'_>) -> Result<Ended> {
        let Options { plan, budget, .. } = *self.options;
        if self.queue.is_empty() {
            return Ok(Ended::Complete);
        }
        let soak = plan.soak.min(budget.mul_f64(SOAK_SHARE));
        let interrupted = watch(&Event::Soaking { duration: soak }).is_break();
        if interrupted {
            return Ok(Ended::Interrupted);
        }
        self.device.soak(soak)?;
        if self.anchors.is_empty() {
            let plain = self
                .queue
                .iter()
                .filter(|(planned, _)| planned.case == Case::cold(planned.case.op));
            let most = plan.anchors.min(self.queue.len() / 20);
            self.anchors = plain.take(most).map(|(planned, _)| *planned).collect();
        }
        let planned = self.queue.len().max(1);
        let (mut done, mut round, mut slot) = (0, 0, 0usize);
        loop {
            if !self.is_in_time() {
                // A break changes nothing: the file is written next.
                let _ = self.visit_anchors(watch)?;
                return Ok(Ended::Budget);
            }
            if self.spent() >= self.next_anchors && self.visit_anchors(watch)?.is_break() {
                return Ok(Ended::Interrupted);
            }
            let progress =
                (done as f64 / planned as f64).max(self.spent().div_duration_f64(budget));
            if round < plan.active_rounds
                && progress >= 0.4 + 0.5 * round as f64 / plan.active_rounds as f64
            {
                let share = (done as f64 / planned as f64 / progress).min(1.0);
                self.query(round, share, propose, watch)?;
                round += 1;
            }
            slot += 1;
            let due = slot.is_multiple_of(REPEAT_EVERY) || self.queue.is_empty();
            let again = due.then(|| self.repeat()).flatten();
            let next = again
                .map(|again| (again, Role::Repeat))
                .or_else(|| self.next_planned());
            let Some((planned_case, role)) = next else {
                let _ = self.visit_anchors(watch)?;
                return Ok(Ended::Complete);
            };
            done += usize::from(role == Role::Plan);
            let cases = planned.max(done);
            if self
                .case(&planned_case, role, done, cases, watch)?
                .is_break()
            {
                return Ok(Ended::Interrupted);
            }
        }
    }

    /// Times one case and journals its row, or counts its failure.
    pub(super) fn case(
        &mut self,
        planned: &Planned,
        role: Role,
        done: usize,
        cases: usize,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let at = self.earlier + self.device.now().as_secs_f64();
        let timed = time(self.device, &planned.case, &self.limits, &mut self.clocks);
        let timing = match timed {
            Ok(timing) => timing,
            Err(error) => return self.fail(&planned.case, role, &error, watch),
        };
        self.failures = 0;
        self.shares.add(planned.set, timing.took);
        self.busy += timing.busy;
        let row = self.row(planned, role, at, &timing);
        self.journal.row(&row)?;
        self.added += 1;
        self.rows.push(row);
        let row = &self.rows[self.rows.len() - 1];
        Ok(watch(&Event::Measured {
            row,
            done,
            cases,
            spent: self.spent(),
        }))
    }

    fn fail(
        &mut self,
        case: &Case,
        role: Role,
        error: &Error,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let reason = error.to_string().replace('\n', " ");
        self.failures += 1;
        if self.failures >= FAILURES {
            self.journal.sync()?;
            return Err(Error::infeasible(format!(
                "{FAILURES} cases in a row failed, the last one ({}) with: {reason}; the rows before are safe, --resume goes on",
                case.op
            )));
        }
        if matches!(role, Role::Plan | Role::Active) {
            self.journal.failed(case, &reason)?;
            self.skipped.add(&format!("failed: {reason}"), 1);
        }
        self.anchors.retain(|anchor| anchor.case != *case);
        Ok(watch(&Event::Failed {
            case,
            reason: &reason,
        }))
    }

    fn row(&self, planned: &Planned, role: Role, at: f64, timing: &Timing) -> Row {
        let summary = &timing.summary;
        Row {
            op: planned.case.op,
            gpu: self.shared.gpu.clone(),
            stack: self.shared.stack.clone(),
            time: summary.median,
            p10: summary.tails.map(|tails| tails.0),
            p90: summary.tails.map(|tails| tails.1),
            samples: u32::try_from(summary.replays).ok(),
            clock: timing.clock,
            group: None,
            origin: self.shared.origin.clone(),
            measured: Some(Box::new(Measured {
                set: planned.set.name().to_owned(),
                role,
                cache: planned.case.cache,
                rank: planned.case.rank,
                at_s: at,
                calls: timing.calls,
                min: summary.min,
                quartiles: summary.quartiles,
                half_width: summary.half_width(),
                stop: summary.stop,
                remeasured: timing.remeasured,
                power_watts: timing.sensors.power_watts,
                temperature_celsius: timing.sensors.temperature_celsius,
                kernel: timing.kernel.clone(),
            })),
        }
    }
}
