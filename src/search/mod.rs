//! The fastest architecture for a number of parameters.
//!
//! [`search`] varies layers, width, heads, key/value heads, MLP width and padded vocabulary (micro-batch, ranks, windows, linear
//! and latent attention where asked) over a lattice inside `data/search-bounds.toml`, jointly with the layout where that is
//! planned. It anneals and polishes, or looks at every shape.

mod anneal;

pub mod bounds;

mod free;

pub mod goal;

mod lattice;

mod layout;

mod loss;

mod objective;

mod order;

pub mod rank;

mod refuse;

mod request;

mod scan;

mod seen;

mod serving;

pub mod shape;

mod sizes;

mod space;

pub use free::Free;
pub use order::{Order, Rival};
pub use rank::MOST_TIED;
pub use request::{
    Layout, Method, PARAMETERS, Request, USUAL_EXPERTS, USUAL_LATENT, USUAL_VOCABULARY, USUAL_WINDOW,
    usual_architecture, usual_vocabulary,
};
pub use seen::Seen;
pub use serving::{Life, Served, Service};
pub use sizes::{ComputeOptimal, SizePoint, Sizes};

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::check::findings;
use crate::error::Error;
use crate::error::Result;
use crate::loss::Comparison;
use crate::named_enum;
use crate::predict::Predictor;
use crate::predict::step::StepEstimate;
use crate::predict::step::estimate_step;
use crate::rules::Finding;
use crate::search::anneal::Effort;
use crate::search::bounds::Quantity;
use crate::search::goal::{Entry, Outcome, Yardstick};
use crate::search::lattice::Lattice;
use crate::search::loss::{COSTS_LOSS, Referee};
use crate::search::objective::Archive;
use crate::search::objective::Candidate;
use crate::search::objective::Scale;
use crate::search::rank::Ranked;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;
use crate::shard::Shard;
use crate::stats::quadrature;
use crate::units::Seconds;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// How much slower than the fastest of all an annealed answer may be: `benches/search.rs` holds random questions to it. One of
/// three seeds of a training step over 16 GPUs with a relaxed aspect ratio (229,215 shapes) was 2.7 % slower, all asked before
/// it within 1 %.
pub const GAP: f64 = 0.03;

/// What is spent on an answer within [`GAP`].
const EFFORT: Effort = Effort {
    chains: 12,
    iterations: 1500,
    enumerated: 300_000,
};

/// So many times smaller is a lattice of shapes under layouts that is looked at whole: annealing takes as long for 60,000.
const JOINT: u64 = 5;

/// Shapes that are ranked, at least, where all cost loss: those that cost least.
const MOST_COSTLY: usize = 50;

/// Rounds in which the shapes of an answer get the layouts that are the best of each, which may change the answer.
const REPLANS: usize = 8;

/// Shapes that are polished, of so many of the best, and rounds of it at most.
const POLISHED: usize = 4;
const CLOSE: usize = 200;
const ROUNDS: usize = 6;

/// Dimensions in which shapes of one neighbourhood differ.
const WITHIN_SIZE: [Dimension; 11] = [
    Dimension::Heads,
    Dimension::KvHeads,
    Dimension::HeadDim,
    Dimension::DFf,
    Dimension::Vocab,
    Dimension::Experts,
    Dimension::TopK,
    Dimension::MoeDFf,
    Dimension::WindowLayers,
    Dimension::KvLoraRank,
    Dimension::LinearLayers,
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

/// Receives the progress; may stop the search.
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
    /// Time of the baseline scaled to as many parameters, counted as [`Request::compared`] does, over its own.
    pub scaled_baseline: f64,
    /// Tokens per second and GPU, times parameters, over the baseline's, minus 1: the gain at equal parameters.
    pub gain: f64,
    /// What the sizing rules say of it, in the order of [`crate::rules::RULES`].
    pub findings: Vec<Finding>,
    /// Bounds it leaves because they were relaxed: name, value and the usual limits.
    pub outside: Vec<(Quantity, f64, [f64; 2])>,
    /// Bounds that stop it where they could be relaxed, with the limit.
    pub stopping: Vec<(Quantity, f64)>,
    /// Its loss against the baseline's proportions at equal parameters and tokens.
    pub loss: Comparison,
    /// GPU time of training to the loss that the baseline's proportions have at equal parameters, over the time that they
    /// take, with its 90 % interval; infinite where it is never reached, none outside training, where losses do not compare and
    /// after more tokens a parameter than the laws hold for.
    pub time_to_equal_loss: Option<[f64; 3]>,
    /// What it reaches, where the search has a goal.
    pub outcome: Option<Outcome>,
    /// What serving it costs, where it is served after the training.
    pub served: Option<Served>,
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
            serving: self.served.as_ref(),
        }
    }
}

