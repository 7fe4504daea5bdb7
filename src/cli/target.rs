//! The GPU and the model that a command names, as a predictor.

use crate::cli::args::TargetArgs;
use crate::cli::predictor;
use crate::error::Error;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::predict::Predictor;

/// The predictor of the target, with the user's own timings where there are some.
pub(super) fn answering(target: &TargetArgs) -> Result<Predictor> {
    let gpu = Gpu::find(&target.gpu)?;
    let predictor = predictor(gpu, target.model.as_deref())?;
    match &target.data {
        None => Ok(predictor),
        Some(path) => with_measured(predictor, path),
    }
}

#[cfg(feature = "dataset")]
fn with_measured(predictor: Predictor, path: &std::path::Path) -> Result<Predictor> {
    let gpu = predictor.gpu();
    let mut rows = crate::dataset::read(path)?;
    rows.retain(|row| *row.gpu == *gpu.name);
    if rows.is_empty() {
        return Err(Error::infeasible(format!(
            "--data {}: the table has no row of {}",
            path.display(),
            gpu.name
        )));
    }
    Ok(predictor.with_measured(rows.iter().map(|row| (row.op, row.time))))
}

#[cfg(not(feature = "dataset"))]
fn with_measured(_predictor: Predictor, _path: &std::path::Path) -> Result<Predictor> {
    Err(Error::feature_off("`--data`", "dataset"))
}
