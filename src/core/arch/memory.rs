//! Memory on the fullest GPU, by part, and whether it fits.
//!
//! **States** (ZeRO, arXiv 1910.02054, section 3.1; mixed precision with Adam): 16-bit weights and gradients, 2 bytes
//! each per parameter, and 12 bytes of fp32 master weight and two moments, or 4 of two bf16 moments; of other optimizers
//! what [`Optimizer`] says. Gradients that accumulate in fp32 take 4 bytes. fp32 and tf32 keep
//! 4 + 4 + 8, autocast 2 more for the copies that 16-bit linear maps multiply, unless weights are sharded: then a layer is
//! gathered in 16 bits. fp8 training keeps 16-bit weights; fp8
//! serving stores the layers in 1 byte (mxfp8 `1 + 1/32`, fp8_block `1 + 1/4096`, nvfp4 `1/2 + 1/16`: elements and the
//! scales of their blocks) and the embedding and head in 2, a quantized checkpoint each linear map as it is stored. ZeRO stages 1, 2, 3 divide optimizer states, gradients, weights by `dp`.
//!
//! **Activations** per layer and token, 2-byte elements (Korthikanti et al., arXiv 2205.05198, section 4,
//! generalised to `a·d != h`, grouped heads and gated MLPs): `2h` for every norm input and every input of
//! a first linear map; `2(2a + 2g)·d/t` for queries, keys, values and attention output; `2·2f/t` (GELU) or
//! `2·3f/t` (gated) for the MLP. Unfused attention adds `5·a·kv/t` for softmax, dropout mask and dropped
//! probabilities, and `2h·1` for the masks of two residual dropouts; the classic layer then is exactly
//! `s·b·h·(34 + 5·a·s/h)`. Flash attention keeps one fp32 log-sum per query head instead.
//! fp8 training keeps inputs of linear maps in one byte an element. Recomputation keeps: selective all but the `5·a·kv`
//! term; pointwise no output of a norm or activation function; by operator half a layer; of the up projections of latent
//! attention the latents instead of queries, keys and values; of the MLP nothing of its inner width; full `2h` per
//! layer, plus one whole layer while it is being recomputed. Under autocast inputs of norms and of layers take `4h`.
//! Eager PyTorch keeps inputs of RMS norms in fp32, what trained norms multiply by their weights, the gate of a gated MLP
//! after its function, and a copy of the input of each adapter.
//!
//! A mixture of experts keeps `top_k·(h + inner)` per token for gathered inputs and experts, plus the shared experts and the
//! router scores: the probabilities scale what enters the down projection, so that its output is not kept (Megatron-Core
//! 0.12). ZeRO stage 3 gathers the weights of two layers, one ahead, and one layer's gradients before they are
//! scattered; under a pipeline all weights and gradients of the stage stay gathered between micro-batches (PyTorch
//! FSDP2, `reshard_after_forward`).
//!
//! Linear attention keeps queries, keys and values before and after their convolution, its outputs before and after their norm, and
//! what gates them.
//!
//! **Adapters** (LoRA): frozen weights in the bits of their format, embedding, head and norms in 16; gradients and states of adapters
//! alone; no input of a linear map of attention without an adapter is kept. ZeRO stage 3 gathers packed weights.
//!
//! **KV cache**: `2·L·b·kv·g·d` elements of 2 bytes, or of 1 where it is kept in fp8; latent attention
//! `L·b·kv·(kv_lora_rank + qk_rope)`, an index one key of 8 bits a token beside it; a windowed layer caches at most its window; linear attention a state of 4 bytes
//! an element a head, and what the convolution looks back at. **Offload**: optimizer states are in host memory,
//! gradients of two layers on the GPU, one being computed and one under way to the host (ZeRO-Offload, arXiv
//! 2101.06840, section 4.1); of activations those of two layers. **Logits**: bytes each by the kind of [`Loss`].
//!
//! **Peak**: the largest of four moments ([`Peak`]): the loss, where logits live and all that was kept; the start of the
//! backward pass, where all that was kept lives, a layer that is computed again and the gradients of its activations; its
//! end, where all gradients of weights live; and the update. Gradients live at the loss only where they accumulate over
//! micro-batches or a framework allocates them first.

use super::layer::{
    Linear, Shards, StageLayers, attention_linears, hidden_norms, keys_values, mlp_linears, rank_linear, rank_vocab,
};
use super::optimizer::{further_bytes_of_edges, state_bytes};
use super::params::{rank_linears, rank_parameters};
use super::{
    Architecture, AttentionKernel, GradientDtype, Loss, MlpKind, NormKind, NormPlacement, QkNorm, Recipe, Recompute,
    Role, Workload,
};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::ops::{Dtype, INDEX_KEY_BYTES};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Share of a layer that is kept where every second linear map and all pointwise kernels run again: half of the outputs
/// of linear maps, and attention.
const KEPT_OF_OPERATORS: f64 = 0.5;

/// How a framework trains, where a workload leaves it open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Practice {
    /// Format of accumulated gradients; `auto` means that of the weights.
    pub gradient_dtype: GradientDtype,
    /// How the loss is computed; `auto` means one kernel.
    pub loss: Loss,
    /// Whether gradients have their place before the first backward pass.
    pub gradient_buffers: bool,
    /// Whether sharded gradients stay whole between micro-batches (`no_sync` of PyTorch's FSDP).
    pub whole_gradients: bool,
    /// Whether the update makes a copy of all its weights, as PyTorch's `foreach` optimizers do.
    pub foreach: bool,
    /// Whether norms and activation functions run as single operations, each of which keeps its inputs, norms in fp32, and
    /// adapters copy their inputs (Transformers `LlamaRMSNorm` and `LlamaMLP`, PEFT `_cast_input_dtype`).
    pub eager: bool,
    /// Whether the backward pass of an MLP writes its gradients over what the MLP kept.
    pub in_place: bool,
    /// Elements of the buckets in which sharded gradients are reduced.
    pub bucket_elements: f64,
    /// Elements of gathered weights that stay, where ZeRO stage 3 shards them.
    pub live_elements: f64,
    /// Most elements of sharded gradients that the update copies to fp32.
    pub update_elements: f64,
    /// Documentation or code that says so.
    pub source: String,
}

impl Default for Practice {
    fn default() -> Self {
        Self {
            gradient_dtype: GradientDtype::Auto,
            loss: Loss::Triton,
            gradient_buffers: true,
            whole_gradients: false,
            foreach: false,
            eager: false,
            in_place: false,
            bucket_elements: 0.0,
            live_elements: 0.0,
            update_elements: 0.0,
            source: String::new(),
        }
    }
}

impl Practice {
    /// Whether a workload keeps what single operations take: where none of them run again, nor a loss of libraries that bring
    /// fused norms and activation functions with it (Liger-Kernel, foundation-model-stack/fms-acceleration).
    fn is_eager(&self, work: &Workload) -> bool {
        let composed = matches!(self.loss(work), Loss::Eager | Loss::Chunked);
        self.eager && composed && work.trains() && !is_pointwise(work)
    }

    /// The loss of a workload.
    pub fn loss(&self, work: &Workload) -> Loss {
        match (work.loss, self.loss) {
            (Loss::Auto, Loss::Auto) => Loss::Triton,
            (Loss::Auto, own) => own,
            (asked, _) => asked,
        }
    }

