//! What a search minimises, and what it remembers of the shapes it has seen.
//!
//! The objective is `ln(GPU time per token / reference)`, dimensionless: GPU time is step time times the GPUs of a
//! replica, so that shapes on different numbers of ranks compare. A shape that does not fit is infeasible, not slow.

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::arch::memory_use;
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::predict::memo::Memo;
use crate::search::shape::Shape;
use crate::search::space::Space;
use crate::units::Bytes;
use crate::units::Seconds;
use rustc_hash::FxHashMap;

/// A feasible shape and what was predicted for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The shape.
    pub shape: Shape,
    /// `ln(GPU time per token / reference)`.
    pub cost: f64,
    /// Half width of the 90 % interval of `cost`, without what all shapes share.
    pub own_half_width: f64,
    /// Memory of one GPU.
    pub memory: Bytes,
}

/// Dimensions in which shapes of one kind may differ: MLP width, padding, and the size of the heads.
const WITHIN_KIND: [Dimension; 3] = [Dimension::HeadDim, Dimension::DFf, Dimension::Vocab];

/// The best shape of each kind, and how many were looked at.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    kinds: FxHashMap<Shape, Candidate>,
    /// The best of all.
    pub best: Option<Candidate>,
    /// Shapes that were predicted, repetitions included.
    pub evaluations: u64,
    /// Shapes that bounds or memory ruled out.
    pub refused: u64,
}

impl Archive {
    fn keep(&mut self, candidate: Candidate) {
        let known = self
            .kinds
            .entry(candidate.shape.without(&WITHIN_KIND))
            .or_insert(candidate);
        if better(&candidate, known) {
            *known = candidate;
        }
        if self.best.is_none_or(|best| better(&candidate, &best)) {
            self.best = Some(candidate);
        }
    }

    /// Both archives in one.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        if self.kinds.len() < other.kinds.len() {
            return other.merge(self);
        }
        for candidate in other.kinds.into_values() {
            self.keep(candidate);
        }
        self.evaluations += other.evaluations;
        self.refused += other.refused;
        self
    }

    /// The best of each kind, best first.
    pub fn ranked(&self) -> Vec<Candidate> {
        let mut all: Vec<_> = self.kinds.values().copied().collect();
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.shape.cmp(&b.shape)));
        all
    }
}

/// Equal costs are ordered by shape, so that the order of evaluation does not matter.
fn better(a: &Candidate, b: &Candidate) -> bool {
    a.cost < b.cost || (a.cost == b.cost && a.shape < b.shape)
}

/// Evaluates shapes on one thread.
pub struct Worker<'a> {
    gpu: &'a Gpu,
    space: &'a Space,
    memo: Memo<'a>,
    reference: Seconds,
    arch: Architecture,
    work: Workload,
    /// What has been seen.
    pub archive: Archive,
}

impl<'a> Worker<'a> {
    /// `reference` is the GPU time per token whose cost is 0.
    pub fn new(predictor: &'a Predictor, space: &'a Space, reference: Seconds) -> Self {
        Self {
            gpu: predictor.gpu(),
            space,
            memo: Memo::new(predictor),
            reference,
            arch: space.base.clone(),
            work: space.workload,
            archive: Archive::default(),
        }
    }

    /// The cost of a shape; infinite where bounds, memory or the workload rule it out.
    pub fn cost(&mut self, shape: &Shape) -> f64 {
        match self.evaluate(shape) {
            Some(candidate) => {
                self.archive.evaluations += 1;
                self.archive.keep(candidate);
                candidate.cost
            }
            None => {
                self.archive.refused += 1;
                f64::INFINITY
            }
        }
    }

    fn evaluate(&mut self, shape: &Shape) -> Option<Candidate> {
        self.space.fill(shape, &mut self.arch, &mut self.work);
        if !self.space.bounds.admit(&self.arch) {
            return None;
        }
        let memory = memory_use(&self.arch, &self.work).ok()?;
        if !memory.fits(self.gpu) {
            return None;
        }
        let cost = self.memo.cost(&self.arch, &self.work).ok()?;
        let gpus = (self.work.tp * self.work.pp) as f64;
        let per_token = cost.time * (gpus / cost.tokens as f64);
        Some(Candidate {
            shape: *shape,
            cost: (per_token / self.reference).ln(),
            own_half_width: cost.own_half_width,
            memory: memory.total(),
        })
    }
}
