//! Memory-bound kernels, forward and backward: what each reads, writes and computes.

use crate::measure::reference::{Element, Operands};
use crate::ops::{Dtype, Memory, MemoryKind, Pass};
use crate::random::Random;

/// Added to variances before the root.
pub const EPSILON: f64 = 1e-5;

/// Dropout probability of 0.1, as a threshold on the 32 bits of the hash in [`keeps`].
pub const DROPOUT: u32 = 429_496_730;

/// Number of positions in the tables of rotary embedding; those of further rows repeat, as in a
/// batch.
const POSITIONS: u64 = 4096;

/// Constants of the optimiser step.
pub mod adam {
    /// Step size.
    pub const RATE: f64 = 1e-3;
    /// Decay of the first moment.
    pub const BETA_1: f64 = 0.9;
    /// Decay of the second moment.
    pub const BETA_2: f64 = 0.999;
    /// Added to the root of the second moment.
    pub const EPSILON: f64 = 1e-8;
    /// Decoupled weight decay.
    pub const DECAY: f64 = 0.1;
    /// The number of this step, which corrects the bias of the moments.
    pub const STEP: i32 = 10;
}

/// Whether dropout keeps the element of this number: a hash of the number, so that kernels agree.
pub const fn keeps(element: u64) -> bool {
    hash(element as u32) >= DROPOUT
}

