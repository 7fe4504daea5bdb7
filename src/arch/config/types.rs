//! What each model type has beyond Llama.
//!
//! Rows follow `transformers`: which fields there are, what a missing one stands for, and what no field says. A row
//! says only what differs from the row that it is built on.

use super::super::{MlpKind, NormKind, NormPlacement, QkNorm};
use super::linear::Hybrid;
use super::llama::{Like, Switch};
use super::moe;
use super::window::Slides;

const ATTENTION_BIAS: Switch = Switch::Field(&["attention_bias"], false);

const LLAMA: Like = Like {
    sizes: [32, 4096, 32, 11008, 32000],
    kv_heads: None,
    head_dim: None,
    tied: false,
    mlp: MlpKind::Swiglu,
    d_ff: "intermediate_size",
    norm: NormKind::RmsNorm,
    placement: NormPlacement::Pre,
    qk: (QkNorm::None, Switch::Off),
    qkv_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    mlp_bias: Switch::Field(&["mlp_bias"], false),
    norm_bias: false,
    head_bias: Switch::Off,
    parallel: Switch::Off,
    slides: Slides::None,
    linear: None,
    experts: None,
    sinks: false,
    has_xielu: false,
    output_gate: false,
    latent: false,
    skips: &[],
    off: &[],
    left_out: &[],
};

/// Llama without any bias.
const PLAIN: Like = Like {
    qkv_bias: Switch::Off,
    output_bias: Switch::Off,
    mlp_bias: Switch::Off,
    ..LLAMA
};

/// Llama whose MLP has no bias.
const ATTENTION: Like = Like {
    mlp_bias: Switch::Off,
    ..LLAMA
};

const MISTRAL: Like = Like {
    sizes: [32, 4096, 32, 14336, 32000],
    kv_heads: Some(8),
    slides: Slides::All(Some(4096)),
    ..PLAIN
};

const QWEN2: Like = Like {
    sizes: [32, 4096, 32, 22016, 151_936],
    kv_heads: Some(32),
    qkv_bias: Switch::On,
    slides: Slides::From {
        flag: Some("use_sliding_window"),
        first: 28,
    },
    skips: &["use_mrope"],
    ..PLAIN
};

const QWEN3: Like = Like {
    head_dim: Some(128),
    qk: (QkNorm::Head, Switch::On),
    qkv_bias: ATTENTION_BIAS,
    output_bias: ATTENTION_BIAS,
    ..QWEN2
};

const QWEN3_MOE: Like = Like {
    kv_heads: Some(4),
    head_dim: None,
    slides: Slides::None,
    experts: Some(moe::QWEN3),
    skips: &["max_window_layers", "norm_topk_prob", "sliding_window"],
    off: &["use_sliding_window"],
    ..QWEN3
};

/// Gated DeltaNet in three layers of four, gated attention in the fourth.
const QWEN3_5: Like = Like {
    sizes: [32, 4096, 16, 12288, 248_320],
    kv_heads: Some(4),
    head_dim: Some(256),
    slides: Slides::None,
    linear: Some(Hybrid::Qwen),
    skips: &[
        "attn_output_gate",
        "mamba_ssm_dtype",
        "mlp_only_layers",
        "mtp_use_dedicated_embeddings",
        "output_gate_type",
    ],
    left_out: &[("mtp_num_hidden_layers", DEEPSEEK_V3.left_out[0].1)],
    ..QWEN3
};

const QWEN3_NEXT: Like = Like {
    sizes: [48, 2048, 16, 5632, 151_936],
    kv_heads: Some(2),
    experts: Some(moe::QWEN3_NEXT),
    skips: &["norm_topk_prob"],
    ..QWEN3_5
};

/// Gemma: heads of 256, tied embeddings.
const GEMMA: Like = Like {
    sizes: [28, 3072, 16, 24576, 256_000],
    kv_heads: Some(16),
    head_dim: Some(256),
    tied: true,
    skips: &[
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "query_pre_attn_scalar",
        "rope_local_base_freq",
        "sliding_window_size",
    ],
    off: &["use_bidirectional_attention"],
    ..ATTENTION
};

const GEMMA2: Like = Like {
    sizes: [26, 2304, 8, 9216, 256_000],
    kv_heads: Some(4),
    placement: NormPlacement::Sandwich,
    slides: Slides::Every {
        interval: 2,
        size: Some(4096),
    },
    ..GEMMA
};

