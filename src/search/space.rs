//! The lattice of shapes with a given number of parameters.
//!
//! A [`Frame`] fixes everything but the MLP width. The number of parameters is linear in that width, so the widths
//! that meet the budget are an interval, found exactly.

use crate::arch::Architecture;
use crate::arch::Workload;
use crate::error::Error;
use crate::error::Result;
use crate::search::bounds::Bounds;
use crate::search::bounds::Quantity;
use crate::search::shape::Count;
use crate::search::shape::Fixed;
use crate::search::shape::Frame;
use crate::search::shape::Shape;
use rayon::prelude::*;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Frames that are held at most unless told otherwise, about two gigabytes.
pub const MOST_FRAMES: usize = 20_000_000;

/// All shapes of a budget within bounds.
#[derive(Clone, Debug)]
pub struct Space {
    /// What is not varied: norms, positions, biases, kind of MLP.
    pub base: Architecture,
    /// What is run; batch and tensor-parallel degree come from the shape.
    pub workload: Workload,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Least and greatest count of parameters.
    pub budget: (u64, u64),
    /// What the budget counts.
    pub count: Count,
    /// Vocabulary asked for.
    pub vocab: u64,
    /// What the user fixes.
    pub fixed: Fixed,
    /// Micro-batches to choose from.
    pub batches: Vec<u64>,
    /// Tensor-parallel degrees to choose from.
    pub ranks: Vec<u64>,
    /// Frames that are held at most.
    pub most_frames: usize,
}

impl Space {
    /// Writes a shape into an architecture and a workload made by cloning [`Space::base`] and [`Space::workload`].
    pub fn fill(&self, shape: &Shape, arch: &mut Architecture, work: &mut Workload) {
        arch.layers = shape.layers;
        arch.hidden = shape.hidden;
        arch.heads = shape.heads;
        arch.kv_heads = shape.kv_heads;
        arch.head_dim = shape.head_dim;
        arch.mlp.d_ff = shape.d_ff;
        arch.vocab = shape.vocab;
        let window = self.base.window;
        arch.window = window.map(|window| window.scaled(self.base.layers, shape.layers));
        work.batch = shape.batch;
        work.tp = shape.tp;
    }

    /// The architecture and the workload of a shape.
    pub fn build(&self, shape: &Shape) -> (Architecture, Workload) {
        let (mut arch, mut work) = (self.base.clone(), self.workload);
        self.fill(shape, &mut arch, &mut work);
        (arch, work)
    }

