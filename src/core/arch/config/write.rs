//! Writing an [`Architecture`] as a Hugging Face `config.json`.
//!
//! The `model_type` is the first of those in `data/hf-types.toml` whose layers are exactly those of the architecture: what
//! is written reads back as the same architecture. What no type there has is refused, never approximated. What no
//! architecture holds is that of the file that it was read from, else the usual value: SiLU or GELU, rotation of whole heads
//! with base 10,000, bf16 weights, no special tokens.

use super::super::{Architecture, LayerKind, NormKind, Positions, QkNorm};
use super::read_object;
use super::table::{Written, table};
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;

/// A `config.json` from which `transformers` builds this architecture.
///
/// `max_positions` is the longest sequence that the model promises to take; a learned table of positions keeps its
/// own length.
pub fn config_json(arch: &Architecture, max_positions: u64) -> Result<Value> {
    arch.validate()?;
    demand(arch, max_positions > 0, "max_positions", max_positions, "at least 1")?;
    // Rotation turns the elements of a head in pairs.
    let even = arch.positions != Positions::Rotary || arch.head_dim.is_multiple_of(2);
    let allowed = "even with rotary positions";
    demand(arch, even, "head_dim", arch.head_dim, allowed)?;
    let all = fields(arch, max_positions);
    let mut nearest: Option<(Vec<Difference>, &Written)> = None;
    let mut unread = None;
    for kind in &table().lists.writes {
        let config = config(&all, kind);
        let read = match read_object(&config, &arch.name, &kind.model_type) {
            Ok(read) => read,
            Err(error) => {
                unread = Some(error);
                continue;
            }
        };
        let differences = differences(arch, &read, &kind.model_type);
        if differences.is_empty() {
            return Ok(config);
        }
        if nearest
            .as_ref()
            .is_none_or(|(known, _)| differences.len() < known.len())
        {
            nearest = Some((differences, kind));
        }
    }
    let Some((differences, kind)) = nearest else {
        return Err(unread.expect("there are types that are written"));
    };
    let [field, own, allowed] = &differences[0];
    let allowed = format!("{allowed} for a {}, the nearest type", kind.model_type);
    demand(arch, false, field, own, &allowed).map(|()| Value::Null)
}

/// The code of Nemotron-NAS, which `transformers` fetches where it may run code of others.
const NEMOTRON_NAS: &str = "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5";

/// Units of the widths that Nemotron-NAS can have.
const NAS_WIDTH: u64 = 256;

/// A `config.json` of Nemotron-NAS, for layers of their own in a model that is like Llama otherwise.
pub fn layers_json(arch: &Architecture, layers: &[LayerKind], max_positions: u64) -> Result<Value> {
    let kept: Vec<_> = layers.iter().filter(|layer| layer.is_something()).collect();
    let mut config = config_json(arch, max_positions)?;
    let is_llama = config["model_type"] == "llama" && arch.heads * arch.head_dim == arch.hidden;
    demand(
        arch,
        is_llama,
        "kinds",
        "given",
        "nothing unless it is a llama otherwise, with heads as wide as hidden together",
    )?;
    let blocks = kept.iter().map(|layer| {
        let is_whole = layer.d_ff.is_multiple_of(NAS_WIDTH);
        demand(
            arch,
            is_whole,
            "kinds.d_ff",
            layer.d_ff,
            "a multiple of 256 for a nemotron-nas",
        )?;
        let group = (layer.heads > 0).then(|| layer.heads / layer.kv_heads);
        // Widths are two thirds of it, in units of the hidden size.
        let multiple = (layer.d_ff > 0).then(|| layer.d_ff as f64 * 1.5 / arch.hidden as f64);
        Ok(json!({
            "attention": { "n_heads_in_group": group, "no_op": group.is_none(), "replace_with_linear": false },
            "ffn": { "ffn_mult": multiple, "no_op": multiple.is_none(), "replace_with_linear": false },
        }))
    });
    let of_blocks = json!({
        "architectures": ["DeciLMForCausalLM"],
        "auto_map": {
            "AutoConfig": format!("{NEMOTRON_NAS}--configuration_decilm.DeciLMConfig"),
            "AutoModelForCausalLM": format!("{NEMOTRON_NAS}--modeling_decilm.DeciLMForCausalLM"),
        },
        "block_configs": blocks.collect::<Result<Vec<_>>>()?,
        "intermediate_size": null,
        "model_type": "nemotron-nas",
        "num_hidden_layers": kept.len(),
        "num_key_value_heads": null,
    });
    extend(&mut config, of_blocks);
    Ok(config)
}

/// Refuses a field unless its demand is met.
fn demand(arch: &Architecture, met: bool, field: &str, value: impl Display, allowed: &str) -> Result<()> {
    if met {
        return Ok(());
    }
    let place = format!("architecture `{}` as a Hugging Face config", arch.name);
    Err(Error::field(place, field, value, allowed))
}

/// Adds the fields of one object to another.
fn extend(config: &mut Value, fields: Value) {
    if let (Value::Object(config), Value::Object(fields)) = (config, fields) {
        config.extend(fields);
    }
}

/// The file of a type.
fn config(all: &Value, kind: &Written) -> Value {
    let own = [
        "bos_token_id",
        "eos_token_id",
        "tie_word_embeddings",
        "torch_dtype",
        "vocab_size",
    ];
    let names = own.into_iter().chain(kind.fields.split_whitespace());
    let mut fields: Map<String, Value> = names.map(|name| (name.to_owned(), all[name].clone())).collect();
    let further = table().lists.kept.iter().filter(|name| !all[name.as_str()].is_null());
    fields.extend(further.map(|name| (name.clone(), all[name].clone())));
    fields.insert("architectures".to_owned(), json!([kind.class]));
    fields.insert("model_type".to_owned(), json!(kind.model_type));
    fields.into()
}

