//! The scheduler of a run: it times one case after the other, journals each before the next, and
//! stops in time.

use super::fair_share::FairShare;
use super::queue::Queue;
use super::{Ended, Event, Options, Watch};
use crate::dataset::steps::MeasuredStep;
use crate::dataset::{Cache, Measured, Role, Row, Skipped, line};
use crate::error::Result;
use crate::measure::checks::Verdict;
use crate::measure::device::Device;
use crate::measure::journal::{Header, Journal};
use crate::measure::path::KernelPath;
use crate::measure::plan::{Planned, PlannedStep, Sizing};
use crate::measure::protocol::{Clocks, Timing, time};
use crate::measure::stopping::Limits;
use crate::ops::Op;
use crate::units::{Hertz, Seconds};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::time::Duration;

/// Every so many cases, one is a repeat.
pub const REPEAT_EVERY: usize = 20;

/// Largest share of the budget that the soak takes.
const SOAK_SHARE: f64 = 0.05;

/// Failures of a path without any success after which its other cases are refused.
const FAILURES: u32 = 16;

/// The state of a run.
pub struct Run<'a> {
    pub device: &'a mut dyn Device,
    pub options: &'a Options<'a>,
    pub header: Header,
    pub verdict: Verdict,
    pub sizing: Sizing<'a>,
    pub shared: line::Shared,
    pub journal: Journal,
    pub start: Duration,
    /// End of the run that is continued, in seconds; added to the device's clock.
    pub earlier: f64,
    pub queue: Queue,
    pub planned_steps: VecDeque<PlannedStep>,
    pub rows: Vec<Row>,
    pub steps: Vec<MeasuredStep>,
    /// Steps that were measured or failed.
    pub steps_done: usize,
    /// Longest time that a step took with its set-up.
    pub longest_step: Option<Duration>,
    pub added: usize,
    pub skipped: Skipped,
    pub clocks: Clocks,
    pub limits: Limits,
    pub anchors: Vec<Planned>,
    /// Time of the last visit of all anchors.
    pub anchor_cost: Duration,
    pub next_anchors: Duration,
    /// Index of the next row to repeat.
    pub next_repeat: usize,
    pub repeats: usize,
    /// Failures of the paths that have timed no case yet; none of a path that has.
    pub failures: BTreeMap<KernelPath, Option<u32>>,
    /// How the device was lost, if it was.
    pub lost: Option<String>,
    /// Time of this run's cases by set.
    pub shares: FairShare,
    /// Time of their calls.
    pub busy: Seconds,
}

