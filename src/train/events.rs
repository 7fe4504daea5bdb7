//! What a training run tells while it runs.

use crate::regressor::artifact::{GroupErrors, Key};

/// News from a training run.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// A sub-model begins.
    SubmodelStarted {
        key: &'a Key,
        rows: usize,
        held_out: usize,
    },
    /// The teacher has grown another tree.
    Tree {
        key: &'a Key,
        tree: usize,
        of: usize,
    },
    /// What the teacher gets wrong on held-out keys: the mark the nets aim at.
    TeacherHeldOut {
        key: &'a Key,
        median_ape: f64,
        p90_ape: f64,
    },
    /// A net has finished an epoch; now and then with the median error on held-out keys.
    Epoch {
        key: &'a Key,
        net: &'a str,
        epoch: usize,
        of: usize,
        loss: f32,
        held_out: Option<f64>,
    },
    /// The error table of the held-out fit.
    SubmodelHeldOut {
        key: &'a Key,
        errors: &'a [GroupErrors],
    },
    /// A net was already in the checkpoints.
    Resumed { net: &'a str },
    /// A sub-model cannot be trained from these rows.
    SubmodelSkipped { key: &'a Key, reason: &'a str },
}