/// A shape with its throughput, memory and habit.
#[derive(Clone, Debug)]
pub struct FrontPoint {
    /// The architecture.
    pub architecture: Architecture,
    /// What it is predicted under.
    pub workload: Workload,
    /// The shape and its prediction.
    pub candidate: Candidate,
    /// Tokens per second of one GPU.
    pub tokens_per_s_per_gpu: f64,
    /// As [`Recommendation::gain`].
    pub gain: f64,
    /// As [`Recommendation::time_to_equal_loss`].
    pub time_to_equal_loss: Option<[f64; 3]>,
    /// Distance from the bounds' centre.
    pub centre_distance: f64,
    /// Its loss against the baseline's proportions at equal parameters and tokens.
    pub loss: Comparison,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The request, with the workload that the baseline ran in the end.
    pub request: Request,
    /// Whether each shape, and the baseline, has a layout of its own, from a plan.
    pub sharded: bool,
    /// Ranked shapes, at least one.
    pub shapes: Vec<Recommendation>,
    /// Whether no shape was found that costs no loss, though such ones were wanted.
    pub costs_loss: bool,
    /// The fastest shape by throughput alone, whatever it costs in loss.
    pub fastest: FrontPoint,
    /// Of the fastest shape of each layers, width, heads and ranks: those not beaten in throughput, memory and closeness
    /// to the bounds' centre at once.
    pub front: Vec<FrontPoint>,
    /// The baseline under the same workload.
    pub baseline: StepEstimate,
    /// What the number format of training costs in loss, in no other difference; `None` if nothing.
    pub format_loss: Option<Comparison>,
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
    /// What the order of the shapes hangs on; `None` if there is but one.
    pub order: Option<Order>,
}

impl Found {
    /// What the server takes at least for a decode step, where that decides the time of the baseline and of every shape.
    pub fn bound_by_server(&self) -> Option<Seconds> {
        let mut shapes = self.shapes.iter().map(|shape| &shape.step.lanes);
        let least = self.baseline.lanes.bound_by_server();
        least.filter(|_| shapes.all(|lanes| lanes.bound_by_server().is_some()))
    }
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
    check(request, !request.seen.is_empty())?;
    let found = match request.goal.filter(|_| !request.sized) {
        Some(goal) => sizes::search_sizes(predictor, request, goal, watch)?,
        None => {
            let found = search_of(predictor, request, EFFORT, watch)?;
            sizes::affordable(&found)?;
            found
        }
    };
    Ok(Found {
        order: Order::of(predictor, &found),
        ..found
    })
}

/// Looks at every shape of one shard of a lattice. With what all shards have seen in [`Request::seen`], [`search`] finds
/// what a search does that looks at every shape.
pub fn look(predictor: &Predictor, request: &Request, shard: Shard, watch: &Watch<'_>) -> Result<Seen> {
    check(request, true)?;
    let lattice = Lattice::of(predictor, request, watch)?;
    // Neighbours share operators and differ in how many shapes fit.
    let families = shard.turns(&lattice.families);
    match scan::scan(predictor, &lattice.space, lattice.scale(), &families, watch) {
        (_, true) => Err(lattice::interrupted_early()),
        (archive, false) => Ok(Seen::new(shard, &lattice, predictor, archive)),
    }
}

/// Refuses a goal that does not go with the rest of the request, and shards of more than one lattice.
fn check(request: &Request, in_shards: bool) -> Result<()> {
    let Some(goal) = request.goal else {
        return Ok(());
    };
    goal.check(request, request.sized)?;
    if in_shards && !request.sized {
        let allowed = "nothing without params: each size is a lattice of its own";
        return Err(Error::field("search", "shard", "given", allowed));
    }
    Ok(())
}

