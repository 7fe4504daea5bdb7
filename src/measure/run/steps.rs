//! Whole steps of a run: each is set up, warmed up and timed alone.

use super::scheduler::Run;
use super::{Event, Watch};
use crate::dataset::steps::MeasuredStep;
use crate::error::{Error, Result};
use crate::measure::device::Device;
use crate::measure::plan::PlannedStep;
use crate::stats::median;
use crate::units::Seconds;
use std::ops::ControlFlow;
use std::time::Duration;

/// Least and most runs of a step after the one that warms up.
const RUNS: [usize; 2] = [3, 15];

/// Time after which the least number of runs is enough.
const ENOUGH: Seconds = Seconds::from_secs(1.0);

/// Time that the first step may take: its set-up and its runs.
const COST: Duration = Duration::from_secs(3);

impl Run<'_> {
    /// Time that the next step may take: as long as the longest so far.
    pub fn step_margin(&self) -> Duration {
        self.longest_step.unwrap_or(COST)
    }

    /// Measures the next step and journals it, or counts why not.
    pub fn step(&mut self, watch: &mut Watch<'_>) -> Result<ControlFlow<()>> {
        let Some(planned) = self.planned_steps.pop_front() else {
            return Ok(ControlFlow::Continue(()));
        };
        self.steps_done += 1;
        let begin = self.device.now();
        let timed = time(self.device, &planned);
        let took = self.device.now().saturating_sub(begin);
        self.longest_step = Some(self.longest_step.unwrap_or_default().max(took));
        let time = match timed {
            Ok(time) => time,
            Err(error) => return self.fail_step(&planned.name, &error, watch),
        };
        let step = MeasuredStep {
            architecture: planned.architecture,
            workload: planned.workload,
            seconds: time.secs(),
        };
        self.journal.step(&step)?;
        let flow = watch(&Event::Stepped { step: &step });
        self.steps.push(step);
        Ok(flow)
    }

    /// Counts a step that failed; a lost device ends the run.
    fn fail_step(&mut self, name: &str, error: &Error, watch: &mut Watch<'_>) -> Result<ControlFlow<()>> {
        let reason = error.to_string().replace('\n', " ");
        self.skipped.add(&format!("failed: step: {reason}"), 1);
        self.lost = self.device.lost();
        let flow = watch(&Event::StepFailed { name, reason: &reason });
        Ok(self.unless_lost(flow))
    }
}

/// Median wall time of a step after one that warms up.
fn time(device: &mut dyn Device, planned: &PlannedStep) -> Result<Seconds> {
    let mut run = device.open_step(&planned.architecture, &planned.workload)?;
    run()?;
    let (mut times, mut spent) = (Vec::new(), Seconds::ZERO);
    while times.len() < RUNS[0] || (times.len() < RUNS[1] && spent < ENOUGH) {
        let time = run()?;
        spent += time;
        times.push(time.secs());
    }
    let middle = median(times).filter(|time| time.is_finite() && *time > 0.0);
    middle.map(Seconds::from_secs).ok_or_else(|| {
        let name = &planned.name;
        Error::infeasible(format!("the device timed {name} at no time that a step can take"))
    })
}
