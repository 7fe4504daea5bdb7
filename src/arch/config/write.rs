//! Writing an [`Architecture`] as a Hugging Face `config.json`.
//!
//! The `model_type` is the one whose layers are exactly those of the architecture, so what is written here reads back
//! as the same architecture. What no type here has is refused, never approximated. What no architecture holds gets
//! the usual value: SiLU or GELU, rotation of whole heads with base 10,000, bf16 weights, no special tokens.

use super::super::{Architecture, KeyValues, LayerKind, Mla, MlpKind, Moe, NormKind, NormPlacement, Positions, QkNorm};
use crate::error::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Display;

/// A `config.json` from which `transformers` builds this architecture.
///
/// `max_positions` is the longest sequence that the model promises to take; a learned table of positions keeps its
/// own length.
pub fn config_json(arch: &Architecture, max_positions: u64) -> Result<Value> {
    arch.validate()?;
    demand(arch, max_positions > 0, "max_positions", max_positions, "at least 1")?;
    for (field, value) in [
        ("biases.head", arch.biases.head),
        ("biases.experts", arch.biases.experts),
        ("biases.sinks", arch.biases.sinks),
        ("biases.activation", arch.biases.activation),
        ("output_gate", arch.output_gate),
        ("head_gate", arch.head_gate),
        ("linear", arch.linear.is_some()),
        ("kinds", !arch.kinds.is_empty()),
    ] {
        demand(arch, !value, field, value, "false")?;
    }
    let two = arch.key_values == KeyValues::Two;
    demand(arch, two, "key_values", arch.key_values, "two")?;
    for (field, value) in [
        ("mlp_layers", arch.mlp_layers),
        ("value_head_dim", arch.value_head_dim.filter(|_| arch.mla.is_none())),
        ("moe.latent", arch.moe.and_then(|moe| moe.latent)),
        ("moe.norms", arch.moe.map(|moe| moe.norms).filter(|norms| *norms > 0)),
    ] {
        if let Some(value) = value {
            demand(arch, false, field, value, "absent")?;
        }
    }
    if arch.positions == Positions::Rotary {
        // Rotation turns the elements of a head in pairs.
        let even = arch.head_dim.is_multiple_of(2);
        let allowed = "even with rotary positions";
        demand(arch, even, "head_dim", arch.head_dim, allowed)?;
    }
    let mut config = match arch.norm.kind {
        NormKind::RmsNorm => like_llama(arch, max_positions)?,
        NormKind::LayerNorm => like_gpt(arch, max_positions)?,
        NormKind::UnweightedLayerNorm | NormKind::UnweightedRmsNorm => {
            let allowed = "rms_norm or layer_norm";
            return demand(arch, false, "norm.kind", arch.norm.kind, allowed).map(|()| json!({}));
        }
    };
    extend(
        &mut config,
        json!({
            "bos_token_id": null,
            "eos_token_id": null,
            "tie_word_embeddings": arch.tied_embeddings,
            "torch_dtype": "bfloat16",
            "vocab_size": arch.vocab,
        }),
    );
    Ok(config)
}

/// The code of Nemotron-NAS, which `transformers` fetches where it may run code of others.
const NEMOTRON_NAS: &str = "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5";

/// Units of the widths that Nemotron-NAS can have.
const NAS_WIDTH: u64 = 256;

/// A `config.json` of Nemotron-NAS, for layers of their own in a model that is like Llama otherwise.
pub fn layers_json(arch: &Architecture, layers: &[LayerKind], max_positions: u64) -> Result<Value> {
    let kept: Vec<_> = layers.iter().filter(|layer| layer.is_something()).collect();
    let mut config = config_json(arch, max_positions)?;
    let is_llama = config["model_type"] == LLAMA.name && arch.heads * arch.head_dim == arch.hidden;
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

/// Which biases the projections of attention may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttentionBias {
    None,
    /// On queries, keys and values, always.
    Qkv,
    /// On all four projections or on none, as `attention_bias` says.
    Flag,
    /// On queries, keys and values or on none, as `attention_bias` says.
    QkvFlag,
}

/// Which layers may have a sliding window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slides {
    None,
    All,
    /// All from one layer on.
    Last,
    /// Those that a list names.
    Listed,
}

/// What a model type built like Llama can express beyond what all of them share.
struct Type {
    name: &'static str,
    class: &'static str,
    attention_bias: AttentionBias,
    mlp_bias: bool,
    slides: Slides,
}

