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

/// Dense layers with a rectifier between them; the last one has a single output.
///
/// # Shapes
/// `[batch, inputs] -> [batch, 1]`; the output is `ln(time / reference time)`, dimensionless.
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
