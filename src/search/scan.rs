//! Looking at every shape of a lattice, or at every shape near some of them.

use crate::predict::Predictor;
use crate::search::Progress;
use crate::search::Watch;
use crate::search::objective::Archive;
use crate::search::objective::Worker;
use crate::search::shape::Frame;
use crate::search::shape::Shape;
use crate::search::space::Space;
use crate::units::Seconds;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Frames that one task scans, neighbours in width, so that they share most operators.
const BLOCK: usize = 512;

/// Evaluates every shape of these frames on all cores. The second value says whether it was stopped early.
pub fn scan(
    predictor: &Predictor,
    space: &Space,
    reference: Seconds,
    frames: &[Frame],
    watch: &Watch<'_>,
) -> (Archive, bool) {
    let stopped = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let archive = frames
        .par_chunks(BLOCK)
        .map(|block| {
            let mut worker = Worker::new(predictor, space, reference);
            if stopped.load(Ordering::Relaxed) {
                return worker.archive;
            }
            for shape in block.iter().flat_map(Frame::shapes) {
                worker.cost(&shape);
            }
            let frames_done = done.fetch_add(block.len() as u64, Ordering::Relaxed);
            let progress = Progress {
                done: frames_done + block.len() as u64,
                total: frames.len() as u64,
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

/// Frames whose layers and width are within a few steps of a shape's, on the same ranks.
pub fn near<'a>(frames: &'a [Frame], shape: &Shape) -> impl Iterator<Item = Frame> + 'a {
    let Shape {
        layers,
        hidden,
        batch,
        tp,
        ..
    } = *shape;
    // Two steps of the lattice are at most an eighth of a width.
    let reach = (hidden / 16).max(128);
    frames
        .iter()
        .filter(move |frame| {
            let other = &frame.shape;
            other.layers.abs_diff(layers) <= 2
                && other.hidden.abs_diff(hidden) <= reach
                && (other.batch, other.tp) == (batch, tp)
        })
        .copied()
}

/// Random shapes, drawn with replacement, each as a frame of one width.
pub fn sample(frames: &[Frame], count: u64, seed: u64) -> Vec<Frame> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = || {
        let frame = &frames[random.random_range(0..frames.len())];
        frame.only(random.random_range(0..frame.count()))
    };
    (0..count).map(|_| draw()).collect()
}
