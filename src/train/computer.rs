//! Fits one net to samples with burn: AdamW, a robust loss, a one-cycle learning rate.
//!
//! Types of burn stay inside this file; what comes in and goes out are plain numbers.

use crate::error::Result;
use crate::measure::portable::wgpu;
use crate::random::Random;
use crate::regressor::net::{Layer, Net};
use crate::train::fit::{Backend, FitConfig, Samples};
use burn::module::Param;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamW, AdamWConfig, AdamWState, GradientsParams, LearningRate, ModuleOptimizer, Optimizer};
use burn::prelude::*;
use burn::tensor::activation::relu;

/// An opened backend.
pub struct Computer(Device);

/// Opens a backend.
pub fn open(backend: Backend) -> Result<Computer> {
    match backend {
        Backend::Cpu => Ok(Computer(Device::flex())),
        Backend::Wgpu => wgpu::preferred().map(Computer),
    }
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        let last = self.layers.len() - 1;
        self.layers.iter().enumerate().fold(rows, |rows, (index, layer)| {
            let rows = layer.forward(rows);
            if index == last { rows } else { relu(rows) }
        })
    }

    fn from_net(net: &Net, device: &Device) -> Self {
        let layers = net
            .layers
            .iter()
            .map(|layer| {
                let mut linear = LinearConfig::new(layer.inputs, layer.outputs).init(device);
                let weight = TensorData::new(layer.weight.clone(), [layer.inputs, layer.outputs]);
                let bias = TensorData::new(layer.bias.clone(), [layer.outputs]);
                linear.weight = Param::from_tensor(Tensor::<2>::from_data(weight, device));
                linear.bias = Some(Param::from_tensor(Tensor::<1>::from_data(bias, device)));
                linear
            })
            .collect();
        Self { layers }
    }

    fn to_net(&self) -> Net {
        let layers = self
            .layers
            .iter()
            .map(|linear| {
                let weight = linear.weight.val();
                let [inputs, outputs] = weight.dims();
                let bias = linear.bias.as_ref().expect("every layer is built with a bias").val();
                let read = |data: TensorData| data.try_to_vec::<f32>().expect("parameters are f32");
                Layer {
                    inputs,
                    outputs,
                    weight: read(weight.into_data()),
                    bias: read(bias.into_data()),
                }
            })
            .collect();
        Net { layers }
    }
}

/// AdamW whose moments stay out of the subnormal numbers.
///
/// The gradient of a unit whose rectifier no row passes any more is exactly 0: its moments decay into the subnormal numbers, where
/// rounding holds them, and CPUs take so much longer there that a step of a large net took 1.6 times as long.
#[derive(Clone)]
struct NormalAdamW(AdamW);

impl NormalAdamW {
    /// Steps from one look at the moments to the next: they shrink by at most 0.9 a step, to `LEAST * 3e-5`.
    const STEPS: usize = 100;

    /// Smaller moments become 0. They move no weight: `epsilon` is 1e-5.
    const LEAST: f32 = 1e-30;

    fn new(weight_decay: f32) -> Self {
        let config = AdamWConfig::new().with_weight_decay(weight_decay);
        Self(config.with_beta_2(0.99).build())
    }
}

impl Optimizer for NormalAdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        rate: LearningRate,
        parameters: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        let (parameters, mut state) = self.0.step(rate, parameters, gradient, state);
        let momentum = state.as_mut().map(|state| &mut state.momentum);
        if let Some(momentum) = momentum.filter(|momentum| momentum.time % Self::STEPS == 0) {
            for moment in [&mut momentum.moment_1, &mut momentum.moment_2] {
                let is_small = moment.clone().abs().lower_scalar(Self::LEAST);
                *moment = moment.clone().mask_fill(is_small, 0.0);
            }
        }
        (parameters, state)
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        AdamW::to_device(state, device)
    }
}