/// 32-bit hash (lowbias32, Wellons 2018).
const fn hash(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// Head size of rotary embedding: 128 or 64 where it divides the columns, else all of them; none
/// where that is odd.
pub const fn rotary_width(cols: u64) -> Option<u64> {
    match cols {
        cols if cols.is_multiple_of(128) => Some(128),
        cols if cols.is_multiple_of(64) => Some(64),
        cols if cols.is_multiple_of(2) => Some(cols),
        _ => None,
    }
}

/// Number of positions in the tables of rotary embedding; row `r` is at position `r` modulo this.
pub const fn positions(rows: u64) -> u64 {
    if rows < POSITIONS { rows } else { POSITIONS }
}

pub(super) fn operands(op: &Memory) -> Option<Operands> {
    use Element::{Eighth, Flag, Index, Single, Tensor};
    use Pass::{Backward, Forward};
    let (rows, cols) = (op.rows, op.cols);
    let tensor = |name| (name, Tensor, rows * cols);
    let column = |name| (name, Tensor, cols);
    let row = |name| (name, Single, rows);
    let state = |name| (name, Single, rows * cols);
    let (x, y, dx, dy) = (tensor("x"), tensor("y"), tensor("dx"), tensor("dy"));
    let (gamma, gradients) = (column("gamma"), [("dgamma", Single, cols), ("dbeta", Single, cols)]);
    let index = |name| (name, Index, rows);
    Some(match (op.kind, op.pass) {
        // Fused into other kernels: there is none to call.
        (MemoryKind::AccumulateGradient, _) => return None,
        // No device runs them yet.
        (
            MemoryKind::CastFp8
            | MemoryKind::CausalConv
            | MemoryKind::CausalConvStep
            | MemoryKind::Downcast
            | MemoryKind::Upcast,
            _,
        ) => return None,
        (MemoryKind::Zero, Forward) => Operands::new(&[], &[y]),
        (MemoryKind::Quantize, Forward) => {
            let cast = |name| (name, Eighth, rows * cols);
            let amax = ("amax", Single, 1);
            Operands::new(&[x, ("scale", Single, 1), amax], &[amax, cast("y"), cast("transposed")])
        }
        (MemoryKind::Quantize | MemoryKind::Zero, Backward) => return None,
        (MemoryKind::Softmax | MemoryKind::Mask | MemoryKind::Gelu | MemoryKind::Copy, Forward) => {
            Operands::new(&[x], &[y])
        }
        (MemoryKind::Mask | MemoryKind::Copy, Backward) => Operands::new(&[dy], &[dx]),
        (MemoryKind::Softmax, Backward) => Operands::new(&[y, dy], &[dx]),
        (MemoryKind::Gelu, Backward) => Operands::new(&[x, dy], &[dx]),
        (MemoryKind::Dropout, Forward) => Operands::new(&[x], &[y, ("mask", Flag, rows * cols)]),
        (MemoryKind::Dropout, Backward) => Operands::new(&[dy, ("mask", Flag, rows * cols)], &[dx]),
        (MemoryKind::LayerNorm, Forward) => Operands::new(&[x, gamma, column("beta")], &[y]),
        (MemoryKind::LayerNorm, Backward) => Operands::new(
            &[x, gamma, dy, row("mean"), row("rstd")],
            &[dx, gradients[0], gradients[1]],
        ),
        (MemoryKind::RmsNorm, Forward) => Operands::new(&[x, gamma], &[y]),
        (MemoryKind::RmsNorm, Backward) => Operands::new(&[x, gamma, dy, row("rstd")], &[dx, gradients[0]]),
        (MemoryKind::Swiglu, Forward) => Operands::new(&[tensor("gate"), tensor("up")], &[y]),
        (MemoryKind::Swiglu, Backward) => {
            Operands::new(&[tensor("gate"), tensor("up"), dy], &[tensor("dgate"), tensor("dup")])
        }
        (MemoryKind::Rotary, pass) => {
            let angles = positions(rows) * (rotary_width(cols)? / 2);
            let tables = [("cos", Single, angles), ("sin", Single, angles)];
            match pass {
                Forward => Operands::new(&[x, tables[0], tables[1]], &[y]),
                Backward => Operands::new(&[dy, tables[0], tables[1]], &[dx]),
            }
        }
        (MemoryKind::Add, Forward) => Operands::new(&[x, tensor("skip")], &[y]),
        (MemoryKind::Add, Backward) => Operands::new(&[dy, tensor("dskip")], &[dx]),
        (MemoryKind::Embedding, Forward) => Operands::new(&[tensor("table"), index("rows")], &[y]),
        (MemoryKind::Embedding, Backward) => Operands::new(&[dy, index("rows"), tensor("dtable")], &[tensor("dtable")]),
        (MemoryKind::CrossEntropy, Forward) => {
            Operands::new(&[tensor("logits"), index("classes")], &[row("loss"), row("stats")])
        }
        (MemoryKind::CrossEntropy, Backward) => Operands::new(
            &[tensor("logits"), index("classes"), row("stats"), row("dloss")],
            &[tensor("dlogits")],
        ),
        (MemoryKind::Adam, Forward) => {
            let weights = [state("weight"), state("m"), state("v")];
            let mut outputs = weights.to_vec();
            if op.dtype.size() < 4 {
                outputs.push(tensor("low"));
            }
            let inputs = [tensor("gradient"), weights[0], weights[1], weights[2]];
            Operands::new(&inputs, &outputs)
        }
        (MemoryKind::PlainAdam, Forward) => {
            let weights = ["weight", "m", "v"].map(tensor);
            let inputs = [tensor("gradient"), weights[0], weights[1], weights[2]];
            Operands::new(&inputs, &weights)
        }
        (MemoryKind::Adam | MemoryKind::PlainAdam, Backward) => return None,
        (MemoryKind::Permute, Forward) => Operands::new(&[x, index("order")], &[y]),
        (MemoryKind::Permute, Backward) => Operands::new(&[dy, index("order")], &[dx]),
    })
}

pub(super) fn inputs(op: &Memory, random: &mut Random) -> Vec<Vec<f32>> {
    let Some(operands) = operands(op) else {
        return Vec::new();
    };
    let mut drawn: Vec<Vec<f32>> = Vec::new();
    for operand in operands.inputs {
        let count = operand.elements;
        let values = match operand.name {
            "rows" => random.indices(count, op.rows),
            "classes" => random.indices(count, op.cols),
            "order" => random.permutation(count),
            "mask" => flags(count),
            "cos" => angles(op, f64::cos),
            "sin" => angles(op, f64::sin),
            // Most of the cast falls inside the range of E4M3, some beyond it.
            "scale" => vec![128.0],
            "amax" => vec![0.0],
            "v" => random.normals(count).iter().map(|v| v * v).collect(),
            // Statistics and probabilities follow from the rounded inputs.
            "mean" => moments(op, &held(op, &drawn[0]), |mean, _| mean),
            "rstd" if op.kind == MemoryKind::LayerNorm => moments(op, &held(op, &drawn[0]), |mean, square| {
                1.0 / (square - mean * mean + EPSILON).sqrt()
            }),
            "rstd" => moments(op, &held(op, &drawn[0]), |_, square| 1.0 / (square + EPSILON).sqrt()),
            "stats" => {
                let logits = held(op, &drawn[0]);
                let rows = logits.chunks_exact(op.cols as usize);
                rows.map(|row| log_sum_exp(row) as f32).collect()
            }
            "y" => {
                let scores = random.normals(count);
                let rows = scores.chunks_exact(op.cols as usize);
                rows.flat_map(softmax).map(|p| p as f32).collect()
            }
            _ => random.normals(count),
        };
        drawn.push(values);
    }
    drawn
}

/// Values rounded to the operator's format.
fn held(op: &Memory, values: &[f32]) -> Vec<f32> {
    let rounded = |&value| crate::measure::format::rounded(op.dtype, value);
    values.iter().map(rounded).collect()
}

/// The flags that dropout writes.
fn flags(count: u64) -> Vec<f32> {
    let flag = |element| f32::from(u8::from(keeps(element)));
    (0..count).map(flag).collect()
}

/// A function of the angles `position · 10000^(-2i/width)`, by positions and then pairs.
fn angles(op: &Memory, function: fn(f64) -> f64) -> Vec<f32> {
    let width = rotary_width(op.cols).unwrap_or(2);
    let at = |position: u64, pair: u64| {
        let frequency = 10_000f64.powf(-2.0 * pair as f64 / width as f64);
        function(position as f64 * frequency) as f32
    };
    (0..positions(op.rows))
        .flat_map(|position| (0..width / 2).map(move |pair| at(position, pair)))
        .collect()
}

/// A function of the mean and the mean square of each row.
fn moments(op: &Memory, x: &[f32], function: impl Fn(f64, f64) -> f64) -> Vec<f32> {
    let cols = op.cols as f64;
    let rows = x.chunks_exact(op.cols as usize);
    rows.map(|row| {
        let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
        let squares: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
        function(sum / cols, squares / cols) as f32
    })
    .collect()
}

fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = row.iter().map(|&x| (f64::from(x) - largest).exp()).sum();
    largest + sum.ln()
}

