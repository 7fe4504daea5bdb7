//! The fastest architecture for a number of parameters.
//!
//! [`search`] varies layers, width, heads, key/value heads, MLP width and padded vocabulary (micro-batch and ranks
//! where asked) over a lattice inside `data/search-bounds.toml`. It anneals and polishes, or looks at every shape.

mod anneal;

pub mod bounds;

mod free;

pub mod goal;

mod loss;

mod objective;

pub mod rank;

mod refuse;

mod request;

mod scan;

pub mod shape;

mod layout;

mod sizes;

mod space;

pub use free::Free;
pub use request::{
    Layout, Method, PARAMETERS, Request, USUAL_EXPERTS, USUAL_VOCABULARY, usual_architecture,
};
pub use sizes::{SizePoint, Sizes};

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::arch::memory_use;
use crate::error::Error;
use crate::error::Result;
use crate::loss::Comparison;
use crate::predict::Predictor;
use crate::predict::step::StepEstimate;
use crate::predict::step::estimate_step;
use crate::rules::Finding;
use crate::rules::judge_all;
use crate::search::anneal::Effort;
use crate::search::bounds::Bounds;
use crate::search::bounds::Quantity;
use crate::search::goal::{Entry, Outcome, Yardstick};
use crate::search::loss::Referee;
use crate::search::objective::Archive;
use crate::search::objective::Candidate;
use crate::search::objective::Scale;
use crate::search::rank::Ranked;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;
use std::ops::ControlFlow;

/// Found the very best of every lattice it was tried on, for all seeds (`benches/search.rs`).
const EFFORT: Effort = Effort {
    chains: 12,
    iterations: 1500,
};

/// Shapes that are polished, and rounds of it at most.
const POLISHED: usize = 4;
const ROUNDS: usize = 6;

/// Dimensions in which shapes of one neighbourhood differ.
const WITHIN_SIZE: [Dimension; 8] = [
    Dimension::Heads,
    Dimension::KvHeads,
    Dimension::HeadDim,
    Dimension::DFf,
    Dimension::Vocab,
    Dimension::Experts,
    Dimension::TopK,
    Dimension::MoeDFf,
];

named_enum! {
    /// Why a search ended.
    StopReason {
        /// Every shape was looked at.
        Exhausted = "exhausted",
        /// All moves were made.
        Iterations = "iterations",
        /// The caller asked to stop; the best so far is reported.
        Interrupted = "interrupted",
    }
}

/// How far a search is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Moves made or families scanned.
    pub done: u64,
    /// Of how many.
    pub total: u64,
    /// Best of the chain or block that reports.
    best: Option<Candidate>,
}

impl Progress {
    /// `ln` of the best time over the baseline's, of the chain or block that reports.
    pub fn best_cost(&self) -> Option<f64> {
        self.best.map(|candidate| candidate.cost)
    }
}

/// Told of progress; may stop the search.
pub type Watch<'a> = dyn Fn(&Progress) -> ControlFlow<()> + Sync + 'a;

/// One recommended shape.
#[derive(Clone, Debug)]
pub struct Recommendation {
    /// Shape, tie group, nearest published model.
    pub ranked: Ranked,
    /// What it was predicted under.
    pub workload: Workload,
    /// The whole prediction.
    pub step: StepEstimate,
    /// Parameters, counted as [`Request::compared`] does, over those of the baseline.
    pub parameters_over_baseline: f64,
    /// Tokens per second and GPU, times parameters, over the baseline's, minus 1: the gain at equal parameters.
    pub gain: f64,
    /// What the sizing rules say of it, in the order of [`crate::rules::RULES`].
    pub findings: Vec<Finding>,
    /// Bounds it leaves because they were relaxed: name, value and the usual limits.
    pub outside: Vec<(Quantity, f64, [f64; 2])>,
    /// Its loss against the baseline's proportions at equal parameters and tokens.
    pub loss: Comparison,
    /// What it reaches, where the search has a goal.
    pub outcome: Option<Outcome>,
}

impl Recommendation {
    fn entry(&self) -> Entry<'_> {
        let all = (self.step.tokens_per_s_high / self.step.tokens_per_s_low).ln() / 2.0;
        let own = self.ranked.candidate.own_half_width;
        let shared = (all * all - own * own).max(0.0).sqrt();
        Entry {
            architecture: &self.ranked.architecture,
            per_token: self.step.gpu_time_per_token(),
            half_widths: [own, shared],
        }
    }
}

