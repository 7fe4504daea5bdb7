//! Readers of models built like GPT-2, with the defaults that `transformers` documents for each.

use super::super::{
    Architecture, Biases, Mlp, MlpKind, Moe, Norm, NormKind, NormPlacement, Positions, QkNorm, Stated, Window,
};
use super::fields::Fields;
use crate::error::Result;

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
        linear: None,
        mlp_layers: None,
        output_gate: false,
        stated: Stated::default(),
    }
}

/// What GPT-2 and the types with its field names share.
fn named_as_gpt2(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "n_ctx",
        "scale_attn_by_inverse_layer_idx",
        "scale_attn_weights",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
    ]);
    fields.activation("activation_function", false)?;
    let hidden = fields.number("n_embd")?;
    let heads = fields.number("n_head")?;
    let head_dim = fields.head_dim("n_head", hidden, heads)?;
    let d_ff = fields.number_or("n_inner", hidden.saturating_mul(4))?;
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        ..gpt_like(fields.number("n_layer")?, hidden, heads, head_dim, d_ff)
    })
}

pub(super) fn gpt2(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.unsupported(&["reorder_and_upcast_attn"]);
    Ok(Architecture {
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Learned {
            max: fields.number("n_positions")?,
        },
        ..named_as_gpt2(fields)?
    })
}

/// GPT-2 whose heads share one key head.
pub(super) fn gpt_bigcode(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "attention_softmax_in_fp32",
        "inference_runner",
        "max_batch_size",
        "max_sequence_length",
        "num_key_value_heads",
        "pad_key_length",
        "pre_allocate_kv_cache",
        "scale_attention_softmax_in_fp32",
        "validate_runner_input",
    ]);
    let shared = fields.flag("multi_query", true)?;
    let arch = gpt2(fields)?;
    Ok(Architecture {
        kv_heads: if shared { 1 } else { arch.heads },
        ..arch
    })
}

/// GPT-J and CodeGen: parallel layers under one norm, a head with bias.
pub(super) fn gptj(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&["n_positions", "rotary", "scale_attn"]);
    let arch = named_as_gpt2(fields)?;
    Ok(Architecture {
        tied_embeddings: fields.flag("tie_word_embeddings", false)?,
        positions: Positions::Rotary,
        norm: Norm {
            placement: NormPlacement::Shared,
            ..arch.norm
        },
        biases: Biases {
            mlp: true,
            norm: true,
            head: true,
            ..Biases::default()
        },
        parallel_layers: true,
        ..arch
    })
}

/// GPT-Neo: queries, keys and values without bias, every other layer with a window.
pub(super) fn gpt_neo(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "attention_layers",
        "embed_dropout",
        "resid_dropout",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
    ]);
    fields.activation("activation_function", false)?;
    let hidden = fields.number("hidden_size")?;
    let heads = fields.number("num_heads")?;
    let head_dim = fields.head_dim("num_heads", hidden, heads)?;
    let layers = fields.number("num_layers")?;
    let d_ff = fields.number_or("intermediate_size", hidden.saturating_mul(4))?;
    let size = fields.number_or("window_size", 256)?;
    if let Some(types) = fields.value("attention_types")
        && types != &serde_json::json!([[["global", "local"], layers / 2]])
    {
        let allowed = format!("[[[\"global\", \"local\"], {}]]", layers / 2);
        return fields.refuse("attention_types", &allowed);
    }
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Learned {
            max: fields.number("max_position_embeddings")?,
        },
        biases: Biases {
            qkv: false,
            ..Biases::ALL_BUT_HEAD
        },
        window: (layers > 1).then_some(Window {
            size,
            layers: layers / 2,
        }),
        ..gpt_like(layers, hidden, heads, head_dim, d_ff)
    })
}

/// BLOOM: ALiBi, and one more norm after the embedding.
pub(super) fn bloom(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "offset_alibi",
        "seq_length",
        "skip_bias_add",
        "skip_bias_add_qkv",
        "slow_but_exact",
        "unk_token_id",
    ]);
    fields.unsupported(&["apply_residual_connection_post_layernorm"]);
    let hidden_key = fields.named(&["hidden_size", "n_embed"]);
    let hidden = fields.number(hidden_key)?;
    let heads_key = fields.named(&["n_head", "num_attention_heads"]);
    let heads = fields.number(heads_key)?;
    let head_dim = fields.head_dim(heads_key, hidden, heads)?;
    let layers_key = fields.named(&["n_layer", "num_hidden_layers"]);
    let layers = fields.number(layers_key)?;
    let arch = gpt_like(layers, hidden, heads, head_dim, hidden.saturating_mul(4));
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Alibi,
        norm: Norm {
            placement: NormPlacement::PreAndEmbedding,
            ..arch.norm
        },
        ..arch
    })
}

