//! Events of a training run.

use crate::regressor::artifact::{GroupErrors, Key};

/// News from a training run.
#[derive(Debug)]
pub enum Event<'a> {
    /// A sub-model begins.
    SubmodelStarted {
        /// Which.
        key: &'a Key,
        /// Rows of its own tables.
        rows: usize,
        /// Those of them that this fit does not see.
        held_out: usize,
    },
    /// The teacher has grown another tree.
    Tree {
        /// Its number from 0.
        tree: usize,
        /// Trees in all.
        of: usize,
    },
    /// What the teacher gets wrong on held-out keys: the mark the nets aim at.
    TeacherHeldOut {
        /// Median absolute percentage error, as a fraction.
        median_ape: f64,
        /// 90th percentile of the same.
        p90_ape: f64,
    },
    /// A net has finished an epoch; now and then with the median error on held-out keys.
    Epoch {
        /// Name of the net.
        net: &'a str,
        /// Number of the epoch from 0.
        epoch: usize,
        /// Epochs in all.
        of: usize,
        /// Mean loss of a sixteenth of the batches.
        loss: f32,
        /// Median absolute percentage error on held-out keys, as a fraction.
        held_out: Option<f64>,
    },
    /// The error table of the held-out fit.
    SubmodelHeldOut {
        /// All rows first, then by reference time and by size.
        errors: &'a [GroupErrors],
    },
    /// What was learned is not significantly nearer on held-out keys than the sub-model of the base, which is kept.
    BaseKept {
        /// Which.
        key: &'a Key,
        /// Mean error of the base, of `ln(time)`.
        base: f64,
        /// That of what was learned.
        learned: f64,
    },
    /// A net was already in the checkpoints.
    Resumed {
        /// Name of the net.
        net: &'a str,
    },
    /// A sub-model cannot be trained from these rows.
    SubmodelSkipped {
        /// Why.
        reason: &'a str,
    },
}
