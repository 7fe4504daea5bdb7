//! In the place of calibration where `dataset`, which reads measured runs, was not compiled in.

use crate::error::{Error, Result};
use crate::report::calibration::CalibrationReport;
use crate::request::CalibrateRequest;

/// Names the feature.
pub fn run(_: &CalibrateRequest) -> Result<CalibrationReport> {
    Err(Error::feature_off("`calibrate`", "dataset"))
}
