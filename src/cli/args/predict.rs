//! What `predict` may be asked.

use super::{TargetArgs, WorkloadArgs, dimension, dtype, one_of};
use crate::op::Dtype;
use crate::op::Layout;
use crate::op::Pass;
use clap::{Args, Subcommand};

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
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}
