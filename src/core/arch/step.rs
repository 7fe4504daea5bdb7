//! The result of lowering: what one GPU runs for one step.

use crate::arch::Mode;
use crate::ops::Op;
use crate::units::Flops;

named_enum! {
    /// What an operator is for.
    Role {
        /// Token embedding lookup.
        Embedding = "embedding",
        /// Zeros of the embedding's gradient, to which the rows of the tokens are added.
        EmbeddingZero = "embedding_zero",
        /// Learned positions added to the embedding.
        PositionEmbedding = "position_embedding",
        /// Norm after the embedding.
        EmbeddingNorm = "embedding_norm",
        /// Dropout after the embedding (unfused training only).
        EmbeddingDropout = "embedding_dropout",
        /// Norm before attention.
        AttentionNorm = "attention_norm",
        /// Fused projection to queries, keys and values.
        Qkv = "qkv",
        /// Latent attention: hidden to query latent.
        QueryDown = "query_down",
        /// Latent attention: norm of the query latent.
        QueryLatentNorm = "query_latent_norm",
        /// Latent attention: query latent (or hidden) to queries.
        QueryUp = "query_up",
        /// Latent attention: hidden to key/value latent and rotated key.
        KeyValueDown = "key_value_down",
        /// Latent attention: norm of the key/value latent.
        KeyValueLatentNorm = "key_value_latent_norm",
        /// Latent attention: key/value latent to keys and values.
        KeyValueUp = "key_value_up",
        /// Latent attention: hidden to the gate of the attention output.
        AttentionGate = "attention_gate",
        /// Absorbed latent attention (decode): queries into the latent space.
        QueryAbsorb = "query_absorb",
        /// Absorbed latent attention (decode): latent output to value heads.
        ValueAbsorb = "value_absorb",
        /// Index of the keys: query latent to its queries.
        IndexQuery = "index_query",
        /// Index of the keys: hidden to its key.
        IndexKey = "index_key",
        /// Index of the keys: hidden to the weight of each of its heads.
        IndexWeights = "index_weights",
        /// Index of the keys: scores of the keys.
        IndexScores = "index_scores",
        /// Index of the keys: choice of the best.
        IndexChoice = "index_choice",
        /// Compressed keys: hidden to what a block of tokens adds up, with its weights.
        KeyCompression = "key_compression",
        /// Serving: attention to the keys that an index chooses, projections included.
        IndexedAttention = "indexed_attention",
        /// Norm of the queries.
        QueryNorm = "query_norm",
        /// Norm of the keys.
        KeyNorm = "key_norm",
        /// Rotary embedding of queries and keys.
        Rotary = "rotary",
        /// New keys and values written to the cache.
        CacheWrite = "cache_write",
        /// Fused attention.
        Attention = "attention",
        /// Context parallelism: the sum of what each step of the ring gives.
        AttentionMerge = "attention_merge",
        /// Unfused attention: queries times keys.
        AttentionScore = "attention_score",
        /// Unfused attention: causal mask (and position bias) on the scores.
        AttentionMask = "attention_mask",
        /// Unfused attention: softmax of the scores.
        AttentionSoftmax = "attention_softmax",
        /// Unfused attention: dropout of the probabilities.
        AttentionDropout = "attention_dropout",
        /// Unfused attention: probabilities times values.
        AttentionValue = "attention_value",
        /// Gate of the attention output.
        AttentionOutputGate = "attention_output_gate",
        /// Attention output of each group of heads to a narrower one.
        AttentionOutputDown = "attention_output_down",
        /// Attention output back to the hidden width.
        AttentionProjection = "attention_projection",
        /// Norm after attention.
        AttentionPostNorm = "attention_post_norm",
        /// Dropout before the residual add (unfused training only).
        AttentionOutputDropout = "attention_output_dropout",
        /// Residual add after attention.
        AttentionResidual = "attention_residual",
        /// Linear attention: hidden to queries, keys, values and output gate, step sizes of a state-space model included.
        LinearInput = "linear_input",
        /// Linear attention: hidden to decays and step sizes, or to their narrow inputs.
        LinearDecay = "linear_decay",
        /// Linear attention: narrow inputs to decays and output gates.
        LinearGate = "linear_gate",
        /// Linear attention: convolution along the sequence.
        LinearConvolution = "linear_convolution",
        /// Linear attention: the recurrence.
        LinearAttention = "linear_attention",
        /// Linear attention: norm of the outputs with their gate.
        LinearNorm = "linear_norm",
        /// Linear attention: outputs back to the hidden width.
        LinearOutput = "linear_output",
        /// Norm before the MLP.
        MlpNorm = "mlp_norm",
        /// MLP up projection, gate included.
        MlpUp = "mlp_up",
        /// Elementwise function of the MLP.
        MlpActivation = "mlp_activation",
        /// MLP down projection.
        MlpDown = "mlp_down",
        /// Hidden state to one score per expert.
        Router = "router",
        /// Softmax over the expert scores.
        RouterSoftmax = "router_softmax",
        /// Hidden to the width that the routed experts take.
        ExpertsLatentDown = "experts_latent_down",
        /// Tokens gathered by expert.
        ExpertsDispatch = "experts_dispatch",
        /// Serving: the routed experts in one grouped kernel a projection, gathering and summing included.
        Experts = "experts",
        /// Up projections of the routed experts.
        ExpertsUp = "experts_up",
        /// Elementwise function of the routed experts.
        ExpertsActivation = "experts_activation",
        /// Down projections of the routed experts.
        ExpertsDown = "experts_down",
        /// Expert outputs gathered by token and weighted.
        ExpertsCombine = "experts_combine",
        /// Summed outputs of the routed experts back to the hidden width.
        ExpertsLatentUp = "experts_latent_up",
        /// Up projection of the shared experts.
        SharedUp = "shared_up",
        /// Elementwise function of the shared experts.
        SharedActivation = "shared_activation",
        /// Down projection of the shared experts.
        SharedDown = "shared_down",
        /// Gate of the shared experts: a dot product a token, which scales their output.
        SharedGate = "shared_gate",
        /// Shared experts' output added to the routed experts'.
        SharedAdd = "shared_add",
        /// Norm after the MLP.
        MlpPostNorm = "mlp_post_norm",
        /// Dropout before the residual add (unfused training only).
        MlpOutputDropout = "mlp_output_dropout",
        /// Residual add after the MLP.
        MlpResidual = "mlp_residual",
        /// Linear maps beside attention and MLP.
        FurtherMap = "further_map",
        /// Passes over activations beside attention and MLP.
        FurtherPass = "further_pass",
        /// Norm after the last layer.
        FinalNorm = "final_norm",
        /// Output head.
        Logits = "logits",
        /// Cross-entropy.
        Loss = "loss",
        /// Adam step.
        Optimizer = "optimizer",
        /// Casts to 8 bits of what the linear maps multiply.
        Quantize = "quantize",
        /// Weight gradients added to their fp32 sums.
        GradientAccumulation = "gradient_accumulation",
        /// The same of the output head.
        HeadAccumulation = "head_accumulation",
        /// Autocast: casts of weights, outputs of norms and their gradients.
        Autocast = "autocast",
        /// The same of embedding, head and loss.
        HeadAutocast = "head_autocast",
        /// Adapters: their linear maps, and the sums with those that they are beside.
        Adapter = "adapter",
        /// Speculation: the state of the model and the embedding of a token to what the layer that drafts takes.
        DraftInput = "draft_input",
        /// Frozen weights unpacked to 16 bits.
        Unpack = "unpack",
        /// Collectives among tensor-parallel ranks.
        TensorParallel = "tensor_parallel",
        /// Keys, values and their gradients passed around the context-parallel ranks.
        ContextParallel = "context_parallel",
        /// Tokens sent to their experts and back.
        ExpertParallel = "expert_parallel",
        /// Transfers between pipeline stages.
        PipelineParallel = "pipeline_parallel",
        /// Collectives among data-parallel replicas.
        DataParallel = "data_parallel",
    }
}

