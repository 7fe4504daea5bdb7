//! `shapewise sweep`.

use crate::cli::args::Format;
use crate::cli::args::sweep::SweepArgs;
use crate::error::Error;
use crate::error::Result;

pub(super) fn run(_args: &SweepArgs, _format: Format) -> Result<String> {
    Err(Error::infeasible("not there yet"))
}
