//! A list of operators on a CUDA device, each on operands of its own, as one graph with events
//! between the operators of its last pass.

use crate::error::{Error, Result};
use crate::measure::cuda::device::{CudaDevice, Prepared};
use crate::measure::cuda::driver::failed;
use crate::measure::device::{Device, Sequence, Span};
use crate::ops::Op;
use crate::units::Seconds;
use cudarc::driver::{CudaEvent, CudaGraph, sys};

/// Operators that are set up.
pub(super) struct CudaSequence<'a> {
    // Refers to the memory of the algorithms: destroyed first.
    graph: Option<CudaGraph>,
    prepared: Vec<Prepared>,
    /// Before each operator, and after the last.
    marks: Vec<CudaEvent>,
    device: &'a CudaDevice,
}

impl<'a> CudaSequence<'a> {
    /// Places and fills the operands of all operators, and runs each once, so that all modules are
    /// loaded before a capture.
    pub(super) fn new(device: &'a CudaDevice, ops: &[Op]) -> Result<Self> {
        let driver = device.driver();
        let mut arena = device.arena();
        let mut prepared = Vec::with_capacity(ops.len());
        for op in ops {
            let one = device.prepare_in(op, &mut arena)?;
            one.algorithm.enqueue(driver, &one.operands, 0)?;
            driver.wait()?;
            prepared.push(one);
        }
        let mark = |_| {
            let timing = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
            let event = driver.context().new_event(timing);
            event.map_err(failed("create an event"))
        };
        Ok(Self {
            graph: None,
            prepared,
            marks: (0..=ops.len()).map(mark).collect::<Result<_>>()?,
            device,
        })
    }

    /// Enqueues an event that is timed where a graph reaches it.
    fn mark(&self, place: usize) -> Result<()> {
        let driver = self.device.driver();
        driver.bind()?;
        let external = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as u32;
        let event = self.marks[place].cu_event();
        // SAFETY: event and stream belong to the context that is bound, and outlive the graph.
        unsafe { sys::cuEventRecordWithFlags(event, driver.stream().cu_stream(), external) }
            .result()
            .map_err(failed("record an event in a graph"))
    }
}

impl Sequence for CudaSequence<'_> {
    fn record(&mut self, passes: u32) -> Result<()> {
        self.graph = None;
        let driver = self.device.driver();
        let enqueue = || {
            for pass in 1..=passes.max(1) {
                for (place, one) in self.prepared.iter().enumerate() {
                    // Events in every pass would stretch all of them.
                    if pass == passes.max(1) {
                        self.mark(place)?;
                    }
                    one.algorithm.enqueue(driver, &one.operands, 0)?;
                }
            }
            self.mark(self.prepared.len())
        };
        let graph = driver.capture(|| driver.between_events(enqueue))?;
        self.graph = Some(graph);
        Ok(())
    }

    fn replay(&mut self) -> Result<Span> {
        let graph = self.graph.as_ref();
        let graph = graph.ok_or_else(|| Error::infeasible("no sequence was recorded"))?;
        let (driver, stamps) = (self.device.driver(), self.device.stamps());
        let stamp = |which| stamps.map_or(Ok(()), |stamps| stamps.enqueue(driver, which));
        stamps.map_or(Ok(()), |stamps| stamps.hold(driver))?;
        stamp(0)?;
        graph.launch().map_err(failed("run a graph"))?;
        stamp(1)?;
        // The sensors are read while the graph runs; an event of it may look complete from before.
        let sensors = self.device.sensors();
        driver.wait()?;
        let elapsed = driver.elapsed()?;
        let clock = match stamps {
            Some(stamps) => stamps.read(driver)?,
            None => None,
        };
        let operators = self.marks.windows(2).map(|pair| {
            let millis = pair[0].elapsed_ms(&pair[1]);
            let millis = millis.map_err(failed("tell the time between events"))?;
            Ok(Seconds::from_micros(f64::from(millis) * 1e3))
        });
        Ok(Span {
            elapsed,
            operators: operators.collect::<Result<_>>()?,
            clock,
            sensors,
        })
    }
}