/// A shape with its throughput, memory and habit.
#[derive(Clone, Debug)]
pub struct FrontPoint {
    /// The architecture.
    pub architecture: Architecture,
    /// The shape and its prediction.
    pub candidate: Candidate,
    /// Tokens per second of one GPU.
    pub tokens_per_s_per_gpu: f64,
    /// Distance from the bounds' centre.
    pub centre_distance: f64,
    /// Its loss against the baseline's proportions at equal parameters and tokens.
    pub loss: Comparison,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The request, with the workload that was used in the end.
    pub request: Request,
    /// Whether the workload was spread over replicas to fit.
    pub sharded: bool,
    /// Ranked shapes, at least one.
    pub shapes: Vec<Recommendation>,
    /// The fastest shape, which need not be the first of its tie group.
    pub fastest: FrontPoint,
    /// Of the fastest shape of each layers, width, heads and ranks: those not beaten in throughput, memory and closeness
    /// to the bounds' centre at once.
    pub front: Vec<FrontPoint>,
    /// The baseline under the same workload.
    pub baseline: StepEstimate,
    /// Tokens that losses are compared after.
    pub tokens: f64,
    /// Shapes in the lattice that meet the budget.
    pub lattice: u64,
    /// Predictions of shapes, repetitions included.
    pub evaluations: u64,
    /// How often memory or bounds ruled a shape out.
    pub refused: u64,
    /// Why it ended.
    pub stopped: StopReason,
    /// Every size that was tried, where a goal finds the size.
    pub sizes: Option<Sizes>,
}

/// Finds the fastest shapes of a request, or those that come nearest to its goal.
///
/// ```
/// use shapewise::arch::{Architecture, Workload};
/// use shapewise::gpu::Gpu;
/// use shapewise::predict::Predictor;
/// use shapewise::search::{Request, search};
/// use std::ops::ControlFlow;
///
/// # fn main() -> shapewise::error::Result<()> {
/// let predictor = Predictor::new(Gpu::find("a100")?, None)?;
/// let request = Request {
///     top: 1,
///     ..Request::like(&Architecture::find("gpt2")?, Workload::train(4, 1024))
/// };
/// let found = search(&predictor, &request, &|_| ControlFlow::Continue(()))?;
/// let best = &found.shapes[0];
/// assert!(best.gain > 0.0 && best.step.fits);
/// # Ok(())
/// # }
/// ```
pub fn search(predictor: &Predictor, request: &Request, watch: &Watch<'_>) -> Result<Found> {
    let Some(goal) = request.goal else {
        return search_of(predictor, request, EFFORT, watch);
    };
    goal.check(request, request.sized)?;
    match request.sized {
        true => search_of(predictor, request, EFFORT, watch),
        false => sizes::search_sizes(predictor, request, goal, watch),
    }
}