    /// Bytes of an accumulated gradient.
    pub fn gradient_bytes(&self, work: &Workload) -> f64 {
        let asked = match work.gradient_dtype {
            GradientDtype::Auto => self.gradient_dtype,
            asked => asked,
        };
        match asked {
            GradientDtype::Fp32 => 4.0,
            GradientDtype::Auto | GradientDtype::Bf16 => work.trained_dtype().size() as f64,
        }
    }
}

named_enum! {
    /// Whether a step fits the memory of a GPU.
    MemoryVerdict {
        /// It does.
        Fits = "fits",
        /// What lives fits, and the allocator has less room than it usually takes: it frees what it caches, or fails where that is
        /// in pieces.
        Tight = "tight",
        /// What lives is too much.
        DoesNotFit = "does_not_fit",
    }
}

named_enum! {
    /// When a training step takes most memory.
    #[derive(Default)]
    Peak {
        /// All activations live, and the logits.
        #[default]
        Loss = "loss",
        /// One layer runs backward: with all activations still at its start, with all gradients at its end.
        Backward = "backward",
        /// The optimizer updates the weights.
        Update = "update",
    }
}

/// Memory on one GPU, by part, at the moment that takes most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Whether it is training, whose allocator reserves more than what lives.
    pub is_trained: bool,
    /// When that is; serving has one moment.
    pub peak: Peak,
    /// Model weights.
    pub weights: Bytes,
    /// Weights and gradients of the layers that ZeRO stage 3 gathers.
    pub gathered: Bytes,
    /// Gradients of the weights.
    pub gradients: Bytes,
    /// Adam moments and fp32 master weights.
    pub optimizer: Bytes,
    /// What the forward pass keeps for the backward pass; the working set of one layer when serving.
    pub activations: Bytes,
    /// Cached keys and values.
    pub kv_cache: Bytes,
    /// Output scores.
    pub logits: Bytes,
    /// Gradients of the activations of the layer whose backward pass runs.
    pub flowing: Bytes,
    /// Copies that the update of the weights makes.
    pub update: Bytes,
}

impl MemoryUse {
    /// What driver, context, library workspaces and collective buffers take before the model does: one to two gigabytes are usual
    /// for a PyTorch process with NCCL. What CUDA reports is without the driver's share, 0.8 GB of an A100's 80 GiB.
    pub fn kept_free(gpu: &Gpu) -> Bytes {
        Bytes::from_bytes(if gpu.visible_memory().is_some() { 1.2e9 } else { 2e9 })
    }

