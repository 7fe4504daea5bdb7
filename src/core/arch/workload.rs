//! What is run on an architecture, and over how many GPUs.

use super::layer::StageLayers;
use super::{Acceptance, Architecture, BaseDtype, Dimension, Draft, Optimizer, Positions, Targets};
use crate::error::{Error, Result};
use crate::ops::{Dtype, RouterLoad};
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

named_enum! {
    /// What one step does.
    #[derive(Default)]
    Mode {
        /// Forward, backward and optimizer step.
        #[default]
        Train = "train",
        /// Forward over a prompt; logits of the last position only, as serving engines do.
        Prefill = "prefill",
        /// One new token per sequence against a key/value cache.
        Decode = "decode",
    }
}

named_enum! {
    /// Which activations the backward pass recomputes (Korthikanti et al., arXiv 2205.05198).
    #[derive(Default)]
    Recompute {
        /// Everything is kept.
        #[default]
        None = "none",
        /// The attention core runs again; with flash attention this saves nothing that flash has not saved.
        Selective = "selective",
        /// Norms and activation functions run again, linear maps do not (Megatron-LM, `--recompute-modules layernorm
        /// moe_act`).
        Pointwise = "pointwise",
        /// The up projections of latent attention run again (Megatron-LM, `--recompute-modules mla_up_proj`).
        LatentUp = "latent-up",
        /// The MLP runs again up to its down projection, and all norms; attention is kept (Megatron-LM,
        /// `--recompute-modules layernorm mlp moe`; MaxText, `save_dot_except_mlp`).
        Mlp = "mlp",
        /// Every second linear map runs again, and all pointwise kernels; attention is kept (torchtitan's selective
        /// activation checkpointing per operator).
        Operators = "operators",
        /// Only layer inputs are kept and each layer runs forward again.
        Full = "full",
    }
}

named_enum! {
    /// How the operands of linear maps are scaled and quantized.
    ///
    /// The first five are recipes of fp8; the next three quantize a model of 16 bits that is served, the last leaves out weights of
    /// one in 16 bits or fp8.
    #[derive(Default)]
    Recipe {
        /// One scale a tensor.
        #[default]
        Tensorwise = "tensorwise",
        /// One scale a row, computed on the fly.
        Rowwise = "rowwise",
        /// One scale a block of 32 elements in 8 bits (OCP Microscaling Formats, 1.0).
        Mxfp8 = "mxfp8",
        /// One 32-bit scale a block of 128 inputs and of 128 by 128 weights (DeepSeek-V3).
        Fp8Block = "fp8_block" or "blockwise",
        /// 4-bit elements, one 8-bit scale a block of 16 (NVIDIA NVFP4).
        Nvfp4 = "nvfp4",
        /// Weights and inputs in 8-bit integers (SmoothQuant).
        Int8 = "int8" or "w8a8",
        /// Weights in 8-bit integers, inputs in 16 bits.
        W8a16 = "w8a16",
        /// Weights in 4-bit integers, inputs in 16 bits (GPTQ, AWQ).
        W4a16 = "w4a16",
        /// Two of four neighbouring weights are zero and not stored, inputs in 16 bits or fp8 (arXiv 2104.08378).
        Sparse = "sparse_2_4",
    }
}

impl Recipe {
    /// The format of inputs and the recipe of GEMMs in a format; 16-bit inputs of one that is of GEMMs alone are `wide`.
    pub const fn of_format(dtype: Dtype, wide: Dtype) -> (Dtype, Self) {
        match dtype {
            Dtype::Fp8Block => (Dtype::Fp8, Self::Fp8Block),
            Dtype::Nvfp4 => (Dtype::Fp8, Self::Nvfp4),
            Dtype::SparseFp8 => (Dtype::Fp8, Self::Sparse),
            Dtype::SparseBf16 => (Dtype::Bf16, Self::Sparse),
            Dtype::Int8 => (wide, Self::Int8),
            Dtype::W8a16 => (wide, Self::W8a16),
            Dtype::W4a16 => (wide, Self::W4a16),
            element => (element, Self::Tensorwise),
        }
    }

    /// Whether it is a recipe of fp8 alone.
    pub const fn is_of_fp8(self) -> bool {
        matches!(self, Self::Rowwise | Self::Mxfp8 | Self::Fp8Block | Self::Nvfp4)
    }

    /// Whether it quantizes to integers what is served in 16 bits.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::Int8 | Self::W8a16 | Self::W4a16)
    }
}

