//! In the place of fitting through wgpu where that was not compiled in.

use crate::error::{Error, Result};
use burn::tensor::Device;

/// Names the feature.
pub fn device() -> Result<Device> {
    Err(Error::feature_off("`train --backend wgpu`", "wgpu"))
}
