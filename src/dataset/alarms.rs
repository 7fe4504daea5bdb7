//! Times that physics rules out: a timing that beats its GPU's peak is a measuring error.
//!
//! Public tables hold such rows (a kernel that did not run, a cache of the wrong type); a
//! predictor that learns from them learns nonsense. The bounds are generous, so that an alarm
//! is never a matter of opinion.

use crate::gpu::Gpu;
use crate::op::Op;
use crate::units::Seconds;

/// Peaks are stated at a nominal clock; parts boost above it (H200: 1.98 GHz against 1.83 GHz).
const BOOST: f64 = 1.09;

/// What a timer may be off by.
const TOLERANCE: f64 = 0.02;

/// Traffic is only certain for operands that a cache cannot keep between repetitions.
const CACHES_EXCEEDED: f64 = 2.0;

/// The bound that a time broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// More arithmetic per second than the GPU's peak at its highest clock.
    FasterThanPeak,
    /// More traffic per second than the GPU's memory delivers.
    FasterThanMemory,
}

impl Alarm {
    /// The alarm as the reason for leaving a row out.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::FasterThanPeak => "faster than the peak arithmetic of its GPU",
            Self::FasterThanMemory => "faster than the memory of its GPU",
        }
    }
}

/// The bound that this time breaks, if any.
pub fn alarm(op: &Op, time: Seconds, gpu: &Gpu) -> Option<Alarm> {
    if let Op::Collective(_) = op {
        return None;
    }
    let time = time * (1.0 + TOLERANCE);
    let peak = op.dtype().and_then(|dtype| gpu.peak(dtype));
    if let Some(peak) = peak
        && time < op.flops() / (peak * BOOST)
    {
        return Some(Alarm::FasterThanPeak);
    }
    // Whatever the cache keeps from the previous repetition need not be moved again.
    let bytes = op.bytes();
    let certain = bytes - gpu.l2();
    if bytes > gpu.l2() * CACHES_EXCEEDED && time < certain / gpu.bandwidth() {
        return Some(Alarm::FasterThanMemory);
    }
    None
}
