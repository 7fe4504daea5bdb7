//! The layouts of a training search: those of a plan for the model that was named, else for a shape in the middle of the
//! lattice, and the best one of each shape that is nearly the fastest.

use crate::arch::{Architecture, Dimension, MemoryUse, Recompute, Workload, memory_use};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::plan::{self, AllTried, Query};
use crate::predict::Predictor;
use crate::search::free::Free;
use crate::search::objective::{Archive, Scale, Worker};
use crate::search::request::Request;
use crate::search::shape::{Shape, ShapeFamily};
use crate::search::space::Space;
use crate::units::Bytes;
use rayon::prelude::*;
use std::collections::HashSet;

/// Shapes that are looked at for one in the middle, and for the share that fits.
const SAMPLE: usize = 1024;

/// Layers and heads are a multiple of this where any shape's are.
const DIVISIBLE: u64 = 8;

/// Default upper bound on the GPUs of a search.
const MOST_GPUS: u64 = 1 << 13;

/// How much slower a layout of one shape may be that is tried on all others.
const SLOWER: f64 = 1.25;

/// The most layouts that are tried on all shapes, before their virtual stages.
const MOST_LAYOUTS: usize = 32;

/// What a search over layouts needs.
pub struct Planned {
    /// Layouts of one model within a quarter of its best, best first, each with every number of virtual stages; at least
    /// one.
    layouts: Vec<Vec<Workload>>,
    /// Memory of a GPU that a layout may take.
    room: Bytes,
    query: Query,
    /// Shapes whose best layout was planned.
    seen: HashSet<Shape>,
}

impl Planned {
    /// The layouts over the GPUs of a request, or over the fewest whose plan has one where half of the shapes do not fit;
    /// `None` if the workload stays.
    pub fn of(
        predictor: &Predictor,
        request: &Request,
        space: &Space,
        families: &[ShapeFamily],
    ) -> Result<Option<Self>> {
        let work = &request.workload;
        let layout = &request.layout;
        if !work.trains() {
            return Ok(None);
        }
        // A goal is that of a whole run, whose sizes compare under plans alone: with one micro-batch a step, small ones would
        // pay their optimizer each time.
        let is_run = request.goal.is_some();
        let stays = || {
            !request.shard
                || (work.dp, work.zero) != (1, 0)
                || (!is_run && share_that_fits(space, predictor.gpu(), families) >= 0.5)
        };
        if layout.gpus.is_none() && stays() {
            return Ok(None);
        }
        // A model that was named has to run under it.
        let arch = match request.named {
            true => request.baseline.clone(),
            false => middle(space, families),
        };
        let layers = families.iter().map(|family| family.shape[Dimension::Layers]);
        let most_layers = layers.max().unwrap_or(0).max(arch.layers);
        let plans = |gpus: u64| {
            let global_batch = plan::sequences(layout.global_batch, work.seq, gpus)?;
            let query = Query {
                kept: layout.kept.clone(),
                zero: Some(work.zero).filter(|&stage| stage > 0),
                recompute: Some(work.recompute).filter(|asked| *asked != Recompute::None),
                ..Query::training(gpus, global_batch, work)
            };
            let tried = plan::tried(predictor, &arch, &query)?;
            Ok(Self::from(predictor.gpu(), query, &tried, most_layers))
        };
        if let Some(gpus) = layout.gpus {
            return plans(gpus).map(Some);
        }
        // A consumer card is searched alone as long as it holds the states.
        let least = predictor.gpu().gpus_per_node().map_or(1, |_| 8);
        let counts = std::iter::successors(Some(least), |gpus| Some(gpus * 2));
        let mut counts = counts.take_while(|&gpus| gpus <= MOST_GPUS);
        // If no number of GPUs has a layout, the refusal names what does not fit in the workload as it is.
        Ok(counts.find_map(|gpus| Result::ok(plans(gpus))))
    }

    fn from(gpu: &Gpu, query: Query, tried: &AllTried, most_layers: u64) -> Self {
        let slowest = tried.layouts[0].time * SLOWER;
        let near = tried.layouts.iter().take_while(|one| one.time <= slowest);
        let plain = |work: Workload| Workload { vp: 1, ..work };
        let mut layouts: Vec<Vec<Workload>> = Vec::new();
        for work in near.map(|one| plain(one.workload)) {
            let is_known = layouts.iter().any(|known| plain(known[0]) == work);
            if is_known || layouts.len() == MOST_LAYOUTS {
                continue;
            }
            let most = match plan::interleaves(&work) {
                true => most_layers.div_ceil(work.pp),
                false => 1,
            };
            let interleaved = (1..=most).filter(|&vp| query.keeps(Dimension::Vp, vp));
            layouts.push(interleaved.map(|vp| Workload { vp, ..work }).collect());
        }
        Self {
            layouts,
            room: MemoryUse::room(gpu, tried.memory_share, true),
            query,
            seen: HashSet::new(),
        }
    }

