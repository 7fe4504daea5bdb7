//! `shapewise models`: what is built in.

use crate::cli::args::Format;
use crate::cli::render;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::report::models::ModelLine;
use crate::report::models::ModelsReport;

pub(super) fn run(format: Format) -> Result<String> {
    Ok(render(&ModelsReport { models: built_in() }, format))
}

/// The names of the built-in models that were learned on this GPU.
pub(super) fn names_for(gpu: &Gpu) -> Vec<String> {
    let mut names: Vec<_> = built_in()
        .into_iter()
        .filter(|line| line.gpu == gpu.name)
        .map(|line| line.name)
        .collect();
    names.dedup();
    names
}

/// Every built-in model, one line per operator family and number format.
fn built_in() -> Vec<ModelLine> {
    Vec::new()
}
