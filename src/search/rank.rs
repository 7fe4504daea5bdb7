//! From evaluated shapes to an answer: ties, the nearest published model, the Pareto front.

use crate::arch::{Architecture, Preset, Workload};
use crate::check::findings;
use crate::loss::{Comparison, TIED};
use crate::predict::Predictor;
use crate::predict::step::{self, Sensitivity};
use crate::rules::Finding;
use crate::search::bounds::{Bounds, WHOLE_HEADS};
use crate::search::loss::Referee;
use crate::search::objective::Candidate;
use crate::search::shape::Shape;
use crate::search::space::Space;
use crate::search::{GAP, Request};
use crate::stats::quadrature;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::HashSet;

/// A candidate with what places it among others.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The shape and its prediction.
    pub candidate: Candidate,
    /// The architecture.
    pub architecture: Architecture,
    /// Tie group ([`ties`]).
    pub tie: u64,
    /// Distance from the bounds' centre, see [`Bounds::distance`].
    pub centre_distance: f64,
    /// Sizing rules that it breaks.
    pub broken: usize,
    /// The published model most like it.
    pub nearest: Nearest,
}

/// A published model beside a searched shape.
#[derive(Clone, Copy, Debug)]
pub struct Nearest {
    /// The model.
    pub preset: &'static Preset,
    /// Root mean square of the logarithmic differences in layers, width, head size, head group, MLP share, experts and how
    /// many of them a token visits.
    pub distance: f64,
}

/// Least differences of the logarithms of layers and hidden width between two shapes of one answer; the next counts
/// where a larger one leaves too few.
const APART: [f64; 4] = [0.1, 0.05, 0.02, 0.0];

/// Shapes of an answer that those of a shorter one are the first of.
const USUAL_TOP: usize = 10;

/// Shapes that are looked through for each that is wanted, by a goal.
const MOST_COPIES: usize = 50;

/// Orders candidates, given fastest first: by speed between tie groups; within one by the rules that are broken, heads that
/// do not divide by [`WHOLE_HEADS`], loss in steps of [`TIED`] and closeness to published models. Shapes of nearly the same layers and width are
/// one: the first of them represents all.
///
/// A group holds all that tie with its fastest ([`ties`]). A search for throughput alone orders a group by speed, too.
pub fn rank(
    predictor: &Predictor,
    space: &Space,
    referee: &Referee,
    mut candidates: Vec<Candidate>,
    request: &Request,
) -> Vec<(Ranked, Comparison)> {
    let top = request.top;
    let published = Published::new(&space.base);
    let place_all = |group: &[Candidate], tie: u64| {
        let placed = group.par_iter().map(|candidate| {
            let ranked = place(predictor, space, &published, candidate, tie);
            let loss = referee.compare(&candidate.shape, &ranked.architecture);
            (ranked, loss)
        });
        let mut group: Vec<(Ranked, Comparison)> = placed.collect();
        // A shape whose loss is not known comes after those whose loss is.
        let mnat = |(_, loss): &(Ranked, Comparison)| {
            let difference = loss.difference.as_ref();
            difference.map_or(f64::INFINITY, |difference| difference.mnat)
        };
        let least = group.iter().map(mnat).fold(f64::INFINITY, f64::min);
        let steps = |one: &(Ranked, Comparison)| ((mnat(one) - least) / TIED).floor();
        group.sort_by(|a, b| {
            let uneven = |(one, _): &(Ranked, Comparison)| {
                let heads = one.architecture.heads;
                (one.broken, !heads.is_multiple_of(WHOLE_HEADS))
            };
            let faster = a.0.candidate.cost.total_cmp(&b.0.candidate.cost);
            if !request.equal_loss {
                return faster;
            }
            let better = uneven(a).cmp(&uneven(b));
            let lower = steps(a).total_cmp(&steps(b));
            let nearer = a.0.nearest.distance.total_cmp(&b.0.nearest.distance);
            better.then(lower).then(nearer).then(faster)
        });
        group
    };
    let sensitivities: FxHashMap<Shape, Sensitivity> = candidates
        .par_iter()
        .filter_map(|one| {
            let (architecture, workload) = space.build(&one.shape);
            Some((one.shape, sensitivity(predictor, &architecture, &workload)?))
        })
        .collect();
    let uncertainty = |one: &Candidate, other: &Candidate| {
        let both = [one, other].map(|candidate| sensitivities.get(&candidate.shape));
        uncertainty([one, other], both)
    };
    let mut groups: Vec<Vec<(Ranked, Comparison)>> = Vec::new();
    let mut kinds = HashSet::new();
    let mut tie = 1;
    while let Some(&fastest) = candidates.first().filter(|_| tie as usize <= top.max(USUAL_TOP)) {
        let (group, slower): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|other| ties(&fastest, other, uncertainty(&fastest, other)));
        kinds.extend(group.iter().map(|one| space.kind_of_attention(&one.shape)));
        groups.push(place_all(&group, tie));
        candidates = slower;
        tie += 1;
    }
    // What else may be chosen is shown even where it is slower than all these.
    for candidate in candidates {
        if kinds.insert(space.kind_of_attention(&candidate.shape)) {
            groups.push(place_all(&[candidate], tie));
            tie += 1;
        }
    }
    spread(space, &groups, top, |ranked| ranked.candidate.cost)
}

