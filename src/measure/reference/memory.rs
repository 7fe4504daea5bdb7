//! Memory-bound kernels, each a row of [`KERNELS`]: what it reads, writes and computes, and the CUDA kernel that does.

use super::{Element, Operand, Operands, wide};
use crate::measure::format::rounded;
use crate::ops::MemoryKind::{self, *};
use crate::ops::{Dtype, Memory, Pass};
use crate::random::Random;
use Access::{Flat, MovedRows, Pairs, Rows, Tiles};
use Pass::{Backward, Forward};

/// Added to variances before the root.
pub const EPSILON: f64 = 1e-5;

/// Dropout probability of 0.1, as a threshold on the 32 bits of a hash.
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

/// How the threads of a CUDA kernel divide its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By rows, which begin and end with single elements where no access of 16 bytes is aligned.
    Rows,
    /// By rows that move to another place and so have another alignment there.
    MovedRows,
    /// By pairs of elements half a head apart.
    Pairs,
    /// As one list of elements.
    Flat,
    /// By square tiles.
    Tiles,
}

/// A kernel that devices run: operands by the names that [`operand`] knows, outputs, the file and the name of the CUDA
/// kernel, and its access.
type Kernel = (
    MemoryKind,
    Pass,
    &'static str,
    fn(&Call) -> Values,
    &'static str,
    Access,
);

/// The values of operands.
type Values = Vec<Vec<f64>>;

#[rustfmt::skip]
const KERNELS: &[Kernel] = &[
    (Softmax, Forward, "x -> y", softmax, "softmax.cu softmax_forward", Rows),
    (Softmax, Backward, "y dy -> dx", softmax_backward, "softmax.cu softmax_backward", Rows),
    (CrossEntropy, Forward, "logits classes -> loss stats", loss, "softmax.cu cross_entropy_forward", Rows),
    (CrossEntropy, Backward, "logits classes stats dloss -> dlogits", loss_backward, "softmax.cu cross_entropy_backward", Rows),
    (LayerNorm, Forward, "x gamma beta -> y", norm, "norm.cu layer_norm_forward", Rows),
    (LayerNorm, Backward, "x gamma dy mean rstd -> dx dgamma dbeta", norm_backward, "norm.cu layer_norm_backward", Rows),
    (RmsNorm, Forward, "x gamma -> y", norm, "norm.cu rms_norm_forward", Rows),
    (RmsNorm, Backward, "x gamma dy rstd -> dx dgamma", norm_backward, "norm.cu rms_norm_backward", Rows),
    (Mask, Forward, "x -> y", |c| c.masked(f64::NEG_INFINITY), "elementwise.cu mask", Rows),
    (Mask, Backward, "dy -> dx", |c| c.masked(0.0), "elementwise.cu mask", Rows),
    (Dropout, Forward, "x -> y mask", dropout, "elementwise.cu dropout_forward", Flat),
    (Dropout, Backward, "dy mask -> dx", dropout, "elementwise.cu dropout_backward", Flat),
    (Gelu, Forward, "x -> y", |c| c.map(|[x, ..]| gelu(x).0), "elementwise.cu gelu_forward", Flat),
    (Gelu, Backward, "x dy -> dx", |c| c.map(|[x, dy, _]| gelu(x).1 * dy), "elementwise.cu gelu_backward", Flat),
    (Swiglu, Forward, "gate up -> y", |c| c.map(|[gate, up, _]| gate * sigmoid(gate) * up), "elementwise.cu swiglu_forward", Flat),
    (Swiglu, Backward, "gate up dy -> dgate dup", swiglu_backward, "elementwise.cu swiglu_backward", Flat),
    (Rotary, Forward, "x cos sin -> y", |c| c.rotated(1.0), "elementwise.cu rotary", Pairs),
    (Rotary, Backward, "dy cos sin -> dx", |c| c.rotated(-1.0), "elementwise.cu rotary", Pairs),
    (Add, Forward, "x skip -> y", |c| c.map(|[x, skip, _]| x + skip), "elementwise.cu add", Flat),
    (Add, Backward, "dy dskip -> dx", |c| c.map(|[dy, dskip, _]| dy + dskip), "elementwise.cu add", Flat),
    (Adam, Forward, "gradient weight m v -> weight m v low", step, "elementwise.cu adam", Flat),
    (Zero, Forward, "-> y", |c| c.map(|_| 0.0), "elementwise.cu zero", Flat),
    (Copy, Forward, "x -> y", |c| c.map(|[x, ..]| x), "copy.cu copy", Flat),
    (Copy, Backward, "dy -> dx", |c| c.map(|[dy, ..]| dy), "copy.cu copy", Flat),
    (Embedding, Forward, "table rows -> y", gather, "gather.cu gather", MovedRows),
    (Embedding, Backward, "dy rows dtable -> dtable", scatter, "gather.cu scatter_add", MovedRows),
    (Permute, Forward, "x order -> y", gather, "gather.cu gather", MovedRows),
    (Permute, Backward, "dy order -> dx", scatter, "gather.cu scatter", MovedRows),
    (Quantize, Forward, "x scale amax -> amax cast transposed", quantize, "quantize.cu quantize_forward", Tiles),
];

