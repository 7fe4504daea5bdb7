//! The performance predictor of `shapewise`: what GPUs, operators and transformers are called, and how long a step takes.
//!
//! ```
//! use shapewise_core::gpu::Gpu;
//! use shapewise_core::ops::{Gemm, Op};
//! use shapewise_core::predict::Predictor;
//!
//! # fn main() -> shapewise_core::error::Result<()> {
//! let predictor = Predictor::new(Gpu::find("h200")?, None)?;
//! let estimate = predictor.predict(&[Op::Gemm(Gemm::new(8192, 4096, 4096))])[0];
//! assert!(estimate.low() < estimate.time && estimate.time < estimate.high());
//! # Ok(())
//! # }
//! ```
//!
//! Tables of timings, training, search, documents and the program are in the package `shapewise`, which has the modules of
//! this one under the same names.

#[macro_use]
#[doc(hidden)]
pub mod names;

pub mod units;

pub mod error;

#[doc(hidden)]
pub mod toml_text;

pub mod random;

pub mod shard;

pub mod stats;

pub mod least_squares;

pub mod ops;

pub mod tiles;

pub mod gpu;

pub mod arch;

pub mod families;

pub mod framework;

pub mod rules;

pub mod regressor;

pub mod predict;

pub mod calibrate;

pub mod check;

pub mod sweep;

pub mod prune;
