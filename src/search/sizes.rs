//! The lowest loss of a budget, or the shortest time to a loss, jointly over size and shape.

use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::search::anneal::Effort;
use crate::search::goal::{Entry, Goal, Objective, Outcome, Yardstick};
use crate::search::{EFFORT, search_of, usual_architecture};
use crate::search::{Found, PARAMETERS, Progress, Recommendation, Request, StopReason, Watch};
use crate::stats::{quantile, rounded};
use std::ops::ControlFlow;

/// Share of the peak that the first guess of the best size takes for granted.
const USUAL_MFU: f64 = 0.4;

/// FLOPs of training at the best size over its parameters squared: 6 a parameter and token, 20 tokens a parameter.
const FLOPS_A_PARAMETER_SQUARED: f64 = 120.0;

/// Sizes on either side of the guess, a factor of the root of two apart.
const ASIDE: i32 = 4;

/// What is spent on one of many sizes.
const QUICK: Effort = Effort {
    chains: 6,
    iterations: 400,
    enumerated: 2_400,
};

/// Shares of the draws that the range of sizes leaves out at either end.
const OUTSIDE: f64 = 1.0 / 6.0;

/// Progress of one size, in parts of the whole.
const PARTS: u64 = 1000;

/// One size with its best shape.
#[derive(Clone, Debug)]
pub struct SizePoint {
    /// Parameters asked for.
    pub parameters: u64,
    /// The best shape of this size.
    pub best: Recommendation,
    /// What it reaches, against the other sizes.
    pub outcome: Outcome,
}

/// Many sizes under one goal.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// By rising parameters.
    pub points: Vec<SizePoint>,
    /// Parameters between which the best size lies in two of three draws.
    pub range: [f64; 2],
}

/// Searches the sizes around the best one, then that one thoroughly.
pub fn search_sizes(predictor: &Predictor, request: &Request, goal: Goal, watch: &Watch<'_>) -> Result<Found> {
    let middle = first_guess(predictor, request, goal)?;
    let factors = (-ASIDE..=ASIDE).map(|step| f64::powf(2.0, f64::from(step) / 2.0));
    let sizes: Vec<u64> = factors
        .map(|factor| rounded(middle * factor, 2) as u64)
        .filter(|size| (PARAMETERS.0..=PARAMETERS.1).contains(size))
        .collect();
    let searches = sizes.len() as u64 + 1;
    let of = |parameters: u64, index: u64, effort: Effort| {
        let watch = |progress: &Progress| -> ControlFlow<()> {
            let part = PARTS * progress.done.min(progress.total) / progress.total.max(1);
            watch(&Progress {
                done: PARTS * index + part,
                total: PARTS * searches,
                ..*progress
            })
        };
        search_of(predictor, &of_size(request, parameters), effort, &watch)
    };
    let is_stopped = |searched: u64| {
        let progress = Progress {
            done: PARTS * searched,
            total: PARTS * searches,
            best: None,
        };
        watch(&progress).is_break()
    };
    let mut found = Vec::new();
    let mut refused = None;
    for (index, &size) in sizes.iter().enumerate() {
        match of(size, index as u64, QUICK) {
            Ok(one) => found.push((size, one)),
            // A size too large for the memory leaves the others.
            Err(error) => refused = Some(error),
        }
        if is_stopped(index as u64 + 1) {
            break;
        }
    }
    let Some((_, first)) = found.first() else {
        return Err(refused.unwrap_or_else(|| Error::infeasible("search: no size can be asked for")));
    };
    // One reference for all, so that outcomes compare.
    let yardstick = Yardstick::new(&first.request, goal, first.baseline.gpu_time_per_token());
    let bests = || found.iter().map(|(_, found)| &found.shapes[0]);
    let entries: Vec<Entry<'_>> = bests().map(Recommendation::entry).collect();
    let (outcomes, draws) = yardstick.outcomes(&entries, false);
    let counts: Vec<f64> = bests()
        .map(|best| request.count.of(&best.ranked.architecture) as f64)
        .collect();
    let mut optima = optima(&counts, &draws);
    optima.sort_by(f64::total_cmp);
    let [low, middle, high] = [OUTSIDE, 0.5, 1.0 - OUTSIDE].map(|share| quantile(&optima, share));
    let mut answer = match of(rounded(middle, 2) as u64, searches - 1, EFFORT) {
        // The best of the sizes that were searched before is the answer so far.
        Err(_) if is_stopped(searches - 1) => {
            let order = |a: &(_, Outcome), b: &(_, Outcome)| a.1.behind[0].total_cmp(&b.1.behind[0]);
            let best = found.into_iter().zip(outcomes).min_by(order);
            let ((_, best), _) = best.expect("one was found");
            return Ok(Found {
                stopped: StopReason::Interrupted,
                ..best
            });
        }
        answer => answer?,
    };
    answer.sizes = Some(Sizes {
        points: found
            .into_iter()
            .zip(outcomes)
            .map(|((parameters, mut found), outcome)| SizePoint {
                parameters,
                best: found.shapes.swap_remove(0),
                outcome,
            })
            .collect(),
        range: [low, high],
    });
    Ok(answer)
}

