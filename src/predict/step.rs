//! Adds predicted operators up to a training step, a prefill or a decode step of a whole transformer.

use crate::arch::Architecture;
use crate::arch::Item;
use crate::arch::MemoryUse;
use crate::arch::Workload;
use crate::error::Result;
use crate::predict::Predictor;
use crate::predict::estimate::Caveats;
use crate::predict::estimate::Estimate;
use crate::predict::estimate::Tier;
use crate::units::Seconds;

/// One line of a step: an operator, how often it runs, what one call takes.
#[derive(Clone, Debug)]
pub struct Line {
    /// Role, phase, operator and count.
    pub item: Item,
    /// One call.
    pub each: Estimate,
    /// All calls of the step.
    pub time: Seconds,
}

/// A predicted step of one model on one GPU (or one rank of its parallel group).
#[derive(Clone, Debug)]
pub struct StepEstimate {
    /// Every operator of the step.
    pub lines: Vec<Line>,
    /// Wall time of the step, pipeline bubble included.
    pub time: Seconds,
    /// Ends of the 90 % interval of [`StepEstimate::time`].
    pub low: Seconds,
    #[allow(missing_docs)]
    pub high: Seconds,
    /// Tokens a step processes on this replica.
    pub tokens: u64,
    /// Tokens per second of one replica, with the ends of its 90 % interval.
    pub tokens_per_s: f64,
    #[allow(missing_docs)]
    pub tokens_per_s_low: f64,
    #[allow(missing_docs)]
    pub tokens_per_s_high: f64,
    /// Model FLOPs utilisation per GPU, against the dense peak of the workload's format (full-square attention,
    /// no recompute: the PaLM convention).
    pub mfu: f64,
    /// GPUs of one replica (tensor times pipeline parallel).
    pub gpus_per_replica: u64,
    /// Memory of one GPU by part.
    pub memory: MemoryUse,
    /// Whether that fits.
    pub fits: bool,
    /// Share of the time by tier, in the order of [`Tier::ALL`].
    pub tier_shares: [f64; 4],
    /// Everything any line warns of.
    pub caveats: Caveats,
}

impl StepEstimate {
    /// The worst tier with any share of the time.
    pub fn worst_tier(&self) -> Tier {
        Tier::ALL
            .into_iter()
            .rev()
            .find(|&tier| self.tier_shares[tier as usize] > 0.0)
            .unwrap_or(Tier::Measured)
    }
}

/// Predicts one step of `architecture` under `workload`.
pub fn estimate_step(
    _predictor: &Predictor,
    _architecture: &Architecture,
    _workload: &Workload,
) -> Result<StepEstimate> {
    unimplemented!()
}
