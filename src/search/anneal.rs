//! Simulated annealing over the lattice with argmin: independent chains, one per task.
//!
//! A move changes one or two dimensions and takes a width, of the MLP or of an expert, that meets the budget. argmin accepts a
//! worse one by a logistic rule whose temperature is in units of the cost, here a logarithm of time: 0.05 at first
//! (5 %), falling geometrically. Bounds and memory are infinite costs, which are never accepted.

use crate::arch::Dimension;
use crate::predict::Predictor;
use crate::search::Progress;
use crate::search::Watch;
use crate::search::free::Free;
use crate::search::objective::Archive;
use crate::search::objective::Scale;
use crate::search::objective::Worker;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;
use argmin::core::{CostFunction, Error, Executor};
use argmin::solver::simulatedannealing::{Anneal, SATempFunc, SimulatedAnnealing};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Temperature of the first iteration, in units of the cost.
const HOT: f64 = 0.05;

/// Temperature of the last one.
const COLD: f64 = 0.0005;

/// Proposals that are tried for one move before the state stays where it is.
const TRIES: u32 = 64;

/// Starts of a chain at most: where most moves are refused, a chain has been walled in, and begins elsewhere.
const STARTS: u64 = 4;

/// Iterations between two reports of a chain.
const REPORT: u64 = 100;

/// Shape families that are tried for a start between two looks at whether it is still wanted.
const BLOCK: usize = 1024;

/// The moves of every model, each as likely: which dimensions they change. The batch includes everything of the workload
/// that is free.
const MOVES: [&[Dimension]; 8] = [
    &[Dimension::Layers],
    &[Dimension::Hidden],
    &[Dimension::Layers, Dimension::Hidden],
    &[Dimension::Hidden],
    &[Dimension::Heads],
    &[Dimension::KvHeads],
    &[Dimension::Batch],
    &[Dimension::Vocab],
];

/// Those of mixtures of experts.
const EXPERT_MOVES: [&[Dimension]; 2] = [&[Dimension::Experts, Dimension::TopK], &[Dimension::TopK]];

/// Those of what else may vary.
const WINDOW_MOVES: [&[Dimension]; 1] = [&[Dimension::WindowLayers]];
const LINEAR_MOVES: [&[Dimension]; 1] = [&[Dimension::LinearLayers]];
const LATENT_MOVES: [&[Dimension]; 1] = [&[Dimension::KvLoraRank]];

/// How much is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Independent chains.
    pub chains: u64,
    /// Moves of one chain.
    pub iterations: u64,
    /// Lattices of up to so many shapes are looked at as a whole instead.
    pub enumerated: u64,
}

impl Effort {
    /// As many chains, each so many times as long.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self {
            iterations: self.iterations * factor,
            ..self
        }
    }

    /// Moves of all chains.
    pub const fn moves(&self) -> u64 {
        self.chains * self.iterations
    }
}

/// Anneals from random feasible shapes. The second value says whether it was stopped early.
pub fn anneal(
    predictor: &Predictor,
    space: &Space,
    scale: Scale<'_>,
    families: &[ShapeFamily],
    effort: Effort,
    seed: u64,
    watch: &Watch<'_>,
) -> (Archive, bool) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut starter = Worker::new(predictor, space, scale);
    let total = effort.moves();
    let begun = Progress {
        done: 0,
        total,
        best: None,
    };
    let go_on = || watch(&begun).is_continue();
    // Where one look at the whole lattice finds nothing feasible, the next one would not either.
    let starts: Vec<_> = (0..effort.chains)
        .map_while(|_| {
            let shape = start(&mut starter, families, &mut random, &go_on)?;
            Some((shape, Xoshiro256PlusPlus::from_rng(&mut random)))
        })
        .collect();
    let done = AtomicU64::new(0);
    let widths = space.hidden_sizes();
    let moves = moves(space);
    let ends: Vec<(Archive, bool)> = starts
        .into_par_iter()
        .enumerate()
        .map(|(index, (shape, random))| {
            // The fastest of all is reported too, whatever it costs in loss.
            let by_speed = scale.referee.is_some() && index % 2 == 1;
            let mut inner = Inner {
                worker: Worker::new(predictor, space, scale),
                random,
                moves: 0,
            };
            let (mut shape, mut interrupted) = (shape, false);
            for _ in 0..STARTS {
                let chain = Chain {
                    space,
                    by_speed,
                    widths: &widths,
                    moves: &moves,
                    done: &done,
                    total,
                    watch,
                    inner: Mutex::new(inner),
                };
                (inner, interrupted) = chain.run(shape, effort);
                let archive = &inner.worker.archive;
                if interrupted || archive.refused <= archive.evaluations {
                    break;
                }
                let Inner { worker, random, .. } = &mut inner;
                match start(worker, families, random, &go_on) {
                    Some(elsewhere) => shape = elsewhere,
                    None => break,
                }
            }
            (inner.worker.archive, interrupted)
        })
        .collect();
    let interrupted = match ends.is_empty() {
        true => !go_on(),
        false => ends.iter().any(|(_, interrupted)| *interrupted),
    };
    let archives = ends.into_iter().map(|(archive, _)| archive);
    (archives.fold(starter.archive, Archive::merge), interrupted)
}

