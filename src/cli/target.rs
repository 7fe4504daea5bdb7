//! The GPU and the model that a command names, as a predictor.

use crate::cli::args::TargetArgs;
use crate::cli::predictor;
use crate::error::Error;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::query::sweep::Timing;

/// The predictor of the target, with the user's own timings where there are some.
pub(super) fn answering(target: &TargetArgs) -> Result<Predictor> {
    let predictor = predicting(target)?;
    let timings = timings(target, predictor.gpu())?;
    let rows = timings.into_iter().map(|timing| (timing.op, timing.time));
    Ok(predictor.with_measured(rows))
}

/// The predictor of the target without the user's own timings.
pub(super) fn predicting(target: &TargetArgs) -> Result<Predictor> {
    predictor(Gpu::find(&target.gpu)?, target.model.as_deref())
}

/// The user's own timings on this GPU; none where no table is named.
#[cfg(feature = "dataset")]
pub(super) fn timings(target: &TargetArgs, gpu: &Gpu) -> Result<Vec<Timing>> {
    let Some(path) = &target.data else {
        return Ok(Vec::new());
    };
    let mut rows = crate::dataset::read(path)?;
    rows.retain(|row| *row.gpu == *gpu.name);
    if rows.is_empty() {
        return Err(Error::infeasible(format!(
            "--data {}: the table has no row of {}",
            path.display(),
            gpu.name
        )));
    }
    let timings = rows.into_iter().map(|row| Timing {
        op: row.op,
        time: row.time,
        stack: row.stack,
    });
    Ok(timings.collect())
}

#[cfg(not(feature = "dataset"))]
pub(super) fn timings(target: &TargetArgs, _gpu: &Gpu) -> Result<Vec<Timing>> {
    match target.data {
        None => Ok(Vec::new()),
        Some(_) => Err(Error::feature_off("`--data`", "dataset")),
    }
}
