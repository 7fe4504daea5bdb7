//! Measuring: the same protocol on CUDA, on wgpu, on the CPU and on a script, to rows that a kill does not lose.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod describe;
pub mod device;
pub mod drift;
pub mod format;
pub mod journal;
mod open;
pub mod plan;
#[cfg(feature = "train")]
pub mod portable;
pub mod protocol;
pub mod reference;
pub mod run;
pub mod scripted;
pub mod stopping;

pub use open::open;
pub use run::{Ended, Event, Options, Outcome, measure};

#[cfg(test)]
mod tests;