/// A search of one size.
fn search_of(predictor: &Predictor, request: &Request, effort: Effort, watch: &Watch<'_>) -> Result<Found> {
    let mut lattice = Lattice::of(predictor, request, watch)?;
    let shapes_in_all = lattice.count();
    // Under many layouts most shapes are met again and again, and annealing finds the best in less time.
    let enumerated = match lattice.planned {
        Some(_) => effort.enumerated / JOINT,
        None => effort.enumerated,
    };
    let request = &mut lattice.request;
    let anneals = matches!(request.method, Method::Anneal { .. });
    if !request.seen.is_empty() || (anneals && shapes_in_all <= enumerated) {
        request.method = Method::Exhaustive;
    }
    // Whatever else varies makes the lattice larger, not the moves.
    let attention = request.free.iter().filter(|free| free.powers().is_none());
    let effort = effort.times(1 + attention.count() as u64 + u64::from(lattice.planned.is_some()));
    let (mut archive, stopped) = match lattice.request.seen.is_empty() {
        true => {
            let explorer = Explorer {
                predictor,
                space: &lattice.space,
                scale: lattice.scale(),
                families: &lattice.families,
                effort,
                watch,
            };
            explorer.explore(lattice.request.method)
        }
        false => (seen::merged(&lattice, predictor)?, StopReason::Exhausted),
    };
    if archive.best.is_none() {
        return Err(match stopped {
            StopReason::Interrupted => lattice::interrupted_early(),
            _ => lattice.nothing_seen(predictor, watch),
        });
    }
    let (mut planned, mut space) = (lattice.planned.take(), lattice.space.clone());
    let sharded = planned.is_some();
    let Lattice {
        request,
        baseline,
        referee,
        yardstick,
        ..
    } = &lattice;
    let judge = Judge {
        predictor,
        request,
        referee,
        baseline,
    };
    let rank = |space: &Space, archive: &Archive| judge.rank(space, archive);
    let mut ranking = rank(&space, &archive);
    for _ in 0..REPLANS {
        let Some(planned) = &mut planned else { break };
        let shown = ranking.shapes.iter().map(|(ranked, _)| ranked.candidate);
        let shown = shown.chain([ranking.fastest]).map(|one| one.shape);
        if !planned.replan(predictor, &mut space, lattice.scale(), shown, &mut archive) {
            break;
        }
        ranking = rank(&space, &archive);
    }
    let front = rank::pareto_front(&space, &ranking.candidates);
    let point = |(candidate, centre_distance): (Candidate, f64)| {
        let (architecture, workload) = space.build(&candidate.shape);
        let loss = referee.compare(&candidate.shape, &architecture);
        FrontPoint {
            workload,
            tokens_per_s_per_gpu: 1.0 / (baseline.gpu_time_per_token() * candidate.cost.exp()).secs(),
            gain: judge.gain(candidate.cost, &architecture),
            time_to_equal_loss: judge.time_interval(&candidate, &architecture, &loss),
            loss,
            architecture,
            centre_distance,
            candidate,
        }
    };
    let fastest = ranking.fastest;
    let fastest = point((fastest, rank::centre_distance(&space, &fastest)));
    let front = front.into_iter().map(point).collect();
    let mut shapes = ranking
        .shapes
        .into_iter()
        .map(|(ranked, loss)| judge.recommend(&space, ranked, loss))
        .collect::<Result<Vec<_>>>()?;
    if let Some(yardstick) = yardstick {
        shapes = by_outcome(yardstick, shapes);
    }
    Ok(Found {
        sharded,
        costs_loss: ranking.costs_loss,
        shapes,
        fastest,
        front,
        format_loss: request.workload.trains().then(|| referee.format()).flatten(),
        tokens: referee.tokens(),
        lattice: shapes_in_all,
        evaluations: archive.evaluations,
        refused: archive.refused,
        stopped,
        sizes: None,
        order: None,
        baseline: lattice.baseline,
        request: lattice.request,
    })
}

/// The shapes of an archive in the order of an answer.
struct Ranking {
    fastest: Candidate,
    /// Fastest first, without those that are worse in speed and loss.
    candidates: Vec<Candidate>,
    /// What the answer shows.
    shapes: Vec<(Ranked, Comparison)>,
    /// Whether all of them cost loss, though none should.
    costs_loss: bool,
}

/// Puts what was found in order.
struct Judge<'a> {
    predictor: &'a Predictor,
    request: &'a Request,
    referee: &'a Referee,
    baseline: &'a StepEstimate,
}

