//! A chain of calls over rotating operand sets, and its time.

use super::operands::{Operands, PoolSlices, input_bytes, operands};
use super::{MOST_BYTES, Portable, cold_bytes};
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::measure::device::{Chain, Replay};
use crate::ops::Op;
use crate::units::Seconds;
use std::fmt;
use std::time::{Duration, Instant};

/// Time of a first call on a GPU beyond which it has compiled a kernel.
const COMPILED: Duration = Duration::from_millis(50);

/// Warm-up after a kernel was compiled: on a software adapter half of the shapes took twice their
/// time right after the compiler.
const SETTLING: Duration = Duration::from_millis(100);

/// The least share of a training call that its backward pass takes.
const LEAST_SHARE: f64 = 0.05;

/// A case that is set up.
pub struct PortableChain<'a> {
    device: &'a Portable,
    sets: Vec<Operands>,
    calls: usize,
    /// Index of the set of the next call; a replay continues the rotation of the last one.
    next: usize,
}

impl<'a> PortableChain<'a> {
    /// Makes operand sets of three times the cache and one more.
    pub fn open(device: &'a Portable, op: &Op) -> Result<Self> {
        let bytes = input_bytes(op).max(1.0);
        let wanted = (cold_bytes(&device.identity) / bytes).ceil() + 1.0;
        let most = (MOST_BYTES / bytes).floor().min(device.clock.most_sets);
        let sets = wanted.min(most).max(1.0) as usize;
        // Steps have whole tensors, and of a view most of burn's kernels, but not GEMMs, make a copy in each call.
        let copies = device.clock.waits && !matches!(op, Op::Gemm(_));
        let mut source = PoolSlices::new(&device.pool, copies);
        let sets = (0..sets).map(|_| operands(op, &mut source)).collect();
        let mut chain = Self {
            device,
            sets,
            calls: 1,
            next: 0,
        };
        chain.device.device.sync().map_err(failed)?;
        let begin = Instant::now();
        chain.run(1)?;
        if !device.clock.waits && begin.elapsed() > COMPILED {
            let begin = Instant::now();
            while begin.elapsed() < SETTLING {
                chain.run(1)?;
            }
        }
        Ok(chain)
    }

    /// Runs and times this many calls.
    fn run(&mut self, calls: usize) -> Result<Seconds> {
        let sets = &self.sets;
        let operands = || {
            let called = self.next..self.next + calls;
            called.map(|call| &sets[call % sets.len()])
        };
        let all = self.timed(|| operands().for_each(|set| drop(set.call())))?;
        let besides = match sets[0].has_besides() {
            true => self.timed(|| operands().for_each(Operands::run_besides))?,
            false => 0.0,
        };
        self.next = (self.next + calls) % sets.len();
        Ok(Seconds::from_secs((all - besides).max(LEAST_SHARE * all)))
    }

    /// Seconds that this takes.
    fn timed(&self, calls: impl FnOnce() + Send) -> Result<f64> {
        (self.device.clock.timed)(&self.device.device, Box::new(calls))
    }
}

/// The error of an operation that burn reports as failed.
pub fn failed(error: impl fmt::Display) -> Error {
    let reason = error.to_string().replace('\n', " ");
    Error::infeasible(format!("burn could not run the operator: {reason}"))
}

impl Chain for PortableChain<'_> {
    fn trial(&mut self) -> Result<Seconds> {
        self.run(1)
    }

    fn record(&mut self, calls: u32) -> Result<()> {
        self.calls = calls as usize;
        Ok(())
    }

    fn replay(&mut self) -> Result<Replay> {
        Ok(Replay {
            elapsed: self.run(self.calls)?,
            clock: None,
        })
    }

    fn kernel(&self) -> Option<Kernel> {
        None
    }
}