    /// Every part with its name, for tables and JSON.
    pub fn parts(&self) -> [(&'static str, Bytes); 9] {
        [
            ("weights", self.weights),
            ("gathered", self.gathered),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
            ("activations", self.activations),
            ("kv_cache", self.kv_cache),
            ("logits", self.logits),
            ("flowing", self.flowing),
            ("update", self.update),
        ]
    }

    /// The sum of the parts.
    pub fn total(&self) -> Bytes {
        self.parts().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// What may be filled of a share of the memory of this GPU, in training or when serving.
    pub fn room(gpu: &Gpu, share: f64, trains: bool) -> Bytes {
        let pieces = if trains { Self::PIECES } else { 1.0 };
        (gpu.memory() * share).min((gpu.memory() - Self::kept_free(gpu)) * (1.0 / pieces))
    }

    /// What the driver shows over what lives in training: the median of 445 runs, and what nine of ten exceed
    /// (foundation-model-stack/fms-acceleration, benchmarks on A100).
    const LIKELY_RESERVED: f64 = 1.28;
    const LEAST_RESERVED: f64 = 1.10;

    /// What an allocator that has no more room takes over what lives: pieces that activations of other sizes do not fill. Of
    /// the same runs those up to 71.9 GiB of 80 ran, and those from 72.4 GiB ran out of memory. An update, which frees and
    /// takes tensors of equal sizes, ran with 74.8 GiB.
    const PIECES: f64 = 1.08;

    /// What training likely takes, as the driver shows it; the allocator of a server takes what is left by design.
    pub fn reserved(&self) -> Bytes {
        self.total() * Self::LIKELY_RESERVED
    }

    /// Whether it fits this GPU.
    pub fn verdict(&self, gpu: &Gpu) -> MemoryVerdict {
        match () {
            () if !self.fits(gpu) => MemoryVerdict::DoesNotFit,
            () if self.is_trained && self.total() * Self::LEAST_RESERVED > gpu.memory() => MemoryVerdict::Tight,
            () => MemoryVerdict::Fits,
        }
    }

    /// What it takes of a GPU at least, without what is kept free.
    pub fn needed(&self) -> Bytes {
        match self.is_trained && self.peak != Peak::Update {
            true => self.total() * Self::PIECES,
            false => self.total(),
        }
    }

    /// Whether it fits this GPU beside what is kept free.
    pub fn fits(&self, gpu: &Gpu) -> bool {
        self.needed() + Self::kept_free(gpu) <= gpu.memory()
    }
}

/// A stage of the pipeline.
#[derive(Clone, Copy)]
struct Stage {
    layers: StageLayers,
    /// Whether it embeds.
    first: bool,
    /// Whether it predicts.
    last: bool,
    /// Micro-batches whose activations it holds.
    in_flight: f64,
}

impl Stage {
    /// A stage by its rank in the pipeline.
    fn of(arch: &Architecture, work: &Workload, rank: u64) -> Self {
        let layers = StageLayers::of(arch, work);
        let (first, last) = (rank == 0, rank + 1 == work.pp);
        Self {
            layers: match layers.head_is_a_layer && (first || last) {
                true => layers.holding(arch, layers.layers - 1),
                false => layers,
            },
            first,
            last,
            in_flight: in_flight(work, rank),
        }
    }

    /// Parameters on one rank.
    fn parameters(self, arch: &Architecture, work: &Workload) -> u64 {
        rank_parameters(arch, Shards::of(work), self.layers, self.first, self.last)
    }

    /// Those of embedding, head and final norm.
    fn edges(self, arch: &Architecture, work: &Workload) -> u64 {
        rank_parameters(arch, Shards::of(work), StageLayers::NONE, self.first, self.last)
    }
}

/// Micro-batches whose activations a stage holds before its first backward pass under 1F1B, in parts of a micro-batch where it
/// has virtual stages (arXiv 2104.04473, section 2.2; Megatron-LM, `get_pp_rank_microbatches`).
fn in_flight(work: &Workload, rank: u64) -> f64 {
    let behind = work.pp - 1 - rank;
    let passes = match work.vp {
        1 => behind + 1,
        vp => 2 * behind + (vp - 1) * work.pp + 1,
    };
    (passes as f64 / work.vp as f64).min(work.microbatches as f64)
}

/// Memory on the fullest GPU of a replica, trained as this framework does.
///
/// The first stage holds the activations of most micro-batches and the embedding, the last one the head and the logits, the second
/// one a layer more than both where these take the place of a layer; the largest sum is returned.
pub fn memory_use(arch: &Architecture, work: &Workload, practice: &Practice) -> Result<MemoryUse> {
    arch.validate()?;
    work.validate(arch)?;
    let of = |rank| stage_memory(arch, work, practice, Stage::of(arch, work, rank));
    let larger = |a: MemoryUse, b: MemoryUse| if a.total() > b.total() { a } else { b };
    let second = StageLayers::of(arch, work).head_is_a_layer && work.pp > 2;
    let others = [second.then_some(1), (work.pp > 1).then(|| work.pp - 1)];
    Ok(others.into_iter().flatten().map(of).fold(of(0), larger))
}

fn stage_memory(arch: &Architecture, work: &Workload, practice: &Practice, place: Stage) -> MemoryUse {
    let Stage {
        layers: stage,
        first,
        last,
        in_flight,
    } = place;
    let shards = Shards::of(work);
    let owned = place.parameters(arch, work) as f64;
    let edges = place.edges(arch, work) as f64;
    let wide = work.trained_dtype().size() as f64;
    let held = |from_stage| held_parameters(arch, work, place, from_stage);
    let frozen = |stage| work.frozen_bytes(arch, stage, first, last);
    let eager = practice.is_eager(work);
    let mut memory = MemoryUse {
        weights: Bytes::from_bytes(held(3) * wide + held_share(work, frozen(stage), 3)),
        ..MemoryUse::default()
    };
    let is_sharded = is_sharded(work);
    if work.trains() {
        if is_sharded {
            let layers = if work.pp > 1 {
                [1.0; 2]
            } else {
                let layers = stage.layers as f64;
                [2.0_f64, 1.0].map(|gathered| gathered.min(layers) / layers)
            };
            let live = (practice.live_elements / (owned - edges)).min(1.0);
            let layers = [layers[0].max(live), layers[1]];
            let narrow = work.activation_dtype().size() as f64;
            memory.gathered = Bytes::from_bytes(match work.has_adapters() {
                // Their gradients are not of whole layers.
                true => (frozen(stage)[0] - frozen(StageLayers::NONE)[0]) * layers[0],
                false => (owned - edges) * layers.into_iter().sum::<f64>() * narrow,
            });
        }
        if work.zero > 0 {
            let [trained, _] = work.trained(arch, stage, first, last);
            let bucket = practice.bucket_elements.min(trained as f64);
            memory.gathered += Bytes::from_bytes(bucket * wide);
        }
        let reduced = match practice.whole_gradients && work.microbatches > 1 {
            true => work.trained(arch, stage, first, last)[0] as f64,
            false => held(2),
        };
        memory.gradients = Bytes::from_bytes(reduced * practice.gradient_bytes(work));
        if work.optimizer_in_backward {
            let layer = owned / stage.layers as f64;
            let table = (rank_vocab(arch, work.tp) * arch.hidden) as f64;
            let largest = Bytes::from_bytes(layer.max(table) * wide);
            memory.gradients = memory.gradients.min(largest);
        }
        memory.optimizer = Bytes::from_bytes(match work.optimizer.is_paged() {
            true => 0.0,
            false => states(arch, work, place),
        });
        let copied = practice.foreach && work.optimizer.has_moments();
        if copied && !work.optimizer_in_backward && !work.offload.optimizer() {
            memory.update = Bytes::from_bytes(held(1) * wide);
        }
        if work.zero > 0 && !work.offload.optimizer() {
            let copied = practice.update_elements.min(held(1));
            memory.update = memory.update.max(Bytes::from_bytes(copied * FP32_BYTES));
        }
        if work.offload.optimizer() {
            let share = MOVING_LAYERS.min(stage.layers as f64) / stage.layers as f64;
            let moving = Bytes::from_bytes((owned - edges) * share * wide);
            memory.gradients = memory.gradients.min(moving);
            memory.optimizer = Bytes::ZERO;
        }
        if work.casts_weights() && !is_sharded {
            // Each micro-batch casts for itself; what runs again casts again.
            let copies = match work.recompute {
                Recompute::Full => 1.0,
                _ => in_flight,
            };
            memory.weights += Bytes::from_bytes(copies * cast_weights(arch, work, place));
        }
        let kept = kept_activations(arch, work, stage, in_flight, eager);
        let layer = layer_activations(arch, work, stage, true, eager);
        let moving = match work.recompute {
            Recompute::Full if work.recompute_layers == 0 => MOVING_LAYERS * layer_input(arch, work) as f64 + layer,
            _ => MOVING_LAYERS * layer,
        };
        memory.activations = Bytes::from_bytes(match work.offload.activations() {
            true => kept.min(moving),
            false => kept,
        });
    } else {
        if let Some(stored) = arch.stored(work) {
            let linears = rank_linears(arch, shards, stage, last);
            let saved = |(linear, layers): &(_, u64)| *layers as f64 * stored.saved(linear, wide);
            let table = rank_vocab(arch, work.tp) * arch.hidden;
            let embedding = match first || last && arch.tied_embeddings {
                true => stored.saved_of_embedding(table, arch.hidden, wide),
                false => 0.0,
            };
            let saved = linears.iter().map(saved).sum::<f64>() + embedding;
            memory.weights = Bytes::from_bytes(owned * wide - saved);
        } else if work.linear_dtype() != work.activation_dtype() {
            let weights = (owned - edges) * served_bytes(work) + edges * wide;
            memory.weights = Bytes::from_bytes(weights);
        }
        let layer = layer_activations(arch, &work.iteration(), stage, true, false);
        memory.activations = Bytes::from_bytes(layer);
        memory.kv_cache = Bytes::from_bytes(kv_cache(arch, work, stage));
        if let Some((drafter, [_, pass])) = work.drafter(arch) {
            let place = Stage {
                layers: StageLayers::of(&drafter, &pass),
                first: false,
                last: false,
                in_flight: 1.0,
            };
            let drafts = stage_memory(&drafter, &pass, practice, place);
            let input = 2 * arch.hidden * arch.hidden * work.activation_dtype().size();
            memory.weights += drafts.weights + Bytes::from_bytes(input as f64);
            memory.kv_cache += drafts.kv_cache;
        }
    }
    if last {
        let rows = work.head_rows();
        let loss = match work.trains() {
            true => practice.loss(work),
            false => Loss::Triton,
        };
        memory.logits = Bytes::from_bytes(logit_bytes(loss, rows) * rank_vocab(arch, work.tp) as f64);
    }
    if !work.trains() {
        return memory;
    }
    memory.is_trained = true;
    let early = practice.gradient_buffers || work.microbatches > 1;
    let working = Bytes::from_bytes(layer_activations(arch, work, stage, true, eager));
    let loss = MemoryUse {
        gradients: if early { memory.gradients } else { Bytes::ZERO },
        activations: match work.recompute {
            Recompute::Full => memory.activations - working.min(memory.activations),
            _ => memory.activations,
        },
        update: Bytes::ZERO,
        ..memory
    };
    let flowing = Bytes::from_bytes(flowing_gradients(arch, work, practice.in_place));
    // FSDP holds the gradients of the inputs of frozen layers until all have one (`register_multi_grad_hook`), and with them the
    // inputs that layers are recomputed from.
    let held = match work.recompute {
        _ if !work.has_adapters() || !is_sharded => 0,
        Recompute::Full => stage.layers + stage.recomputing(work),
        _ => stage.layers,
    };
    let held = Bytes::from_bytes((held * layer_input(arch, work)) as f64);
    let moments = [
        loss,
        MemoryUse {
            peak: Peak::Backward,
            activations: memory.activations,
            logits: Bytes::ZERO,
            flowing,
            ..loss
        },
        MemoryUse {
            peak: Peak::Backward,
            gradients: memory.gradients,
            activations: working.min(memory.activations) + held,
            logits: Bytes::ZERO,
            flowing,
            ..loss
        },
        MemoryUse {
            peak: Peak::Update,
            gathered: Bytes::ZERO,
            activations: Bytes::ZERO,
            logits: Bytes::ZERO,
            ..memory
        },
    ];
    let larger = |a: MemoryUse, b: MemoryUse| if b.total() > a.total() { b } else { a };
    moments.into_iter().reduce(larger).unwrap_or(memory)
}

/// Tokens of a chunk of a chunked loss.
const CHUNK: u64 = 1024;

/// Bytes of the logits of a training micro-batch of so many tokens, for each entry of the vocabulary.
fn logit_bytes(loss: Loss, tokens: u64) -> f64 {
    let (tokens, bytes) = match loss {
        Loss::Eager => (tokens, EAGER_LOGIT),
        Loss::Compiled => (tokens, COMPILED_LOGIT),
        Loss::Auto | Loss::Triton => (tokens, TRITON_LOGIT),
        Loss::Chunked => (tokens.min(CHUNK), EAGER_LOGIT),
        Loss::Fused => (0, 0.0),
    };
    tokens as f64 * bytes
}

/// Bytes a logit: 16-bit logits, their fp32 copy, the fp32 gradient, the 16-bit gradient and what is between them
/// (pytorch/torchtitan, docs/performance.md; 12 to 20 in other trainers).
const EAGER_LOGIT: f64 = 14.0;

/// Bytes a logit where a compiler fuses these: 8 to 11 (pytorch/torchtune, chunked against plain losses).
const COMPILED_LOGIT: f64 = 10.0;

/// Bytes a logit: 16-bit logits, an fp32 copy that its gradient overwrites, and the 16-bit gradient (peaks of
/// foundation-model-stack/fms-acceleration with a Triton loss).
const TRITON_LOGIT: f64 = 8.0;

/// Bytes of optimizer states that a GPU of this stage holds.
fn states(arch: &Architecture, work: &Workload, place: Stage) -> f64 {
    let bytes = held_parameters(arch, work, place, 1) * state_bytes(work);
    match further_bytes_of_edges(work) {
        0.0 => bytes,
        further => {
            let [edges, _] = work
                .trained(arch, StageLayers::NONE, place.first, place.last)
                .map(|count| count as f64);
            let replicas = if work.zero > 0 { work.data_group().size } else { 1 };
            bytes + further * edges / replicas as f64
        }
    }
}

/// Bytes of an element in single precision.
const FP32_BYTES: f64 = 4.0;

/// Bytes of an element of the state of linear attention, which servers keep in single precision (`mamba_ssm_cache_dtype`).
const STATE_BYTES: f64 = 4.0;

/// Layers whose gradients or activations are on the GPU while others are in host memory.
const MOVING_LAYERS: f64 = 2.0;

/// Bytes of a weight as a server keeps it, with the scales of its blocks.
fn served_bytes(work: &Workload) -> f64 {
    match work.recipe {
        Recipe::Mxfp8 => 1.0 + 1.0 / 32.0,
        _ => work.linear_dtype().operand_sizes()[1],
    }
}

/// Bytes of the 16-bit copies of weights that autocast keeps from the forward pass of a micro-batch to its backward pass: of
/// all but an embedding that is no head; norms and positions, which are few, are counted too.
fn cast_weights(arch: &Architecture, work: &Workload, place: Stage) -> f64 {
    let owned = place.parameters(arch, work);
    let is_head = arch.tied_embeddings && place.last;
    let embedding = match place.first && !is_head {
        true => rank_vocab(arch, work.tp) * arch.hidden,
        false => 0,
    };
    ((owned - embedding) * work.activation_dtype().size()) as f64
}

/// Trained parameters whose states a GPU of this stage holds where `from_stage` of ZeRO shards them.
fn held_parameters(arch: &Architecture, work: &Workload, place: Stage, from_stage: u8) -> f64 {
    let trained = work.trained(arch, place.layers, place.first, place.last);
    held_share(work, trained.map(|count| count as f64), from_stage)
}

/// What one replica holds of something and of the part of it in routed experts, where `from_stage` of ZeRO shards it.
fn held_share(work: &Workload, [owned, experts]: [f64; 2], from_stage: u8) -> f64 {
    if work.zero < from_stage {
        return owned;
    }
    let [data, expert_data] = [work.data_group(), work.expert_data_group()];
    (owned - experts) / data.size as f64 + experts / expert_data.size as f64
}

/// What one GPU exchanges with the memory of its host, and what that keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTraffic {
    /// Activations of one micro-batch, in each direction.
    pub activations: Bytes,
    /// Gradients of one micro-batch, to the host.
    pub gradients: Bytes,
    /// Updated weights of one step, from the host.
    pub weights: Bytes,
    /// What Adam reads and writes in host memory once a step: states, gradients and weights.
    pub adam: Bytes,
    /// What host memory keeps.
    pub kept: Bytes,
}

/// What offloading moves on a GPU of the stage that is lowered; nothing without it.
pub fn host_traffic(arch: &Architecture, work: &Workload) -> HostTraffic {
    let mut traffic = HostTraffic::default();
    if work.offload.optimizer() {
        let place = Stage::of(arch, work, work.pp - 1);
        let held = held_parameters(arch, work, place, 1);
        let wide = work.trained_dtype().size() as f64;
        let states = states(arch, work, place);
        traffic.gradients = Bytes::from_bytes(held * wide);
        traffic.weights = Bytes::from_bytes(held * wide);
        traffic.adam = Bytes::from_bytes(2.0 * (states + held * wide));
        traffic.kept += Bytes::from_bytes(states + held * wide);
    }
    if work.offload.activations() {
        let stage = StageLayers::of(arch, work);
        let working = match work.recompute {
            Recompute::Full => layer_activations(arch, work, stage, true, false),
            _ => 0.0,
        };
        let kept = kept_activations(arch, work, stage, 1.0, false) - working;
        traffic.activations = Bytes::from_bytes(kept);
        traffic.kept += Bytes::from_bytes(kept * in_flight(work, 0));
    }
    traffic
}

/// Bytes kept by all layers of a stage for `in_flight` micro-batches.
fn kept_activations(arch: &Architecture, work: &Workload, stage: StageLayers, in_flight: f64, eager: bool) -> f64 {
    let scores = matches!(work.recompute, Recompute::None | Recompute::LatentUp);
    let parts = stage.parts(arch).map(|(arch, stage)| {
        stage.layers as f64 * residual_activations(&arch, work, eager)
            + stage.attention() as f64 * attention_activations(&arch, work, scores, eager)
            + stage.linear as f64 * linear_activations(&arch, work)
            + stage.dense as f64 * mlp_activations(&arch, work, false, eager)
            + stage.moe as f64 * mlp_activations(&arch, work, true, eager)
    });
    let mut layers: f64 = parts.sum();
    if work.recompute == Recompute::Operators {
        layers *= KEPT_OF_OPERATORS;
    }
    if work.recompute == Recompute::Full {
        let input = layer_input(arch, work);
        let recomputing = stage.recomputing(work);
        let kept = layers * (stage.layers - recomputing) as f64 / stage.layers as f64;
        let inputs = (recomputing * input) as f64;
        return in_flight * (inputs + kept) + layer_activations(arch, work, stage, true, eager);
    }
    in_flight * layers
}

/// Bytes of what goes into a layer, for one micro-batch.
fn layer_input(arch: &Architecture, work: &Workload) -> u64 {
    work.residual_rows() * arch.hidden * residual_dtype(work).size()
}

/// Bytes the largest layer of a stage keeps for one micro-batch; `scores` says whether unfused scores are kept.
fn layer_activations(arch: &Architecture, work: &Workload, stage: StageLayers, scores: bool, eager: bool) -> f64 {
    let parts = stage.parts(arch).filter(|(_, stage)| stage.layers > 0);
    let layers = parts.map(|(arch, stage)| {
        let mut mixer: f64 = 0.0;
        if stage.attention() > 0 {
            mixer = attention_activations(&arch, work, scores, eager);
        }
        if stage.linear > 0 {
            let linear = linear_activations(&arch, work);
            mixer = match stage.mixers() > stage.layers {
                true => mixer + linear,
                false => mixer.max(linear),
            };
        }
        let mlp = match stage.with_mlp() {
            0 => 0.0,
            _ => mlp_activations(&arch, work, stage.moe > 0, eager),
        };
        let block = match arch.mlp_layers {
            Some(_) => mixer.max(mlp),
            None => mixer + mlp,
        };
        residual_activations(&arch, work, eager) + block
    });
    let further = work.rank_tokens() as f64 * arch.further_activations() * saved_bytes(work);
    layers.fold(0.0, f64::max) + further
}

/// Bytes of an input of a linear map: fp8 training keeps it as it is multiplied.
fn saved_bytes(work: &Workload) -> f64 {
    match work.dtype {
        Dtype::Fp8 if work.trains() => 1.0,
        _ => work.activation_dtype().size() as f64,
    }
}

/// What is computed again in the backward pass; nothing outside training.
fn recomputed(work: &Workload) -> Recompute {
    match work.trains() {
        true => work.recompute,
        false => Recompute::None,
    }
}

/// Whether the outputs of norms and activation functions are computed again.
fn is_pointwise(work: &Workload) -> bool {
    matches!(recomputed(work), Recompute::Pointwise | Recompute::Mlp)
}

/// Format of the residual stream: fp32 under autocast, unless sharded layers are cast whole.
fn residual_dtype(work: &Workload) -> Dtype {
    match is_sharded(work) {
        true => work.activation_dtype(),
        false => work.weight_dtype(),
    }
}

/// Whether weights are sharded over replicas.
fn is_sharded(work: &Workload) -> bool {
    work.zero == 3 && work.data_group().size > 1
}

/// Copies of the residual stream: every norm keeps its input, every first linear map its own.
fn residual_activations(arch: &Architecture, work: &Workload, eager: bool) -> f64 {
    let norm = match eager {
        true => eager_norm_bytes(arch, work),
        false => residual_dtype(work).size() as f64,
    };
    let (norm_inputs, linear_inputs) = match arch.norm.placement {
        NormPlacement::Shared => (1, 1),
        NormPlacement::Pre if arch.parallel_layers => (1, 2),
        _ if arch.mlp_layers.is_some() => (1, 1),
        _ => (hidden_norms(arch), 2),
    };
    let kept = [Role::Qkv, Role::MlpUp].map(|role| u64::from(work.keeps_inputs(role)));
    let linear_inputs = match is_pointwise(work) {
        true => 0,
        // Adapters copy theirs.
        false if eager && work.has_adapters() => 0,
        false => linear_inputs.min(kept.into_iter().sum()),
    };
    let unfused = work.attention == AttentionKernel::Unfused;
    let masks = if unfused && work.trains() { 2.0 } else { 0.0 };
    work.residual_rows() as f64
        * arch.hidden as f64
        * (norm_inputs as f64 * norm + linear_inputs as f64 * saved_bytes(work) + masks)
}

/// Bytes an element that a norm keeps where it is single operations: its input in fp32, and what its weights multiply where
/// they are trained.
fn eager_norm_bytes(arch: &Architecture, work: &Workload) -> f64 {
    let wide = residual_dtype(work).size() as f64;
    match arch.norm.kind {
        NormKind::RmsNorm if !work.has_adapters() => FP32_BYTES + wide,
        NormKind::RmsNorm | NormKind::UnweightedRmsNorm => FP32_BYTES,
        NormKind::LayerNorm | NormKind::UnweightedLayerNorm => wide,
    }
}

/// Bytes of the inputs that adapters beside these maps copy.
fn adapter_inputs(arch: &Architecture, work: &Workload, linears: impl Iterator<Item = Linear>) -> f64 {
    let copies = linears.map(|linear| work.adapters(arch, &linear).count() as u64 * linear.inputs);
    (work.rank_tokens() * copies.sum::<u64>()) as f64 * work.activation_dtype().size() as f64
}

/// Inside softmax attention.
fn attention_activations(arch: &Architecture, work: &Workload, scores: bool, eager: bool) -> f64 {
    let tokens = work.rank_tokens() as f64;
    let wide = work.activation_dtype().size() as f64;
    let heads = (arch.heads / work.tp) as f64;
    let (key_dim, value_dim) = (arch.head_dim as f64, arch.value_dim() as f64);
    let queries = heads * key_dim;
    let [keys, values] = keys_values(arch, work.tp).map(|width| width as f64);
    let mut attention = heads * value_dim;
    if recomputed(work) != Recompute::LatentUp || arch.mla.is_none() {
        attention += queries + keys + values;
    }
    if arch.norm.qk != QkNorm::None {
        let copies = if eager {
            eager_norm_bytes(arch, work) / wide
        } else {
            1.0
        };
        attention += copies * (queries + keys);
    }
    if arch.output_gate {
        attention += 2.0 * heads * value_dim;
    }
    if arch.mla.is_some() {
        // Latents before and after their norms.
        let latents: u64 = attention_linears(arch, work.tp)
            .filter(|linear| linear.role.is_latent())
            .map(|linear| linear.outputs)
            .sum();
        attention += 2.0 * latents as f64;
    }
    let unfused = work.attention == AttentionKernel::Unfused;
    let of_scores = match (unfused, scores) {
        (true, true) => tokens * heads * work.keys() as f64 * (2.0 * wide + 1.0),
        (true, false) => 0.0,
        (false, _) => tokens * heads * 4.0,
    };
    let adapters = match eager {
        true => adapter_inputs(arch, work, attention_linears(arch, work.tp)),
        false => 0.0,
    };
    tokens * attention * wide + of_scores + adapters
}

/// Inside linear attention.
fn linear_activations(arch: &Architecture, work: &Workload) -> f64 {
    let linear = arch.linear.map(|linear| rank_linear(&linear, work.tp));
    let width = linear.map_or(0, |linear| 2 * linear.channels() + 3 * linear.values());
    let wide = work.activation_dtype().size() as f64;
    work.rank_tokens() as f64 * width as f64 * wide
}

/// Gradients of activations that live while an MLP runs backward: of what enters and leaves its elementwise function, and of
/// the residual stream on both sides.
fn flowing_gradients(arch: &Architecture, work: &Workload, in_place: bool) -> f64 {
    let entering = if in_place { 0 } else { arch.mlp.kind.up_factor() };
    let copies = (entering + 1) as f64;
    let widths = arch
        .parts()
        .map(|part| part.moe.map_or(part.mlp.d_ff, |moe| moe.active_width()));
    let inner = widths.max().unwrap_or(0);
    let inner = work.rank_tokens() as f64 * copies * inner as f64 / work.tp as f64;
    let residual = (2 * work.residual_rows() * arch.hidden) as f64;
    (inner + residual) * work.activation_dtype().size() as f64
}

/// Inside an MLP, dense or of experts.
fn mlp_activations(arch: &Architecture, work: &Workload, moe: bool, eager: bool) -> f64 {
    let tokens = work.rank_tokens() as f64;
    let (wide, saved) = (work.activation_dtype().size() as f64, saved_bytes(work));
    let recompute = recomputed(work);
    // In units of the width of an activation: what goes into the elementwise function, and what comes out.
    let output = if is_pointwise(work) { 0.0 } else { saved / wide };
    // Of a gated function eager PyTorch keeps what its gate gives, too; adapters copy what they take.
    let gate = f64::from(eager && arch.mlp.kind == MlpKind::Swiglu);
    let output = if eager && work.has_adapters() { 0.0 } else { output };
    let inner_copies = match recompute {
        Recompute::Mlp => 0.0,
        _ => arch.mlp.kind.up_factor() as f64 + gate + output,
    };
    let mlp = match arch.moe.filter(|_| moe) {
        None => inner_copies * (arch.mlp.d_ff / work.tp) as f64,
        Some(moe) => {
            // Each visit keeps the gathered input and the inner activations.
            let ranks = work.expert_ranks();
            let gathered = match recompute {
                Recompute::Mlp => 0.0,
                _ if !work.keeps_inputs(Role::ExpertsUp) => 0.0,
                _ => moe.routed_width(arch.hidden) as f64 * saved / wide,
            };
            let visit = inner_copies * (moe.d_ff / ranks) as f64 + gathered;
            let visits = (moe.top_k * ranks) as f64 / work.tp as f64;
            let shared = inner_copies * (moe.shared_d_ff / work.tp) as f64;
            // What a further norm takes, and what it gives.
            let norms = (2 * moe.norms * arch.hidden) as f64;
            visits * visit + shared + moe.experts as f64 + norms
        }
    };
    let adapters = match eager && !moe {
        true => adapter_inputs(arch, work, mlp_linears(arch, work.tp).into_iter()),
        false => 0.0,
    };
    tokens * mlp * wide + adapters
}

/// Bytes of the cache for all sequences of all micro-batches, new tokens included.
fn kv_cache(arch: &Architecture, work: &Workload, stage: StageLayers) -> f64 {
    let rows = stage.parts(arch).map(|(arch, stage)| {
        let width = match arch.mla {
            Some(mla) => mla.kv_lora_rank + mla.qk_rope,
            None => keys_values(&arch, work.tp).into_iter().sum(),
        };
        let window = arch.window.map_or(u64::MAX, |window| window.size);
        let compressed = stage.attention() * work.keys().checked_div(arch.stride()).unwrap_or(0);
        let rows = stage.full_attention * work.keys() + stage.windowed * work.keys().min(window) + compressed;
        rows as f64 * width as f64
    });
    let sequences = work.sequences() as f64;
    let cached = rows.sum::<f64>() * work.cache_dtype().size() as f64;
    let states = arch.linear.map_or(0.0, |linear| {
        let linear = rank_linear(&linear, work.tp);
        let state = linear.states() as f64 * STATE_BYTES;
        let tokens = (linear.channels() * (linear.taps.saturating_sub(1))) as f64;
        // A step that verifies drafts keeps the state after each token.
        let kept = (stage.linear * (1 + work.speculate)) as f64;
        kept * (state + tokens * work.activation_dtype().size() as f64)
    });
    let index = stage.parts(arch).map(|(arch, stage)| {
        let width = arch.index.map_or(0, |index| index.head_dim);
        (stage.indexed * (work.keys() / arch.stride().max(1)) * width) as f64 * INDEX_KEY_BYTES
    });
    let index: f64 = index.sum();
    sequences * (cached + states + index)
}

#[cfg(test)]
mod tests {
    use super::super::{KvCacheDtype, Offload, Optimizer, OptimizerStates, Preset, parameters};
    use super::*;