named_enum! {
    /// How attention is executed.
    #[derive(Default)]
    AttentionKernel {
        /// One fused kernel; training without dropout, as models are pre-trained today.
        #[default]
        Flash = "flash",
        /// Score GEMM, mask, softmax, dropout, value GEMM; training with dropout on scores and residuals.
        Unfused = "unfused",
    }
}

named_enum! {
    /// What training keeps in the memory of the host instead of that of the GPU.
    #[derive(Default)]
    Offload {
        /// Nothing.
        #[default]
        None = "none",
        /// fp32 weights and moments; Adam runs on the CPU (ZeRO-Offload, arXiv 2101.06840).
        Optimizer = "optimizer",
        /// What the forward pass keeps for the backward pass.
        Activations = "activations",
        /// Both.
        All = "all",
    }
}

named_enum! {
    /// The number format of what Adam keeps besides the weights that are multiplied.
    #[derive(Default)]
    OptimizerStates {
        /// Two fp32 moments, and beside 16-bit weights an fp32 master copy of them.
        #[default]
        Fp32 = "fp32",
        /// Two bf16 moments: 16-bit weights are updated as they are.
        Bf16 = "bf16",
    }
}

named_enum! {
    /// The number format in which training accumulates and reduces gradients.
    #[derive(Default)]
    GradientDtype {
        /// As the framework does.
        #[default]
        Auto = "auto",
        /// Four bytes, whatever the weights have.
        Fp32 = "fp32" or "float32" or "float",
        /// The 16 bits of the weights, bf16 or fp16.
        Bf16 = "bf16" or "bfloat16" or "fp16",
    }
}

named_enum! {
    /// How the loss is computed, which says how many bytes each logit takes at once.
    #[derive(Default)]
    Loss {
        /// As the framework does.
        #[default]
        Auto = "auto",
        /// A kernel for each operation: logits, their fp32 copy and the gradients of both live together.
        Eager = "eager" or "plain",
        /// `torch.compile` over the loss: some of these are never stored.
        Compiled = "compiled" or "compile",
        /// One kernel that overwrites an fp32 copy with its gradient (Triton, Transformer Engine, Megatron).
        Triton = "triton" or "kernel" or "te",
        /// The output layer and the loss a few tokens at a time.
        Chunked = "chunked" or "chunk",
        /// The output layer and the loss in one kernel, no logits stored (Liger-Kernel, Cut Cross-Entropy).
        Fused = "fused" or "liger" or "cce" or "linear",
    }
}

named_enum! {
    /// The number format in which a server keeps keys and values.
    #[derive(Default)]
    KvCacheDtype {
        /// As the checkpoint says (modelopt's `kv_cache_quant_algo`, `kv_cache_scheme` of compressed-tensors), else that of the
        /// activations.
        #[default]
        Auto = "auto",
        /// That of the activations, whatever the checkpoint says.
        Bf16 = "bf16",
        /// One byte an element; a decoding step attends in it, a prompt to its own tokens as it computed them.
        Fp8 = "fp8",
    }
}

impl Offload {
    /// Whether optimizer states are on the host.
    pub const fn optimizer(self) -> bool {
        matches!(self, Self::Optimizer | Self::All)
    }

    /// Whether activations are.
    pub const fn activations(self) -> bool {
        matches!(self, Self::Activations | Self::All)
    }
}