const LLAMA: Type = Type {
    name: "llama",
    class: "LlamaForCausalLM",
    attention_bias: AttentionBias::Flag,
    mlp_bias: true,
    slides: Slides::None,
};
const MISTRAL: Type = Type {
    name: "mistral",
    class: "MistralForCausalLM",
    attention_bias: AttentionBias::None,
    mlp_bias: false,
    slides: Slides::All,
};
/// Mistral in which some layers see everything.
const MINISTRAL: Type = Type {
    name: "ministral",
    class: "MinistralForCausalLM",
    slides: Slides::Listed,
    ..MISTRAL
};
const MIXTRAL: Type = Type {
    name: "mixtral",
    class: "MixtralForCausalLM",
    ..MISTRAL
};
const OLMO2: Type = Type {
    name: "olmo2",
    class: "Olmo2ForCausalLM",
    mlp_bias: false,
    ..LLAMA
};
const QWEN2: Type = Type {
    name: "qwen2",
    class: "Qwen2ForCausalLM",
    attention_bias: AttentionBias::Qkv,
    mlp_bias: false,
    slides: Slides::Last,
};
const QWEN3: Type = Type {
    name: "qwen3",
    class: "Qwen3ForCausalLM",
    attention_bias: AttentionBias::Flag,
    ..QWEN2
};
const QWEN3_MOE: Type = Type {
    name: "qwen3_moe",
    class: "Qwen3MoeForCausalLM",
    slides: Slides::None,
    ..QWEN3
};

/// DeepSeek-V3 routing, shared experts and dense first layers, with grouped-query attention.
const GLM4_MOE: Type = Type {
    name: "glm4_moe",
    class: "Glm4MoeForCausalLM",
    attention_bias: AttentionBias::QkvFlag,
    mlp_bias: false,
    slides: Slides::None,
};

/// Latent attention; without experts all layers are leading dense ones.
const DEEPSEEK_V3: Type = Type {
    name: "deepseek_v3",
    class: "DeepseekV3ForCausalLM",
    attention_bias: AttentionBias::Flag,
    ..GLM4_MOE
};

/// The same with an index in every layer.
const DEEPSEEK_V32: Type = Type {
    name: "deepseek_v32",
    class: "DeepseekV32ForCausalLM",
    ..DEEPSEEK_V3
};

/// The same without a correction for each expert in the router.
const DEEPSEEK_V2: Type = Type {
    name: "deepseek_v2",
    class: "DeepseekV2ForCausalLM",
    ..DEEPSEEK_V3
};

/// The type that has these norms, experts and biases.
fn type_of(arch: &Architecture) -> Result<&'static Type> {
    let biases = arch.biases;
    let norm = arch.norm;
    let corrected = arch.moe.is_some_and(|moe| moe.router_bias);
    match (norm.placement, norm.qk, arch.moe.is_some()) {
        (NormPlacement::Pre, QkNorm::None, _) if arch.index.is_some() => {
            let own = arch.index.map_or(0, |index| index.layers);
            let allowed = format!("every one of {} layers for a deepseek_v32", arch.layers);
            demand(arch, own == arch.layers, "index.layers", own, &allowed).map(|()| &DEEPSEEK_V32)
        }
        (NormPlacement::Pre, QkNorm::None, is_mixture) if arch.mla.is_some() => Ok(match is_mixture && !corrected {
            true => &DEEPSEEK_V2,
            false => &DEEPSEEK_V3,
        }),
        _ if arch.mla.is_some() => {
            let allowed = "none with latent attention, beside norm.placement = pre";
            demand(arch, false, "norm.qk", norm.qk, allowed).map(|()| &DEEPSEEK_V3)
        }
        (NormPlacement::Pre, QkNorm::None | QkNorm::Head, true) if corrected => Ok(&GLM4_MOE),
        (NormPlacement::Pre, QkNorm::Head, false) => Ok(&QWEN3),
        (NormPlacement::Pre, QkNorm::Head, true) => Ok(&QWEN3_MOE),
        (NormPlacement::Pre, QkNorm::None, true) => Ok(&MIXTRAL),
        (NormPlacement::Pre, QkNorm::None, false) => {
            // `transformers` wants whole heads of the hidden size for Llama, even where the head size is given.
            let divides = arch.hidden.is_multiple_of(arch.heads);
            let sees_both = arch.window.is_some_and(|window| window.layers < arch.layers);
            Ok(match (biases.qkv, biases.attention_output) {
                (true, false) => &QWEN2,
                (false, false) if !biases.mlp && sees_both => &MINISTRAL,
                (false, false) if !biases.mlp && (arch.window.is_some() || !divides) => &MISTRAL,
                _ => {
                    let allowed = format!("a divisor of hidden = {} for a llama", arch.hidden);
                    demand(arch, divides, "heads", arch.heads, &allowed)?;
                    &LLAMA
                }
            })
        }
        (NormPlacement::Post, QkNorm::Full, moe) => {
            let allowed = "absent with norm.placement = post";
            demand(arch, !moe, "moe", "given", allowed).map(|()| &OLMO2)
        }
        (NormPlacement::Pre, qk, _) => {
            let allowed = "none or head with norm.placement = pre";
            demand(arch, false, "norm.qk", qk, allowed).map(|()| &LLAMA)
        }
        (placement, ..) => {
            let allowed = "pre, or post with norm.qk = full";
            demand(arch, false, "norm.placement", placement, allowed).map(|()| &LLAMA)
        }
    }
}