    fn memory_use(arch: &Architecture, work: &Workload) -> Result<MemoryUse> {
        super::memory_use(arch, work, &Practice::default())
    }

    fn preset(name: &str) -> &'static Architecture {
        &Preset::find(name).unwrap().architecture
    }

    #[test]
    fn fewer_layers_that_recompute_take_no_less_memory_with_adapters() {
        let arch = preset("llama-3-8b");
        let layers = |recompute_layers| {
            let work = Workload {
                lora: 16,
                dp: 8,
                zero: 3,
                recompute: if recompute_layers == 0 {
                    Recompute::None
                } else {
                    Recompute::Full
                },
                recompute_layers,
                ..Workload::train(2, 4096)
            };
            memory_use(arch, &work).unwrap().total().bytes()
        };
        let totals: Vec<f64> = [0, 1, 8, 16, 24, 32].map(layers).to_vec();
        assert!(
            totals.is_sorted_by(|before, after| after <= &(before * 1.01)),
            "{totals:?}"
        );
        // The gradients of 32 inputs, and the inputs.
        let input = 2.0 * 2.0 * 4096.0 * 4096.0;
        assert!(totals[5] > 64.0 * input, "{totals:?}");
    }

    /// ZeRO-Offload trains 13 billion parameters on one V100 of 32 GB (arXiv 2101.06840, section 1).
    #[test]
    fn offloaded_states_leave_the_weights_of_a_published_run() {
        let arch = preset("gpt3-13b");
        let work = Workload {
            dtype: Dtype::Fp16,
            recompute: Recompute::Full,
            ..Workload::train(1, 1024)
        };
        let v100 = Gpu::find("v100").unwrap();
        assert!(!memory_use(arch, &work).unwrap().fits(v100));
        let offloaded = Workload {
            offload: Offload::Optimizer,
            ..work
        };
        let memory = memory_use(arch, &offloaded).unwrap();
        assert!(memory.fits(v100), "{memory:?}");
        let traffic = host_traffic(arch, &offloaded);
        let all = parameters(arch).total as f64;
        assert_eq!(traffic.kept.bytes(), 14.0 * all);
        assert_eq!(traffic.adam.bytes(), 28.0 * all);
        assert_eq!(host_traffic(arch, &work), HostTraffic::default());
        // What leaves the GPU without recomputation is what it kept, but for two layers.
        let work = Workload::train(1, 1024);
        let offloaded = Workload {
            offload: Offload::Activations,
            ..work
        };
        let [kept, left] = [work, offloaded].map(|work| memory_use(arch, &work).unwrap());
        assert_eq!(host_traffic(arch, &offloaded).kept, kept.activations);
        let layers = left.activations.bytes() / kept.activations.bytes() * arch.layers as f64;
        assert!((layers - 2.0).abs() < 1e-9, "{layers}");
    }

