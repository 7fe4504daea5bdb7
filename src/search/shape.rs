//! One shape of a search, families of shapes that differ in the width of the MLP or of an expert only, and what a budget
//! counts.

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::named_enum;
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// The dimensions that a search varies, in the order by which equally fast shapes are sorted.
pub const VARIED: [Dimension; 16] = [
    Dimension::Layers,
    Dimension::Hidden,
    Dimension::Heads,
    Dimension::KvHeads,
    Dimension::HeadDim,
    Dimension::DFf,
    Dimension::Vocab,
    Dimension::Batch,
    Dimension::Tp,
    Dimension::Pp,
    Dimension::Experts,
    Dimension::TopK,
    Dimension::MoeDFf,
    Dimension::WindowLayers,
    Dimension::KvLoraRank,
    Dimension::LinearLayers,
];

/// Those of them that are of the workload.
const OF_WORKLOAD: [Dimension; 3] = [Dimension::Batch, Dimension::Tp, Dimension::Pp];

/// The place of every dimension in a [`Shape`]; out of bounds for those that a search does not vary.
const PLACES: [usize; Dimension::ALL.len()] = {
    let mut places = [usize::MAX; Dimension::ALL.len()];
    let mut place = 0;
    while place < VARIED.len() {
        places[VARIED[place] as usize] = place;
        place += 1;
    }
    places
};

/// The values of the dimensions that a search varies, indexed by [`Dimension`], under one of the layouts of the search.
///
/// # Panics
/// Indexing panics for a dimension that is not in [`VARIED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    sizes: [u64; VARIED.len()],
    layout: usize,
}

impl Index<Dimension> for Shape {
    type Output = u64;

    fn index(&self, dimension: Dimension) -> &u64 {
        &self.sizes[PLACES[dimension as usize]]
    }
}

impl IndexMut<Dimension> for Shape {
    fn index_mut(&mut self, dimension: Dimension) -> &mut u64 {
        &mut self.sizes[PLACES[dimension as usize]]
    }
}

impl Shape {
    /// The shape that an architecture and its workload have.
    pub fn of(arch: &Architecture, work: &Workload) -> Self {
        Self {
            sizes: VARIED.map(|dimension| dimension.get(arch, work)),
            layout: 0,
        }
    }

    /// Which of the layouts of the search it runs under.
    pub fn layout(&self) -> usize {
        self.layout
    }

    /// This shape under another layout, whose place among those of the search is `at`.
    #[must_use]
    pub fn under(mut self, at: usize, layout: &Workload, base: &Architecture) -> Self {
        self.layout = at;
        for dimension in OF_WORKLOAD {
            self[dimension] = dimension.get(base, layout);
        }
        self
    }

    /// This shape under no layout: equal for shapes that differ in their layout alone.
    #[must_use]
    pub fn under_any(mut self) -> Self {
        self.layout = 0;
        self.without(&OF_WORKLOAD)
    }

    /// This shape with another value of one dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, value: u64) -> Self {
        self[dimension] = value;
        self
    }

    /// This shape with 0 for these dimensions: equal for shapes that differ in them alone.
    #[must_use]
    pub fn without(mut self, dimensions: &[Dimension]) -> Self {
        for dimension in dimensions {
            self[*dimension] = 0;
        }
        self
    }

    /// The dimensions of the workload with their values.
    pub fn of_workload(&self) -> [(Dimension, u64); OF_WORKLOAD.len()] {
        OF_WORKLOAD.map(|dimension| (dimension, self[dimension]))
    }

    /// Writes every dimension into an architecture and a workload, and nothing else.
    pub fn put(&self, arch: &mut Architecture, work: &mut Workload) {
        for (dimension, value) in VARIED.into_iter().zip(self.sizes) {
            dimension.put(arch, work, value);
        }
    }
}

/// Shapes that are equal but for one width: the multiples of `step` in `widths`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeFamily {
    /// The shape with the smallest of the widths.
    pub shape: Shape,
    /// What is as wide: the MLP, or an expert in a mixture of them.
    pub dimension: Dimension,
    /// Least and greatest width.
    pub widths: (u64, u64),
    /// Their distance.
    pub step: u64,
}

impl ShapeFamily {
    /// How many widths there are.
    pub fn count(&self) -> u64 {
        (self.widths.1 - self.widths.0) / self.step + 1
    }

    /// The shape with the `index`-th width.
    pub fn shape(&self, index: u64) -> Shape {
        let width = self.widths.0 + index * self.step;
        self.shape.with(self.dimension, width)
    }

    /// The shape whose width is nearest to this one.
    pub fn nearest(&self, width: u64) -> Shape {
        let inside = width.clamp(self.widths.0, self.widths.1);
        self.shape((inside - self.widths.0 + self.step / 2) / self.step)
    }

    /// Every shape.
    pub fn shapes(&self) -> impl Iterator<Item = Shape> {
        (0..self.count()).map(|index| self.shape(index))
    }
}

named_enum! {
    /// Which parameters a budget counts.
    #[derive(Default)]
    Count {
        /// All of them.
        #[default]
        Total = "total",
        /// Those of the layers and the final norm.
        NonEmbedding = "non-embedding",
        /// Those that one token meets: all but the routed experts that it does not visit.
        Active = "active",
    }
}

impl Count {
    /// The count of an architecture.
    pub fn of(self, arch: &Architecture) -> u64 {
        let count = parameters(arch);
        match self {
            Self::Total => count.total,
            Self::NonEmbedding => count.non_embedding,
            Self::Active => count.active,
        }
    }
}

/// Dimensions that the user fixes, indexed by [`Dimension`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed {
    values: [Option<u64>; VARIED.len()],
    /// Query heads per key/value head.
    pub kv_group: Option<u64>,
}

impl<const COUNT: usize> From<[(Dimension, Option<u64>); COUNT]> for Fixed {
    fn from(values: [(Dimension, Option<u64>); COUNT]) -> Self {
        Self::default().with(values)
    }
}

impl Index<Dimension> for Fixed {
    type Output = Option<u64>;

    fn index(&self, dimension: Dimension) -> &Option<u64> {
        &self.values[PLACES[dimension as usize]]
    }
}

impl Fixed {
    /// These dimensions, too.
    #[must_use]
    pub fn with<const COUNT: usize>(mut self, values: [(Dimension, Option<u64>); COUNT]) -> Self {
        for (dimension, value) in values {
            self.values[PLACES[dimension as usize]] = value;
        }
        self
    }

    /// Every dimension that is fixed, with its size.
    pub fn sizes(&self) -> impl Iterator<Item = (Dimension, u64)> {
        VARIED
            .into_iter()
            .zip(self.values)
            .filter_map(|(dimension, size)| Some((dimension, size?)))
    }

    /// Every dimension that is fixed, each with what stays fixed when it no longer is.
    pub fn without_each(&self) -> impl Iterator<Item = (Dimension, Self)> {
        let fixed = *self;
        let places = VARIED.into_iter().enumerate();
        places.filter_map(move |(place, dimension)| {
            let mut rest = fixed;
            rest.values[place].take().map(|_| (dimension, rest))
        })
    }
}
