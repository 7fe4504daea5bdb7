//! A chain of calls over rotating operand sets, and its time.

use crate::dataset::Kernel;
use crate::error::Error;
use crate::error::Result;
use crate::measure::device::Cache;
use crate::measure::device::Case;
use crate::measure::device::Chain;
use crate::measure::device::Replay;
use crate::measure::portable::Clock;
use crate::measure::portable::MOST_BYTES;
use crate::measure::portable::Portable;
use crate::measure::portable::cold_bytes;
use crate::measure::portable::operands::Operands;
use crate::measure::portable::operands::Stretches;
use crate::measure::portable::operands::input_bytes;
use crate::units::Seconds;
use std::fmt;
use std::time::{Duration, Instant};

/// A first call on a GPU that takes longer has compiled a kernel.
const COMPILED: Duration = Duration::from_millis(50);

/// How long calls run before they are timed where a kernel was compiled. On a software adapter the compiler leaves its
/// threads on one core: half of the shapes were timed at twice their time right after it.
const SETTLING: Duration = Duration::from_millis(100);

/// A case that is set up.
pub struct PortableChain<'a> {
    device: &'a Portable,
    sets: Vec<Operands>,
    calls: usize,
    /// The set that the next call uses; a replay goes on where the last one ended.
    next: usize,
}

impl<'a> PortableChain<'a> {
    /// Makes as many operand sets as three times the cache holds, and one more; one set for a hot case.
    pub fn open(device: &'a Portable, case: &Case) -> Result<Self> {
        let bytes = input_bytes(&case.op).max(1.0);
        let sets = match case.cache {
            Cache::Hot => 1,
            Cache::Cold => {
                let wanted = (cold_bytes(&device.identity) / bytes).ceil() + 1.0;
                let most = (MOST_BYTES / bytes).floor().min(device.clock.most_sets());
                wanted.min(most).max(1.0) as usize
            }
        };
        let mut source = Stretches::new(&device.pool);
        let sets = (0..sets)
            .map(|_| Operands::new(&case.op, &mut source))
            .collect();
        let mut chain = Self {
            device,
            sets,
            calls: 1,
            next: 0,
        };
        chain.device.device.sync().map_err(failed)?;
        let begin = Instant::now();
        chain.run(1)?;
        if device.clock != Clock::Wall && begin.elapsed() > COMPILED {
            let begin = Instant::now();
            while begin.elapsed() < SETTLING {
                chain.run(1)?;
            }
        }
        Ok(chain)
    }

    /// Runs so many calls and takes their time.
    fn run(&mut self, calls: usize) -> Result<Seconds> {
        let (first, sets) = (self.next, &self.sets);
        let all = || {
            for call in first..first + calls {
                drop(sets[call % sets.len()].call());
            }
        };
        let elapsed = match self.device.clock {
            Clock::Wall => {
                let begin = Instant::now();
                all();
                begin.elapsed().as_secs_f64()
            }
            #[cfg(feature = "wgpu")]
            Clock::Device => super::wgpu::timed(&self.device.device, all)?,
        };
        self.next = (first + calls) % sets.len();
        Ok(Seconds::from_secs(elapsed))
    }
}

impl Clock {
    /// Most operand sets of a case: on the CPU they are views and cost nothing; on a GPU each is a copy, and 64 are as
    /// many as a chain has calls.
    const fn most_sets(self) -> f64 {
        match self {
            Self::Wall => 4096.0,
            #[cfg(feature = "wgpu")]
            Self::Device => 64.0,
        }
    }
}

/// What burn says of an operation that failed.
pub(super) fn failed(error: impl fmt::Display) -> Error {
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
