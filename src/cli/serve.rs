//! `shapewise serve`: the HTTP service and its web page.

use crate::cli::args::ServeArgs;
use crate::cli::say;
use crate::error::Result;
use crate::serve::{self, Options};

pub(super) fn run(args: &ServeArgs) -> Result<String> {
    serve::run(&Options::new(args.listen, args.cors.clone()), say)?;
    Ok(String::new())
}
