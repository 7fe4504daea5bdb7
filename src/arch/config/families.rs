//! One reader per `model_type`, with the defaults that `transformers` documents for it.

use super::super::{
    Architecture, Biases, Mla, Mlp, MlpKind, Moe, Norm, NormKind, NormPlacement, Positions, QkNorm,
    Window,
};
use super::fields::Fields;
use crate::error::Result;

type Reader = fn(&mut Fields<'_>) -> Result<Architecture>;

/// Every supported `model_type`.
pub(super) const FAMILIES: &[(&str, Reader)] = &[
    ("deepseek_v3", deepseek_v3),
    ("gemma", gemma),
    ("gemma2", gemma2),
    ("gemma3_text", gemma3),
    ("gpt2", gpt2),
    ("gpt_neox", gpt_neox),
    ("llama", llama),
    ("mistral", mistral),
    ("mixtral", mixtral),
    ("mpt", mpt),
    ("olmo2", olmo2),
    ("opt", opt),
    ("qwen2", qwen2),
    ("qwen3", qwen3),
    ("qwen3_moe", qwen3_moe),
];

/// Elementwise functions; which one makes no difference to shapes.
const ACTIVATIONS: &[&str] = &[
    "silu",
    "swish",
    "gelu",
    "gelu_new",
    "gelu_fast",
    "gelu_pytorch_tanh",
    "relu",
];

/// What a missing field stands for in models that are built like Llama.
struct Defaults {
    /// `None` = as many as query heads.
    kv_heads: Option<u64>,
    /// `None` = `hidden_size / num_attention_heads`.
    head_dim: Option<u64>,
    tied: bool,
}

/// Llama: no grouping, no bias, untied.
const LIKE_LLAMA: Defaults = Defaults {
    kv_heads: None,
    head_dim: None,
    tied: false,
};

/// The quotient that a head size defaults to, which must be whole.
fn split(fields: &Fields<'_>, heads_key: &str, hidden: u64, heads: u64) -> Result<u64> {
    if heads > 0 && hidden.is_multiple_of(heads) {
        return Ok(hidden / heads);
    }
    fields.refuse(heads_key, &format!("a divisor of the hidden size {hidden}"))
}

/// Everything that models built like Llama share: rotary positions, RMSNorm, a gated MLP.
fn llama_like(fields: &mut Fields<'_>, defaults: &Defaults) -> Result<Architecture> {
    let hidden = fields.number("hidden_size")?;
    let heads = fields.number("num_attention_heads")?;
    let kv_default = match defaults.kv_heads {
        // An explicit null means one key head per query head whatever the default is.
        Some(default) if !fields.has("num_key_value_heads") => default,
        _ => heads,
    };
    let kv_heads = fields.number_or("num_key_value_heads", kv_default)?;
    let head_dim = match (fields.optional("head_dim")?, defaults.head_dim) {
        (Some(width), _) | (None, Some(width)) => width,
        (None, None) => split(fields, "num_attention_heads", hidden, heads)?,
    };
    for key in ["hidden_act", "hidden_activation"] {
        fields.text(key, Some("silu"), ACTIVATIONS)?;
    }
    Ok(Architecture {
        name: String::new(),
        layers: fields.number("num_hidden_layers")?,
        hidden,
        heads,
        kv_heads,
        head_dim,
        mlp: Mlp {
            kind: MlpKind::Swiglu,
            d_ff: fields.number("intermediate_size")?,
        },
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", defaults.tied)?,
        positions: Positions::Rotary,
        norm: Norm {
            kind: NormKind::RmsNorm,
            placement: NormPlacement::Pre,
            qk: QkNorm::None,
        },
        biases: Biases::default(),
        parallel_layers: false,
        moe: None,
        mla: None,
        window: None,
    })
}

/// `attention_bias` puts a bias on queries, keys, values and the output projection.
fn attention_bias(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let bias = fields.flag("attention_bias", false)?;
    arch.biases.qkv = bias;
    arch.biases.attention_output = bias;
    Ok(())
}

/// Sets the sliding window: `layer_types` says which layers use it, else `implied` of them do.
fn window(
    fields: &mut Fields<'_>,
    arch: &mut Architecture,
    size: Option<u64>,
    implied: u64,
) -> Result<()> {
    let mut layers = if size.is_some() { implied } else { 0 };
    if let Some(types) = fields.texts("layer_types")? {
        let known = |kind: &&str| matches!(*kind, "full_attention" | "sliding_attention");
        if types.len() as u64 != arch.layers || !types.iter().all(known) {
            let allowed = "full_attention or sliding_attention for each of num_hidden_layers";
            return fields.refuse("layer_types", allowed);
        }
        layers = types
            .iter()
            .filter(|kind| **kind == "sliding_attention")
            .count() as u64;
    }
    arch.window = match (layers, size) {
        (0, _) => None,
        (layers, Some(size)) => Some(Window { size, layers }),
        (_, None) => return fields.refuse("sliding_window", "the size of the window"),
    };
    Ok(())
}

fn llama(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = llama_like(fields, &LIKE_LLAMA)?;
    attention_bias(fields, &mut arch)?;
    arch.biases.mlp = fields.flag("mlp_bias", false)?;
    Ok(arch)
}

/// Grouping into 8 key heads by default.
const LIKE_MISTRAL: Defaults = Defaults {
    kv_heads: Some(8),
    ..LIKE_LLAMA
};

fn mistral(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = llama_like(fields, &LIKE_MISTRAL)?;
    let default = (!fields.has("sliding_window")).then_some(4096);
    let size = fields.optional("sliding_window")?.or(default);
    let layers = arch.layers;
    window(fields, &mut arch, size, layers)?;
    Ok(arch)
}

fn mixtral(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = llama_like(fields, &LIKE_MISTRAL)?;
    fields.ignore(&[
        "output_router_logits",
        "router_aux_loss_coef",
        "router_jitter_noise",
    ]);
    let size = fields.optional("sliding_window")?;
    let layers = arch.layers;
    window(fields, &mut arch, size, layers)?;
    arch.moe = Some(Moe {
        experts: fields.number_or("num_local_experts", 8)?,
        top_k: fields.number_or("num_experts_per_tok", 2)?,
        d_ff: arch.mlp.d_ff,
        shared_d_ff: 0,
        dense_layers: 0,
        router_bias: false,
    });
    Ok(arch)
}

/// The window of Qwen2 and Qwen3: off unless asked for, then on from layer `max_window_layers`.
fn qwen_window(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let on = fields.flag("use_sliding_window", false)?;
    let size = fields.number_or("sliding_window", 4096)?;
    let first = fields.number_or("max_window_layers", 28)?;
    let layers = arch.layers.saturating_sub(first);
    window(fields, arch, on.then_some(size), layers)
}

fn qwen2(fields: &mut Fields<'_>) -> Result<Architecture> {
    let defaults = Defaults {
        kv_heads: Some(32),
        ..LIKE_LLAMA
    };
    let mut arch = llama_like(fields, &defaults)?;
    fields.ignore(&["use_mrope"]);
    qwen_window(fields, &mut arch)?;
    arch.biases.qkv = true;
    Ok(arch)
}

fn qwen3(fields: &mut Fields<'_>) -> Result<Architecture> {
    let defaults = Defaults {
        kv_heads: Some(32),
        head_dim: Some(128),
        tied: false,
    };
    let mut arch = llama_like(fields, &defaults)?;
    attention_bias(fields, &mut arch)?;
    qwen_window(fields, &mut arch)?;
    arch.norm.qk = QkNorm::Head;
    Ok(arch)
}

fn qwen3_moe(fields: &mut Fields<'_>) -> Result<Architecture> {
    let defaults = Defaults {
        kv_heads: Some(4),
        ..LIKE_LLAMA
    };
    let mut arch = llama_like(fields, &defaults)?;
    attention_bias(fields, &mut arch)?;
    fields.unsupported(&["use_sliding_window", "mlp_only_layers"])?;
    fields.only("decoder_sparse_step", 1)?;
    fields.ignore(&[
        "max_window_layers",
        "norm_topk_prob",
        "output_router_logits",
        "router_aux_loss_coef",
        "sliding_window",
    ]);
    let key = if fields.has("num_local_experts") {
        "num_local_experts"
    } else {
        "num_experts"
    };
    let experts = fields.number_or(key, 128)?;
    // No layer is dense, so `intermediate_size` shapes nothing.
    arch.mlp.d_ff = fields.number("moe_intermediate_size")?;
    arch.norm.qk = QkNorm::Head;
    arch.moe = Some(Moe {
        experts,
        top_k: fields.number_or("num_experts_per_tok", 8)?,
        d_ff: arch.mlp.d_ff,
        shared_d_ff: 0,
        dense_layers: 0,
        router_bias: false,
    });
    Ok(arch)
}

/// All Gemma generations: heads of 256, tied embeddings.
fn gemma_like(fields: &mut Fields<'_>, kv_heads: u64) -> Result<Architecture> {
    let defaults = Defaults {
        kv_heads: Some(kv_heads),
        head_dim: Some(256),
        tied: true,
    };
    let mut arch = llama_like(fields, &defaults)?;
    attention_bias(fields, &mut arch)?;
    fields.unsupported(&["use_bidirectional_attention"])?;
    fields.ignore(&[
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "query_pre_attn_scalar",
        "rope_local_base_freq",
        "sliding_window_size",
    ]);
    Ok(arch)
}

fn gemma(fields: &mut Fields<'_>) -> Result<Architecture> {
    gemma_like(fields, 16)
}

fn gemma2(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = gemma_like(fields, 4)?;
    arch.norm.placement = NormPlacement::Sandwich;
    let size = fields.number_or("sliding_window", 4096)?;
    // Layers 0, 2, 4, … slide.
    let layers = arch.layers.div_ceil(2);
    window(fields, &mut arch, Some(size), layers)?;
    Ok(arch)
}

fn gemma3(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = gemma_like(fields, 4)?;
    arch.norm.placement = NormPlacement::Sandwich;
    arch.norm.qk = QkNorm::Head;
    let size = fields.number_or("sliding_window", 4096)?;
    let key = if fields.has("_sliding_window_pattern") {
        "_sliding_window_pattern"
    } else {
        "sliding_window_pattern"
    };
    let pattern = fields.number_or(key, 6)?;
    if pattern == 0 {
        return fields.refuse(key, "an integer of at least 1");
    }
    // Every `pattern`-th layer sees everything.
    let layers = arch.layers - arch.layers / pattern;
    window(fields, &mut arch, Some(size), layers)?;
    Ok(arch)
}

fn olmo2(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = llama_like(fields, &LIKE_LLAMA)?;
    attention_bias(fields, &mut arch)?;
    arch.norm.placement = NormPlacement::Post;
    arch.norm.qk = QkNorm::Full;
    Ok(arch)
}

fn deepseek_v3(fields: &mut Fields<'_>) -> Result<Architecture> {
    // `head_dim`, where saved, is the rotated part only.
    fields.ignore(&[
        "aux_loss_alpha",
        "ep_size",
        "n_group",
        "norm_topk_prob",
        "num_nextn_predict_layers",
        "qk_head_dim",
        "rope_interleave",
        "routed_scaling_factor",
        "scoring_func",
        "seq_aux",
        "topk_group",
    ]);
    fields.text("topk_method", Some("noaux_tc"), &["noaux_tc"])?;
    fields.only("moe_layer_freq", 1)?;
    let mla = Mla {
        q_lora_rank: match fields.has("q_lora_rank") {
            true => fields.optional("q_lora_rank")?,
            false => Some(1536),
        },
        kv_lora_rank: fields.number("kv_lora_rank")?,
        qk_nope: fields.number("qk_nope_head_dim")?,
        qk_rope: fields.number("qk_rope_head_dim")?,
        v_head_dim: fields.number("v_head_dim")?,
    };
    let mut arch = llama_like(fields, &LIKE_LLAMA)?;
    attention_bias(fields, &mut arch)?;
    arch.head_dim = mla.qk_nope + mla.qk_rope;
    arch.mla = Some(mla);
    let d_ff = fields.number("moe_intermediate_size")?;
    arch.moe = Some(Moe {
        experts: fields.number("n_routed_experts")?,
        top_k: fields.number("num_experts_per_tok")?,
        d_ff,
        shared_d_ff: fields
            .number_or("n_shared_experts", 1)?
            .saturating_mul(d_ff),
        dense_layers: fields.number_or("first_k_dense_replace", 3)?,
        router_bias: true,
    });
    Ok(arch)
}

/// Everything that models built like GPT-2 share, given sizes under whatever name they are stored.
fn gpt_like(layers: u64, hidden: u64, heads: u64, head_dim: u64, d_ff: u64) -> Architecture {
    Architecture {
        name: String::new(),
        layers,
        hidden,
        heads,
        kv_heads: heads,
        head_dim,
        mlp: Mlp {
            kind: MlpKind::Gelu,
            d_ff,
        },
        vocab: 0,
        tied_embeddings: true,
        positions: Positions::None,
        norm: Norm {
            kind: NormKind::LayerNorm,
            placement: NormPlacement::Pre,
            qk: QkNorm::None,
        },
        biases: Biases::ALL_BUT_HEAD,
        parallel_layers: false,
        moe: None,
        mla: None,
        window: None,
    }
}

fn gpt2(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "attn_pdrop",
        "embd_pdrop",
        "gradient_checkpointing",
        "layer_norm_epsilon",
        "n_ctx",
        "resid_pdrop",
        "scale_attn_by_inverse_layer_idx",
        "scale_attn_weights",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "task_specific_params",
    ]);
    fields.unsupported(&["add_cross_attention", "reorder_and_upcast_attn"])?;
    fields.text("activation_function", Some("gelu_new"), ACTIVATIONS)?;
    let hidden = fields.number("n_embd")?;
    let heads = fields.number("n_head")?;
    let head_dim = split(fields, "n_head", hidden, heads)?;
    let d_ff = fields.number_or("n_inner", hidden.saturating_mul(4))?;
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Learned {
            max: fields.number("n_positions")?,
        },
        ..gpt_like(fields.number("n_layer")?, hidden, heads, head_dim, d_ff)
    })
}

