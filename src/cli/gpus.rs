//! `shapewise gpus`.

use crate::cli::args::Format;
use crate::cli::args::GpusArgs;
use crate::cli::render;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::query::catalog;

pub(super) fn run(args: &GpusArgs, format: Format) -> Result<String> {
    Ok(match &args.name {
        Some(name) => render(&catalog::gpu(Gpu::find(name)?)?, format),
        None => render(&catalog::gpus(), format),
    })
}
