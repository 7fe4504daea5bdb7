//! The GPU that is asked about and the model that answers.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// What is predicted for where neither a GPU nor a model is named.
pub const DEFAULT_GPU: &str = "h200";

/// Where the predicted work runs and what answers.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, IntoParams)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TargetRequest {
    /// The GPU; `shapewise gpus` and `/v1/gpus` list them; a model that describes its own GPU is asked about that one
    /// [default: h200].
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME"))]
    #[schema(default = "h200")]
    #[param(default = "h200")]
    pub gpu: Option<String>,
    /// A built-in model by name, on the command line also the path of a trained one [default: the model of the GPU].
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME|PATH"))]
    pub model: Option<String>,
}
