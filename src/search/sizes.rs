//! The lowest loss of a budget, or the shortest time to a loss, jointly over size and shape.

use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::search::anneal::Effort;
use crate::search::goal::{Entry, Goal, Objective, Outcome, TIED_TIME, Yardstick};
use crate::search::{EFFORT, search_of, usual_architecture};
use crate::search::{Found, Life, PARAMETERS, Progress, Recommendation, Request, StopReason, Watch};
use crate::stats::{quantile, rounded};
use crate::units::Seconds;
use std::ops::ControlFlow;

/// Shares of the peak that the first guess of the best size takes for granted, in training and prompts and in decoding.
const USUAL_MFU: f64 = 0.4;
const USUAL_DECODE_MFU: f64 = 0.1;

/// FLOPs of training at the best size over its parameters squared: 6 a parameter and token, 20 tokens a parameter.
const FLOPS_A_PARAMETER_SQUARED: f64 = 120.0;

/// Sizes on either side of the guess, a factor of the root of two apart; and above it where a model is served, for which the
/// compute-optimal size is shown too.
const ASIDE: i32 = 4;
const ABOVE_SERVED: i32 = 6;

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
    /// The size that reaches the loss of the answer with the least training by Chinchilla's law, where models are served after it.
    pub compute_optimal: Option<ComputeOptimal>,
}

/// What a size takes that is best for the training alone.
#[derive(Clone, Copy, Debug)]
pub struct ComputeOptimal {
    /// Its place in [`Sizes::points`].
    pub point: usize,
    /// Tokens until it has the loss of the answer.
    pub tokens: f64,
    /// GPU time of its training.
    pub gpu_time: Seconds,
    /// Tokens served from which on the answer costs less over the life; `None` if the answer is not the one that costs more
    /// to train and less to serve.
    pub even_at_tokens: Option<f64>,
}

/// Searches the sizes around the best one, then that one thoroughly.
pub fn search_sizes(predictor: &Predictor, request: &Request, goal: Goal, watch: &Watch<'_>) -> Result<Found> {
    let middle = first_guess(predictor, request, goal)?;
    let above = if request.service.is_some() { ABOVE_SERVED } else { ASIDE };
    let factors = (-ASIDE..=above).map(|step| f64::powf(2.0, f64::from(step) / 2.0));
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
    let Some((_, smallest)) = found.first() else {
        return Err(refused.unwrap_or_else(|| Error::infeasible("search: no size can be asked for")));
    };
    // One reference for all, so that outcomes compare.
    let yardstick = Yardstick::new(&smallest.request, goal, smallest.baseline.gpu_time_per_token());
    let bests = || found.iter().map(|(_, found)| &found.shapes[0]);
    let entries: Vec<Entry<'_>> = bests().map(Recommendation::entry).collect();
    let (outcomes, draws) = yardstick.outcomes(&entries, false);
    let counts: Vec<f64> = bests()
        .map(|best| request.count.of(&best.ranked.architecture) as f64)
        .collect();
    let mut optima = optima(&counts, &draws);
    optima.sort_by(f64::total_cmp);
    let [low, middle, high] = [OUTSIDE, 0.5, 1.0 - OUTSIDE].map(|share| quantile(&optima, share));
    // What serving takes jumps from size to size, so one that was tried is searched thoroughly.
    let behind = |place: &usize| outcomes[*place].behind[0];
    let least = (0..found.len()).min_by(|a, b| behind(a).total_cmp(&behind(b)));
    let best_size = least.expect("one was found");
    let thorough = match request.service {
        Some(_) => found[best_size].0,
        None => rounded(middle, 2) as u64,
    };
    let mut answer = match of(thorough, searches - 1, EFFORT) {
        // The best of the sizes that were searched before is the answer so far.
        Err(_) if is_stopped(searches - 1) => {
            let (_, best) = found.swap_remove(best_size);
            return Ok(Found {
                stopped: StopReason::Interrupted,
                ..best
            });
        }
        answer => answer?,
    };
    affordable(&answer)?;
    let best = &answer.shapes[0];
    let compute_optimal = request.service.as_ref().and_then(|service| {
        let tokens = best.outcome.as_ref()?.tokens;
        let as_good = |arch| yardstick.tokens_as_good(arch, &best.ranked.architecture, tokens);
        let trained = bests().map(|one| {
            let tokens = as_good(&one.ranked.architecture);
            (tokens, one.step.gpu_time_per_token() * tokens)
        });
        let trained: Vec<_> = trained.collect();
        let least = trained
            .iter()
            .map(|(_, time)| time.secs())
            .fold(f64::INFINITY, f64::min);
        // Of sizes that tie the smallest, which costs least to serve.
        let point = trained
            .iter()
            .position(|(_, time)| time.secs() <= least * TIED_TIME.exp())?;
        let (tokens, gpu_time) = trained[point];
        let saved = best.step.gpu_time_per_token() * best.outcome.as_ref()?.tokens - gpu_time;
        let more = found[point].1.shapes[0].served.as_ref()?.cost - best.served.as_ref()?.cost;
        Some(ComputeOptimal {
            point,
            tokens,
            gpu_time,
            even_at_tokens: (saved > Seconds::ZERO && more > Seconds::ZERO)
                .then(|| service.life.tokens * (saved / more)),
        })
    });
    // That which was searched last may be none of the optima.
    let own = request.count.of(&best.ranked.architecture) as f64;
    answer.sizes = Some(Sizes {
        compute_optimal,
        points: found
            .into_iter()
            .zip(outcomes)
            .map(|((parameters, mut found), outcome)| SizePoint {
                parameters,
                best: found.shapes.swap_remove(0),
                outcome,
            })
            .collect(),
        range: [low.min(own), high.max(own)],
    });
    Ok(answer)
}

