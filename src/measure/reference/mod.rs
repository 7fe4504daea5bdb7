//! What operators compute, on the CPU and in double precision: the truth that every device is held against.
//!
//! [`operands`] names what goes in and comes out, [`inputs`] draws it, [`run`] computes it. Devices may leave out the
//! inputs that they find themselves (row statistics, tables of angles). Shapes are meant to be small.

mod attention;
mod gemm;
mod memory;

pub use memory::{DROPOUT, EPSILON, adam, keeps, positions, rotary_width};

use crate::measure::format;
use crate::ops::Dtype;
use crate::ops::Op;
use crate::random::Random;

/// How the elements of an operand are stored on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// In the number format of the operator.
    Tensor,
    /// In the format that the operator's product is written in.
    Product,
    /// In single precision whatever the format: statistics, optimiser state.
    Single,
    /// A whole number of 32 bits: a row, a class.
    Index,
    /// A flag of one byte.
    Flag,
}

impl Element {
    /// Bytes of one element in an operator of this format.
    pub const fn size(self, dtype: Dtype) -> u64 {
        match self {
            Self::Tensor => dtype.size(),
            Self::Product => dtype.output_size(),
            Self::Single | Self::Index => 4,
            Self::Flag => 1,
        }
    }

    /// The number format of a real operand; a whole number has none.
    pub const fn format(self, dtype: Dtype) -> Option<Dtype> {
        match (self, dtype) {
            (Self::Tensor, dtype) => Some(dtype),
            (Self::Product, Dtype::Fp8) => Some(Dtype::Bf16),
            (Self::Product, dtype) => Some(dtype),
            (Self::Single, _) => Some(Dtype::Fp32),
            (Self::Index | Self::Flag, _) => None,
        }
    }
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// What it is called in messages.
    pub name: &'static str,
    /// How its elements are stored.
    pub element: Element,
    /// How many there are.
    pub elements: u64,
}

/// What goes into an operator and what comes out, in the order of [`inputs`] and [`run`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// Operands that are read.
    pub inputs: Vec<Operand>,
    /// Operands that are written; one that is updated in place is among both.
    pub outputs: Vec<Operand>,
}

impl Operands {
    fn new(
        inputs: &[(&'static str, Element, u64)],
        outputs: &[(&'static str, Element, u64)],
    ) -> Self {
        let list = |operands: &[(&'static str, Element, u64)]| {
            let operands = operands.iter();
            operands
                .map(|&(name, element, elements)| Operand {
                    name,
                    element,
                    elements,
                })
                .collect()
        };
        Self {
            inputs: list(inputs),
            outputs: list(outputs),
        }
    }
}

/// The operands of an operator; none where nothing is defined (collectives, the backward pass of Adam).
///
/// - `gemm`: `a` is the `(m, k)` operand, `b` the `(k, n)` operand, the product is `(m, n)` by rows. As cuBLAS counts
///   by columns it sees `b` first, so the first letter of the layout says whether `b` is stored as `(n, k)`, the second
///   whether `a` is stored as `(k, m)`. A linear layer, tokens times transposed weight, is `tn`.
/// - `attention`: `(batch, heads, sequence, width)`; forward also gives `stats`, the natural logarithm of the sum of
///   exponentials of each query's scaled scores, which backward reads with `o` and `do`.
/// - Memory-bound kernels: see [`MemoryKind`](crate::ops::MemoryKind); `x`, `y` are `(rows, cols)`, backward reads `dy`.
pub fn operands(op: &Op) -> Option<Operands> {
    match op {
        Op::Gemm(op) => Some(gemm::operands(op)),
        Op::Attention(op) => Some(attention::operands(op)),
        Op::Memory(op) => memory::operands(op),
        Op::Collective(_) => None,
    }
}

/// Random inputs in the order of [`operands`], rounded to what a device holds; empty where nothing is defined.
///
/// The same seed gives the same numbers on every machine. Rows and classes are whole numbers in `f32`.
pub fn inputs(op: &Op, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed, "reference");
    let mut values = match op {
        Op::Gemm(op) => gemm::inputs(op, &mut random),
        Op::Attention(op) => attention::inputs(op, &mut random),
        Op::Memory(op) => memory::inputs(op, &mut random),
        Op::Collective(_) => Vec::new(),
    };
    if let (Some(operands), Some(dtype)) = (operands(op), op.dtype()) {
        for (values, operand) in values.iter_mut().zip(&operands.inputs) {
            debug_assert_eq!(values.len() as u64, operand.elements, "{}", operand.name);
            if let Some(dtype) = operand.element.format(dtype) {
                for value in values.iter_mut() {
                    *value = format::rounded(dtype, *value);
                }
            }
        }
    }
    values
}

/// The outputs in the order of [`operands`], from inputs in the order of [`inputs`]; empty where nothing is defined.
///
/// Everything is summed in double precision and not rounded to the operator's format.
pub fn run(op: &Op, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let outputs = match op {
        Op::Gemm(op) => gemm::run(op, inputs),
        Op::Attention(op) => attention::run(op, inputs),
        Op::Memory(op) => memory::run(op, inputs),
        Op::Collective(_) => Vec::new(),
    };
    let single = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
    outputs.into_iter().map(single).collect()
}

/// Norm of the difference over norm of the expectation.
///
/// Infinities (masked scores) must be equal and do not count; anything else that is not a finite number, and a
/// different length, is an infinite error.
pub fn error(measured: &[f32], expected: &[f32]) -> f64 {
    if measured.len() != expected.len() {
        return f64::INFINITY;
    }
    let (mut difference, mut norm) = (0.0, 0.0);
    for (&measured, &expected) in measured.iter().zip(expected) {
        let (measured, expected) = (f64::from(measured), f64::from(expected));
        if expected.is_infinite() && measured == expected {
            continue;
        }
        difference += (measured - expected).powi(2);
        norm += expected.powi(2);
    }
    match (difference.sqrt(), norm.sqrt()) {
        (difference, _) if !difference.is_finite() => f64::INFINITY,
        (0.0, _) => 0.0,
        (difference, 0.0) => difference,
        (difference, norm) => difference / norm,
    }
}

/// The largest [`error`] that is let through: a few roundings of the format that the output is written in, far below
/// what a wrong index, a missing term or a stale output gives.
pub const fn allowed(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Fp32 => 1e-4,
        Dtype::Tf32 => 2e-3,
        Dtype::Fp16 => 2e-3,
        Dtype::Bf16 | Dtype::Fp8 => 1e-2,
    }
}

#[cfg(test)]
mod tests;
