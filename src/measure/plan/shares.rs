//! What sets consist of: layouts of GEMMs, heads, masks and passes of attention, memory-bound
//! kernels, and the shares of each.

use crate::ops::{Layout, MemoryKind, Pass};
use serde::{Deserialize, Serialize};

/// Layouts of GEMMs where a plan names none: linear layers run forward more often than backward,
/// and none runs as `tt`.
pub const LAYOUTS: [(Layout, f64); 3] = [(Layout::Tn, 0.6), (Layout::Nn, 0.2), (Layout::Nt, 0.2)];

/// Lengths of whole sequences where a plan names none.
const TOKENS: [u64; 2] = [64, 32_768];

/// What the attention set consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionShares {
    /// Head sizes, in elements, drawn evenly.
    pub head_dims: Vec<u64>,
    /// Share of whole sequences without a causal mask.
    pub bidirectional: f64,
    /// Share of whole sequences that run the backward pass.
    pub backward: f64,
    /// Share of cases with one query against a cache.
    pub decode: f64,
    /// Share of lengths that need not be a multiple of 128 tokens.
    pub off_grid: f64,
    /// Least and greatest length of whole sequences.
    pub tokens: [u64; 2],
}

impl Default for AttentionShares {
    fn default() -> Self {
        Self {
            head_dims: vec![64, 72, 80, 96, 112, 128, 192, 256],
            bidirectional: 0.5,
            backward: 0.5,
            decode: 0.2,
            off_grid: 0.3,
            tokens: TOKENS,
        }
    }
}

impl AttentionShares {
    /// The shares by their names in a plan.
    pub fn shares(&self) -> [(&'static str, f64); 4] {
        [
            ("attention.bidirectional", self.bidirectional),
            ("attention.backward", self.backward),
            ("attention.decode", self.decode),
            ("attention.off_grid", self.off_grid),
        ]
    }
}

/// What the set of memory-bound kernels consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryShares {
    /// Kernels, each as often as the others.
    pub kinds: Vec<MemoryKind>,
    /// Share of shapes that training steps of the presets run; the others fill the space evenly.
    pub presets: f64,
}

impl Default for MemoryShares {
    fn default() -> Self {
        Self {
            kinds: vec![
                MemoryKind::Softmax,
                MemoryKind::LayerNorm,
                MemoryKind::RmsNorm,
                MemoryKind::Gelu,
                MemoryKind::Swiglu,
                MemoryKind::Rotary,
                MemoryKind::Add,
                MemoryKind::Embedding,
                MemoryKind::CrossEntropy,
                MemoryKind::Permute,
                MemoryKind::Quantize,
                MemoryKind::Adam,
                MemoryKind::Copy,
            ],
            presets: 0.5,
        }
    }
}

impl MemoryShares {
    /// The kernels with the passes that each of them has.
    pub fn kernels(&self) -> impl Iterator<Item = (MemoryKind, Pass)> {
        let passes = |kind| match kind {
            MemoryKind::Adam | MemoryKind::Copy | MemoryKind::Quantize | MemoryKind::Zero => &Pass::ALL[..1],
            _ => &Pass::ALL[..],
        };
        let kinds = self.kinds.iter();
        kinds.flat_map(move |&kind| passes(kind).iter().map(move |&pass| (kind, pass)))
    }
}

/// One of these with the probability of its weight; `at` is uniform from 0 to 1.
///
/// # Panics
///
/// Panics without anything to choose from.
pub fn weighted<T: Copy>(from: &[(T, f64)], at: f64) -> T {
    let total: f64 = from.iter().map(|(_, weight)| weight).sum();
    let mut left = at * total;
    for &(one, weight) in from {
        left -= weight;
        if left < 0.0 {
            return one;
        }
    }
    from[from.len() - 1].0
}

/// Merges lists so that every beginning holds each in proportion to its weight, until it ends.
pub fn in_shares<T>(lists: Vec<(f64, Vec<T>)>) -> impl Iterator<Item = T> {
    let mut placed: Vec<(f64, T)> = Vec::new();
    for (weight, list) in lists {
        let numbered = (0u32..).zip(list);
        placed.extend(numbered.map(|(index, one)| ((f64::from(index) + 0.5) / weight, one)));
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    placed.into_iter().map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_of_a_merge_holds_each_list_by_its_weight() {
        let lists = vec![(2.0, vec!['a'; 100]), (1.0, vec!['b'; 100]), (1.0, vec!['c'; 2])];
        let merged: Vec<char> = in_shares(lists).collect();
        let count = |end: usize, wanted: char| merged[..end].iter().filter(|&&one| one == wanted).count();
        assert_eq!((count(8, 'a'), count(8, 'b'), count(8, 'c')), (4, 2, 2));
        // A list that has ended leaves its share to the others.
        assert_eq!((count(62, 'a'), count(62, 'b'), merged.len()), (40, 20, 202));
    }

    #[test]
    fn weights_are_probabilities() {
        let from = [('a', 3.0), ('b', 1.0)];
        let drawn = (0..1000).map(|index| weighted(&from, (f64::from(index) + 0.5) / 1000.0));
        assert_eq!(drawn.filter(|&one| one == 'a').count(), 750);
        assert_eq!(weighted(&from, 1.0), 'b');
    }
}
