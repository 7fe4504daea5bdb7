//! How much training spends on the nets of a family.

/// Work that goes into a shipped sub-model.
#[derive(Clone, Copy, Debug)]
pub struct Learning {
    /// Nets in the ensemble.
    pub members: usize,
    /// Widths of their hidden layers.
    pub hidden: &'static [usize],
    /// Passes over rows and labelled shapes.
    pub epochs: usize,
    /// Rows in a step.
    pub batch: usize,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Forests of the teacher, averaged.
    pub forests: usize,
    /// Trees in each: of the usual and of a large training budget.
    pub trees: [usize; 2],
    /// Unlabelled shapes that the teacher gives pseudo-labels, likewise.
    pub pseudo_labels: [usize; 2],
    /// Most rows of one table.
    pub rows: usize,
}

impl Learning {
    /// What a family takes that says nothing else.
    pub const USUAL: Self = Self {
        members: 3,
        hidden: &[96; 2],
        epochs: 40,
        batch: 512,
        weight_decay: 0.02,
        forests: 1,
        trees: [600, 1500],
        pseudo_labels: [20_000, 30_000],
        rows: usize::MAX,
    };
}