fn softmax(row: &[f32]) -> impl Iterator<Item = f64> {
    let total = log_sum_exp(row);
    row.iter().map(move |&x| (f64::from(x) - total).exp())
}

/// Whether a causal mask keeps this element of stacked `cols x cols` score matrices.
const fn unmasked(element: usize, cols: usize) -> bool {
    element % cols <= (element / cols) % cols
}

/// GELU and its derivative, in the tanh approximation that training frameworks fuse (Hendrycks and
/// Gimpel 2016); it differs from the exact one by less than 5e-4.
fn gelu(x: f64) -> (f64, f64) {
    let factor = (2.0 / std::f64::consts::PI).sqrt();
    let tanh = (factor * (x + 0.044715 * x.powi(3))).tanh();
    let slope = factor * (1.0 + 3.0 * 0.044715 * x * x);
    let derivative = 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope;
    (0.5 * x * (1.0 + tanh), derivative)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn run(op: &Memory, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    use Pass::{Backward, Forward};
    if operands(op).is_none() {
        return Vec::new();
    }
    let cols = op.cols as usize;
    let at = |operand: usize| move |element: usize| f64::from(inputs[operand][element]);
    let (first, second) = (at(0), at(1));
    let elements = op.rows as usize * cols;
    let map = |f: &dyn Fn(usize) -> f64| vec![(0..elements).map(f).collect::<Vec<_>>()];
    match (op.kind, op.pass) {
        (MemoryKind::Copy, _) => map(&first),
        (MemoryKind::Zero, _) => map(&|_| 0.0),
        // They have no operands.
        (
            MemoryKind::AccumulateGradient
            | MemoryKind::CastFp8
            | MemoryKind::CausalConv
            | MemoryKind::CausalConvStep
            | MemoryKind::Downcast
            | MemoryKind::Upcast,
            _,
        ) => Vec::new(),
        (MemoryKind::Quantize, _) => quantize(op, inputs),
        (MemoryKind::Add, _) => map(&|e| first(e) + second(e)),
        (MemoryKind::Mask, Forward) => map(&|e| match unmasked(e, cols) {
            true => first(e),
            false => f64::NEG_INFINITY,
        }),
        (MemoryKind::Mask, Backward) => map(&|e| match unmasked(e, cols) {
            true => first(e),
            false => 0.0,
        }),
        (MemoryKind::Dropout, pass) => {
            let survivor = 1.0 / (1.0 - f64::from(DROPOUT) / 2f64.powi(32));
            let mut outputs = map(&|e| match keeps(e as u64) {
                true => first(e) * survivor,
                false => 0.0,
            });
            if pass == Forward {
                outputs.push(flags(elements as u64).iter().map(|&f| f.into()).collect());
            }
            outputs
        }
        (MemoryKind::Gelu, Forward) => map(&|e| gelu(first(e)).0),
        (MemoryKind::Gelu, Backward) => map(&|e| gelu(first(e)).1 * second(e)),
        (MemoryKind::Swiglu, Forward) => map(&|e| first(e) * sigmoid(first(e)) * second(e)),
        (MemoryKind::Swiglu, Backward) => {
            let upstream = at(2);
            let dgate = map(&|e| {
                let s = sigmoid(first(e));
                upstream(e) * second(e) * s * (1.0 + first(e) * (1.0 - s))
            });
            let dup = map(&|e| upstream(e) * first(e) * sigmoid(first(e)));
            [dgate, dup].concat()
        }
        (MemoryKind::Softmax, Forward) => {
            vec![inputs[0].chunks_exact(cols).flat_map(softmax).collect()]
        }
        (MemoryKind::Softmax, Backward) => {
            let row_sum = |row: usize| -> f64 {
                let elements = row * cols..(row + 1) * cols;
                elements.map(|e| first(e) * second(e)).sum()
            };
            let sums: Vec<_> = (0..op.rows as usize).map(row_sum).collect();
            map(&|e| first(e) * (second(e) - sums[e / cols]))
        }
        (MemoryKind::LayerNorm | MemoryKind::RmsNorm, Forward) => norm_forward(op, inputs),
        (MemoryKind::LayerNorm | MemoryKind::RmsNorm, Backward) => norm_backward(op, inputs),
        (MemoryKind::Rotary, pass) => vec![rotate(op, inputs, pass)],
        (MemoryKind::Embedding | MemoryKind::Permute, Forward) => {
            map(&|e| first(second(e / cols) as usize * cols + e % cols))
        }
        (MemoryKind::Embedding, Backward) => {
            let mut table: Vec<_> = inputs[2].iter().map(|&value| f64::from(value)).collect();
            for e in 0..elements {
                table[second(e / cols) as usize * cols + e % cols] += first(e);
            }
            vec![table]
        }
        (MemoryKind::Permute, Backward) => {
            let mut moved = vec![0.0; elements];
            for e in 0..elements {
                moved[second(e / cols) as usize * cols + e % cols] = first(e);
            }
            vec![moved]
        }
        (MemoryKind::CrossEntropy, Forward) => {
            let rows = inputs[0].chunks_exact(cols);
            let stats: Vec<_> = rows.map(log_sum_exp).collect();
            let picked = |row: usize| first(row * cols + second(row) as usize);
            let losses = stats.iter().enumerate();
            let losses = losses.map(|(row, stats)| stats - picked(row)).collect();
            vec![losses, stats]
        }
        (MemoryKind::CrossEntropy, Backward) => {
            let (stats, upstream) = (at(2), at(3));
            map(&|e| {
                let row = e / cols;
                let hit = f64::from(u8::from(second(row) as usize == e % cols));
                upstream(row) * ((first(e) - stats(row)).exp() - hit)
            })
        }
        (MemoryKind::Adam | MemoryKind::PlainAdam, _) => step(op, inputs),
    }
}

/// The tensor times its scale in E4M3, the same transposed, and the largest magnitude behind the one
/// before.
fn quantize(op: &Memory, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let (rows, cols) = (op.rows as usize, op.cols as usize);
    let (x, scale) = (&inputs[0], inputs[1][0]);
    let amax = x.iter().fold(inputs[2][0], |amax, x| amax.max(x.abs()));
    let cast = |element: usize| -> f64 { crate::measure::format::rounded(Dtype::Fp8, x[element] * scale).into() };
    let transposed = (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col));
    vec![
        vec![amax.into()],
        (0..rows * cols).map(cast).collect(),
        transposed.map(cast).collect(),
    ]
}

