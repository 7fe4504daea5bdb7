//! One binary for all integration tests: each links everything, so many would take minutes to build.

mod boundaries;

mod checks;

mod cli;

#[cfg(feature = "serve")]
mod document;

#[cfg(feature = "train")]
mod learning;

#[cfg(feature = "dataset")]
mod made_up;

#[cfg(feature = "serve")]
mod http;

#[cfg(feature = "serve")]
mod malformed;

#[cfg(feature = "serve")]
mod page;

mod paper;

mod predictions;

mod products;

mod reproduction;

mod searches;

#[cfg(feature = "serve")]
mod service;

#[cfg(feature = "serve")]
mod sockets;

mod sweeps;
