//! One predicted number with everything a reader needs to distrust it: interval, tier, caveats.

pub use crate::families::{Caveat, Caveats};

use crate::gpu::Gpu;
use crate::ops::Op;
use crate::stats::quadrature;
use crate::units::Seconds;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

named_enum! {
    /// Where a number comes from, best first.
    Tier {
        /// This exact shape was timed on this GPU and software stack.
        Measured = "measured",
        /// A net trained on this GPU and software stack, or a law fitted to a memory-bound kernel on this GPU.
        Learned = "learned",
        /// A net or a law of another GPU, format, layout or direction, carried over by a stated assumption.
        Transferred = "transferred",
        /// Launch term plus traffic over reachable bandwidth; nothing was learned.
        Roofline = "roofline",
    }
}

/// What an ideal kernel would wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Device memory.
    Memory,
    /// The launch of a kernel.
    Launch,
}

impl Bound {
    /// The longest of arithmetic at peak, traffic at full bandwidth, and the launch floor.
    pub fn of(op: &Op, gpu: &Gpu) -> Self {
        let peak = op.dtype().map(|dtype| gpu.nearest_peak(dtype));
        let compute = peak.map_or(Seconds::ZERO, |peak| op.flops() / peak);
        let memory = op.bytes() / gpu.bandwidth();
        if gpu.launch_floor() >= compute.max(memory) {
            Self::Launch
        } else if compute >= memory {
            Self::Compute
        } else {
            Self::Memory
        }
    }

    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory bandwidth",
            Self::Launch => "kernel launch",
        }
    }
}

/// Share of the time, or of rows, by tier, in the order of [`Tier::ALL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TierShares(pub [f64; Tier::ALL.len()]);

impl TierShares {
    /// Every tier with its share.
    pub fn each(self) -> impl Iterator<Item = (Tier, f64)> {
        Tier::ALL.into_iter().zip(self.0)
    }

    /// The tier of the largest share; of equal ones the worse.
    pub fn most(self) -> Tier {
        let most = self.each().max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or(Tier::Roofline, |(tier, _)| tier)
    }
}

impl Serialize for TierShares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.each())
    }
}

impl PartialSchema for TierShares {
    fn schema() -> RefOr<Schema> {
        BTreeMap::<Tier, f64>::schema()
    }
}

impl ToSchema for TierShares {}

/// The predicted time of one operator.
///
/// The 90 % interval is `[time * exp(-half_width), time * exp(half_width)]`, its lower end no less than physics allows.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Expected time of one call.
    pub time: Seconds,
    /// Half width of the 90 % interval of `ln(time)`, dimensionless.
    pub half_width: f64,
    /// Part of [`Estimate::half_width`] that all operators of a model share: stack, assumptions.
    pub shared: f64,
    /// What no kernel is faster than on this GPU.
    pub least: Seconds,
    /// Where the number comes from.
    pub tier: Tier,
    /// Why it is less certain than usual.
    pub caveats: Caveats,
}

impl Estimate {
    /// Lower end of the 90 % interval.
    pub fn low(&self) -> Seconds {
        (self.time * (-self.half_width).exp()).max(self.least)
    }

    /// Upper end of the 90 % interval.
    pub fn high(&self) -> Seconds {
        self.time * self.half_width.exp()
    }

    /// The square of the half width without what is shared.
    pub fn own_variance(&self) -> f64 {
        // What is shared cannot exceed the whole.
        self.half_width.powi(2) - self.shared.min(self.half_width).powi(2)
    }

    /// The same with an interval that is wider by something all operators of a model share.
    pub fn widened(self, half_width: f64) -> Self {
        Self {
            half_width: quadrature(self.half_width, half_width),
            shared: quadrature(self.shared, half_width),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Gemm;

    #[test]
    fn tiers_are_ordered_from_best_to_worst() {
        assert!(Tier::ALL.is_sorted());
        assert_eq!(Tier::ALL.into_iter().max(), Some(Tier::Roofline));
    }

    #[test]
    fn a_gemm_is_bound_by_what_takes_longest() {
        let gpu = Gpu::find("h200").unwrap();
        let bound = |m, n, k| Bound::of(&Op::Gemm(Gemm::new(m, n, k)), gpu);
        assert_eq!(bound(8192, 8192, 8192), Bound::Compute);
        assert_eq!(bound(1, 8192, 8192), Bound::Memory);
        assert_eq!(bound(16, 64, 64), Bound::Launch);
    }
}
