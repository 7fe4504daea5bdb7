//! What `predict` may be asked.

use super::{TargetArgs, WorkloadArgs, dimension, dtype, one_of};
use crate::ops::Dtype;
use crate::ops::Layout;
use crate::ops::Pass;
use crate::query::Extent;
use crate::query::operator::Attention;
use crate::query::operator::Gemm;
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
pub struct GemmArgs<E: Extent = u64> {
    /// Rows of the left operand and of the product.
    #[arg(short, value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub m: E,
    /// Columns of the right operand and of the product.
    #[arg(short, value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub n: E,
    /// The reduction: columns of the left operand, rows of the right one.
    #[arg(short, value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub k: E,
    /// Independent products in one call.
    #[arg(long, default_value = "1", value_name = "B", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub batch_count: E,
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

impl<E: Extent> GemmArgs<E> {
    /// The question.
    pub fn query(&self) -> Gemm<E> {
        Gemm {
            m: self.m.clone(),
            n: self.n.clone(),
            k: self.k.clone(),
            batch_count: self.batch_count.clone(),
            dtype: self.dtype,
            layout: self.layout,
        }
    }
}

/// A fused attention.
#[derive(Debug, Args)]
pub struct AttentionArgs<E: Extent = u64> {
    /// Sequences.
    #[arg(long, value_name = "B", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub batch: E,
    /// Query heads.
    #[arg(long, value_name = "H", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub heads: E,
    /// Key/value heads, a divisor of the query heads [default: as many].
    #[arg(long, value_name = "G", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub kv_heads: Option<E>,
    /// Queries per sequence; 1 is a decoding step.
    #[arg(long, value_name = "S", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub seq: E,
    /// Keys per sequence, cached ones included [default: as many as queries].
    #[arg(long, value_name = "C", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub kv_seq: Option<E>,
    /// Width of one head.
    #[arg(long, value_name = "D", value_parser = dimension::<E>, allow_negative_numbers = true)]
    pub head_dim: E,
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

impl<E: Extent> AttentionArgs<E> {
    /// The question.
    pub fn query(&self) -> Attention<E> {
        Attention {
            batch: self.batch.clone(),
            heads: self.heads.clone(),
            kv_heads: self.kv_heads.clone(),
            seq: self.seq.clone(),
            kv_seq: self.kv_seq.clone(),
            head_dim: self.head_dim.clone(),
            causal: self.causal,
            pass: self.pass,
            dtype: self.dtype,
        }
    }
}

/// A step of a whole model.
#[derive(Debug, Args)]
pub struct ModelArgs<E: Extent = u64> {
    /// A preset (gpt3-2.7b, llama-3-8b, …) or the path of a Hugging Face config.json.
    #[arg(value_name = "PRESET|CONFIG.json")]
    pub architecture: String,
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    pub workload: WorkloadArgs<E>,
    /// GPU and model.
    #[command(flatten)]
    pub target: TargetArgs,
}