fn norm_forward(op: &Memory, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let centred = op.kind == MemoryKind::LayerNorm;
    let cols = op.cols as f64;
    let mut output = Vec::with_capacity(inputs[0].len());
    for row in inputs[0].chunks_exact(op.cols as usize) {
        let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
        let mean = if centred { sum / cols } else { 0.0 };
        let spread: f64 = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum();
        let rstd = 1.0 / (spread / cols + EPSILON).sqrt();
        for (column, &x) in row.iter().enumerate() {
            let beta = if centred { inputs[2][column].into() } else { 0.0 };
            output.push((f64::from(x) - mean) * rstd * f64::from(inputs[1][column]) + beta);
        }
    }
    vec![output]
}

fn norm_backward(op: &Memory, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let centred = op.kind == MemoryKind::LayerNorm;
    let cols = op.cols as usize;
    let (mut dx, mut dgamma, mut dbeta) = (Vec::new(), vec![0.0; cols], vec![0.0; cols]);
    let rstds = inputs.last().expect("the last operand is `rstd`");
    for (row, &rstd) in rstds.iter().enumerate() {
        let mean = if centred { inputs[3][row].into() } else { 0.0 };
        let rstd = f64::from(rstd);
        let unit = |column: usize| (f64::from(inputs[0][row * cols + column]) - mean) * rstd;
        let upstream = |column: usize| f64::from(inputs[2][row * cols + column]);
        let scaled = |column: usize| upstream(column) * f64::from(inputs[1][column]);
        let average = |f: &dyn Fn(usize) -> f64| (0..cols).map(f).sum::<f64>() / cols as f64;
        let shift = if centred { average(&scaled) } else { 0.0 };
        let along = average(&|column| scaled(column) * unit(column));
        for column in 0..cols {
            dx.push(rstd * (scaled(column) - shift - unit(column) * along));
            dgamma[column] += upstream(column) * unit(column);
            dbeta[column] += upstream(column);
        }
    }
    match centred {
        true => vec![dx, dgamma, dbeta],
        false => vec![dx, dgamma],
    }
}

