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

    /// The net with every number rounded to the half precision it is stored in.
    #[must_use]
    pub fn rounded(mut self) -> Self {
        let numbers = |layer: &mut Layer| {
            for value in layer.weight.iter_mut().chain(&mut layer.bias) {
                *value = f16::from_f32(*value).to_f32();
            }
        };
        self.layers.iter_mut().for_each(numbers);
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
