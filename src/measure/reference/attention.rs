//! Attention, forward and backward, by its definition.

use super::memory::log_sum_exp;
use super::{Element, Operands, wide};
use crate::measure::format::rounded;
use crate::ops::{Attention, Pass};
use crate::random::Random;
use std::ops::Range;

/// Every query row with the key rows that it sees: all of its head, or with a causal mask those up to its own, the ends of
/// both sequences aligned; of these the last `window`.
fn queries(op: &Attention) -> impl Iterator<Item = (usize, Range<usize>)> {
    let sizes = [op.heads, op.kv_heads, op.seq_q, op.seq_kv, op.window];
    let [heads, kv_heads, seq_q, seq_kv, window] = sizes.map(|size| size as usize);
    let causal = op.causal;
    (0..op.batch as usize * heads * seq_q).map(move |row| {
        let (head, place) = (row / seq_q, row % seq_q);
        let end = match causal {
            true => (seq_kv + place + 1).saturating_sub(seq_q),
            false => seq_kv,
        };
        let start = if window == 0 { 0 } else { end.saturating_sub(window) };
        let first = (head / heads * kv_heads + head % heads / (heads / kv_heads)) * seq_kv;
        (row, first + start..first + end)
    })
}

pub fn operands(op: &Attention) -> Operands {
    use Element::{Single, Tensor};
    let rows = op.batch * op.heads * op.seq_q;
    let keys = op.batch * op.kv_heads * op.seq_kv;
    let (q, o) = (rows * op.head_dim, rows * op.value_dim);
    let (k, v) = (keys * op.head_dim, keys * op.value_dim);
    let read = [("q", Tensor, q), ("k", Tensor, k), ("v", Tensor, v)];
    let (output, stats) = (("o", Tensor, o), ("stats", Single, rows));
    match op.pass {
        Pass::Forward => Operands::new(&read, &[output, stats]),
        Pass::Backward => Operands::new(
            &[&read[..], &[output, ("do", Tensor, o), stats]].concat(),
            &[("dq", Tensor, q), ("dk", Tensor, k), ("dv", Tensor, v)],
        ),
    }
}

pub fn inputs(op: &Attention, random: &mut Random) -> Vec<Vec<f32>> {
    let sizes: Vec<_> = operands(op).inputs.iter().map(|o| o.elements).collect();
    let mut inputs: Vec<_> = sizes[..3].iter().map(|&n| random.normals(n)).collect();
    if op.pass == Pass::Backward {
        // What the forward pass left: its rounding belongs to the operator, so it is computed from
        // what was drawn.
        for value in inputs.iter_mut().flatten() {
            *value = rounded(op.dtype, *value);
        }
        let outputs = forward(op, &wide(&inputs));
        let mut single = outputs
            .iter()
            .map(|values| values.iter().map(|&value| value as f32).collect());
        inputs.extend(single.next());
        inputs.push(random.normals(sizes[4]));
        inputs.extend(single.next());
    }
    inputs
}

pub fn run(op: &Attention, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    match op.pass {
        Pass::Forward => forward(op, inputs),
        Pass::Backward => backward(op, inputs),
    }
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

/// `target += factor * values` in a row of this number.
fn add_scaled(target: &mut [f64], row: usize, factor: f64, values: &[f64]) {
    for (target, value) in target[row * values.len()..].iter_mut().zip(values) {
        *target += factor * value;
    }
}

/// Softmax scale.
fn scale(op: &Attention) -> f64 {
    1.0 / (op.head_dim as f64).sqrt()
}

/// A row of an operand.
fn part(values: &[f64], row: usize, width: u64) -> &[f64] {
    &values[row * width as usize..][..width as usize]
}

fn forward(op: &Attention, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let [q, k, v] = [0, 1, 2].map(|at| &inputs[at]);
    let Attention {
        head_dim, value_dim, ..
    } = *op;
    let (mut output, mut stats) = (vec![0.0; q.len() / head_dim as usize * value_dim as usize], Vec::new());
    for (row, keys) in queries(op) {
        let score = |key| scale(op) * dot(part(q, row, head_dim), part(k, key, head_dim));
        let scores: Vec<_> = keys.clone().map(score).collect();
        let total = log_sum_exp(&scores);
        for (key, score) in keys.zip(scores) {
            add_scaled(&mut output, row, (score - total).exp(), part(v, key, value_dim));
        }
        stats.push(total);
    }
    vec![output, stats]
}

fn backward(op: &Attention, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let [q, k, v, o, d_o, stats] = [0, 1, 2, 3, 4, 5].map(|at| &inputs[at]);
    let Attention {
        head_dim, value_dim, ..
    } = *op;
    let [mut dq, mut dk, mut dv] = [q, k, v].map(|values| vec![0.0; values.len()]);
    for (row, keys) in queries(op) {
        let (query, upstream) = (part(q, row, head_dim), part(d_o, row, value_dim));
        let delta = dot(upstream, part(o, row, value_dim));
        for key in keys {
            let score = scale(op) * dot(query, part(k, key, head_dim));
            let probability = (score - stats[row]).exp();
            add_scaled(&mut dv, key, probability, upstream);
            let d_score = probability * (dot(upstream, part(v, key, value_dim)) - delta) * scale(op);
            add_scaled(&mut dq, row, d_score, part(k, key, head_dim));
            add_scaled(&mut dk, key, d_score, query);
        }
    }
    vec![dq, dk, dv]
}