fn gpt_neox(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "classifier_dropout",
        "gradient_checkpointing",
        "hidden_dropout",
        "is_decoder",
        "layer_norm_eps",
        "rotary_emb_base",
        "rotary_pct",
    ]);
    fields.text("hidden_act", Some("gelu"), ACTIVATIONS)?;
    let hidden = fields.number("hidden_size")?;
    let heads = fields.number("num_attention_heads")?;
    let head_dim = split(fields, "num_attention_heads", hidden, heads)?;
    let layers = fields.number("num_hidden_layers")?;
    let d_ff = fields.number("intermediate_size")?;
    let bias = fields.flag("attention_bias", true)?;
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", false)?,
        positions: Positions::Rotary,
        parallel_layers: fields.flag("use_parallel_residual", true)?,
        biases: Biases {
            qkv: bias,
            attention_output: bias,
            ..Biases::ALL_BUT_HEAD
        },
        ..gpt_like(layers, hidden, heads, head_dim, d_ff)
    })
}

fn opt(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "activation_dropout",
        "dropout",
        "init_std",
        "layerdrop",
        "output_projection",
        "prefix",
    ]);
    fields.unsupported(&["_remove_final_layer_norm"])?;
    fields.text("activation_function", Some("relu"), ACTIVATIONS)?;
    for key in [
        "do_layer_norm_before",
        "enable_bias",
        "layer_norm_elementwise_affine",
    ] {
        if !fields.flag(key, true)? {
            return fields.refuse(key, "true; other models of this type are not modelled");
        }
    }
    let hidden = fields.number("hidden_size")?;
    fields.only("word_embed_proj_dim", hidden)?;
    let heads = fields.number("num_attention_heads")?;
    let head_dim = split(fields, "num_attention_heads", hidden, heads)?;
    let layers = fields.number("num_hidden_layers")?;
    let d_ff = fields.number("ffn_dim")?;
    // The table holds two rows more than there are positions.
    let max = fields.number("max_position_embeddings")?.saturating_add(2);
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Learned { max },
        ..gpt_like(layers, hidden, heads, head_dim, d_ff)
    })
}