/// The moves that a search has.
fn moves(space: &Space) -> Vec<&'static [Dimension]> {
    let mut moves = MOVES.to_vec();
    if space.base.moe.is_some() {
        moves.extend(EXPERT_MOVES);
    }
    for free in &space.free {
        match free {
            Free::Window => moves.extend(WINDOW_MOVES),
            Free::Linear => moves.extend(LINEAR_MOVES),
            Free::Latent => moves.extend(LATENT_MOVES),
            Free::MicroBatch | Free::Tp | Free::Pp => {}
        }
    }
    moves
}

/// A feasible shape: the first one from a random family on, round the lattice once; `None` if `go_on` says no.
fn start(
    worker: &mut Worker<'_>,
    families: &[ShapeFamily],
    random: &mut Xoshiro256PlusPlus,
    go_on: &dyn Fn() -> bool,
) -> Option<Shape> {
    let first = random.random_range(0..families.len().max(1));
    let (before, after) = families.split_at(first);
    after
        .chunks(BLOCK)
        .chain(before.chunks(BLOCK))
        .take_while(|_| go_on())
        .flatten()
        .flat_map(|family| [family.count() / 2, 0, family.count() - 1].map(|index| family.shape(index)))
        .find(|shape| worker.look(shape).is_some())
}

struct Chain<'a> {
    space: &'a Space,
    /// Whether speed alone counts.
    by_speed: bool,
    widths: &'a [u64],
    moves: &'a [&'static [Dimension]],
    done: &'a AtomicU64,
    total: u64,
    watch: &'a Watch<'a>,
    /// argmin hands out shared references only.
    inner: Mutex<Inner<'a>>,
}

struct Inner<'a> {
    worker: Worker<'a>,
    random: Xoshiro256PlusPlus,
    moves: u64,
}

impl CostFunction for &Chain<'_> {
    type Param = Shape;
    type Output = f64;

    fn cost(&self, shape: &Shape) -> Result<f64, Error> {
        let mut inner = self.inner.lock().expect("one chain runs on one thread");
        let cost = match (inner.worker.look(shape), self.by_speed) {
            (None, _) => f64::INFINITY,
            (Some(seen), true) => seen.cost,
            (Some(seen), false) => seen.score,
        };
        inner.moves += 1;
        if inner.moves.is_multiple_of(REPORT) {
            let progress = Progress {
                // Chains that start again make more moves than was planned.
                done: (self.done.fetch_add(REPORT, Ordering::Relaxed) + REPORT).min(self.total),
                total: self.total,
                best: inner.worker.archive.best,
            };
            if (self.watch)(&progress).is_break() {
                return Err(Error::msg("interrupted"));
            }
        }
        Ok(cost)
    }
}

impl Anneal for &Chain<'_> {
    type Param = Shape;
    type Output = Shape;
    type Float = f64;

    fn anneal(&self, shape: &Shape, _temperature: f64) -> Result<Shape, Error> {
        let mut inner = self.inner.lock().expect("one chain runs on one thread");
        let mut scratch = self.space.base.clone();
        for _ in 0..TRIES {
            let proposal = self.propose(shape, &mut inner.random);
            if let Some(family) = self.space.family(proposal, &mut scratch) {
                let random = &mut inner.random;
                return Ok(match random.random_range(0..4) {
                    0 => family.nearest(shape[family.dimension]),
                    _ => family.shape(random.random_range(0..family.count())),
                });
            }
        }
        Ok(*shape)
    }
}

impl<'a> Chain<'a> {
    fn run(self, start: Shape, effort: Effort) -> (Inner<'a>, bool) {
        let random = {
            let mut inner = self.inner.lock().expect("one chain runs on one thread");
            Xoshiro256PlusPlus::from_rng(&mut inner.random)
        };
        let decay = (COLD / HOT).powf(1.0 / effort.iterations as f64);
        let solver = SimulatedAnnealing::new_with_rng(HOT, random)
            .expect("the temperature is positive")
            .with_temp_func(SATempFunc::Exponential(decay));
        let outcome = Executor::new(&self, solver)
            .configure(|state| state.param(start).max_iters(effort.iterations))
            .timer(false)
            .run();
        // The only error is that of an interrupted cost.
        let interrupted = outcome.is_err();
        let inner = self.inner.into_inner();
        (inner.expect("one chain runs on one thread"), interrupted)
    }

