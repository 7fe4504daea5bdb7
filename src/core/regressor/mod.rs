//! The trained part: nets as numbers, their evaluation, and the artifact they are shipped in.

pub mod artifact;

pub mod evaluate;

mod kernel;

pub(crate) use kernel::{Loops, vectorised};

pub mod net;
