//! A forest while it grows: draws, gradients, splits.

use crate::random::Random;
use crate::train::trees::bins::Column;
use crate::train::trees::histogram::{EMPTY, Histogram, LANES, Pair, count_group, pack, scan};
use crate::train::trees::{Node, TreesConfig};
use std::ops::Range;

/// A place of the growing tree, in terms of bins. A leaf leads to itself on both sides.
#[derive(Clone, Copy)]
struct Branch {
    column: usize,
    bin: u8,
    children: [usize; 2],
    /// The step of a leaf.
    step: f32,
}

/// A leaf of the growing tree. Its histograms are at its own number.
#[derive(Clone)]
struct Leaf {
    /// Its rows' range in [`Grower::bag`].
    rows: Range<usize>,
    gradient: f64,
    weight: f64,
    best: Option<Split>,
    /// Its place in the tree.
    branch: usize,
}

/// Where to split a leaf: at the upper end of a column's bin.
#[derive(Clone, Copy)]
struct Split {
    gain: f32,
    column: usize,
    bin: u8,
}

/// The state of a growing forest, with the room that every tree needs.
pub(super) struct Grower<'a> {
    config: &'a TreesConfig,
    columns: Vec<Column>,
    targets: Vec<f32>,
    /// Scaled to an average of one.
    weights: Vec<f32>,
    pub(super) base: f64,
    random: Random,
    pub(super) scores: Vec<f64>,
    /// Each row's gradient and weight.
    pairs: Vec<Pair>,
    /// All columns, those drawn for the tree first.
    order: Vec<usize>,
    drawn: usize,
    /// The drawn columns' bins, group after group, by row.
    packed: Vec<[u8; LANES]>,
    /// Rows drawn for the tree, each leaf's together.
    bag: Vec<u32>,
    /// Rows left out of the tree.
    rest: Vec<u32>,
    scratch: Vec<u32>,
    gathered: Vec<Pair>,
    /// One run of groups for each leaf.
    histograms: Vec<Histogram>,
    leaves: Vec<Leaf>,
    branches: Vec<Branch>,
}

impl<'a> Grower<'a> {
    pub(super) fn new(
        columns: Vec<Column>,
        targets: Vec<f32>,
        mut weights: Vec<f32>,
        config: &'a TreesConfig,
        seed: u64,
    ) -> Self {
        let rows = targets.len();
        let weight: f64 = weights.iter().copied().map(f64::from).sum();
        let product = |(&weight, &target)| f64::from(weight) * f64::from(target);
        let total: f64 = weights.iter().zip(&targets).map(product).sum();
        let base = if rows == 0 { 0.0 } else { total / weight };
        for value in &mut weights {
            *value = (f64::from(*value) * rows as f64 / weight) as f32;
        }
        let drawn = (columns.len() as f64 * config.feature_fraction).round() as usize;
        let drawn = drawn.max(1).min(columns.len());
        let groups = drawn.div_ceil(LANES);
        Self {
            config,
            order: (0..columns.len()).collect(),
            columns,
            targets,
            weights,
            base,
            random: Random::seeded(seed),
            scores: vec![base; rows],
            pairs: vec![[0.0; 2]; rows],
            drawn,
            packed: vec![[0; LANES]; groups * rows],
            bag: Vec::with_capacity(rows),
            rest: Vec::with_capacity(rows),
            scratch: vec![0; rows],
            gathered: Vec::with_capacity(rows),
            histograms: vec![EMPTY; groups * config.leaves.max(1)],
            leaves: Vec::with_capacity(config.leaves),
            branches: Vec::with_capacity(2 * config.leaves),
        }
    }

    /// Fits one more tree to the residuals and moves the scores by it.
    pub(super) fn add_tree(&mut self) {
        self.draw_rows();
        self.draw_columns();
        self.take_gradients();
        self.init_root();
        while self.leaves.len() < self.config.leaves {
            let Some((leaf, split)) = self.best_leaf() else {
                break;
            };
            self.split(leaf, split);
        }
        self.step();
    }

    /// Draws the tree's rows, without replacement and in order (Knuth's selection sampling).
    fn draw_rows(&mut self) {
        let rows = self.targets.len();
        let mut wanted = (rows as f64 * self.config.row_fraction).round() as usize;
        self.bag.clear();
        self.rest.clear();
        for row in 0..rows {
            if self.random.uniform() * ((rows - row) as f64) < wanted as f64 {
                self.bag.push(row as u32);
                wanted -= 1;
            } else {
                self.rest.push(row as u32);
            }
        }
    }

