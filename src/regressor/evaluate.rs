//! Fast evaluation of an ensemble of small nets on one core.
//!
//! Rows are taken in blocks whose hidden units stay in the second-level cache; each net sends a block
//! through its hidden layers, and the single output is a dot product with the units of the last of them.

use crate::regressor::kernel::{Dense, Instructions};
use crate::regressor::net::{Layer, Net};
use std::cell::RefCell;

/// Rows that go through a net together: enough to pay for fetching its weights again, in whole tiles.
const BLOCK: usize = 96;

/// Mean and standard deviation of what the members answer. Calibration and prediction must mean the same spread.
pub fn mean_and_spread(answers: impl ExactSizeIterator<Item = f32> + Clone) -> (f64, f64) {
    let members = answers.len() as f64;
    let answers = answers.map(f64::from);
    let mean = answers.clone().sum::<f64>() / members;
    let variance = answers.map(|answer| (answer - mean).powi(2)).sum::<f64>() / members;
    (mean, variance.sqrt())
}

/// Nets of one family laid out for the processor.
///
/// # Shapes
/// `[batch, inputs] -> [batch, members]`, both row-major.
#[derive(Clone, Debug)]
pub struct Ensemble {
    inputs: usize,
    members: Vec<Member>,
}

impl Ensemble {
    /// Packs `nets` for the fastest instructions that this processor has.
    ///
    /// # Panics
    /// When the nets differ in the width of their input, or the layers of one do not fit together.
    pub fn new(nets: &[Net]) -> Self {
        Self::with_instructions(nets, Instructions::available()[0])
    }

    fn with_instructions(nets: &[Net], instructions: Instructions) -> Self {
        let inputs = nets.first().map_or(0, Net::inputs);
        for net in nets {
            assert_eq!(net.inputs(), inputs, "members see the same features");
        }
        Self {
            inputs,
            members: nets
                .iter()
                .map(|net| Member::new(net, instructions))
                .collect(),
        }
    }

    /// How many nets there are.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Width of a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Evaluates every net on `rows`, laid one after the other, and leaves the outputs in `out`.
    ///
    /// Allocates nothing once a thread has evaluated such a batch and `out` has the capacity.
    ///
    /// # Panics
    /// When `rows` is not a whole number of rows.
    pub fn evaluate(&self, rows: &[f32], out: &mut Vec<f32>) {
        out.clear();
        if self.inputs == 0 {
            assert!(rows.is_empty(), "rows of no features");
            return;
        }
        assert_eq!(rows.len() % self.inputs, 0, "a whole number of rows");
        out.resize(rows.len() / self.inputs * self.members(), 0.0);
        let blocks = rows.chunks(BLOCK * self.inputs);
        let outputs = out.chunks_mut(BLOCK * self.members());
        SCRATCH.with_borrow_mut(|scratch| {
            for (rows, out) in blocks.zip(outputs) {
                for (index, member) in self.members.iter().enumerate() {
                    let out = out[index..].iter_mut().step_by(self.members());
                    member.evaluate(rows, self.inputs, scratch, out);
                }
            }
        });
    }
}

/// One net.
#[derive(Clone, Debug)]
struct Member {
    hidden: Vec<Dense>,
    /// Weights of the single output, with zeros for the units that the last hidden layer is padded by.
    weights: Vec<f32>,
    bias: f32,
}

impl Member {
    fn new(net: &Net, instructions: Instructions) -> Self {
        for pair in net.layers.windows(2) {
            assert_eq!(pair[0].outputs, pair[1].inputs, "layers fit together");
        }
        let (last, hidden) = net.layers.split_last().expect("a net has a layer");
        assert_eq!(last.outputs, 1, "a net has one output");
        let pack = |layer: &Layer| Dense::new(layer, instructions);
        let hidden: Vec<Dense> = hidden.iter().map(pack).collect();
        let mut weights = last.weight.clone();
        weights.resize(hidden.last().map_or(last.inputs, Dense::width), 0.0);
        Self {
            hidden,
            weights,
            bias: last.bias[0],
        }
    }

