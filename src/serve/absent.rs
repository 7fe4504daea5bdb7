//! In the place of the HTTP service where `serve` was not compiled in.

use crate::error::{Error, Result};
use std::net::SocketAddr;

/// How to serve.
pub struct Options;

impl Options {
    /// Nothing is kept of them.
    pub fn new(_: SocketAddr, _: Vec<String>) -> Self {
        Self
    }
}

/// Names the feature.
pub fn run(_: &Options, _: fn(&str)) -> Result<()> {
    Err(Error::feature_off("`serve`", "serve"))
}
