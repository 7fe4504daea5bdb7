//! One binary for all integration tests: each links everything, so many would take minutes to build.

mod boundaries;

mod checks;

mod cli;

#[cfg(feature = "train")]
mod learning;

#[cfg(feature = "dataset")]
mod made_up;

mod paper;

mod predictions;

mod products;

mod reproduction;

mod searches;

mod sweeps;