/// One step of one model replica and how it is spread over GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct Workload {
    /// Train, prefill or decode.
    pub mode: Mode,
    /// Sequences per micro-batch and replica.
    pub batch: u64,
    /// New tokens per sequence; in decode 1, and one more for each that was drafted.
    pub seq: u64,
    /// Tokens per sequence that are already cached; 0 in training.
    pub context: u64,
    /// Operand format of the linear maps. With `fp8` everything else (attention, head, router,
    /// memory-bound kernels, cache unless `kv_cache_dtype` says otherwise) stays bf16.
    pub dtype: Dtype,
    /// How linear maps are quantized beyond `dtype`; `tensorwise` adds nothing.
    pub recipe: Recipe,
    /// Tensor-parallel ranks.
    pub tp: u64,
    /// Context-parallel ranks: each holds an equal share of every sequence.
    pub cp: u64,
    /// Expert-parallel ranks: each holds an equal share of the routed experts.
    pub ep: u64,
    /// Tensor-parallel ranks of one routed expert; 0 means `tp`.
    pub expert_tp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// Virtual pipeline stages a GPU (interleaved 1F1B, arXiv 2104.04473).
    pub vp: u64,
    /// Data-parallel replicas.
    pub dp: u64,
    /// ZeRO stage: 1 shards optimizer states over the replicas, 2 also gradients, 3 also weights.
    pub zero: u8,
    /// What the backward pass recomputes.
    pub recompute: Recompute,
    /// Layers of a stage that recompute; 0 means all.
    pub recompute_layers: u64,
    /// Fused or unfused attention.
    pub attention: AttentionKernel,
    /// Shards norms and residual adds over the tensor-parallel ranks too.
    pub sequence_parallel: bool,
    /// Micro-batches per step: they fill the pipeline and accumulate gradients.
    pub microbatches: u64,
    /// What is kept in host memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offload: Offload,
    /// Format of the optimizer's states.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optimizer_states: OptimizerStates,
    /// What updates the weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optimizer: Optimizer,
    /// Whether each gradient updates its weights as soon as it is computed, and is freed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optimizer_in_backward: bool,
    /// Format of accumulated gradients.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gradient_dtype: GradientDtype,
    /// How the loss is computed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loss: Loss,
    /// Whether training keeps weights in fp32 and casts them, and what comes from a norm, where 16-bit linear maps use them
    /// (`torch.autocast`). The residual stream, its norms and all gradients of weights are fp32 too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub autocast: bool,
    /// Format of cached keys and values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv_cache_dtype: KvCacheDtype,
    /// Tokens of a sequence that are drafted and that one decoding step verifies.
    #[serde(default, skip_serializing_if = "is_default")]
    pub speculate: u64,
    /// What drafts them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub draft: Draft,
    /// The share of drafted tokens that is kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub acceptance: Acceptance,
    /// How unevenly the router of a server spreads the tokens over the experts: published runs of servers are nearer to a power
    /// law than to an even load (docs/method/kernels.md), which balancers that replicate busy experts are near.
    #[serde(default, skip_serializing_if = "is_default")]
    pub router_load: RouterLoad,
    /// Rank of the adapters that are trained in place of the weights; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lora: u64,
    /// Linear maps with adapters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lora_targets: Targets,
    /// Format of the weights that adapters leave as they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub base_dtype: BaseDtype,
}

/// Whether an option has its default value.
pub(super) fn is_default<T: Default + PartialEq>(option: &T) -> bool {
    *option == T::default()
}

/// Bounds that keep every count below 2^64.
pub(super) const MAX_BATCH: u64 = 1 << 20;

/// Tokens of prompts that one iteration of a server takes: the default of TensorRT-LLM, of SGLang below 160 GB and of vLLM from
/// 70 GiB.
pub const ITERATION_TOKENS: u64 = 8192;
pub(super) const MAX_SEQUENCE: u64 = 1 << 26;
const MAX_TOKENS: u64 = 1 << 32;
pub(super) const MAX_RANKS: u64 = 1 << 20;

impl Workload {
    /// A training step of `batch` sequences of `seq` tokens on one GPU, bf16, flash attention.
    pub const fn train(batch: u64, seq: u64) -> Self {
        Self {
            mode: Mode::Train,
            batch,
            seq,
            context: 0,
            dtype: Dtype::Bf16,
            recipe: Recipe::Tensorwise,
            tp: 1,
            cp: 1,
            ep: 1,
            expert_tp: 0,
            pp: 1,
            vp: 1,
            dp: 1,
            zero: 0,
            recompute: Recompute::None,
            recompute_layers: 0,
            attention: AttentionKernel::Flash,
            sequence_parallel: false,
            microbatches: 1,
            offload: Offload::None,
            optimizer_states: OptimizerStates::Fp32,
            optimizer: Optimizer::AdamW,
            optimizer_in_backward: false,
            gradient_dtype: GradientDtype::Auto,
            loss: Loss::Auto,
            autocast: false,
            kv_cache_dtype: KvCacheDtype::Auto,
            speculate: 0,
            draft: Draft::Mtp,
            acceptance: Acceptance::ASSUMED,
            router_load: RouterLoad::PowerLaw101,
            lora: 0,
            lora_targets: Targets::ALL_LINEAR,
            base_dtype: BaseDtype::Auto,
        }
    }

    /// The prompt pass of `batch` sequences of `seq` tokens on one GPU.
    pub const fn prefill(batch: u64, seq: u64) -> Self {
        Self {
            mode: Mode::Prefill,
            ..Self::train(batch, seq)
        }
    }

    /// One new token for each of `batch` sequences with `context` cached tokens, on one GPU.
    pub const fn decode(batch: u64, context: u64) -> Self {
        Self {
            mode: Mode::Decode,
            context,
            ..Self::train(batch, 1)
        }
    }

    /// Tokens of one micro-batch of a replica.
    pub const fn tokens(&self) -> u64 {
        self.batch * self.seq
    }

