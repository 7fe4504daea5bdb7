//! Processor clock during a chain, and a hold of the stream until the chain is enqueued.

use super::compile::Source;
use super::driver::Driver;
use super::launch::Argument::{Address, Count};
use super::launch::{Kernels, Shape, launch};
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::Hertz;
use cudarc::driver::CudaFunction;

/// Distance of two stamps in bytes.
const STAMP_BYTES: u64 = 32;

/// Shortest span for a clock, in nanoseconds: the global timer of some GPUs ticks every
/// microsecond, and a tick at either end must stay below 2 %.
const SHORTEST_SPAN: u64 = 100_000;

/// Time for which the stream is held, in nanoseconds: more than the host needs to launch a graph of
/// 64 nodes.
const HOLD: u64 = 60_000;

/// Launch configuration of one thread.
const SINGLE: Shape = Shape {
    blocks: 1,
    threads: (1, 1),
    shared: 0,
};

/// A kernel of one thread that stores the global timer, the cycle counter of its processor, and the
/// number of that processor.
pub struct Stamps {
    function: CudaFunction,
    hold: CudaFunction,
    address: u64,
}

impl Stamps {
    /// Stamps in 64 bytes at this address.
    pub fn new(driver: &Driver, kernels: &Kernels, address: u64) -> Result<Self> {
        let find = |name| kernels.function(driver, (Source::Fill, Dtype::Fp32, 4), name);
        Ok(Self {
            function: find("stamp")?,
            hold: find("hold")?,
            address,
        })
    }

    /// Enqueues a busy wait, so that a whole chain is enqueued before it begins; otherwise
    /// launch latency of the host would be timed.
    pub fn hold(&self, driver: &Driver) -> Result<()> {
        // SAFETY: the kernel takes one number.
        unsafe { launch(driver, &self.hold, SINGLE, &[Count(HOLD)]) }
    }

    /// Enqueues the first stamp (0) or the second (1).
    pub fn enqueue(&self, driver: &Driver, which: u64) -> Result<()> {
        let arguments = [Address(self.address + which * STAMP_BYTES)];
        // SAFETY: the kernel takes one pointer to three numbers of eight bytes, for which there is
        // room.
        unsafe { launch(driver, &self.function, SINGLE, &arguments) }
    }

    /// The clock between both stamps.
    pub fn read(&self, driver: &Driver) -> Result<Option<Hertz>> {
        let bytes = driver.download(self.address, 2 * STAMP_BYTES as usize)?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().expect("eight bytes");
            u64::from_le_bytes(word)
        });
        let stamps: [u64; 8] = std::array::from_fn(|_| words.next().unwrap_or(0));
        Ok(clock(&stamps[..3], &stamps[4..7]))
    }
}

/// Cycles over time between two stamps (nanoseconds, cycles, processor); none of stamps from two
/// processors, whose counters are unrelated, or of stamps too close for the timer's resolution.
fn clock(first: &[u64], second: &[u64]) -> Option<Hertz> {
    let span = second[0].checked_sub(first[0])?;
    let cycles = second[1].checked_sub(first[1])?;
    let is_one = first[2] == second[2] && span >= SHORTEST_SPAN && cycles > 0;
    is_one.then(|| Hertz::from_hertz(cycles as f64 / span as f64 * 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_needs_one_processor_and_a_span() {
        let measured = clock(&[1_000, 5_000, 7], &[1_001_000, 1_985_000, 7]);
        assert_eq!(measured, Some(Hertz::from_hertz(1.98e9)));
        assert_eq!(clock(&[1_000, 5_000, 7], &[1_001_000, 1_985_000, 8]), None);
        assert_eq!(clock(&[1_000, 5_000, 7], &[2_000, 7_000, 7]), None);
        assert_eq!(clock(&[1_000_000, 5, 7], &[1_000, 50_000, 7]), None);
    }
}