    /// One or two dimensions changed; the width is not refitted yet.
    fn propose(&self, shape: &Shape, random: &mut Xoshiro256PlusPlus) -> Shape {
        let mut next = *shape;
        let moved = self.moves[random.random_range(0..self.moves.len())];
        for dimension in moved {
            match dimension {
                Dimension::Layers => next = self.other_layers(next, random),
                Dimension::Hidden => next = self.other_width(next, random),
                Dimension::Heads => {}
                Dimension::Batch => next = self.other_workload(next, random),
                other => next = self.other(*other, next, random),
            }
        }
        let is_latent = |shape: &Shape| shape[Dimension::KvLoraRank] > 0;
        let recut = moved.contains(&Dimension::Heads) || is_latent(&next) != is_latent(shape);
        if recut || next[Dimension::Hidden] != shape[Dimension::Hidden] {
            next = self.other_heads(shape, next, recut, random);
        }
        if next[Dimension::Tp] != shape[Dimension::Tp] {
            next = self.other(Dimension::Vocab, next, random);
        }
        if next[Dimension::Layers] != shape[Dimension::Layers] {
            for part in [Dimension::WindowLayers, Dimension::LinearLayers] {
                next = self.same_share(part, shape, next);
            }
            next = self.other_stages(next, random);
        }
        next
    }

    /// This shape under the same layout with virtual stages that divide its layers: its own where they do.
    fn other_stages(&self, shape: Shape, random: &mut Xoshiro256PlusPlus) -> Shape {
        if self.space.divides(&shape) {
            return shape;
        }
        let under = self.space.interleaved_like(&shape);
        let under = under.map(|at| self.space.under(&shape, at));
        let whole: Vec<Shape> = under.filter(|shape| self.space.divides(shape)).collect();
        pick(&whole, random).unwrap_or(shape)
    }

    /// Another layout, and another value of all that is free of it.
    fn other_workload(&self, mut next: Shape, random: &mut Xoshiro256PlusPlus) -> Shape {
        let layouts = &self.space.interleaved;
        if layouts.len() > 1 {
            let first = layouts[random.random_range(0..layouts.len())].start;
            next = self.other_stages(self.space.under(&next, first), random);
        }
        for free in &self.space.free {
            if free.powers().is_some() {
                next = self.other(free.dimension(), next, random);
            }
        }
        next
    }

    /// Layers of one kind in as large a share of other layers.
    fn same_share(&self, part: Dimension, shape: &Shape, next: Shape) -> Shape {
        let choices = |shape: &Shape| self.space.choices(part, shape);
        let same = |other: &Shape| other[part] == shape[part];
        let at = choices(shape).iter().position(same).unwrap_or(0);
        choices(&next).get(at).copied().unwrap_or(next)
    }

    /// Any choice of this dimension.
    fn other(&self, dimension: Dimension, shape: Shape, random: &mut Xoshiro256PlusPlus) -> Shape {
        pick(&self.space.choices(dimension, &shape), random).unwrap_or(shape)
    }

    /// A few layers more or less in every stage.
    fn other_layers(&self, shape: Shape, random: &mut Xoshiro256PlusPlus) -> Shape {
        let stages = shape[Dimension::Pp] as i64;
        let layers = shape[Dimension::Layers].saturating_add_signed(steps(random) * stages);
        let fixed = self.space.fixed[Dimension::Layers];
        shape.with(Dimension::Layers, fixed.unwrap_or(layers.max(1)))
    }

    /// A few steps of the lattice wider or narrower.
    fn other_width(&self, shape: Shape, random: &mut Xoshiro256PlusPlus) -> Shape {
        let sizes = &self.widths;
        let at = sizes.partition_point(|&size| size < shape[Dimension::Hidden]);
        let at = at.saturating_add_signed(steps(random) as isize);
        shape.with(Dimension::Hidden, sizes[at.min(sizes.len() - 1)])
    }

    /// Heads for another width: of the same size where it divides that width and `recut` does not ask for another.
    fn other_heads(&self, shape: &Shape, next: Shape, recut: bool, random: &mut Xoshiro256PlusPlus) -> Shape {
        let [heads, hidden] = [Dimension::Heads, Dimension::Hidden];
        let choices = self.space.choices(heads, &next);
        let same = choices.iter().find(|other| {
            other[Dimension::HeadDim] == shape[Dimension::HeadDim]
                && other[heads] * shape[hidden] == shape[heads] * next[hidden]
        });
        let chosen = match same {
            Some(same) if !recut => Some(*same),
            _ => pick(&choices, random),
        };
        let Some(chosen) = chosen else {
            return next;
        };
        // As many heads to a key/value head as before, or nearly.
        let group = |shape: &Shape| shape[heads] / shape[Dimension::KvHeads];
        let shared = self.space.choices(Dimension::KvHeads, &chosen).into_iter();
        let nearest = shared.min_by_key(|other| group(other).abs_diff(group(shape)));
        nearest.unwrap_or(chosen)
    }
}

/// How far a stepped dimension goes: mostly to its neighbour.
fn steps(random: &mut Xoshiro256PlusPlus) -> i64 {
    match random.random_range(0..6) {
        0 => -3,
        1 | 2 => -1,
        3 | 4 => 1,
        _ => 3,
    }
}

fn pick<T: Copy>(choices: &[T], random: &mut Xoshiro256PlusPlus) -> Option<T> {
    if choices.is_empty() {
        return None;
    }
    Some(choices[random.random_range(0..choices.len())])
}