    /// Lets every shape of a search run under each of the layouts.
    pub fn spread(&self, request: &mut Request, space: &mut Space) {
        request.workload = self.layouts[0][0];
        // The plan chooses them.
        request.free.retain(|free| free.powers().is_none());
        space.free.clone_from(&request.free);
        space.layouts = self.layouts.concat();
        let mut end = 0;
        let ranges = self.layouts.iter().map(|layouts| {
            end += layouts.len();
            end - layouts.len()..end
        });
        space.interleaved = ranges.collect();
        space.room = self.room;
    }

    /// The fastest layout of an architecture; `None` if no layout fits.
    pub fn best(&self, predictor: &Predictor, arch: &Architecture) -> Option<Workload> {
        let tried = plan::tried(predictor, arch, &self.query).ok()?;
        Some(tried.layouts[0].workload)
    }

    /// Adds these shapes under the layout that is the best of each, which joins the space; false where all had it.
    pub fn replan(
        &mut self,
        predictor: &Predictor,
        space: &mut Space,
        scale: Scale<'_>,
        shapes: impl IntoIterator<Item = Shape>,
        archive: &mut Archive,
    ) -> bool {
        let fresh = shapes.into_iter().filter(|shape| self.seen.insert(shape.under_any()));
        let shapes: Vec<Shape> = fresh.collect();
        let best: Vec<Option<Workload>> = shapes
            .par_iter()
            .map(|shape| self.best(predictor, &space.build(shape).0))
            .collect();
        let mut moved = Vec::new();
        for (shape, layout) in shapes.iter().zip(best) {
            let Some(layout) = layout.filter(|best| *best != space.build(shape).1) else {
                continue;
            };
            let known = space.layouts.iter().position(|known| *known == layout);
            let at = known.unwrap_or_else(|| {
                space.layouts.push(layout);
                space.layouts.len() - 1
            });
            moved.push(space.under(shape, at));
        }
        let mut worker = Worker::new(predictor, space, scale);
        for shape in &moved {
            worker.look(shape);
        }
        *archive = std::mem::take(archive).merge(worker.archive);
        !moved.is_empty()
    }
}

/// A sample of the shapes, the least micro-batch and the most of every other power of two that is free.
fn sample<'a>(space: &'a Space, families: &'a [ShapeFamily]) -> Vec<Architecture> {
    let is_mildest = |family: &&ShapeFamily| {
        space.free.iter().all(|free| {
            let powers = free.powers().unwrap_or_default();
            let mildest = match free {
                Free::MicroBatch => powers.first(),
                _ => powers.last(),
            };
            mildest.is_none_or(|mildest| *mildest == family.shape[free.dimension()])
        })
    };
    let mildest: Vec<_> = families.iter().filter(is_mildest).collect();
    let chosen = mildest.iter().step_by(mildest.len().div_ceil(SAMPLE).max(1));
    let (mut arch, mut work) = (space.base.clone(), space.layouts[0]);
    let built = chosen.map(|family| {
        space.fill(&family.shape(family.count() / 2), &mut arch, &mut work);
        arch.clone()
    });
    built.collect()
}

/// A shape whose width is the median of the sample, with layers and heads that many pipelines and tensor-parallel ranks
/// divide where there is one.
fn middle(space: &Space, families: &[ShapeFamily]) -> Architecture {
    let mut shapes = sample(space, families);
    let sizes: [fn(&Architecture) -> u64; 3] = [|arch| arch.heads, |arch| arch.kv_heads, |arch| arch.layers];
    for size in sizes {
        let divides = |arch: &Architecture| size(arch).is_multiple_of(DIVISIBLE);
        if shapes.iter().any(divides) {
            shapes.retain(divides);
        }
    }
    shapes.sort_by_key(|arch| (arch.hidden, arch.layers, arch.heads));
    let at = shapes.len() / 2;
    shapes.swap_remove(at)
}

/// The shape of a sample that is nearest to the centre of the bounds.
pub fn centre(space: &Space, families: &[ShapeFamily]) -> Option<Architecture> {
    let admitted = sample(space, families).into_iter();
    let admitted = admitted.filter(|arch| space.bounds.admit(arch));
    let away = admitted.map(|arch| (space.bounds.distance(&arch), arch));
    let nearest = away.min_by(|a, b| a.0.total_cmp(&b.0));
    nearest.map(|(_, arch)| arch)
}

/// The share of a sample of shapes that fits under the workload as it is.
fn share_that_fits(space: &Space, gpu: &Gpu, families: &[ShapeFamily]) -> f64 {
    let shapes = sample(space, families);
    let fits = |arch: &&Architecture| {
        memory_use(arch, &space.layouts[0], &space.practice).is_ok_and(|memory| memory.fits(gpu))
    };
    shapes.iter().filter(fits).count() as f64 / shapes.len().max(1) as f64
}
