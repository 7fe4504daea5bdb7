//! The GPU and the model that a command names, as a predictor.

use crate::answer::predictors;
use crate::answer::question::{Asked, Context, Work, unwatched};
use crate::answer::sweep::Timing;
use crate::arch::Architecture;
use crate::cli::args::{TargetArgs, Targeted};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuCatalog};
use crate::predict::Predictor;
use crate::request::{ArchitectureRequest, TargetRequest};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;

/// What a command line is answered from: names may be paths, and the user's own timings are known.
struct Own {
    data: Option<PathBuf>,
}

impl Context for Own {
    fn predictor(&self, target: &TargetRequest) -> Result<Arc<Predictor>> {
        let (request, data) = (target.clone(), self.data.clone());
        answering(&TargetArgs { request, data }).map(Arc::new)
    }

    fn architecture(&self, _: &str, request: &ArchitectureRequest) -> Result<Arc<Architecture>> {
        request.find().map(Arc::new)
    }
}

/// The answer to a request.
pub(super) fn answer<Q: Args + Clone, R>(by: fn(Asked<Q>) -> Result<Work<R>>, args: &Targeted<Q>) -> Result<R> {
    answer_to(by, args.request.clone(), &args.target)
}

/// The answer to a request that more than options were read into.
pub(super) fn answer_to<Q, R>(by: fn(Asked<Q>) -> Result<Work<R>>, request: Q, target: &TargetArgs) -> Result<R> {
    let TargetArgs { request: target, data } = target.clone();
    let context = Arc::new(Own { data });
    by(Asked {
        request,
        target,
        context,
    })?(&unwatched)
}

/// The predictor of the target, with the user's own timings where there are some.
pub(super) fn answering(target: &TargetArgs) -> Result<Predictor> {
    let predictor = predicting(target)?;
    let timings = timings(target, predictor.gpu())?;
    let rows = timings.into_iter().map(|timing| (timing.op, timing.time));
    Ok(predictor.with_measured(rows))
}

/// The predictor of the target without the user's own timings.
///
/// Its GPU may be one that `data/gpus` does not know and that the table or the model describes.
pub(super) fn predicting(target: &TargetArgs) -> Result<Predictor> {
    #[cfg_attr(not(feature = "dataset"), expect(unused_mut))]
    let mut gpus = GpuCatalog::default();
    #[cfg(feature = "dataset")]
    if let Some(path) = &target.data {
        gpus.extend(crate::dataset::described_gpus(path)?);
    }
    predictors::find(&target.request, gpus)
}

/// The user's own timings on this GPU; empty if no table is named.
#[cfg(feature = "dataset")]
pub(super) fn timings(target: &TargetArgs, gpu: &Gpu) -> Result<Vec<Timing>> {
    let Some(path) = &target.data else {
        return Ok(Vec::new());
    };
    let mut rows = crate::dataset::timings(crate::dataset::read(path)?).rows;
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