impl Judge<'_> {
    /// The order of an archive with any shape; by score where a goal makes one.
    fn rank(&self, space: &Space, archive: &Archive) -> Ranking {
        let Self {
            predictor,
            request,
            referee,
            ..
        } = *self;
        let sorted = |mut all: Vec<Candidate>, of: &dyn Fn(&Candidate) -> f64| {
            all.sort_by(|a, b| of(a).total_cmp(&of(b)).then(a.shape.cmp(&b.shape)));
            all
        };
        let mut all = archive.ranked();
        all.extend(archive.fastest.filter(|one| !all.contains(one)));
        let all = sorted(all, &|one| one.cost);
        let fastest = all[0];
        let mut wanted = all.clone();
        let costs_none = request.goal.is_none() && request.equal_loss;
        let mut costs_loss = false;
        if costs_none {
            wanted.retain(|one| one.score < COSTS_LOSS / 2.0);
            costs_loss = wanted.is_empty();
            // A shape that is slower than its lower loss is worth comes after all that are not.
            let time = |one: &Candidate| {
                let (arch, _) = space.build(&one.shape);
                self.time_to_equal_loss(one.cost, &arch).unwrap_or(0.0)
            };
            let wins: Vec<Candidate> = wanted.iter().copied().filter(|one| time(one) <= 1.0).collect();
            if !wins.is_empty() {
                wanted = wins;
            }
            if costs_loss {
                wanted = sorted(all.clone(), &|one| one.score);
                wanted.truncate(request.top.max(MOST_COSTLY));
                wanted = sorted(wanted, &|one| one.cost);
            }
        }
        let candidates = referee.not_worse(space, all);
        let wanted = match costs_none {
            true => referee.not_worse(space, wanted),
            false => candidates.clone(),
        };
        let shapes = match request.goal {
            None => rank::rank(predictor, space, referee, wanted, request),
            Some(_) => {
                let best = sorted(wanted, &|one| one.score);
                rank::by_score(predictor, space, referee, &best, request.top)
            }
        };
        Ranking {
            fastest,
            candidates,
            shapes,
            costs_loss,
        }
    }

    /// Tokens per second and GPU at equal parameters over the baseline's, minus 1.
    fn gain(&self, cost: f64, arch: &Architecture) -> f64 {
        (-cost).exp() * self.scaled_baseline(arch) - 1.0
    }

    fn scaled_baseline(&self, arch: &Architecture) -> f64 {
        let count = |arch| self.request.compared(arch) as f64;
        self.baseline.lanes.scaled(count(arch) / count(&self.request.baseline))
    }

    fn time_to_equal_loss(&self, cost: f64, arch: &Architecture) -> Option<f64> {
        let mnat = self.referee.middle(arch);
        let compares = self.request.workload.trains() && mnat.is_finite() && self.referee.knows_worth(arch);
        let as_fast = 1.0 + self.gain(cost, arch);
        compares.then(|| self.referee.time_to_equal_loss(mnat, as_fast))
    }

    /// As [`Recommendation::time_to_equal_loss`]: the band of the loss and what is uncertain of the speed, in quadrature.
    fn time_interval(&self, candidate: &Candidate, arch: &Architecture, loss: &Comparison) -> Option<[f64; 3]> {
        let middle = self.time_to_equal_loss(candidate.cost, arch)?;
        let difference = loss.difference.as_ref()?;
        let as_fast = 1.0 + self.gain(candidate.cost, arch);
        let [low, high] = [(difference.low_mnat, -1.0), (difference.high_mnat, 1.0)].map(|(mnat, sign)| {
            let end = self.referee.time_to_equal_loss(mnat, as_fast);
            match middle.is_finite() {
                true => middle * (sign * quadrature((end / middle).ln(), candidate.own_half_width)).exp(),
                false => end,
            }
        });
        Some([middle, low, high])
    }

    fn recommend(&self, space: &Space, ranked: Ranked, loss: Comparison) -> Result<Recommendation> {
        let (architecture, workload) = space.build(&ranked.candidate.shape);
        let cost = ranked.candidate.cost;
        let outside = space.bounds.outside(&architecture);
        let service = self.request.service.as_ref();
        let served = service.map(|service| service.plan(&architecture)).transpose()?;
        Ok(Recommendation {
            findings: findings(self.predictor, &architecture, &workload),
            gain: self.gain(cost, &architecture),
            scaled_baseline: self.scaled_baseline(&architecture),
            time_to_equal_loss: self.time_interval(&ranked.candidate, &architecture, &loss),
            outside: outside
                .into_iter()
                .map(|(bound, value)| (bound.name, value, bound.usual))
                .collect(),
            stopping: space.bounds.stopping(&architecture),
            step: estimate_step(self.predictor, &architecture, &workload)?,
            ranked,
            workload,
            loss,
            outcome: None,
            served,
        })
    }
}

