//! A plain multi-layer perceptron as numbers: what training produces and prediction evaluates.

use half::f16;
use serde::{Deserialize, Serialize};

/// One dense layer, `y = x·W + b`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Width of the input.
    pub inputs: usize,
    /// Width of the output.
    pub outputs: usize,
    /// `[inputs, outputs]`, row-major.
    pub weight: Vec<f32>,
    /// `[outputs]`.
    pub bias: Vec<f32>,
}

/// A weight matrix of a hidden layer as it is stored: integers of 8 or 11 bits, and one scale in half precision an output
/// (symmetric quantization after training).
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// `[inputs, outputs]`, row-major.
    pub integers: Vec<i16>,
    /// `[outputs]`, rounded to half precision: a weight is its integer times the scale of its output.
    pub scales: Vec<f32>,
}

impl Quantized {
    /// The largest integer of 11 bits: beside such weights sums of 32 bits leave 15 to each of 128 inputs.
    const WIDE: i16 = 1023;

    /// The largest integer of 8 bits.
    const NARROW: i16 = 127;

    /// The weights of a layer that were rounded before, as they are; others are rounded to 11 bits.
    pub fn of(layer: &Layer) -> Self {
        let narrow = Self::rounded(layer, Self::NARROW);
        if narrow.weight() == layer.weight {
            narrow
        } else {
            Self::rounded(layer, Self::WIDE)
        }
    }

    /// Whether 8 bits hold every integer.
    pub fn is_narrow(&self) -> bool {
        let bytes = -Self::NARROW..=Self::NARROW;
        self.integers.iter().all(|integer| bytes.contains(integer))
    }

    /// Rounds the weights of a layer to integers up to `most`.
    fn rounded(layer: &Layer, most: i16) -> Self {
        let mut scales = vec![0.0_f32; layer.outputs];
        for weights in layer.weight.chunks_exact(layer.outputs) {
            for (most, weight) in scales.iter_mut().zip(weights) {
                *most = most.max(weight.abs());
            }
        }
        let most = f32::from(most);
        for scale in &mut scales {
            *scale = f16::from_f32(*scale / most).to_f32();
        }
        let inverse = |&scale: &f32| if scale > 0.0 { 1.0 / scale } else { 0.0 };
        let inverses: Vec<f32> = scales.iter().map(inverse).collect();
        let mut integers = Vec::with_capacity(layer.weight.len());
        for weights in layer.weight.chunks_exact(layer.outputs) {
            let weights = weights.iter().zip(&inverses);
            integers.extend(weights.map(|(weight, inverse)| nearest((weight * inverse).max(-most).min(most))));
        }
        Self { integers, scales }
    }

    /// The weights, `[inputs, outputs]`.
    pub fn weight(&self) -> Vec<f32> {
        let mut weight = Vec::with_capacity(self.integers.len());
        for integers in self.integers.chunks_exact(self.scales.len()) {
            let weights = integers.iter().zip(&self.scales);
            weight.extend(weights.map(|(&integer, scale)| f32::from(integer) * scale));
        }
        weight
    }
}

/// The whole number next to `value`, of two the even one, where it has 16 bits: added to 1.5 · 2^23 it is in the last bits. No
/// call and no branch, so that compilers turn many of them into vectors.
#[inline(always)]
pub(super) fn nearest(value: f32) -> i16 {
    (value + 12_582_912.0).to_bits() as i16
}

/// What the nets of a sub-model answer for one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Output {
    /// Expected `ln(time / reference)`.
    pub mean: f64,
    /// Standard deviation of the members around it, in the same unit.
    pub spread: f64,
}

impl Output {
    /// Outputs of a distilled net: mean and spread.
    pub const WIDTH: usize = 2;

    /// Of all members, which have one output each.
    pub fn of_members(answers: impl ExactSizeIterator<Item = f32> + Clone) -> Self {
        let members = answers.len() as f64;
        let answers = answers.map(f64::from);
        let mean = answers.clone().sum::<f64>() / members;
        let variance = answers.map(|answer| (answer - mean).powi(2)).sum::<f64>() / members;
        Self {
            mean,
            spread: variance.sqrt(),
        }
    }

    /// Of a distilled net, whose spread may be a little below 0 where its members agreed.
    pub fn of_distilled([mean, spread]: [f32; Self::WIDTH]) -> Self {
        Self {
            mean: f64::from(mean),
            spread: f64::from(spread.max(0.0)),
        }
    }
}

/// Dense layers with a rectifier between them.
///
/// # Shapes
/// `[batch, inputs] -> [batch, outputs]`. The first output is `ln(time / reference time)`, dimensionless; a distilled
/// net has a second one, the spread of its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Net {
    /// The layers, input side first.
    pub layers: Vec<Layer>,
}