    /// Tokens of one micro-batch on one context-parallel rank.
    pub const fn rank_tokens(&self) -> u64 {
        self.tokens() / self.cp
    }

    /// Positions that the head predicts on one rank: the last of each prompt, or all.
    pub(super) const fn head_rows(&self) -> u64 {
        match self.mode {
            Mode::Prefill => self.batch,
            Mode::Train | Mode::Decode => self.rank_tokens(),
        }
    }

    /// The last iteration of a server that does this work: prompts are cut into chunks.
    pub(super) fn iteration(&self) -> Self {
        if self.mode != Mode::Prefill || self.batch * self.seq <= ITERATION_TOKENS {
            return *self;
        }
        Self {
            batch: 1,
            seq: ITERATION_TOKENS,
            context: (self.context + self.seq).saturating_sub(ITERATION_TOKENS),
            ..*self
        }
    }

    /// Sequences of a step on one data-parallel rank, those of all micro-batches.
    pub const fn sequences(&self) -> u64 {
        self.batch * self.microbatches
    }

    /// GPUs that share one copy of the sequences: all but the data-parallel replicas.
    pub const fn gpus_per_replica(&self) -> u64 {
        self.tp * self.cp * self.pp
    }

    /// All GPUs.
    pub const fn gpus(&self) -> u64 {
        self.gpus_per_replica() * self.dp
    }

    /// Keys that the last query sees: cached and new tokens.
    pub const fn keys(&self) -> u64 {
        self.context + self.seq
    }

    /// Whether a backward pass follows.
    pub fn trains(&self) -> bool {
        self.mode == Mode::Train
    }

