//! One shape of a search, frames of shapes that differ in MLP width only, and what a budget counts.

use crate::arch::Architecture;
use crate::arch::parameters;

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
    /// Least and greatest width.
    pub widths: (u64, u64),
    /// Their distance.
    pub step: u64,
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

named_enum! {
    /// Which parameters a budget counts.
    #[derive(Default)]
    Count {
        /// All of them.
        #[default]
        Total = "total",
        /// Those of the layers and the final norm.
        NonEmbedding = "non-embedding",
    }
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
