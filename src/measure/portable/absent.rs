//! In the place of GPUs through wgpu where that was not compiled in.

use crate::error::{Error, Result};
use crate::measure::device::Device as Measured;
use burn::tensor::Device;

/// Names the feature.
pub fn device(kind: &str, _: u32) -> Result<Box<dyn Measured>> {
    Err(Error::feature_off(format!("`measure --device {kind}`"), "wgpu"))
}

/// Names the feature.
pub fn preferred() -> Result<Device> {
    Err(Error::feature_off("`train --backend wgpu`", "wgpu"))
}