    /// Name of the number format, or of the recipe that says more than it.
    pub const fn format_name(&self) -> &'static str {
        match self.recipe {
            Recipe::Tensorwise => self.dtype.name(),
            recipe => recipe.name(),
        }
    }

    /// GPUs that share one routed expert.
    pub const fn expert_ranks(&self) -> u64 {
        if self.expert_tp == 0 { self.tp } else { self.expert_tp }
    }

    /// Format of the linear maps inside layers, as their GEMMs have it.
    pub const fn linear_dtype(&self) -> Dtype {
        match self.recipe {
            Recipe::Tensorwise | Recipe::Rowwise | Recipe::Mxfp8 => self.dtype,
            Recipe::Fp8Block => Dtype::Fp8Block,
            Recipe::Nvfp4 => Dtype::Nvfp4,
            Recipe::Int8 => Dtype::Int8,
            Recipe::W8a16 => Dtype::W8a16,
            Recipe::W4a16 => Dtype::W4a16,
            Recipe::Sparse => match self.dtype {
                Dtype::Fp8 => Dtype::SparseFp8,
                _ => Dtype::SparseBf16,
            },
        }
    }

    /// Every format that a GPU needs units for.
    pub const fn dtypes(&self) -> [Dtype; 2] {
        [self.dtype, self.linear_dtype()]
    }

    /// Format of activations and of every GEMM that stays out of fp8.
    pub fn activation_dtype(&self) -> Dtype {
        match self.dtype {
            Dtype::Fp8 => Dtype::Bf16,
            other => other,
        }
    }

    /// Format of weights, of the residual stream and of its norms.
    pub fn weight_dtype(&self) -> Dtype {
        match self.has_adapters() {
            true => self.activation_dtype(),
            false => self.trained_dtype(),
        }
    }

    /// Whether linear maps cast their weights and what they take (`torch.autocast`); adapters leave both in 16 bits.
    pub(super) fn casts_weights(&self) -> bool {
        self.weight_dtype() != self.activation_dtype()
    }

    /// Format of what is trained, and of its gradients.
    pub fn trained_dtype(&self) -> Dtype {
        match self.autocast {
            true => Dtype::Fp32,
            false => self.activation_dtype(),
        }
    }

    /// Format of cached keys and values.
    pub fn cache_dtype(&self) -> Dtype {
        match self.kv_cache_dtype {
            KvCacheDtype::Auto | KvCacheDtype::Bf16 => self.activation_dtype(),
            KvCacheDtype::Fp8 => Dtype::Fp8,
        }
    }

    /// Rows of the residual stream that one rank normalises and adds.
    pub(super) fn residual_rows(&self) -> u64 {
        if self.sequence_parallel {
            self.rank_tokens() / self.tp
        } else {
            self.rank_tokens()
        }
    }

    /// Checks that this workload can run on this architecture.
    pub fn validate(&self, arch: &Architecture) -> Result<()> {
        for dimension in Dimension::of_workload() {
            let [least, mut most] = dimension.limits();
            if *dimension == Dimension::Pp {
                most = arch.layers;
            }
            let value = dimension.get(arch, self);
            if value < least || value > most {
                return fail(dimension.field(), value, &format!("{least} to {most}"));
            }
        }
        if self.batch * self.keys() > MAX_TOKENS {
            let allowed = format!("at most {MAX_TOKENS} tokens in all");
            return fail("batch", self.batch, &allowed);
        }
        if let Positions::Learned { max, .. } = arch.positions
            && self.keys() > max
        {
            let (field, value, beside) = match self.mode {
                Mode::Decode => ("context", self.context, "the new tokens"),
                Mode::Train | Mode::Prefill => ("seq", self.seq, "the context"),
            };
            let allowed = format!("at most {max} with {beside}, the rows of the position table");
            return fail(field, value, &allowed);
        }
        self.validate_speculation()?;
        self.validate_mode(arch)?;
        arch.parts().try_for_each(|part| self.validate_ranks(&part))
    }

    /// Fails where an option has no meaning in this mode.
    pub fn validate_mode(&self, arch: &Architecture) -> Result<()> {
        match self.mode {
            Mode::Train if self.context > 0 => fail("context", self.context, "0 in training"),
            Mode::Train if !is_default(&self.kv_cache_dtype) => {
                fail("kv_cache_dtype", self.kv_cache_dtype, "`auto` in training")
            }
            Mode::Train if !is_default(&self.router_load) => fail(
                "router_load",
                self.router_load,
                "`power_law_1.01` in training, where all experts get as many tokens",
            ),
            _ if !is_default(&self.router_load) && arch.moe.is_none() => {
                fail("router_load", self.router_load, "`power_law_1.01` without experts")
            }
            Mode::Decode if self.seq != 1 + self.speculate => {
                let allowed = "1 in decode beside speculate, the draft tokens; the cached tokens are `context`";
                fail("seq", self.seq, allowed)
            }
            Mode::Prefill | Mode::Decode if self.recompute != Recompute::None => {
                fail("recompute", self.recompute, "`none` outside training")
            }
            Mode::Prefill | Mode::Decode if self.zero > 0 => fail("zero", self.zero, "0 outside training"),
            Mode::Prefill | Mode::Decode if !is_default(&self.offload) => {
                fail("offload", self.offload, "`none` outside training")
            }
            Mode::Prefill | Mode::Decode if !is_default(&self.optimizer_states) => {
                fail("optimizer_states", self.optimizer_states, "`fp32` outside training")
            }
            _ if !is_default(&self.optimizer_states) && self.activation_dtype().size() != 2 => fail(
                "optimizer_states",
                self.optimizer_states,
                "`fp32` where weights have four bytes",
            ),
            Mode::Prefill | Mode::Decode if !is_default(&self.optimizer) => {
                fail("optimizer", self.optimizer, "`adamw` outside training")
            }
            Mode::Prefill | Mode::Decode if !is_default(&self.gradient_dtype) => {
                fail("gradient_dtype", self.gradient_dtype, "`auto` outside training")
            }
            Mode::Prefill | Mode::Decode if !is_default(&self.loss) => {
                fail("loss", self.loss, "`auto` outside training")
            }
            Mode::Prefill | Mode::Decode if self.optimizer_in_backward => {
                fail("optimizer_in_backward", true, "false outside training")
            }
            _ if self.optimizer_in_backward && (self.microbatches > 1 || self.offload.optimizer()) => {
                let allowed = "false where gradients accumulate over micro-batches or go to the host";
                fail("optimizer_in_backward", true, allowed)
            }
            _ if self.gradient_dtype == GradientDtype::Bf16 && self.trained_dtype().size() != 2 => fail(
                "gradient_dtype",
                self.gradient_dtype,
                "`auto` or `fp32` where weights have four bytes",
            ),
            _ if !is_default(&self.optimizer_states) && !self.optimizer.has_moments() => fail(
                "optimizer_states",
                self.optimizer_states,
                &format!(
                    "`fp32` with {}, whose states have a format of their own",
                    self.optimizer
                ),
            ),
            Mode::Prefill | Mode::Decode if self.autocast => fail("autocast", true, "false outside training"),
            _ if self.autocast && !matches!(self.linear_dtype(), Dtype::Bf16 | Dtype::Fp16) => {
                fail("autocast", true, "false unless dtype is bf16 or fp16 without a recipe")
            }
            _ if self.autocast && !is_default(&self.optimizer_states) => fail(
                "optimizer_states",
                self.optimizer_states,
                "`fp32` under autocast, which keeps fp32 weights",
            ),
            Mode::Prefill | Mode::Decode if self.lora > 0 => fail(
                "lora",
                self.lora,
                "0 outside training: a server's adapters are not timed",
            ),
            _ if self.lora > arch.hidden => {
                let allowed = format!("at most {}, the width of the model", arch.hidden);
                fail("lora", self.lora, &allowed)
            }
            _ if self.lora == 0 && !is_default(&self.lora_targets) => fail(
                "lora_targets",
                self.lora_targets,
                "`all-linear` without lora, the rank of adapters",
            ),
            _ if self.lora == 0 && !is_default(&self.base_dtype) => fail(
                "base_dtype",
                self.base_dtype,
                "`auto` without lora: a step that trains all weights keeps them in dtype",
            ),
            _ if self.lora > 0 && !matches!(self.linear_dtype(), Dtype::Bf16 | Dtype::Fp16) => fail(
                "lora",
                self.lora,
                "0 unless dtype is bf16 or fp16 without a recipe; base_dtype says how weights are stored",
            ),
            _ if self.lora > 0 && self.adapter_parameters(arch) == Some(0) => {
                fail("lora_targets", self.lora_targets, "linear maps that this model has")
            }
            Mode::Decode if self.cp > 1 => fail("cp", self.cp, "1 in decode"),
            _ if self.cp > 1 && arch.index.is_some() => fail("cp", self.cp, "1 where an index chooses keys"),
            _ if arch.index.is_some() && self.attention == AttentionKernel::Unfused => {
                fail("attention", self.attention, "`flash` where an index chooses keys")
            }
            Mode::Prefill | Mode::Decode if self.vp > 1 => fail("vp", self.vp, "1 outside training"),
            _ if self.recompute == Recompute::LatentUp && arch.mla.is_none() => {
                fail("recompute", self.recompute, "any other without latent attention")
            }
            _ if !self.dtype.is_element() => {
                let (dtype, recipe) = Recipe::of_format(self.dtype, Dtype::Bf16);
                let allowed = format!("{dtype} with recipe {recipe} (`--dtype {dtype} --recipe {recipe}`)");
                fail("dtype", self.dtype, &allowed)
            }
            Mode::Train if self.recipe == Recipe::Sparse => {
                fail("recipe", self.recipe, "any of dense weights in training")
            }
            _ if self.recipe == Recipe::Sparse && !matches!(self.dtype, Dtype::Fp8 | Dtype::Bf16 | Dtype::Fp16) => {
                let allowed = "one of dense weights unless dtype is fp8, bf16 or fp16";
                fail("recipe", self.recipe, allowed)
            }
            Mode::Train if self.recipe.is_integer() => {
                let allowed = "any of floating point in training: integers are served (`mode` decode or prefill), or frozen below adapters (`lora` with `base_dtype`)";
                fail("recipe", self.recipe, allowed)
            }
            _ if self.recipe.is_integer() && !matches!(self.dtype, Dtype::Bf16 | Dtype::Fp16) => {
                let allowed = format!("with dtype bf16 or fp16 (`--dtype bf16 --recipe {}`)", self.recipe);
                fail("recipe", self.recipe, &allowed)
            }
            _ if self.recipe.is_of_fp8() && self.dtype != Dtype::Fp8 => {
                let allowed = format!("with dtype fp8 alone (`--dtype fp8 --recipe {}`)", self.recipe);
                fail("recipe", self.recipe, &allowed)
            }
            _ => Ok(()),
        }
    }

    /// Refuses what would change nothing, where a person has asked for it.
    pub fn require_effect(&self, arch: &Architecture) -> Result<()> {
        let stage = StageLayers::of(arch, self).layers;
        match self {
            Self { vp: 2.., pp: 1, .. } => fail("vp", self.vp, "1 without a pipeline, pp 1"),
            Self { expert_tp: 1.., .. } if arch.moe.is_none() => fail("expert_tp", self.expert_tp, "0 without experts"),
            Self {
                sequence_parallel: true,
                tp: 1,
                ..
            } => fail("sequence_parallel", true, "false with tp 1"),
            Self {
                recompute_layers: 1..,
                recompute: Recompute::None,
                ..
            } => fail("recompute_layers", self.recompute_layers, "0 with recompute `none`"),
            _ if self.recompute_layers > stage => {
                let allowed = format!("at most {stage}, the layers of a stage");
                fail("recompute_layers", self.recompute_layers, &allowed)
            }
            _ => Ok(()),
        }
    }

    fn validate_ranks(&self, arch: &Architecture) -> Result<()> {
        let tp = self.tp;
        let moe = arch.moe;
        for (field, ranks, name, width) in [
            ("tp", tp, "heads", arch.heads),
            ("tp", tp, "linear.heads", arch.linear.map_or(0, |linear| linear.heads)),
            ("tp", tp, "mlp.d_ff", arch.mlp.d_ff),
            (
                if self.expert_tp == 0 { "tp" } else { "expert_tp" },
                self.expert_ranks(),
                "moe.d_ff",
                moe.map_or(0, |moe| moe.d_ff),
            ),
            ("tp", tp, "moe.shared_d_ff", moe.map_or(0, |moe| moe.shared_d_ff)),
            ("ep", self.ep, "moe.experts", moe.map_or(0, |moe| moe.experts)),
            ("cp", self.cp, "seq", self.seq),
        ] {
            if !width.is_multiple_of(ranks) {
                return fail(field, ranks, &format!("a divisor of {name} = {width}"));
            }
        }
        if moe.is_none() && self.ep > 1 {
            return fail("ep", self.ep, "1 without experts");
        }
        let (sharing, experts) = (self.tp * self.cp * self.dp, self.expert_ranks() * self.ep);
        if moe.is_some() && !sharing.is_multiple_of(experts) {
            let allowed = format!(
                "a divisor of tp x cp x dp / expert_tp = {sharing} / {}; `expert_tp` 1 keeps experts whole",
                self.expert_ranks()
            );
            return fail("ep", self.ep, &allowed);
        }
        let key_heads = arch.linear.map_or(1, |linear| linear.key_heads);
        for (name, heads) in [("kv_heads", arch.kv_heads), ("linear.key_heads", key_heads)] {
            if !heads.is_multiple_of(tp) && !tp.is_multiple_of(heads) {
                let allowed = format!("a divisor or a multiple of {name} = {heads}");
                return fail("tp", tp, &allowed);
            }
        }
        if arch.linear.is_some() && self.cp > 1 {
            return fail("cp", self.cp, "1 with linear attention");
        }
        if self.sequence_parallel && !self.rank_tokens().is_multiple_of(tp) {
            let allowed = format!(
                "a divisor of batch x seq / cp = {} with sequence parallelism",
                self.rank_tokens()
            );
            return fail("tp", tp, &allowed);
        }
        Ok(())
    }
}

