//! Timing of one case: set-up, two trials, a chain of calls, one warm replay, then replays until
//! the stopping rule ends them.

use super::device::{Case, Device, Sensors};
use super::stopping::{Limits, Stopping, Summary};
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::stats::order_statistic;
use crate::units::{Hertz, Seconds};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Target device time of one replay of a chain.
const CHAIN: Seconds = Seconds::from_micros(1000.0);

/// Largest number of calls in a chain: a CUDA graph of more nodes costs more to set up than it
/// gains.
const LONGEST_CHAIN: u32 = 64;

/// Share of its size class's median clock below which a case counts as throttled.
const THROTTLED: f64 = 0.9;

/// Idle time before a throttled case is timed again, as in nvbench.
const PAUSE: Duration = Duration::from_millis(50);

/// Number of latest clocks in the median of a size class.
const REMEMBERED: usize = 101;

/// Number of clocks that the median of a size class needs.
const ENOUGH: usize = 8;

/// Timing of one case.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The replays, per call.
    pub summary: Summary,
    /// Calls in the chain.
    pub calls: u32,
    /// Median clock of the replays, where the device reports it.
    pub clock: Option<Hertz>,
    /// Whether the case was timed twice because the clock had dropped.
    pub remeasured: bool,
    /// Sensors after the last replay.
    pub sensors: Sensors,
    /// The algorithm that ran.
    pub kernel: Option<Kernel>,
    /// Device time of trials and replays.
    pub busy: Seconds,
    /// Total time on the device's clock, with set-up.
    pub took: Duration,
}

/// Running medians of the clock by size class: large GEMMs draw more power and run at lower clocks.
#[derive(Clone, Debug, Default)]
pub struct Clocks(BTreeMap<i32, VecDeque<f64>>);

impl Clocks {
    /// Adds the clock of a case; whether it is well below the median of its size class.
    fn is_throttled(&mut self, call: Seconds, clock: Option<Hertz>) -> bool {
        let Some(clock) = clock.map(Hertz::hertz) else {
            return false;
        };
        let class = self.0.entry(class(call)).or_default();
        let median = order_statistic(class.iter().copied().collect(), 0.5);
        if class.len() == REMEMBERED {
            class.pop_front();
        }
        class.push_back(clock);
        class.len() > ENOUGH && median.is_some_and(|median| clock < THROTTLED * median)
    }
}

/// Size class of a call: its decade of time.
fn class(call: Seconds) -> i32 {
    call.secs().max(1e-12).log10().floor() as i32
}

/// Number of calls in a chain, given the time of one.
pub fn chain_length(call: Seconds) -> u32 {
    // A cast of a float saturates; zero and NaN give the longest and the shortest chain.
    ((CHAIN / call).ceil() as u32).clamp(1, LONGEST_CHAIN)
}

/// Times a case, and once more after a pause where the device was throttled.
pub fn time(
    device: &mut dyn Device,
    case: &Case,
    limits: &Limits,
    clocks: &mut Clocks,
) -> Result<Timing> {
    let begin = device.now();
    let mut timing = once(device, case, limits)?;
    if clocks.is_throttled(timing.summary.median, timing.clock) {
        device.rest(PAUSE);
        let busy = timing.busy;
        timing = once(device, case, limits)?;
        timing.busy += busy;
        timing.remeasured = true;
    }
    timing.sensors = device.sensors();
    timing.took = device.now().saturating_sub(begin);
    Ok(timing)
}

fn once(device: &mut dyn Device, case: &Case, limits: &Limits) -> Result<Timing> {
    let mut chain = device.open(case)?;
    // The first trial pays for whatever is loaded lazily; the second one sizes the chain.
    let first = positive(chain.trial()?, case)?;
    let call = positive(chain.trial()?, case)?;
    let calls = chain_length(call);
    chain.record(calls)?;
    let warm = positive(chain.replay()?.elapsed, case)?;
    let mut busy = first + call + warm;
    let mut rule = Stopping::new(limits.clone());
    let mut clocks = Vec::new();
    let stop = loop {
        let replay = chain.replay()?;
        busy += positive(replay.elapsed, case)?;
        clocks.extend(replay.clock.map(Hertz::hertz));
        if let Some(stop) = rule.feed(replay.elapsed, calls) {
            break stop;
        }
    };
    let summary = rule
        .summary(stop)
        .expect("the rule was fed before it stopped");
    Ok(Timing {
        summary,
        calls,
        clock: order_statistic(clocks, 0.5).map(Hertz::from_hertz),
        remeasured: false,
        sensors: Sensors::default(),
        kernel: chain.kernel(),
        busy,
        took: Duration::ZERO,
    })
}

/// Refuses a time that is not positive and finite.
fn positive(time: Seconds, case: &Case) -> Result<Seconds> {
    if time > Seconds::ZERO && time.secs().is_finite() {
        return Ok(time);
    }
    Err(Error::infeasible(format!(
        "the device timed {} at {} s, which no call can take",
        case.op,
        time.secs()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_fill_a_millisecond_within_bounds() {
        let calls = |micros| chain_length(Seconds::from_micros(micros));
        assert_eq!(calls(300.0), 4);
        assert_eq!(calls(1000.0), 1);
        assert_eq!(calls(1e6), 1);
        assert_eq!(calls(0.5), 64);
    }

    #[test]
    fn a_clock_is_held_against_its_own_class() {
        let mut clocks = Clocks::default();
        let (small, large) = (Seconds::from_micros(5.0), Seconds::from_micros(900.0));
        let mut judge = |call, hertz| clocks.is_throttled(call, Some(Hertz::from_hertz(hertz)));
        for _ in 0..20 {
            assert!(!judge(small, 1.98e9));
            assert!(!judge(large, 1.5e9));
        }
        assert!(!judge(large, 1.4e9));
        assert!(judge(large, 1.3e9));
        assert!(judge(small, 1.5e9));
        assert!(!clocks.is_throttled(small, None));
    }
}
