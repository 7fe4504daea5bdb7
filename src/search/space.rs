//! The lattice of shapes with a given number of parameters.
//!
//! A [`ShapeFamily`] fixes everything but the MLP width. The number of parameters is linear in that width, so the
//! widths that meet the budget are an interval, found exactly.

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::error::Error;
use crate::error::Result;
use crate::search::bounds::Bounds;
use crate::search::bounds::Quantity;
use crate::search::shape::Count;
use crate::search::shape::Fixed;
use crate::search::shape::Shape;
use crate::search::shape::ShapeFamily;
use rayon::prelude::*;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Shape families that are held at most unless told otherwise, about two gigabytes.
pub const MOST_FAMILIES: usize = 20_000_000;

/// How the lattice is nested, the dimension that varies slowest first; layers and hidden width are outside, the
/// micro-batch, which the budget does not depend on, is inside.
const NESTED: [Dimension; 5] = [
    Dimension::Heads,
    Dimension::KvHeads,
    Dimension::Tp,
    Dimension::Pp,
    Dimension::Vocab,
];

/// All shapes of a budget within bounds.
#[derive(Clone, Debug)]
pub struct Space {
    /// What is not varied: norms, positions, biases, kind of MLP.
    pub base: Architecture,
    /// What is run; its free dimensions come from the shape.
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
    /// Dimensions of the workload with their choices, at least one each.
    pub free: Vec<(Dimension, Vec<u64>)>,
    /// Shape families that are held at most.
    pub most_families: usize,
}

impl Space {
    /// Writes a shape into an architecture and a workload made by cloning [`Space::base`] and [`Space::workload`].
    pub fn fill(&self, shape: &Shape, arch: &mut Architecture, work: &mut Workload) {
        shape.put(arch, work);
        let window = self.base.window;
        arch.window =
            window.map(|window| window.scaled(self.base.layers, shape[Dimension::Layers]));
    }

    /// The architecture and the workload of a shape.
    pub fn build(&self, shape: &Shape) -> (Architecture, Workload) {
        let (mut arch, mut work) = (self.base.clone(), self.workload);
        self.fill(shape, &mut arch, &mut work);
        (arch, work)
    }

    /// The values of a dimension beside the others of `shape`, each written into it; heads come with their size.
    pub fn choices(&self, dimension: Dimension, shape: &Shape) -> Vec<Shape> {
        let values = match dimension {
            Dimension::Layers => self.layer_counts(shape[Dimension::Hidden]).collect(),
            Dimension::Hidden => self.hidden_sizes(),
            Dimension::Heads => {
                let pairs = self.heads(shape[Dimension::Hidden]).into_iter();
                let cut = |(heads, size)| {
                    shape
                        .with(Dimension::Heads, heads)
                        .with(Dimension::HeadDim, size)
                };
                return pairs.map(cut).collect();
            }
            Dimension::KvHeads => self.kv_heads(shape[Dimension::Heads]),
            Dimension::Vocab => self.vocabularies(shape[Dimension::Tp]),
            other => {
                let free = self.free.iter().find(|(free, _)| *free == other);
                free.map_or_else(|| vec![shape[other]], |(_, choices)| choices.clone())
            }
        };
        values
            .into_iter()
            .map(|value| shape.with(dimension, value))
            .collect()
    }

