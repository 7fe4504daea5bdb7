//! The GPU and the model that a command names, as a predictor.

use crate::answer::sweep::Timing;
use crate::cli::args::TargetArgs;
use crate::cli::artifact;
use crate::error::Error;
use crate::error::{Result, read_text};
use crate::framework::Framework;
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::predict::Predictor;
use crate::regressor::artifact::Card;
use crate::request::DEFAULT_GPU;
use crate::request::TargetRequest;
use std::path::Path;

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
    let mut gpus = GpuCatalog::default();
    #[cfg(feature = "dataset")]
    if let Some(path) = &target.data {
        gpus.extend(crate::dataset::described_gpus(path)?);
    }
    let TargetRequest { gpu, model, .. } = &target.request;
    let model = model.as_deref().map(artifact).transpose()?;
    gpus.extend(model.iter().flat_map(|model| model.card.gpus.clone()));
    let own = model.as_ref().and_then(|model| described_gpu(&model.card));
    let gpu = gpus.find(gpu.as_deref().or(own).unwrap_or(DEFAULT_GPU))?;
    let predictor = Predictor::new(&target.request.placed(gpu), model.as_deref())?;
    let Some(name) = &target.request.framework else {
        return Ok(predictor);
    };
    if let Some(framework) = framework_file(name)? {
        return Ok(predictor.with_framework(framework));
    }
    Framework::check_name(name)?;
    Ok(predictor.with_framework_named(name))
}

/// The framework of a file; none where the text is the name of a built-in one.
pub(super) fn framework_file(name_or_path: &str) -> Result<Option<Framework>> {
    let path = Path::new(name_or_path);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(None);
    }
    Framework::from_toml(&read_text(path)?, name_or_path).map(Some)
}

/// The GPU that a model describes, where it describes only one.
fn described_gpu(card: &Card) -> Option<&str> {
    match &card.gpus[..] {
        [gpu] => Some(&gpu.name),
        _ => None,
    }
}

/// The user's own timings on this GPU; none where no table is named.
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
