//! One binary for all integration tests: each links everything, so many would take minutes to build.

mod accuracy;
#[cfg(feature = "cli")]
mod agreement;

mod batch;

mod boundaries;

#[cfg(feature = "serve")]
mod browser;

#[cfg(feature = "dataset")]
mod calibration;

mod checks;

#[cfg(feature = "cuda")]
mod fake_cuda;

#[cfg(feature = "cuda")]
mod faults;

#[cfg(feature = "cuda")]
mod gpu;

#[cfg(feature = "cuda")]
mod kernels;

mod cli;

mod files;

mod collectives;

#[cfg(feature = "cuda")]
mod cudnn;

#[cfg(feature = "serve")]
mod document;

#[cfg(feature = "train")]
mod learning;

#[cfg(feature = "dataset")]
mod made_up;

#[cfg(all(target_os = "linux", feature = "train"))]
mod fleet;

mod goldens;

#[cfg(feature = "serve")]
mod http;

#[cfg(feature = "serve")]
mod malformed;

#[cfg(all(feature = "mcp", feature = "dataset"))]
mod mcp;

#[cfg(feature = "dataset")]
mod measuring;

mod mistakes;

#[cfg(feature = "serve")]
mod page;

#[cfg(feature = "train")]
mod portable;

mod package;

mod paper;
mod physics;

mod predictions;

mod products;

#[cfg(unix)]
mod pruning;

#[cfg(unix)]
mod documents;

mod reliability;

mod searches;

#[cfg(feature = "serve")]
mod service;

mod skip;

#[cfg(feature = "serve")]
mod size;
mod sockets;

mod style;

mod sweeps;
mod terminal;
