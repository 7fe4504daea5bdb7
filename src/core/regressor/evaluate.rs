//! Fast evaluation of the small nets of a sub-model on one core.
//!
//! Rows are taken in blocks whose hidden units stay in the second-level cache; each net sends a block
//! through its hidden layers, and each output is a dot product with the units of the last of them.

use crate::regressor::artifact::{Weights, normalised};
use crate::regressor::kernel::{Codes, Dense, Instructions, Loops, ROW, clear_end, grown, vectorised};
use crate::regressor::net::{Layer, Net, Output};
use std::cell::RefCell;

/// Rows that go through a net together: enough to pay for fetching its weights again.
const BLOCK: usize = 96;

/// The nets of a sub-model laid out for the processor, with the normalisation of its features.
///
/// # Shapes
/// `[batch, inputs] -> [batch]` of [`Output`], row-major; features as [`GpuRates::features`] computes them.
///
/// [`GpuRates::features`]: crate::families::GpuRates::features
#[derive(Clone, Debug)]
pub struct Evaluator {
    /// Mean of each feature.
    mean: Vec<f32>,
    /// Scale of each feature.
    scale: Vec<f32>,
    /// Normalised features of the usual operator, from which nets count.
    usual: Vec<f32>,
    members: Vec<Member>,
    is_distilled: bool,
}

impl Evaluator {
    /// Packs `weights` for the fastest instructions that this processor has.
    ///
    /// # Panics
    /// When the layers of a net do not fit together.
    pub fn new(weights: &Weights) -> Self {
        Self::around(weights, &weights.mean)
    }

    /// The same with these raw features of a usual operator: those that a row shares with it cost nothing.
    ///
    /// # Panics
    /// When it has other features than the nets.
    pub fn around(weights: &Weights, usual: &[f32]) -> Self {
        Self::with_instructions(weights, usual, Instructions::available()[0])
    }

    fn with_instructions(weights: &Weights, usual: &[f32], instructions: Instructions) -> Self {
        assert_eq!(usual.len(), weights.mean.len(), "features");
        let mut usual = usual.to_vec();
        weights.normalise(&mut usual);
        let members = weights.nets.iter();
        let members = members.map(|net| Member::new(net, &usual, instructions));
        Self {
            mean: weights.mean.clone(),
            scale: weights.scale.clone(),
            members: members.collect(),
            is_distilled: weights.is_distilled(),
            usual,
        }
    }

    /// Features of a row.
    pub fn inputs(&self) -> usize {
        self.mean.len()
    }

    /// Evaluates rows of raw features, laid one after the other, and leaves the outputs in `out`.
    ///
    /// Allocates nothing once a thread has evaluated such a batch and `out` has the capacity.
    ///
    /// # Panics
    /// When `rows` is not a whole number of rows.
    pub fn evaluate(&self, rows: &[f32], out: &mut Vec<Output>) {
        assert_eq!(rows.len() % self.inputs(), 0, "a whole number of rows");
        out.clear();
        SCRATCH.with_borrow_mut(|scratch| {
            for rows in rows.chunks(BLOCK * self.inputs()) {
                vectorised(Block {
                    evaluator: self,
                    rows,
                    scratch: &mut *scratch,
                    out: &mut *out,
                });
            }
        });
    }

    /// Evaluates up to a block of rows and adds the outputs to `out`.
    #[inline(always)] // into a function that is compiled for vectors
    fn evaluate_block(&self, rows: &[f32], scratch: &mut Scratch, out: &mut Vec<Output>) {
        let count = rows.len() / self.inputs();
        let width = self.inputs().next_multiple_of(ROW);
        let places = grown(&mut scratch.rows, count * width);
        let places = places.chunks_exact_mut(width);
        for (row, place) in rows.chunks_exact(self.inputs()).zip(places) {
            clear_end(place);
            let numbers = row.iter().zip(&self.mean).zip(&self.scale).zip(&self.usual);
            for (place, (((&value, &mean), &scale), &usual)) in place.iter_mut().zip(numbers) {
                *place = normalised(value, mean, scale) - usual;
            }
        }
        scratch.answers.clear();
        for member in &self.members {
            member.evaluate(count, width, scratch);
        }
        let answers = &scratch.answers;
        if self.is_distilled {
            let answers = answers.as_chunks().0.iter().copied();
            out.extend(answers.map(Output::of_distilled));
        } else {
            let members = 0..self.members.len();
            let of_row = |row: usize| {
                let answers = members.clone().map(|member| answers[member * count + row]);
                Output::of_members(answers)
            };
            out.extend((0..count).map(of_row));
        }
    }
}

/// Up to a block of rows, whose outputs are added to `out`.
struct Block<'a> {
    evaluator: &'a Evaluator,
    rows: &'a [f32],
    scratch: &'a mut Scratch,
    out: &'a mut Vec<Output>,
}

impl Loops for Block<'_> {
    type Output = ();

    #[inline(always)] // into a function that is compiled for vectors
    fn run(self) {
        let Self { rows, scratch, out, .. } = self;
        self.evaluator.evaluate_block(rows, scratch, out);
    }
}

/// One net.
#[derive(Clone, Debug)]
struct Member {
    hidden: Vec<Dense>,
    /// Of each output: weights and bias.
    outputs: Vec<(Vec<f32>, f32)>,
}