fn kernel(op: &Memory) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| (kernel.0, kernel.1) == (op.kind, op.pass))
}

/// The file in `kernels/` and the name of the CUDA kernel of an operator, and how its threads divide the tensors.
pub fn cuda_kernel(op: &Memory) -> Option<(&'static str, &'static str, Access)> {
    let &(.., place, access) = kernel(op)?;
    let (file, name) = place.split_once(' ')?;
    Some((file, name, access))
}

/// Why no device runs an operator, if none does.
pub fn refuses_memory(op: &Memory) -> Option<String> {
    match kernel(op) {
        None => Some(format!("there is no kernel of {} {}", op.kind, op.pass)),
        Some(_) => operands(op)
            .is_none()
            .then(|| "rotary embedding needs an even number of columns".to_owned()),
    }
}

/// An operand by its name; `None` where the columns have no pairs to rotate.
fn operand(op: &Memory, name: &'static str) -> Option<Operand> {
    use Element::{Eighth, Flag, Index, Single, Tensor};
    let (rows, cols, all) = (op.rows, op.cols, op.rows * op.cols);
    let (element, elements) = match name {
        "gamma" | "beta" => (Tensor, cols),
        "dgamma" | "dbeta" => (Single, cols),
        "mean" | "rstd" | "stats" | "loss" | "dloss" => (Single, rows),
        "rows" | "classes" | "order" => (Index, rows),
        "weight" | "m" | "v" => (Single, all),
        "cos" | "sin" => (Single, positions(rows) * (rotary_width(cols)? / 2)),
        "scale" | "amax" => (Single, 1),
        "cast" | "transposed" => (Eighth, all),
        "mask" => (Flag, all),
        _ => (Tensor, all),
    };
    Some(Operand {
        name,
        element,
        elements,
    })
}

pub fn operands(op: &Memory) -> Option<Operands> {
    let (reads, writes) = kernel(op)?.2.split_once("->")?;
    // Weights in single precision need no copy in the format of the operands.
    let is_there = |name: &&str| *name != "low" || op.dtype.size() < 4;
    let list = |names: &'static str| -> Option<Vec<_>> {
        let names = names.split_whitespace().filter(is_there);
        names.map(|name| operand(op, name)).collect()
    };
    Some(Operands {
        inputs: list(reads)?,
        outputs: list(writes)?,
    })
}

pub fn inputs(op: &Memory, random: &mut Random) -> Vec<Vec<f32>> {
    let mut drawn: Vec<Vec<f32>> = Vec::new();
    for Operand { name, elements, .. } in operands(op).unwrap_or_default().inputs {
        // Statistics and probabilities follow from the rounded inputs.
        let by_row = |of: &[f32], statistic: &dyn Fn(&[f64]) -> f64| -> Vec<f32> {
            let held = of.iter().map(|&value| rounded(op.dtype, value)).collect();
            let call = Call::new(op, wide(&[held]));
            call.rows(0).map(|row| statistic(row) as f32).collect()
        };
        let values = match name {
            "rows" => random.indices(elements, op.rows),
            "classes" => random.indices(elements, op.cols),
            "order" => random.permutation(elements),
            "mask" => (0..elements).map(|element| flag(element) as f32).collect(),
            "cos" => angles(op, f64::cos),
            "sin" => angles(op, f64::sin),
            // Most of the cast falls inside the range of E4M3, some beyond it.
            "scale" => vec![128.0],
            "amax" => vec![0.0],
            "v" => random.normals(elements).iter().map(|v| v * v).collect(),
            "mean" => by_row(&drawn[0], &|row| moments(op.kind, row).0),
            "rstd" => by_row(&drawn[0], &|row| moments(op.kind, row).1),
            "stats" => by_row(&drawn[0], &log_sum_exp),
            "y" => {
                let scores = Call::new(op, wide(&[random.normals(elements)]));
                softmax(&scores).concat().iter().map(|&p| p as f32).collect()
            }
            _ => random.normals(elements),
        };
        drawn.push(values);
    }
    drawn
}

