//! The lattice of shapes with a given number of parameters.
//!
//! A [`Frame`] fixes everything but the MLP width. The number of parameters is linear in that width, so the widths
//! that meet the budget are an interval, found exactly.

use crate::arch::Architecture;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::search::bounds::Bounds;
use crate::search::bounds::Quantity;
use std::ops::RangeInclusive;

/// Everything a search varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The fields are those of `Architecture` and `Workload`.
pub struct Shape {
    pub layers: u64,
    pub hidden: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub d_ff: u64,
    pub vocab: u64,
    pub batch: u64,
    pub tp: u64,
}

/// A shape whose MLP width is still open: the multiples of `step` in `widths`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The shape; its `d_ff` is the smallest of the widths.
    pub shape: Shape,
    widths: (u64, u64),
    step: u64,
}

impl Frame {
    /// How many widths there are.
    pub fn count(&self) -> u64 {
        (self.widths.1 - self.widths.0) / self.step + 1
    }

    /// The shape with the `index`-th width.
    pub fn shape(&self, index: u64) -> Shape {
        Shape {
            d_ff: self.widths.0 + index * self.step,
            ..self.shape
        }
    }

    /// This frame with the `index`-th width alone.
    #[must_use]
    pub fn only(&self, index: u64) -> Self {
        let shape = self.shape(index);
        Self {
            shape,
            widths: (shape.d_ff, shape.d_ff),
            step: self.step,
        }
    }

    /// The shape whose width is nearest to `d_ff`.
    pub fn nearest(&self, d_ff: u64) -> Shape {
        let inside = d_ff.clamp(self.widths.0, self.widths.1);
        self.shape((inside - self.widths.0 + self.step / 2) / self.step)
    }

    /// Every shape.
    pub fn shapes(&self) -> impl Iterator<Item = Shape> {
        (0..self.count()).map(|index| self.shape(index))
    }
}

/// Which parameters a budget counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// All of them.
    Total,
    /// Those of the layers and the final norm.
    NonEmbedding,
}

impl From<&Architecture> for Shape {
    fn from(arch: &Architecture) -> Self {
        Self {
            layers: arch.layers,
            hidden: arch.hidden,
            heads: arch.heads,
            kv_heads: arch.kv_heads,
            head_dim: arch.head_dim,
            d_ff: arch.mlp.d_ff,
            vocab: arch.vocab,
            batch: 1,
            tp: 1,
        }
    }
}

impl Count {
    /// Every definition.
    pub const ALL: [Self; 2] = [Self::Total, Self::NonEmbedding];

    /// The name used on the command line and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::NonEmbedding => "non-embedding",
        }
    }

    /// The definition with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|count| count.name() == name)
    }

    /// The count of an architecture.
    pub fn of(self, arch: &Architecture) -> u64 {
        let count = parameters(arch);
        match self {
            Self::Total => count.total,
            Self::NonEmbedding => count.non_embedding,
        }
    }
}

/// Dimensions that the user fixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are those of `Architecture`.
pub struct Fixed {
    pub layers: Option<u64>,
    pub hidden: Option<u64>,
    pub heads: Option<u64>,
    pub kv_heads: Option<u64>,
    pub head_dim: Option<u64>,
    pub d_ff: Option<u64>,
    /// Query heads per key/value head.
    pub kv_group: Option<u64>,
}

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
        if let (Some(window), Some(base)) = (&mut arch.window, &self.base.window) {
            // The same share of the layers slides.
            window.layers = (base.layers * shape.layers / self.base.layers).max(1);
        }
        work.batch = shape.batch;
        work.tp = shape.tp;
    }

    /// The architecture and the workload of a shape.
    pub fn build(&self, shape: &Shape) -> (Architecture, Workload) {
        let (mut arch, mut work) = (self.base.clone(), self.workload);
        self.fill(shape, &mut arch, &mut work);
        (arch, work)
    }

    /// Every frame of the lattice that can meet budget and bounds.
    pub fn frames(&self) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut scratch = self.base.clone();
        for hidden in self.hidden_sizes() {
            for layers in self.layer_counts(hidden) {
                if !self.in_reach(layers, hidden, &mut scratch) {
                    continue;
                }
                self.frames_of(layers, hidden, &mut scratch, &mut frames);
            }
        }
        frames
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
            // Only even numbers of heads away from the exact fit, to keep the lattice small.
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