/// The first `top` shapes of each group, as far apart as still leaves as many, or [`USUAL_TOP`]; the one of least `cost` of each kind of
/// attention is among them.
fn spread(
    space: &Space,
    groups: &[Vec<(Ranked, Comparison)>],
    top: usize,
    cost: fn(&Ranked) -> f64,
) -> Vec<(Ranked, Comparison)> {
    let most = top.max(USUAL_TOP);
    let leaves = |least: &f64| different(space, groups, *least, most, cost).len() >= most;
    let least = APART.into_iter().find(leaves).unwrap_or(0.0);
    different(space, groups, least, top, cost)
}

/// The best shapes by a goal, given best first, without near copies.
pub fn by_score(
    predictor: &Predictor,
    space: &Space,
    referee: &Referee,
    candidates: &[Candidate],
    top: usize,
) -> Vec<(Ranked, Comparison)> {
    let published = Published::new(&space.base);
    // Enough for different ones among them.
    let most = top.max(USUAL_TOP).saturating_mul(MOST_COPIES).min(candidates.len());
    let placed: Vec<_> = candidates[..most]
        .par_iter()
        .map(|candidate| {
            let ranked = place(predictor, space, &published, candidate, 1);
            let loss = referee.compare(&candidate.shape, &ranked.architecture);
            (ranked, loss)
        })
        .collect();
    spread(space, &[placed], top, |ranked| ranked.candidate.score)
}

/// The first shapes of each group that are at least so far apart, in order, with the very first and the fastest of each kind of
/// attention.
fn different(
    space: &Space,
    groups: &[Vec<(Ranked, Comparison)>],
    least: f64,
    top: usize,
    cost: fn(&Ranked) -> f64,
) -> Vec<(Ranked, Comparison)> {
    let apart = |a: &Ranked, b: &Ranked| {
        let away = |of: fn(&Architecture) -> u64| (of(&a.architecture) as f64 / of(&b.architecture) as f64).ln().abs();
        let parts = |one: &Ranked| {
            let experts = one.architecture.moe.map(|moe| (moe.experts, moe.top_k));
            (experts, space.kind_of_attention(&one.candidate.shape))
        };
        let [one, other] = [a, b].map(|ranked| ranked.candidate.shape.of_workload());
        // A planned layout is the best one of its shape, not another choice.
        (space.layouts.len() == 1 && one != other)
            || parts(a) != parts(b)
            || (a.architecture != b.architecture
                && (away(|arch| arch.layers) >= least || away(|arch| arch.hidden) >= least))
    };
    let mut by_cost: Vec<&(Ranked, Comparison)> = groups.iter().flatten().collect();
    by_cost.sort_by(|a, b| cost(&a.0).total_cmp(&cost(&b.0)));
    let mut kinds = HashSet::new();
    let firsts = by_cost
        .into_iter()
        .filter(|one| kinds.insert(space.kind_of_attention(&one.0.candidate.shape)));
    let mut chosen: Vec<&(Ranked, Comparison)> = Vec::new();
    let all = groups.iter().flatten();
    for one in all.clone().take(1).chain(firsts).chain(all) {
        if chosen.len() == top {
            break;
        }
        if chosen.iter().all(|other| apart(&one.0, &other.0)) {
            chosen.push(one);
        }
    }
    let place = |one: &(Ranked, Comparison)| {
        let mut all = groups.iter().flatten();
        all.position(|other| std::ptr::eq(one, other))
    };
    chosen.sort_by_key(|one| place(one));
    chosen.into_iter().cloned().collect()
}

/// Speed that is given up at most for rules, loss and habit, however uncertain it is: on GPUs that are hardly known whole lattices would
/// tie. As much as an annealed answer may miss.
pub const MOST_TIED: f64 = GAP;

/// Whether a shape is as fast as a faster one within the 90 % interval of their difference and within [`MOST_TIED`].
pub fn ties(faster: &Candidate, slower: &Candidate, uncertainty: f64) -> bool {
    slower.cost - faster.cost <= uncertainty.min(MOST_TIED)
}

