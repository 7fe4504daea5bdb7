//! What the command line may say. Doc comments are the help; names are those of the vocabulary.

use crate::arch::AttentionKernel;
use crate::arch::Mode;
use crate::arch::Recompute;
use crate::op::Dtype;
use crate::op::Layout;
use crate::op::Pass;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A learned GPU performance predictor for transformers.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 done,
/// 1 the request cannot be met, 2 wrong usage, 70 a bug.
#[derive(Debug, Parser)]
#[command(name = "shapewise", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to print the result.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One JSON document with units in its keys, `"schema": 1`.
    Json,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Predict the time of a product, of attention, or of a whole model.
    #[command(subcommand)]
    Predict(Predict),
    /// Fit a model to timing tables.
    Train(TrainArgs),
    /// Compare predictions with timing tables: the error table.
    Evaluate(EvaluateArgs),
    /// Convert public timing tables to our own Parquet schema.
    Import(ImportArgs),
    /// List the known GPUs, or every figure of one with its source.
    Gpus(GpusArgs),
    /// List the models that are built in.
    Models,
}

/// What to predict.
#[derive(Debug, Subcommand)]
pub enum Predict {
    /// One matrix product (m, k) x (k, n).
    Gemm(GemmArgs),
    /// One fused (flash) attention.
    Attention(AttentionArgs),
    /// One step of a whole transformer, operator by operator.
    Model(ModelArgs),
}

/// Where the predicted work runs and what answers.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// The GPU; `shapewise gpus` lists them.
    #[arg(long, default_value = "h200", value_name = "NAME")]
    pub gpu: String,
    /// A built-in model by name, or the path of a trained one; by default the model of the GPU.
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// A timing table of your own: shapes found in it are answered as measured.
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
}

