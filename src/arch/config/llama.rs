//! Readers of models built like Llama, with the defaults that `transformers` documents for each.

use super::super::{
    Architecture, Biases, Mla, Mlp, MlpKind, Moe, Norm, NormKind, NormPlacement, Positions, QkNorm,
    Window,
};
use super::fields::Fields;
use crate::error::Result;

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
        (None, None) => fields.head_dim("num_attention_heads", hidden, heads)?,
    };
    for key in ["hidden_act", "hidden_activation"] {
        fields.activation(key, "silu")?;
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

pub(super) fn llama(fields: &mut Fields<'_>) -> Result<Architecture> {
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

pub(super) fn mistral(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = llama_like(fields, &LIKE_MISTRAL)?;
    let default = (!fields.has("sliding_window")).then_some(4096);
    let size = fields.optional("sliding_window")?.or(default);
    let layers = arch.layers;
    window(fields, &mut arch, size, layers)?;
    Ok(arch)
}

pub(super) fn mixtral(fields: &mut Fields<'_>) -> Result<Architecture> {
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

pub(super) fn qwen2(fields: &mut Fields<'_>) -> Result<Architecture> {
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

pub(super) fn qwen3(fields: &mut Fields<'_>) -> Result<Architecture> {
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

pub(super) fn qwen3_moe(fields: &mut Fields<'_>) -> Result<Architecture> {
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

pub(super) fn gemma(fields: &mut Fields<'_>) -> Result<Architecture> {
    gemma_like(fields, 16)
}

pub(super) fn gemma2(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = gemma_like(fields, 4)?;
    arch.norm.placement = NormPlacement::Sandwich;
    let size = fields.number_or("sliding_window", 4096)?;
    // Layers 0, 2, 4, … slide.
    let layers = arch.layers.div_ceil(2);
    window(fields, &mut arch, Some(size), layers)?;
    Ok(arch)
}

pub(super) fn gemma3(fields: &mut Fields<'_>) -> Result<Architecture> {
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

pub(super) fn olmo2(fields: &mut Fields<'_>) -> Result<Architecture> {
    let mut arch = llama_like(fields, &LIKE_LLAMA)?;
    attention_bias(fields, &mut arch)?;
    arch.norm.placement = NormPlacement::Post;
    arch.norm.qk = QkNorm::Full;
    Ok(arch)
}

pub(super) fn deepseek_v3(fields: &mut Fields<'_>) -> Result<Architecture> {
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
