//! Reads a config by the row of its type.

use super::super::validate::MAX_LAYERS;
use super::super::{
    Architecture, Biases, Compressed, Index, Mla, Mlp, MlpKind, Norm, NormPlacement, Positions, QkNorm,
};
use super::fields::Fields;
use super::further;
use super::linear::{self, Hybrid};
use super::moe;
use super::table::{Indexed, Latent, Position, Row, table};
use super::varied::{self, Varied};
use super::window;
use crate::error::Result;

/// Reads the decoder that a row describes.
pub(super) fn read(row: &'static Row, fields: &mut Fields<'_>) -> Result<Architecture> {
    fields.ignore(&row.skips);
    fields.unsupported(&row.off);
    for key in &row.activations {
        fields.activation(key, row.mlp == MlpKind::Swiglu)?;
    }
    for (key, allowed) in &row.only {
        if let Some(value) = fields.value(key)
            && !allowed.contains(value)
        {
            let allowed: Vec<_> = allowed
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            return fields.refuse(
                key,
                &format!("{}; other models of this type are not modelled", allowed.join(" or ")),
            );
        }
    }
    for (key, other) in &row.same {
        let other = fields.number(other)?;
        fields.only(key, other)?;
    }
    let size = |part: usize| row.sizes.get(part).copied();
    let hidden_key = fields.named(&row.hidden);
    let hidden = fields.size(hidden_key, size(1))?;
    let heads_key = match row.heads.is_empty() {
        true => "",
        false => fields.named(&row.heads),
    };
    let heads = match heads_key {
        "" => 1,
        key => fields.size(key, size(2))?,
    };
    let kv_heads = match row.kv_heads.is_empty() {
        true => heads,
        false => {
            let key = fields.named(&row.kv_heads);
            // An explicit null means one key head per query head whatever the default is.
            let default = match row.kv_heads_default {
                default if default > 0 && !fields.has(key) => default,
                _ => heads,
            };
            fields.number_or(key, default)?
        }
    };
    let kv_heads = if row.one_kv_head.read(fields)? { 1 } else { kv_heads };
    let mla = match &row.latent {
        Latent::None => None,
        Latent::Of { query_rank, value_dim } => Some(latent(fields, *query_rank, *value_dim)?),
    };
    let stated_width = match mla {
        // `head_dim`, where saved, is the rotated part only.
        Some(mla) => Some(mla.qk_nope.saturating_add(mla.qk_rope)),
        None => {
            let stated = match row.head_dim.is_empty() {
                true => None,
                false => {
                    let key = fields.named(&row.head_dim);
                    fields.optional(key)?
                }
            };
            stated.or(Some(row.head_dim_default).filter(|width| *width > 0))
        }
    };
    let head_dim = match stated_width {
        Some(width) => width,
        None => fields.head_dim(heads_key, hidden, heads)?,
    };
    let (qk, has_qk) = &row.qk;
    let (has_qk, has_qkv_bias) = (has_qk.read(fields)?, row.qkv_bias.read(fields)?);
    // What the type has, the file may say again.
    if has_qk {
        fields.ignore(&["qk_layernorm", "qk_norm", "use_qk_norm"]);
    }
    if has_qkv_bias {
        fields.ignore(&["attention_bias", "qkv_bias", "use_qkv_bias"]);
    }
    let parallel_layers = row.parallel.read(fields)?;
    let has_one_norm = row.parallel_norms.read(fields)? < 2;
    let layers = match linear::layers(row.linear, fields)? {
        Some(blocks) => blocks,
        None => {
            let key = fields.named(&row.layers);
            fields.size(key, size(0))?.saturating_mul(row.layers_each)
        }
    };
    let ratio = row.d_ff_per_hidden.read(fields)?;
    let usual = ratio.saturating_mul(hidden);
    let d_ff = match row.d_ff.is_empty() {
        true => usual,
        false => {
            let key = fields.named(&row.d_ff);
            match ratio {
                0 => fields.size(key, size(3))?,
                _ => fields.number_or(key, usual)?,
            }
        }
    };
    let vocab_key = fields.named(&row.vocab);
    let mut arch = Architecture {
        layers,
        kv_heads,
        head_dim,
        mlp: Mlp { kind: row.mlp, d_ff },
        vocab: fields.size(vocab_key, size(4))?,
        tied_embeddings: fields.flag("tie_word_embeddings", row.tied)?,
        positions: match &row.positions {
            Position::Rotary => Positions::Rotary,
            Position::Alibi => Positions::Alibi,
            Position::None => Positions::None,
            Position::Learned(key, more) => Positions::Learned {
                max: fields.number(key)?,
                spare: *more,
            },
            Position::AlibiWhere(flag) => match flag.read(fields)? {
                true => Positions::Alibi,
                false => Positions::Rotary,
            },
        },
        norm: Norm {
            kind: row.norm,
            placement: if parallel_layers && has_one_norm {
                NormPlacement::Shared
            } else {
                row.placement
            },
            qk: if has_qk { *qk } else { QkNorm::None },
        },
        biases: Biases {
            qkv: has_qkv_bias,
            attention_output: row.output_bias.read(fields)?,
            mlp: row.mlp_bias.read(fields)?,
            norm: row.norm_bias,
            head: row.head_bias.read(fields)?,
            sinks: row.sinks,
            activation: row.xielu,
            experts: false,
        },
        parallel_layers,
        mla,
        index: match row.index {
            Indexed::None => None,
            Indexed::Keys => Some(index(fields, layers)?),
            Indexed::Blocks => Some(blocks(fields, layers)?),
        },
        compressed: match row.compressed {
            true => Some(Compressed {
                query_rank: fields.number("q_lora_rank")?,
                output_groups: fields.number_or("o_groups", 8)?,
                output_rank: fields.number_or("o_lora_rank", 1024)?,
                stride: 0,
            }),
            false => None,
        },
        output_gate: row.output_gate.read(fields)?,
        head_gate: row.head_gate.read(fields)?,
        value_head_dim: match &row.value_head_dim {
            Some(key) => fields.optional(key)?,
            None => None,
        },
        ..Architecture::gpt(hidden, layers, heads)
    };
    match row.linear {
        // Kinds of layers read their own windows.
        Hybrid::None if !matches!(row.kinds, Varied::None) => {}
        Hybrid::None => window::read(row, fields, &mut arch)?,
        hybrid => linear::read(hybrid, fields, &mut arch)?,
    }
    if let Some(experts) = &row.experts {
        match linear::has_experts(row.linear, fields)? {
            true => moe::read(experts, fields, &mut arch)?,
            false => moe::ignore(experts, fields),
        }
    }
    varied::read(row, fields, &mut arch)?;
    further::read(row, fields, &mut arch)?;
    let lists = &table().lists;
    for (key, what) in row.left_out.iter().chain(&lists.further_tokens) {
        if fields.is_on(key) {
            arch.stated.leave_out(what);
            arch.stated.predicts_further |= lists.further_tokens.contains_key(key);
        }
    }
    Ok(arch)
}

