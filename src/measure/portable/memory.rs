//! Memory-bound kernels as a step in burn composes them of elementwise kernels, and differentiates them.

use super::operands::{Leaf, Operands, Source, constant, four};
use super::transformer::rotated;
use crate::measure::reference::{EPSILON, adam, positions, refuses_memory, rotary_width};
use crate::ops::{Memory, MemoryKind, Pass};
use burn::optim::{AdamWConfig, AdamWState, AdaptiveMomentumState, Optimizer};
use burn::tensor::activation::{gelu_approximate, log_softmax, silu, softmax};
use burn::tensor::module::{embedding, layer_norm};
use burn::tensor::{DType, Tensor};

/// Why burn runs no such kernel.
pub fn refuses(op: &Memory) -> Option<String> {
    use MemoryKind::{Adam, Add, CrossEntropy, Embedding, Gelu, LayerNorm, RmsNorm, Rotary, Softmax, Swiglu};
    match (op.kind, op.pass) {
        (Softmax | Adam, Pass::Forward)
        | (Add | CrossEntropy | Embedding | Gelu | LayerNorm | RmsNorm | Rotary | Swiglu, _) => refuses_memory(op),
        (kind, pass) => Some(format!("a step in burn has no {} {pass}", kind.name())),
    }
}

/// The operands of a kernel that [`refuses`] accepts, in the order of the reference.
pub fn operands(op: &Memory, dtype: DType, source: &mut dyn Source) -> Operands {
    let (rows, cols) = (op.rows as usize, op.cols as usize);
    let matrix = |source: &mut dyn Source| -> Tensor<2> { source.shaped([rows, cols], dtype) };
    match op.kind {
        MemoryKind::Softmax => {
            let scores: Tensor<2> = matrix(source);
            Operands::plain(move || vec![four(softmax(scores.clone(), 1))])
        }
        MemoryKind::Gelu => {
            let x: Tensor<2> = matrix(source);
            let upstream = source.upstream(op.pass, [rows, cols], dtype);
            Operands::new(op.pass, upstream, move |trains| {
                let x = Leaf::new(&x, trains);
                (gelu_approximate(x.0.clone()), vec![x.into()])
            })
        }
        MemoryKind::Swiglu => {
            // One GEMM gives both halves.
            let both: Tensor<2> = match source.is_drawn() {
                true => Tensor::cat(vec![matrix(source), matrix(source)], 1),
                false => source.shaped([rows, 2 * cols], dtype),
            };
            let upstream = source.upstream(op.pass, [rows, cols], dtype);
            let call = Operands::new(op.pass, upstream, move |trains| {
                let both = Leaf::new(&both, trains);
                let half = |index| both.0.clone().narrow(1, index * cols, cols);
                (silu(half(0)) * half(1), vec![both.into()])
            });
            match op.pass {
                Pass::Forward => call,
                Pass::Backward => call.split_columns(cols),
            }
        }
        MemoryKind::LayerNorm | MemoryKind::RmsNorm => norm(op, dtype, source),
        MemoryKind::Rotary => rotary(op, dtype, source),
        MemoryKind::Embedding => lookup(op, dtype, source),
        MemoryKind::CrossEntropy => loss(op, dtype, source),
        MemoryKind::Adam => update(op, dtype, source),
        // Backward, two gradients of one tensor are added.
        _ => {
            let [left, right]: [Tensor<2>; 2] = [matrix(source), matrix(source)];
            Operands::plain(move || vec![four(left.clone() + right.clone())])
        }
    }
}

fn norm(op: &Memory, dtype: DType, source: &mut dyn Source) -> Operands {
    let (rows, cols) = (op.rows as usize, op.cols as usize);
    let x: Tensor<2> = source.shaped([rows, cols], dtype);
    let gamma = source.next(cols, dtype);
    let centred = op.kind == MemoryKind::LayerNorm;
    let beta = match op.pass {
        Pass::Forward if centred => source.next(cols, dtype),
        _ => gamma.zeros_like(),
    };
    let upstream = source.upstream(op.pass, [rows, cols], dtype);
    Operands::new(op.pass, upstream, move |trains| {
        let (x, gamma) = (Leaf::new(&x, trains), Leaf::new(&gamma, trains));
        if centred {
            let beta = Leaf::new(&beta, trains);
            let shift = Some(beta.0.clone());
            let y = layer_norm(x.0.clone(), gamma.0.clone(), shift, EPSILON);
            (y, vec![x.into(), gamma.into(), beta.into()])
        } else {
            // As burn's `RmsNorm` computes it.
            let root = (x.0.clone().square().mean_dim(1) + EPSILON).sqrt();
            let y = (x.0.clone() / root) * gamma.0.clone().unsqueeze();
            (y, vec![x.into(), gamma.into()])
        }
    })
}

