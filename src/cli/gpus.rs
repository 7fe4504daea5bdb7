//! `shapewise gpus`.

use crate::answer::catalog;
use crate::cli::args::Format;
use crate::cli::args::GpusArgs;
use crate::cli::render;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::predict::Predictor;

pub(super) fn run(args: &GpusArgs, format: Format) -> Result<String> {
    Ok(match &args.name {
        Some(name) => {
            let predictor = Predictor::new(Gpu::find(name)?, None)?;
            render(&catalog::gpu(&predictor), format)
        }
        None => render(&catalog::gpus(), format),
    })
}