named_enum! {
    /// When in a step an operator runs.
    Phase {
        /// Forward pass; the only phase of inference.
        Forward = "forward",
        /// Forward pass repeated during backward.
        Recompute = "recompute",
        /// GEMM that yields the gradient of a linear map's input; for attention scores that of the
        /// queries, for attention over values that of the probabilities.
        GradInput = "grad_input",
        /// GEMM that yields the gradient of a linear map's weight; for attention scores that of the
        /// keys, for attention over values that of the values.
        GradWeight = "grad_weight",
        /// Backward pass of anything that is not a GEMM.
        Backward = "backward",
        /// Drafts of tokens that the forward pass of decoding verifies.
        Draft = "draft",
        /// Once per step after the last micro-batch.
        Update = "update",
    }
}

impl Role {
    /// Whether this is a linear map of the routed experts.
    pub const fn is_of_experts(self) -> bool {
        matches!(self, Self::ExpertsUp | Self::ExpertsDown)
    }

    /// Whether this reads or writes the residual stream, or is a norm.
    pub(super) const fn is_of_residual(self) -> bool {
        matches!(
            self,
            Self::Embedding
                | Self::PositionEmbedding
                | Self::EmbeddingNorm
                | Self::EmbeddingDropout
                | Self::AttentionNorm
                | Self::QueryLatentNorm
                | Self::KeyValueLatentNorm
                | Self::QueryNorm
                | Self::KeyNorm
                | Self::AttentionPostNorm
                | Self::AttentionResidual
                | Self::LinearNorm
                | Self::MlpNorm
                | Self::MlpPostNorm
                | Self::MlpResidual
                | Self::FinalNorm
        )
    }

