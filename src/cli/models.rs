//! `shapewise models`: what is built in.

use crate::cli::args::Format;
use crate::cli::render;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::predict::library;
use crate::report::models::ModelLine;
use crate::report::models::ModelsReport;

pub(super) fn run(format: Format) -> Result<String> {
    let models = built_in()?;
    Ok(render(&ModelsReport { models }, format))
}

/// The names of the built-in models that were learned on this GPU.
pub(super) fn names_for(gpu: &Gpu) -> Vec<String> {
    library::names()
        .filter(|name| *name == gpu.name)
        .map(str::to_owned)
        .collect()
}

/// Every built-in model, one line per operator family and number format.
fn built_in() -> Result<Vec<ModelLine>> {
    let mut lines = Vec::new();
    for name in library::names() {
        let Some(artifact) = library::find(name)? else {
            continue;
        };
        for (head, weights) in artifact.card.heads.iter().zip(&artifact.weights) {
            let parameters: usize = weights.nets.iter().map(|net| net.parameters()).sum();
            lines.push(ModelLine {
                name: name.to_owned(),
                gpu: head.key.gpu.clone(),
                stack: head.key.stack.clone(),
                family: head.key.family.name(),
                dtype: head.key.dtype.name(),
                rows: head.data.iter().map(|source| source.rows as u64).sum(),
                median_ape: head.held_out.first().map(|errors| errors.median_ape),
                // Half precision on disk.
                size_bytes: 2 * parameters as u64,
            });
        }
    }
    Ok(lines)
}
