//! `shapewise models` and `shapewise presets`: what is built in.

use crate::answer::catalog;
use crate::cli::args::View;
use crate::cli::render;
use crate::error::Result;

pub(super) fn models(view: View) -> Result<String> {
    Ok(render(&catalog::models()?, view))
}

pub(super) fn presets(view: View) -> String {
    render(&catalog::presets(), view)
}