/// The half width of the 90 % interval of the logarithm of the ratio of two times, without what all shapes share: their own errors do
/// not cancel, and constants of the framework move one more than the other.
pub fn uncertainty(candidates: [&Candidate; 2], sensitivities: [Option<&Sensitivity>; 2]) -> f64 {
    let of_framework = match sensitivities {
        [Some(one), Some(other)] => one.half_width_to(other),
        _ => 0.0,
    };
    let own = candidates.map(|one| one.own_half_width);
    quadrature(own[0] + own[1], of_framework)
}

/// How the time of a shape moves with the constants of the framework; `None` if it cannot be lowered, which no candidate is.
pub fn sensitivity(predictor: &Predictor, arch: &Architecture, workload: &Workload) -> Option<Sensitivity> {
    let framework = predictor.framework(workload.mode).ok()?;
    let ledger = step::ledger(predictor, arch, workload).ok()?;
    Some(Sensitivity::of(&ledger, framework))
}

fn place(predictor: &Predictor, space: &Space, published: &Published, candidate: &Candidate, tie: u64) -> Ranked {
    let (architecture, workload) = space.build(&candidate.shape);
    let findings = findings(predictor, &architecture, &workload).into_iter();
    let is_broken = |finding: &Finding| finding.verdict.is_met() == Some(false);
    Ranked {
        candidate: *candidate,
        tie,
        centre_distance: space.bounds.distance(&architecture),
        broken: findings.filter(is_broken).count(),
        nearest: published.nearest(&architecture),
        architecture,
    }
}

/// Candidates that no other beats in speed, memory and closeness to the bounds' centre at once; fastest first, as given.
pub fn pareto_front(space: &Space, candidates: &[Candidate]) -> Vec<(Candidate, f64)> {
    let (mut arch, mut work) = (space.base.clone(), space.layouts[0]);
    let mut front: Vec<(Candidate, f64)> = Vec::new();
    for candidate in candidates {
        space.fill(&candidate.shape, &mut arch, &mut work);
        let distance = distance(&space.bounds, &arch);
        // Everything on the front is at least as fast.
        let beaten = front
            .iter()
            .any(|(other, nearer)| other.memory.bytes() <= candidate.memory.bytes() && *nearer <= distance);
        if !beaten {
            front.push((*candidate, distance));
        }
    }
    front
}

/// The distance of a candidate from the bounds' centre.
pub fn centre_distance(space: &Space, candidate: &Candidate) -> f64 {
    distance(&space.bounds, &space.build(&candidate.shape).0)
}

/// Rounded to hundredths: finer differences mean nothing and would crowd the front.
fn distance(bounds: &Bounds, arch: &Architecture) -> f64 {
    (bounds.distance(arch) * 100.0).round() / 100.0
}

/// Published models, dense or mixtures as the searched ones are, with the logarithms they are compared by.
struct Published(Vec<(&'static Preset, Vec<f64>)>);

impl Published {
    fn new(base: &Architecture) -> Self {
        let alike = Preset::typical().filter(|preset| is_alike(&preset.architecture, base));
        Self(
            alike
                .map(|preset| (preset, coordinates(&preset.architecture)))
                .collect(),
        )
    }

    fn nearest(&self, arch: &Architecture) -> Nearest {
        let here = coordinates(arch);
        let distances = self.0.iter().map(|(preset, there)| {
            let squares = here.iter().zip(there).map(|(a, b)| (a - b).powi(2));
            let distance = (squares.sum::<f64>() / here.len() as f64).sqrt();
            Nearest { preset, distance }
        });
        distances
            .reduce(|a, b| if b.distance < a.distance { b } else { a })
            .expect("there are published models")
    }
}

/// Whether a published model may be ranked among searched ones: dense or a mixture as `base` is, and with latent attention only
/// where `base` has it.
pub fn is_alike(arch: &Architecture, base: &Architecture) -> bool {
    arch.linear.is_none() && arch.moe.is_some() == base.moe.is_some() && (arch.mla.is_none() || base.mla.is_some())
}

fn coordinates(arch: &Architecture) -> Vec<f64> {
    let width = arch.moe.map_or(arch.mlp.d_ff, |moe| moe.active_width());
    let mlp = (arch.mlp.kind.up_factor() + 1) * width;
    let experts = arch.moe.map(|moe| [moe.experts, moe.top_k]);
    let mut sizes = vec![
        arch.layers as f64,
        arch.hidden as f64,
        arch.head_dim as f64,
        arch.heads as f64 / arch.kv_heads as f64,
        mlp as f64 / arch.hidden as f64,
    ];
    sizes.extend(experts.into_iter().flatten().map(|size| size as f64));
    sizes.into_iter().map(f64::ln).collect()
}
