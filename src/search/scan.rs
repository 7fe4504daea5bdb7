//! Looking at every shape of a lattice, or at every shape near some of them.

use crate::arch::Dimension;
use crate::predict::Predictor;
use crate::search::Progress;
use crate::search::Watch;
use crate::search::objective::Archive;
use crate::search::objective::Scale;
use crate::search::objective::Worker;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use crate::search::space::Space;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shape families that one task scans, neighbours in width, so that they share most operators.
const BLOCK: usize = 512;

/// Evaluates every shape of these families on all cores. The second value says whether it was stopped early.
pub fn scan(
    predictor: &Predictor,
    space: &Space,
    scale: Scale<'_>,
    families: &[ShapeFamily],
    watch: &Watch<'_>,
) -> (Archive, bool) {
    let stopped = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let archive = families
        .par_chunks(BLOCK)
        .map(|block| {
            let mut worker = Worker::new(predictor, space, scale);
            if stopped.load(Ordering::Relaxed) {
                return worker.archive;
            }
            for shape in block.iter().flat_map(ShapeFamily::shapes) {
                worker.look(&shape);
            }
            let families_done = done.fetch_add(block.len() as u64, Ordering::Relaxed);
            let progress = Progress {
                done: families_done + block.len() as u64,
                total: families.len() as u64,
                best: worker.archive.best,
            };
            if watch(&progress).is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
            worker.archive
        })
        .reduce(Archive::default, Archive::merge);
    (archive, stopped.into_inner())
}

/// Families whose layers and hidden width are within a few steps of a shape's, under the same layout but for its virtual
/// stages.
pub fn near<'a>(
    space: &Space,
    families: &'a [ShapeFamily],
    shape: &'a Shape,
) -> impl Iterator<Item = ShapeFamily> + 'a {
    let within = |dimension: Dimension, other: &Shape, reach: u64| other[dimension].abs_diff(shape[dimension]) <= reach;
    let layouts = space.interleaved_like(shape);
    // Far enough to the next width that heads of another size divide, such as from 40 heads of 96 to 32 of 128.
    let reach = (shape[Dimension::Hidden] / 12).max(128);
    let is_near = move |other: &Shape| {
        layouts.contains(&other.layout())
            && within(Dimension::Layers, other, shape[Dimension::Pp].max(2))
            && within(Dimension::Hidden, other, reach)
            && other.of_workload() == shape.of_workload()
    };
    let near = families.iter().filter(move |family| is_near(&family.shape));
    near.copied()
}
