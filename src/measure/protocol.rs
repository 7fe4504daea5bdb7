//! Timing of one case: set-up with a first call, a trial, a chain of calls, one warm replay of more
//! than one call, then replays until the stopping rule ends them.

use super::device::{Device, Sensors};
use super::stopping::{Limits, Stopping, Summary};
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::ops::{Op, OpKind};
use crate::stats::median;
use crate::units::{Hertz, Seconds};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Largest number of calls in a chain: a CUDA graph of more nodes costs more to set up than it
/// gains.
const LONGEST_CHAIN: u32 = 64;

/// Share of its class's median clock below which a case counts as throttled.
const THROTTLED: f64 = 0.8;

/// Number of latest clocks in the median of a class.
const REMEMBERED: usize = 101;

/// Number of clocks that the median of a class needs.
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
    /// Whether the clock was well below the median of its class.
    pub throttled: bool,
    /// Sensors after the last replay.
    pub sensors: Sensors,
    /// The algorithm that ran.
    pub kernel: Option<Kernel>,
    /// Device time of trials and replays.
    pub busy: Seconds,
    /// Total time on the device's clock, with set-up.
    pub took: Duration,
}

/// Running medians of the clock by class: cases that draw more power run at lower clocks, so only
/// those of one family, one decade of time and one decade of FLOPs per byte are comparable.
#[derive(Clone, Debug, Default)]
pub struct Clocks(HashMap<(OpKind, i32, i32), VecDeque<f64>>);

impl Clocks {
    /// Adds the clock of a case; whether it is well below the median of its class.
    fn is_throttled(&mut self, op: &Op, call: Seconds, clock: Option<Hertz>) -> bool {
        let Some(clock) = clock.map(Hertz::hertz) else {
            return false;
        };
        let intensity = op.flops().flops() / op.bytes().bytes().max(1.0);
        let class = (op.kind(), decade(call.secs()), decade(intensity));
        let class = self.0.entry(class).or_default();
        let middle = median(class.iter().copied().collect());
        if class.len() == REMEMBERED {
            class.pop_front();
        }
        class.push_back(clock);
        class.len() > ENOUGH && middle.is_some_and(|middle| clock < THROTTLED * middle)
    }
}

/// The power of ten at or below a value.
fn decade(value: f64) -> i32 {
    value.max(1e-12).log10().floor() as i32
}

/// Number of calls in a chain of this device time, given the time of one.
pub fn chain_length(chain: Seconds, call: Seconds) -> u32 {
    // A cast of a float saturates; zero and NaN give the longest and the shortest chain.
    ((chain / call).ceil() as u32).clamp(1, LONGEST_CHAIN)
}

/// Times a case.
///
/// A low clock is flagged and the time kept: a rested chip would be faster than one in a training
/// step.
pub fn time(device: &mut dyn Device, op: &Op, limits: &Limits, clocks: &mut Clocks) -> Result<Timing> {
    let begin = device.now();
    let mut timing = once(device, op, limits)?;
    let took = device.now().saturating_sub(begin);
    timing.throttled = clocks.is_throttled(op, timing.summary.median, timing.clock);
    timing.sensors = device.sensors();
    timing.took = took;
    Ok(timing)
}

fn once(device: &mut dyn Device, op: &Op, limits: &Limits) -> Result<Timing> {
    // Opening runs the case once, which pays for whatever is loaded lazily.
    let mut chain = device.open(op)?;
    let call = positive(chain.trial()?, op)?;
    let calls = chain_length(limits.chain, call);
    chain.record(calls)?;
    let mut busy = call;
    if calls > 1 {
        busy += positive(chain.replay()?.elapsed, op)?;
    }
    let mut rule = Stopping::new(limits.clone());
    let mut clocks = Vec::new();
    let stop = loop {
        let replay = chain.replay()?;
        busy += positive(replay.elapsed, op)?;
        clocks.extend(replay.clock.map(Hertz::hertz));
        if let Some(stop) = rule.feed(replay.elapsed, calls) {
            break stop;
        }
    };
    let summary = rule.summary(stop).expect("the rule was fed before it stopped");
    Ok(Timing {
        summary,
        calls,
        clock: median(clocks).map(Hertz::from_hertz),
        throttled: false,
        sensors: Sensors::default(),
        kernel: chain.kernel(),
        busy,
        took: Duration::ZERO,
    })
}

/// Refuses a time that is not positive and finite.
fn positive(time: Seconds, op: &Op) -> Result<Seconds> {
    if time > Seconds::ZERO && time.secs().is_finite() {
        return Ok(time);
    }
    Err(Error::infeasible(format!(
        "the device timed {op} at {} s, which no call can take",
        time.secs()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Dtype, Gemm, Memory, MemoryKind, Pass};

    #[test]
    fn chains_fill_their_time_within_bounds() {
        let micros = Seconds::from_micros;
        let calls = |call| chain_length(micros(1000.0), micros(call));
        assert_eq!(chain_length(micros(300.0), micros(40.0)), 8);
        assert_eq!(calls(300.0), 4);
        assert_eq!(calls(1000.0), 1);
        assert_eq!(calls(1e6), 1);
        assert_eq!(calls(0.5), 64);
    }

    #[test]
    fn a_clock_is_held_against_its_own_class() {
        let mut clocks = Clocks::default();
        let copy = Op::Memory(Memory {
            kind: MemoryKind::Copy,
            rows: 4096,
            cols: 4096,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        });
        let (square, thin) = (
            Op::Gemm(Gemm::new(4096, 4096, 4096)),
            Op::Gemm(Gemm::new(1, 4096, 4096)),
        );
        // All in one decade of time: what draws more power has a clock of its own.
        let call = Seconds::from_micros(200.0);
        let mut judge = |op: &Op, hertz| clocks.is_throttled(op, call, Some(Hertz::from_hertz(hertz)));
        for _ in 0..20 {
            assert!(!judge(&copy, 1.98e9));
            assert!(!judge(&square, 1.5e9));
            assert!(!judge(&thin, 1.9e9));
        }
        assert!(!judge(&square, 1.25e9));
        assert!(judge(&square, 1.15e9));
        assert!(judge(&copy, 1.5e9) && judge(&thin, 1.5e9));
        assert!(!clocks.is_throttled(&copy, call, None));
    }
}
