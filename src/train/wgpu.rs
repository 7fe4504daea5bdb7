//! Fitting on a GPU through wgpu.

use crate::error::{Error, Result};
use burn::tensor::Device;

/// The GPU that wgpu prefers.
pub fn device() -> Result<Device> {
    let opened = Device::wgpu_options().init();
    opened.map_err(|error| Error::infeasible(format!("--backend wgpu: {error}")))
}