    /// Whether this is a linear map into the inner width of an MLP.
    pub(super) const fn is_up_projection(self) -> bool {
        matches!(self, Self::MlpUp | Self::ExpertsUp | Self::SharedUp)
    }

    /// Whether this is a down-projection of latent attention.
    pub(super) const fn is_latent(self) -> bool {
        matches!(self, Self::QueryDown | Self::KeyValueDown)
    }
}

/// One operator of a step and how often one GPU runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is for.
    pub role: Role,
    /// When it runs.
    pub phase: Phase,
    /// What it computes.
    pub op: Op,
    /// How often per step, all layers of the stage and all micro-batches together.
    pub count: u64,
}

impl Item {
    /// Stable name for tables and JSON: `qkv`, `qkv.grad_weight`, `attention.backward`.
    pub fn label(&self) -> String {
        match self.phase {
            Phase::Forward => self.role.name().to_owned(),
            phase => format!("{}.{}", self.role, phase),
        }
    }

    /// Arithmetic of all repetitions.
    pub fn flops(&self) -> Flops {
        self.op.flops() * self.count as f64
    }
}

/// Everything one GPU of the slowest pipeline stage runs for one step.
///
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Operators in order of their first execution.
    pub items: Vec<Item>,
    /// Tokens that one replica processes per step (decode: produces, on average where it speculates).
    pub tokens: f64,
    /// Arithmetic of one replica per step: without what a causal mask leaves out and without recomputation, backward being
    /// twice forward.
    pub model_flops: Flops,
    /// The same by the convention of published MFU figures (PaLM, arXiv 2204.02311, appendix B): with the whole square of
    /// attention.
    pub square_flops: Flops,
    /// GPUs that share one replica: tensor, context and pipeline ranks.
    pub gpus_per_replica: u64,
    /// Pipeline stages.
    pub stages: u64,
    /// Virtual pipeline stages a GPU.
    pub virtual_stages: u64,
    /// Layers of a stage.
    pub layers: u64,
    /// Layers of a stage with experts.
    pub moe_layers: u64,
    /// Whether embedding and head each take the place of one layer, so that the last stage runs one layer less.
    pub head_is_a_layer: bool,
    /// Micro-batches per step.
    pub microbatches: u64,
}

impl Step {
    /// How many micro-batches of work a GPU waits while the pipeline fills and drains: `(p - 1) / v` for `p` stages of
    /// `v` virtual stages (interleaved 1F1B, arXiv 2104.04473; GPipe and 1F1B for `v = 1`). Decode steps follow each other without
    /// draining it, so that only stages wait for which there is no micro-batch.
    pub fn bubble(&self, mode: Mode) -> f64 {
        let idle = match mode {
            Mode::Decode => self.stages.saturating_sub(self.microbatches),
            Mode::Train | Mode::Prefill => self.stages - 1,
        };
        idle as f64 / self.virtual_stages as f64
    }
}
