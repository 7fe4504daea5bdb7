//! `shapewise check`.

use crate::cli::args::Format;
use crate::cli::args::check::CheckArgs;
use crate::error::Error;
use crate::error::Result;

pub(super) fn run(_args: &CheckArgs, _format: Format) -> Result<String> {
    Err(Error::infeasible("not there yet"))
}
