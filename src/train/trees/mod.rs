//! Gradient-boosted regression trees, which label unmeasured shapes.
//!
//! A small histogram learner in the manner of LightGBM (Ke et al., "LightGBM: A Highly Efficient
//! Gradient Boosting Decision Tree", NIPS 2017) for squared loss: features are cut into at most 256
//! quantile bins, trees grow best leaf first, and of two siblings only the smaller has its histogram
//! counted, the other's being the parent's less that one. Every tree sees its own draw of rows
//! (stochastic gradient boosting, Friedman 2002) and of features.
//!
//! `docs/method/notebook.md` compares it with learners of other crates.

mod bins;
mod grower;
mod histogram;

#[cfg(test)]
mod tests;

use crate::train::trees::bins::Column;
use crate::train::trees::grower::Grower;
use rayon::prelude::*;

/// How a forest grows.
#[derive(Clone, Debug, PartialEq)]
pub struct TreesConfig {
    /// Trees, each fitted to what the earlier ones leave.
    pub trees: usize,
    /// Most leaves of a tree.
    pub leaves: usize,
    /// The part of each leaf's step that is taken.
    pub learning_rate: f32,
    /// The least weight of a leaf, in rows of average weight.
    pub min_leaf_rows: usize,
    /// The part of the features that each tree may split on.
    pub feature_fraction: f64,
    /// The part of the rows that each tree is fitted to.
    pub row_fraction: f64,
    /// Most bins of a feature, 2 to 256.
    pub bins: usize,
}

impl Default for TreesConfig {
    fn default() -> Self {
        Self {
            trees: 1500,
            leaves: 63,
            learning_rate: 0.05,
            min_leaf_rows: 10,
            feature_fraction: 0.4,
            row_fraction: 0.8,
            bins: 255,
        }
    }
}

/// A grown forest; its prediction is the base plus one leaf of every tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Forest {
    width: usize,
    base: f64,
    nodes: Vec<Node>,
    /// The first node of each tree.
    roots: Vec<u32>,
}

/// One place of a tree. A leaf leads to itself on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    feature: u32,
    /// A split's greatest value that goes left, or a leaf's step.
    value: f32,
    /// Places in the forest: where values up to `value` go, and where all others do.
    children: [u32; 2],
}

/// Rows that one task of a prediction takes through the forest together.
const BLOCK: usize = 256;

/// Rows that descend a tree in step, hiding each other's memory latency.
const ABREAST: usize = 8;

impl Forest {
    /// What it was after its first trees.
    pub fn first(mut self, trees: usize) -> Self {
        self.roots.truncate(trees);
        self
    }

    /// Predictions for row-major `inputs`, on all threads.
    pub fn predict(&self, inputs: &[f32]) -> Vec<f32> {
        let mut predictions = vec![0.0; inputs.len() / self.width];
        predictions
            .par_chunks_mut(BLOCK)
            .zip(inputs.par_chunks(BLOCK * self.width))
            .for_each(|(predictions, inputs)| self.predict_block(inputs, predictions));
        predictions
    }

    fn predict_block(&self, inputs: &[f32], predictions: &mut [f32]) {
        let mut sums = [self.base; BLOCK];
        let sums = &mut sums[..predictions.len()];
        for &root in &self.roots {
            for (inputs, sums) in inputs.chunks(ABREAST * self.width).zip(sums.chunks_mut(ABREAST)) {
                self.descend(root, inputs, sums);
            }
        }
        for (prediction, sum) in predictions.iter_mut().zip(sums) {
            *prediction = *sum as f32;
        }
    }

    /// Adds to each of up to [`ABREAST`] rows' sums the leaf that it reaches from `root`.
    fn descend(&self, root: u32, inputs: &[f32], sums: &mut [f64]) {
        let mut places = [root; ABREAST];
        let places = &mut places[..sums.len()];
        let mut moved = true;
        while moved {
            moved = false;
            for (place, row) in places.iter_mut().zip(inputs.chunks_exact(self.width)) {
                let node = &self.nodes[*place as usize];
                let left = row[node.feature as usize] <= node.value;
                let next = node.children[usize::from(!left)];
                moved |= next != *place;
                *place = next;
            }
        }
        for (sum, &place) in sums.iter_mut().zip(places.iter()) {
            *sum += f64::from(self.nodes[place as usize].value);
        }
    }
}

/// Grows a forest on row-major, finite `inputs` for squared loss.
///
/// Rows of weight zero play no part, nor do features with one value. One thread does all the work,
/// so a seed gives the same forest everywhere; `progress` receives the number of finished trees.
pub fn grow(
    width: usize,
    inputs: &[f32],
    targets: &[f32],
    weights: &[f32],
    config: &TreesConfig,
    seed: u64,
    progress: &mut dyn FnMut(usize),
) -> Forest {
    let kept: Vec<u32> = (0..targets.len() as u32)
        .filter(|&row| weights[row as usize] > 0.0)
        .collect();
    let columns = (0..width)
        .filter_map(|feature| Column::cut(feature, width, inputs, &kept, config.bins))
        .collect();
    let pick = |values: &[f32]| kept.iter().map(|&row| values[row as usize]).collect();
    let mut grower = Grower::new(columns, pick(targets), pick(weights), config, seed);
    let mut forest = Forest {
        width,
        base: grower.base,
        nodes: Vec::new(),
        roots: Vec::new(),
    };
    for tree in 0..config.trees {
        grower.add_tree();
        let root = forest.nodes.len();
        forest.nodes.extend(grower.nodes(root));
        forest.roots.push(root as u32);
        progress(tree + 1);
    }
    forest
}
