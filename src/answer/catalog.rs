//! What is built in: GPUs, trained models, published architectures.

use crate::arch::Preset;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::predict::{Predictor, library};
use crate::report::gpus::{GpuReport, GpusReport};
use crate::report::models::{ModelLine, ModelsReport};
use crate::report::presets::PresetsReport;

/// Every known GPU.
pub fn gpus() -> GpusReport {
    GpusReport::new(names_for)
}

/// The GPU of a predictor: every figure with its source, and what answers for it.
pub fn gpu(predictor: &Predictor) -> GpuReport {
    let gpu = predictor.gpu();
    GpuReport::new(gpu, names_for(gpu), predictor.answers())
}

/// Every built-in model, one line per operator family and number format.
pub fn models() -> Result<ModelsReport> {
    let mut models = Vec::new();
    for name in library::names() {
        if let Some(artifact) = library::find(name)? {
            let heads = artifact.card.submodels.iter().zip(&artifact.weights);
            models.extend(heads.map(|(submodel, weights)| ModelLine::new(name, submodel, weights)));
        }
    }
    Ok(ModelsReport { models })
}

/// Every published architecture that has a name here.
pub fn presets() -> PresetsReport {
    PresetsReport::new(Preset::all())
}

/// The names of the built-in models that were learned on this GPU.
fn names_for(gpu: &Gpu) -> Vec<String> {
    library::names()
        .filter(|name| *name == gpu.name)
        .map(str::to_owned)
        .collect()
}
