//! In the place of fitting nets where `train` was not compiled in.

use crate::error::{Error, Result};
use crate::regressor::net::Net;
use crate::train::fit::{Backend, FitConfig, Samples};

/// No backend is open.
pub enum Computer {}

/// Names the feature.
pub fn open(_: Backend) -> Result<Computer> {
    Err(Error::feature_off("`train`", "train"))
}

/// Never called.
pub fn fit(
    _: &Net,
    _: &Samples,
    _: &FitConfig,
    _: u64,
    device: &Computer,
    _: impl FnMut(usize, f32, &dyn Fn() -> Net),
) -> Net {
    match *device {}
}

/// Never called.
pub fn forward(_: &Net, _: &[f32], device: &Computer) -> Vec<f32> {
    match *device {}
}
