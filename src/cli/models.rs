//! `shapewise models` and `shapewise presets`: what is built in.

use crate::cli::args::Format;
use crate::cli::render;
use crate::error::Result;
use crate::query::catalog;

pub(super) fn models(format: Format) -> Result<String> {
    Ok(render(&catalog::models()?, format))
}

pub(super) fn presets(format: Format) -> String {
    render(&catalog::presets(), format)
}
