//! Reader of models whose fields are named as in Llama; `types.rs` has what each type has beyond that.

use super::super::{Architecture, Biases, Mla, Mlp, MlpKind, Norm, NormKind, NormPlacement, Positions, QkNorm, Stated};
use super::fields::Fields;
use super::linear::{self, Hybrid};
use super::moe::{self, Experts};
use super::window::{self, Slides};
use crate::error::Result;

/// A property that a type always has, never has, or has where a field says so.
#[derive(Clone, Copy)]
pub(super) enum Switch {
    Off,
    On,
    /// The names of the field and what its absence means.
    Field(&'static [&'static str], bool),
}

impl Switch {
    pub fn read(self, fields: &mut Fields<'_>) -> Result<bool> {
        match self {
            Self::Off => Ok(false),
            Self::On => Ok(true),
            Self::Field(keys, default) => {
                let key = fields.named(keys);
                fields.flag(key, default)
            }
        }
    }
}

/// What a model type has beyond what all types of this style share.
#[derive(Clone, Copy)]
pub(super) struct Like {
    /// Layers, hidden, heads, MLP width, vocabulary of a `text_config` that leaves them out.
    pub(super) sizes: [u64; 5],
    /// `None` = as many as query heads.
    pub(super) kv_heads: Option<u64>,
    /// `None` = `hidden_size / num_attention_heads`.
    pub(super) head_dim: Option<u64>,
    pub(super) tied: bool,
    pub(super) mlp: MlpKind,
    /// The field with the width of the dense MLP.
    pub(super) d_ff: &'static str,
    pub(super) norm: NormKind,
    pub(super) placement: NormPlacement,
    /// Normalisation of queries and keys, and whether it is there.
    pub(super) qk: (QkNorm, Switch),
    pub(super) qkv_bias: Switch,
    pub(super) output_bias: Switch,
    pub(super) mlp_bias: Switch,
    pub(super) norm_bias: bool,
    pub(super) head_bias: Switch,
    /// Parallel layers, which have one norm for both branches.
    pub(super) parallel: Switch,
    pub(super) slides: Slides,
    /// Layers with linear attention.
    pub(super) linear: Option<Hybrid>,
    pub(super) experts: Option<Experts>,
    /// Attention sinks.
    pub(super) sinks: bool,
    /// An elementwise function that is learned.
    pub(super) has_xielu: bool,
    /// A gate as wide as the attention output.
    pub(super) output_gate: bool,
    /// Latent attention, whose missing fields are those of DeepSeek-V3.
    pub(super) latent: bool,
    /// Fields that change nothing this crate computes.
    pub(super) skips: &'static [&'static str],
    /// Fields whose effect is not modelled, which must be off.
    pub(super) off: &'static [&'static str],
    /// What the architecture does not count, said with every answer, where the field is there and not 0.
    pub(super) left_out: &'static [(&'static str, &'static str)],
}

/// Reads one of [`TYPES`].
pub(super) fn read(like: &Like, fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(like.skips);
    fields.unsupported(like.off);
    for key in ["hidden_act", "hidden_activation", "activation_function"] {
        fields.activation(key, like.mlp == MlpKind::Swiglu)?;
    }
    let [layers, hidden, heads, d_ff, vocab] = like.sizes;
    let hidden = fields.size("hidden_size", hidden)?;
    let heads = fields.size("num_attention_heads", heads)?;
    let kv_default = match like.kv_heads {
        // An explicit null means one key head per query head whatever the default is.
        Some(default) if !fields.has("num_key_value_heads") => default,
        _ => heads,
    };
    let kv_heads = fields.number_or("num_key_value_heads", kv_default)?;
    let mla = if like.latent { Some(latent(fields)?) } else { None };
    let stated_width = match mla {
        // `head_dim`, where saved, is the rotated part only.
        Some(mla) => Some(mla.qk_nope.saturating_add(mla.qk_rope)),
        None => {
            let key = fields.named(&["head_dim", "attention_head_dim"]);
            fields.optional(key)?.or(like.head_dim)
        }
    };
    let head_dim = match stated_width {
        Some(width) => width,
        None => fields.head_dim("num_attention_heads", hidden, heads)?,
    };
    let (qk, has_qk) = like.qk;
    let (has_qk, has_qkv_bias) = (has_qk.read(fields)?, like.qkv_bias.read(fields)?);
    // What the type has, the file may say again.
    if has_qk {
        fields.ignore(&["qk_layernorm", "qk_norm", "use_qk_norm"]);
    }
    if has_qkv_bias {
        fields.ignore(&["attention_bias", "qkv_bias", "use_qkv_bias"]);
    }
    let parallel_layers = like.parallel.read(fields)?;
    let blocks = match like.linear {
        Some(hybrid) => linear::layers(hybrid, fields)?,
        None => None,
    };
    let mut arch = Architecture {
        name: String::new(),
        layers: match blocks {
            Some(blocks) => blocks,
            None => {
                let key = fields.named(&["num_hidden_layers", "num_layers"]);
                fields.size(key, layers)?
            }
        },
        hidden,
        heads,
        kv_heads,
        head_dim,
        mlp: Mlp {
            kind: like.mlp,
            d_ff: fields.size(like.d_ff, d_ff)?,
        },
        vocab: fields.size("vocab_size", vocab)?,
        tied_embeddings: fields.flag("tie_word_embeddings", like.tied)?,
        positions: Positions::Rotary,
        norm: Norm {
            kind: like.norm,
            placement: if parallel_layers {
                NormPlacement::Shared
            } else {
                like.placement
            },
            qk: if has_qk { qk } else { QkNorm::None },
        },
        biases: Biases {
            qkv: has_qkv_bias,
            attention_output: like.output_bias.read(fields)?,
            mlp: like.mlp_bias.read(fields)?,
            norm: like.norm_bias,
            head: like.head_bias.read(fields)?,
            sinks: like.sinks,
            activation: like.has_xielu,
            experts: false,
        },
        parallel_layers,
        moe: None,
        mla,
        window: None,
        linear: None,
        mlp_layers: None,
        output_gate: like.output_gate,
        stated: Stated::default(),
    };
    let mut has_experts = true;
    match like.linear {
        None => window::read(like.slides, fields, &mut arch)?,
        Some(hybrid) => {
            linear::read(hybrid, fields, &mut arch)?;
            has_experts = linear::has_experts(hybrid, fields)?;
        }
    }
    if let Some(experts) = &like.experts {
        match has_experts {
            true => moe::read(experts, fields, &mut arch)?,
            false => moe::ignore(experts, fields),
        }
    }
    for &(key, what) in like.left_out {
        let value = fields.value(key);
        if value.is_some_and(|value| value.as_u64().is_some_and(|n| n > 0) || value == true) {
            arch.stated.leave_out(what);
        }
    }
    Ok(arch)
}

/// The widths of latent attention.
fn latent(fields: &mut Fields<'_>) -> Result<Mla> {
    Ok(Mla {
        q_lora_rank: match fields.has("q_lora_rank") {
            true => fields.optional("q_lora_rank")?,
            false => Some(1536),
        },
        kv_lora_rank: fields.number("kv_lora_rank")?,
        qk_nope: fields.number("qk_nope_head_dim")?,
        qk_rope: fields.number("qk_rope_head_dim")?,
        v_head_dim: fields.number("v_head_dim")?,
    })
}
