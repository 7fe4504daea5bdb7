//! A learned GPU performance predictor for transformers.
//!
//! The modules stand in the order in which data flows: the vocabulary first, then the pipeline
//! from a timing table to a prediction, then the edge that talks to people. `ARCHITECTURE.md`
//! has the map and the table of who may import whom; a test keeps that table true.

// Vocabulary.

#[macro_use]
mod names;

pub mod units;

pub mod error;

pub mod random;

pub mod ops;

pub mod gpu;

pub mod arch;

pub mod rules;

// Pipeline.

#[cfg(feature = "dataset")]
pub mod dataset;

#[cfg(feature = "measure")]
pub mod measure;

pub mod features;

pub mod regressor;

#[cfg(feature = "train")]
pub mod train;

pub mod predict;

pub mod check;

pub mod sweep;

pub mod search;

#[cfg(feature = "dataset")]
pub mod evaluate;

#[cfg(feature = "dataset")]
pub mod baselines;

#[cfg(feature = "dataset")]
pub mod runs;

pub mod reproduce;

// Edge.

pub mod report;

pub mod query;

#[cfg(feature = "serve")]
pub mod serve;

pub mod cli;
