//! In the place of a kind of device whose part was not compiled in.

use crate::error::{Error, Result};
use crate::measure::device::Device;

/// Names the feature that has devices of this kind.
pub fn device(kind: &str, _: u32) -> Result<Box<dyn Device>> {
    let feature = if kind == "cpu" { "train" } else { kind };
    Err(Error::feature_off(format!("`measure --device {kind}`"), feature))
}
