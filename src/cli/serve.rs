//! `shapewise serve`: the HTTP service and its web page.

use crate::cli::args::{ServeArgs, View};
use crate::cli::say;
use crate::error::Result;
use crate::serve;
use crate::serve::Options;
use crate::serve::limits::Limits;

pub(super) fn run(args: &ServeArgs, _: View) -> Result<String> {
    let options = Options {
        listen: args.listen,
        origins: args.cors.clone(),
        limits: Limits::default(),
    };
    serve::run(&options, say)?;
    Ok(String::new())
}
