//! Reference implementation of every operator, on the CPU in double precision, for small shapes.
//!
//! [`operands`] lists inputs and outputs, [`inputs`] draws the former, [`run`] computes the latter.
//! Devices may leave out inputs that they compute themselves (row statistics, tables of angles).

mod attention;
mod gemm;
mod memory;

pub use gemm::transposed;
pub use memory::{Access, DROPOUT, EPSILON, adam, cuda_kernel, positions, refuses_memory, rotary_width};

use crate::measure::format;
use crate::ops::{Dtype, Op};
use crate::random::Random;

/// How the elements of an operand are stored on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// In the number format of the operator.
    Tensor,
    /// In the format that a GEMM writes its output in.
    GemmOutput,
    /// In 8 bits whatever the format: casts.
    Eighth,
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
            Self::GemmOutput => dtype.output_size(),
            Self::Single | Self::Index => 4,
            Self::Eighth | Self::Flag => 1,
        }
    }

    /// The number format of a real operand; a whole number has none.
    pub const fn format(self, dtype: Dtype) -> Option<Dtype> {
        match (self, dtype) {
            (Self::Tensor, dtype) => Some(dtype),
            (Self::GemmOutput, Dtype::Fp8) => Some(Dtype::Bf16),
            (Self::GemmOutput, dtype) => Some(dtype),
            (Self::Eighth, _) => Some(Dtype::Fp8),
            (Self::Single, _) => Some(Dtype::Fp32),
            (Self::Index | Self::Flag, _) => None,
        }
    }
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Name in messages.
    pub name: &'static str,
    /// Storage of its elements.
    pub element: Element,
    /// Number of elements.
    pub elements: u64,
}

/// Inputs and outputs of an operator, in the order of [`inputs`] and [`run`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// Operands that are read.
    pub inputs: Vec<Operand>,
    /// Operands that are written; one that is updated in place is among both.
    pub outputs: Vec<Operand>,
}

impl Operands {
    fn new(inputs: &[(&'static str, Element, u64)], outputs: &[(&'static str, Element, u64)]) -> Self {
        let operand = |&(name, element, elements)| Operand {
            name,
            element,
            elements,
        };
        Self {
            inputs: inputs.iter().map(operand).collect(),
            outputs: outputs.iter().map(operand).collect(),
        }
    }
}

/// The operands of an operator; `None` if it has none (collectives, MoE layers, the backward pass of Adam and of casts).
///
/// - `gemm`: `a` is `(m, k)`, `b` is `(k, n)`, `c` is `(m, n)`, all row-major; [`transposed`] says
///   which inputs are stored transposed. cuBLAS is column-major and takes `b` first, so the first
///   letter of the layout is that of `b`. A linear layer, tokens times transposed weight, is `tn`.
/// - `attention`: `(batch, heads, sequence, width)`; forward also writes `stats`, the log-sum-exp
///   of each query's scaled scores, which backward reads with `o` and `do`.
/// - Memory-bound kernels: see [`MemoryKind`](crate::ops::MemoryKind); `x`, `y` are `(rows, cols)`,
///   backward reads `dy`.
pub fn operands(op: &Op) -> Option<Operands> {
    match op {
        Op::Gemm(op) => Some(gemm::operands(op)),
        Op::Attention(op) => Some(attention::operands(op)),
        Op::Memory(op) => memory::operands(op),
        _ => None,
    }
}

/// Random inputs in the order of [`operands`], rounded to the operator's format; empty where
/// nothing is defined.
///
/// Equal seeds give equal numbers on every machine. Rows and classes are whole numbers in `f32`.
pub fn inputs(op: &Op, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed, "reference");
    let mut values = match op {
        Op::Gemm(op) => {
            let operands = gemm::operands(op).inputs;
            let elements = operands.iter().map(|operand| operand.elements);
            elements.map(|count| random.normals(count)).collect()
        }
        Op::Attention(op) => attention::inputs(op, &mut random),
        Op::Memory(op) => memory::inputs(op, &mut random),
        _ => Vec::new(),
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

/// The outputs in the order of [`operands`], from inputs in the order of [`inputs`]; empty where
/// nothing is defined.
///
/// Sums are in double precision and not rounded to the operator's format.
pub fn run(op: &Op, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let inputs = wide(inputs);
    let outputs = match op {
        Op::Gemm(op) => gemm::run(op, &inputs),
        Op::Attention(op) => attention::run(op, &inputs),
        Op::Memory(op) => memory::run(op, inputs),
        _ => Vec::new(),
    };
    let single = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
    outputs.into_iter().map(single).collect()
}

/// Values in double precision.
fn wide(values: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |values: &Vec<f32>| values.iter().map(|&value| value.into()).collect();
    values.iter().map(wide).collect()
}

/// Relative error: norm of the difference over norm of the expectation.
///
/// Infinities (masked scores) must be equal and do not count; another non-finite number or a
/// different length is an infinite error.
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

/// The largest [`error`] that passes: a few roundings of the output format, far below the error of
/// a wrong index, a missing term or a stale output.
pub const fn allowed(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Fp32 => 1e-4,
        Dtype::Tf32 => 2e-3,
        Dtype::Fp16 => 2e-3,
        _ => 1e-2,
    }
}

#[cfg(test)]
mod tests;
