//! What one step does and over how many GPUs it is spread, with defaults that fit the architecture.

use crate::arch::{
    Acceptance, Architecture, AttentionKernel, BaseDtype, Draft, GradientDtype, KvCacheDtype, Loss, Mode, Offload,
    Optimizer, OptimizerStates, Recipe, Recompute, Targets, Workload,
};
use crate::error::{Error, Result};
use crate::ops::{Dtype, RouterLoad};
use crate::request::written::ZeroStage;
use crate::request::{Size, Sizes};
use serde::Deserialize;
use std::sync::LazyLock;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Tokens per sequence in training and prefill, cached tokens in decode and tokens of a prompt, unless stated.
pub(super) const USUAL_SEQUENCE: u64 = 4096;

/// What one step does and over how many GPUs it is spread.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields, default)]
#[schema(default)]
pub struct WorkloadRequest {
    /// Training step, prefill of prompts, or decoding of one token a sequence.
    #[arg(long, default_value_t)]
    pub mode: Mode,
    /// Sequences per micro-batch [default: 4 in training, 1 in prefill, 8 in decode].
    #[arg(long, value_name = "B")]
    pub batch: Option<Size>,
    /// Tokens per sequence; in decode the cached ones, as context [default: 4096, or what the position table holds].
    #[arg(long, value_name = "S")]
    pub seq: Option<Size>,
    /// Cached tokens per sequence [default: 4096, or what the position table leaves in decode, else 0].
    #[arg(long, value_name = "T")]
    pub context: Option<Size<0>>,
    /// Number format of the linear layers, or of what a recipe makes of them, such as nvfp4 or w4a16 [default: bf16, or fp16 on a GPU
    /// without units for it; when serving a quantized checkpoint, as that is stored].
    #[arg(long)]
    pub dtype: Option<Dtype>,
    /// How linear maps are quantized: fp8 tensorwise, rowwise, fp8_block, mxfp8 or nvfp4; served bf16 or fp16 to integers, too
    /// [default: tensorwise; when serving a quantized checkpoint, as that is stored].
    #[arg(long)]
    pub recipe: Option<Recipe>,
    /// Tensor-parallel ranks.
    #[arg(long, default_value_t, value_name = "T")]
    pub tp: Size,
    /// Context-parallel ranks, which share every sequence.
    #[arg(long, default_value_t, value_name = "C")]
    pub cp: Size,
    /// Expert-parallel ranks, which hold different routed experts.
    #[arg(long, default_value_t, value_name = "E")]
    pub ep: Size,
    /// Tensor-parallel ranks of one routed expert; 0 means tp [default: 0].
    #[arg(long, value_name = "T")]
    pub expert_tp: Option<Size<0>>,
    /// Pipeline stages.
    #[arg(long, default_value_t, value_name = "P")]
    pub pp: Size,
    /// Virtual pipeline stages a GPU, which interleave.
    #[arg(long, default_value_t, value_name = "V")]
    pub vp: Size,
    /// Data-parallel replicas.
    #[arg(long, default_value_t, value_name = "R")]
    pub dp: Size,
    /// ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    #[arg(long, default_value_t, value_name = "STAGE")]
    pub zero: ZeroStage,
    /// What the backward pass recomputes.
    #[arg(long, default_value_t)]
    pub recompute: Recompute,
    /// Layers of a stage that recompute; 0 means all [default: 0].
    #[arg(long, value_name = "L")]
    pub recompute_layers: Option<Size<0>>,
    /// Fused or unfused attention.
    #[arg(long, default_value_t)]
    pub attention: AttentionKernel,
    /// Shard norms and residual adds over the tensor-parallel ranks too.
    #[arg(long)]
    pub sequence_parallel: bool,
    /// Micro-batches per step: they fill the pipeline and accumulate gradients.
    #[arg(long, default_value_t, value_name = "N")]
    pub microbatches: Size,
    /// What training keeps in host memory: optimizer states, with Adam on the CPU, activations, or both.
    #[arg(long, default_value_t)]
    pub offload: Offload,
    /// Number format of what Adam keeps: fp32 moments and master weights, or bf16 moments alone.
    #[arg(long, default_value_t)]
    pub optimizer_states: OptimizerStates,
    /// What updates the weights.
    #[arg(long, default_value_t)]
    pub optimizer: Optimizer,
    /// Update each weight as soon as its gradient is computed, which is freed then (LOMO, torchtune's `optimizer_in_bwd`).
    #[arg(long)]
    pub optimizer_in_backward: bool,
    /// Number format of accumulated gradients; `auto` is that of the framework, fp32 in Megatron.
    #[arg(long, default_value_t)]
    pub gradient_dtype: GradientDtype,
    /// How the loss is computed; `auto` is as the framework does. It changes memory, not time.
    #[arg(long, default_value_t)]
    pub loss: Loss,
    /// Train as `torch.autocast` does: fp32 weights, which are cast where 16-bit linear maps use them.
    #[arg(long)]
    pub autocast: bool,
    /// Number format of cached keys and values; `auto` is that of the checkpoint, else of the activations.
    #[arg(long, default_value_t)]
    pub kv_cache_dtype: KvCacheDtype,
    /// Draft tokens of a sequence that one decoding step verifies: `num_speculative_tokens`, or the steps of EAGLE; 0 for none [default: 0].
    #[arg(long, value_name = "K")]
    pub speculate: Option<Size<0>>,
    /// What drafts tokens: an MTP layer of the model, a dense layer of EAGLE, or matches in the text, which take no time of the GPU
    /// [default: mtp of models with experts or such a layer, else eagle].
    #[arg(long)]
    pub draft: Option<Draft>,
    /// Share of draft tokens that is kept, to a thousandth, each given those before it [default: 0.8 of MTP layers, 0.62 of EAGLE].
    #[arg(long, value_name = "SHARE")]
    pub acceptance: Option<Acceptance>,
    /// How unevenly the router spreads tokens over the experts of a server; `even` where busy experts are replicated (EPLB).
    #[arg(long, default_value_t)]
    pub router_load: RouterLoad,
    /// Rank of LoRA adapters, which are trained in place of the weights; 0 for none [default: 0].
    #[arg(long, value_name = "RANK")]
    pub lora: Option<Size<0>>,
    /// Linear maps with adapters: all-linear, attention, mlp, or a list such as q,v (PEFT's `target_modules`).
    #[arg(long, default_value_t, value_name = "MAPS")]
    pub lora_targets: Targets,
    /// Number format of the frozen weights below adapters (QLoRA): nf4 and int8 as bitsandbytes, int4 as GPTQ and AWQ store them.
    #[arg(long, default_value_t)]
    pub base_dtype: BaseDtype,
}

