//! One layer of a GPT as the authors timed it, and the single layers that their logs hold.

use crate::arch::Architecture;
use crate::arch::AttentionKernel;
use crate::arch::Item;
use crate::arch::Role;
use crate::arch::Workload;
use crate::arch::lower;
use crate::error::Result;
use crate::ops::Dtype;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::units::Seconds;

/// Sequences of every layer in the logs.
pub const BATCH: u64 = 4;

/// Tokens of each.
pub const SEQ: u64 = 2048;

/// Hidden size, heads, measured TFLOP/s of one unfused layer with the full square of scores counted; A100 with 40 GB
/// (TransformerSizing, results/full_transformer_models.out and me_vs_pythia.out, Oct and Nov 2023).
pub const LAYERS: [(u64, u64, f64); 11] = [
    (2560, 20, 140.7),
    (2560, 32, 119.4),
    (2560, 40, 108.5),
    (2560, 64, 83.4),
    (2560, 80, 75.0),
    (3072, 24, 151.2),
    (3072, 32, 140.0),
    (2304, 36, 104.4),
    (2048, 8, 155.3),
    (2048, 16, 129.7),
    (4096, 32, 169.0),
];

/// Measured TFLOP/s of a layer in [`LAYERS`].
pub fn measured(hidden: u64, heads: u64) -> Option<f64> {
    let found = LAYERS
        .iter()
        .find(|layer| (layer.0, layer.1) == (hidden, heads));
    found.map(|layer| layer.2)
}

/// GPT-3 2.7B with this width, these heads and one layer.
pub fn gpt(hidden: u64, heads: u64) -> Result<Architecture> {
    let mut arch = Architecture::find("gpt3-2.7b")?;
    arch.layers = 1;
    arch.hidden = hidden;
    (arch.heads, arch.kv_heads, arch.head_dim) = (heads, heads, hidden / heads);
    arch.mlp.d_ff = 4 * hidden;
    Ok(arch)
}

/// A predicted layer by part.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// Role and time of each operator.
    pub parts: Vec<(Role, Seconds)>,
    hidden: u64,
}

impl Layer {
    /// One layer forward, without gradients and without the write to a cache that the authors' code does not have.
    ///
    /// Scores are not dropped out: the logged parts of a layer leave no room for that kernel.
    pub fn predict(
        predictor: &Predictor,
        hidden: u64,
        heads: u64,
        attention: AttentionKernel,
    ) -> Result<Self> {
        let work = Workload {
            dtype: Dtype::Fp16,
            attention,
            ..Workload::prefill(BATCH, SEQ)
        };
        let inside = |item: &Item| {
            !matches!(
                item.role,
                Role::Embedding
                    | Role::PositionEmbedding
                    | Role::CacheWrite
                    | Role::FinalNorm
                    | Role::Logits
            )
        };
        let step = lower(&gpt(hidden, heads)?, &work)?;
        let items: Vec<_> = step.items.into_iter().filter(inside).collect();
        let ops: Vec<Op> = items.iter().map(|item| item.op).collect();
        let times = predictor.predict(&ops).into_iter();
        let parts = items
            .iter()
            .zip(times)
            .map(|(item, estimate)| (item.role, estimate.time * item.count as f64));
        Ok(Self {
            parts: parts.collect(),
            hidden,
        })
    }

    /// Everything.
    pub fn time(&self) -> Seconds {
        self.of(|_| true)
    }

    /// The parts that a test of their role picks.
    pub fn of(&self, picked: impl Fn(Role) -> bool) -> Seconds {
        let mut sum = Seconds::ZERO;
        for (_, time) in self.parts.iter().filter(|(role, _)| picked(*role)) {
            sum += *time;
        }
        sum
    }

    /// The part of the layer's time that these roles take.
    pub fn share(&self, picked: impl Fn(Role) -> bool) -> f64 {
        self.of(picked) / self.time()
    }

    /// TFLOP/s with the full square of scores counted, as the authors count.
    pub fn rate(&self) -> f64 {
        let (h, s) = (self.hidden as f64, SEQ as f64);
        let flops = 24.0 * (BATCH * SEQ) as f64 * h * h * (1.0 + s / (6.0 * h));
        flops / self.time().secs() / 1e12
    }

    /// TFLOP/s of projections and attention core without norms, as the authors count an attention block.
    pub fn attention_rate(&self) -> f64 {
        let (h, s) = (self.hidden as f64, SEQ as f64);
        let flops = (BATCH * SEQ) as f64 * (8.0 * h * h + 4.0 * s * h);
        let core = [Role::Qkv, Role::Attention, Role::AttentionProjection];
        flops / self.of(|role| core.contains(&role)).secs() / 1e12
    }
}

/// Whether a role belongs to the MLP block.
pub fn is_mlp(role: Role) -> bool {
    role.name().starts_with("mlp")
}