/// `train: batch 4, seq 2048, bf16, flash attention`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: batch {}, seq {}", self.mode, self.batch, self.seq)?;
        if self.context > 0 {
            write!(f, ", context {}", self.context)?;
        }
        write!(f, ", {}", self.dtype)?;
        if self.recipe != Recipe::Tensorwise {
            write!(f, " ({})", self.recipe)?;
        }
        for (name, value) in [
            ("tp", self.tp),
            ("cp", self.cp),
            ("ep", self.ep),
            ("expert tp", self.expert_tp),
            ("pp", self.pp),
            ("vp", self.vp),
            ("dp", self.dp),
            ("micro-batches", self.microbatches),
        ] {
            if value > 1 {
                write!(f, ", {name} {value}")?;
            }
        }
        if self.zero > 0 {
            write!(f, ", ZeRO {}", self.zero)?;
        }
        if self.recompute != Recompute::None {
            write!(f, ", {} recompute", self.recompute)?;
            if self.recompute_layers > 0 {
                write!(f, " of {} layers a stage", self.recompute_layers)?;
            }
        }
        if self.sequence_parallel {
            write!(f, ", sequence parallel")?;
        }
        if !is_default(&self.offload) {
            write!(f, ", offload {}", self.offload)?;
        }
        if !is_default(&self.optimizer_states) {
            write!(f, ", {} optimizer states", self.optimizer_states)?;
        }
        if !is_default(&self.optimizer) {
            write!(f, ", {}", self.optimizer)?;
        }
        if self.optimizer_in_backward {
            write!(f, ", optimizer in backward")?;
        }
        if !is_default(&self.gradient_dtype) {
            write!(f, ", {} gradients", self.gradient_dtype)?;
        }
        if !is_default(&self.loss) {
            write!(f, ", {} loss", self.loss)?;
        }
        if self.autocast {
            write!(f, ", autocast")?;
        }
        if !is_default(&self.kv_cache_dtype) {
            write!(f, ", {} KV cache", self.kv_cache_dtype)?;
        }
        if let Some(drafts) = self.drafts_text() {
            write!(f, ", {drafts}")?;
        }
        if !is_default(&self.router_load) {
            write!(f, ", {} router load", self.router_load)?;
        }
        if let Some(adapters) = self.adapters_text() {
            write!(f, ", {adapters}")?;
        }
        write!(f, ", {} attention", self.attention)
    }
}

