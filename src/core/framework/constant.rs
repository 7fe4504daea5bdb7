//! The constants of a framework: meaning, unit and range.

named_enum! {
    /// What a step costs besides its kernels, as a share, a multiplier or a time.
    Constant {
        /// Time of a 16-bit or wider GEMM over that of the predictor: sustained clock, kernels of training.
        Gemm = "gemm",
        /// Time of an fp8 GEMM over that of the predictor without its casts.
        GemmFp8 = "gemm_fp8",
        /// Time of a GEMM with row-wise scales over that of one with tensor-wise scales.
        RowwiseOverTensorwise = "rowwise_over_tensorwise",
        /// Time of an nvfp4 GEMM over that of the predictor times what fp8 ones take over theirs.
        Nvfp4 = "nvfp4",
        /// Time of an mxfp8 GEMM over that of the tensor-wise fp8 GEMM of its shape.
        Mxfp8OverFp8 = "mxfp8_over_fp8",
        /// Time of a forward attention kernel over that of the predictor.
        Attention = "attention",
        /// Time of a backward attention kernel over that of the predictor.
        AttentionBackward = "attention_backward",
        /// Time of the recurrence of linear attention, forward and backward, over that of the predictor.
        LinearAttention = "linear_attention",
        /// Traffic time of memory-bound kernels over that of the predictor.
        Memory = "memory",
        /// Part of the launch term of memory-bound kernels that shows.
        Launch = "launch",
        /// Time of the casts of fp8 training over their traffic at full bandwidth; 0 where the predictor's GEMMs keep
        /// their own casts.
        Quantize = "quantize",
        /// Launch time of the cast that the predictor's fp8 GEMMs contain and this framework fuses.
        CastUs = "cast_us",
        /// Time of the fp32 sums of weight gradients over their traffic at full bandwidth.
        Accumulate = "accumulate",
        /// Time of the GEMMs of routed experts over that of the predictor.
        Experts = "experts",
        /// The same in fp8.
        ExpertsFp8 = "experts_fp8",
        /// The same of the nvfp4 GEMMs of routed experts.
        Nvfp4Experts = "nvfp4_experts",
        /// Time of the GEMMs of routed experts whose weights are integers over that of the predictor times what 16-bit
        /// ones take over theirs.
        IntegerExperts = "integer_experts",
        /// Traffic time of gathering tokens by expert and back, and of the experts' activation, over the predictor's.
        Permute = "permute",
        /// Traffic time of an activation with biases and clamps that is not fused (GPT-OSS), over the predictor's of a
        /// fused one.
        BiasedActivation = "biased_activation",
        /// Measured time of everything between router and combination over that by the constants above: releases differ.
        MoePath = "moe_path",
        /// Time of an MoE layer outside its kernels: routing, host synchronisation.
        MoeLayerUs = "moe_layer_us",
        /// Host time of each kernel of one routed expert.
        ExpertLaunchUs = "expert_launch_us",
        /// Share of tensor-parallel traffic that is not hidden behind arithmetic.
        ExposedTp = "exposed_tp",
        /// The same of context-parallel traffic.
        ExposedCp = "exposed_cp",
        /// The same of transfers between pipeline stages.
        ExposedPp = "exposed_pp",
        /// The same of gradients and weights exchanged once per step.
        ExposedDp = "exposed_dp",
        /// The same of gradients and weights exchanged with every micro-batch (ZeRO 2 and 3).
        ExposedFsdp = "exposed_fsdp",
        /// The same of tokens sent to experts of the node.
        ExposedEp = "exposed_ep",
        /// The same of tokens sent to experts of other nodes.
        ExposedEpNetwork = "exposed_ep_network",
        /// Time of a collective before its first byte.
        CollectiveUs = "collective_us",
        /// What each doubling of the ranks beyond two adds to that, as a share of it.
        CollectiveGrowth = "collective_growth",
        /// What each doubling of the nodes adds to the time of a collective.
        CollectiveNodeUs = "collective_node_us",
        /// Host time of a kernel launch; a step is no faster than all of them.
        HostUs = "host_us",
        /// Time per layer outside its kernels, in serving with fused pointwise kernels their time.
        LayerUs = "layer_us",
        /// The same in the prompt pass.
        PrefillLayerUs = "prefill_layer_us",
        /// Time per sequence and step: sampling, bookkeeping.
        SequenceUs = "sequence_us",
        /// Time per step.
        StepMs = "step_ms",
        /// What the host of a server takes at least for one decode step: scheduling, inputs, sampling, text.
        HostStepMs = "host_step_ms",
        /// Share by which a step grows with each doubling of the GPUs beyond eight.
        GrowthPerDoubling = "growth_per_doubling",
        /// Share of the prompt passes of other requests that a server runs between two tokens of one.
        OtherPrefills = "other_prefills",
        /// Time that a request waits before its prompt pass where one other is in flight, as a share of a prompt pass:
        /// clients send requests together, and servers run prompts one after the other.
        Queueing = "queueing",
        /// Power of the number of other requests in flight with which that grows.
        QueueingGrowth = "queueing_growth",
        /// Decode steps of the others before the first token.
        FirstTokenSteps = "first_token_steps",
        /// Time to the first token besides all that.
        FirstTokenMs = "first_token_ms",
        /// Measured over predicted wait for the first token beside the own prompt pass; differs by server.
        FirstToken = "first_token",
        /// Requests that an engine runs at once at most.
        MostSequences = "most_sequences",
    }
}