/// Every field that a type may have.
fn fields(arch: &Architecture, max_positions: u64) -> Value {
    let is_gpt = arch.norm.kind == NormKind::LayerNorm;
    let qkv = arch.biases.qkv;
    let sizes = json!({
        "attention_bias": qkv,
        "ffn_dim": arch.mlp.d_ff,
        "first_k_dense_replace": arch.layers,
        "head_dim": arch.head_dim,
        "hidden_act": if is_gpt { "gelu" } else { "silu" },
        "hidden_size": arch.hidden,
        "intermediate_size": arch.mlp.d_ff,
        "layer_types": layer_types(arch),
        "max_window_layers": arch.layers - arch.window.map_or(0, |window| window.layers),
        "mlp_bias": arch.biases.mlp,
        "moe_intermediate_size": arch.mlp.d_ff,
        "n_embd": arch.hidden,
        "n_head": arch.heads,
        "n_inner": arch.mlp.d_ff,
        "n_layer": arch.layers,
        "num_attention_heads": arch.heads,
        "num_hidden_layers": arch.layers,
        "num_key_value_heads": arch.kv_heads,
        "sliding_window": arch.window.map(|window| window.size),
        "tie_word_embeddings": arch.tied_embeddings,
        "use_parallel_residual": arch.parallel_layers,
        "use_qk_norm": arch.norm.qk == QkNorm::Head,
        "use_sliding_window": arch.window.is_some(),
        "vocab_size": arch.vocab,
        "word_embed_proj_dim": arch.hidden,
    });
    let mut fields = Value::Object(table().lists.usual.clone());
    let mut extend = |more| extend(&mut fields, more);
    let kept = arch.stated.unshaped();
    let longest = kept.get("max_position_embeddings").and_then(Value::as_u64);
    extend(Value::Object(kept));
    extend(sizes);
    extend(json!({ "max_position_embeddings": longest.unwrap_or(0).max(max_positions) }));
    if let Positions::Learned { max, .. } = arch.positions {
        extend(json!({ "max_position_embeddings": max, "n_positions": max }));
    }
    if let Some(moe) = &arch.moe {
        extend(json!({
            "first_k_dense_replace": moe.dense_layers,
            "moe_intermediate_size": moe.d_ff,
            "n_routed_experts": moe.experts,
            "n_shared_experts": moe.shared_d_ff / moe.d_ff,
            "num_experts": moe.experts,
            "num_experts_per_tok": moe.top_k,
            "num_local_experts": moe.experts,
        }));
    }
    if let Some(mla) = &arch.mla {
        extend(json!({
            // What is rotated, as these types mean it.
            "head_dim": mla.qk_rope,
            "kv_lora_rank": mla.kv_lora_rank,
            "q_lora_rank": mla.q_lora_rank,
            "qk_nope_head_dim": mla.qk_nope,
            "qk_rope_head_dim": mla.qk_rope,
            "v_head_dim": mla.v_head_dim,
        }));
    }
    if let Some(index) = &arch.index {
        extend(json!({
            "index_head_dim": index.head_dim,
            "index_n_heads": index.heads,
            "index_topk": index.top_k,
        }));
    }
    fields
}

/// Which layers see a window, as even as it goes, the first ones sliding.
fn layer_types(arch: &Architecture) -> Vec<&'static str> {
    let (layers, slides) = (arch.layers, arch.window.map_or(0, |window| window.layers));
    let full = |before: u64| before * (layers - slides) / layers;
    let kinds = (0..layers).map(|layer| match full(layer + 1) > full(layer) {
        true => "full_attention",
        false => "sliding_attention",
    });
    kinds.collect()
}

/// A field, what it is, and what it would have to be.
type Difference = [String; 3];

/// Fields in which an architecture differs from what was read back as this type.
fn differences(arch: &Architecture, read: &Architecture, model_type: &str) -> Vec<Difference> {
    let [own, other] = [arch, read].map(|arch| {
        let mut leaves = BTreeMap::new();
        add_leaves("", &json!(arch), &mut leaves);
        leaves
    });
    let names = own.keys().chain(other.keys().filter(|name| !own.contains_key(*name)));
    let word = |leaves: &BTreeMap<String, String>, name: &str| leaves.get(name).cloned().unwrap_or("absent".to_owned());
    let differences = names.filter(|name| own.get(*name) != other.get(*name));
    let mut found: Vec<Difference> = differences
        .map(|name| [name.clone(), word(&own, name), word(&other, name)])
        .collect();
    // `transformers` wants whole heads of the hidden size for Llama, even where the head size is given.
    if model_type == "llama" && !arch.hidden.is_multiple_of(arch.heads) {
        let allowed = format!("a divisor of hidden = {}", arch.hidden);
        found.push(["heads".to_owned(), arch.heads.to_string(), allowed]);
    }
    found
}

/// What an object holds, by path.
fn add_leaves(path: &str, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let dot = if path.is_empty() { "" } else { "." };
            add_leaves(&format!("{path}{dot}{name}"), value, leaves);
        }),
        Value::Null => {}
        Value::String(text) => drop(leaves.insert(path.to_owned(), text.clone())),
        other => drop(leaves.insert(path.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests;
