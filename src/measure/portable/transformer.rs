//! Whole steps of a transformer in burn, as a user would write one: forward pass, and in training backward pass by
//! burn's autodiff and AdamW.

use super::chain::failed;
use super::operands::format;
use crate::arch::{
    Architecture, AttentionKernel, MlpKind, Mode, NormKind, NormPlacement, Positions, QkNorm, Recompute, Workload,
};
use crate::error::{Error, Result};
use crate::measure::device::Step;
use crate::ops::Dtype;
use crate::random::Random;
use crate::units::Seconds;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::norm::Normalization;
use burn::nn::{Embedding, EmbeddingConfig, LayerNormConfig, Linear, LinearConfig, LinearLayout, RmsNormConfig};
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::activation::{gelu_approximate, silu};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Int, Tensor, TensorData};
use std::time::Instant;

/// Learning rate of the measured steps; the time does not depend on it.
const RATE: f64 = 1e-4;

#[derive(Module, Debug)]
struct Layer {
    attention_norm: Normalization,
    qkv: Linear,
    projection: Linear,
    mlp_norm: Normalization,
    up: Linear,
    down: Linear,
}

#[derive(Module, Debug)]
struct Transformer {
    embedding: Embedding,
    positions: Option<Embedding>,
    layers: Vec<Layer>,
    norm: Normalization,
    head: Linear,
}

/// What a forward pass needs besides weights.
struct Inputs {
    tokens: Tensor<2, Int>,
    /// Positions of the new tokens.
    places: Tensor<2, Int>,
    heads: usize,
    head_dim: usize,
    gated: bool,
    /// Cosines and sines by new token, for rotary positions.
    rotation: Option<[Tensor<4>; 2]>,
    /// Cached keys and values by layer with a place for those of the new token, in decode.
    cache: Vec<Option<[Tensor<4>; 2]>>,
    /// Whether logits of all positions are wanted.
    trains: bool,
}

impl Transformer {
    fn new(architecture: &Architecture, device: &Device) -> Self {
        let size = |size: u64| size as usize;
        let hidden = size(architecture.hidden);
        let width = size(architecture.heads * architecture.head_dim);
        let biases = architecture.biases;
        let linear = |inputs, outputs, bias| {
            // Stored as `[outputs, inputs]`, the layout that steps are lowered to.
            LinearConfig::new(inputs, outputs)
                .with_bias(bias)
                .with_layout(LinearLayout::Col)
                .init(device)
        };
        let norm = || match architecture.norm.kind {
            NormKind::RmsNorm => Normalization::from(RmsNormConfig::new(hidden).init(device)),
            _ => LayerNormConfig::new(hidden).init(device).into(),
        };
        let inner = size(architecture.mlp.d_ff);
        let up = inner * size(architecture.mlp.kind.up_factor());
        let layer = |_| Layer {
            attention_norm: norm(),
            qkv: linear(hidden, 3 * width, biases.qkv),
            projection: linear(width, hidden, biases.attention_output),
            mlp_norm: norm(),
            up: linear(hidden, up, biases.mlp),
            down: linear(inner, hidden, biases.mlp),
        };
        let table = |rows| EmbeddingConfig::new(size(rows), hidden).init(device);
        Self {
            embedding: table(architecture.vocab),
            positions: match architecture.positions {
                Positions::Learned { max, spare } => Some(table(max + spare)),
                _ => None,
            },
            layers: (0..architecture.layers).map(layer).collect(),
            norm: norm(),
            head: linear(hidden, size(architecture.vocab), biases.head),
        }
    }

    /// Logits of all positions, or of the last of each sequence.
    fn forward(&self, inputs: &mut Inputs) -> Tensor<2> {
        let mut rows = self.embedding.forward(inputs.tokens.clone());
        if let Some(positions) = &self.positions {
            rows = rows + positions.forward(inputs.places.clone());
        }
        let [batch, seq, hidden] = rows.dims();
        // Of batches burn would make a GEMM a sequence.
        let mut rows: Tensor<2> = rows.reshape([batch * seq, hidden]);
        for (place, layer) in self.layers.iter().enumerate() {
            // Taken out, so that it has one owner and is written in place.
            let cache = inputs.cache.get_mut(place).and_then(Option::take);
            let (next, cache) = layer.forward(rows, inputs, cache);
            rows = next;
            if cache.is_some() {
                inputs.cache[place] = cache;
            }
        }
        let rows = self.norm.forward(rows);
        self.head.forward(match inputs.trains {
            true => rows,
            false => {
                let last = rows.reshape([batch, seq, hidden]).narrow(1, seq - 1, 1);
                last.reshape([batch, hidden])
            }
        })
    }
}