    /// Korthikanti et al., arXiv 2205.05198, table 2.
    #[test]
    fn unfused_activations_equal_the_published_formulas() {
        let arch = preset("gpt3-175b");
        let unfused = Workload {
            attention: AttentionKernel::Unfused,
            ..Workload::train(2, 2048)
        };
        let sbh = 2048.0 * 2.0 * 12288.0;
        let scores = 5.0 * 96.0 * 2048.0 / 12288.0;
        let sharded = |sequence_parallel, recompute| Workload {
            tp: 8,
            sequence_parallel,
            recompute,
            ..unfused
        };
        for (work, per_layer) in [
            (unfused, 34.0 + scores),
            (sharded(false, Recompute::None), 10.0 + (24.0 + scores) / 8.0),
            (sharded(true, Recompute::None), (34.0 + scores) / 8.0),
            (sharded(true, Recompute::Selective), 34.0 / 8.0),
        ] {
            let memory = memory_use(arch, &work).unwrap();
            assert_eq!(memory.activations.bytes(), 96.0 * sbh * per_layer);
        }
        let full = Workload {
            recompute: Recompute::Full,
            ..unfused
        };
        let memory = memory_use(arch, &full).unwrap();
        let expected = sbh * (96.0 * 2.0 + 34.0 + scores);
        assert_eq!(memory.activations.bytes(), expected);
    }

