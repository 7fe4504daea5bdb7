//! One binary for all integration tests: each links everything, so many would take minutes to build.

mod boundaries;

mod checks;

mod cli;

#[cfg(feature = "train")]
mod learning;

#[cfg(feature = "dataset")]
mod made_up;

#[cfg(feature = "serve")]
mod page;

mod paper;

mod predictions;

mod searches;

#[cfg(feature = "serve")]
mod service;

mod sweeps;