impl Layer {
    fn forward(
        &self,
        rows: Tensor<2>,
        inputs: &Inputs,
        cache: Option<[Tensor<4>; 2]>,
    ) -> (Tensor<2>, Option<[Tensor<4>; 2]>) {
        let [batch, seq] = inputs.tokens.dims();
        let Inputs { heads, head_dim, .. } = *inputs;
        let mixed = self.qkv.forward(self.attention_norm.forward(rows.clone()));
        let part = |index| heads_of(&mixed, index, [batch, seq, heads, head_dim]);
        let rotate = |part: Tensor<4>| match &inputs.rotation {
            Some(rotation) => rotated(part, rotation),
            None => part,
        };
        let (query, key, value) = (rotate(part(0)), rotate(part(1)), part(2));
        let is_causal = cache.is_none();
        let cache = cache.map(|[keys, values]| [written(keys, key.clone()), written(values, value.clone())]);
        let (key, value) = match &cache {
            Some([keys, values]) => (keys.clone(), values.clone()),
            None => (key, value),
        };
        let options = AttentionModuleOptions {
            is_causal,
            ..AttentionModuleOptions::default()
        };
        let mixed = rows_of(attention(query, key, value, None, None, options));
        let rows = rows + self.projection.forward(mixed);
        let inner = self.up.forward(self.mlp_norm.forward(rows.clone()));
        let inner = match inputs.gated {
            true => {
                let width = inner.dims()[1] / 2;
                silu(inner.clone().narrow(1, 0, width)) * inner.narrow(1, width, width)
            }
            false => gelu_approximate(inner),
        };
        (rows + self.down.forward(inner), cache)
    }
}

/// A cache with the last places overwritten.
fn written(cache: Tensor<4>, new: Tensor<4>) -> Tensor<4> {
    let [batch, heads, places, width] = cache.dims();
    let first = places - new.dims()[2];
    cache.slice_assign([0..batch, 0..heads, first..places, 0..width], new)
}

/// The heads of queries, keys or values in the output of one GEMM over all tokens.
pub fn heads_of(mixed: &Tensor<2>, index: usize, shape: [usize; 4]) -> Tensor<4> {
    let width = shape[2] * shape[3];
    let part = mixed.clone().narrow(1, index * width, width);
    part.reshape(shape).swap_dims(1, 2)
}

/// The outputs of all heads side by side, a row a token.
pub fn rows_of(heads: Tensor<4>) -> Tensor<2> {
    let [batch, count, seq, width] = heads.dims();
    heads.swap_dims(1, 2).reshape([batch * seq, count * width])
}

/// Rotates pairs of elements half a head apart.
pub fn rotated(part: Tensor<4>, [cosines, sines]: &[Tensor<4>; 2]) -> Tensor<4> {
    let half = part.dims()[3] / 2;
    let (left, right) = (part.clone().narrow(3, 0, half), part.clone().narrow(3, half, half));
    part * cosines.clone() + Tensor::cat(vec![right.neg(), left], 3) * sines.clone()
}

/// Why a step is not run here.
fn refuses(architecture: &Architecture, workload: &Workload) -> Option<&'static str> {
    let norm = architecture.norm;
    let is_plain = norm.placement == NormPlacement::Pre && norm.qk == QkNorm::None;
    let checks = [
        (
            architecture.moe.is_none() && architecture.mla.is_none() && architecture.kinds.is_empty(),
            "only dense layers of one shape with plain attention run in burn here",
        ),
        (
            architecture.window.is_none() && architecture.kv_heads == architecture.heads,
            "burn's attention wants as many key heads as query heads and no window",
        ),
        (
            is_plain && !architecture.parallel_layers && !architecture.tied_embeddings,
            "only norms before attention and MLP, and a head of its own, run in burn here",
        ),
        (
            matches!(
                architecture.positions,
                Positions::Rotary | Positions::Learned { .. } | Positions::None
            ),
            "only rotary and learned positions run in burn here",
        ),
        (
            workload.gpus() == 1 && workload.microbatches == 1,
            "a step in burn runs one micro-batch on one device",
        ),
        (
            workload.recompute == Recompute::None && workload.attention == AttentionKernel::Flash,
            "a step in burn recomputes nothing and has no dropout",
        ),
        (
            workload.mode != Mode::Prefill || workload.context == 0,
            "burn's attention masks all or the square triangle",
        ),
        (workload.dtype == Dtype::Fp32, "a step in burn runs in fp32"),
    ];
    let refused = checks.into_iter().find(|(holds, _)| !holds);
    refused.map(|(_, reason)| reason)
}

