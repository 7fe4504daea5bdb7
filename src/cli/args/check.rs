//! What `check` may be asked.

use super::{TargetArgs, WorkloadArgs};
use clap::Args;

/// A shape to be judged by the sizing rules.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A preset (gpt3-2.7b, llama-3-8b, …) or the path of a Hugging Face config.json.
    #[arg(value_name = "PRESET|CONFIG.json")]
    pub architecture: String,
    /// Exit with 1 when any rule is broken, advice included; the report is the same.
    #[arg(long)]
    pub strict: bool,
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}
