//! One layer of a GPT as the authors timed it.

use shapewise::arch::{Architecture, Item, Role, Workload, lower};
use shapewise::error::Result;
use shapewise::ops::Op;
use shapewise::predict::Predictor;
use shapewise::units::Seconds;

/// A predicted layer by operator.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// Role and time of each operator.
    operators: Vec<(Role, Seconds)>,
    hidden: f64,
    seq: f64,
    tokens: f64,
}

impl Layer {
    /// One layer of a model in the forward pass, without the write to a cache that the authors'
    /// code does not have.
    ///
    /// Scores are not dropped out: the logged parts of a layer leave no room for that kernel.
    pub fn predict(predictor: &Predictor, model: &Architecture, work: &Workload) -> Result<Self> {
        let inside = |item: &Item| {
            !matches!(
                item.role,
                Role::Embedding | Role::PositionEmbedding | Role::CacheWrite | Role::FinalNorm | Role::Logits
            )
        };
        let one = Architecture {
            layers: 1,
            ..model.clone()
        };
        let items: Vec<_> = lower(&one, work)?.items.into_iter().filter(inside).collect();
        let ops: Vec<Op> = items.iter().map(|item| item.op).collect();
        let timed = items.iter().zip(predictor.predict(&ops));
        Ok(Self {
            operators: timed
                .map(|(item, estimate)| (item.role, estimate.time * item.count as f64))
                .collect(),
            hidden: model.hidden as f64,
            seq: work.seq as f64,
            tokens: (work.batch * work.seq) as f64,
        })
    }

    /// The time of all operators.
    pub fn time(&self) -> Seconds {
        self.of(|_| true)
    }

    /// The time of the operators whose role is picked.
    fn of(&self, picked: impl Fn(Role) -> bool) -> Seconds {
        let mut sum = Seconds::ZERO;
        for (_, time) in self.operators.iter().filter(|(role, _)| picked(*role)) {
            sum += *time;
        }
        sum
    }

    /// The share of the layer's time that these roles take.
    pub fn share(&self, picked: impl Fn(Role) -> bool) -> f64 {
        self.of(picked) / self.time()
    }

    /// TFLOP/s with the full square of scores counted, as the authors count.
    pub fn rate(&self) -> f64 {
        let (h, s) = (self.hidden, self.seq);
        let flops = 24.0 * self.tokens * h * h * (1.0 + s / (6.0 * h));
        flops / self.time().secs() / 1e12
    }

    /// TFLOP/s of projections and attention core without norms, as the authors count an attention
    /// block.
    pub fn attention_rate(&self) -> f64 {
        let (h, s) = (self.hidden, self.seq);
        let flops = self.tokens * (8.0 * h * h + 4.0 * s * h);
        let core = [Role::Qkv, Role::Attention, Role::AttentionProjection];
        flops / self.of(|role| core.contains(&role)).secs() / 1e12
    }
}
