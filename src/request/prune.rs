//! What an existing model loses to meet targets.

use crate::arch::{Architecture, Workload};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::prune::{Choice, Score, Target};
use crate::request::{ArchitectureRequest, Sizes, WorkloadRequest};
use utoipa::ToSchema;

/// What an existing model loses to meet targets, at the least expected damage.
#[derive(Clone, Debug, serde::Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct PruneRequest {
    /// The model that loses parts of its layers, in place of a search for a new one: a preset or a config.json.
    #[arg(long, value_name = "MODEL")]
    pub from: ArchitectureRequest,
    /// What the step of --from becomes: a multiple of its latency, its memory or its throughput with the same batch, such as
    /// 0.6x-latency; of several all are met.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "FACTORx-MEASURE")]
    pub target: Vec<Target>,
    /// What --from may lose: attention, key/value heads and MLP width of each layer by itself, or the same width of all layers, and
    /// whole ones.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "blocks")]
    pub choice: Choice,
    /// The damage of each block in place of that of the model; blocks without a score are not chosen [default: the share of all
    /// parameters that its part has, times the square of the share of the part that goes].
    #[arg(skip)]
    #[serde(default)]
    pub scores: Vec<Score>,
    /// Answer with the config.json of what is left, too: of blocks for llama models alone (as Nemotron-NAS).
    #[arg(skip)]
    #[serde(default)]
    pub export: bool,
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    #[serde(default)]
    pub workload: WorkloadRequest,
}

impl PruneRequest {
    /// The step that targets are of; fails where it cannot run.
    pub fn workload(&self, model: &Architecture, gpu: &Gpu) -> Result<Workload> {
        let workload = Sizes::fixed(gpu, |sizes| self.workload.described(model, sizes))?;
        workload.validate(model)?;
        workload.require_effect(model)?;
        Ok(model.on(gpu, &workload))
    }
}
