//! What a fit is asked for, and the nets that it starts from. `computer` fits them.

use crate::error::Result;
use crate::random::Random;
use crate::regressor::net::{Layer, Net};
use crate::train::computer;

pub use crate::train::computer::{Computer, fit, forward};

/// Normalised features and targets, row by row.
pub struct Samples {
    /// Features a row.
    pub width: usize,
    /// `[rows, width]`.
    pub inputs: Vec<f32>,
    /// `[rows, outputs]`: `ln(time / reference)`, for a net that answers also the spread of its members.
    pub targets: Vec<f32>,
}

impl Samples {
    /// No rows yet, of this width.
    pub fn empty(width: usize) -> Self {
        Self {
            width,
            inputs: vec![],
            targets: vec![],
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.inputs.len() / self.width
    }

    /// Whether there is nothing to fit.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Adds rows of the same width.
    pub fn append(&mut self, other: Self) {
        assert_eq!(self.width, other.width, "samples of one family");
        self.inputs.extend(other.inputs);
        self.targets.extend(other.targets);
    }
}

/// How one net is fitted.
#[derive(Clone, Debug)]
pub struct FitConfig {
    /// Passes over the samples.
    pub epochs: usize,
    /// Rows in a step.
    pub batch: usize,
    /// Highest learning rate of the cycle.
    pub learning_rate: f64,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Share of the steps in which the rate rises.
    pub warm_up: f64,
    /// Residual where the loss turns from squared to absolute.
    pub huber: f32,
}

/// What computes the fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// burn's CPU backend.
    Cpu,
    /// burn-wgpu on any Vulkan, Metal or DX12 adapter.
    Wgpu,
}

impl Backend {
    /// The name used on the command line and in cards.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
        }
    }

    /// Opens the backend.
    pub fn device(self) -> Result<Computer> {
        computer::open(self)
    }
}

/// A fresh net with He-uniform weights.
pub fn fresh(inputs: usize, hidden: &[usize], outputs: usize, seed: u64) -> Net {
    let mut random = Random::seeded(seed);
    let widths: Vec<usize> = std::iter::once(inputs)
        .chain(hidden.iter().copied())
        .chain([outputs])
        .collect();
    let layers = widths
        .windows(2)
        .enumerate()
        .map(|(depth, pair)| {
            let is_last = depth == hidden.len();
            let bound = (6.0 / pair[0] as f64).sqrt() * if is_last { 0.3 } else { 1.0 };
            let weight = (0..pair[0] * pair[1])
                .map(|_| ((2.0 * random.uniform() - 1.0) * bound) as f32)
                .collect();
            Layer {
                inputs: pair[0],
                outputs: pair[1],
                weight,
                bias: vec![0.0; pair[1]],
            }
        })
        .collect();
    Net { layers }
}
