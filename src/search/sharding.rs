//! How training states are spread when they do not fit: the first step of a fallback sequence under which most fit.

use crate::arch::Dimension;
use crate::arch::Recompute;
use crate::arch::Workload;
use crate::arch::memory_use;
use crate::gpu::Gpu;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;

/// Shapes that are tried per step: a share of one half is then known to 3 %.
const SAMPLE: usize = 256;

/// Replicas, ZeRO stage and recomputation, from one GPU on its own to everything sharded and recomputed. Each step is
/// what teams do before they split GEMMs over ranks: optimizer states over the replicas first (ZeRO, arXiv 1910.02054), then all states, then
/// full recomputation (arXiv 2205.05198).
const FALLBACKS: [(u64, u8, Recompute); 5] = [
    (1, 0, Recompute::None),
    (8, 1, Recompute::None),
    (64, 1, Recompute::None),
    (64, 3, Recompute::None),
    (64, 3, Recompute::Full),
];

/// The workload of the first step under which at least half of the shapes fit, if it is not the one given.
pub fn spread(space: &Space, gpu: &Gpu, families: &[ShapeFamily]) -> Option<Workload> {
    if !space.workload.trains() || (space.workload.dp, space.workload.zero) != (1, 0) {
        return None;
    }
    let steps = FALLBACKS.map(|(dp, zero, recompute)| Workload {
        dp,
        zero,
        // Never less than what was asked for.
        recompute: space.workload.recompute.max(recompute),
        ..space.workload
    });
    let chosen = steps
        .into_iter()
        .find(|work| share_that_fits(space, work, gpu, families) >= 0.5)?;
    (chosen != space.workload).then_some(chosen)
}

/// The share of a sample of shapes that fits under this workload, with the least micro-batch and the most of
/// everything else that is free.
fn share_that_fits(space: &Space, workload: &Workload, gpu: &Gpu, families: &[ShapeFamily]) -> f64 {
    let is_mildest = |shape: &Shape| {
        space.free.iter().all(|(dimension, choices)| {
            let mildest = match dimension {
                Dimension::Batch => choices.iter().min(),
                _ => choices.iter().max(),
            };
            mildest == Some(&shape[*dimension])
        })
    };
    let mildest: Vec<_> = families
        .iter()
        .filter(|family| is_mildest(&family.shape))
        .collect();
    let sample = mildest
        .iter()
        .step_by(mildest.len().div_ceil(SAMPLE).max(1));
    let (mut arch, mut work) = (space.base.clone(), *workload);
    let (mut fitting, mut all) = (0.0, 0.0);
    for family in sample {
        let shape = family.shape(family.count() / 2);
        space.fill(&shape, &mut arch, &mut work);
        all += 1.0;
        if memory_use(&arch, &work).is_ok_and(|memory| memory.fits(gpu)) {
            fitting += 1.0;
        }
    }
    fitting / f64::max(all, 1.0)
}