pub fn run(op: &Memory, inputs: Values) -> Values {
    let Some((kernel, operands)) = kernel(op).zip(operands(op)) else {
        return Vec::new();
    };
    let mut outputs = kernel.3(&Call::new(op, inputs));
    outputs.truncate(operands.outputs.len());
    outputs
}

/// A call: an operator and the values that it reads.
struct Call<'a> {
    op: &'a Memory,
    /// Empty where it has none.
    inputs: [Vec<f64>; 5],
    cols: usize,
}

impl<'a> Call<'a> {
    fn new(op: &'a Memory, inputs: Values) -> Self {
        let mut inputs = inputs.into_iter();
        Self {
            op,
            inputs: std::array::from_fn(|_| inputs.next().unwrap_or_default()),
            cols: op.cols as usize,
        }
    }

    /// The rows of an input.
    fn rows(&self, input: usize) -> impl Iterator<Item = &[f64]> {
        self.inputs[input].chunks_exact(self.cols)
    }

    /// An output, element by element.
    fn each(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..self.op.rows as usize * self.cols).map(value).collect()
    }

    /// The output that follows from the same element of up to three inputs.
    fn map(&self, value: impl Fn([f64; 3]) -> f64) -> Values {
        let at = |input: usize, element| self.inputs[input].get(element).copied().unwrap_or(0.0);
        vec![self.each(|element| value([0, 1, 2].map(|input| at(input, element))))]
    }

    /// The first input where a causal mask keeps it, in stacked square score matrices.
    fn masked(&self, hidden: f64) -> Values {
        let cols = self.cols;
        let value = |element: usize| match element % cols <= element / cols % cols {
            true => self.inputs[0][element],
            false => hidden,
        };
        vec![self.each(value)]
    }

    /// The pairs `(i, i + width/2)` of each head turned by the angle of the row's position times a sign.
    fn rotated(&self, sign: f64) -> Values {
        let width = rotary_width(self.op.cols).unwrap_or(2) as usize;
        let (half, positions) = (width / 2, positions(self.op.rows) as usize);
        let [x, cos, sin, ..] = &self.inputs;
        let turned = |element: usize| {
            let (row, inside) = (element / self.cols, element % self.cols % width);
            let angle = row % positions * half + inside % half;
            let (other, sign) = match inside < half {
                true => (element + half, -sign),
                false => (element - half, sign),
            };
            x[element] * cos[angle] + sign * x[other] * sin[angle]
        };
        vec![self.each(turned)]
    }

    /// Where the second input says that an element is taken from or put to.
    fn place(&self, element: usize) -> usize {
        self.inputs[1][element / self.cols] as usize * self.cols + element % self.cols
    }
}