/// How a constant may vary, and so how a fit varies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Positive; fitted in its logarithm.
    Positive,
    /// From 0 to 1; fitted in its logit.
    Share,
}

impl Constant {
    /// How it may vary.
    pub const fn scale(self) -> Scale {
        match self {
            Self::ExposedTp
            | Self::ExposedCp
            | Self::ExposedPp
            | Self::ExposedDp
            | Self::ExposedFsdp
            | Self::ExposedEp
            | Self::ExposedEpNetwork
            | Self::QueueingGrowth => Scale::Share,
            _ => Scale::Positive,
        }
    }

    /// A value where errors are alike on both sides: its logarithm, or the logit of a share.
    pub fn to_line(self, value: f64) -> f64 {
        match self.scale() {
            Scale::Positive => value.max(1e-9).ln(),
            Scale::Share => {
                let value = value.clamp(1e-3, 1.0 - 1e-3);
                (value / (1.0 - value)).ln()
            }
        }
    }

    /// The value whose [`Constant::to_line`] this is.
    pub fn from_line(self, at: f64) -> f64 {
        match self.scale() {
            Scale::Positive => at.exp(),
            Scale::Share => 1.0 / (1.0 + (-at).exp()),
        }
    }

    /// The greatest value that a file may hold; the least is 0.
    pub const fn greatest(self) -> f64 {
        match self.scale() {
            Scale::Share => 1.0,
            Scale::Positive => 1e5,
        }
    }

    /// The value that changes no time: that of the plain sum of kernels and collectives.
    pub const fn neutral(self) -> f64 {
        match self {
            Self::Gemm
            | Self::GemmFp8
            | Self::RowwiseOverTensorwise
            | Self::Nvfp4
            | Self::Mxfp8OverFp8
            | Self::Attention
            | Self::AttentionBackward
            | Self::LinearAttention
            | Self::Memory
            | Self::Launch
            | Self::Experts
            | Self::ExpertsFp8
            | Self::Nvfp4Experts
            | Self::IntegerExperts
            | Self::Permute
            | Self::BiasedActivation
            | Self::MoePath
            | Self::ExposedTp
            | Self::ExposedCp
            | Self::ExposedPp
            | Self::ExposedDp
            | Self::ExposedFsdp
            | Self::ExposedEp
            | Self::ExposedEpNetwork
            | Self::FirstToken => 1.0,
            Self::MostSequences => self.greatest(),
            // NVLink nodes of 8 (aiconfigurator's constant).
            Self::CollectiveUs => 10.0,
            _ => 0.0,
        }
    }
}