impl Member {
    /// A net that counts from `usual`: its part of the first layer goes into the bias.
    fn new(net: &Net, usual: &[f32], instructions: Instructions) -> Self {
        for pair in net.layers.windows(2) {
            assert_eq!(pair[0].outputs, pair[1].inputs, "layers fit together");
        }
        let mut layers = net.layers.clone();
        layers[0].bias = net.first_layers(1).forward(usual);
        let (last, hidden) = layers.split_last().expect("a net has a layer");
        let pack = |layer: &Layer| Dense::new(layer, instructions);
        let hidden: Vec<Dense> = hidden.iter().map(pack).collect();
        let output = |place: usize| {
            let weights = last.weight[place..].iter().step_by(last.outputs);
            (weights.copied().collect(), last.bias[place])
        };
        Self {
            hidden,
            outputs: (0..last.outputs).map(output).collect(),
        }
    }

    /// Sends so many rows of `width` numbers through the net and adds its answers.
    #[inline(always)] // into a function that is compiled for vectors
    fn evaluate(&self, count: usize, mut width: usize, scratch: &mut Scratch) {
        let Scratch {
            rows,
            codes,
            units,
            next,
            answers,
        } = scratch;
        for (depth, layer) in self.hidden.iter().enumerate() {
            let input = if depth == 0 { &*rows } else { &*units };
            let output = grown(next, count * layer.width());
            layer.rectified(&input[..count * width], codes, output);
            std::mem::swap(units, next);
            width = layer.width();
        }
        let units = if self.hidden.is_empty() { rows } else { units };
        // Loops, since compilers do not inline the closure of an iterator here, and what is not inlined knows nothing of vectors.
        for units in units[..count * width].chunks_exact(width) {
            for (weights, bias) in &self.outputs {
                answers.push(bias + dot(&units[..weights.len()], weights));
            }
        }
    }
}

/// The sum of products, in independent lanes so that compilers turn it into vectors.
#[inline(always)] // into a function that is compiled for vectors
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

/// Working memory of a block: normalised rows, what a layer reads, also in 16 bits, and what it writes, and answers net by net.
#[derive(Debug, Default)]
struct Scratch {
    rows: Vec<f32>,
    codes: Codes,
    answers: Vec<f32>,
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

    /// A net for each seed; with two outputs a distilled one.
    fn weights(widths: &[usize], seeds: &[u64]) -> Weights {
        let layer = |pair: &[usize], seed: u64| Layer {
            inputs: pair[0],
            outputs: pair[1],
            weight: numbers(pair[0] * pair[1], seed)
                .iter()
                .map(|weight| weight * (3.0 / pair[0] as f32).sqrt())
                .collect(),
            bias: numbers(pair[1], seed + 1),
        };
        let net = |&seed: &u64| Net {
            layers: widths.windows(2).map(|pair| layer(pair, seed)).collect(),
        };
        Weights {
            mean: numbers(widths[0], 71),
            scale: numbers(widths[0], 73),
            nets: seeds.iter().map(net).map(Net::rounded).collect(),
        }
    }

    /// Every path agrees with the plain loop on `rows`, and to the bit with every other path.
    fn check(weights: &Weights, rows: &[f32]) {
        let expected = weights.predict(rows);
        let mut first = None;
        for instructions in Instructions::available() {
            let mut out = vec![Output::default(); 3];
            let usual = rows.get(..weights.mean.len()).unwrap_or(&weights.mean);
            Evaluator::with_instructions(weights, usual, instructions).evaluate(rows, &mut out);
            assert_eq!(out.len(), expected.len());
            assert_eq!(*first.get_or_insert_with(|| out.clone()), out);
            for (row, (found, expected)) in out.iter().zip(&expected).enumerate() {
                for (found, expected) in [(found.mean, expected.mean), (found.spread, expected.spread)] {
                    // Inputs of each layer are rounded to 16 bits.
                    let near = (found - expected).abs() <= 1e-4 * (1.0 + expected.abs());
                    assert!(near, "{instructions:?} row {row}: {found}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn every_path_agrees_with_the_plain_loop_at_every_batch_size() {
        for (widths, seeds) in [
            (&[5, 1][..], &[3, 5, 8][..]),
            (&[7, 13, 1], &[3, 5, 8]),
            (&[9, 17, 18, 1], &[3]),
            (&[5, 2], &[5]),
            (&[33, 17, 40, 5, 2], &[8]),
        ] {
            let weights = weights(widths, seeds);
            for batch in 0..=70 {
                check(&weights, &numbers(batch * widths[0], 99));
            }
        }
    }

    #[test]
    fn every_path_agrees_with_the_plain_loop_at_the_usual_widths() {
        for weights in [
            weights(&[118, 96, 96, 1], &[3, 5, 8, 13, 21]),
            weights(&[118, 128, 128, 128, 2], &[3]),
        ] {
            for batch in [1, 2, 15, 100] {
                check(&weights, &numbers(batch * 118, 99));
            }
        }
    }

    #[test]
    fn a_row_has_the_same_outputs_to_the_bit_in_every_batch() {
        let weights = weights(&[30, 96, 128, 1], &[3, 5]);
        let rows = numbers(2 * BLOCK * 30, 99);
        for instructions in Instructions::available() {
            let evaluator = Evaluator::with_instructions(&weights, &weights.mean, instructions);
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            evaluator.evaluate(&rows, &mut together);
            for (row, expected) in rows.chunks_exact(30).zip(&together) {
                evaluator.evaluate(row, &mut alone);
                assert_eq!(alone, [*expected], "{instructions:?}");
            }
        }
    }
}