/// A matrix product.
#[derive(Debug, Args)]
pub struct GemmArgs {
    /// Rows of the left operand and of the product.
    #[arg(short, value_parser = dimension, allow_negative_numbers = true)]
    pub m: u64,
    /// Columns of the right operand and of the product.
    #[arg(short, value_parser = dimension, allow_negative_numbers = true)]
    pub n: u64,
    /// The reduction: columns of the left operand, rows of the right one.
    #[arg(short, value_parser = dimension, allow_negative_numbers = true)]
    pub k: u64,
    /// Independent products in one call.
    #[arg(long, default_value = "1", value_name = "B", value_parser = dimension, allow_negative_numbers = true)]
    pub batch_count: u64,
    /// Number format of the operands.
    #[arg(long, default_value = "bf16", value_parser = dtype())]
    pub dtype: Dtype,
    /// Which operand is stored transposed, in cuBLAS terms; a linear layer runs forward as tn,
    /// its input gradient as nn, its weight gradient as nt.
    #[arg(long, default_value = "tn", value_parser = one_of(Layout::ALL.map(Layout::name), Layout::parse))]
    pub layout: Layout,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// A fused attention.
#[derive(Debug, Args)]
pub struct AttentionArgs {
    /// Sequences.
    #[arg(long, value_name = "B", value_parser = dimension, allow_negative_numbers = true)]
    pub batch: u64,
    /// Query heads.
    #[arg(long, value_name = "H", value_parser = dimension, allow_negative_numbers = true)]
    pub heads: u64,
    /// Key/value heads, a divisor of the query heads [default: as many].
    #[arg(long, value_name = "G", value_parser = dimension, allow_negative_numbers = true)]
    pub kv_heads: Option<u64>,
    /// Queries per sequence; 1 is a decoding step.
    #[arg(long, value_name = "S", value_parser = dimension, allow_negative_numbers = true)]
    pub seq: u64,
    /// Keys per sequence, cached ones included [default: as many as queries].
    #[arg(long, value_name = "C", value_parser = dimension, allow_negative_numbers = true)]
    pub kv_seq: Option<u64>,
    /// Width of one head.
    #[arg(long, value_name = "D", value_parser = dimension, allow_negative_numbers = true)]
    pub head_dim: u64,
    /// Each query sees only the keys up to its own position.
    #[arg(long)]
    pub causal: bool,
    /// Forward or backward.
    #[arg(long, default_value = "forward", value_parser = one_of(["forward", "backward"], Pass::parse))]
    pub pass: Pass,
    /// Number format of queries, keys and values.
    #[arg(long, default_value = "bf16", value_parser = dtype())]
    pub dtype: Dtype,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// A step of a whole model.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// A preset (gpt3-2.7b, llama-3-8b, …) or the path of a Hugging Face config.json.
    #[arg(value_name = "PRESET|CONFIG.json")]
    pub architecture: String,
    /// What one step does.
    #[arg(long, default_value = "train", value_parser = one_of(Mode::ALL.iter().map(|mode| mode.name()), Mode::parse))]
    pub mode: Mode,
    /// Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    #[arg(long, value_name = "B", value_parser = dimension, allow_negative_numbers = true)]
    pub batch: Option<u64>,
    /// Tokens per sequence [default: 2048 or what the position table holds]; in decode the cached ones, as --context.
    #[arg(long, value_name = "S", value_parser = dimension, allow_negative_numbers = true)]
    pub seq: Option<u64>,
    /// Cached tokens per sequence [default: 2048 or what the position table leaves in decode, else 0].
    #[arg(long, value_name = "T", value_parser = cached, allow_negative_numbers = true)]
    pub context: Option<u64>,
    /// Number format of the linear layers.
    #[arg(long, default_value = "bf16", value_parser = dtype())]
    pub dtype: Dtype,
    /// Tensor-parallel ranks.
    #[arg(long, default_value = "1", value_name = "T", value_parser = dimension, allow_negative_numbers = true)]
    pub tp: u64,
    /// Pipeline stages.
    #[arg(long, default_value = "1", value_name = "P", value_parser = dimension, allow_negative_numbers = true)]
    pub pp: u64,
    /// Data-parallel replicas.
    #[arg(long, default_value = "1", value_name = "R", value_parser = dimension, allow_negative_numbers = true)]
    pub dp: u64,
    /// ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    #[arg(long, default_value = "0", value_name = "STAGE", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub zero: u8,
    /// What the backward pass recomputes.
    #[arg(long, default_value = "none", value_parser = one_of(Recompute::ALL.iter().map(|kind| kind.name()), Recompute::parse))]
    pub recompute: Recompute,
    /// Fused or unfused attention.
    #[arg(long, default_value = "flash", value_parser = one_of(AttentionKernel::ALL.iter().map(|kind| kind.name()), AttentionKernel::parse))]
    pub attention: AttentionKernel,
    /// Micro-batches per step: they fill the pipeline and accumulate gradients.
    #[arg(long, default_value = "1", value_name = "N", value_parser = dimension, allow_negative_numbers = true)]
    pub microbatches: u64,
    /// Shard norms and residual adds over the tensor-parallel ranks too.
    #[arg(long)]
    pub sequence_parallel: bool,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}

/// Fitting a model.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// Timing tables in our own schema (`shapewise import` writes them).
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// Where the model goes; an interrupted run started again with the same arguments resumes.
    #[arg(long, value_name = "models/NAME")]
    pub out: PathBuf,
    /// Start from this model (a name or a path) instead of from nothing.
    #[arg(long, value_name = "NAME|PATH")]
    pub base: Option<String>,
    /// Equal seeds and data give equal models.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// What to compute on.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    pub backend: Backend,
    /// Passes over the rows [default: what data/stacks.toml asks for].
    #[arg(long, value_name = "N", value_parser = dimension, allow_negative_numbers = true)]
    pub epochs: Option<u64>,
    /// Shapes that the teacher labels for the nets [default: 20000 to 90000].
    #[arg(long, value_name = "N", value_parser = dimension, allow_negative_numbers = true)]
    pub labels: Option<u64>,
    /// One model over the default stacks of all GPUs, for GPUs nobody measured.
    #[arg(long, conflicts_with_all = ["gpu", "base"])]
    pub across: bool,
    /// The GPU whose heads to train; its sister tables may be of other GPUs [default: the only one in the data].
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
}

