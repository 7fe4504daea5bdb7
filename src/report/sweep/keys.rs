//! The parts of a sweep's document.

use crate::ops::Op;
use crate::predict::estimate::{Caveat, Tier, TierShares};
use crate::report::sweep::Measured;
use crate::sweep::{Point, Subject};
use crate::units::{Bytes, Seconds};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RangeKeys {
    pub start: u64,
    pub end: u64,
    /// `None` if the distance of two values varies.
    pub step: Option<u64>,
    /// As it is written.
    pub text: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SweepPoint)]
pub(super) struct PointKeys {
    pub value: u64,
    pub alignment: Option<u64>,
    pub time_us: Seconds,
    pub low_us: Seconds,
    pub high_us: Seconds,
    pub tflops_per_s: f64,
    /// Of a model; an operator has none of these.
    #[serde(flatten)]
    #[schema(value_type = ModelKeys)]
    pub model: Option<ModelKeys>,
    pub tier: Tier,
    pub caveats: Vec<Caveat>,
}

/// What only the points of a model have.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ModelKeys {
    #[schema(required = false)]
    pub tokens_per_s: f64,
    #[schema(required = false)]
    pub tokens_per_s_low: f64,
    #[schema(required = false)]
    pub tokens_per_s_high: f64,
    #[schema(required = false)]
    pub mfu: f64,
    /// Share of the bandwidth of the memory that the least traffic of the kernels takes.
    #[schema(required = false)]
    pub bandwidth_fraction: f64,
    #[schema(required = false)]
    pub parameters: u64,
    #[schema(required = false)]
    pub head_dim: u64,
    #[schema(required = false)]
    pub memory_bytes: Bytes,
    #[schema(required = false)]
    pub fits: bool,
    /// What the server takes at least for a step, where that decides its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_least_us: Option<Seconds>,
    #[schema(required = false)]
    pub tier_shares: TierShares,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct MeasuredKeys {
    pub value: u64,
    pub time_us: Seconds,
    pub tflops_per_s: f64,
    pub stack: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SkippedKeys {
    pub reason: String,
    pub points: usize,
    pub values: Vec<u64>,
}

impl PointKeys {
    pub fn new(point: &Point, by_width: bool) -> Self {
        let model = match point.subject {
            Subject::Operator(_) => None,
            Subject::Model(model) => {
                let [rate, low, high] = model.tokens_per_s;
                Some(ModelKeys {
                    tokens_per_s: rate,
                    tokens_per_s_low: low,
                    tokens_per_s_high: high,
                    mfu: model.mfu,
                    bandwidth_fraction: model.bandwidth_fraction,
                    parameters: model.parameters,
                    head_dim: model.head_dim,
                    memory_bytes: model.memory,
                    fits: model.fits,
                    server_least_us: model.bound_by_server,
                    tier_shares: model.tier_shares,
                })
            }
        };
        let width = match point.subject {
            Subject::Operator(Op::Attention(op)) => op.head_dim,
            Subject::Model(model) => model.head_dim,
            Subject::Operator(_) => point.value,
        };
        let aligned = if by_width { width } else { point.value };
        Self {
            value: point.value,
            alignment: (aligned > 0).then(|| 1 << aligned.trailing_zeros()),
            time_us: point.time,
            low_us: point.low,
            high_us: point.high,
            tflops_per_s: point.rate().flops_per_sec() / 1e12,
            model,
            tier: point.tier,
            caveats: point.caveats.iter().collect(),
        }
    }

    /// The rate that readers look at with the ends of its interval: tokens/s of a model, TFLOP/s of an operator.
    pub fn rates(&self) -> [f64; 3] {
        match &self.model {
            Some(model) => [model.tokens_per_s_low, model.tokens_per_s, model.tokens_per_s_high],
            None => {
                let rate = self.tflops_per_s;
                let by = |time: Seconds| rate * (self.time_us / time);
                [by(self.high_us), rate, by(self.low_us)]
            }
        }
    }
}

impl From<&Measured> for MeasuredKeys {
    fn from(measured: &Measured) -> Self {
        let rate = measured.op.flops() / measured.time;
        Self {
            value: measured.value,
            time_us: measured.time,
            tflops_per_s: rate.flops_per_sec() / 1e12,
            stack: measured.stack.clone(),
        }
    }
}
