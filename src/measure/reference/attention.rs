//! Attention, forward and backward, by its definition.

use crate::measure::reference::{Element, Operands};
use crate::ops::{Attention, Pass};
use crate::random::Random;
use std::ops::Range;

/// Sizes of an operator as indices.
struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    seq_q: usize,
    seq_kv: usize,
    head_dim: usize,
    value_dim: usize,
}

impl Sizes {
    const fn of(op: &Attention) -> Self {
        Self {
            batch: op.batch as usize,
            heads: op.heads as usize,
            kv_heads: op.kv_heads as usize,
            seq_q: op.seq_q as usize,
            seq_kv: op.seq_kv as usize,
            head_dim: op.head_dim as usize,
            value_dim: op.value_dim as usize,
        }
    }

    /// Every query row as (its number, the number of its key and value head, its place in the
    /// sequence).
    fn queries(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let shared = self.heads / self.kv_heads;
        (0..self.batch * self.heads * self.seq_q).map(move |row| {
            let (head, place) = (row / self.seq_q, row % self.seq_q);
            let (batch, head) = (head / self.heads, head % self.heads);
            (row, batch * self.kv_heads + head / shared, place)
        })
    }

    fn key(&self, head: usize, place: usize) -> Range<usize> {
        let start = (head * self.seq_kv + place) * self.head_dim;
        start..start + self.head_dim
    }

    fn value(&self, head: usize, place: usize) -> Range<usize> {
        let start = (head * self.seq_kv + place) * self.value_dim;
        start..start + self.value_dim
    }
}

/// The keys that the query at this place sees: all, or with a causal mask those up to its own, the
/// ends of both sequences aligned; of these the last `window`.
fn visible(op: &Attention, place: usize) -> Range<usize> {
    let end = if op.causal {
        (op.seq_kv + place as u64 + 1).saturating_sub(op.seq_q) as usize
    } else {
        op.seq_kv as usize
    };
    let start = match op.window {
        0 => 0,
        window => end.saturating_sub(window as usize),
    };
    start..end
}

pub(super) fn operands(op: &Attention) -> Operands {
    use Element::{Single, Tensor};
    let rows = op.batch * op.heads * op.seq_q;
    let keys = op.batch * op.kv_heads * op.seq_kv;
    let (q, o) = (rows * op.head_dim, rows * op.value_dim);
    let (k, v) = (keys * op.head_dim, keys * op.value_dim);
    let read = [("q", Tensor, q), ("k", Tensor, k), ("v", Tensor, v)];
    match op.pass {
        Pass::Forward => Operands::new(&read, &[("o", Tensor, o), ("stats", Single, rows)]),
        Pass::Backward => Operands::new(
            &[
                read[0],
                read[1],
                read[2],
                ("o", Tensor, o),
                ("do", Tensor, o),
                ("stats", Single, rows),
            ],
            &[("dq", Tensor, q), ("dk", Tensor, k), ("dv", Tensor, v)],
        ),
    }
}

pub(super) fn inputs(op: &Attention, random: &mut Random) -> Vec<Vec<f32>> {
    let sizes: Vec<_> = operands(op).inputs.iter().map(|o| o.elements).collect();
    let mut inputs: Vec<_> = sizes[..3].iter().map(|&n| random.normals(n)).collect();
    if op.pass == Pass::Backward {
        // What the forward pass left: its rounding belongs to the operator, so it is computed from
        // what was drawn.
        let held = |values: &mut Vec<f32>| {
            for value in values {
                *value = crate::measure::format::rounded(op.dtype, *value);
            }
        };
        inputs.iter_mut().for_each(held);
        let single = |values: &Vec<f64>| values.iter().map(|&value| value as f32).collect();
        let outputs = forward(op, &inputs);
        inputs.push(single(&outputs[0]));
        inputs.push(random.normals(sizes[4]));
        inputs.push(single(&outputs[1]));
    }
    inputs
}

pub(super) fn run(op: &Attention, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    match op.pass {
        Pass::Forward => forward(op, inputs),
        Pass::Backward => backward(op, inputs),
    }
}

fn dot(left: &[f32], right: &[f32]) -> f64 {
    let pairs = left.iter().zip(right);
    pairs.map(|(&left, &right)| f64::from(left) * f64::from(right)).sum()
}

/// `target += factor * values`.
fn add_scaled(target: &mut [f64], factor: f64, values: &[f32]) {
    for (target, &value) in target.iter_mut().zip(values) {
        *target += factor * f64::from(value);
    }
}

/// Softmax scale.
fn scale(op: &Attention) -> f64 {
    1.0 / (op.head_dim as f64).sqrt()
}

fn forward(op: &Attention, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let sizes = Sizes::of(op);
    let [q, k, v] = [&inputs[0], &inputs[1], &inputs[2]];
    let rows = sizes.batch * sizes.heads * sizes.seq_q;
    let mut output = vec![0.0; rows * sizes.value_dim];
    let mut stats = vec![0.0; rows];
    for (row, head, place) in sizes.queries() {
        let query = &q[row * sizes.head_dim..][..sizes.head_dim];
        let keys = visible(op, place);
        let scores: Vec<_> = keys
            .clone()
            .map(|key| scale(op) * dot(query, &k[sizes.key(head, key)]))
            .collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
        stats[row] = largest + sum.ln();
        let target = &mut output[row * sizes.value_dim..][..sizes.value_dim];
        for (key, score) in keys.zip(&scores) {
            let probability = (score - stats[row]).exp();
            add_scaled(target, probability, &v[sizes.value(head, key)]);
        }
    }
    vec![output, stats]
}

fn backward(op: &Attention, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let sizes = Sizes::of(op);
    let [q, k, v, o, d_o, stats] = [0, 1, 2, 3, 4, 5].map(|at| &inputs[at]);
    let mut dq = vec![0.0; q.len()];
    let mut dk = vec![0.0; k.len()];
    let mut dv = vec![0.0; v.len()];
    for (row, head, place) in sizes.queries() {
        let query = row * sizes.head_dim..(row + 1) * sizes.head_dim;
        let output = row * sizes.value_dim..(row + 1) * sizes.value_dim;
        let upstream = &d_o[output.clone()];
        let delta = dot(upstream, &o[output]);
        for key in visible(op, place) {
            let (key, value) = (sizes.key(head, key), sizes.value(head, key));
            let score = scale(op) * dot(&q[query.clone()], &k[key.clone()]);
            let probability = (score - f64::from(stats[row])).exp();
            add_scaled(&mut dv[value.clone()], probability, upstream);
            let d_score = probability * (dot(upstream, &v[value]) - delta) * scale(op);
            add_scaled(&mut dq[query.clone()], d_score, &k[key.clone()]);
            add_scaled(&mut dk[key], d_score, &q[query.clone()]);
        }
    }
    vec![dq, dk, dv]
}
