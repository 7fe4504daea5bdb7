//! Measuring: one protocol for CUDA, wgpu and the CPU, with rows in a crash-safe journal.

pub mod checks;
pub mod choices;
#[cfg_attr(not(feature = "cuda"), path = "absent.rs")]
pub mod cuda;
pub mod describe;
pub mod device;
pub mod format;
pub mod journal;
mod open;
pub mod path;
pub mod plan;
#[cfg_attr(not(feature = "train"), path = "absent.rs")]
pub mod portable;
pub mod protocol;
pub mod reference;
pub mod run;
#[cfg_attr(feature = "test-support", path = "tests/scripted.rs")]
pub mod scripted;
pub mod stopping;

pub use open::open;
pub use run::{Ended, Event, Options, Outcome, measure};

#[cfg(test)]
mod tests;