/// The index of the keys; layers without one of their own are said as a list, or by their interval and the first of them
/// (`GlmMoeDsaConfig`).
fn index(fields: &mut Fields<'_>, layers: u64) -> Result<Index> {
    let listed = fields.texts("indexer_types")?;
    let interval = fields.number_or("index_topk_freq", 1)?.max(1);
    let offset = fields.number_or("index_skip_topk_offset", 2)?;
    let own = match listed {
        Some(listed) => {
            let allowed = format!("`full` or `shared` for each of {layers} layers");
            fields.layers_of("indexer_types", &listed, layers, [&["full"], &["shared"]], &allowed)?
        }
        // More layers than any architecture may have are refused later.
        None => (0..layers.min(MAX_LAYERS))
            .filter(|layer| (layer + 1).saturating_sub(offset).is_multiple_of(interval))
            .count() as u64,
    };
    Ok(Index {
        heads: fields.number("index_n_heads")?,
        head_dim: fields.number("index_head_dim")?,
        top_k: fields.number("index_topk")?,
        layers: own,
        block: 1,
    })
}

/// The index of blocks of keys; their number and size are said in the file or in a part of it.
fn blocks(fields: &mut Fields<'_>, layers: u64) -> Result<Index> {
    let mut number = |names: &'static [&'static str], default| {
        let key = fields.named(names);
        fields.ignore(names);
        fields.number_or(key, default)
    };
    let block = number(&["index_block_size", "sparse_attention_config.sparse_block_size"], 128)?;
    Ok(Index {
        heads: number(&["index_n_heads", "sparse_attention_config.sparse_num_index_heads"], 4)?,
        head_dim: number(&["index_head_dim", "sparse_attention_config.sparse_index_dim"], 128)?,
        top_k: number(&["index_topk_blocks", "sparse_attention_config.sparse_topk_blocks"], 16)?.saturating_mul(block),
        layers,
        block,
    })
}

/// The widths of latent attention, with the defaults of the type.
fn latent(fields: &mut Fields<'_>, query_rank: u64, value_dim: u64) -> Result<Mla> {
    Ok(Mla {
        q_lora_rank: match fields.has("q_lora_rank") {
            true => fields.optional("q_lora_rank")?,
            false => Some(query_rank).filter(|rank| *rank > 0),
        },
        kv_lora_rank: fields.number("kv_lora_rank")?,
        qk_nope: fields.number("qk_nope_head_dim")?,
        qk_rope: fields.number("qk_rope_head_dim")?,
        v_head_dim: fields.number_unless("v_head_dim", value_dim)?,
    })
}