    /// Draws the tree's columns and packs their bins in groups of like bin counts.
    fn draw_columns(&mut self) {
        self.random.shuffle(&mut self.order);
        let columns = &self.columns;
        let drawn = &mut self.order[..self.drawn];
        drawn.sort_unstable_by_key(|&column| (columns[column].edges.len(), column));
        let rows = self.targets.len().max(1);
        for (group, packed) in drawn.chunks(LANES).zip(self.packed.chunks_mut(rows)) {
            pack(columns, group, packed);
        }
    }

    /// Takes the squared loss's gradient and curvature at each row's score.
    fn take_gradients(&mut self) {
        let rows = self.scores.iter().zip(&self.targets).zip(&self.weights);
        for (pair, ((score, target), weight)) in self.pairs.iter_mut().zip(rows) {
            *pair = [(score - f64::from(*target)) as f32 * weight, *weight];
        }
    }

    /// Starts a tree as a single leaf.
    fn init_root(&mut self) {
        self.branches.clear();
        self.leaves.clear();
        let rows = 0..self.bag.len();
        let (gradient, weight) = self.count(0, rows.clone());
        let branch = self.push_branch();
        self.leaves.push(Leaf {
            rows,
            gradient,
            weight,
            best: None,
            branch,
        });
        self.leaves[0].best = self.best_split(0);
    }

    fn push_branch(&mut self) -> usize {
        let branch = self.branches.len();
        self.branches.push(Branch {
            column: 0,
            bin: 0,
            children: [branch; 2],
            step: 0.0,
        });
        branch
    }

    /// The leaf whose split gains most, the first of equals.
    fn best_leaf(&self) -> Option<(usize, Split)> {
        let splits = self.leaves.iter().enumerate();
        splits
            .filter_map(|(leaf, of)| of.best.map(|split| (leaf, split)))
            .reduce(|best, other| if other.1.gain > best.1.gain { other } else { best })
    }

    /// Splits a leaf: its left part keeps its number, its right part becomes the last leaf.
    ///
    /// The smaller part's histograms are counted; the larger's are what that leaves of the whole's.
    fn split(&mut self, leaf: usize, split: Split) {
        let whole = self.leaves[leaf].clone();
        let middle = self.part(whole.rows.clone(), split);
        let children = [self.push_branch(), self.push_branch()];
        self.branches[whole.branch] = Branch {
            column: split.column,
            bin: split.bin,
            children,
            step: 0.0,
        };
        let last = self.leaves.len();
        let parts = [whole.rows.start..middle, middle..whole.rows.end];
        let smaller = usize::from(parts[1].len() < parts[0].len());
        let (gradient, weight) = self.count(last, parts[smaller].clone());
        self.subtract(leaf, last);
        if smaller == 0 {
            self.swap(leaf, last);
        }
        let mut sums = [(whole.gradient - gradient, whole.weight - weight); 2];
        sums[smaller] = (gradient, weight);
        let [left, right] = [0, 1].map(|side| Leaf {
            rows: parts[side].clone(),
            gradient: sums[side].0,
            weight: sums[side].1,
            best: None,
            branch: children[side],
        });
        self.leaves[leaf] = left;
        self.leaves.push(right);
        if self.leaves.len() < self.config.leaves {
            self.leaves[leaf].best = self.best_split(leaf);
            self.leaves[last].best = self.best_split(last);
        }
    }

    /// Moves the rows of a leaf's left part before those of its right part, each in order.
    /// Returns where the right part begins.
    fn part(&mut self, rows: Range<usize>, split: Split) -> usize {
        let bins = &self.columns[split.column].bins;
        let bag = &mut self.bag[rows.clone()];
        let (mut left, mut right) = (0, 0);
        for at in 0..bag.len() {
            let row = bag[at];
            let goes_right = bins[row as usize] > split.bin;
            bag[left] = row;
            self.scratch[right] = row;
            left += usize::from(!goes_right);
            right += usize::from(goes_right);
        }
        bag[left..].copy_from_slice(&self.scratch[..right]);
        rows.start + left
    }