    /// Sends `rows` of `width` numbers through the net.
    fn evaluate<'a>(
        &self,
        rows: &[f32],
        mut width: usize,
        Scratch { units, next }: &mut Scratch,
        out: impl Iterator<Item = &'a mut f32>,
    ) {
        units.clear();
        units.extend_from_slice(rows);
        for layer in &self.hidden {
            layer.rectified(units, width, next);
            std::mem::swap(units, next);
            width = layer.width();
        }
        for (out, units) in out.zip(units.chunks_exact(width)) {
            *out = self.bias + dot(units, &self.weights);
        }
    }
}

/// The sum of products, in independent lanes so that compilers turn it into vectors.
fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<16>();
    let (right, right_rest) = right.as_chunks::<16>();
    let mut lanes = [0.0; 16];
    for (left, right) in left.iter().zip(right) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += left[lane] * right[lane];
        }
    }
    let rest = left_rest.iter().zip(right_rest);
    lanes.iter().sum::<f32>() + rest.map(|(left, right)| left * right).sum::<f32>()
}

/// Working memory of a block: what a layer reads and what it writes.
#[derive(Debug, Default)]
struct Scratch {
    units: Vec<f32>,
    next: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproducible numbers in [-1, 1).
    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn net(widths: &[usize], seed: u64) -> Net {
        let layer = |pair: &[usize]| Layer {
            inputs: pair[0],
            outputs: pair[1],
            weight: numbers(pair[0] * pair[1], seed)
                .iter()
                .map(|weight| weight * (3.0 / pair[0] as f32).sqrt())
                .collect(),
            bias: numbers(pair[1], seed + 1),
        };
        Net {
            layers: widths.windows(2).map(layer).collect(),
        }
    }

    /// Every path agrees with the plain loop on `rows`.
    fn check(nets: &[Net], rows: &[f32]) {
        let expected: Vec<Vec<f32>> = nets.iter().map(|net| net.forward(rows)).collect();
        for instructions in Instructions::available() {
            let mut out = vec![f32::NAN; 3];
            Ensemble::with_instructions(nets, instructions).evaluate(rows, &mut out);
            assert_eq!(out.len() * nets[0].inputs(), rows.len() * nets.len());
            for (row, values) in out.chunks_exact(nets.len()).enumerate() {
                for (value, expected) in values.iter().zip(&expected) {
                    let bound = 1e-5 * (1.0 + expected[row].abs());
                    let near = (value - expected[row]).abs() <= bound;
                    assert!(
                        near,
                        "{instructions:?} row {row}: {value}, not {}",
                        expected[row]
                    );
                }
            }
        }
    }

    #[test]
    fn every_path_agrees_with_the_plain_loop_at_every_batch_size() {
        for widths in [
            &[5, 1][..],
            &[7, 13, 1],
            &[9, 17, 18, 1],
            &[33, 17, 40, 5, 1],
        ] {
            let nets = [3, 5, 8].map(|seed| net(widths, seed));
            for batch in 0..=70 {
                check(&nets, &numbers(batch * widths[0], 99));
            }
        }
    }

    #[test]
    fn every_path_agrees_with_the_plain_loop_at_the_usual_widths() {
        let nets = [3, 5, 8, 13, 21].map(|seed| net(&[116, 128, 128, 1], seed));
        for batch in [1, 15, 100] {
            check(&nets, &numbers(batch * 116, 99));
        }
    }

    #[test]
    fn a_row_has_the_same_outputs_to_the_bit_in_every_batch() {
        let nets = [3, 5].map(|seed| net(&[30, 50, 40, 1], seed));
        let rows = numbers(2 * BLOCK * 30, 99);
        for instructions in Instructions::available() {
            let ensemble = Ensemble::with_instructions(&nets, instructions);
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            ensemble.evaluate(&rows, &mut together);
            for (row, expected) in rows.chunks_exact(30).zip(together.chunks_exact(2)) {
                ensemble.evaluate(row, &mut alone);
                assert_eq!(alone, expected, "{instructions:?}");
            }
        }
    }
}