impl Net {
    /// Width of the input.
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    /// Width of the output.
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// Widths of the hidden layers.
    pub fn hidden(&self) -> Vec<usize> {
        let hidden = self.layers.iter().rev().skip(1).rev();
        hidden.map(|layer| layer.outputs).collect()
    }

    /// Its first layers: what the last of them passes to its rectifier.
    #[must_use]
    pub fn first_layers(&self, count: usize) -> Self {
        Self {
            layers: self.layers[..count].to_vec(),
        }
    }

    /// The net with its first output alone.
    #[must_use]
    pub fn first_output(mut self) -> Self {
        if let Some(last) = self.layers.last_mut() {
            last.weight = last.weight.iter().step_by(last.outputs).copied().collect();
            last.bias.truncate(1);
            last.outputs = 1;
        }
        self
    }

    /// How many numbers it has.
    pub fn parameters(&self) -> usize {
        self.layers
            .iter()
            .map(|layer| layer.weight.len() + layer.bias.len())
            .sum()
    }

    /// The net with every number rounded as it is stored: weights of hidden layers to 11 bits, the rest to half precision.
    #[must_use]
    pub fn rounded(self) -> Self {
        self.rounded_to(Quantized::WIDE)
    }

    /// The same with weights of hidden layers in 8 bits.
    #[must_use]
    pub fn narrowed(self) -> Self {
        self.rounded_to(Quantized::NARROW)
    }

    fn rounded_to(mut self, most: i16) -> Self {
        let halve = |values: &mut Vec<f32>| {
            for value in values {
                *value = f16::from_f32(*value).to_f32();
            }
        };
        let Some((last, hidden)) = self.layers.split_last_mut() else {
            return self;
        };
        halve(&mut last.weight);
        halve(&mut last.bias);
        for layer in hidden {
            layer.weight = Quantized::rounded(layer, most).weight();
            halve(&mut layer.bias);
        }
        self
    }

    /// Evaluates `rows` laid one after the other; the plain loop that faster paths are tested against.
    pub fn forward(&self, rows: &[f32]) -> Vec<f32> {
        let mut values = rows.to_vec();
        let last = self.layers.len() - 1;
        for (index, layer) in self.layers.iter().enumerate() {
            let mut next = Vec::with_capacity(values.len() / layer.inputs * layer.outputs);
            for row in values.chunks_exact(layer.inputs) {
                let start = next.len();
                next.extend_from_slice(&layer.bias);
                let sums = &mut next[start..];
                for (value, weights) in row.iter().zip(layer.weight.chunks_exact(layer.outputs)) {
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum += value * weight;
                    }
                }
                if index != last {
                    sums.iter_mut().for_each(|sum| *sum = sum.max(0.0));
                }
            }
            values = next;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_rounded_to_a_127th_or_1023rd_of_the_largest_of_their_output_and_stay_so() {
        let layer = |least: f32| Layer {
            inputs: 40,
            outputs: 3,
            weight: (0..120)
                .map(|at| match at % 3 {
                    0 => (at as f32 * 0.7).sin(),
                    1 => least * (at as f32 * 0.3).cos(),
                    _ => 0.0,
                })
                .collect(),
            bias: vec![0.1; 3],
        };
        let last = Layer {
            inputs: 3,
            outputs: 1,
            weight: vec![0.1; 3],
            bias: vec![0.1],
        };
        for (most_integer, least) in [(127, 1e-3), (1023, 0.1)] {
            let layer = layer(least);
            let net = Net {
                layers: vec![layer.clone(), last.clone()],
            };
            let rounded = if most_integer == 127 {
                net.narrowed()
            } else {
                net.rounded()
            };
            let weight = &rounded.layers[0].weight;
            for (place, (rounded, exact)) in weight.iter().zip(&layer.weight).enumerate() {
                let most = [1.0, least, 0.0][place % 3];
                let half_a_step = 0.51 * most / f32::from(most_integer);
                assert!((rounded - exact).abs() <= half_a_step, "{rounded} {exact}");
            }
            assert!(weight != &layer.weight);
            assert_eq!(rounded.layers[1].weight, [f16::from_f32(0.1).to_f32(); 3]);
            let stored = Quantized::of(&rounded.layers[0]);
            assert_eq!(&stored.weight(), weight);
            assert_eq!(stored.is_narrow(), most_integer == 127);
            let largest = stored.integers.iter().map(|integer| integer.abs()).max();
            assert_eq!(largest, Some(most_integer));
            assert_eq!(rounded.clone().rounded_to(most_integer), rounded);
        }
    }
}