/// Models built like Llama: RMSNorm, SwiGLU, rotary positions.
fn like_llama(arch: &Architecture, max_positions: u64) -> Result<Value> {
    let (mlp, biases) = (arch.mlp, arch.biases);
    let with = "with norm.kind = rms_norm";
    let gated = mlp.kind == MlpKind::Swiglu;
    demand(arch, gated, "mlp.kind", mlp.kind, &format!("swiglu {with}"))?;
    let rotary = arch.positions == Positions::Rotary;
    let allowed = format!("rotary {with}");
    demand(arch, rotary, "positions", positions(arch), &allowed)?;
    let allowed = format!("false {with}");
    let parallel = arch.parallel_layers;
    demand(arch, !parallel, "parallel_layers", parallel, &allowed)?;
    demand(arch, !biases.norm, "biases.norm", biases.norm, &allowed)?;

    let kind = type_of(arch)?;
    let mut config = json!({
        "architectures": [kind.class],
        "head_dim": arch.head_dim,
        "hidden_act": "silu",
        "hidden_size": arch.hidden,
        "intermediate_size": mlp.d_ff,
        "max_position_embeddings": max_positions,
        "model_type": kind.name,
        "num_attention_heads": arch.heads,
        "num_hidden_layers": arch.layers,
        "num_key_value_heads": arch.kv_heads,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
    });
    extend(&mut config, bias_fields(arch, kind)?);
    extend(&mut config, window_fields(arch, kind)?);
    if let Some(moe) = &arch.moe {
        extend(&mut config, expert_fields(arch, moe, kind)?);
    }
    if let Some(mla) = &arch.mla {
        extend(&mut config, latent_fields(arch, mla));
    }
    if let Some(index) = &arch.index {
        let fields = json!({
            "index_head_dim": index.head_dim,
            "index_n_heads": index.heads,
            "index_topk": index.top_k,
        });
        extend(&mut config, fields);
    }
    Ok(config)
}

/// Latent attention, and experts in no layer where there are none.
fn latent_fields(arch: &Architecture, mla: &Mla) -> Value {
    let mut fields = json!({
        // What is rotated, as these types mean it.
        "head_dim": mla.qk_rope,
        "kv_lora_rank": mla.kv_lora_rank,
        "q_lora_rank": mla.q_lora_rank,
        "qk_nope_head_dim": mla.qk_nope,
        "qk_rope_head_dim": mla.qk_rope,
        "v_head_dim": mla.v_head_dim,
    });
    if arch.moe.is_none() {
        let unused = json!({
            "first_k_dense_replace": arch.layers,
            "moe_intermediate_size": arch.mlp.d_ff,
            "n_group": 1,
            "n_routed_experts": 1,
            "n_shared_experts": 0,
            "num_experts_per_tok": 1,
            "topk_group": 1,
        });
        extend(&mut fields, unused);
    }
    fields
}

/// Positions as a word.
fn positions(arch: &Architecture) -> &'static str {
    match arch.positions {
        Positions::Learned { .. } => "learned",
        Positions::Rotary => "rotary",
        Positions::Alibi => "alibi",
        Positions::None => "none",
    }
}