/// 1 if dropout keeps the element of this number: by a hash of the number (lowbias32, Wellons 2018), so that kernels agree.
fn flag(element: u64) -> f64 {
    let mut x = element as u32;
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    u8::from(x ^ (x >> 16) >= DROPOUT).into()
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

fn mean(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    values.sum::<f64>() / count as f64
}

/// The mean of a row, zero in RMS norm, and the inverse of its deviation from that.
fn moments(kind: MemoryKind, row: &[f64]) -> (f64, f64) {
    let centre = match kind {
        LayerNorm => mean(row.iter().copied(), row.len()),
        _ => 0.0,
    };
    let squares = row.iter().map(|x| (x - centre).powi(2));
    (centre, 1.0 / (mean(squares, row.len()) + EPSILON).sqrt())
}

pub fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
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

fn swiglu_backward(c: &Call) -> Values {
    let gate = c.map(|[gate, up, dy]| {
        let s = sigmoid(gate);
        dy * up * s * (1.0 + gate * (1.0 - s))
    });
    [gate, c.map(|[gate, _, dy]| dy * gate * sigmoid(gate))].concat()
}

/// The survivors of an input, and the flags of all elements.
fn dropout(c: &Call) -> Values {
    let survivor = 1.0 / (1.0 - f64::from(DROPOUT) / 2f64.powi(32));
    let flags = c.each(|element| flag(element as u64));
    vec![
        c.each(|element| c.inputs[0][element] * flags[element] * survivor),
        flags,
    ]
}

fn softmax(c: &Call) -> Values {
    let of_row = |row: &[f64]| {
        let total = log_sum_exp(row);
        row.iter().map(|x| (x - total).exp()).collect::<Vec<_>>()
    };
    vec![c.rows(0).flat_map(of_row).collect()]
}

fn softmax_backward(c: &Call) -> Values {
    let [y, dy, ..] = &c.inputs;
    let agreement = c.map(|[y, dy, _]| y * dy).concat();
    let sums: Vec<f64> = agreement.chunks(c.cols).map(|row| row.iter().sum()).collect();
    vec![c.each(|element| y[element] * (dy[element] - sums[element / c.cols]))]
}

fn loss(c: &Call) -> Values {
    let stats: Vec<f64> = c.rows(0).map(log_sum_exp).collect();
    let [logits, classes, ..] = &c.inputs;
    let losses = (0..stats.len()).map(|row| stats[row] - logits[row * c.cols + classes[row] as usize]);
    vec![losses.collect(), stats]
}

fn loss_backward(c: &Call) -> Values {
    let [logits, classes, stats, upstream, _] = &c.inputs;
    let value = |element: usize| {
        let (row, class) = (element / c.cols, element % c.cols);
        let hit = f64::from(u8::from(classes[row] as usize == class));
        upstream[row] * ((logits[element] - stats[row]).exp() - hit)
    };
    vec![c.each(value)]
}

fn norm(c: &Call) -> Values {
    let [x, gamma, beta, ..] = &c.inputs;
    let moments: Vec<_> = c.rows(0).map(|row| moments(c.op.kind, row)).collect();
    vec![c.each(|element| {
        let ((centre, rstd), column) = (moments[element / c.cols], element % c.cols);
        (x[element] - centre) * rstd * gamma[column] + beta.get(column).unwrap_or(&0.0)
    })]
}

fn norm_backward(c: &Call) -> Values {
    let [x, gamma, dy, means, rstds] = &c.inputs;
    let (means, rstds) = match c.op.kind {
        LayerNorm => (Some(means), rstds),
        _ => (None, means),
    };
    let mut sums = vec![vec![0.0; c.cols]; 2];
    let mut dx = Vec::new();
    for (row, rstd) in rstds.iter().enumerate() {
        let centre = means.map_or(0.0, |means| means[row]);
        let of_column = |column: usize| {
            let element = row * c.cols + column;
            ((x[element] - centre) * rstd, dy[element], dy[element] * gamma[column])
        };
        let columns: Vec<_> = (0..c.cols).map(of_column).collect();
        let shift = match means {
            Some(_) => mean(columns.iter().map(|(.., scaled)| *scaled), c.cols),
            None => 0.0,
        };
        let along = mean(columns.iter().map(|(unit, _, scaled)| scaled * unit), c.cols);
        for (column, (unit, dy, scaled)) in columns.into_iter().enumerate() {
            dx.push(rstd * (scaled - shift - unit * along));
            sums[0][column] += dy * unit;
            sums[1][column] += dy;
        }
    }
    [vec![dx], sums].concat()
}

fn gather(c: &Call) -> Values {
    vec![c.each(|element| c.inputs[0][c.place(element)])]
}

/// Rows added to those of the third input, or to zeros.
fn scatter(c: &Call) -> Values {
    let mut sums = c.map(|[.., sum]| sum).concat();
    for (element, value) in c.inputs[0].iter().enumerate() {
        sums[c.place(element)] += value;
    }
    vec![sums]
}

/// The largest magnitude behind the one before, the tensor times its scale in E4M3, and the same transposed.
fn quantize(c: &Call) -> Values {
    let [x, scale, amax, ..] = &c.inputs;
    let amax = x.iter().fold(amax[0], |amax, x| amax.max(x.abs()));
    let cast = |element: usize| f64::from(rounded(Dtype::Fp8, (x[element] * scale[0]) as f32));
    let rows = c.op.rows as usize;
    let transposed = c.each(|element| cast(element % rows * c.cols + element / rows));
    vec![vec![amax], c.each(cast), transposed]
}

/// One step of AdamW, and its weights once more in the format of the operands.
fn step(c: &Call) -> Values {
    let [gradient, weight, m, v, _] = &c.inputs;
    let decayed = |old: f64, new: f64, beta: f64| beta * old + (1.0 - beta) * new;
    let m = c.each(|e| decayed(m[e], gradient[e], adam::BETA_1));
    let v = c.each(|e| decayed(v[e], gradient[e] * gradient[e], adam::BETA_2));
    let corrected = |moment: f64, beta: f64| moment / (1.0 - beta.powi(adam::STEP));
    let weight = c.each(|e| {
        let root = corrected(v[e], adam::BETA_2).sqrt();
        let direction = corrected(m[e], adam::BETA_1) / (root + adam::EPSILON) + adam::DECAY * weight[e];
        weight[e] - adam::RATE * direction
    });
    vec![weight.clone(), m, v, weight]
}