/// Rotates the pairs `(i, i + width/2)` of each head by the angle of the row's position; backward
/// rotates them back.
fn rotate(op: &Memory, inputs: &[Vec<f32>], pass: Pass) -> Vec<f64> {
    let cols = op.cols as usize;
    let width = rotary_width(op.cols).unwrap_or(2) as usize;
    let half = width / 2;
    let value = |element: usize| f64::from(inputs[0][element]);
    let turn = |element: usize| {
        let (row, inside) = (element / cols, element % cols % width);
        let angle = row % positions(op.rows) as usize * half + inside % half;
        let (cos, sin) = (f64::from(inputs[1][angle]), f64::from(inputs[2][angle]));
        let sin = if pass == Pass::Forward { sin } else { -sin };
        if inside < half {
            value(element) * cos - value(element + half) * sin
        } else {
            value(element) * cos + value(element - half) * sin
        }
    };
    (0..inputs[0].len()).map(turn).collect()
}

/// One step of AdamW.
fn step(op: &Memory, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let mut outputs = vec![Vec::new(); 3];
    for (element, &gradient) in inputs[0].iter().enumerate() {
        let gradient = f64::from(gradient);
        let [weight, m, v] = [1, 2, 3].map(|operand: usize| f64::from(inputs[operand][element]));
        let m = adam::BETA_1 * m + (1.0 - adam::BETA_1) * gradient;
        let v = adam::BETA_2 * v + (1.0 - adam::BETA_2) * gradient * gradient;
        let first = m / (1.0 - adam::BETA_1.powi(adam::STEP));
        let second = v / (1.0 - adam::BETA_2.powi(adam::STEP));
        let direction = first / (second.sqrt() + adam::EPSILON) + adam::DECAY * weight;
        outputs[0].push(weight - adam::RATE * direction);
        outputs[1].push(m);
        outputs[2].push(v);
    }
    if op.kind == MemoryKind::Adam && op.dtype != Dtype::Fp32 {
        outputs.push(outputs[0].clone());
    }
    outputs
}
