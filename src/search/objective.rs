//! What a search minimises, and what it remembers of the shapes it has seen.
//!
//! The objective is `ln(GPU time per token / reference)`, dimensionless: GPU time is step time times the GPUs of a
//! replica, so that shapes on different numbers of ranks compare. A shape that does not fit is infeasible, not slow.

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::arch::memory_use;
use crate::predict::Predictor;
use crate::predict::memo::Memo;
use crate::search::goal::Yardstick;
use crate::search::loss::Referee;
use crate::search::serving::{Counter, Served, Service};
use crate::search::shape::Shape;
use crate::search::space::Space;
use crate::units::Bytes;
use crate::units::Seconds;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A feasible shape and what was predicted for it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The shape.
    pub shape: Shape,
    /// `ln(GPU time per token / reference)`.
    pub cost: f64,
    /// What is minimised: the cost, or a function of cost and goal or loss.
    pub score: f64,
    /// Half width of the 90 % interval of `cost`, without what all shapes share.
    pub own_half_width: f64,
    /// Memory of one GPU.
    #[serde(deserialize_with = "bytes")]
    pub memory: Bytes,
}

/// Dimensions in which shapes of one kind may differ: width of MLP and experts, padding, and the size of the heads; and
/// where layouts are planned, the layout.
const WITHIN_KIND: [Dimension; 4] = [Dimension::HeadDim, Dimension::DFf, Dimension::Vocab, Dimension::MoeDFf];

/// The best shape of each kind, and how many were looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    #[serde(with = "pairs")]
    kinds: FxHashMap<Shape, Candidate>,
    /// The best of all.
    pub best: Option<Candidate>,
    /// The fastest of all.
    pub fastest: Option<Candidate>,
    /// Shapes that were predicted, repetitions included.
    pub evaluations: u64,
    /// Shapes that bounds or memory ruled out.
    pub refused: u64,
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    f64::deserialize(from).map(Bytes::from_bytes)
}

/// A map whose keys are no text, as pairs in the order of the keys.
mod pairs {
    use super::*;

    pub fn serialize<S: Serializer>(kinds: &FxHashMap<Shape, Candidate>, to: S) -> Result<S::Ok, S::Error> {
        let mut pairs: Vec<_> = kinds.iter().collect();
        pairs.sort_by_key(|(kind, _)| **kind);
        to.collect_seq(pairs)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FxHashMap<Shape, Candidate>, D::Error> {
        Vec::<(Shape, Candidate)>::deserialize(from).map(|pairs| pairs.into_iter().collect())
    }
}

impl Archive {
    fn keep(&mut self, candidate: Candidate, is_planned: bool) {
        let kind = candidate.shape.without(&WITHIN_KIND);
        let kind = if is_planned { kind.under_any() } else { kind };
        let known = self.kinds.entry(kind).or_insert(candidate);
        if better(&candidate, known) {
            *known = candidate;
        }
        self.best = first([self.best, Some(candidate)], |one| one.score);
        self.fastest = first([self.fastest, Some(candidate)], |one| one.cost);
    }

    /// Both archives in one.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        if self.kinds.len() < other.kinds.len() {
            return other.merge(self);
        }
        for (kind, candidate) in other.kinds {
            let known = self.kinds.entry(kind).or_insert(candidate);
            if better(&candidate, known) {
                *known = candidate;
            }
        }
        self.best = first([self.best, other.best], |one| one.score);
        self.fastest = first([self.fastest, other.fastest], |one| one.cost);
        self.evaluations += other.evaluations;
        self.refused += other.refused;
        self
    }

    /// The best of each kind, best first.
    pub fn ranked(&self) -> Vec<Candidate> {
        let mut all: Vec<_> = self.kinds.values().copied().collect();
        all.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.shape.cmp(&b.shape)));
        all
    }
}

/// The one of least value, and among equals of the first shape.
fn first(of: [Option<Candidate>; 2], value: fn(&Candidate) -> f64) -> Option<Candidate> {
    let given = of.into_iter().flatten();
    given.min_by(|a, b| {
        let smaller = value(a).total_cmp(&value(b));
        smaller.then(a.shape.cmp(&b.shape))
    })
}

/// Equal scores are ordered by shape, so that the order of evaluation does not matter.
fn better(a: &Candidate, b: &Candidate) -> bool {
    a.score < b.score || (a.score == b.score && a.shape < b.shape)
}

/// What shapes are measured by.
#[derive(Clone, Copy)]
pub struct Scale<'a> {
    /// The GPU time per token whose cost is 0.
    pub reference: Seconds,
    /// What makes a score of a cost, where a goal does.
    pub yardstick: Option<&'a Yardstick>,
    /// What is served after the training, and by engines like these.
    pub service: Option<(&'a Service, &'a Served)>,
    /// Judges what a shape costs in loss, if it may cost none.
    pub referee: Option<&'a Referee>,
}

/// Evaluates shapes on one thread.
pub struct Worker<'a> {
    space: &'a Space,
    memo: Memo<'a>,
    scale: Scale<'a>,
    counter: Option<Counter<'a>>,
    arch: Architecture,
    work: Workload,
    /// What has been seen.
    pub archive: Archive,
}

impl<'a> Worker<'a> {
    /// One worker.
    pub fn new(predictor: &'a Predictor, space: &'a Space, scale: Scale<'a>) -> Self {
        Self {
            space,
            memo: Memo::new(predictor),
            counter: scale.service.map(|(service, served)| service.like(served)),
            scale,
            arch: space.base.clone(),
            work: space.layouts[0],
            archive: Archive::default(),
        }
    }

    /// Looks at a shape; `None` if bounds, memory or the workload rule it out.
    pub fn look(&mut self, shape: &Shape) -> Option<Candidate> {
        let seen = self.evaluate(shape);
        match seen {
            Some(candidate) => {
                self.archive.evaluations += 1;
                self.archive.keep(candidate, self.space.layouts.len() > 1);
            }
            None => self.archive.refused += 1,
        }
        seen
    }

    fn evaluate(&mut self, shape: &Shape) -> Option<Candidate> {
        self.space.fill(shape, &mut self.arch, &mut self.work);
        if !self.space.bounds.admit(&self.arch) {
            return None;
        }
        let memory = memory_use(&self.arch, &self.work, &self.space.practice).ok()?.total();
        if memory > self.space.room {
            return None;
        }
        let cost = self.memo.cost(&self.arch, &self.work).ok()?;
        let gpus = self.work.gpus_per_replica() as f64;
        let per_token = cost.time * (gpus / cost.tokens);
        let ln_time = (per_token / self.scale.reference).ln();
        let serving = match &mut self.counter {
            Some(counter) => counter.cost(&self.arch)?,
            None => Seconds::ZERO,
        };
        let score = match (self.scale.yardstick, self.scale.referee) {
            (Some(yardstick), _) => yardstick.score(&self.arch, ln_time, serving),
            (None, Some(referee)) => ln_time + referee.penalty(&self.arch),
            (None, None) => ln_time,
        };
        if score == f64::INFINITY {
            return None;
        }
        Some(Candidate {
            shape: *shape,
            cost: ln_time,
            score,
            own_half_width: cost.own_half_width,
            memory,
        })
    }
}