const GEMMA3: Like = Like {
    sizes: [26, 2304, 8, 9216, 262_208],
    qk: (QkNorm::Head, Switch::On),
    slides: Slides::Every {
        interval: 6,
        size: Some(4096),
    },
    ..GEMMA2
};

const OLMO2: Like = Like {
    placement: NormPlacement::Post,
    qk: (QkNorm::Full, Switch::On),
    ..ATTENTION
};

const GRANITE: Like = Like {
    skips: &[
        "attention_multiplier",
        "embedding_multiplier",
        "logits_scaling",
        "residual_multiplier",
    ],
    ..LLAMA
};

const GLM: Like = Like {
    head_dim: Some(128),
    qkv_bias: Switch::Field(&["attention_bias"], true),
    ..PLAIN
};

const COHERE: Like = Like {
    tied: true,
    norm: NormKind::LayerNorm,
    parallel: Switch::On,
    skips: &["logit_scale"],
    ..ATTENTION
};

const DEEPSEEK_V3: Like = Like {
    latent: true,
    experts: Some(moe::DEEPSEEK_V3),
    skips: &[
        "aux_loss_alpha",
        "ep_size",
        "head_dim",
        "n_group",
        "norm_topk_prob",
        "qk_head_dim",
        "rope_interleave",
        "routed_scaling_factor",
        "scoring_func",
        "seq_aux",
        "topk_group",
        "topk_method",
    ],
    left_out: &[(
        "num_nextn_predict_layers",
        "the layer that predicts the token after the next is not counted",
    )],
    ..ATTENTION
};

const GLM4_MOE: Like = Like {
    qk: (QkNorm::Head, Switch::Field(&["use_qk_norm"], false)),
    qkv_bias: ATTENTION_BIAS,
    experts: Some(moe::GLM4),
    skips: DEEPSEEK_V3.skips,
    left_out: DEEPSEEK_V3.left_out,
    ..GLM
};

/// Layer norm with bias, a plain MLP.
const STARCODER2: Like = Like {
    sizes: [30, 3072, 24, 12288, 49152],
    kv_heads: Some(2),
    tied: true,
    mlp: MlpKind::Gelu,
    norm: NormKind::LayerNorm,
    norm_bias: true,
    qkv_bias: Switch::Field(&["use_bias"], true),
    output_bias: Switch::Field(&["use_bias"], true),
    mlp_bias: Switch::Field(&["use_bias"], true),
    slides: Slides::All(None),
    skips: &["embedding_dropout", "mlp_type", "norm_type", "residual_dropout"],
    ..LLAMA
};

const PHI: Like = Like {
    kv_heads: None,
    tied: false,
    qk: (QkNorm::Head, Switch::Field(&["qk_layernorm"], false)),
    qkv_bias: Switch::On,
    output_bias: Switch::On,
    mlp_bias: Switch::On,
    head_bias: Switch::On,
    parallel: Switch::On,
    slides: Slides::None,
    skips: &[],
    ..STARCODER2
};

/// Ling and Ring.
const BAILING: Like = Like {
    qk: (QkNorm::Head, Switch::Field(&["use_qk_norm"], false)),
    qkv_bias: Switch::Field(&["use_qkv_bias"], false),
    output_bias: Switch::Field(&["use_bias"], false),
    experts: Some(moe::BAILING),
    skips: &[
        "head_type",
        "moe_router_enable_routed_scaling",
        "moe_router_enable_shared_expert",
        "moe_shared_expert_intermediate_size",
        "multi_gate",
        "n_group",
        "norm_head",
        "norm_softmax",
        "norm_topk_prob",
        "score_function",
        "topk_group",
        "topk_method",
        "use_rmsnorm",
    ],
    left_out: DEEPSEEK_V3.left_out,
    ..PLAIN
};

const GRANITE_SWA: Like = Like {
    tied: true,
    slides: Slides::Every {
        interval: 4,
        size: Some(128),
    },
    sinks: true,
    skips: &[
        "attention_multiplier",
        "embedding_multiplier",
        "layer_rope_theta",
        "logits_scaling",
        "residual_multiplier",
    ],
    ..GRANITE
};