impl WorkloadRequest {
    /// The workload on this architecture, whether or not it can run.
    pub fn described(&self, architecture: &Architecture, sizes: &mut Sizes) -> Result<Workload> {
        let batch = sizes.option("batch", self.batch);
        let seq = sizes.option("seq", self.seq);
        let context = sizes.option("context", self.context);
        let expert_tp = sizes.option("expert_tp", self.expert_tp);
        let recompute_layers = sizes.option("recompute_layers", self.recompute_layers);
        let lora = sizes.option("lora", self.lora);
        let speculate = sizes.option("speculate", self.speculate);
        let [tp, cp, ep, pp, vp, dp, microbatches] = [
            ("tp", self.tp),
            ("cp", self.cp),
            ("ep", self.ep),
            ("pp", self.pp),
            ("vp", self.vp),
            ("dp", self.dp),
            ("microbatches", self.microbatches),
        ]
        .map(|(key, size)| sizes.number(key, size));
        let decode = self.mode == Mode::Decode;
        if decode
            && let (Some(seq), Some(context)) = (seq, context)
            && seq != 1
            && seq != context
        {
            let allowed = format!("what context says, {context}, or nothing: in decode both are the cached tokens");
            return Err(Error::field("decode", "seq", seq, &allowed));
        }
        let room = architecture.positions.longest();
        // A decoding step makes one new token, so there `seq` can only mean what is cached.
        let cached = context.or(seq.filter(|_| decode));
        let new = 1 + speculate.unwrap_or(0);
        let context = cached.unwrap_or(match decode {
            true => USUAL_SEQUENCE.min(room.saturating_sub(new)),
            false => 0,
        });
        let (usual_batch, usual_seq) = match self.mode {
            Mode::Train => (4, USUAL_SEQUENCE),
            Mode::Prefill => (1, USUAL_SEQUENCE),
            Mode::Decode => (8, 1),
        };
        let (dtype, recipe) = format(self.mode, architecture, self.dtype, self.recipe, sizes);
        let workload = Workload {
            mode: self.mode,
            batch: batch.unwrap_or(usual_batch),
            seq: seq
                .filter(|_| !decode)
                .unwrap_or(usual_seq.min(room.saturating_sub(context)).max(1)),
            context,
            dtype,
            recipe,
            tp,
            cp,
            ep,
            expert_tp: expert_tp.unwrap_or(0),
            pp,
            vp,
            dp,
            zero: self.zero.0,
            recompute: self.recompute,
            recompute_layers: recompute_layers.unwrap_or(0),
            attention: self.attention,
            sequence_parallel: self.sequence_parallel,
            microbatches,
            offload: self.offload,
            optimizer_states: self.optimizer_states,
            optimizer: self.optimizer,
            optimizer_in_backward: self.optimizer_in_backward,
            gradient_dtype: self.gradient_dtype,
            loss: self.loss,
            autocast: self.autocast,
            kv_cache_dtype: self.kv_cache_dtype,
            router_load: self.router_load,
            lora: lora.unwrap_or(0),
            lora_targets: self.lora_targets,
            base_dtype: architecture.base_dtype(lora, self.base_dtype),
            ..Workload::train(1, 1)
        };
        workload.speculating(architecture, speculate, self.draft, self.acceptance)
    }

    /// Whether this key belongs to the workload; error messages use it to name the place.
    pub fn has(key: &str) -> bool {
        static SCHEMA: LazyLock<RefOr<Schema>> = LazyLock::new(WorkloadRequest::schema);
        matches!(&*SCHEMA, RefOr::T(Schema::Object(object)) if object.properties.contains_key(key))
    }
}

/// Number format and recipe that were asked for; when serving, where neither was, those of the checkpoint.
pub(super) fn format(
    mode: Mode,
    architecture: &Architecture,
    dtype: Option<Dtype>,
    recipe: Option<Recipe>,
    sizes: &Sizes,
) -> (Dtype, Recipe) {
    match architecture.stated.stored() {
        Some(stored) if mode != Mode::Train && dtype.is_none() && recipe.is_none() => stored.format(None),
        _ => {
            let is_of_fp8 = |recipe: &Recipe| recipe.is_of_fp8() || *recipe == Recipe::Tensorwise;
            let dtype = sizes.dtype(dtype.or(recipe.filter(is_of_fp8).map(|_| Dtype::Fp8)));
            let meant = Recipe::of_format(dtype, sizes.dtype(None));
            match recipe {
                Some(recipe) if recipe != meant.1 => (dtype, recipe),
                _ => meant,
            }
        }
    }
}
