//! The GPU that the environment names, where the command line names none.

use crate::error::{Error, FieldError};
use crate::predict::library;
use clap::builder::ArgPredicate;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use std::env;

/// The variable that names it.
pub const GPU_VARIABLE: &str = "SHAPEWISE_GPU";

fn gpu() -> Option<String> {
    env::var(GPU_VARIABLE).ok().filter(|gpu| !gpu.is_empty())
}

/// The option `--gpu` with that GPU as its default.
///
/// A model given by its path has no default GPU, since it may bring its own.
pub fn with_default(arg: Arg) -> Arg {
    let Some(gpu) = gpu() else {
        return arg;
    };
    let arg = arg.default_value(gpu.clone()).hide_default_value(true);
    let built_in = |model: &'static str| ("model", ArgPredicate::Equals(model.into()), gpu.clone());
    let arg = arg.default_value_ifs(library::names().map(built_in));
    arg.default_value_if("model", ArgPredicate::IsPresent, None::<&str>)
}

/// The GPU of the environment, if a command line was read with it.
pub fn used(matches: &ArgMatches) -> Option<String> {
    if let Some((_, matches)) = matches.subcommand() {
        return used(matches);
    }
    let is_known = matches.try_contains_id("gpu").unwrap_or(false);
    let is_used = is_known && matches.value_source("gpu") == Some(ValueSource::DefaultValue);
    gpu().filter(|_| is_used)
}

/// The error of a command that took this GPU from the environment; one about its name names the variable.
pub fn explain(error: Error, gpu: &str) -> Error {
    let is_of_name = |at: &&FieldError| at.field == "gpu" && at.value.trim_matches('`') == gpu;
    match error.field_error().filter(|at| error.is_usage() && is_of_name(at)) {
        Some(at) => Error::usage(format!(
            "{GPU_VARIABLE}: `gpu` is {}; allowed: {}",
            at.value, at.allowed
        )),
        None => error,
    }
}
