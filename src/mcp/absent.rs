//! In the place of the Model Context Protocol where `mcp` was not compiled in.

use crate::error::{Error, Result};

/// Names the feature.
pub fn run() -> Result<()> {
    Err(Error::feature_off("`mcp`", "mcp"))
}
