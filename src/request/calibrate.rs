//! The constants of a framework from measured steps.

use serde::Deserialize;
use std::path::PathBuf;
use utoipa::ToSchema;

/// Fitting the constants of a framework to measured steps.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct CalibrateRequest {
    /// Measured whole models (docs/runs.md): three or more runs of your own trainer or server.
    #[cfg_attr(feature = "cli", arg(long, required = true, num_args = 1.., value_name = "FILE"))]
    #[schema(value_type = Vec<String>, min_items = 1)]
    pub runs: Vec<PathBuf>,
    /// The framework to depart from [default: megatron in training, vllm in serving].
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME|PATH"))]
    pub framework: Option<String>,
    /// The file to write.
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE.toml"))]
    #[schema(value_type = String)]
    pub out: PathBuf,
    /// Fit every constant that has a prior, to the runs whose software is that of the framework: how the built-in
    /// frameworks are made.
    #[cfg_attr(feature = "cli", arg(long, requires = "framework"))]
    #[serde(default)]
    pub refit: bool,
}
