//! Gradient-boosted regression trees: a teacher that labels shapes nobody measured.
//!
//! A small histogram learner in the manner of LightGBM (Ke et al., "LightGBM: A Highly Efficient
//! Gradient Boosting Decision Tree", NIPS 2017) for squared loss: features are cut into at most 256
//! quantile bins, trees grow best leaf first, and of two siblings only the smaller has its histogram
//! counted, the other's being the parent's less that one. Every tree sees its own draw of rows
//! (stochastic gradient boosting, Friedman 2002) and of features.
//!
//! A tree's features are taken four at a time: their bins lie side by side, so that one load serves
//! four counts, and so do their histograms, so that four features are scanned at once. Features of
//! like bin counts share a group.

use std::array::from_fn;
use std::ops::Range;

use rayon::prelude::*;

use crate::random::Random;

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
            for (inputs, sums) in inputs
                .chunks(ABREAST * self.width)
                .zip(sums.chunks_mut(ABREAST))
            {
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
/// so a seed gives the same forest everywhere; `progress` hears how many trees stand.
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

/// A feature cut into bins.
struct Column {
    feature: usize,
    /// The greatest value of every bin but the last.
    edges: Vec<f32>,
    /// The bin of each row.
    bins: Vec<u8>,
}

impl Column {
    /// The feature's column over the rows `kept`, or none if it has one value there.
    fn cut(
        feature: usize,
        width: usize,
        inputs: &[f32],
        kept: &[u32],
        bins: usize,
    ) -> Option<Self> {
        let value = |&row: &u32| inputs[row as usize * width + feature];
        let mut sorted: Vec<f32> = kept.iter().map(value).collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let edges = cut_edges(&sorted, bins.clamp(2, 256));
        let bin = |row| edges.partition_point(|&edge| edge < value(row)) as u8;
        let bins = kept.iter().map(bin).collect();
        (!edges.is_empty()).then_some(Self {
            feature,
            edges,
            bins,
        })
    }
}

/// Cuts sorted values into bins: one for each distinct value where they suffice, else about equally
/// full ones, a value that would fill a bin by itself having its own.
fn cut_edges(sorted: &[f32], bins: usize) -> Vec<f32> {
    let distinct: Vec<(f32, usize)> = sorted
        .chunk_by(|a, b| a == b)
        .map(|equal| (equal[0], equal.len()))
        .collect();
    let crowd = if distinct.len() <= bins {
        1
    } else {
        sorted.len().div_ceil(bins)
    };
    let crowds = || distinct.iter().filter(|(_, count)| *count >= crowd);
    let mut rows_left = sorted.len() - crowds().map(|(_, count)| count).sum::<usize>();
    let mut bins_left = bins.saturating_sub(crowds().count()).max(1);
    let mut edges = Vec::new();
    let mut filled = 0;
    for pair in distinct.windows(2) {
        let ((value, count), (next, next_count)) = (pair[0], pair[1]);
        filled += count;
        let alone = count >= crowd;
        let full = alone || next_count >= crowd || filled * bins_left >= rows_left;
        if full && edges.len() + 1 < bins {
            edges.push(between(value, next));
            if !alone {
                rows_left -= filled;
                bins_left = bins_left.saturating_sub(1).max(1);
            }
            filled = 0;
        }
    }
    edges
}

/// A threshold at or above `low` and below `high`: their middle, where that can be told from `high`.
fn between(low: f32, high: f32) -> f32 {
    let middle = low / 2.0 + high / 2.0;
    if low <= middle && middle < high {
        middle
    } else {
        low
    }
}

/// Features that share a group.
const LANES: usize = 4;

/// Sums of a gradient and of a weight.
type Pair = [f32; 2];

/// The histogram of a group of features, by bin.
type Histogram = [[Pair; LANES]; 256];

const EMPTY: Histogram = [[[0.0; 2]; LANES]; 256];

/// A place of the growing tree, in terms of bins. A leaf leads to itself on both sides.
#[derive(Clone, Copy)]
struct Branch {
    column: usize,
    bin: u8,
    children: [usize; 2],
    /// The step of a leaf.
    step: f32,
}

/// A leaf of the growing tree. Its histograms stand at its own number.
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
struct Grower<'a> {
    config: &'a TreesConfig,
    columns: Vec<Column>,
    targets: Vec<f32>,
    /// Scaled to an average of one.
    weights: Vec<f32>,
    base: f64,
    random: Random,
    scores: Vec<f64>,
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
    fn new(
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
    fn add_tree(&mut self) {
        self.draw_rows();
        self.draw_columns();
        self.take_gradients();
        self.plant();
        while self.leaves.len() < self.config.leaves {
            let Some((leaf, split)) = self.most_promising() else {
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
    fn plant(&mut self) {
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
    fn most_promising(&self) -> Option<(usize, Split)> {
        let splits = self.leaves.iter().enumerate();
        splits
            .filter_map(|(leaf, of)| of.best.map(|split| (leaf, split)))
            .reduce(|best, other| {
                if other.1.gain > best.1.gain {
                    other
                } else {
                    best
                }
            })
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
        self.gathered
            .extend(bag.iter().map(|&row| pairs[row as usize]));
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
        let Leaf {
            gradient, weight, ..
        } = self.leaves[leaf];
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

    /// The tree's nodes for a forest in which it stands at `root`.
    fn nodes(&self, root: usize) -> impl Iterator<Item = Node> {
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

/// Lays a group's bins side by side, row by row.
fn pack(columns: &[Column], group: &[usize], packed: &mut [[u8; LANES]]) {
    let mut bins = group.iter().map(|&column| columns[column].bins.iter());
    if let [Some(a), Some(b), Some(c), Some(d)] = [(); LANES].map(|()| bins.next()) {
        for ((((to, a), b), c), d) in packed.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *to = [*a, *b, *c, *d];
        }
        return;
    }
    packed.fill([0; LANES]);
    for (lane, &column) in group.iter().enumerate() {
        for (to, &bin) in packed.iter_mut().zip(&columns[column].bins) {
            to[lane] = bin;
        }
    }
}

/// Counts a group's histogram over the rows of a leaf, whose pairs stand in the same order.
fn count_group(histogram: &mut Histogram, packed: &[[u8; LANES]], rows: &[u32], pairs: &[Pair]) {
    *histogram = EMPTY;
    for (&row, &[gradient, weight]) in rows.iter().zip(pairs) {
        let bins = packed[row as usize];
        for (lane, bin) in bins.into_iter().enumerate() {
            let pair = &mut histogram[usize::from(bin)][lane];
            *pair = [pair[0] + gradient, pair[1] + weight];
        }
    }
}

/// Each lane's best gain and the bin at whose upper end it lies; a gain of zero where no split
/// leaves both parts the `least` weight.
///
/// The gain of squared loss, `l²/wl + r²/wr - t²/w` for the sums of gradients and weights left,
/// right and together, is `d² w / (wl wr)` with `d = l - wl t/w`, which cancels less.
fn scan(histogram: &[[Pair; LANES]], total: Pair, least: f32) -> [(f32, u8); LANES] {
    let mean = total[0] / total[1];
    let mut gradients = [0.0f32; LANES];
    let mut weights = [0.0f32; LANES];
    let mut gains = [0.0f32; LANES];
    let mut bins = [0.0f32; LANES];
    let mut bin = 0.0;
    for cell in histogram {
        gradients = from_fn(|lane| gradients[lane] + cell[lane][0]);
        weights = from_fn(|lane| weights[lane] + cell[lane][1]);
        let gain: [f32; LANES] = from_fn(|lane| {
            let (left, right) = (weights[lane], total[1] - weights[lane]);
            let off = gradients[lane] - left * mean;
            let gain = off * off / (left * right);
            if (left >= least) & (right >= least) {
                gain
            } else {
                0.0
            }
        });
        bins = from_fn(|lane| {
            if gain[lane] > gains[lane] {
                bin
            } else {
                bins[lane]
            }
        });
        gains = from_fn(|lane| {
            if gain[lane] > gains[lane] {
                gain[lane]
            } else {
                gains[lane]
            }
        });
        bin += 1.0;
    }
    from_fn(|lane| (gains[lane] * total[1], bins[lane] as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trees small enough for a handful of rows, which all see.
    fn small(trees: usize) -> TreesConfig {
        TreesConfig {
            trees,
            leaves: 8,
            learning_rate: 0.5,
            min_leaf_rows: 1,
            feature_fraction: 1.0,
            row_fraction: 1.0,
            bins: 255,
        }
    }

    fn noise(count: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::seeded(seed);
        (0..count).map(|_| random.uniform() as f32).collect()
    }

    fn grown(width: usize, inputs: &[f32], targets: &[f32], config: &TreesConfig) -> Forest {
        let weights = vec![1.0; targets.len()];
        grow(width, inputs, targets, &weights, config, 7, &mut |_| ())
    }

    fn squares(predictions: &[f32], targets: &[f32]) -> f32 {
        let pairs = predictions.iter().zip(targets);
        pairs.map(|(a, b)| (a - b).powi(2)).sum()
    }

    /// Six features over `rows`: noise, one of it coarse, and a target that two of them make.
    fn example(rows: usize) -> (Vec<f32>, Vec<f32>) {
        let mut inputs = noise(rows * 6, 3);
        for row in inputs.chunks_mut(6) {
            row[4] = (row[4] * 5.0).floor();
        }
        let target = |row: &[f32]| row[0] * row[4] + row[2];
        let targets = inputs.chunks(6).map(target).collect();
        (inputs, targets)
    }

    #[test]
    fn a_step_is_fitted_exactly() {
        let inputs: Vec<f32> = (0..40).map(|row| row as f32).collect();
        let targets: Vec<f32> = inputs
            .iter()
            .map(|&x| if x < 13.0 { -1.0 } else { 3.0 })
            .collect();
        let config = TreesConfig {
            learning_rate: 1.0,
            leaves: 2,
            ..small(1)
        };
        let forest = grown(1, &inputs, &targets, &config);
        assert!(squares(&forest.predict(&inputs), &targets) < 1e-9);
        assert_eq!(forest.nodes[0].value, 12.5);
    }

    #[test]
    fn trees_find_an_interaction_of_two_features() {
        let inputs = noise(800, 1);
        let target = |row: &[f32]| f32::from(u8::from((row[0] > 0.5) != (row[1] > 0.4)));
        let targets: Vec<f32> = inputs.chunks(2).map(target).collect();
        let forest = grown(2, &inputs, &targets, &small(20));
        let mean = targets.iter().sum::<f32>() / targets.len() as f32;
        let error = squares(&forest.predict(&inputs), &targets);
        assert!(error < 0.05 * squares(&vec![mean; targets.len()], &targets));
    }

    #[test]
    fn a_seed_gives_one_forest() {
        let (inputs, targets) = example(300);
        let config = TreesConfig {
            feature_fraction: 0.5,
            row_fraction: 0.7,
            ..small(5)
        };
        let weights = noise(300, 9);
        let forest = |seed| grow(6, &inputs, &targets, &weights, &config, seed, &mut |_| ());
        assert_eq!(forest(1), forest(1));
        assert_ne!(forest(1), forest(2));
    }

    #[test]
    fn rows_of_weight_zero_play_no_part() {
        let (inputs, targets) = example(200);
        let mut spoilt = targets.clone();
        let mut weights = vec![1.0; 200];
        for row in 120..200 {
            spoilt[row] = 1e6;
            weights[row] = 0.0;
        }
        let weighted = grow(6, &inputs, &spoilt, &weights, &small(4), 7, &mut |_| ());
        assert_eq!(
            weighted,
            grown(6, &inputs[..720], &targets[..120], &small(4))
        );
        let none = grow(6, &inputs, &spoilt, &[0.0; 200], &small(4), 7, &mut |_| ());
        assert_eq!(none.predict(&inputs[..6]), [0.0]);
    }

    #[test]
    fn weights_pull_the_mean() {
        let config = small(1);
        let forest = grow(
            1,
            &[2.0; 2],
            &[0.0, 4.0],
            &[3.0, 1.0],
            &config,
            7,
            &mut |_| (),
        );
        assert_eq!(forest.predict(&[2.0]), [1.0]);
    }

    #[test]
    fn constant_features_are_ignored() {
        let (inputs, targets) = example(200);
        let widened: Vec<f32> = inputs
            .chunks(6)
            .flat_map(|row| [&[9.0], row, &[-1.0]].concat())
            .collect();
        let plain = grown(6, &inputs, &targets, &small(4));
        let wide = grown(8, &widened, &targets, &small(4));
        assert_eq!(plain.predict(&inputs), wide.predict(&widened));
    }

    #[test]
    fn nothing_to_split_on_leaves_the_mean() {
        let config = TreesConfig {
            row_fraction: 0.5,
            ..small(3)
        };
        let forest = grown(1, &[2.0; 8], &[5.0; 8], &config);
        assert_eq!(forest.predict(&[2.0, 3.0]), [5.0; 2]);
    }

    #[test]
    fn thresholds_lead_where_bins_led() {
        let (inputs, targets) = example(700);
        let config = TreesConfig {
            bins: 16,
            row_fraction: 0.6,
            ..small(12)
        };
        let weights = noise(700, 5);
        let rows: Vec<u32> = (0..700).collect();
        let columns = (0..6)
            .filter_map(|feature| Column::cut(feature, 6, &inputs, &rows, config.bins))
            .collect();
        let mut grower = Grower::new(columns, targets.clone(), weights.clone(), &config, 7);
        for _ in 0..config.trees {
            grower.add_tree();
        }
        let forest = grow(6, &inputs, &targets, &weights, &config, 7, &mut |_| ());
        let scores: Vec<f32> = grower.scores.iter().map(|&score| score as f32).collect();
        assert_eq!(forest.predict(&inputs), scores);
    }

    #[test]
    fn leaves_keep_their_least_rows() {
        let (inputs, targets) = example(200);
        let config = TreesConfig {
            min_leaf_rows: 30,
            ..small(1)
        };
        let predictions = grown(6, &inputs, &targets, &config).predict(&inputs);
        let mut sorted = predictions.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        assert!(sorted.chunk_by(|a, b| a == b).count() > 2);
        assert!(sorted.chunk_by(|a, b| a == b).all(|leaf| leaf.len() >= 30));
    }

    #[test]
    fn bins_are_few_and_about_equally_full() {
        let mut values = noise(5000, 2);
        values.extend([0.25; 1000]);
        values.sort_unstable_by(f32::total_cmp);
        let edges = cut_edges(&values, 64);
        assert!((60..64).contains(&edges.len()), "{}", edges.len());
        assert!(edges.is_sorted_by(|a, b| a < b));
        let place = |value: f32| edges.partition_point(|&edge| edge < value);
        let mut counts = [0; 64];
        for &value in &values {
            counts[place(value)] += 1;
        }
        assert_eq!(counts[place(0.25)], 1000);
        let crowded = counts.iter().filter(|count| **count > 120).count();
        assert_eq!(crowded, 1);
        assert_eq!(cut_edges(&[1.0, 1.0, 2.0, 4.0], 255), [1.5, 3.0]);
        assert!(cut_edges(&[1.0; 3], 255).is_empty());
    }

    #[test]
    fn thresholds_stand_between_their_neighbours() {
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        assert_eq!(between(1.0, next), 1.0);
        assert_eq!(between(f32::MIN, f32::MAX), 0.0);
        assert_eq!(between(0.0, f32::INFINITY), 0.0);
    }
}
