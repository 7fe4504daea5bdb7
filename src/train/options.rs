//! What to train, where to put it, and how much work goes into it.

use crate::dataset::Row;
use crate::families::Family;
use crate::gpu::GpuCatalog;
use crate::regressor::artifact::{Artifact, Distilled};
use crate::train::fit::Backend;
use crate::train::recipe::Budget;
use std::path::PathBuf;

/// How much work goes into the nets of a sub-model.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Nets in the ensemble.
    pub members: usize,
    /// Widths of their hidden layers.
    pub hidden: Vec<usize>,
    /// Passes over rows and labelled shapes.
    pub epochs: usize,
    /// Rows in a step.
    pub batch: usize,
    /// Highest learning rate of the cycle.
    pub learning_rate: f64,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Forests of the teacher, averaged; 0 = no teacher.
    pub forests: usize,
    /// Trees in each.
    pub trees: usize,
    /// Unlabelled shapes that the teacher gives pseudo-labels.
    pub pseudo_labels: usize,
    /// How one net takes the place of the members, if it does.
    pub distilled: Option<Distilled>,
}

impl Effort {
    /// The effort of a shipped sub-model.
    pub fn of(budget: Budget, family: Family) -> Self {
        let family = family.learning();
        let common = Self {
            members: family.members,
            hidden: family.hidden.to_vec(),
            epochs: family.epochs,
            batch: family.batch,
            learning_rate: 5e-3,
            weight_decay: family.weight_decay,
            forests: family.forests,
            trees: family.trees[0],
            pseudo_labels: family.pseudo_labels[0],
            distilled: None,
        };
        match budget {
            Budget::Standard => common,
            Budget::Large => Self {
                members: 5,
                epochs: 160,
                forests: 2,
                trees: family.trees[1],
                pseudo_labels: family.pseudo_labels[1],
                ..common
            },
        }
    }

    /// Fine-tuning of finished nets: the teacher learns how the rows differ from the nets, and its pseudo-labels keep the
    /// nets in place where there are no rows.
    pub fn fine_tune(family: Family) -> Self {
        Self {
            members: 5,
            learning_rate: 2e-3,
            // At most: of few rows cross-validation says how many.
            trees: 512,
            pseudo_labels: 10_000,
            ..Self::of(Budget::Standard, family)
        }
    }
}

impl Effort {
    /// The same with a teacher of as many trees as pay, and one net that learns from it and the members.
    #[must_use]
    pub fn distilled(self, budget: Budget) -> Self {
        // Better members take a longer schedule before one net is as good.
        let (labels, epochs) = match budget {
            Budget::Standard => (3, 40),
            Budget::Large => (4, 80),
        };
        Self {
            trees: 1500,
            distilled: Some(Distilled {
                members: self.members,
                labels: labels * self.pseudo_labels,
                epochs,
            }),
            ..self
        }
    }

    /// Takes epochs and labels from options that give them.
    pub(super) fn override_with(&mut self, options: &Options) {
        if let Some(epochs) = options.epochs {
            self.epochs = epochs;
            self.distilled.iter_mut().for_each(|each| each.epochs = epochs);
        }
        if let Some(labels) = options.labels {
            self.pseudo_labels = labels;
            self.distilled.iter_mut().for_each(|each| each.labels = labels);
        }
        if self.forests == 0 {
            self.pseudo_labels = 0;
        }
    }
}

/// What to train and where to put it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the model; its last part is the model's name.
    pub out: PathBuf,
    /// The GPUs that the rows and the base model may name.
    pub gpus: GpuCatalog,
    /// Train the sub-models of this GPU only; without it the rows must be of one GPU.
    pub gpu: Option<String>,
    /// One sub-model a family over all GPUs, for unmeasured GPUs.
    pub across: bool,
    /// Answers of a library about shapes that were not timed, as rows without times.
    pub choices: Vec<Row>,
    /// Model to fine-tune instead of starting fresh.
    pub base: Option<Artifact>,
    /// Seed of everything random.
    pub seed: u64,
    /// What computes.
    pub backend: Backend,
    /// Overrides the epochs of the effort.
    pub epochs: Option<usize>,
    /// Overrides how many shapes that the teacher gives pseudo-labels.
    pub labels: Option<usize>,
    /// Share of the keys that no net sees, so that the model can be judged by them.
    pub keep_out: Option<f64>,
}
