//! One predicted number with everything a reader needs to distrust it: interval, tier, caveats.

use crate::units::Seconds;
use serde::Serialize;
use std::fmt;
use utoipa::ToSchema;

/// Where a number comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// This exact shape was timed on this GPU and software stack.
    Measured,
    /// A net trained on this GPU and software stack.
    Learned,
    /// A net trained on another GPU, format, layout or direction, carried over by a stated assumption.
    Transferred,
    /// Launch term plus traffic over reachable bandwidth; nothing was learned.
    Roofline,
}

impl Tier {
    /// Every tier, best first.
    pub const ALL: [Self; 4] = [
        Self::Measured,
        Self::Learned,
        Self::Transferred,
        Self::Roofline,
    ];

    /// The name used in tables and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Learned => "learned",
            Self::Transferred => "transferred",
            Self::Roofline => "roofline",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A reason why an estimate is less certain than the error table of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    /// A dimension lies outside the range of the training shapes.
    OutOfDomain,
    /// Learned on another GPU.
    OtherGpu,
    /// Learned in another number format.
    OtherDtype,
    /// Learned in another operand layout.
    OtherLayout,
    /// A dimension is aligned worse than any training shape; the penalty is carried over from the
    /// GPU where odd sizes were measured.
    Alignment,
    /// Odd sizes were measured on no GPU of this maker; no penalty is applied.
    AlignmentUnknown,
    /// Batched product, learned from single products and the batched ones of another GPU.
    Batched,
    /// A head size nobody measured on this stack.
    HeadSize,
    /// A mask, a window or a prefill on a cached prefix that nobody measured on this stack.
    Mask,
    /// Backward attention from the forward time, with five products for two at 0.8 of the forward rate.
    BackwardFromForward,
    /// No learned model; a roofline at reachable bandwidth.
    NotLearned,
}

impl Caveat {
    /// Every caveat.
    pub const ALL: [Self; 11] = [
        Self::OutOfDomain,
        Self::OtherGpu,
        Self::OtherDtype,
        Self::OtherLayout,
        Self::Alignment,
        Self::AlignmentUnknown,
        Self::Batched,
        Self::HeadSize,
        Self::Mask,
        Self::BackwardFromForward,
        Self::NotLearned,
    ];

    /// What to tell a person.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfDomain => "a dimension lies outside the training shapes",
            Self::OtherGpu => "learned on another GPU",
            Self::OtherDtype => "learned in another number format",
            Self::OtherLayout => "learned in another operand layout",
            Self::Alignment => {
                "misalignment penalty carried over from the GPU where odd sizes were measured"
            }
            Self::AlignmentUnknown => {
                "misaligned, and odd sizes were measured on no GPU of this maker"
            }
            Self::Batched => "batched product, carried over from another GPU's batched products",
            Self::HeadSize => "head size not measured on this stack",
            Self::Mask => "mask, window or cached prefix not measured on this stack",
            Self::BackwardFromForward => {
                "backward attention assumed at 0.8 of the forward FLOP rate"
            }
            Self::NotLearned => "roofline at reachable bandwidth, not learned",
        }
    }
}

/// A set of caveats, small enough to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caveats(u16);

impl Caveats {
    /// Adds one.
    pub fn insert(&mut self, caveat: Caveat) {
        self.0 |= 1 << caveat as u16;
    }

    /// Whether it is in the set.
    pub fn contains(self, caveat: Caveat) -> bool {
        self.0 & (1 << caveat as u16) != 0
    }

    /// Both sets.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Caveat> {
        Caveat::ALL
            .into_iter()
            .filter(move |&caveat| self.contains(caveat))
    }
}

/// The predicted time of one operator.
///
/// The 90 % interval is `[time / (1 + x), time * (1 + x)]` in logarithms: `ln(time) ± half_width`.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Expected time of one call.
    pub time: Seconds,
    /// Half width of the 90 % interval of `ln(time)`, dimensionless.
    pub half_width: f64,
    /// Part of [`Estimate::half_width`] that all operators of a model share: stack, assumptions.
    pub shared: f64,
    /// Where the number comes from.
    pub tier: Tier,
    /// Why it is less certain than usual.
    pub caveats: Caveats,
}

impl Estimate {
    /// Lower end of the 90 % interval.
    pub fn low(&self) -> Seconds {
        self.time * (-self.half_width).exp()
    }

    /// Upper end of the 90 % interval.
    pub fn high(&self) -> Seconds {
        self.time * self.half_width.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveats_are_a_set_with_one_bit_each() {
        let mut all = Caveats::default();
        assert_eq!(all.iter().count(), 0);
        for caveat in Caveat::ALL {
            assert!(!all.contains(caveat));
            all.insert(caveat);
        }
        assert_eq!(all.iter().collect::<Vec<_>>(), Caveat::ALL);
        assert_eq!(all.union(Caveats::default()), all);
    }

    #[test]
    fn tiers_are_ordered_from_best_to_worst() {
        assert!(Tier::ALL.is_sorted());
        assert_eq!(Tier::ALL.into_iter().max(), Some(Tier::Roofline));
    }
}
