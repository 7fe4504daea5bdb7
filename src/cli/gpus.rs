//! `shapewise gpus`.

use crate::answer::catalog;
use crate::cli::args::{GpusArgs, View};
use crate::cli::render;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::predict::Predictor;

pub(super) fn run(args: &GpusArgs, view: View) -> Result<String> {
    Ok(match &args.name {
        Some(name) => {
            let predictor = Predictor::new(Gpu::find(name)?, None)?;
            render(&catalog::gpu(&predictor), view)
        }
        None => render(&catalog::gpus(), view),
    })
}
