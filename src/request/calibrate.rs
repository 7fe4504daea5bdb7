//! The constants of a framework from measured steps.

use crate::request::FrameworkRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;
use utoipa::ToSchema;

/// Measured whole models.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected the path of a file or an object with columns as keys"
)]
pub enum MeasuredRun {
    /// The path of a file of runs.
    #[schema(value_type = String)]
    File(PathBuf),
    /// One run, with the columns of docs/runs.md as keys.
    #[schema(value_type = Object)]
    Run(Map<String, Value>),
}

impl From<String> for MeasuredRun {
    fn from(path: String) -> Self {
        Self::File(path.into())
    }
}

/// Fitting the constants of a framework to measured steps.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrateRequest {
    /// Measured whole models (docs/runs.md), three or more runs of your own trainer or server: files, in JSON also
    /// objects with the columns as keys.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    #[schema(inline)]
    pub runs: Vec<MeasuredRun>,
    /// Runs as the text of a CSV table, in JSON alone.
    #[arg(skip)]
    pub csv: Option<String>,
    /// The framework to depart from [default: megatron in training, vllm in serving].
    #[arg(long, value_name = "NAME|PATH")]
    #[schema(inline)]
    pub framework: Option<FrameworkRequest>,
    /// What predicts the kernels: a built-in model or the path of a trained one, whose GPU the runs may be on
    /// [default: the model of the GPU].
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// What the fitted framework is called; on the command line as its file [default: calibrated].
    #[arg(skip)]
    pub name: Option<String>,
    /// Fit every constant that has a prior, to the runs whose software is that of the framework: how the built-in
    /// frameworks are made.
    #[arg(long, requires = "framework")]
    pub refit: bool,
}