/// Refuses an answer of which serving alone costs more than the budget.
pub fn affordable(found: &Found) -> Result<()> {
    let best = &found.shapes[0];
    match (&best.outcome, &best.served) {
        (Some(outcome), Some(served)) if outcome.is_unaffordable() => Err(Error::infeasible(format!(
            "search: serving alone costs as much as {:.0} GPU-hours of training with {} parameters, more than the budget; fewer \
             tokens served or more GPU time would leave some for the training",
            served.cost.secs() / 3600.0,
            found.request.parameters
        ))),
        _ => Ok(()),
    }
}

/// The request of one size: unnamed parts are as usual at that size.
fn of_size(request: &Request, parameters: u64) -> Request {
    let mut base = request.base.clone();
    if !request.named && request.tied_embeddings.is_none() {
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

/// The size that is best at usual shares of the peak in training and in serving.
fn first_guess(predictor: &Predictor, request: &Request, goal: Goal) -> Result<f64> {
    let time =
        |gpu: &Gpu, dtype, mfu, flops: f64| Seconds::from_secs(flops / (gpu.nearest_peak(dtype).flops_per_sec() * mfu));
    if let (Objective::Loss, Some(budget), None) = (goal.objective, goal.gpu_time, &request.service) {
        let each = time(
            predictor.gpu(),
            request.workload.dtype,
            USUAL_MFU,
            FLOPS_A_PARAMETER_SQUARED,
        );
        return Ok((budget / each).sqrt());
    }
    let yardstick = Yardstick::new(request, goal, Seconds::from_secs(1.0));
    let score = |parameters: f64| {
        let per_token = time(predictor.gpu(), request.workload.dtype, USUAL_MFU, 6.0 * parameters);
        let serving = request.service.as_ref().map_or(Seconds::ZERO, |service| {
            let Life {
                tokens,
                limits,
                workload,
                ..
            } = &service.life;
            let flops = 2.0 * parameters * tokens;
            let of = |mfu, flops| time(service.predictor.gpu(), workload.dtype, mfu, flops);
            let prompts = of(USUAL_MFU, flops * limits.prompt as f64 / limits.output as f64);
            (prompts + of(USUAL_DECODE_MFU, flops)) * service.price_ratio()
        });
        yardstick.usual_score(parameters, per_token.secs().ln(), serving)
    };
    let steps = (0..200).map(|step| 3e7 * f64::powf(1e4, f64::from(step) / 199.0));
    let scored = steps.map(|parameters| (parameters, score(parameters)));
    let reached = scored.filter(|(_, score)| score.is_finite());
    let best = reached.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(parameters, _)| parameters).ok_or_else(|| {
        let allowed = "a loss above what 300 billion parameters reach with any number of tokens";
        Error::field("search", "target_loss", goal.target_loss.unwrap_or_default(), allowed)
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