/// A search of one size.
fn search_of(
    predictor: &Predictor,
    request: &Request,
    effort: Effort,
    watch: &Watch<'_>,
) -> Result<Found> {
    predictor.gpu().require(request.workload.dtype)?;
    let asked = request;
    let mut request = request.clone();
    let mut space = space_of(&request)?;
    let gpu = predictor.gpu();
    let begun = Progress {
        done: 0,
        total: 1,
        best: None,
    };
    let go_on = || watch(&begun).is_continue();
    let no_shape = |space: &Space| {
        let (target, tolerance) = (asked.parameters, asked.tolerance);
        refuse::no_shape(space, target, tolerance, &go_on)
    };
    let or_interrupted = |refusal: Error| match go_on() {
        true => refusal,
        false => interrupted_early(),
    };
    let mut families = space.families(&go_on)?.ok_or_else(interrupted_early)?;
    if families.is_empty() {
        return Err(or_interrupted(no_shape(&space)));
    }
    let mut sharded = false;
    if let Some(workload) = layout::planned(predictor, &request, &space, &families)? {
        sharded = true;
        request.workload = workload;
        space = space_of(&request)?;
        families = space.families(&go_on)?.ok_or_else(interrupted_early)?;
    }
    if !request.named {
        let fits = |arch: &Architecture| {
            memory_use(arch, &request.workload).is_ok_and(|memory| memory.fits(gpu))
        };
        if let Some(preset) = request.usual_baseline(&fits) {
            request.baseline = preset.architecture.clone();
        }
    }
    let baseline = estimate_step(predictor, &request.baseline, &request.workload)?;
    let reference = baseline.gpu_time_per_token();
    let yardstick = request
        .goal
        .map(|goal| Yardstick::new(&request, goal, reference));
    let scale = Scale {
        reference,
        yardstick: yardstick.as_ref(),
    };
    let scan = |families: &[ShapeFamily]| scan::scan(predictor, &space, scale, families, watch);
    let lattice = families.iter().map(ShapeFamily::count).sum();
    if matches!(request.method, Method::Anneal { .. }) && lattice <= effort.moves() {
        // As many moves would look at some shapes twice and at others never.
        request.method = Method::Exhaustive;
    }
    let ((archive, interrupted), end) = match request.method {
        Method::Exhaustive => (scan(&families), StopReason::Exhausted),
        Method::Random { seed } => {
            let sample = scan::sample(&families, effort.moves(), seed);
            (scan(&sample), StopReason::Iterations)
        }
        Method::Anneal { seed } => {
            let (archive, interrupted) =
                anneal::anneal(predictor, &space, scale, &families, effort, seed, watch);
            if archive.best.is_none() && !interrupted {
                // No chain found a start, so whether there is any shape takes a look at all.
                (scan(&families), StopReason::Exhausted)
            } else {
                let polished = polish((archive, interrupted), &families, scan);
                (polished, StopReason::Iterations)
            }
        }
    };
    let stopped = if interrupted {
        StopReason::Interrupted
    } else {
        end
    };
    if archive.best.is_none() {
        return Err(match stopped {
            StopReason::Interrupted => interrupted_early(),
            _ => or_interrupted(
                refuse::nothing_fits(&space, gpu, &families, &go_on)
                    .unwrap_or_else(|| no_shape(&space)),
            ),
        });
    }
    let mut referee = Referee::new(&request);
    if let Some(time) = request.goal.and_then(|goal| goal.gpu_time) {
        // What the baseline sees within the budget.
        referee.tokens = time / reference;
    }
    let mut candidates = archive.ranked();
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.shape.cmp(&b.shape)));
    let fastest = candidates[0];
    let mut candidates = referee.not_worse(&space, candidates);
    let front = rank::pareto_front(&space, &candidates);
    let point = |(candidate, centre_distance): (Candidate, f64)| {
        let architecture = space.build(&candidate.shape).0;
        FrontPoint {
            tokens_per_s_per_gpu: 1.0 / (reference * candidate.cost.exp()).secs(),
            loss: referee.compare(&architecture),
            architecture,
            centre_distance,
            candidate,
        }
    };
    let fastest = point((fastest, rank::centre_distance(&space, &fastest)));
    let front = front.into_iter().map(point).collect();
    let ranked = match &yardstick {
        None => rank::rank(&space, &referee, candidates, request.top),
        Some(_) => {
            candidates.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.shape.cmp(&b.shape)));
            rank::by_score(&space, &referee, &candidates, request.top)
        }
    };
    let mut shapes = ranked
        .into_iter()
        .map(|(ranked, loss)| recommend(predictor, &request, &space, ranked, loss))
        .collect::<Result<Vec<_>>>()?;
    if let Some(yardstick) = &yardstick {
        let entries: Vec<Entry<'_>> = shapes.iter().map(Recommendation::entry).collect();
        let (outcomes, _) = yardstick.outcomes(&entries, true);
        let mut judged: Vec<_> = shapes.into_iter().zip(outcomes).collect();
        judged.sort_by(|(_, a), (_, b)| a.behind[0].total_cmp(&b.behind[0]));
        let judged = judged.into_iter().enumerate();
        shapes = judged
            .map(|(index, (mut shape, outcome))| {
                // The first group is the best with all that tie with it.
                shape.ranked.tie = if index == 0 || outcome.ties() { 1 } else { 2 };
                shape.outcome = Some(outcome);
                shape
            })
            .collect();
    }
    Ok(Found {
        sharded,
        shapes,
        fastest,
        front,
        baseline,
        tokens: referee.tokens,
        lattice,
        evaluations: archive.evaluations,
        refused: archive.refused,
        stopped,
        sizes: None,
        request,
    })
}

fn interrupted_early() -> Error {
    Error::infeasible("interrupted before any shape was found")
}