/// The request of one size: unnamed parts are as usual at that size.
fn of_size(request: &Request, parameters: u64) -> Request {
    let mut base = request.base.clone();
    if !request.named {
        base.tied_embeddings = usual_architecture(base.mlp.kind, parameters).tied_embeddings;
    }
    let sized = Request {
        parameters,
        sized: true,
        base,
        ..request.clone()
    };
    match request.named {
        true => sized,
        false => sized.against_usual(),
    }
}

/// The size that a usual share of the peak and 20 tokens a parameter are best for.
fn first_guess(predictor: &Predictor, request: &Request, goal: Goal) -> Result<f64> {
    let peak = predictor.gpu().nearest_peak(request.workload.dtype).flops_per_sec();
    let at = |seconds: f64| (seconds * peak * USUAL_MFU / FLOPS_A_PARAMETER_SQUARED).sqrt();
    if let (Objective::Loss, Some(time)) = (goal.objective, goal.gpu_time) {
        return Ok(at(time.secs()));
    }
    // The time to a loss is shortest for the size that reaches it with the fewest FLOPs.
    let yardstick = Yardstick::new(request, goal, crate::units::Seconds::from_secs(1.0));
    let steps = (0..200).map(|step| 3e7 * f64::powf(1e4, f64::from(step) / 199.0));
    let flops = |parameters: f64| parameters * yardstick.usual_tokens(parameters);
    let best = steps
        .map(|parameters| (parameters, flops(parameters)))
        .filter(|(_, flops)| flops.is_finite())
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let target = goal.target_loss.unwrap_or_default();
    best.map(|(parameters, _)| parameters).ok_or_else(|| {
        let allowed = "a loss above what 300 billion parameters reach with any number of tokens";
        Error::field("search", "target_loss", target, allowed)
    })
}

/// The best size in every draw: where a parabola through the best of the sizes and its neighbours is lowest.
fn optima(counts: &[f64], draws: &[Vec<f64>]) -> Vec<f64> {
    let draw_count = draws.first().map_or(0, Vec::len);
    (0..draw_count)
        .map(|draw| {
            let value = |index: usize| draws[index][draw];
            let best = (0..counts.len())
                .min_by(|&a, &b| value(a).total_cmp(&value(b)))
                .unwrap_or(0);
            if best == 0 || best + 1 == counts.len() {
                return counts[best];
            }
            let [x0, x1, x2] = [best - 1, best, best + 1].map(|index| counts[index].ln());
            let [y0, y1, y2] = [best - 1, best, best + 1].map(value);
            let [left, right] = [(y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)];
            let bend = (right - left) / (x2 - x0);
            if !(bend > 0.0 && bend.is_finite()) {
                return counts[best];
            }
            (0.5 * (x0 + x1) - left / (2.0 * bend)).clamp(x0, x2).exp()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_size_lies_between_those_tried() {
        let counts = [1e9, 2e9, 4e9, 8e9];
        // Lowest at 3e9 in the first draw, beyond the last in the second.
        let of = |best: f64| counts.map(|count: f64| (count / best).ln().powi(2));
        let [first, second] = [of(3e9), of(1e12)];
        let draws: Vec<Vec<f64>> = (0..4).map(|index| vec![first[index], second[index]]).collect();
        let found = optima(&counts, &draws);
        assert!((found[0] / 3e9 - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found[1], 8e9);
        assert_eq!(rounded(3_449_000_000.0, 2) as u64, 3_400_000_000);
    }
}
