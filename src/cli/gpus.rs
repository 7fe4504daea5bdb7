//! `shapewise gpus`.

use crate::cli::args::Format;
use crate::cli::args::GpusArgs;
use crate::cli::models;
use crate::cli::render;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::report::gpus::GpuReport;
use crate::report::gpus::GpusReport;

pub(super) fn run(args: &GpusArgs, format: Format) -> Result<String> {
    Ok(match &args.name {
        Some(name) => {
            let gpu = Gpu::find(name)?;
            render(&GpuReport::new(gpu, models::names_for(gpu)), format)
        }
        None => render(&GpusReport::new(models::names_for), format),
    })
}
