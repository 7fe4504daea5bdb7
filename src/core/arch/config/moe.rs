//! Mixtures of experts: the ways in which configs describe them.

use super::super::validate::MAX_LAYERS;
use super::super::{Architecture, Moe};
use super::fields::Fields;
use super::table::Given;
use crate::error::Result;
use serde::Deserialize;
use serde_json::Value;

/// How a type describes its experts; a default of 0 means that the field must be there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experts {
    count_fields: Vec<String>,
    count: u64,
    top_k_field: String,
    top_k: u64,
    d_ff: String,
    shared: Shared,
    dense: Dense,
    router_bias: Given<bool>,
    bias: bool,
    shared_gate: bool,
    /// The field with the width that experts take in place of the residual stream.
    latent: Option<String>,
    /// Further norms of a layer with experts.
    #[serde(default)]
    norms: u64,
    /// The field with the number of experts that pass tokens on, which the router chooses like the others.
    #[serde(default)]
    idle: Option<String>,
}

/// The width of the shared experts.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Shared {
    None,
    /// As many experts as the field says, each as wide as a routed one.
    Experts(String, u64),
    /// As wide as the field says.
    Width(String, u64),
    /// As wide as a routed expert.
    One,
}

/// Which layers keep the dense MLP, unless `mlp_layer_types` says it of each.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Dense {
    None,
    /// As many leading ones as the field says.
    Leading(String, u64),
    /// All but every `decoder_sparse_step`-th, and those of `mlp_only_layers`.
    Qwen,
    /// All but those of `moe_layers`, or but every `interleave_moe_layer_step`-th.
    Llama4,
    /// All but layer `expert_layer_offset` of every `expert_layer_period`.
    Jamba,
    /// All but every so many-th.
    Every(u64),
    /// Those before `moe_layer_start_index` and after `moe_layer_end_index`.
    Ernie,
}

/// Reads the experts into the architecture.
pub(super) fn read(experts: &'static Experts, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let count_key = fields.named(&experts.count_fields);
    let count = fields.number_unless(count_key, experts.count)?;
    fields.ignore(&experts.count_fields);
    if count == 0 || count == 1 && matches!(experts.dense, Dense::Jamba) {
        // The shared experts are all there is.
        ignore(experts, fields);
        if let Shared::Width(key, default) = &experts.shared {
            arch.mlp.d_ff = fields.number_or(key, *default)?;
        }
        return Ok(());
    }
    let idle = match &experts.idle {
        Some(key) => fields.number_or(key, 0)?,
        None => 0,
    };
    let chosen = fields.number_unless(&experts.top_k_field, experts.top_k)?;
    // Of those that a token visits, on average.
    let top_k = match idle {
        0 => chosen,
        _ => (chosen as f64 * count as f64 / (count as f64 + idle as f64)).round() as u64,
    };
    let d_ff = fields.number(&experts.d_ff)?;
    let shared_d_ff = match &experts.shared {
        Shared::None => 0,
        Shared::Experts(key, default) => {
            let key = match fields.has(key) {
                true => key,
                false => fields.named(&["n_shared_experts", "num_shared_experts"]),
            };
            fields.number_or(key, *default)?.saturating_mul(d_ff)
        }
        Shared::Width(key, default) => fields.number_or(key, *default)?,
        Shared::One => d_ff,
    };
    // More layers than any architecture may have are refused later.
    let layers = arch.layers_with_mlp().min(MAX_LAYERS);
    let (dense_layers, interval) = dense(&experts.dense, fields, layers)?;
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
        latent: match &experts.latent {
            Some(key) => fields.optional(key)?,
            None => None,
        },
        norms: experts.norms,
    });
    arch.biases.experts = experts.bias;
    if (dense_layers, interval) == (0, 1) {
        // No layer is dense, so the width of the dense MLP shapes nothing.
        arch.mlp.d_ff = d_ff;
    }
    Ok(())
}

/// Knows the fields of experts that no layer has.
pub(super) fn ignore(experts: &'static Experts, fields: &mut Fields<'_>) {
    fields.ignore(&experts.count_fields);
    fields.ignore(std::slice::from_ref(&experts.top_k_field));
    fields.ignore(std::slice::from_ref(&experts.d_ff));
    fields.ignore(experts.latent.as_slice());
    if let Shared::Experts(key, _) | Shared::Width(key, _) = &experts.shared {
        fields.ignore(std::slice::from_ref(key));
    }
}

/// Leading dense layers, and the interval of layers with experts after them.
fn dense(rule: &'static Dense, fields: &mut Fields<'_>, layers: u64) -> Result<(u64, u64)> {
    let by_rule = by_rule(rule, fields, layers)?;
    if let Some(types) = fields.texts("mlp_layer_types")? {
        let sparse: Vec<_> = types.iter().map(|kind| *kind != "dense").collect();
        return described(&sparse, fields, "mlp_layer_types", layers);
    }
    if let Some(text) = fields.value("moe_layers_enum").and_then(Value::as_str) {
        let listed: Vec<_> = text.split(',').map(|layer| layer.trim().parse::<u64>()).collect();
        let sparse: Vec<_> = (0..layers).map(|layer| listed.contains(&Ok(layer))).collect();
        return described(&sparse, fields, "moe_layers_enum", layers);
    }
    if fields.value(FREQUENCY).is_some_and(Value::is_array) {
        let sparse: Vec<_> = fields.numbers(FREQUENCY)?.unwrap_or_default();
        let sparse: Vec<_> = sparse.into_iter().map(|sparse| sparse > 0).collect();
        return described(&sparse, fields, FREQUENCY, layers);
    }
    Ok(by_rule)
}

/// Of how many layers one has experts, or whether each has.
const FREQUENCY: &str = "moe_layer_freq";

fn by_rule(rule: &'static Dense, fields: &mut Fields<'_>, layers: u64) -> Result<(u64, u64)> {
    match rule {
        Dense::None => Ok((0, 1)),
        Dense::Leading(key, default) => {
            if !fields.value(FREQUENCY).is_some_and(Value::is_array) {
                fields.only(FREQUENCY, 1)?;
            }
            Ok((fields.number_or(key, *default)?, 1))
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
        Dense::Jamba => {
            let period = fields.number_or("expert_layer_period", 2)?;
            let offset = fields.number_or("expert_layer_offset", 1)?;
            let sparse: Vec<_> = (0..layers)
                .map(|layer| layer.checked_rem(period) == Some(offset))
                .collect();
            described(&sparse, fields, "expert_layer_offset", layers)
        }
        Dense::Every(interval) => Ok((0, *interval)),
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