fn rotary(op: &Memory, dtype: DType, source: &mut dyn Source) -> Operands {
    let (rows, cols) = (op.rows as usize, op.cols as usize);
    let width = rotary_width(op.cols).expect("checked by `refuses`") as usize;
    let shape = [1, rows, cols / width, width];
    // The rotation is linear, so where it is taken does not matter to the gradient.
    let x = source.shaped(shape, dtype).swap_dims(1, 2);
    let upstream = match (op.pass, source.is_drawn()) {
        (Pass::Backward, true) => Some(x.clone()),
        _ => None,
    };
    let known = positions(op.rows) as usize;
    let mut table = || -> Tensor<4> {
        if !source.is_drawn() {
            return source.shaped([1, 1, rows, width], dtype);
        }
        let half: Tensor<2> = source.shaped([known, width / 2], dtype);
        let whole = Tensor::cat(vec![half.clone(), half], 1);
        let repeated = whole.repeat(&[rows.div_ceil(known), 1]).narrow(0, 0, rows);
        repeated.reshape([1, 1, rows, width])
    };
    let tables = [table(), table()];
    Operands::new(op.pass, upstream, move |trains| {
        let x = Leaf::new(&x, trains);
        let tables = tables.each_ref().map(|table| constant(table, trains));
        (rotated(x.0.clone(), &tables), vec![x.into()])
    })
    .swapped()
}

fn lookup(op: &Memory, dtype: DType, source: &mut dyn Source) -> Operands {
    let (rows, cols) = (op.rows as usize, op.cols as usize);
    let first: Tensor<2> = source.shaped([rows, cols], dtype);
    let places = source.indices(rows, op.rows).reshape([1, rows]);
    let (table, upstream, sum) = match (op.pass, source.is_drawn()) {
        (Pass::Forward, _) => (first, None, None),
        (Pass::Backward, false) => (first, None, None),
        (Pass::Backward, true) => {
            let sum: Tensor<2> = source.shaped([rows, cols], dtype);
            (sum.clone(), Some(first.reshape([1, rows, cols])), Some(sum))
        }
    };
    let looked_up = Operands::new(op.pass, upstream, move |trains| {
        let table = Leaf::new(&table, trains);
        let places = constant(&places, trains);
        (embedding(table.0.clone(), places), vec![table.into()])
    });
    match sum {
        Some(sum) => looked_up.plus(sum),
        None => looked_up,
    }
}

fn loss(op: &Memory, dtype: DType, source: &mut dyn Source) -> Operands {
    let (rows, cols) = (op.rows as usize, op.cols as usize);
    let logits: Tensor<2> = source.shaped([rows, cols], dtype);
    let classes = source.indices(rows, op.cols).reshape([rows, 1]);
    let upstream = match op.pass {
        Pass::Backward => {
            // The log-sum-exp of each row, which burn computes again.
            drop(source.next(rows, dtype));
            source.upstream(op.pass, [rows, 1], dtype)
        }
        Pass::Forward => None,
    };
    Operands::new(op.pass, upstream, move |trains| {
        let logits = Leaf::new(&logits, trains);
        let classes = constant(&classes, trains);
        let losses = log_softmax(logits.0.clone(), 1).gather(1, classes).neg();
        (losses, vec![logits.into()])
    })
}

/// Elements of the tensors that an optimizer step takes one after the other, as many as the weights of small layers have.
const TENSOR: usize = 1 << 20;

/// AdamW over all parameters as a step in burn runs it: tensor after tensor, each of which replaces another. What is
/// compared is one tensor.
fn update(op: &Memory, dtype: DType, source: &mut dyn Source) -> Operands {
    let elements = (op.rows * op.cols) as usize;
    let each = if source.is_drawn() { elements } else { TENSOR };
    let whole: [Tensor<1>; 4] = [(); 4].map(|()| source.next(elements, dtype));
    let part = |first: usize| {
        let length = each.min(elements - first);
        whole.each_ref().map(|all| all.clone().narrow(0, first, length))
    };
    let tensors: Vec<[Tensor<1>; 4]> = (0..elements).step_by(each).map(part).collect();
    let optimizer = AdamWConfig::new()
        .with_beta_1(adam::BETA_1 as f32)
        .with_beta_2(adam::BETA_2 as f32)
        .with_epsilon(adam::EPSILON as f32)
        .with_weight_decay(adam::DECAY as f32)
        .build();
    let before = adam::STEP as usize - 1;
    Operands::plain(move || {
        let step = |[gradient, weight, m, v]: &[Tensor<1>; 4]| {
            let momentum = AdaptiveMomentumState::new(before, m.clone(), v.clone());
            let state = Some(AdamWState::new(momentum));
            let (weight, state) = optimizer.step(adam::RATE, weight.clone(), gradient.clone(), state);
            let momentum = state.expect("AdamW keeps its state").momentum;
            [weight, momentum.moment_1, momentum.moment_2]
        };
        let mut results = Vec::new();
        for tensor in &tensors {
            // Those before are replaced, and their memory used again.
            results = step(tensor).map(four).into();
        }
        results
    })
}