impl Run<'_> {
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
    pub fn margin(&self) -> Duration {
        2 * self.shares.slowest()
    }

    /// The next case that is ready, of a set that has not overused its share where there is one.
    fn next_planned(&mut self) -> Option<Planned> {
        self.look_ahead();
        let (shares, device) = (&self.shares, &*self.device);
        let must_wait = |set| shares.must_wait(set);
        self.queue.next(must_wait, |op| device.is_ready(op))
    }

    /// Has the device prepare what comes next.
    fn look_ahead(&mut self) {
        self.device.look_ahead(&mut self.queue.upcoming());
    }

    /// Whether the budget allows another case and the last visit of the anchors after it.
    fn is_in_time(&self) -> bool {
        self.spent() + self.margin() + self.anchor_cost < self.options.budget
    }

    /// Measures until the end of the plan or of the budget, or until the watcher breaks off.
    pub fn execute(&mut self, watch: &mut Watch<'_>) -> Result<Ended> {
        let Options { plan, budget, .. } = *self.options;
        if self.queue.is_empty() && self.planned_steps.is_empty() {
            return Ok(Ended::Complete);
        }
        let soak = plan.soak.min(budget.mul_f64(SOAK_SHARE));
        let interrupted = watch(&Event::Soaking { duration: soak }).is_break();
        if interrupted {
            return Ok(Ended::Interrupted);
        }
        if self.anchors.is_empty() {
            let most = plan.anchors.min(self.queue.len() / 20 + self.planned_steps.len());
            let mut anchors = self.sizing.anchors(&|op| self.device.refuses(op));
            anchors.extend(self.queue.first(most));
            let mut known = HashSet::new();
            anchors.retain(|anchor| known.insert(anchor.op));
            anchors.truncate(most);
            self.anchors = anchors;
        }
        self.look_ahead();
        if let Err(error) = self.device.soak(soak) {
            self.lost = self.device.lost();
            if self.lost.is_some() {
                return Ok(Ended::DeviceLost);
            }
            self.skipped.add(&format!("failed: the warm-up: {error}"), 1);
        }
        let planned = self.queue.len().max(1);
        let (mut done, mut slot) = (0, 0usize);
        loop {
            if !self.is_in_time() {
                // A break changes nothing: the file is written next.
                let _ = self.visit_anchors(watch)?;
                return Ok(self.ended(Ended::Budget));
            }
            if self.spent() >= self.next_anchors && self.visit_anchors(watch)?.is_break() {
                return Ok(self.ended(Ended::Interrupted));
            }
            let progress = (done as f64 / planned as f64).max(self.spent().div_duration_f64(budget));
            // A step that does not fit in time is left out; the cases after it may.
            if self.is_due(self.steps_done, self.planned_steps.len(), progress) {
                let fits = self.spent() + self.step_margin() + self.anchor_cost < budget;
                if !fits && self.queue.is_empty() {
                    let _ = self.visit_anchors(watch)?;
                    return Ok(self.ended(Ended::Budget));
                }
                if fits {
                    if self.step(watch)?.is_break() {
                        return Ok(self.ended(Ended::Interrupted));
                    }
                    continue;
                }
            }
            slot += 1;
            let due = slot.is_multiple_of(REPEAT_EVERY) || self.queue.is_empty();
            let again = due.then(|| self.repeat()).flatten();
            let next = match again {
                Some(again) => Some((again, Role::Repeat)),
                None => self.next_planned().map(|next| (next, Role::Plan)),
            };
            let Some((planned_case, role)) = next else {
                let _ = self.visit_anchors(watch)?;
                return Ok(self.ended(Ended::Complete));
            };
            done += usize::from(role == Role::Plan);
            if self.case(&planned_case, role, done, planned, watch)?.is_break() {
                return Ok(self.ended(Ended::Interrupted));
            }
        }
    }

    /// Whether one of what is measured beside the cases is due: they are spread evenly over the cases of the plan.
    pub fn is_due(&self, done: usize, left: usize, progress: f64) -> bool {
        let (done, left) = (done as f64, left as f64);
        left > 0.0 && (self.queue.is_empty() || progress * (done + left) >= done + 0.5)
    }

    /// Whether the run goes on after a failure: as the watcher says, unless the device was lost.
    pub fn unless_lost(&self, flow: ControlFlow<()>) -> ControlFlow<()> {
        match self.lost {
            Some(_) => ControlFlow::Break(()),
            None => flow,
        }
    }

    /// Why the run ended: this, unless the device was lost.
    fn ended(&self, why: Ended) -> Ended {
        match self.lost {
            Some(_) => Ended::DeviceLost,
            None => why,
        }
    }

    /// Times one case and journals its row, or counts its failure.
    pub fn case(
        &mut self,
        planned: &Planned,
        role: Role,
        done: usize,
        cases: usize,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        // Since the queue was made, the path may have been given up.
        if let Some(reason) = self.device.refuses(&planned.op) {
            if role == Role::Plan {
                self.skipped.add(&format!("refused: {reason}"), 1);
            }
            return Ok(ControlFlow::Continue(()));
        }
        let begin = self.device.now();
        let at = self.earlier + begin.as_secs_f64();
        // A repeat with equal operands at equal addresses would understate the noise.
        self.device.redraw(match role {
            Role::Repeat => self.repeats as u64,
            _ => 0,
        });
        let clocks = &mut self.clocks;
        let timing = match time(self.device, &planned.op, &self.limits, clocks) {
            Ok(timing) => timing,
            Err(error) => {
                let took = self.device.now().saturating_sub(begin);
                self.shares.add(planned.set, took);
                return self.fail(&planned.op, role, &error.to_string(), watch);
            }
        };
        self.failures.insert(KernelPath::of(&planned.op), None);
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

    /// Counts a case that failed: what a library refuses costs the case, a path that has only failed
    /// its other cases, too, and a lost device ends the run.
    fn fail(&mut self, op: &Op, role: Role, error: &str, watch: &mut Watch<'_>) -> Result<ControlFlow<()>> {
        let reason = error.replace('\n', " ");
        self.lost = self.device.lost();
        let path = KernelPath::of(op);
        if let Some(failures) = self.failures.entry(path).or_insert(Some(0)) {
            *failures += 1;
            if *failures == FAILURES {
                let why = format!("the first {FAILURES} cases of {path} failed, the last: {reason}");
                self.device.refuse(path, why);
            }
        }
        if role == Role::Plan {
            self.journal.failed(op, &reason)?;
            self.skipped.add(&format!("failed: {reason}"), 1);
        }
        self.anchors.retain(|anchor| anchor.op != *op);
        let flow = watch(&Event::Failed { op, reason: &reason });
        Ok(self.unless_lost(flow))
    }

    fn row(&self, planned: &Planned, role: Role, at: f64, timing: &Timing) -> Row {
        let summary = &timing.summary;
        Row {
            op: planned.op,
            gpu: self.shared.gpu.clone(),
            stack: self.shared.stack_of(&planned.op),
            time: summary.median,
            p10: summary.tails.map(|tails| tails.0),
            p90: summary.tails.map(|tails| tails.1),
            samples: u32::try_from(summary.replays).ok(),
            clock: timing.clock.map(|clock| Hertz::from_hertz(clock.hertz().round())),
            group: None,
            origin: self.shared.origin.clone(),
            measured: Some(Box::new(Measured {
                set: planned.set.name().to_owned(),
                role,
                cache: Cache::Cold,
                rank: 0,
                // Digits beyond the resolution of a clock would not compress.
                at_s: (at * 1024.0).round() / 1024.0,
                calls: timing.calls,
                min: summary.min,
                quartiles: summary.quartiles,
                half_width: summary.half_width().map(|width| f64::from(width as f32)),
                stop: summary.stop,
                throttled: timing.throttled,
                clock_reasons: timing.sensors.clock_reasons.map(|held| held.to_string()),
                power_watts: timing.sensors.power_watts,
                temperature_celsius: timing.sensors.temperature_celsius,
                kernel: timing.kernel.clone(),
            })),
        }
    }
}