fn mpt(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "emb_pdrop",
        "embedding_fraction",
        "init_config",
        "init_device",
        "layer_norm_epsilon",
        "learned_pos_emb",
        "max_seq_len",
        "resid_pdrop",
        "tokenizer_name",
        "verbose",
    ]);
    fields.unsupported(&["logit_scale"])?;
    let norms = ["low_precision_layernorm", "layernorm"];
    fields.text("norm_type", Some(norms[0]), &norms)?;
    if !fields.flag("no_bias", true)? {
        return fields.refuse(
            "no_bias",
            "true; other models of this type are not modelled",
        );
    }
    if let Some(mut attention) = fields.object("attn_config")? {
        attention.ignore(&[
            "alibi_bias_max",
            "attn_impl",
            "attn_pdrop",
            "attn_uses_sequence_id",
            "model_type",
            "softmax_scale",
        ]);
        let kind = "multihead_attention";
        attention.text("attn_type", Some(kind), &[kind])?;
        attention.unsupported(&["clip_qkv", "prefix_lm", "qk_ln"])?;
        if !attention.flag("alibi", true)? {
            return attention.refuse("alibi", "true; other positions are not modelled");
        }
        attention.finish("mpt")?;
    }
    let hidden = fields.number("d_model")?;
    let heads = fields.number("n_heads")?;
    let head_dim = split(fields, "n_heads", hidden, heads)?;
    let d_ff = fields
        .number_or("expansion_ratio", 4)?
        .saturating_mul(hidden);
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Alibi,
        biases: Biases::default(),
        ..gpt_like(fields.number("n_layers")?, hidden, heads, head_dim, d_ff)
    })
}