/// These shapes in the order of what they reach.
fn by_outcome(yardstick: &Yardstick, shapes: Vec<Recommendation>) -> Vec<Recommendation> {
    let entries: Vec<Entry<'_>> = shapes.iter().map(Recommendation::entry).collect();
    let (outcomes, _) = yardstick.outcomes(&entries, true);
    let mut judged: Vec<_> = shapes.into_iter().zip(outcomes).collect();
    // Losses of shapes whose serving alone takes the budget are those of no training: they are ordered by what serving costs.
    let rank = |(shape, outcome): &(Recommendation, Outcome)| {
        let serving = shape.served.as_ref().map_or(0.0, |served| served.cost.secs());
        match outcome.is_unaffordable() {
            true => (true, serving),
            false => (false, outcome.behind[0]),
        }
    };
    judged.sort_by(|a, b| {
        let [(a_is_out, a), (b_is_out, b)] = [rank(a), rank(b)];
        a_is_out.cmp(&b_is_out).then(a.total_cmp(&b))
    });
    let judged = judged.into_iter().enumerate();
    judged
        .map(|(index, (mut shape, outcome))| {
            // The first group is the best with all that tie with it.
            shape.ranked.tie = if index == 0 || outcome.ties { 1 } else { 2 };
            shape.outcome = Some(outcome);
            shape
        })
        .collect()
}

/// What a look at the lattice needs.
struct Explorer<'a> {
    predictor: &'a Predictor,
    space: &'a Space,
    scale: Scale<'a>,
    families: &'a [ShapeFamily],
    effort: Effort,
    watch: &'a Watch<'a>,
}

impl Explorer<'_> {
    /// Everything that was seen, and why it ended.
    fn explore(&self, method: Method) -> (Archive, StopReason) {
        let ((archive, interrupted), end) = match method {
            Method::Exhaustive => (self.scan(self.families), StopReason::Exhausted),
            Method::Anneal { seed } => {
                let (predictor, space, families) = (self.predictor, self.space, self.families);
                let annealed = anneal::anneal(predictor, space, self.scale, families, self.effort, seed, self.watch);
                if annealed.0.best.is_none() && !annealed.1 {
                    // No chain found a start, so whether there is any shape takes a look at all.
                    (self.scan(families), StopReason::Exhausted)
                } else {
                    (self.polish(annealed), StopReason::Iterations)
                }
            }
        };
        match interrupted {
            true => (archive, StopReason::Interrupted),
            false => (archive, end),
        }
    }

    fn scan(&self, families: &[ShapeFamily]) -> (Archive, bool) {
        scan::scan(self.predictor, self.space, self.scale, families, self.watch)
    }

    /// Looks at everything near the best shapes until nothing better turns up, or the caller asks to stop.
    fn polish(&self, (mut archive, mut interrupted): (Archive, bool)) -> (Archive, bool) {
        let space = self.space;
        // Shapes of one size under one layout share their neighbourhood.
        let size = |shape: &Shape| {
            let first = space.interleaved_like(shape).start;
            space.under(&shape.without(&WITHIN_SIZE), first)
        };
        let mut done = Vec::new();
        for round in 0..ROUNDS {
            let best = archive.ranked();
            let mut shapes: Vec<Shape> = best.iter().map(|candidate| candidate.shape).collect();
            if round == 0 {
                // The best of each layout first: around another layout lie other shapes.
                shapes.truncate(CLOSE);
                let mut layouts = HashSet::new();
                shapes.sort_by_cached_key(|shape| !layouts.insert(space.interleaved_like(shape).start));
            }
            let fastest = archive.fastest.map(|fastest| fastest.shape);
            let fresh: Vec<Shape> = shapes
                .into_iter()
                .take(POLISHED)
                .chain(fastest)
                .filter(|shape| !done.contains(&size(shape)))
                .collect();
            if interrupted || fresh.is_empty() {
                break;
            }
            let mut around: Vec<_> = fresh
                .iter()
                .flat_map(|shape| scan::near(space, self.families, shape))
                .collect();
            around.sort_by_key(|family| family.shape);
            around.dedup();
            done.extend(fresh.iter().map(size));
            let near;
            (near, interrupted) = self.scan(&around);
            archive = archive.merge(near);
        }
        (archive, interrupted)
    }
}

#[cfg(test)]
mod tests;
