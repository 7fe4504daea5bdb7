//! Mixtures of experts: the ways in which configs describe them.

use super::super::validate::MAX_LAYERS;
use super::super::{Architecture, Moe};
use super::fields::Fields;
use super::llama::Switch;
use crate::error::Result;

/// How a type describes its experts.
#[derive(Clone, Copy)]
pub(super) struct Experts {
    /// Names of the field with their number, and what its absence means; `None` = it must be there.
    count: (&'static [&'static str], Option<u64>),
    top_k: (&'static str, Option<u64>),
    d_ff: &'static str,
    shared: Shared,
    dense: Dense,
    router_bias: Switch,
    bias: bool,
    shared_gate: bool,
    /// The field with the width that experts take in place of the residual stream.
    latent: Option<&'static str>,
}

/// The width of the shared experts.
#[derive(Clone, Copy)]
enum Shared {
    None,
    /// As many experts as the field says, each as wide as a routed one.
    Experts(&'static str, u64),
    /// As wide as the field says.
    Width(&'static str, u64),
    /// As wide as a routed expert.
    One,
}

/// Which layers keep the dense MLP.
#[derive(Clone, Copy)]
enum Dense {
    None,
    /// As many leading ones as the field says.
    Leading(&'static str, u64),
    /// `mlp_layer_types` says for each, else as many leading ones as `first_k_dense_replace` says.
    Listed(u64),
    /// All but every `decoder_sparse_step`-th, and those of `mlp_only_layers`.
    Qwen,
    /// All but those of `moe_layers`, or but every `interleave_moe_layer_step`-th.
    Llama4,
    /// Those before `moe_layer_start_index` and after `moe_layer_end_index`.
    Ernie,
}

pub(super) const MIXTRAL: Experts = Experts {
    count: (&["num_local_experts", "num_experts"], Some(8)),
    top_k: ("num_experts_per_tok", Some(2)),
    d_ff: "intermediate_size",
    shared: Shared::None,
    dense: Dense::None,
    router_bias: Switch::Off,
    bias: false,
    shared_gate: false,
    latent: None,
};

pub(super) const PHI: Experts = Experts {
    count: (MIXTRAL.count.0, Some(16)),
    ..MIXTRAL
};

pub(super) const GRANITE_SHARED: Experts = Experts {
    shared: Shared::Width("shared_intermediate_size", 0),
    ..MIXTRAL
};

pub(super) const OLMOE: Experts = Experts {
    count: (MIXTRAL.count.0, Some(64)),
    top_k: ("num_experts_per_tok", Some(8)),
    ..MIXTRAL
};

pub(super) const MINIMAX_M2: Experts = Experts {
    count: (MIXTRAL.count.0, Some(256)),
    top_k: ("num_experts_per_tok", Some(8)),
    shared: Shared::Width("shared_intermediate_size", 0),
    router_bias: Switch::On,
    ..MIXTRAL
};

pub(super) const GPT_OSS: Experts = Experts {
    count: (MIXTRAL.count.0, Some(128)),
    top_k: ("num_experts_per_tok", Some(4)),
    router_bias: Switch::On,
    bias: true,
    ..MIXTRAL
};

pub(super) const LLAMA4: Experts = Experts {
    count: (MIXTRAL.count.0, Some(16)),
    top_k: ("num_experts_per_tok", Some(1)),
    shared: Shared::One,
    dense: Dense::Llama4,
    ..MIXTRAL
};

pub(super) const QWEN3: Experts = Experts {
    count: (MIXTRAL.count.0, Some(128)),
    top_k: ("num_experts_per_tok", Some(8)),
    d_ff: "moe_intermediate_size",
    dense: Dense::Qwen,
    ..MIXTRAL
};

pub(super) const QWEN2: Experts = Experts {
    count: (MIXTRAL.count.0, Some(60)),
    top_k: ("num_experts_per_tok", Some(4)),
    shared: Shared::Width("shared_expert_intermediate_size", 5632),
    shared_gate: true,
    ..QWEN3
};

pub(super) const QWEN3_NEXT: Experts = Experts {
    count: (MIXTRAL.count.0, Some(512)),
    top_k: ("num_experts_per_tok", Some(10)),
    shared: Shared::Width("shared_expert_intermediate_size", 512),
    ..QWEN2
};

pub(super) const QWEN3_5: Experts = Experts {
    count: (MIXTRAL.count.0, Some(256)),
    top_k: ("num_experts_per_tok", Some(8)),
    ..QWEN3_NEXT
};

pub(super) const DEEPSEEK_V3: Experts = Experts {
    count: (&["n_routed_experts", "num_local_experts", "num_experts"], None),
    top_k: ("num_experts_per_tok", None),
    d_ff: "moe_intermediate_size",
    shared: Shared::Experts("n_shared_experts", 1),
    dense: Dense::Leading("first_k_dense_replace", 3),
    router_bias: Switch::On,
    ..MIXTRAL
};

pub(super) const DEEPSEEK_V2: Experts = Experts {
    shared: Shared::Experts("n_shared_experts", 2),
    dense: Dense::Leading("first_k_dense_replace", 0),
    router_bias: Switch::Off,
    ..DEEPSEEK_V3
};

pub(super) const GLM4: Experts = Experts {
    dense: Dense::Leading("first_k_dense_replace", 1),
    ..DEEPSEEK_V3
};

pub(super) const GLM4_LITE: Experts = Experts {
    dense: Dense::Listed(1),
    ..DEEPSEEK_V3
};

pub(super) const KIMI_LINEAR: Experts = Experts {
    top_k: ("num_experts_per_token", None),
    shared: Shared::Experts("num_shared_experts", 1),
    dense: Dense::Leading("first_k_dense_replace", 1),
    ..DEEPSEEK_V3
};

pub(super) const NEMOTRON_H: Experts = Experts {
    shared: Shared::Width("moe_shared_expert_intermediate_size", 7688),
    dense: Dense::None,
    latent: Some("moe_latent_size"),
    ..DEEPSEEK_V3
};

pub(super) const DOTS1: Experts = Experts {
    shared: Shared::Experts("n_shared_experts", 0),
    dense: Dense::Leading("first_k_dense_replace", 0),
    ..DEEPSEEK_V3
};

pub(super) const ERNIE: Experts = Experts {
    count: (&["moe_num_experts"], Some(64)),
    top_k: ("moe_k", Some(6)),
    shared: Shared::Experts("moe_num_shared_experts", 2),
    dense: Dense::Ernie,
    ..DEEPSEEK_V3
};

/// Ling and Ring: the correction of the router came with their second generation.
pub(super) const BAILING: Experts = Experts {
    shared: Shared::Experts("num_shared_experts", 0),
    dense: Dense::Leading("first_k_dense_replace", 0),
    router_bias: Switch::Field(&["moe_router_enable_expert_bias"], false),
    ..DEEPSEEK_V3
};

pub(super) const EXAONE: Experts = Experts {
    shared: Shared::Experts("num_shared_experts", 1),
    ..GLM4_LITE
};

pub(super) const AFMOE: Experts = Experts {
    shared: Shared::Experts("num_shared_experts", 2),
    dense: Dense::Leading("num_dense_layers", 1),
    ..DEEPSEEK_V3
};

pub(super) const FLEX_OLMO: Experts = Experts {
    count: (MIXTRAL.count.0, Some(7)),
    top_k: ("num_experts_per_tok", Some(5)),
    ..MIXTRAL
};

/// Reads the experts into the architecture.
pub(super) fn read(experts: &Experts, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let number = |fields: &mut Fields<'_>, key, default| match default {
        Some(default) => fields.number_or(key, default),
        None => fields.number(key),
    };
    let count_key = fields.named(experts.count.0);
    let count = number(fields, count_key, experts.count.1)?;
    if count == 0 {
        // The shared experts are all there is.
        ignore(experts, fields);
        if let Shared::Width(key, default) = experts.shared {
            arch.mlp.d_ff = fields.number_or(key, default)?;
        }
        return Ok(());
    }
    let top_k = number(fields, experts.top_k.0, experts.top_k.1)?;
    let d_ff = fields.number(experts.d_ff)?;
    let shared_d_ff = match experts.shared {
        Shared::None => 0,
        Shared::Experts(key, default) => {
            let key = fields.named(&[key, "n_shared_experts", "num_shared_experts"]);
            fields.number_or(key, default)?.saturating_mul(d_ff)
        }
        Shared::Width(key, default) => fields.number_or(key, default)?,
        Shared::One => d_ff,
    };
    // More layers than any architecture may have are refused later.
    let layers = arch.layers_with_mlp().min(MAX_LAYERS);
    let (dense_layers, interval) = dense(experts.dense, fields, layers)?;
    if dense_layers >= arch.layers_with_mlp() {
        // No layer has any.
        return Ok(());
    }
    arch.moe = Some(Moe {
        experts: count,
        top_k,
        d_ff,
        shared_d_ff,
        dense_layers,
        interval,
        router_bias: experts.router_bias.read(fields)?,
        shared_gate: experts.shared_gate && shared_d_ff > 0,
        latent: match experts.latent {
            Some(key) => fields.optional(key)?,
            None => None,
        },
    });
    arch.biases.experts = experts.bias;
    if (dense_layers, interval) == (0, 1) {
        // No layer is dense, so the width of the dense MLP shapes nothing.
        arch.mlp.d_ff = d_ff;
    }
    Ok(())
}

/// Knows the fields of experts that no layer has.
pub(super) fn ignore(experts: &Experts, fields: &mut Fields<'_>) {
    fields.ignore(experts.count.0);
    fields.ignore(&[experts.top_k.0, experts.d_ff]);
    if let Some(key) = experts.latent {
        fields.ignore(&[key]);
    }
    if let Shared::Experts(key, _) | Shared::Width(key, _) = experts.shared {
        fields.ignore(&[key]);
    }
}

/// Leading dense layers, and the interval of layers with experts after them.
fn dense(rule: Dense, fields: &mut Fields<'_>, layers: u64) -> Result<(u64, u64)> {
    match rule {
        Dense::None => Ok((0, 1)),
        Dense::Leading(key, default) => {
            fields.only("moe_layer_freq", 1)?;
            Ok((fields.number_or(key, default)?, 1))
        }
        Dense::Listed(default) => {
            let leading = fields.number_or("first_k_dense_replace", default)?;
            let Some(types) = fields.texts("mlp_layer_types")? else {
                return Ok((leading, 1));
            };
            let sparse: Vec<_> = types.iter().map(|kind| *kind == "sparse").collect();
            described(&sparse, fields, "mlp_layer_types", layers)
        }
        Dense::Qwen => {
            let step = fields.number_or("decoder_sparse_step", 1)?;
            let only = fields.numbers("mlp_only_layers")?.unwrap_or_default();
            let sparse = |layer| is_every(layer, step) && !only.contains(&layer);
            let sparse: Vec<_> = (0..layers).map(sparse).collect();
            described(&sparse, fields, "mlp_only_layers", layers)
        }
        Dense::Llama4 => {
            let step = fields.number_or("interleave_moe_layer_step", 1)?;
            let listed = fields.numbers("moe_layers")?;
            let sparse = |layer| match &listed {
                Some(listed) => listed.contains(&layer),
                None => is_every(layer, step),
            };
            let sparse: Vec<_> = (0..layers).map(sparse).collect();
            described(&sparse, fields, "moe_layers", layers)
        }
        Dense::Ernie => {
            fields.only("moe_layer_interval", 1)?;
            let last = layers.saturating_sub(1);
            let end = fields.value("moe_layer_end_index").and_then(|end| end.as_i64());
            if !matches!(end, None | Some(-1)) && end != i64::try_from(last).ok() {
                return fields.refuse("moe_layer_end_index", "the last layer");
            }
            Ok((fields.number_or("moe_layer_start_index", 1)?, 1))
        }
    }
}

/// Whether this layer, counted from 0, is every so many-th.
fn is_every(layer: u64, step: u64) -> bool {
    step > 0 && (layer + 1).is_multiple_of(step)
}

/// The same as leading dense layers or as an interval; `field` is blamed where it is neither.
fn described(sparse: &[bool], fields: &Fields<'_>, field: &'static str, layers: u64) -> Result<(u64, u64)> {
    let leading = sparse.iter().take_while(|sparse| !**sparse).count();
    if sparse.len() as u64 == layers && sparse[leading..].iter().all(|sparse| *sparse) {
        return Ok((leading as u64, 1));
    }
    let interval = leading as u64 + 1;
    let regular = (0..layers).map(|layer| is_every(layer, interval));
    if sparse.iter().copied().eq(regular) {
        return Ok((0, interval));
    }
    fields.refuse(field, "dense layers that lead, or experts in every so many-th layer")
}
