//! The layout that all shapes of a training search share: that of a plan for the model that was named, else for a shape in
//! the middle of the lattice.

use crate::arch::{Architecture, Dimension, Recompute, Workload, memory_use};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::plan::{self, Query};
use crate::predict::Predictor;
use crate::search::request::Request;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;

/// Shapes that are looked at for one in the middle, and for the share that fits.
const SAMPLE: usize = 1024;

/// Layers and heads are a multiple of this where any shape's are.
const DIVISIBLE: u64 = 8;

/// The most GPUs that a search takes where nobody says how many.
const MOST_GPUS: u64 = 1 << 13;

/// The layout of a plan over the GPUs of a request, or over the fewest whose plan has one where half of the shapes do not
/// fit; none where the workload stays.
pub fn planned(
    predictor: &Predictor,
    request: &Request,
    space: &Space,
    families: &[ShapeFamily],
) -> Result<Option<Workload>> {
    let work = &request.workload;
    let layout = &request.layout;
    if !work.trains() {
        return Ok(None);
    }
    let stays = || {
        !request.shard
            || (work.dp, work.zero) != (1, 0)
            || share_that_fits(space, predictor.gpu(), families) >= 0.5
    };
    if layout.gpus.is_none() && stays() {
        return Ok(None);
    }
    // A model that was named has to run under it.
    let arch = match request.named {
        true => request.baseline.clone(),
        false => middle(space, families),
    };
    let plans = |gpus: u64| {
        let global_batch = plan::sequences(layout.global_batch, work.seq, gpus)?;
        let query = Query {
            kept: layout.kept.clone(),
            zero: Some(work.zero).filter(|&stage| stage > 0),
            recompute: Some(work.recompute).filter(|asked| *asked != Recompute::None),
            ..Query::training(gpus, global_batch, work)
        };
        plan::tried(predictor, &arch, &query).map(|tried| tried.layouts[0].workload)
    };
    if let Some(gpus) = layout.gpus {
        return plans(gpus).map(Some);
    }
    let counts = std::iter::successors(Some(8), |gpus| Some(gpus * 2));
    let mut counts = counts.take_while(|&gpus| gpus <= MOST_GPUS);
    // Where no number of GPUs has a layout, what does not fit is said of the workload as it is.
    Ok(counts.find_map(|gpus| plans(gpus).ok()))
}

/// A sample of the shapes, the least micro-batch and the most of everything else that is free.
fn sample<'a>(space: &'a Space, families: &'a [ShapeFamily]) -> Vec<Architecture> {
    let is_mildest = |family: &&ShapeFamily| {
        space.free.iter().all(|(dimension, choices)| {
            let mildest = match dimension {
                Dimension::Batch => choices.iter().min(),
                _ => choices.iter().max(),
            };
            mildest == Some(&family.shape[*dimension])
        })
    };
    let mildest: Vec<_> = families.iter().filter(is_mildest).collect();
    let chosen = mildest
        .iter()
        .step_by(mildest.len().div_ceil(SAMPLE).max(1));
    let (mut arch, mut work) = (space.base.clone(), space.workload);
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
    let sizes: [fn(&Architecture) -> u64; 3] =
        [|arch| arch.heads, |arch| arch.kv_heads, |arch| arch.layers];
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

/// The share of a sample of shapes that fits under the workload as it is.
fn share_that_fits(space: &Space, gpu: &Gpu, families: &[ShapeFamily]) -> f64 {
    let shapes = sample(space, families);
    let fitting = shapes
        .iter()
        .filter(|arch| memory_use(arch, &space.workload).is_ok_and(|memory| memory.fits(gpu)));
    fitting.count() as f64 / shapes.len().max(1) as f64
}