fn bias_fields(arch: &Architecture, kind: &Type) -> Result<Value> {
    let (biases, name) = (arch.biases, kind.name);
    let (qkv, output, mlp) = (biases.qkv, biases.attention_output, biases.mlp);
    let (qkv_allowed, output_allowed) = match kind.attention_bias {
        AttentionBias::None => (false, false),
        AttentionBias::Qkv => (true, false),
        AttentionBias::Flag => (qkv, qkv),
        AttentionBias::QkvFlag => (qkv, false),
    };
    for (field, value, allowed) in [
        ("biases.qkv", qkv, qkv_allowed),
        ("biases.attention_output", output, output_allowed),
        ("biases.mlp", mlp, mlp && kind.mlp_bias),
    ] {
        let text = format!("{allowed} for a {name} with these norms and biases");
        demand(arch, value == allowed, field, value, &text)?;
    }
    let mut fields = json!({});
    if matches!(kind.attention_bias, AttentionBias::Flag | AttentionBias::QkvFlag) {
        extend(&mut fields, json!({ "attention_bias": qkv }));
    }
    if kind.mlp_bias {
        extend(&mut fields, json!({ "mlp_bias": mlp }));
    }
    Ok(fields)
}

fn window_fields(arch: &Architecture, kind: &Type) -> Result<Value> {
    let (layers, name) = (arch.layers, kind.name);
    Ok(match (kind.slides, arch.window) {
        (Slides::None, None) => json!({}),
        (Slides::None, Some(_)) => {
            let allowed = format!("absent for a {name}");
            demand(arch, false, "window", "given", &allowed)?;
            json!({})
        }
        (Slides::All, None) => json!({ "sliding_window": null }),
        (Slides::All, Some(window)) => {
            let allowed = format!("layers = {layers} for a {name}");
            let all = window.layers == layers;
            demand(arch, all, "window.layers", window.layers, &allowed)?;
            json!({ "sliding_window": window.size })
        }
        (Slides::Listed, window) => {
            let slides = window.map_or(0, |window| window.layers);
            let kinds = (0..layers).map(|layer| {
                // As even as it goes, the first ones sliding.
                let full = |before: u64| before * (layers - slides) / layers;
                match full(layer + 1) > full(layer) {
                    true => "full_attention",
                    false => "sliding_attention",
                }
            });
            json!({
                "layer_types": kinds.collect::<Vec<_>>(),
                "sliding_window": window.map(|window| window.size),
            })
        }
        (Slides::Last, None) => json!({ "use_sliding_window": false }),
        (Slides::Last, Some(window)) => json!({
            "max_window_layers": layers - window.layers,
            "sliding_window": window.size,
            "use_sliding_window": true,
        }),
    })
}

fn expert_fields(arch: &Architecture, moe: &Moe, kind: &Type) -> Result<Value> {
    let (name, shared, dense) = (kind.name, moe.shared_d_ff, moe.dense_layers);
    let allowed = format!("false for a {name}");
    let is_glm = name == GLM4_MOE.name;
    let shares = is_glm || arch.mla.is_some();
    if shares {
        let whole = shared.is_multiple_of(moe.d_ff);
        let allowed = format!("a multiple of moe.d_ff = {} for a {name}", moe.d_ff);
        demand(arch, whole, "moe.shared_d_ff", shared, &allowed)?;
    } else {
        let zero = format!("0 for a {name}");
        demand(arch, shared == 0, "moe.shared_d_ff", shared, &zero)?;
        demand(arch, dense == 0, "moe.dense_layers", dense, &zero)?;
        demand(arch, !moe.router_bias, "moe.router_bias", moe.router_bias, &allowed)?;
    }
    let every = moe.interval == 1;
    demand(arch, every, "moe.interval", moe.interval, &format!("1 for a {name}"))?;
    let gate = moe.shared_gate;
    demand(arch, !gate, "moe.shared_gate", gate, &allowed)?;
    let mut fields = json!({ "num_experts_per_tok": moe.top_k });
    extend(
        &mut fields,
        if shares {
            json!({
                "first_k_dense_replace": dense,
                "moe_intermediate_size": moe.d_ff,
                "n_group": 1,
                "n_routed_experts": moe.experts,
                "n_shared_experts": shared / moe.d_ff,
                "norm_topk_prob": true,
                "routed_scaling_factor": 1.0,
                "topk_group": 1,
            })
        } else if kind.name == QWEN3_MOE.name {
            json!({
                "decoder_sparse_step": 1,
                "mlp_only_layers": [],
                "moe_intermediate_size": moe.d_ff,
                "norm_topk_prob": true,
                "num_experts": moe.experts,
            })
        } else {
            json!({ "num_local_experts": moe.experts })
        },
    );
    if is_glm {
        let normed = arch.norm.qk == QkNorm::Head;
        let of_glm = json!({ "partial_rotary_factor": 1.0, "use_qk_norm": normed });
        extend(&mut fields, of_glm);
    }
    Ok(fields)
}

