//! `shapewise models` and `shapewise presets`: what is built in.

use crate::answer::catalog;
use crate::cli::args::Format;
use crate::cli::render;
use crate::error::Result;

pub(super) fn models(format: Format) -> Result<String> {
    Ok(render(&catalog::models()?, format))
}

pub(super) fn presets(format: Format) -> String {
    render(&catalog::presets(), format)
}