    /// Every family of the lattice that can meet budget and bounds, by rising hidden width; none where `go_on` says
    /// no.
    ///
    /// Fails where there are more than memory should hold.
    pub fn families(&self, go_on: &(dyn Fn() -> bool + Sync)) -> Result<Option<Vec<ShapeFamily>>> {
        let (found, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let start = Shape::of(&self.base, &self.workload).with(Dimension::DFf, 0);
        let of_width = |wide: Shape| {
            let mut families = Vec::new();
            let mut scratch = self.base.clone();
            for shape in self.choices(Dimension::Layers, &wide) {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let before = families.len();
                if self.in_reach(&shape, &mut scratch) {
                    self.families_of(&shape, &NESTED, &mut scratch, &mut families);
                }
                let new = families.len() - before;
                if found.fetch_add(new, Ordering::Relaxed) + new > self.most_families || !go_on() {
                    stopped.store(true, Ordering::Relaxed);
                }
            }
            families
        };
        let widths = self.choices(Dimension::Hidden, &start).into_par_iter();
        let families: Vec<_> = widths.flat_map_iter(of_width).collect();
        if families.len() > self.most_families {
            return Err(Error::infeasible(format!(
                "search: the lattice has more than {} shapes before their MLP widths; relax fewer bounds or lower --tolerance",
                self.most_families
            )));
        }
        Ok((!stopped.into_inner()).then_some(families))
    }

    /// Adds the families of a shape in which the dimensions of `nested` are still open.
    fn families_of(
        &self,
        shape: &Shape,
        nested: &[Dimension],
        scratch: &mut Architecture,
        families: &mut Vec<ShapeFamily>,
    ) {
        if let Some((dimension, inner)) = nested.split_first() {
            for shape in self.choices(*dimension, shape) {
                self.families_of(&shape, inner, scratch, families);
            }
        } else if let Some(family) = self.family(*shape, scratch) {
            let batches = self.choices(Dimension::Batch, &family.shape).into_iter();
            families.extend(batches.map(|shape| ShapeFamily { shape, ..family }));
        }
    }

    /// The family of these dimensions, if it can meet budget and bounds.
    pub fn family(&self, shape: Shape, scratch: &mut Architecture) -> Option<ShapeFamily> {
        let [heads, kv_heads, tp] =
            [Dimension::Heads, Dimension::KvHeads, Dimension::Tp].map(|one| shape[one]);
        let divided = kv_heads.is_multiple_of(tp) || tp.is_multiple_of(kv_heads);
        if !heads.is_multiple_of(kv_heads) || !heads.is_multiple_of(tp) || !divided {
            return None;
        }
        let mut work = self.workload;
        self.fill(&shape, scratch, &mut work);
        if !scratch.layers.is_multiple_of(work.pp) {
            return None;
        }
        let mut count_at = |d_ff| {
            scratch.mlp.d_ff = d_ff;
            self.count.of(scratch)
        };
        let unit = 64;
        let base = count_at(unit);
        let slope = (count_at(2 * unit) - base) as f64 / unit as f64;
        let rest = base as f64 - slope * unit as f64;
        let width = |count: u64| (count as f64 - rest) / slope;
        let [least, most] = self.width_limits(shape[Dimension::Hidden]);
        let (low, high) = (
            width(self.budget.0).max(least),
            width(self.budget.1).min(most),
        );
        let from_to = |first, last, step| ShapeFamily {
            shape: shape.with(Dimension::DFf, first),
            widths: (first, last),
            step,
        };
        if let Some(d_ff) = self.fixed[Dimension::DFf] {
            let inside = (low - 1e-6..=high + 1e-6).contains(&(d_ff as f64));
            return (inside && d_ff.is_multiple_of(tp)).then(|| from_to(d_ff, d_ff, 1));
        }
        if !(high >= 1.0 && low <= high) {
            return None;
        }
        let step = self.bounds.d_ff_step(high, tp);
        let first = ((low - 1e-6).max(1.0) as u64).next_multiple_of(step);
        // Rounding down may lose the exact start of the interval.
        let first = if (first as f64) < low - 1e-6 {
            first + step
        } else {
            first
        };
        let last = (high + 1e-6) as u64 / step * step;
        (first <= last).then(|| from_to(first, last, step))
    }

    /// Hidden sizes to choose from.
    pub fn hidden_sizes(&self) -> Vec<u64> {
        match self.fixed[Dimension::Hidden] {
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
        let sizes: Vec<u64> = match self.fixed[Dimension::HeadDim] {
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
        if let Some(heads) = self.fixed[Dimension::Heads] {
            pairs.retain(|(number, _)| *number == heads);
            if pairs.is_empty()
                && self.fixed[Dimension::HeadDim].is_none()
                && hidden.is_multiple_of(heads)
            {
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
            .filter(|kv| self.fixed[Dimension::KvHeads].is_none_or(|fixed| fixed == *kv))
            .filter(|kv| self.fixed.kv_group.is_none_or(|fixed| fixed == heads / kv))
            .collect()
    }

    fn layer_counts(&self, hidden: u64) -> RangeInclusive<u64> {
        if let Some(layers) = self.fixed[Dimension::Layers] {
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
    fn in_reach(&self, shape: &Shape, scratch: &mut Architecture) -> bool {
        let hidden = shape[Dimension::Hidden];
        let pairs = self.heads(hidden);
        let widths = pairs.iter().map(|(heads, size)| heads * size);
        let (Some(narrow), Some(wide)) = (widths.clone().min(), widths.max()) else {
            return false;
        };
        let [least, most] = match self.fixed[Dimension::DFf] {
            Some(d_ff) => [d_ff as f64; 2],
            None => self.width_limits(hidden),
        };
        let mut work = self.workload;
        let mut count = |width: u64, kv: u64, d_ff: f64, vocab: u64| {
            self.fill(shape, scratch, &mut work);
            (scratch.heads, scratch.kv_heads, scratch.head_dim) = (width, kv, 1);
            (scratch.mlp.d_ff, scratch.vocab) = (d_ff as u64, vocab);
            self.count.of(scratch)
        };
        // No padding adds more than a unit of 1024 rows on each rank.
        let ranks = self.choices(Dimension::Tp, shape);
        let ranks = ranks.iter().map(|shape| shape[Dimension::Tp]).max();
        let padded = self.vocab + 1024 * ranks.unwrap_or(1);
        let smallest = count(narrow, 1, least.max(1.0), self.vocab);
        let largest = count(wide, wide, most.min(1e6), padded);
        smallest <= self.budget.1 && largest >= self.budget.0
    }
}

/// Head sizes to choose from: multiples of 8, of 16 from 64 on.
fn head_sizes([least, most]: [f64; 2]) -> impl Iterator<Item = u64> {
    (1..=64u64)
        .map(|eighths| eighths * 8)
        .filter(move |&size| (least..=most).contains(&(size as f64)))
        .filter(|size| *size < 64 || size.is_multiple_of(16))
}
