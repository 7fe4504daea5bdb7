//! `shapewise search`.

use crate::cli::args::Format;
use crate::cli::args::search::SearchArgs;
use crate::error::Error;
use crate::error::Result;

pub(super) fn run(_args: &SearchArgs, _format: Format) -> Result<String> {
    Err(Error::infeasible("not there yet"))
}
