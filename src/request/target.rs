//! The GPU that is asked about and the model that answers.

use crate::gpu::Gpu;
use crate::request::written::{Gigabits, Gigabytes};
use crate::units::BytesPerSecond;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is predicted for where neither a GPU nor a model is named.
pub const DEFAULT_GPU: &str = "h200";

/// A framework by its name, or the content of its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected the name of a framework or {\"toml\": the text of its file}"
)]
pub enum FrameworkRequest {
    /// A built-in framework; on the command line also the path of a calibrated one.
    #[schema(examples("megatron"))]
    Named(String),
    /// A framework file that `calibrate` made.
    Content {
        /// The text of the file.
        toml: String,
    },
}

impl From<String> for FrameworkRequest {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

/// Where the predicted work runs and what answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields, default)]
pub struct TargetRequest {
    /// The GPU; `shapewise gpus` and `/v1/gpus` list them, on the command line also the TOML file of another; a
    /// model of one GPU names its own [default: h200].
    #[arg(long, value_name = "NAME|FILE.toml")]
    #[schema(default = "h200")]
    pub gpu: Option<String>,
    /// A built-in model by name, on the command line also the path of a trained one [default: the model of the GPU].
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// What runs whole steps: a built-in framework, on the command line also the path of a calibrated one; kernels is
    /// the plain sum, unknown or unknown-server holds whichever it is [default: megatron in training, vllm in serving]. It also says
    /// whose kernel a single operator is, if it is given.
    #[arg(long, value_name = "NAME|PATH")]
    #[schema(inline)]
    pub framework: Option<FrameworkRequest>,
    /// The server launches every kernel from the host instead of replaying CUDA graphs (vLLM's --enforce-eager, SGLang's
    /// --disable-cuda-graph).
    #[arg(long, visible_alias = "disable-cuda-graph")]
    pub enforce_eager: bool,
    /// Bandwidth between nodes of one GPU in one direction, in Gb/s [default: that of the GPU's usual server].
    #[arg(long, value_name = "GBIT")]
    #[schema(inline)]
    pub network_gbit_per_s: Option<Gigabits>,
    /// Bandwidth between two GPUs of a node in one direction, in GB/s, such as 8 for cards that reach each other through the host
    /// over PCIe 4.0 x8 [default: that of the GPU].
    #[arg(long, value_name = "GBYTE")]
    #[schema(inline)]
    pub link_gbyte_per_s: Option<Gigabytes>,
    /// Bandwidth of the link between a GPU and its host in one direction, in GB/s [default: that of the GPU's usual
    /// server].
    #[arg(long, value_name = "GBYTE")]
    #[schema(inline)]
    pub host_gbyte_per_s: Option<Gigabytes>,
    /// Widen intervals so that they hold for any software stack of the GPU, not for the one that answers alone. A step has the
    /// wider one of its framework and its operators, a planned engine that of its framework.
    #[arg(long)]
    pub any_stack: bool,
}

impl TargetRequest {
    /// The keys that any request may have besides its own.
    pub const KEYS: [&'static str; 8] = [
        "gpu",
        "model",
        "framework",
        "enforce_eager",
        "network_gbit_per_s",
        "link_gbyte_per_s",
        "host_gbyte_per_s",
        "any_stack",
    ];

    /// This GPU in the network and on the host that were asked for.
    pub fn placed(&self, gpu: &Gpu) -> Gpu {
        let mut gpu = gpu.clone();
        let rate = BytesPerSecond::from_bytes_per_sec;
        if let Some(Gigabits(gigabits)) = self.network_gbit_per_s {
            gpu = gpu.with_network(rate(gigabits * 1e9 / 8.0));
        }
        if let Some(Gigabytes(gigabytes)) = self.link_gbyte_per_s {
            gpu = gpu.with_link(rate(gigabytes * 1e9));
        }
        if let Some(Gigabytes(gigabytes)) = self.host_gbyte_per_s {
            gpu = gpu.with_host_link(rate(gigabytes * 1e9));
        }
        gpu
    }
}
