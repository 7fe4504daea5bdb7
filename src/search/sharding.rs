//! How training states are spread when they do not fit: the first rung of a ladder on which most shapes fit.

use crate::arch::Recompute;
use crate::arch::Workload;
use crate::arch::memory_use;
use crate::gpu::Gpu;
use crate::search::shape::Frame;
use crate::search::space::Space;

/// Shapes that are tried per rung.
const SAMPLE: usize = 256;

/// From one GPU on its own to everything sharded and recomputed. Each rung is what teams do before they split
/// products over ranks: optimizer states over the replicas first (ZeRO, arXiv 1910.02054), then all states, then
/// full recomputation (arXiv 2205.05198).
const LADDER: [(u64, u8, Recompute); 5] = [
    (1, 0, Recompute::None),
    (8, 1, Recompute::None),
    (64, 1, Recompute::None),
    (64, 3, Recompute::None),
    (64, 3, Recompute::Full),
];

/// The workload of the first rung on which at least half of the shapes fit, if it is not the one given.
pub fn spread(space: &Space, gpu: &Gpu, frames: &[Frame]) -> Option<Workload> {
    if !space.workload.trains() || (space.workload.dp, space.workload.zero) != (1, 0) {
        return None;
    }
    let rungs = LADDER.map(|(dp, zero, recompute)| Workload {
        dp,
        zero,
        // Never less than what was asked for.
        recompute: space.workload.recompute.max(recompute),
        ..space.workload
    });
    let chosen = rungs
        .into_iter()
        .find(|work| share_that_fits(space, work, gpu, frames) >= 0.5)?;
    (chosen != space.workload).then_some(chosen)
}

/// The share of a sample of shapes that fits under this workload, with the least micro-batch and the most ranks
/// where these are free.
fn share_that_fits(space: &Space, workload: &Workload, gpu: &Gpu, frames: &[Frame]) -> f64 {
    let (batch, tp) = (space.batches.iter().min(), space.ranks.iter().max());
    let mildest: Vec<_> = frames
        .iter()
        .filter(|frame| (Some(&frame.shape.batch), Some(&frame.shape.tp)) == (batch, tp))
        .collect();
    let sample = mildest
        .iter()
        .step_by(mildest.len().div_ceil(SAMPLE).max(1));
    let (mut arch, mut work) = (space.base.clone(), *workload);
    let (mut fitting, mut all) = (0.0, 0.0);
    for frame in sample {
        let shape = frame.shape(frame.count() / 2);
        space.fill(&shape, &mut arch, &mut work);
        all += 1.0;
        if memory_use(&arch, &work).is_ok_and(|memory| memory.fits(gpu)) {
            fitting += 1.0;
        }
    }
    fitting / f64::max(all, 1.0)
}
