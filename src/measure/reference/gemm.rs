//! Matrix products in all layouts.

use crate::measure::reference::{Element, Operands};
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::random::Random;

/// Whether the `(k, n)` operand is stored as `(n, k)`: the first letter of the layout.
const fn second_is_transposed(layout: Layout) -> bool {
    matches!(layout, Layout::Tn | Layout::Tt)
}

/// Whether the `(m, k)` operand is stored as `(k, m)`: the second letter of the layout.
const fn first_is_transposed(layout: Layout) -> bool {
    matches!(layout, Layout::Nt | Layout::Tt)
}

pub(super) fn operands(op: &Gemm) -> Operands {
    Operands::new(
        &[
            ("a", Element::Tensor, op.batch * op.m * op.k),
            ("b", Element::Tensor, op.batch * op.k * op.n),
        ],
        &[("product", Element::Product, op.batch * op.m * op.n)],
    )
}

pub(super) fn inputs(op: &Gemm, random: &mut Random) -> Vec<Vec<f32>> {
    vec![
        random.normals(op.batch * op.m * op.k),
        random.normals(op.batch * op.k * op.n),
    ]
}

pub(super) fn run(op: &Gemm, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let (m, n, k) = (op.m as usize, op.n as usize, op.k as usize);
    let mut product = Vec::with_capacity(op.batch as usize * m * n);
    for member in 0..op.batch as usize {
        let a = &inputs[0][member * m * k..][..m * k];
        let b = &inputs[1][member * k * n..][..k * n];
        for row in 0..m {
            for column in 0..n {
                let terms = (0..k).map(|inner| {
                    let left = match first_is_transposed(op.layout) {
                        false => a[row * k + inner],
                        true => a[inner * m + row],
                    };
                    let right = match second_is_transposed(op.layout) {
                        false => b[inner * n + column],
                        true => b[column * k + inner],
                    };
                    f64::from(left) * f64::from(right)
                });
                product.push(terms.sum());
            }
        }
    }
    vec![product]
}
