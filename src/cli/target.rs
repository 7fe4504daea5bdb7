//! The GPU and the model that a command names, as a predictor.

use crate::answer::predictors;
use crate::answer::question::{Asked, Context, Work, unwatched};
use crate::arch::Architecture;
use crate::cli::args::{TargetArgs, Targeted};
use crate::cli::rows;
use crate::error::Result;
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
    let timings = rows::timings(target, predictor.gpu())?;
    let rows = timings.into_iter().map(|timing| (timing.op, timing.time));
    Ok(predictor.with_measured(rows))
}

/// The predictor of the target without the user's own timings.
///
/// Its GPU may be one that `data/gpus` does not know and that the table or the model describes.
pub(super) fn predicting(target: &TargetArgs) -> Result<Predictor> {
    predictors::find(&target.request, rows::described(target)?)
}