/// Sets up a step, which is then run once and timed with each call.
pub fn open(device: &Device, architecture: &Architecture, workload: &Workload) -> Result<Box<Step<'static>>> {
    if let Some(reason) = refuses(architecture, workload) {
        return Err(Error::infeasible(reason));
    }
    let device = match workload.trains() {
        true => device.clone().autodiff(),
        false => device.clone(),
    };
    let mut model = Transformer::new(architecture, &device);
    let mut inputs = inputs(architecture, workload, &device);
    let mut optimizer = AdamWConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);
    let rows = workload.tokens() as usize;
    let targets = inputs.tokens.clone().reshape([rows]);
    Ok(Box::new(move || {
        device.sync().map_err(failed)?;
        let begin = Instant::now();
        let logits = model.forward(&mut inputs);
        if inputs.trains {
            let loss = loss.forward(logits, targets.clone());
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(RATE, model.clone(), gradients);
        }
        device.sync().map_err(failed)?;
        Ok(Seconds::from_secs(begin.elapsed().as_secs_f64()))
    }))
}

fn inputs(architecture: &Architecture, workload: &Workload, device: &Device) -> Inputs {
    let (batch, seq) = (workload.batch as usize, workload.seq as usize);
    let (heads, head_dim) = (architecture.heads as usize, architecture.head_dim as usize);
    let context = workload.context as usize;
    let mut random = Random::new(0, "tokens of a step");
    let words: Vec<i32> = (0..batch * seq)
        .map(|_| random.below(architecture.vocab as usize) as i32)
        .collect();
    let places: Vec<i32> = (0..batch * seq).map(|token| (context + token % seq) as i32).collect();
    let whole = |values: Vec<i32>| Tensor::<2, Int>::from_data(TensorData::new(values, [batch, seq]), device);
    let dtype = format(workload.dtype);
    let real =
        |values: Vec<f32>, shape: [usize; 4]| Tensor::<4>::from_data(TensorData::new(values, shape), (device, dtype));
    let angle = |element: usize| {
        let (place, pair) = (context + element / head_dim, element % (head_dim / 2));
        place as f32 * 10_000f32.powf(-2.0 * pair as f32 / head_dim as f32)
    };
    let rotation = || {
        [f32::cos, f32::sin].map(|part| {
            let values = (0..seq * head_dim).map(|element| part(angle(element)));
            real(values.collect(), [1, 1, seq, head_dim])
        })
    };
    let drawn = random.normals(1 << 16);
    let cached = || {
        let shape = [batch, heads, context + seq, head_dim];
        let elements = shape.iter().product();
        real(drawn.iter().copied().cycle().take(elements).collect(), shape)
    };
    let cache = match workload.mode {
        Mode::Decode => (0..architecture.layers).map(|_| Some([cached(), cached()])).collect(),
        _ => vec![],
    };
    Inputs {
        tokens: whole(words),
        places: whole(places),
        heads,
        head_dim,
        gated: architecture.mlp.kind == MlpKind::Swiglu,
        rotation: (architecture.positions == Positions::Rotary).then(rotation),
        cache,
        trains: workload.trains(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;

    fn tiny(name: &str) -> Architecture {
        let base = &Preset::find(name).unwrap().architecture;
        Architecture {
            layers: 2,
            hidden: 64,
            heads: 4,
            kv_heads: 4,
            head_dim: 16,
            mlp: crate::arch::Mlp { d_ff: 96, ..base.mlp },
            vocab: 50,
            tied_embeddings: false,
            ..base.clone()
        }
    }

    fn fp32(workload: Workload) -> Workload {
        Workload {
            dtype: Dtype::Fp32,
            ..workload
        }
    }

    #[test]
    fn a_step_runs_in_every_mode_and_its_model_has_the_parameters_of_the_architecture() {
        let device = Device::flex();
        for name in ["llama-2-7b", "gpt2"] {
            let architecture = tiny(name);
            let model = Transformer::new(&architecture, &device);
            let wanted = crate::arch::parameters(&architecture).total;
            assert_eq!(model.num_params() as u64, wanted, "{name}");
            for workload in [Workload::train(2, 8), Workload::prefill(2, 8), Workload::decode(3, 16)] {
                let mut step = open(&device, &architecture, &fp32(workload)).unwrap();
                assert!(step().unwrap() > Seconds::ZERO && step().unwrap() > Seconds::ZERO);
            }
        }
    }

    #[test]
    fn a_cached_token_gets_the_logits_of_the_whole_prompt() {
        let device = Device::flex();
        let architecture = tiny("llama-2-7b");
        let model = Transformer::new(&architecture, &device);
        let mut whole = inputs(&architecture, &fp32(Workload::prefill(1, 6)), &device);
        let logits = model.forward(&mut whole);
        assert_eq!(logits.dims(), [1, 50]);
        // The cache of one layer is its projections of the earlier tokens.
        let mut short = model.clone();
        short.layers.truncate(1);
        let expected = short.forward(&mut whole);
        let layer = &short.layers[0];
        let rows = short
            .embedding
            .forward(whole.tokens.clone().narrow(1, 0, 5))
            .reshape([5, 64]);
        let mixed = layer.qkv.forward(layer.attention_norm.forward(rows));
        let part = |index: usize| {
            let part = mixed.clone().narrow(1, index * 64, 64);
            part.reshape([1, 5, 4, 16]).swap_dims(1, 2)
        };
        let [cosines, sines] = whole.rotation.clone().unwrap().map(|all| all.narrow(2, 0, 5));
        let mut last = inputs(&architecture, &fp32(Workload::decode(1, 5)), &device);
        last.tokens = whole.tokens.clone().narrow(1, 5, 1);
        let earlier = [rotated(part(1), &[cosines, sines]), part(2)];
        let room = |part: Tensor<4>| Tensor::cat(vec![part, Tensor::zeros([1, 4, 1, 16], &device)], 2);
        last.cache = vec![Some(earlier.map(room))];
        let found = short.forward(&mut last);
        let worst = (found - expected).abs().max().into_scalar::<f32>();
        assert!(worst < 1e-4, "{worst}");
    }

    #[test]
    fn training_lowers_the_loss_of_its_batch() {
        let device = Device::flex().autodiff();
        let architecture = tiny("gpt2");
        let mut inputs = inputs(&architecture, &fp32(Workload::train(2, 8)), &device);
        let mut model = Transformer::new(&architecture, &device);
        let mut optimizer = AdamWConfig::new().init();
        let loss = CrossEntropyLossConfig::new().init(&device);
        let mut losses = Vec::new();
        for _ in 0..30 {
            let logits = model.forward(&mut inputs);
            let loss = loss.forward(logits, inputs.tokens.clone().reshape([16]));
            losses.push(loss.clone().into_scalar::<f32>());
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(1e-2, model, gradients);
        }
        assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
    }

    #[test]
    fn what_burn_does_not_run_as_a_step_is_refused_with_a_reason() {
        let device = Device::flex();
        let refusal = |architecture: &Architecture, workload: Workload| {
            let refused = open(&device, architecture, &workload).err();
            refused.expect("refused").to_string()
        };
        let llama = tiny("llama-2-7b");
        let step = fp32(Workload::train(1, 8));
        let grouped = Architecture {
            kv_heads: 2,
            ..llama.clone()
        };
        let windowed = Preset::find("mistral-7b-v0.1").unwrap().architecture.clone();
        let experts = Preset::find("mixtral-8x7b").unwrap().architecture.clone();
        for (architecture, workload, reason) in [
            (&grouped, step, "key heads"),
            (&windowed, step, "key heads"),
            (&experts, step, "dense layers"),
            (&llama, Workload { dp: 2, ..step }, "one device"),
            (&llama, Workload::train(1, 8), "fp32"),
        ] {
            let sentence = refusal(architecture, workload);
            assert!(sentence.contains(reason), "{sentence}");
        }
    }
}
