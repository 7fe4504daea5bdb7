//! Readers of models built like GPT-2, with the defaults that `transformers` documents for each.

use super::super::{
    Architecture, Biases, Mlp, MlpKind, Norm, NormKind, NormPlacement, Positions, QkNorm,
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
    }
}

pub(super) fn gpt2(fields: &mut Fields<'_>) -> Result<Architecture> {
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
    fields.activation("activation_function", "gelu_new")?;
    let hidden = fields.number("n_embd")?;
    let heads = fields.number("n_head")?;
    let head_dim = fields.head_dim("n_head", hidden, heads)?;
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

pub(super) fn gpt_neox(fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&[
        "classifier_dropout",
        "gradient_checkpointing",
        "hidden_dropout",
        "is_decoder",
        "layer_norm_eps",
        "rotary_emb_base",
        "rotary_pct",
    ]);
    fields.activation("hidden_act", "gelu")?;
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
    fields.ignore(&[
        "activation_dropout",
        "dropout",
        "init_std",
        "layerdrop",
        "output_projection",
        "prefix",
    ]);
    fields.unsupported(&["_remove_final_layer_norm"])?;
    fields.activation("activation_function", "relu")?;
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
    let head_dim = fields.head_dim("n_heads", hidden, heads)?;
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
