//! Questions as both edges ask them, and their answers: defaults that fit the architecture, checks, documents.
//!
//! The command line and the HTTP service spell a question in their own way and turn it into one of these types, so
//! equal questions get equal documents. Sizes of a question that may be swept are generic over [`Extent`]. Messages
//! name a size by the key it has on the wire; its option on the command line is the same word.

pub mod catalog;

pub mod model;

pub mod operator;

pub mod search;

mod size;

pub mod sweep;

pub mod workload;

pub use size::{Extent, LARGEST, Size};

use crate::features::Family;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::report::Basis;

/// What the estimate of `op` is based on, where its family is learned.
fn basis(predictor: &Predictor, op: &Op) -> Option<Basis> {
    let (family, dtype) = (Family::of(op)?, op.dtype()?);
    Some(Basis {
        family: family.name(),
        dtype: dtype.name(),
        stack: predictor.basis(family, dtype),
    })
}

/// What the estimates of these operators are based on, each basis once.
fn bases<'a>(predictor: &Predictor, ops: impl Iterator<Item = &'a Op>) -> Vec<Basis> {
    let mut bases = Vec::new();
    for basis in ops.filter_map(|op| basis(predictor, op)) {
        if !bases.contains(&basis) {
            bases.push(basis);
        }
    }
    bases
}