pub(super) fn fail<T>(field: &str, value: impl fmt::Display, allowed: &str) -> Result<T> {
    Err(Error::field("workload", field, value, allowed))
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn impossible_workloads_are_refused_by_field() {
        let train = Workload::train(1, 1024);
        for (name, work, part) in [
            ("gpt2", Workload::train(1, 1025), "`seq` is 1025"),
            ("gpt2", Workload::decode(1, 1024), "position table"),
            ("gpt2", Workload { tp: 5, ..train }, "a divisor of heads = 12"),
            (
                "llama-3-8b",
                Workload { batch: 0, ..train },
                "`batch` is 0; allowed: 1 to",
            ),
            (
                "llama-3-8b",
                Workload { pp: 33, ..train },
                "`pp` is 33; allowed: 1 to 32",
            ),
            (
                "llama-3-8b",
                Workload { zero: 4, ..train },
                "`zero` is 4; allowed: 0 to 3",
            ),
            (
                "llama-3-8b",
                Workload {
                    seq: 2,
                    ..Workload::decode(1, 10)
                },
                "1 in decode",
            ),
            (
                "llama-3-8b",
                Workload {
                    recompute: Recompute::Full,
                    ..Workload::prefill(1, 10)
                },
                "`recompute` is full",
            ),
            (
                "llama-3-8b",
                Workload {
                    tp: 8,
                    sequence_parallel: true,
                    seq: 1001,
                    ..train
                },
                "sequence parallelism",
            ),
            (
                "llama-3-8b",
                Workload {
                    batch: 1 << 20,
                    seq: 1 << 20,
                    ..train
                },
                "tokens in all",
            ),
            (
                "llama-3-8b",
                Workload {
                    dtype: Dtype::W4a16,
                    ..Workload::decode(1, 10)
                },
                "`dtype` is w4a16; allowed: bf16 with recipe w4a16 (`--dtype bf16 --recipe w4a16`)",
            ),
            (
                "llama-3-8b",
                Workload {
                    recipe: Recipe::W4a16,
                    ..train
                },
                "`recipe` is w4a16; allowed: any of floating point in training",
            ),
            (
                "llama-3-8b",
                Workload {
                    dtype: Dtype::Fp8,
                    recipe: Recipe::Int8,
                    ..Workload::decode(1, 10)
                },
                "`recipe` is int8; allowed: with dtype bf16 or fp16",
            ),
            (
                "llama-3-8b",
                Workload {
                    recipe: Recipe::Nvfp4,
                    ..train
                },
                "`recipe` is nvfp4; allowed: with dtype fp8 alone (`--dtype fp8 --recipe nvfp4`)",
            ),
            (
                "llama-3-8b",
                Workload {
                    recipe: Recipe::Sparse,
                    ..train
                },
                "any of dense weights in training",
            ),
            (
                "llama-3-8b",
                Workload {
                    autocast: true,
                    ..Workload::prefill(1, 10)
                },
                "`autocast` is true; allowed: false outside training",
            ),
            (
                "llama-3-8b",
                Workload {
                    autocast: true,
                    dtype: Dtype::Fp8,
                    ..train
                },
                "`autocast` is true; allowed: false unless dtype is bf16 or fp16",
            ),
            (
                "llama-3-8b",
                Workload {
                    autocast: true,
                    optimizer_states: OptimizerStates::Bf16,
                    ..train
                },
                "`optimizer_states` is bf16; allowed: `fp32` under autocast",
            ),
            (
                "llama-3-8b",
                Workload {
                    dtype: Dtype::SparseFp8,
                    ..Workload::decode(1, 10)
                },
                "`dtype` is sparse_fp8; allowed: fp8 with recipe sparse_2_4",
            ),
            (
                "deepseek-v3.2",
                Workload {
                    attention: AttentionKernel::Unfused,
                    ..Workload::decode(1, 10)
                },
                "`attention` is unfused; allowed: `flash` where an index chooses keys",
            ),
        ] {
            let arch = &Preset::find(name).unwrap().architecture;
            let message = work.validate(arch).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn fewer_key_heads_than_ranks_are_replicated() {
        let arch = &Preset::find("llama-3-8b").unwrap().architecture;
        let work = Workload {
            tp: 16,
            ..Workload::prefill(1, 128)
        };
        work.validate(arch).unwrap();
    }

    #[test]
    fn names_round_trip() {
        assert!(Mode::ALL.iter().all(|&m| Mode::parse(m.name()) == Some(m)));
        assert_eq!(Recompute::parse("full"), Some(Recompute::Full));
        assert_eq!(AttentionKernel::parse("paged"), None);
    }
}
