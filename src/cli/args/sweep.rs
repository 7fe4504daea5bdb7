//! What `sweep` may be asked.

use clap::Args;

/// Arguments of `sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {}