    #[test]
    fn zero_stages_divide_optimizer_then_gradients_then_weights() {
        let arch = preset("llama-2-7b");
        let total = parameters(arch).total as f64;
        for (zero, weights, gradients, optimizer) in [
            (0, 2.0, 2.0, 12.0),
            (1, 2.0, 2.0, 1.5),
            (2, 2.0, 0.25, 1.5),
            (3, 0.25, 0.25, 1.5),
        ] {
            let work = Workload {
                dp: 8,
                zero,
                ..Workload::train(1, 2048)
            };
            let memory = memory_use(arch, &work).unwrap();
            assert_eq!(memory.weights.bytes(), weights * total);
            assert_eq!(memory.gradients.bytes(), gradients * total);
            assert_eq!(memory.optimizer.bytes(), optimizer * total);
        }
    }

    #[test]
    fn recomputation_keeps_less_and_sharded_weights_are_gathered_by_layer() {
        let kept = |name: &str, recompute| {
            let work = Workload {
                recompute,
                ..Workload::train(1, 1)
            };
            memory_use(preset(name), &work).unwrap().activations.bytes()
        };
        // Llama-3-8B: 32 layers, 4096 wide, 8 of 32 heads of 128 keep keys and values, 14336 inside.
        let norms = 2.0 * 4096.0 * 2.0;
        let attention = (2.0 * 4096.0 + 2.0 * 1024.0) * 2.0 + 32.0 * 4.0;
        let mlp = 32.0 * (norms + attention);
        assert_eq!(kept("llama-3-8b", Recompute::Mlp), mlp);
        // DeepSeek-V3: 61 layers of 128 heads; 128 + 64 wide queries and keys, 128 wide values.
        let all = kept("deepseek-v3", Recompute::None);
        let latents = kept("deepseek-v3", Recompute::LatentUp);
        assert_eq!(all - latents, 61.0 * 128.0 * (192.0 + 192.0 + 128.0) * 2.0);
        let sharded = Workload {
            dp: 8,
            zero: 3,
            ..Workload::train(1, 2048)
        };
        let arch = preset("llama-3-8b");
        let layer = (parameters(arch).total - 2 * 128_256 * 4096 - 4096) as f64 / 32.0;
        let memory = memory_use(arch, &sharded).unwrap();
        assert!((memory.gathered.bytes() / (3.0 * 2.0 * layer) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn caches_hold_two_vectors_per_key_head_a_latent_or_a_window() {
        let bytes = |name: &str, work: &Workload| memory_use(preset(name), work).unwrap().kv_cache.bytes();
        let work = Workload::decode(4, 4095);
        assert_eq!(
            bytes("llama-2-7b", &work),
            2.0 * 32.0 * 4.0 * 4096.0 * 32.0 * 128.0 * 2.0
        );
        assert_eq!(
            bytes("llama-2-70b", &Workload { tp: 8, ..work }),
            2.0 * 80.0 * 4.0 * 4096.0 * 128.0 * 2.0
        );
        assert_eq!(bytes("deepseek-v3", &work), 61.0 * 4.0 * 4096.0 * 576.0 * 2.0);
        let long = Workload::decode(1, 32767);
        assert_eq!(
            bytes("gemma-3-1b", &long),
            (4.0 * 32768.0 + 22.0 * 512.0) * 2.0 * 256.0 * 2.0
        );
    }

    #[test]
    fn pipelining_and_tensor_parallelism_shrink_the_fullest_gpu() {
        let arch = preset("llama-2-70b");
        let bytes = |tp, pp, microbatches| {
            let work = Workload {
                tp,
                pp,
                microbatches,
                ..Workload::train(1, 4096)
            };
            memory_use(arch, &work).unwrap().total().bytes()
        };
        assert!(bytes(8, 1, 1) < bytes(1, 1, 1) / 6.0);
        assert!(bytes(1, 4, 1) < bytes(1, 1, 1) / 3.5);
        // More micro-batches in flight, more activations, up to one per stage.
        assert!(bytes(1, 4, 4) > bytes(1, 4, 1));
        assert_eq!(bytes(1, 4, 8), bytes(1, 4, 4));
    }

    #[test]
    fn stages_hold_micro_batches_by_their_rank() {
        for (vp, microbatches, held) in [
            (1, 8, [4.0, 3.0, 1.0]),
            (2, 8, [5.5, 4.5, 2.5]),
            (2, 4, [4.0, 4.0, 2.5]),
        ] {
            let work = Workload {
                pp: 4,
                vp,
                microbatches,
                ..Workload::train(1, 4096)
            };
            assert_eq!([0, 1, 3].map(|rank| in_flight(&work, rank)), held);
        }
    }

    /// Llama 3.1 405B on 16,384 H100 without recomputation, gradients sharded (arXiv 2407.21783, table 4 and section 3.3.2).
    #[test]
    fn published_layouts_of_405b_fit() {
        let (arch, h100) = (preset("llama-3.1-405b"), Gpu::find("h100").unwrap());
        for (seq, cp, dp) in [(8192, 1, 128), (131_072, 16, 8)] {
            let work = Workload {
                tp: 8,
                cp,
                pp: 16,
                vp: 8,
                dp,
                zero: 2,
                microbatches: 16,
                sequence_parallel: true,
                ..Workload::train(1, seq)
            };
            let memory = memory_use(arch, &work).unwrap();
            assert!(memory.fits(h100), "{memory:?}");
            // Eight layers and neither embedding nor head.
            let layer = parameters(arch).non_embedding as f64 / 126.0 / 8.0;
            assert!(
                (memory.weights.bytes() / (16.0 * layer) - 1.0).abs() < 1e-3,
                "{memory:?}"
            );
        }
    }

    /// Llama-2-13B keeps 9.4 GB of 1,304 tokens beside 26.0 GB of weights (Lightning-AI/litgpt, tutorials/resource-tables.md).
    #[test]
    fn eager_norms_and_adapters_keep_copies() {
        let eager = Practice {
            eager: true,
            loss: Loss::Eager,
            ..Practice::default()
        };
        let kept = |work: &Workload| {
            let memory = super::memory_use(preset("llama-2-13b"), work, &eager).unwrap();
            memory.activations.bytes()
        };
        let adapted = Workload {
            lora: 8,
            lora_targets: "q,v".parse().unwrap(),
            ..Workload::train(1, 1304)
        };
        // Two norms of 4 bytes, two copied inputs, attention, and of the MLP three inner widths.
        let (hidden, inner, heads) = (5120.0, 13_824.0, 40.0);
        let layer = 2.0 * 4.0 * hidden + 2.0 * 2.0 * hidden + 4.0 * 2.0 * hidden + 4.0 * heads + 3.0 * 2.0 * inner;
        assert_eq!(kept(&adapted), 40.0 * 1304.0 * layer);
        // Trained norms keep what their weights multiply, the down projection its input.
        let whole = Workload::train(1, 1304);
        let layer = 2.0 * 6.0 * hidden + 2.0 * 2.0 * hidden + 4.0 * 2.0 * hidden + 4.0 * heads + 4.0 * 2.0 * inner;
        assert_eq!(kept(&whole), 40.0 * 1304.0 * layer);
    }

    /// Defaults of DeepSpeed: buckets of 5e8 elements, 1e9 gathered, fp32 copies of 1e9.
    #[test]
    fn buckets_gathered_weights_and_fp32_gradients_take_memory() {
        let practice = Practice {
            bucket_elements: 5e8,
            live_elements: 1e9,
            update_elements: 1e9,
            ..Practice::default()
        };
        let arch = preset("llama-2-7b");
        for zero in 0..=3 {
            let work = Workload {
                dp: 2,
                zero,
                ..Workload::train(1, 2048)
            };
            let [with, plain] = [&practice, &Practice::default()]
                .map(|practice| super::memory_use(arch, &work, practice).unwrap().total().bytes());
            let least = if zero == 0 { 0.0 } else { 2.0 * 5e8 };
            assert!((least..=4e9).contains(&(with - plain)), "{zero}: {with} {plain}");
        }
    }

    /// Longest sequences of Llama 3.1 8B with QLoRA (Unsloth's documentation, rank 32 of all maps, batch 1).
    #[test]
    fn published_longest_sequences_fit_where_mlps_run_backward_in_place() {
        let practice = Practice {
            loss: Loss::Chunked,
            gradient_buffers: false,
            in_place: true,
            ..Practice::default()
        };
        for (gpu, seq) in [("a100-40gb", 153_977), ("a100", 342_733)] {
            let work = Workload {
                lora: 32,
                base_dtype: super::super::BaseDtype::Nf4Double,
                recompute: Recompute::Full,
                offload: Offload::Activations,
                ..Workload::train(1, seq)
            };
            let memory = super::memory_use(preset("llama-3-8b"), &work, &practice).unwrap();
            let gpu = Gpu::find(gpu).unwrap();
            assert!(memory.fits(gpu), "{memory:?}");
            let room = (memory.needed() + MemoryUse::kept_free(gpu)) / gpu.memory();
            assert!(room > 0.9, "{room}");
        }
    }

    #[test]
    fn a_7b_model_serves_but_does_not_train_on_80_gigabytes() {
        let gpu = Gpu::find("h100").unwrap();
        let arch = preset("llama-2-7b");
        let fits = |work: Workload| memory_use(arch, &work).unwrap().fits(gpu);
        assert!(fits(Workload::decode(8, 4000)));
        assert!(!fits(Workload::train(1, 2048)));
        assert!(fits(Workload {
            dp: 8,
            zero: 3,
            ..Workload::train(1, 2048)
        }));
    }

    #[test]
    fn four_bits_and_their_scales_are_nine_sixteenths_of_fp8() {
        let arch = preset("llama-3-8b");
        let layers = |recipe| {
            let work = Workload {
                dtype: Dtype::Fp8,
                recipe,
                ..Workload::decode(1, 100)
            };
            let edges = 2.0 * (arch.vocab * arch.hidden) as f64;
            memory_use(arch, &work).unwrap().weights.bytes() - 2.0 * edges
        };
        let share = layers(Recipe::Nvfp4) / layers(Recipe::Tensorwise);
        // Of the norms, which stay in 16 bits, a hundred-thousandth.
        assert!((share - 9.0 / 16.0).abs() < 1e-3, "{share}");
        let of_16_bits = |recipe| {
            let work = Workload {
                recipe,
                ..Workload::decode(1, 100)
            };
            memory_use(arch, &work).unwrap().weights
        };
        assert_eq!(of_16_bits(Recipe::Int8), of_16_bits(Recipe::W8a16));
        let parts = [Recipe::W8a16, Recipe::W4a16, Recipe::Tensorwise].map(of_16_bits);
        let [eight, four, sixteen] = parts.map(|weights| weights.bytes());
        assert!((sixteen - eight) / (eight - four) > 1.99 && four > 0.25 * sixteen);
    }

    #[test]
    fn optimizers_keep_what_they_say() {
        let arch = preset("llama-3-8b");
        let all = parameters(arch).total as f64;
        let kept = |optimizer, autocast| {
            let work = Workload {
                optimizer,
                autocast,
                ..Workload::train(1, 64)
            };
            memory_use(arch, &work).unwrap().optimizer.bytes() / all
        };
        for (optimizer, bytes, with_fp32_weights) in [
            (Optimizer::AdamW, 12.0, 8.0),
            (Optimizer::AdamW8bit, 2.03125, 2.03125),
            (Optimizer::PagedAdamW8bit, 0.0, 0.0),
            (Optimizer::Lion, 8.0, 4.0),
            (Optimizer::Sgd, 0.0, 0.0),
        ] {
            assert_eq!(kept(optimizer, false), bytes, "{optimizer}");
            assert_eq!(kept(optimizer, true), with_fp32_weights, "{optimizer}");
        }
        // A second moment for the embedding and the head alone.
        let edges = 2.0 * 128_256.0 * 4096.0 / all;
        let muon = kept(Optimizer::Muon, false);
        assert!((muon - 8.0 - 4.0 * edges).abs() < 1e-3, "{muon}");
    }

    #[test]
    fn a_cache_in_fp8_and_bf16_moments_take_their_share() {
        let arch = preset("llama-3-8b");
        let cached = |kv_cache_dtype| {
            let work = Workload {
                kv_cache_dtype,
                ..Workload::decode(8, 4000)
            };
            memory_use(arch, &work).unwrap().kv_cache.bytes()
        };
        assert_eq!(cached(KvCacheDtype::Auto), 2.0 * cached(KvCacheDtype::Fp8));
        let states = |optimizer_states| {
            let work = Workload {
                optimizer_states,
                ..Workload::train(1, 2048)
            };
            memory_use(arch, &work).unwrap().optimizer.bytes()
        };
        let count = parameters(arch).total as f64;
        assert_eq!(states(OptimizerStates::Fp32), 12.0 * count);
        assert_eq!(states(OptimizerStates::Bf16), 4.0 * count);
    }

    #[test]
    fn autocast_keeps_fp32_weights_and_16_bit_copies_of_what_linear_maps_multiply() {
        let use_of = |name, autocast| {
            let work = Workload {
                autocast,
                ..Workload::train(1, 1024)
            };
            memory_use(preset(name), &work).unwrap()
        };
        let [wide, narrow] = [true, false].map(|autocast| use_of("llama-3-8b", autocast));
        let count = parameters(preset("llama-3-8b"));
        let (all, copied) = (count.total as f64, (count.total - count.embedding / 2) as f64);
        assert_eq!(wide.weights.bytes(), 4.0 * all + 2.0 * copied);
        assert_eq!(wide.gradients.bytes(), 4.0 * all);
        assert_eq!(wide.optimizer.bytes(), 8.0 * all);
        // Two norms a layer keep an input of twice the bytes; linear maps keep theirs in 16 bits.
        let more = (wide.activations - narrow.activations).bytes();
        assert_eq!(more, 32.0 * 2.0 * 1024.0 * 4096.0 * 2.0);
        // A tied embedding is a head, too.
        let (tied, all) = (use_of("gpt2", true), parameters(preset("gpt2")).total);
        assert_eq!(tied.weights.bytes(), 6.0 * all as f64);
    }

    #[test]
    fn fp8_serving_halves_the_layers_only() {
        let arch = preset("llama-3-8b");
        let work = Workload {
            dtype: Dtype::Fp8,
            ..Workload::decode(1, 100)
        };
        let count = parameters(arch);
        let edges = count.embedding + arch.hidden;
        let expected = (count.total - edges) + 2 * edges;
        assert_eq!(memory_use(arch, &work).unwrap().weights.bytes(), expected as f64);
    }
}