    /// Every frame of the lattice that can meet budget and bounds, by rising width; none where `go_on` says no.
    ///
    /// Fails where there are more than memory should hold.
    pub fn frames(&self, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Option<Vec<Frame>>> {
        let (found, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let of_width = |hidden| {
            let mut frames = Vec::new();
            let mut scratch = self.base.clone();
            for layers in self.layer_counts(hidden) {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let before = frames.len();
                if self.in_reach(layers, hidden, &mut scratch) {
                    self.frames_of(layers, hidden, &mut scratch, &mut frames);
                }
                let new = frames.len() - before;
                if found.fetch_add(new, Ordering::Relaxed) + new > self.most_frames || !go_on() {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
            frames
        };
        let widths = self.hidden_sizes().into_par_iter();
        let frames: Vec<_> = widths.flat_map_iter(of_width).collect();
        if frames.len() > self.most_frames {
            return Err(Error::infeasible(format!(
                "search: the lattice has more than {} shapes before their MLP widths; relax fewer bounds or lower --tolerance",
                self.most_frames
            )));
        }
        Ok((!stopped.into_inner()).then_some(frames))
    }

    /// The frame of these dimensions, if it can meet budget and bounds.
    pub fn frame(&self, shape: Shape, scratch: &mut Architecture) -> Option<Frame> {
        let Shape {
            heads,
            kv_heads,
            tp,
            ..
        } = shape;
        let divided = kv_heads.is_multiple_of(tp) || tp.is_multiple_of(kv_heads);
        if !heads.is_multiple_of(kv_heads) || !heads.is_multiple_of(tp) || !divided {
            return None;
        }
        if !shape.layers.is_multiple_of(self.workload.pp) {
            return None;
        }
        let mut work = self.workload;
        self.fill(&shape, scratch, &mut work);
        let mut count_at = |d_ff| {
            scratch.mlp.d_ff = d_ff;
            self.count.of(scratch)
        };
        let unit = 64;
        let base = count_at(unit);
        let slope = (count_at(2 * unit) - base) as f64 / unit as f64;
        let rest = base as f64 - slope * unit as f64;
        let width = |count: u64| (count as f64 - rest) / slope;
        let [least, most] = self.width_limits(shape.hidden);
        let (low, high) = (
            width(self.budget.0).max(least),
            width(self.budget.1).min(most),
        );
        if let Some(d_ff) = self.fixed.d_ff {
            let inside = (low - 1e-6..=high + 1e-6).contains(&(d_ff as f64));
            let inside = inside && d_ff.is_multiple_of(tp);
            let shape = Shape { d_ff, ..shape };
            return inside.then_some(Frame {
                shape,
                widths: (d_ff, d_ff),
                step: 1,
            });
        }
        if !(high >= 1.0 && low <= high) {
            return None;
        }
        let step = self.bounds.d_ff_step(high, shape.tp);
        let first = ((low - 1e-6).max(1.0) as u64).next_multiple_of(step);
        // Rounding down may lose the exact start of the interval.
        let first = if (first as f64) < low - 1e-6 {
            first + step
        } else {
            first
        };
        let last = (high + 1e-6) as u64 / step * step;
        (first <= last).then_some(Frame {
            shape: Shape {
                d_ff: first,
                ..shape
            },
            widths: (first, last),
            step,
        })
    }

    /// Hidden sizes to choose from.
    pub fn hidden_sizes(&self) -> Vec<u64> {
        match self.fixed.hidden {
            Some(hidden) => vec![hidden],
            None => self.bounds.hidden_sizes(),
        }
    }

    /// Padded vocabularies to choose from: every rank's share is a multiple of a power of two from 64 on.
    pub fn vocabularies(&self, tp: u64) -> Vec<u64> {
        let [_, most] = self.bounds.limits(Quantity::VocabPadding);
        let mut sizes: Vec<u64> = [64, 128, 256, 512, 1024]
            .map(|unit| self.vocab.next_multiple_of(unit * tp))
            .into_iter()
            .filter(|&size| size as f64 <= self.vocab as f64 * most)
            .collect();
        if sizes.is_empty() {
            sizes.push(self.vocab.next_multiple_of(tp));
        }
        sizes.dedup();
        sizes
    }

    /// Numbers of query heads, each with its size.
    pub fn heads(&self, hidden: u64) -> Vec<(u64, u64)> {
        let sizes: Vec<u64> = match self.fixed.head_dim {
            Some(size) => vec![size],
            None => head_sizes(self.bounds.limits(Quantity::HeadDim)).collect(),
        };
        let [least, most] = self.bounds.limits(Quantity::HeadWidth);
        let mut pairs = Vec::new();
        for size in sizes {
            let heads = |share: f64| share * hidden as f64 / size as f64;
            let range = (heads(least) - 1e-9).ceil() as u64..=(heads(most) + 1e-9) as u64;
            // Only multiples of four away from the exact fit, to keep the lattice small.
            let wanted =
                |&heads: &u64| heads > 0 && (heads * size == hidden || heads.is_multiple_of(4));
            pairs.extend(range.filter(wanted).map(|heads| (heads, size)));
        }
        if let Some(heads) = self.fixed.heads {
            pairs.retain(|(number, _)| *number == heads);
            if pairs.is_empty() && self.fixed.head_dim.is_none() && hidden.is_multiple_of(heads) {
                let size = hidden / heads;
                let [low, high] = self.bounds.limits(Quantity::HeadDim);
                if (low..=high).contains(&(size as f64)) {
                    pairs.push((heads, size));
                }
            }
        }
        pairs
    }

    /// Numbers of key/value heads for this many query heads.
    pub fn kv_heads(&self, heads: u64) -> Vec<u64> {
        let [least, most] = self.bounds.limits(Quantity::KvGroup);
        (1..=heads)
            .filter(|kv| heads.is_multiple_of(*kv))
            .filter(|kv| (least..=most).contains(&((heads / kv) as f64)))
            .filter(|kv| self.fixed.kv_heads.is_none_or(|fixed| fixed == *kv))
            .filter(|kv| self.fixed.kv_group.is_none_or(|fixed| fixed == heads / kv))
            .collect()
    }

    fn layer_counts(&self, hidden: u64) -> RangeInclusive<u64> {
        if let Some(layers) = self.fixed.layers {
            return layers..=layers;
        }
        let [thin, wide] = self.bounds.limits(Quantity::AspectRatio);
        let [least, most] = self.bounds.limits(Quantity::Layers);
        let low = (hidden as f64 / wide).max(least).ceil();
        let high = (hidden as f64 / thin).min(most).floor();
        low as u64..=high as u64
    }

    fn width_limits(&self, hidden: u64) -> [f64; 2] {
        let ratio = match self.base.mlp.kind.up_factor() {
            1 => Quantity::FfnRatioPlain,
            _ => Quantity::FfnRatioGated,
        };
        self.bounds.limits(ratio).map(|limit| limit * hidden as f64)
    }

    /// Whether any heads and MLP width can meet the budget: a quick look before all are tried.
    fn in_reach(&self, layers: u64, hidden: u64, scratch: &mut Architecture) -> bool {
        let pairs = self.heads(hidden);
        let widths = pairs.iter().map(|(heads, size)| heads * size);
        let (Some(narrow), Some(wide)) = (widths.clone().min(), widths.max()) else {
            return false;
        };
        let [least, most] = match self.fixed.d_ff {
            Some(d_ff) => [d_ff as f64; 2],
            None => self.width_limits(hidden),
        };
        let mut work = self.workload;
        let mut count = |width: u64, kv: u64, d_ff: f64, vocab: f64| {
            let shape = Shape {
                layers,
                hidden,
                heads: width,
                kv_heads: kv,
                head_dim: 1,
                d_ff: d_ff as u64,
                vocab: vocab as u64,
                batch: 1,
                tp: 1,
            };
            self.fill(&shape, scratch, &mut work);
            self.count.of(scratch)
        };
        let asked = self.vocab as f64;
        // No padding adds more than a unit of 1024 rows on each rank.
        let padded = asked + 1024.0 * self.ranks.iter().copied().max().unwrap_or(1) as f64;
        let smallest = count(narrow, 1, least.max(1.0), asked);
        let largest = count(wide, wide, most.min(1e6), padded);
        smallest <= self.budget.1 && largest >= self.budget.0
    }

    fn frames_of(
        &self,
        layers: u64,
        hidden: u64,
        scratch: &mut Architecture,
        frames: &mut Vec<Frame>,
    ) {
        for (heads, head_dim) in self.heads(hidden) {
            for kv_heads in self.kv_heads(heads) {
                for &tp in &self.ranks {
                    for vocab in self.vocabularies(tp) {
                        let shape = Shape {
                            layers,
                            hidden,
                            heads,
                            kv_heads,
                            head_dim,
                            d_ff: 0,
                            vocab,
                            batch: 1,
                            tp,
                        };
                        let Some(frame) = self.frame(shape, scratch) else {
                            continue;
                        };
                        frames.extend(self.batches.iter().map(|&batch| Frame {
                            shape: Shape {
                                batch,
                                ..frame.shape
                            },
                            ..frame
                        }));
                    }
                }
            }
        }
    }
}

/// Head sizes to choose from: multiples of 8, of 16 from 64 on.
fn head_sizes([least, most]: [f64; 2]) -> impl Iterator<Item = u64> {
    (1..=64u64)
        .map(|eighths| eighths * 8)
        .filter(move |&size| (least..=most).contains(&(size as f64)))
        .filter(|size| *size < 64 || size.is_multiple_of(16))
}
