//! GEMMs in all layouts.

use super::{Element, Operands};
use crate::ops::{Gemm, Layout};

/// Whether the `(m, k)` operand is stored as `(k, m)`, and the `(k, n)` operand as `(n, k)`: the
/// second and the first letter of the layout.
pub const fn transposed(layout: Layout) -> (bool, bool) {
    match layout {
        Layout::Nn => (false, false),
        Layout::Tn => (false, true),
        Layout::Nt => (true, false),
        Layout::Tt => (true, true),
    }
}

pub fn operands(op: &Gemm) -> Operands {
    Operands::new(
        &[
            ("a", Element::Tensor, op.batch * op.m * op.k),
            ("b", Element::Tensor, op.batch * op.k * op.n),
        ],
        &[("c", Element::GemmOutput, op.batch * op.m * op.n)],
    )
}

pub fn run(op: &Gemm, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (m, n, k) = (op.m as usize, op.n as usize, op.k as usize);
    let (first_transposed, second_transposed) = transposed(op.layout);
    let mut output = Vec::with_capacity(op.batch as usize * m * n);
    for member in 0..op.batch as usize {
        let a = &inputs[0][member * m * k..][..m * k];
        let b = &inputs[1][member * k * n..][..k * n];
        for row in 0..m {
            for column in 0..n {
                let terms = (0..k).map(|inner| {
                    let left = match first_transposed {
                        false => a[row * k + inner],
                        true => a[inner * m + row],
                    };
                    let right = match second_transposed {
                        false => b[inner * n + column],
                        true => b[column * k + inner],
                    };
                    left * right
                });
                output.push(terms.sum());
            }
        }
    }
    vec![output]
}