/// Models built like GPT-2: layer norm with bias, a plain MLP with bias, a key head for every query head.
fn like_gpt(arch: &Architecture, max_positions: u64) -> Result<Value> {
    let (mlp, norm, biases) = (arch.mlp, arch.norm, arch.biases);
    let with = "with norm.kind = layer_norm";
    let plain = mlp.kind == MlpKind::Gelu;
    demand(arch, plain, "mlp.kind", mlp.kind, &format!("gelu {with}"))?;
    let pre = norm.placement == NormPlacement::Pre;
    let allowed = format!("pre {with}");
    demand(arch, pre, "norm.placement", norm.placement, &allowed)?;
    let none = norm.qk == QkNorm::None;
    demand(arch, none, "norm.qk", norm.qk, &format!("none {with}"))?;
    let absent = format!("absent {with}");
    demand(arch, arch.moe.is_none(), "moe", "given", &absent)?;
    demand(arch, arch.mla.is_none(), "mla", "given", &absent)?;
    demand(arch, arch.window.is_none(), "window", "given", &absent)?;
    let allowed = format!("heads = {} {with}", arch.heads);
    let each = arch.kv_heads == arch.heads;
    demand(arch, each, "kv_heads", arch.kv_heads, &allowed)?;
    let whole = arch.heads * arch.head_dim == arch.hidden;
    let allowed = format!("hidden / heads = {} / {} {with}", arch.hidden, arch.heads);
    demand(arch, whole, "head_dim", arch.head_dim, &allowed)?;
    let allowed = format!("true {with}");
    demand(arch, biases.norm, "biases.norm", biases.norm, &allowed)?;
    demand(arch, biases.mlp, "biases.mlp", biases.mlp, &allowed)?;
    let (qkv, output) = (biases.qkv, biases.attention_output);
    match arch.positions {
        Positions::Learned { max } => {
            let allowed = "true for a gpt2, the type with learned positions";
            demand(arch, qkv, "biases.qkv", qkv, allowed)?;
            demand(arch, output, "biases.attention_output", output, allowed)?;
            let parallel = arch.parallel_layers;
            let allowed = "false with learned positions";
            demand(arch, !parallel, "parallel_layers", parallel, allowed)?;
            Ok(json!({
                "activation_function": "gelu_new",
                "architectures": ["GPT2LMHeadModel"],
                "layer_norm_epsilon": 1e-5,
                "model_type": "gpt2",
                "n_embd": arch.hidden,
                "n_head": arch.heads,
                "n_inner": mlp.d_ff,
                "n_layer": arch.layers,
                "n_positions": max,
            }))
        }
        Positions::Rotary => {
            let allowed = format!("biases.qkv = {qkv} for a gpt_neox");
            let same = qkv == output;
            demand(arch, same, "biases.attention_output", output, &allowed)?;
            Ok(json!({
                "architectures": ["GPTNeoXForCausalLM"],
                "attention_bias": qkv,
                "hidden_act": "gelu",
                "hidden_size": arch.hidden,
                "intermediate_size": mlp.d_ff,
                "layer_norm_eps": 1e-5,
                "max_position_embeddings": max_positions,
                "model_type": "gpt_neox",
                "num_attention_heads": arch.heads,
                "num_hidden_layers": arch.layers,
                "rotary_emb_base": 10_000.0,
                "rotary_pct": 1.0,
                "use_parallel_residual": arch.parallel_layers,
            }))
        }
        Positions::Alibi | Positions::None => {
            let allowed = format!("learned or rotary {with}");
            demand(arch, false, "positions", positions(arch), &allowed)?;
            Ok(json!({}))
        }
    }
}

#[cfg(test)]
mod tests;