    /// Counts a leaf's histograms over a range of the bag. Returns the sums of gradient and weight.
    fn count(&mut self, leaf: usize, rows: Range<usize>) -> (f64, f64) {
        let bag = &self.bag[rows];
        let pairs = &self.pairs;
        self.gathered.clear();
        self.gathered.extend(bag.iter().map(|&row| pairs[row as usize]));
        let groups = self.drawn.div_ceil(LANES);
        let histograms = &mut self.histograms[leaf * groups..][..groups];
        let packed = self.packed.chunks(self.targets.len().max(1));
        for (histogram, packed) in histograms.iter_mut().zip(packed) {
            count_group(histogram, packed, bag, &self.gathered);
        }
        let mut sums = (0.0, 0.0);
        for &[gradient, weight] in &self.gathered {
            sums.0 += f64::from(gradient);
            sums.1 += f64::from(weight);
        }
        sums
    }

    /// Takes a later leaf's histograms off an earlier's.
    fn subtract(&mut self, leaf: usize, later: usize) {
        let (whole, part) = self.two(leaf, later);
        for (whole, part) in whole.iter_mut().zip(part) {
            for (whole, part) in whole.iter_mut().zip(part) {
                for (whole, part) in whole.as_flattened_mut().iter_mut().zip(part.as_flattened()) {
                    *whole -= part;
                }
            }
        }
    }

    /// Swaps the histograms of two leaves.
    fn swap(&mut self, leaf: usize, later: usize) {
        let (one, other) = self.two(leaf, later);
        one.swap_with_slice(other);
    }

    fn two(&mut self, leaf: usize, later: usize) -> (&mut [Histogram], &mut [Histogram]) {
        let groups = self.drawn.div_ceil(LANES);
        let (before, after) = self.histograms.split_at_mut(later * groups);
        (&mut before[leaf * groups..][..groups], &mut after[..groups])
    }

    /// The split of a leaf that gains most, the first of equals.
    fn best_split(&self, leaf: usize) -> Option<Split> {
        let least = self.config.min_leaf_rows.max(1) as f32 * (1.0 - 1e-4);
        let Leaf { gradient, weight, .. } = self.leaves[leaf];
        if weight < 2.0 * f64::from(least) {
            return None;
        }
        let drawn = self.order[..self.drawn].chunks(LANES);
        let histograms = &self.histograms[leaf * self.drawn.div_ceil(LANES)..];
        let mut best: Option<Split> = None;
        for (group, histogram) in drawn.zip(histograms) {
            let edges = self.columns[group[group.len() - 1]].edges.len();
            let found = scan(&histogram[..edges], [gradient as f32, weight as f32], least);
            for (&column, (gain, bin)) in group.iter().zip(found) {
                if gain > best.map_or(0.0, |best| best.gain) {
                    best = Some(Split { gain, column, bin });
                }
            }
        }
        best
    }

    /// Gives every leaf its step and moves all scores by it, drawn for the tree or not.
    fn step(&mut self) {
        for leaf in &self.leaves {
            if leaf.weight <= 0.0 {
                continue;
            }
            let step = -self.config.learning_rate * (leaf.gradient / leaf.weight) as f32;
            self.branches[leaf.branch].step = step;
            for &row in &self.bag[leaf.rows.clone()] {
                self.scores[row as usize] += f64::from(step);
            }
        }
        for &row in &self.rest {
            self.scores[row as usize] += f64::from(self.reached(row as usize));
        }
    }

    /// The step of the leaf that a row's bins lead to.
    fn reached(&self, row: usize) -> f32 {
        let mut at = 0;
        loop {
            let branch = &self.branches[at];
            if branch.children[0] == at {
                return branch.step;
            }
            let right = self.columns[branch.column].bins[row] > branch.bin;
            at = branch.children[usize::from(right)];
        }
    }

    /// The tree's nodes for a forest in which it begins at `root`.
    pub(super) fn nodes(&self, root: usize) -> impl Iterator<Item = Node> {
        self.branches.iter().enumerate().map(move |(at, branch)| {
            let children = branch.children.map(|child| (root + child) as u32);
            let (feature, value) = if branch.children[0] == at {
                (0, branch.step)
            } else {
                let column = &self.columns[branch.column];
                (column.feature as u32, column.edges[usize::from(branch.bin)])
            };
            Node {
                feature,
                value,
                children,
            }
        })
    }
}
