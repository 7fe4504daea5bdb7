//! What a series predicts at each of its points: a GEMM, a layer or a step of a model.

use crate::reproduce::formula::{Formula, Sizes};
use crate::reproduce::judge::Unit;
use serde::Deserialize;
use shapewise::arch::{Architecture, AttentionKernel, Mode, NormPlacement, Role, Workload};
use shapewise::ops::{Dtype, Gemm, Layout};

/// What is predicted at each point.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    /// The rate of a GEMM.
    Gemm(GemmSpec),
    /// One layer forward as the authors timed it.
    Layer {
        model: ModelSpec,
        work: WorkSpec,
        value: LayerValue,
    },
    /// A whole step of a model.
    Step {
        model: ModelSpec,
        work: WorkSpec,
        value: StepValue,
    },
    /// The parameters of a model's layers.
    LayerParameters { model: ModelSpec },
}

/// A GEMM whose sizes may vary.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmSpec {
    m: Formula,
    n: Formula,
    k: Formula,
    batch: Option<Formula>,
    layout: Layout,
    dtype: Dtype,
}

/// What of a layer counts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerValue {
    /// TFLOP/s with the full square of scores counted, as the authors count.
    Rate,
    /// TFLOP/s of projections and attention core without norms, as the authors count an attention
    /// block.
    AttentionRate,
    /// The share of everything but the MLP block.
    AttentionShare,
    /// Milliseconds.
    Millis,
    /// The share of the operators with these roles.
    ShareOf(Vec<Role>),
}

/// What of a step counts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepValue {
    /// Tokens per second of all GPUs.
    TokensPerS,
    /// Tokens per second over the number of GPUs.
    TokensPerSPerGpu,
    /// Milliseconds.
    Millis,
}

/// A preset with other sizes.
///
/// A hidden size brings an MLP of four times that; hidden size or heads bring heads that share it,
/// a key head each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    preset: String,
    layers: Option<Formula>,
    hidden: Option<Formula>,
    heads: Option<Formula>,
    vocab: Option<Formula>,
    d_ff: Option<Formula>,
    /// Whether attention and MLP follow each other, each after a norm of its own.
    #[serde(default)]
    sequential: bool,
}

/// What a model does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkSpec {
    mode: Mode,
    batch: Formula,
    seq: Formula,
    #[serde(default)]
    context: u64,
    dtype: Dtype,
    attention: AttentionKernel,
    tp: Option<Formula>,
    #[serde(default = "one")]
    pp: u64,
    #[serde(default = "one")]
    microbatches: u64,
}

const fn one() -> u64 {
    1
}

impl Subject {
    /// What its value counts.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Gemm(_) => Unit::TflopsPerS,
            Self::Layer { value, .. } => match value {
                LayerValue::Rate | LayerValue::AttentionRate => Unit::TflopsPerS,
                LayerValue::AttentionShare | LayerValue::ShareOf(_) => Unit::Share,
                LayerValue::Millis => Unit::Millis,
            },
            Self::Step { value, .. } => match value {
                StepValue::Millis => Unit::Millis,
                StepValue::TokensPerS | StepValue::TokensPerSPerGpu => Unit::TokensPerS,
            },
            Self::LayerParameters { .. } => Unit::Count,
        }
    }

    /// Refuses formulas that have no value for these sizes.
    pub fn check(&self, sizes: &Sizes) -> std::result::Result<(), String> {
        match self {
            Self::Gemm(gemm) => gemm.at(sizes).map(|_| ()),
            Self::Layer { model, work, .. } | Self::Step { model, work, .. } => {
                model.at(sizes).and(work.at(sizes)).map(|_| ())
            }
            Self::LayerParameters { model } => model.at(sizes).map(|_| ()),
        }
    }
}

impl GemmSpec {
    /// The GEMM of these sizes.
    pub fn at(&self, sizes: &Sizes) -> std::result::Result<Gemm, String> {
        Ok(Gemm {
            m: self.m.value(sizes)?,
            n: self.n.value(sizes)?,
            k: self.k.value(sizes)?,
            batch: optional(&self.batch, sizes)?.unwrap_or(1),
            layout: self.layout,
            dtype: self.dtype,
        })
    }
}

fn optional(formula: &Option<Formula>, sizes: &Sizes) -> std::result::Result<Option<u64>, String> {
    formula.as_ref().map(|formula| formula.value(sizes)).transpose()
}

impl ModelSpec {
    /// The architecture of these sizes.
    pub fn at(&self, sizes: &Sizes) -> std::result::Result<Architecture, String> {
        let mut arch = Architecture::find(&self.preset).map_err(|error| error.to_string())?;
        let of = |formula| optional(formula, sizes);
        arch.layers = of(&self.layers)?.unwrap_or(arch.layers);
        arch.vocab = of(&self.vocab)?.unwrap_or(arch.vocab);
        if let Some(hidden) = of(&self.hidden)? {
            (arch.hidden, arch.mlp.d_ff) = (hidden, 4 * hidden);
        }
        if self.hidden.is_some() || self.heads.is_some() {
            arch.heads = of(&self.heads)?.unwrap_or(arch.heads);
            arch.kv_heads = arch.heads;
            arch.head_dim = Formula::parse("hidden/heads")?.value(&Sizes::from([
                ("hidden".to_owned(), arch.hidden),
                ("heads".to_owned(), arch.heads),
            ]))?;
        }
        arch.mlp.d_ff = of(&self.d_ff)?.unwrap_or(arch.mlp.d_ff);
        if self.sequential {
            arch.parallel_layers = false;
            arch.norm.placement = NormPlacement::Pre;
        }
        Ok(arch)
    }
}

impl WorkSpec {
    /// The workload of these sizes.
    pub fn at(&self, sizes: &Sizes) -> std::result::Result<Workload, String> {
        let (batch, seq) = (self.batch.value(sizes)?, self.seq.value(sizes)?);
        Ok(Workload {
            mode: self.mode,
            context: self.context,
            dtype: self.dtype,
            attention: self.attention,
            tp: optional(&self.tp, sizes)?.unwrap_or(1),
            pp: self.pp,
            microbatches: self.microbatches,
            ..Workload::train(batch, seq)
        })
    }
}