/// What training computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The CPU, all cores.
    Cpu,
    /// Any GPU with Vulkan, Metal or DX12 (feature `wgpu`).
    Wgpu,
}

/// Which rows of a table to take.
#[derive(Debug, Default, Args)]
pub struct FilterArgs {
    /// Only rows of these GPUs.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub gpu: Vec<String>,
    /// Only rows of these software stacks, such as "trtllm 1.3.0rc20".
    #[arg(long, num_args = 1.., value_name = "NAME")]
    pub stack: Vec<String>,
}

/// Comparing with a table.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Timing tables.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub data: Vec<PathBuf>,
    /// Whose tables they are; native is our own schema.
    #[arg(long, default_value = NATIVE, value_parser = PossibleValuesParser::new([NATIVE].into_iter().chain(PUBLISHERS)))]
    pub from: String,
    /// A built-in model by name, or the path of a trained one; by default the model of each GPU.
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// Which rows.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Write the document on the accuracy of all built-in models to this file instead: their
    /// held-out errors beside simple predictors on the rows of the tables, which may be of any publisher.
    #[arg(long, value_name = "FILE.md", conflicts_with_all = ["from", "model", "gpu", "stack"])]
    pub accuracy: Option<PathBuf>,
    /// Whole-model measurements of llm-foundry, vTrain and PipeWeave for that document.
    #[arg(long, num_args = 1.., value_name = "FILE", requires = "accuracy")]
    pub runs: Vec<PathBuf>,
}

/// Converting public tables.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Whose tables they are.
    #[arg(value_parser = PossibleValuesParser::new(PUBLISHERS))]
    pub source: String,
    /// The tables.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The Parquet file to write.
    #[arg(long, value_name = "FILE.parquet")]
    pub out: PathBuf,
    /// Replace the output if it exists.
    #[arg(long)]
    pub force: bool,
    /// Which rows.
    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Listing GPUs.
#[derive(Debug, Args)]
pub struct GpusArgs {
    /// Show every figure of this GPU with its source.
    pub name: Option<String>,
}

/// Our own schema of timing tables.
pub const NATIVE: &str = "native";

/// Publishers whose tables can be imported; a test holds them equal to the importers, which a
/// build without them does not have.
pub const PUBLISHERS: [&str; 3] = ["aiconfigurator", "cookbook", "neusight"];

/// The largest dimension or count that the command line takes.
const LARGEST: u64 = 1 << 32;

/// Reads a dimension or a count of things.
fn dimension(text: &str) -> Result<u64, String> {
    from(1, text)
}

/// Reads a number of cached tokens: there may be none.
fn cached(text: &str) -> Result<u64, String> {
    from(0, text)
}

fn from(least: u64, text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|value| (least..=LARGEST).contains(value))
        .ok_or_else(|| format!("allowed: whole numbers from {least} to {LARGEST}"))
}

/// Reads a number format.
fn dtype() -> impl TypedValueParser<Value = Dtype> {
    one_of(Dtype::ALL.map(Dtype::name), Dtype::parse)
}

/// Reads one of these names; help and messages list them.
fn one_of<T: Clone + Send + Sync + 'static>(
    names: impl IntoIterator<Item = &'static str>,
    parse: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names)
        .map(move |name| parse(&name).expect("clap lets only listed names through"))
}

#[cfg(all(test, feature = "dataset"))]
mod tests {
    use super::*;
    use crate::dataset::Source;

    #[test]
    fn every_importer_can_be_named() {
        assert_eq!(PUBLISHERS, Source::ALL.map(Source::name));
    }
}
