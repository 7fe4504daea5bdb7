//! A learned GPU performance predictor for transformers.
//!
//! The time of one operator, with its interval and where the number comes from:
//!
//! ```
//! use shapewise::gpu::Gpu;
//! use shapewise::ops::{Gemm, Op};
//! use shapewise::predict::Predictor;
//!
//! # fn main() -> shapewise::error::Result<()> {
//! let predictor = Predictor::new(Gpu::find("h200")?, None)?;
//! let estimate = predictor.predict(&[Op::Gemm(Gemm::new(8192, 4096, 4096))])[0];
//! assert!(estimate.low() < estimate.time && estimate.time < estimate.high());
//! assert_eq!(estimate.tier.name(), "learned");
//! # Ok(())
//! # }
//! ```
//!
//! A whole step of a model:
//!
//! ```
//! use shapewise::arch::{Architecture, Workload};
//! use shapewise::gpu::Gpu;
//! use shapewise::predict::Predictor;
//! use shapewise::predict::step::estimate_step;
//!
//! # fn main() -> shapewise::error::Result<()> {
//! let predictor = Predictor::new(Gpu::find("h200")?, None)?;
//! let model = Architecture::find("llama-3-8b")?;
//! let step = estimate_step(&predictor, &model, &Workload::train(1, 4096))?;
//! assert!(step.tokens_per_s > 1000.0 && step.mfu < 1.0);
//! # Ok(())
//! # }
//! ```
//!
//! `train` has an example of a model of one's own timings, [`search::search`] and [`check::check`] have theirs; `examples/` has
//! a search and the training of such a model.
//!
//! The package `shapewise-core` is the predictor alone, without tables, training, search and the program; its modules have the
//! same names here.
//!
//! The modules follow the order in which data flows: the vocabulary first, then the pipeline
//! from a timing table to a prediction, then the edge that talks to people. `ARCHITECTURE.md`
//! has the map, `tests/boundaries.toml` who may import whom. How a table becomes a number is in [`method`].

// Vocabulary.

#[doc(inline)]
pub use shapewise_core::{
    arch, error, families, framework, gpu, least_squares, ops, random, rules, stats, tiles, units,
};

#[doc(hidden)]
pub use shapewise_core::{named_enum, names, toml_text};

pub mod graph;

// Pipeline.

#[doc(inline)]
pub use shapewise_core::{calibrate, check, predict, prune, regressor, shard, sweep};

pub mod dataset;

pub mod measure;

pub mod train;

pub mod plan;

pub mod loss;

pub mod search;

pub mod evaluate;

// Edge.

pub mod request;

pub mod report;

pub mod answer;

#[cfg_attr(not(feature = "mcp"), path = "mcp/absent.rs")]
pub mod mcp;

#[cfg_attr(not(feature = "serve"), path = "serve/absent.rs")]
pub mod serve;

#[cfg(feature = "cli")]
pub mod cli;

#[doc = include_str!("../docs/method.md")]
#[doc = include_str!("../docs/method/measuring.md")]
#[doc = include_str!("../docs/method/features.md")]
#[doc = include_str!("../docs/method/nets.md")]
#[doc = include_str!("../docs/method/intervals.md")]
#[doc = include_str!("../docs/method/gemm.md")]
#[doc = include_str!("../docs/method/attention.md")]
#[doc = include_str!("../docs/method/kernels.md")]
#[doc = include_str!("../docs/method/steps.md")]
#[doc = include_str!("../docs/method/serving.md")]
#[doc = include_str!("../docs/method/memory.md")]
#[doc = include_str!("../docs/method/search.md")]
pub mod method {}

#[cfg(test)]
#[path = "../tests/main/skip.rs"]
pub(crate) mod skip;