/// Falcon: 7B with one key head and one norm, 40B and 180B with grouped heads and two norms, RW as GPT with ALiBi.
pub(super) fn falcon(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.unsupported(&["apply_residual_connection_post_layernorm"]);
    fields.activation("activation", false)?;
    let hidden_key = fields.named(&["hidden_size", "n_embed"]);
    let hidden = fields.number(hidden_key)?;
    let heads_key = fields.named(&["num_attention_heads", "n_head"]);
    let heads = fields.number(heads_key)?;
    let head_dim = fields.head_dim(heads_key, hidden, heads)?;
    let layers_key = fields.named(&["num_hidden_layers", "n_layer"]);
    let layers = fields.number(layers_key)?;
    let d_ff = fields.number_or("ffn_hidden_size", hidden.saturating_mul(4))?;
    let grouped = fields.flag("new_decoder_architecture", false)?;
    let shared = fields.flag("multi_query", true)?;
    let kv_key = fields.named(&["num_kv_heads", "n_head_kv"]);
    let kv_heads = fields.number_or(kv_key, heads)?;
    let parallel_layers = fields.flag("parallel_attn", true)? || grouped;
    let norms = fields.number_or("num_ln_in_parallel_attn", 1 + u64::from(grouped))?;
    let bias = fields.flag("bias", false)?;
    let arch = gpt_like(layers, hidden, heads, head_dim, d_ff);
    Ok(Architecture {
        kv_heads: match (grouped, shared) {
            (true, _) => kv_heads,
            (false, true) => 1,
            (false, false) => heads,
        },
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: if fields.flag("alibi", false)? {
            Positions::Alibi
        } else {
            Positions::Rotary
        },
        norm: Norm {
            placement: if parallel_layers && norms < 2 {
                NormPlacement::Shared
            } else {
                NormPlacement::Pre
            },
            ..arch.norm
        },
        biases: Biases {
            qkv: bias,
            attention_output: bias,
            mlp: bias,
            norm: true,
            ..Biases::default()
        },
        parallel_layers,
        ..arch
    })
}

/// DBRX: layer norm without bias, gated experts, sizes in nested objects.
pub(super) fn dbrx(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&["emb_pdrop", "max_seq_len", "resid_pdrop"]);
    let mut kv_heads = 1;
    if let Some(mut attention) = fields.object("attn_config")? {
        attention.ignore(&["attn_pdrop", "clip_qkv", "model_type"]);
        kv_heads = attention.number_or("kv_n_heads", 1)?;
        fields.finish_part(attention, "dbrx")?;
    }
    let Some(mut ffn) = fields.object("ffn_config")? else {
        return fields.refuse("ffn_config", "an object with the sizes of the experts");
    };
    ffn.ignore(&[
        "ffn_act_fn",
        "hidden_size",
        "model_type",
        "moe_jitter_eps",
        "moe_loss_weight",
        "moe_normalize_expert_weights",
        "uniform_expert_assignment",
    ]);
    let d_ff = ffn.number("ffn_hidden_size")?;
    let moe = Moe {
        experts: ffn.number("moe_num_experts")?,
        top_k: ffn.number("moe_top_k")?,
        d_ff,
        shared_d_ff: 0,
        dense_layers: 0,
        interval: 1,
        router_bias: false,
        shared_gate: false,
        latent: None,
    };
    fields.finish_part(ffn, "dbrx")?;
    let hidden = fields.number("d_model")?;
    let heads = fields.number("n_heads")?;
    let head_dim = fields.head_dim("n_heads", hidden, heads)?;
    let arch = gpt_like(fields.number("n_layers")?, hidden, heads, head_dim, d_ff);
    Ok(Architecture {
        kv_heads,
        mlp: Mlp {
            kind: MlpKind::Swiglu,
            d_ff,
        },
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", false)?,
        positions: Positions::Rotary,
        biases: Biases::default(),
        moe: Some(moe),
        ..arch
    })
}

pub(super) fn gpt_neox(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&["rotary_emb_base"]);
    fields.activation("hidden_act", false)?;
    let hidden = fields.number("hidden_size")?;
    let heads = fields.number("num_attention_heads")?;
    let head_dim = fields.head_dim("num_attention_heads", hidden, heads)?;
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

pub(super) fn opt(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&["activation_dropout", "init_std", "layerdrop", "output_projection"]);
    fields.unsupported(&["_remove_final_layer_norm"]);
    fields.activation("activation_function", false)?;
    for key in ["do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"] {
        if !fields.flag(key, true)? {
            return fields.refuse(key, "true; other models of this type are not modelled");
        }
    }
    let hidden = fields.number("hidden_size")?;
    fields.only("word_embed_proj_dim", hidden)?;
    let heads = fields.number("num_attention_heads")?;
    let head_dim = fields.head_dim("num_attention_heads", hidden, heads)?;
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

pub(super) fn mpt(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "emb_pdrop",
        "embedding_fraction",
        "init_config",
        "init_device",
        "learned_pos_emb",
        "max_seq_len",
        "verbose",
    ]);
    fields.unsupported(&["logit_scale"]);
    let norms = ["low_precision_layernorm", "layernorm"];
    fields.text("norm_type", Some(norms[0]), &norms)?;
    if !fields.flag("no_bias", true)? {
        return fields.refuse("no_bias", "true; other models of this type are not modelled");
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
        attention.unsupported(&["clip_qkv", "prefix_lm", "qk_ln"]);
        if !attention.flag("alibi", true)? {
            return attention.refuse("alibi", "true; other positions are not modelled");
        }
        fields.finish_part(attention, "mpt")?;
    }
    let hidden = fields.number("d_model")?;
    let heads = fields.number("n_heads")?;
    let head_dim = fields.head_dim("n_heads", hidden, heads)?;
    let d_ff = fields.number_or("expansion_ratio", 4)?.saturating_mul(hidden);
    Ok(Architecture {
        vocab: fields.number("vocab_size")?,
        tied_embeddings: fields.flag("tie_word_embeddings", true)?,
        positions: Positions::Alibi,
        biases: Biases::default(),
        ..gpt_like(fields.number("n_layers")?, hidden, heads, head_dim, d_ff)
    })
}
