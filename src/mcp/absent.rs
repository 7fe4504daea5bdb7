//! In the place of the Model Context Protocol where `mcp` was not compiled in.

use crate::answer::question::Question;
use crate::error::{Error, Result};
use serde_json::Value;

/// Names the feature.
pub fn run(_: fn(&Question, &Value) -> Option<String>) -> Result<()> {
    Err(Error::feature_off("`mcp`", "mcp"))
}