/// Every type of this style.
pub(super) const TYPES: &[(&str, &Like)] = &[
    (
        "afmoe",
        &Like {
            head_dim: Some(128),
            placement: NormPlacement::Sandwich,
            qk: (QkNorm::Head, Switch::On),
            output_gate: true,
            slides: Slides::Every {
                interval: 4,
                size: Some(1024),
            },
            experts: Some(moe::AFMOE),
            skips: &[
                "global_attn_every_n_layers",
                "load_balance_coeff",
                "n_group",
                "num_expert_groups",
                "num_limited_groups",
                "route_norm",
                "route_scale",
                "score_func",
                "topk_group",
                "use_grouped_mm",
            ],
            ..PLAIN
        },
    ),
    (
        "apertus",
        &Like {
            mlp: MlpKind::Gelu,
            qk: (QkNorm::Head, Switch::Field(&["qk_norm"], true)),
            has_xielu: true,
            off: &["post_norm"],
            ..ATTENTION
        },
    ),
    (
        "arcee",
        &Like {
            mlp: MlpKind::Gelu,
            ..LLAMA
        },
    ),
    ("bailing_moe", &BAILING),
    ("bailing_moe_v2", &BAILING),
    (
        "cohere",
        &Like {
            qk: (QkNorm::Full, Switch::Field(&["use_qk_norm"], false)),
            ..COHERE
        },
    ),
    (
        "cohere2",
        &Like {
            sizes: [40, 8192, 64, 22528, 256_000],
            slides: Slides::Every {
                interval: 4,
                size: Some(4096),
            },
            skips: &[
                "layer_switch",
                "logit_scale",
                "order_of_interleaved_layers",
                "position_embedding_type",
                "rotary_pct",
                "use_embedding_sharing",
                "use_gated_activation",
                "use_parallel_block",
                "use_parallel_embedding",
            ],
            off: &["use_qk_norm"],
            ..COHERE
        },
    ),
    (
        "cwm",
        &Like {
            kv_heads: Some(8),
            head_dim: Some(128),
            slides: Slides::Every {
                interval: 4,
                size: Some(8192),
            },
            ..PLAIN
        },
    ),
    (
        "deepseek_v2",
        &Like {
            experts: Some(moe::DEEPSEEK_V2),
            ..DEEPSEEK_V3
        },
    ),
    ("deepseek_v3", &DEEPSEEK_V3),
    (
        "dots1",
        &Like {
            qk: (QkNorm::Head, Switch::On),
            slides: Slides::From { flag: None, first: 62 },
            experts: Some(moe::DOTS1),
            skips: DEEPSEEK_V3.skips,
            off: &["use_sliding_window"],
            left_out: DEEPSEEK_V3.left_out,
            ..ATTENTION
        },
    ),
    (
        "ernie4_5",
        &Like {
            head_dim: Some(128),
            tied: true,
            qkv_bias: Switch::Field(&["use_bias"], false),
            output_bias: Switch::Field(&["use_bias"], false),
            mlp_bias: Switch::Field(&["use_bias"], false),
            ..LLAMA
        },
    ),
    (
        "ernie4_5_moe",
        &Like {
            tied: true,
            experts: Some(moe::ERNIE),
            off: &["use_bias"],
            skips: &["moe_capacity", "moe_norm_min", "moe_use_aux_free"],
            left_out: DEEPSEEK_V3.left_out,
            ..PLAIN
        },
    ),
    (
        "exaone",
        &Like {
            kv_heads: Some(8),
            skips: &["embed_dropout"],
            ..PLAIN
        },
    ),
    (
        "exaone_moe",
        &Like {
            kv_heads: Some(32),
            qk: (QkNorm::Head, Switch::On),
            slides: Slides::Every {
                interval: 4,
                size: Some(4096),
            },
            experts: Some(moe::EXAONE),
            skips: &[
                "is_moe_layer",
                "n_group",
                "norm_topk_prob",
                "routed_scaling_factor",
                "scoring_func",
                "topk_group",
                "topk_method",
            ],
            left_out: DEEPSEEK_V3.left_out,
            ..PLAIN
        },
    ),
    (
        "exaone4",
        &Like {
            kv_heads: Some(32),
            placement: NormPlacement::Post,
            qk: (QkNorm::Head, Switch::On),
            slides: Slides::Every {
                interval: 4,
                size: Some(4096),
            },
            ..PLAIN
        },
    ),
    (
        "flex_olmo",
        &Like {
            experts: Some(moe::FLEX_OLMO),
            skips: &["norm_topk_prob"],
            ..OLMO2
        },
    ),
    ("gemma", &GEMMA),
    ("gemma2", &GEMMA2),
    ("gemma3_text", &GEMMA3),
    ("glm", &GLM),
    (
        "glm4",
        &Like {
            placement: NormPlacement::Sandwich,
            ..GLM
        },
    ),
    ("glm4_moe", &GLM4_MOE),
    (
        "glm4_moe_lite",
        &Like {
            experts: Some(moe::GLM4_LITE),
            ..DEEPSEEK_V3
        },
    ),
    (
        "glm4v_moe_text",
        &Like {
            qk: (QkNorm::None, Switch::Off),
            qkv_bias: Switch::Field(&["attention_bias"], true),
            ..GLM4_MOE
        },
    ),
    (
        "glm4v_text",
        &Like {
            placement: NormPlacement::Sandwich,
            ..GLM
        },
    ),
    (
        "gpt_oss",
        &Like {
            head_dim: Some(64),
            kv_heads: Some(8),
            qkv_bias: Switch::Field(&["attention_bias"], true),
            output_bias: Switch::Field(&["attention_bias"], true),
            slides: Slides::Every {
                interval: 2,
                size: Some(128),
            },
            experts: Some(moe::GPT_OSS),
            sinks: true,
            skips: &[
                "experts_per_token",
                "initial_context_length",
                "swiglu_alpha",
                "swiglu_limit",
            ],
            ..PLAIN
        },
    ),
    ("granite", &GRANITE),
    (
        "granitemoe",
        &Like {
            mlp_bias: Switch::Off,
            experts: Some(moe::MIXTRAL),
            ..GRANITE
        },
    ),
    (
        "granitemoe_swa",
        &Like {
            mlp_bias: Switch::Off,
            tied: false,
            experts: Some(moe::GRANITE_SHARED),
            ..GRANITE_SWA
        },
    ),
    (
        // Its layers with attention; the others are refused.
        "granitemoehybrid",
        &Like {
            mlp_bias: Switch::Off,
            experts: Some(moe::GRANITE_SHARED),
            skips: &[
                "attention_multiplier",
                "embedding_multiplier",
                "logits_scaling",
                "mamba_chunk_size",
                "mamba_conv_bias",
                "mamba_d_conv",
                "mamba_d_head",
                "mamba_d_state",
                "mamba_expand",
                "mamba_n_groups",
                "mamba_n_heads",
                "mamba_proj_bias",
                "normalization_function",
                "position_embedding_type",
                "residual_multiplier",
            ],
            ..GRANITE
        },
    ),
    (
        "granitemoeshared",
        &Like {
            mlp_bias: Switch::Off,
            experts: Some(moe::GRANITE_SHARED),
            ..GRANITE
        },
    ),
    ("granite_swa", &GRANITE_SWA),
    (
        "helium",
        &Like {
            head_dim: Some(128),
            output_bias: Switch::Off,
            ..ATTENTION
        },
    ),
    (
        "hunyuan_v1_dense",
        &Like {
            qk: (QkNorm::Head, Switch::Field(&["use_qk_norm"], true)),
            // Settings of the family's other models.
            skips: &[
                "anyres_pooling_size",
                "cla_share_factor",
                "class_num",
                "dense_list",
                "moe_topk",
                "norm_type",
                "num_experts",
                "num_media_embeds",
                "num_shared_expert",
                "org_vocab_size",
                "position_embedding_xdrope",
                "vit_patch",
                "vit_token",
            ],
            off: &["use_cla", "use_mla", "use_mixed_mlp_moe"],
            ..ATTENTION
        },
    ),
    (
        "internlm",
        &Like {
            qkv_bias: Switch::Field(&["bias"], true),
            output_bias: Switch::Field(&["bias"], true),
            skips: &["rotary"],
            ..PLAIN
        },
    ),
    (
        "internlm2",
        &Like {
            qkv_bias: Switch::Field(&["bias"], false),
            output_bias: Switch::Field(&["bias"], false),
            ..PLAIN
        },
    ),
    (
        "internlm3",
        &Like {
            qkv_bias: Switch::Field(&["qkv_bias"], false),
            output_bias: Switch::Field(&["bias"], false),
            mlp_bias: Switch::Field(&["bias"], false),
            ..LLAMA
        },
    ),
    (
        "jais2",
        &Like {
            mlp: MlpKind::Gelu,
            norm: NormKind::LayerNorm,
            norm_bias: true,
            qkv_bias: Switch::Field(&["attention_bias"], true),
            output_bias: Switch::Field(&["attention_bias"], true),
            mlp_bias: Switch::Field(&["mlp_bias"], true),
            ..LLAMA
        },
    ),
    ("kimi_k2", &DEEPSEEK_V3),
    (
        "kimi_linear",
        &Like {
            linear: Some(Hybrid::Kimi),
            experts: Some(moe::KIMI_LINEAR),
            skips: &[
                "head_dim",
                "moe_renormalize",
                "moe_router_activation_func",
                "num_expert_group",
                "routed_scaling_factor",
                "topk_group",
                "topk_method",
                "use_grouped_topk",
            ],
            ..DEEPSEEK_V3
        },
    ),
    ("llama", &LLAMA),
    (
        "llama4_text",
        &Like {
            kv_heads: Some(8),
            head_dim: Some(128),
            d_ff: "intermediate_size_mlp",
            slides: Slides::Chunks {
                interval: 4,
                size: 8192,
            },
            experts: Some(moe::LLAMA4),
            skips: &[
                "attn_scale",
                "attn_temperature_tuning",
                "floor_scale",
                "for_llm_compressor",
            ],
            left_out: &[(
                "use_qk_norm",
                "the normalisation of queries and keys, which has no weights, is not timed",
            )],
            ..ATTENTION
        },
    ),
    (
        "mimo",
        &Like {
            qkv_bias: Switch::Field(&["attention_bias"], true),
            left_out: DEEPSEEK_V3.left_out,
            ..QWEN2
        },
    ),
    (
        "minimax_m2",
        &Like {
            kv_heads: Some(8),
            head_dim: Some(128),
            qk: (QkNorm::Full, Switch::Field(&["use_qk_norm"], true)),
            experts: Some(moe::MINIMAX_M2),
            skips: &[
                "layernorm_full_attention_beta",
                "layernorm_linear_attention_beta",
                "layernorm_mlp_beta",
                "mtp_transformer_layers",
                "num_mtp_modules",
                "postnorm",
                "qk_norm_type",
                "scoring_func",
                "sliding_window",
                "use_routing_bias",
            ],
            left_out: &[(
                "use_mtp",
                "the layers that predict tokens after the next are not counted",
            )],
            ..PLAIN
        },
    ),
    ("ministral", &MISTRAL),
    (
        "ministral3",
        &Like {
            head_dim: Some(128),
            slides: Slides::All(None),
            ..MISTRAL
        },
    ),
    ("mistral", &MISTRAL),
    (
        "mixtral",
        &Like {
            slides: Slides::All(None),
            experts: Some(moe::MIXTRAL),
            ..MISTRAL
        },
    ),
    (
        "nanochat",
        &Like {
            mlp: MlpKind::Gelu,
            norm: NormKind::UnweightedRmsNorm,
            placement: NormPlacement::PreAndEmbedding,
            qk: (QkNorm::Head, Switch::On),
            skips: &["final_logit_softcapping"],
            ..ATTENTION
        },
    ),
    (
        "nemotron",
        &Like {
            mlp: MlpKind::Gelu,
            norm: NormKind::LayerNorm,
            norm_bias: true,
            ..LLAMA
        },
    ),
    (
        "nemotron_h",
        &Like {
            kv_heads: Some(8),
            head_dim: Some(128),
            mlp: MlpKind::Gelu,
            linear: Some(Hybrid::NemotronH),
            experts: Some(moe::NEMOTRON_H),
            skips: &[
                "chunk_size",
                "expand",
                "mamba_hidden_act",
                "mamba_ssm_cache_dtype",
                "mlp_hidden_act",
                "moe_shared_expert_overlap",
                "mtp_hybrid_override_pattern",
                "mtp_layers_block_type",
                "n_group",
                "norm_topk_prob",
                "num_hidden_layers",
                "num_logits_to_keep",
                "rescale_prenorm_residual",
                "residual_in_fp32",
                "routed_scaling_factor",
                "sliding_window",
                "time_step_floor",
                "time_step_limit",
                "time_step_max",
                "time_step_min",
                "time_step_rank",
                "topk_group",
                "use_conv_bias",
                "use_mamba_kernels",
            ],
            off: &["mamba_proj_bias", "use_bias"],
            left_out: DEEPSEEK_V3.left_out,
            ..LLAMA
        },
    ),
    (
        "olmo",
        &Like {
            norm: NormKind::UnweightedLayerNorm,
            skips: &["clip_qkv"],
            ..ATTENTION
        },
    ),
    ("olmo2", &OLMO2),
    (
        "olmo3",
        &Like {
            slides: Slides::Every {
                interval: 4,
                size: Some(4096),
            },
            ..OLMO2
        },
    ),
    (
        "olmoe",
        &Like {
            qk: (QkNorm::Full, Switch::On),
            experts: Some(moe::OLMOE),
            skips: &["clip_qkv", "norm_topk_prob"],
            ..ATTENTION
        },
    ),
    (
        "persimmon",
        &Like {
            qk: (QkNorm::Head, Switch::Field(&["qk_layernorm"], true)),
            head_bias: Switch::Off,
            parallel: Switch::Off,
            ..PHI
        },
    ),
    ("phi", &PHI),
    (
        "phi3",
        &Like {
            slides: Slides::All(None),
            skips: &["full_attn_mod", "interpolate_factor"],
            off: &["attention_bias", "lm_head_bias", "mlp_bias"],
            ..PLAIN
        },
    ),
    (
        "phimoe",
        &Like {
            kv_heads: Some(8),
            norm: NormKind::LayerNorm,
            norm_bias: true,
            head_bias: Switch::Field(&["lm_head_bias"], false),
            slides: Slides::All(None),
            experts: Some(moe::PHI),
            skips: &["hidden_dropout", "input_jitter_noise"],
            ..ATTENTION
        },
    ),
    ("qwen2", &QWEN2),
    ("qwen2_5_vl_text", &QWEN2),
    (
        "qwen2_moe",
        &Like {
            kv_heads: Some(16),
            qkv_bias: Switch::Field(&["qkv_bias"], true),
            experts: Some(moe::QWEN2),
            ..QWEN3_MOE_WITHOUT_NORMS
        },
    ),
    ("qwen2_vl_text", &QWEN2),
    ("qwen3", &QWEN3),
    ("qwen3_moe", &QWEN3_MOE),
    (
        "qwen3_5_moe_text",
        &Like {
            sizes: [40, 2048, 16, 512, 248_320],
            kv_heads: Some(2),
            d_ff: "moe_intermediate_size",
            experts: Some(moe::QWEN3_5),
            ..QWEN3_5
        },
    ),
    ("qwen3_5_text", &QWEN3_5),
    ("qwen3_next", &QWEN3_NEXT),
    (
        "qwen3_vl_moe_text",
        &Like {
            kv_heads: Some(16),
            ..QWEN3_MOE
        },
    ),
    (
        "qwen3_vl_text",
        &Like {
            slides: Slides::None,
            skips: &[],
            ..QWEN3
        },
    ),
    (
        "sarvam_moe",
        &Like {
            head_dim: Some(64),
            qk: (QkNorm::Head, Switch::Field(&["use_qk_norm"], true)),
            qkv_bias: Switch::Field(&["attention_bias", "use_qkv_bias"], false),
            ..GLM4_MOE
        },
    ),
    (
        "seed_oss",
        &Like {
            head_dim: Some(128),
            qkv_bias: Switch::Field(&["attention_bias"], true),
            output_bias: Switch::Field(&["attention_out_bias"], false),
            skips: &["residual_dropout"],
            ..LLAMA
        },
    ),
    (
        "smollm3",
        &Like {
            kv_heads: Some(4),
            tied: true,
            slides: Slides::From {
                flag: Some("use_sliding_window"),
                first: 0,
            },
            skips: &["no_rope_layer_interval", "no_rope_layers"],
            ..LLAMA
        },
    ),
    (
        "solar_open",
        &Like {
            qk: (QkNorm::Head, Switch::Field(&["use_qk_norm"], false)),
            experts: Some(moe::DOTS1),
            ..GLM4_MOE
        },
    ),
    (
        "stablelm",
        &Like {
            kv_heads: Some(32),
            norm: NormKind::LayerNorm,
            norm_bias: true,
            qkv_bias: Switch::Field(&["use_qkv_bias"], false),
            parallel: Switch::Field(&["use_parallel_residual"], false),
            off: &["qk_layernorm"],
            ..PLAIN
        },
    ),
    ("starcoder2", &STARCODER2),
    (
        "vaultgemma",
        &Like {
            placement: NormPlacement::Pre,
            ..GEMMA2
        },
    ),
    (
        "youtu",
        &Like {
            tied: true,
            experts: None,
            ..DEEPSEEK_V3
        },
    ),
];

const QWEN3_MOE_WITHOUT_NORMS: Like = Like {
    qk: (QkNorm::None, Switch::Off),
    qkv_bias: Switch::Off,
    output_bias: Switch::Off,
    ..QWEN3_MOE
};