fn space_of(request: &Request) -> Result<Space> {
    let Request { base, workload, .. } = request;
    if base.mla.is_some() {
        let allowed = "a model without latent attention, which a search does not vary";
        return Err(Error::field("search", "like", &base.name, allowed));
    }
    if base.moe.is_none()
        && let Some(active) = request.active
    {
        let allowed = "nothing for a dense model, where a token meets every parameter";
        return Err(Error::field("search", "active_params", active, allowed));
    }
    if !(PARAMETERS.0..=PARAMETERS.1).contains(&request.parameters) {
        let allowed = format!("{} to {}", PARAMETERS.0, PARAMETERS.1);
        return Err(Error::field(
            "search",
            "params",
            request.parameters,
            &allowed,
        ));
    }
    if !(0.0..=0.5).contains(&request.tolerance) {
        let allowed = "0 to 0.5, a fraction of the parameters";
        return Err(Error::field(
            "search",
            "tolerance",
            request.tolerance,
            allowed,
        ));
    }
    let bounds = Bounds::new(
        request.parameters as f64,
        base,
        request.vocab,
        &request.relaxed,
    )?;
    if let Some(size) = request.fixed[Dimension::HeadDim]
        && let [least, most] = bounds.widest(Quantity::HeadDim)
        && !(least..=most).contains(&(size as f64))
    {
        let allowed = format!("{least} to {most}");
        return Err(Error::field("search", "head_dim", size, &allowed));
    }
    let within = |target: u64, tolerance: f64| {
        let least = (target as f64 * (1.0 - tolerance)).ceil();
        let most = (target as f64 * (1.0 + tolerance)).floor();
        (least as u64, most as u64)
    };
    // What is not free has one choice.
    let choices = |free: Free| {
        let dimension = free.dimension();
        let own = || vec![dimension.get(base, workload)];
        let is_free = request.free.contains(&free);
        (dimension, if is_free { free.choices() } else { own() })
    };
    Ok(Space {
        bounds,
        base: base.clone(),
        workload: *workload,
        budget: within(request.parameters, request.tolerance),
        count: request.count,
        active: request
            .active
            .map(|active| within(active, request.active_tolerance())),
        vocab: request.vocab,
        fixed: request.fixed,
        free: Free::ALL.map(choices).to_vec(),
    })
}

/// Looks at everything near the best shapes until nothing better turns up, or the caller asks to stop.
fn polish(
    (mut archive, mut interrupted): (Archive, bool),
    families: &[ShapeFamily],
    scan: impl Fn(&[ShapeFamily]) -> (Archive, bool),
) -> (Archive, bool) {
    // Shapes of one size under one workload share their neighbourhood.
    let size = |shape: &Shape| shape.without(&WITHIN_SIZE);
    let mut done = Vec::new();
    for _ in 0..ROUNDS {
        let best = archive.ranked();
        let fresh: Vec<_> = best
            .iter()
            .take(POLISHED)
            .map(|candidate| candidate.shape)
            .filter(|shape| !done.contains(&size(shape)))
            .collect();
        if interrupted || fresh.is_empty() {
            break;
        }
        let mut around: Vec<_> = fresh
            .iter()
            .flat_map(|shape| scan::near(families, shape))
            .collect();
        around.sort_by_key(|family| family.shape);
        around.dedup();
        done.extend(fresh.iter().map(size));
        let near;
        (near, interrupted) = scan(&around);
        archive = archive.merge(near);
    }
    (archive, interrupted)
}

fn recommend(
    predictor: &Predictor,
    request: &Request,
    space: &Space,
    ranked: Ranked,
    loss: Comparison,
) -> Result<Recommendation> {
    let (architecture, workload) = space.build(&ranked.candidate.shape);
    let count = |arch| request.compared(arch) as f64;
    let parameters_over_baseline = count(&architecture) / count(&request.baseline);
    let step = estimate_step(predictor, &architecture, &workload)?;
    let outside = space.bounds.outside(&architecture);
    let findings = judge_all(&architecture, &workload, predictor.gpu());
    Ok(Recommendation {
        findings,
        gain: (-ranked.candidate.cost).exp() * parameters_over_baseline - 1.0,
        parameters_over_baseline,
        outside: outside
            .into_iter()
            .map(|(bound, value)| (bound.name, value, bound.usual))
            .collect(),
        ranked,
        workload,
        step,
        loss,
        outcome: None,
    })
}

#[cfg(test)]
mod tests;
