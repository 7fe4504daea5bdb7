//! Adds predicted operators up to a training step, a prefill or a decode step of a whole transformer.

use crate::arch::{Architecture, Item, MemoryUse, Phase, Role, Step, Workload, lower, memory_use};
use crate::error::Result;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::predict::estimate::{Caveats, Estimate, Tier};
use crate::units::Flops;
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
    /// Arithmetic of the step on this replica, as [`StepEstimate::mfu`] counts it.
    pub model_flops: Flops,
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
    /// Time that all GPUs of a replica together spend on one token.
    pub fn gpu_time_per_token(&self) -> Seconds {
        self.time * (self.gpus_per_replica as f64 / self.tokens as f64)
    }

    /// Tokens per second of one GPU.
    pub fn tokens_per_s_per_gpu(&self) -> f64 {
        self.tokens_per_s / self.gpus_per_replica as f64
    }

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
    predictor: &Predictor,
    architecture: &Architecture,
    workload: &Workload,
) -> Result<StepEstimate> {
    let step = lowered(architecture, workload)?;
    let memory = memory_use(architecture, workload)?;
    let ops: Vec<Op> = step.items.iter().map(|item| item.op).collect();
    let estimates = predictor.predict(&ops);
    let sum = Sum::of(&step, &estimates);
    let lines = step.items.iter().zip(estimates).map(|(item, each)| Line {
        item: *item,
        each,
        time: each.time * repetitions(&step, item),
    });
    let time = sum.time;
    let half_width = sum.half_width();
    let rate = |time: Seconds| step.tokens as f64 / time.secs();
    let (low, high) = (time * (-half_width).exp(), time * half_width.exp());
    let peak = predictor.gpu().nearest_peak(workload.dtype) * step.gpus_per_replica as f64;
    Ok(StepEstimate {
        tokens: step.tokens,
        tokens_per_s: rate(time),
        tokens_per_s_low: rate(high),
        tokens_per_s_high: rate(low),
        model_flops: step.model_flops,
        mfu: step.model_flops / time / peak,
        gpus_per_replica: step.gpus_per_replica,
        fits: memory.fits(predictor.gpu()),
        memory,
        tier_shares: sum.tiers.map(|part| part / time),
        caveats: sum.caveats,
        lines: lines.collect(),
        time,
        low,
        high,
    })
}

/// The operators of a step that have kernels of their own.
pub(super) fn lowered(architecture: &Architecture, workload: &Workload) -> Result<Step> {
    let mut step = lower(architecture, workload)?;
    let fused = |item: &Item| matches!(item.role, Role::Quantize | Role::GradientAccumulation);
    step.items.retain(|item| !fused(item));
    Ok(step)
}

/// How often an operator's time counts in the wall time of a step.
fn repetitions(step: &Step, item: &Item) -> f64 {
    let stretch = match item.phase {
        Phase::Update => 1.0,
        _ => 1.0 + step.bubble() / step.microbatches as f64,
    };
    item.repetitions() * stretch
}

/// Adds times whose errors are partly shared: the shared parts add up, the rest averages out.
///
/// Repetitions of one operator share their error wholly, so a line counts as one draw.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) time: Seconds,
    shared: f64,
    own_squared: f64,
    tiers: [Seconds; 4],
    caveats: Caveats,
}

impl Sum {
    /// The whole of a step, given the estimate of each of its items.
    pub(super) fn of<'a>(step: &Step, estimates: impl IntoIterator<Item = &'a Estimate>) -> Self {
        let mut sum = Self::default();
        for (item, each) in step.items.iter().zip(estimates) {
            sum.add(each.time * repetitions(step, item), each);
        }
        sum
    }

    fn add(&mut self, time: Seconds, each: &Estimate) {
        self.time += time;
        self.tiers[each.tier as usize] += time;
        self.caveats = self.caveats.union(each.caveats);
        // What is shared cannot exceed the whole.
        let shared = each.shared.min(each.half_width);
        self.shared += time.secs() * shared;
        self.own_squared += (time.secs()).powi(2) * (each.half_width.powi(2) - shared.powi(2));
    }

    /// Half width of the 90 % interval of the logarithm of the sum.
    fn half_width(&self) -> f64 {
        if self.time == Seconds::ZERO {
            return 0.0;
        }
        (self.shared.powi(2) + self.own_squared).sqrt() / self.time.secs()
    }

    /// The part of [`Sum::half_width`] that another step on the same GPU and stack does not share.
    pub(super) fn own_half_width(&self) -> f64 {
        if self.time == Seconds::ZERO {
            return 0.0;
        }
        self.own_squared.sqrt() / self.time.secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(half_width: f64, shared: f64) -> Estimate {
        let time = Seconds::from_secs(1.0);
        Estimate {
            time,
            half_width,
            shared,
            tier: Tier::Learned,
            caveats: Caveats::default(),
        }
    }

    #[test]
    fn independent_errors_average_out_and_shared_ones_do_not() {
        let sum_of = |shared: f64| {
            let mut sum = Sum::default();
            for _ in 0..100 {
                sum.add(Seconds::from_secs(1.0), &estimate(0.1, shared));
            }
            sum.half_width()
        };
        assert!((sum_of(0.0) - 0.01).abs() < 1e-9);
        assert!((sum_of(0.1) - 0.1).abs() < 1e-9);
        assert!(sum_of(0.05) > 0.05 && sum_of(0.05) < 0.052);
        assert_eq!(Sum::default().half_width(), 0.0);
    }
}
