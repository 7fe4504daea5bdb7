//! What can be timed, and what times it: one small trait for CUDA, wgpu, the CPU and a script.
//!
//! A device knows how to set up operators and to run a chain of calls; it decides nothing about
//! statistics, order or repetition. That is [`protocol`](crate::measure::protocol), which is the same for all.

pub use crate::dataset::Cache;
use crate::dataset::Kernel;
use crate::error::Result;
use crate::ops::Op;
use crate::units::{Hertz, Seconds};
use std::time::Duration;

/// One operator to be timed, and under which conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// What runs.
    pub op: Op,
    /// Where its operands are when a call begins.
    pub cache: Cache,
    /// Which of the library's algorithms: 0 is the one that its heuristic puts first.
    pub rank: u32,
}

/// Who is being measured; equal for all rows of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Our name of the part, as in `data/gpus`, or one made of what the driver reports.
    pub gpu: String,
    /// The software that runs the operators, with its version (`cublaslt 13.1.0`).
    pub stack: String,
    /// Versions below the stack: driver, cuDNN, NVRTC, adapter.
    pub libraries: String,
    /// What the driver reports of the part, for parts that `data/gpus` does not know.
    pub facts: Facts,
}

/// What a driver reports of a part; nothing where it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The product name as the driver spells it.
    pub title: String,
    /// Streaming multiprocessors, compute units or cores.
    pub processors: Option<u64>,
    /// Highest clock of a processor.
    pub clock: Option<Hertz>,
    /// Memory in bytes.
    pub memory_bytes: Option<f64>,
    /// Last-level cache in bytes.
    pub cache_bytes: Option<f64>,
}

/// One replay of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// From the first call's begin to the last call's end.
    pub elapsed: Seconds,
    /// The processor clock while it ran, where the device can tell.
    pub clock: Option<Hertz>,
}

/// What the sensors say at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sensors {
    /// Board power in watts.
    pub power_watts: Option<f64>,
    /// Temperature of the chip in degrees Celsius.
    pub temperature_celsius: Option<f64>,
}

/// One path that was compared with the reference on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Kernel or library path and shape (`rms_norm forward bf16 7x129`).
    pub path: String,
    /// Norm of the difference over norm of the reference.
    pub error: f64,
    /// The largest error that is let through.
    pub allowed: f64,
}

/// Something that runs operators and can tell how long they took.
pub trait Device {
    /// Who is being measured.
    fn identity(&self) -> &Identity;

    /// Why this case cannot run here (format, size, missing library), in words for a count of skipped cases.
    fn refuses(&self, case: &Case) -> Option<String>;

    /// Sets up the operands, finds the algorithm and runs the case once; everything is released with the chain.
    fn open(&mut self, case: &Case) -> Result<Box<dyn Chain + '_>>;

    /// Compares every kernel and library path with the reference on the CPU, on small random shapes with poisoned
    /// outputs; a path that is wrong is in the list with an error over what is allowed.
    fn check(&mut self) -> Result<Vec<Checked>>;

    /// Keeps the device busy for this long, so that clocks and temperature settle.
    fn soak(&mut self, duration: Duration) -> Result<()>;

    /// Leaves the device alone for this long.
    fn rest(&mut self, duration: Duration);

    /// Time since the device was opened; a scripted device has its own clock.
    fn now(&self) -> Duration;

    /// What the sensors say now.
    fn sensors(&self) -> Sensors;
}

/// A case that is set up.
pub trait Chain {
    /// Time of one call on its own.
    fn trial(&mut self) -> Result<Seconds>;

    /// Makes a chain of this many calls, at least one; replaces an earlier chain.
    fn record(&mut self, calls: u32) -> Result<()>;

    /// Runs the chain once and waits for it.
    fn replay(&mut self) -> Result<Replay>;

    /// The algorithm that runs, where the library tells.
    fn kernel(&self) -> Option<Kernel>;
}