/// Fits `start` to `samples`; `after_epoch` hears the epoch, its mean loss, and may look at the net so far.
pub fn fit(
    start: &Net,
    samples: &Samples,
    config: &FitConfig,
    seed: u64,
    device: &Computer,
    mut after_epoch: impl FnMut(usize, f32, &dyn Fn() -> Net),
) -> Net {
    let device = device.0.clone().autodiff();
    let mut model = Mlp::from_net(start, &device);
    let mut optimizer = ModuleOptimizer::from(NormalAdamW::new(config.weight_decay));
    let mut random = Random::seeded(seed);
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    let steps = config.epochs * samples.len().div_ceil(config.batch);
    let mut step = 0;
    for epoch in 0..config.epochs {
        random.shuffle(&mut order);
        let mut total = 0.0;
        let mut batches = 0;
        for (index, rows) in order.chunks(config.batch).enumerate() {
            let picked = |values: &[f32]| {
                let width = values.len() / samples.len();
                let mut picked = Vec::with_capacity(rows.len() * width);
                for &row in rows {
                    picked.extend_from_slice(&values[row as usize * width..][..width]);
                }
                Tensor::<2>::from_data(TensorData::new(picked, [rows.len(), width]), &device)
            };
            let residual = (model.forward(picked(&samples.inputs)) - picked(&samples.targets)).abs();
            // Huber: r²/2d below d, r - d/2 above, written with the clipped residual c = min(r, d).
            let clipped = residual.clone().clamp_max(config.huber);
            let loss = clipped.clone() * (residual - clipped * 0.5) / config.huber;
            let loss = loss.mean();
            if index % 16 == 0 {
                total += loss.clone().into_scalar::<f32>();
                batches += 1;
            }
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(rate(config, step, steps), model, gradients);
            step += 1;
        }
        after_epoch(epoch, total / batches as f32, &|| model.to_net());
    }
    model.to_net()
}

/// Rows that burn evaluates together: few enough for the last-level cache.
const TOGETHER: usize = 4096;

/// Evaluates `net` with burn; prediction does not need burn, a test holds both equal.
pub fn forward(net: &Net, rows: &[f32], device: &Computer) -> Vec<f32> {
    let model = Mlp::from_net(net, &device.0);
    let width = net.inputs();
    let mut outputs = Vec::with_capacity(rows.len() / width * net.outputs());
    for rows in rows.chunks(TOGETHER * width) {
        let rows = TensorData::new(rows.to_vec(), [rows.len() / width, width]);
        let answers = model.forward(Tensor::<2>::from_data(rows, &device.0));
        let answers = answers.into_data().try_to_vec::<f32>();
        outputs.extend(answers.expect("outputs are f32"));
    }
    outputs
}

/// One cycle: a straight rise, then half a cosine down to zero.
fn rate(config: &FitConfig, step: usize, steps: usize) -> f64 {
    let progress = step as f64 / steps as f64;
    let share = if progress < config.warm_up {
        progress / config.warm_up
    } else {
        let falling = (progress - config.warm_up) / (1.0 - config.warm_up);
        0.5 * (1.0 + (std::f64::consts::PI * falling).cos())
    };
    config.learning_rate * share.max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_a_gradient_that_became_0_are_never_subnormal() {
        let device = Device::flex();
        let tensor = |values: [f32; 2]| Tensor::<1>::from_data(values, &device);
        let optimizer = NormalAdamW::new(0.0);
        let mut parameters = tensor([1.0, 1.0]);
        let mut state = None;
        for step in 0..12_000 {
            let gradient = tensor([if step == 0 { 0.1 } else { 0.0 }, 0.1]);
            (parameters, state) = optimizer.step(1e-6, parameters, gradient, state);
            let momentum = &state.as_ref().expect("AdamW keeps a state").momentum;
            for moment in [&momentum.moment_1, &momentum.moment_2] {
                let moment: Vec<f32> = moment.to_data().try_to_vec().unwrap();
                assert!(!moment.iter().any(|value| value.is_subnormal()), "{step}");
                // That of the other gradient is as AdamW leaves it.
                assert!(moment[1] >= 0.9e-4, "{step}");
            }
        }
    }
}
