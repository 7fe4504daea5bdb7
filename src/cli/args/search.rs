//! What `search` may be asked.

use clap::Args;

/// Arguments of `search`.
#[derive(Debug, Args)]
pub struct SearchArgs {}
