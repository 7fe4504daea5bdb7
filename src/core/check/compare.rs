//! By how much one step is faster than another, and how sure that is.
//!
//! Two predictions of one predictor err together. What all operators share (stack, assumptions) cancels as far as
//! the steps consist of the same roles; an operator that is in both steps errs alike. The constants of the framework move
//! both, each by its own share. The rest is independent.

use crate::arch::{Phase, Role};
use crate::framework::Framework;
use crate::predict::step::{Line, Sensitivity, StepEstimate};
use crate::stats::quadrature;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What another shape gains, as fractions of the GPU time that a token takes as it is: 0.05 = 5 % less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Gain {
    /// Predicted.
    #[serde(rename = "time_saved_fraction")]
    pub expected: f64,
    /// Lower end of the 90 % interval.
    #[serde(rename = "low_fraction")]
    pub low: f64,
    /// Upper end of the 90 % interval.
    #[serde(rename = "high_fraction")]
    pub high: f64,
    /// What it comes to.
    pub outlook: Outlook,
}

named_enum! {
    /// What a gain comes to.
    Outlook {
        /// The whole interval says faster.
        Faster = "faster",
        /// The interval holds zero.
        Unclear = "unclear",
        /// The whole interval says slower.
        Slower = "slower",
    }
}

impl Gain {
    /// What `after` gains over `before`, in GPU time per token; both run under `framework`.
    pub fn between(framework: &Framework, before: &StepEstimate, after: &StepEstimate) -> Self {
        let ratio = after.gpu_time_per_token() / before.gpu_time_per_token();
        let [one, other] = [before, after].map(|step| Sensitivity::of(&step.ledger, framework));
        let half_width = quadrature(uncertainty(before, after), one.half_width_to(&other));
        let [low, high] = [half_width, -half_width].map(|end| 1.0 - ratio * end.exp());
        Self {
            expected: 1.0 - ratio,
            low,
            high,
            outlook: if low > 0.0 {
                Outlook::Faster
            } else if high < 0.0 {
                Outlook::Slower
            } else {
                Outlook::Unclear
            },
        }
    }
}

/// Half width of the 90 % interval of the logarithm of the ratio of both times under a framework that is known.
fn uncertainty(before: &StepEstimate, after: &StepEstimate) -> f64 {
    let mut shared: BTreeMap<(Role, Phase), f64> = BTreeMap::new();
    let mut own = Vec::new();
    for (step, sign) in [(before, 1.0), (after, -1.0)] {
        for line in &step.lines {
            let share = sign * (line.time / step.time);
            let common = line.each.shared.min(line.each.half_width);
            *shared.entry((line.item.role, line.item.phase)).or_default() += share * common;
            let rest = (line.each.half_width.powi(2) - common.powi(2)).sqrt();
            own.push((line, share * rest));
        }
    }
    let (ours, theirs) = own.split_at_mut(before.lines.len());
    for (line, error) in ours.iter_mut() {
        if let Some((_, other)) = theirs.iter_mut().find(|(other, _)| same(line, other)) {
            *error += std::mem::take(other);
        }
    }
    let shared: f64 = shared.values().map(|part| part.abs()).sum();
    let own: f64 = own.iter().map(|(_, error)| error.powi(2)).sum();
    (shared.powi(2) + own).sqrt()
}

fn same(a: &Line, b: &Line) -> bool {
    (a.item.role, a.item.phase, a.item.op) == (b.item.role, b.item.phase, b.item.op)
}
