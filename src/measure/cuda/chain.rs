//! A case on a CUDA device: trial calls, and chains of calls in one graph.

use super::device::{CudaDevice, Prepared};
use super::driver::failed;
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::measure::device::{Chain, Replay};
use crate::units::Seconds;
use cudarc::driver::CudaGraph;

/// A case that is set up.
pub struct CudaChain<'a> {
    // Refers to the algorithm's memory: destroyed first.
    graph: Option<(CudaGraph, u64)>,
    prepared: Prepared,
    device: &'a CudaDevice,
    trials: u64,
}

impl<'a> CudaChain<'a> {
    pub const fn new(device: &'a CudaDevice, prepared: Prepared) -> Self {
        Self {
            graph: None,
            prepared,
            device,
            trials: 0,
        }
    }

    /// Whether the operands of this many calls would stay in the cache until the next replay.
    fn must_flush(&self, calls: u64) -> bool {
        let operands = &self.prepared.operands;
        let touched = calls.min(operands.sets()) * operands.set_bytes();
        !self.device.outgrows_cache(touched)
    }

    /// Enqueues the flush of the cache and the hold of the stream before this many timed calls.
    fn make_ready(&self, calls: u64) -> Result<()> {
        if self.must_flush(calls) {
            self.device.flush()?;
        }
        match self.device.stamps() {
            Some(stamps) => stamps.hold(self.device.driver()),
            None => Ok(()),
        }
    }
}

impl Chain for CudaChain<'_> {
    fn trial(&mut self) -> Result<Seconds> {
        self.make_ready(1)?;
        let set = self.trials;
        self.trials += 1;
        let (driver, prepared) = (self.device.driver(), &self.prepared);
        driver.time(|| prepared.algorithm.enqueue(driver, &prepared.operands, set))
    }

    fn record(&mut self, calls: u32) -> Result<()> {
        self.graph = None;
        let (driver, prepared) = (self.device.driver(), &self.prepared);
        let enqueue = |call| prepared.algorithm.enqueue(driver, &prepared.operands, call);
        let graph = driver.capture(|| driver.between_events(|| (0..u64::from(calls.max(1))).try_for_each(enqueue)))?;
        self.graph = Some((graph, calls.max(1).into()));
        Ok(())
    }

    fn replay(&mut self) -> Result<Replay> {
        let Some((graph, calls)) = &self.graph else {
            return Err(Error::infeasible("no chain was recorded"));
        };
        self.make_ready(*calls)?;
        let (driver, stamps) = (self.device.driver(), self.device.stamps());
        let stamp = |which| stamps.map_or(Ok(()), |stamps| stamps.enqueue(driver, which));
        // The stamps are outside the events, so that their launches are not timed.
        stamp(0)?;
        graph.launch().map_err(failed("run a graph"))?;
        stamp(1)?;
        // An event of a graph may look complete from the replay before.
        driver.wait()?;
        let elapsed = driver.elapsed()?;
        let clock = match stamps {
            Some(stamps) => stamps.read(driver)?,
            None => None,
        };
        Ok(Replay { elapsed, clock })
    }

    fn kernel(&self) -> Option<Kernel> {
        self.prepared.algorithm.kernel()
    }
}
