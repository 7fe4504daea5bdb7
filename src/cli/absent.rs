//! In the place of a command whose part was not compiled in.

use crate::cli::args::View;
use crate::error::{Error, Result};

/// Names the feature that has the command: tables come with `dataset`, every other part is named like its command.
pub(super) fn run<A, R>(_: A, _: View) -> Result<R> {
    let command = module_path!().rsplit("::").next().expect("a path ends in a name");
    let feature = match command {
        "mcp" | "serve" | "train" => command,
        _ => "dataset",
    };
    Err(Error::feature_off(format!("`{command}`"), feature))
}
