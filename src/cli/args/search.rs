//! What `search` may be asked.

use super::workload::WorkloadArgs;
use super::{TargetArgs, dimension, one_of};
use crate::arch::MlpKind;
use crate::query::search;
use crate::query::search::Free;
use crate::query::search::PARAMETERS_ALLOWED;
use crate::search::bounds::Quantity;
use crate::search::shape::Count;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Finding a shape.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("budget").required(true).multiple(true).args(["params", "like"])))]
pub struct SearchArgs {
    /// Parameters wanted, such as 6.7B, 350M, 6.7e9 or 6700000000 [default: as many as --like has].
    #[arg(long, value_name = "COUNT", value_parser = parameters, allow_negative_numbers = true)]
    pub params: Option<u64>,
    /// What --params counts: all parameters, or those of the layers and the final norm.
    #[arg(long, default_value = "total", value_parser = one_of(Count::ALL.map(Count::name), Count::parse))]
    pub count: Count,
    /// Largest miss of --params, as a fraction.
    #[arg(
        long,
        default_value_t = 0.01, value_parser = tolerance,
        value_name = "FRACTION",
        allow_negative_numbers = true
    )]
    pub tolerance: f64,
    /// Start from this model, a preset or a config.json: its norms, positions, biases, kind of MLP and vocabulary
    /// stay, and gains are reported against it [default: the published model nearest in size, gains only].
    #[arg(long, value_name = "MODEL")]
    pub like: Option<String>,
    /// Plain (gelu) or gated (swiglu) MLP [default: as in --like, else swiglu].
    #[arg(long, value_parser = one_of(MlpKind::ALL.iter().map(|kind| kind.name()), MlpKind::parse))]
    pub mlp: Option<MlpKind>,
    /// Tokens of the vocabulary; the search pads it [default: as in --like, else 50257].
    #[arg(long, value_name = "V", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub vocab: Option<u64>,
    /// Vary these too: micro-batches in powers of two, tensor-parallel degrees up to 8.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "NAME", value_parser = one_of(Free::ALL.map(Free::name), Free::parse))]
    pub free: Vec<Free>,
    /// Let shapes leave the usual limits of these bounds, as far as the widest ones in data/search-bounds.toml.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "BOUND", value_parser = one_of(Quantity::ALL.map(Quantity::name), Quantity::parse))]
    pub relax: Vec<Quantity>,
    /// Keep this number of layers.
    #[arg(long, value_name = "L", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub layers: Option<u64>,
    /// Keep this hidden size.
    #[arg(long, value_name = "H", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub hidden: Option<u64>,
    /// Keep this number of query heads.
    #[arg(long, value_name = "A", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub heads: Option<u64>,
    /// Keep this number of key/value heads.
    #[arg(long, value_name = "G", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub kv_heads: Option<u64>,
    /// Keep this head size.
    #[arg(long, value_name = "D", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub head_dim: Option<u64>,
    /// Keep this MLP width.
    #[arg(long, value_name = "F", value_parser = dimension::<u64>, allow_negative_numbers = true)]
    pub d_ff: Option<u64>,
    /// Shapes to report.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub top: u64,
    /// Look at every shape of the lattice instead of annealing.
    #[arg(long)]
    pub exhaustive: bool,
    /// Equal seeds give equal reports.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Take --dp, --zero and --recompute as they are, even if no training state fits; otherwise states that do not
    /// fit one GPU are sharded over replicas, and the report says how.
    #[arg(long)]
    pub no_sharding: bool,
    /// Write each reported shape as a Hugging Face config.json into a folder of its own below this one.
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Draw throughput against memory of the Pareto front.
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub plot: Option<PathBuf>,
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Reads a number of parameters.
fn parameters(text: &str) -> Result<u64, String> {
    search::parameters(text).ok_or_else(|| format!("allowed: {PARAMETERS_ALLOWED}"))
}

/// Reads a tolerance.
fn tolerance(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value| (0.0..=0.5).contains(value))
        .ok_or_else(|| "allowed: a fraction from 0 to 0.5".to_owned())
}
