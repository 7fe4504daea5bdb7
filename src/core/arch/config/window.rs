//! Which layers slide: the ways in which configs say so.

use super::super::validate::MAX_LAYERS;
use super::super::{Architecture, Window};
use super::fields::Fields;
use super::table::{Indexed, Row};
use crate::error::Result;
use serde::Deserialize;
use serde_json::Value;

/// Which layers of a type see a window of keys only; a size of 0 is none.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Slides {
    None,
    All(u64),
    /// Those from `max_window_layers` on, where a flag says so or the type has none.
    From {
        flag: Option<String>,
        first: u64,
    },
    /// All but every so many-th, which `leads` the others or follows them.
    Every {
        interval: u64,
        size: u64,
        #[serde(default)]
        leads: bool,
    },
    /// All but every so many-th sees its own chunk of the sequence.
    Chunks {
        interval: u64,
        size: u64,
    },
}

/// Sets the window of the architecture; `layer_types` has the last word on which layers use it.
pub(super) fn read(row: &'static Row, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let layers = arch.layers;
    if row.index == Indexed::Keys {
        let kinds = fields.texts("layer_types")?.unwrap_or_default();
        let is_indexed = |kind: &&str| matches!(*kind, "deepseek_sparse_attention" | "indexed_attention");
        return match kinds.iter().all(is_indexed) {
            true => Ok(()),
            false => fields.refuse("layer_types", "deepseek_sparse_attention for each layer"),
        };
    }
    let field = &*row.window_field;
    let (size, implied) = match &row.window {
        Slides::None => return full_attention(fields, arch),
        Slides::All(size) => (size_or(fields, field, *size)?, layers),
        Slides::From { flag, first } => {
            let on = flag.as_ref().map_or(Ok(true), |flag| fields.flag(flag, false))?;
            let size = size_or(fields, field, 4096)?.filter(|_| on);
            let first = fields.number_or("max_window_layers", *first)?;
            (size, layers.saturating_sub(first))
        }
        Slides::Every { interval, size, leads } => {
            let interval = pattern(fields, *interval)?;
            let full = match leads {
                true => layers.div_ceil(interval),
                false => layers / interval,
            };
            (size_or(fields, field, *size)?, layers - full)
        }
        Slides::Chunks { interval, size } => {
            let size = size_or(fields, field, *size)?;
            (size, rotated(fields, layers, *interval)?)
        }
    };
    let sliding = layer_types(fields, layers)?.unwrap_or(implied);
    arch.window = match (sliding, size) {
        (0, _) => None,
        // A layer type outweighs an absent window, but not an implied one.
        (_, None) if fields.has("layer_types") => {
            return fields.refuse(field, "the size of the window");
        }
        (_, None) => None,
        (layers, Some(size)) => Some(Window { size, layers }),
    };
    if arch.window.is_some() && matches!(row.window, Slides::Chunks { .. }) {
        arch.stated.leave_out(
            "attention in chunks is taken as a sliding window of the same size, which sees up to twice the keys",
        );
    }
    Ok(())
}

/// The size of the window, where an explicit null means none.
pub(super) fn size_or(fields: &mut Fields<'_>, field: &'static str, default: u64) -> Result<Option<u64>> {
    let default = Some(default).filter(|size| *size > 0 && !fields.has(field));
    Ok(fields.optional(field)?.or(default))
}

/// Types without windows may still list their layers.
fn full_attention(fields: &mut Fields<'_>, arch: &Architecture) -> Result<()> {
    // How MiniMax says that a layer has softmax attention.
    let kinds = fields.numbers("attn_type_list")?.unwrap_or_default();
    if kinds.iter().any(|kind| *kind != 1) {
        let allowed = "1 for each layer; linear attention is not timed";
        return fields.refuse("attn_type_list", allowed);
    }
    match layer_types(fields, arch.layers)? {
        None | Some(0) => Ok(()),
        Some(_) => fields.refuse("layer_types", "full_attention for each of num_hidden_layers"),
    }
}

/// How many layers slide by the field that lists them.
fn layer_types(fields: &mut Fields<'_>, layers: u64) -> Result<Option<u64>> {
    let key = fields.named(&["layer_types", "attention_types"]);
    let types = match fields.texts("layer_types")? {
        Some(types) => types,
        None if fields.has("attention_types") => repeated(fields),
        None => return Ok(None),
    };
    let allowed = match key {
        "attention_types" => format!("[[[\"global\", \"local\"], {}]]", layers / 2),
        _ => "full_attention or sliding_attention for each of num_hidden_layers; \
              state-space layers and others are of a kind that this program does not read here"
            .to_owned(),
    };
    let sliding = ["sliding_attention", "chunked_attention", "local"];
    let full = ["full_attention", "attention", "global"];
    fields
        .layers_of(key, &types, layers, [&sliding, &full], &allowed)
        .map(Some)
}

/// How GPT-Neo lists its layers: `[[["global", "local"], 6]]` has six of both.
fn repeated<'a>(fields: &mut Fields<'a>) -> Vec<&'a str> {
    let mut kinds = Vec::new();
    let value = fields.value("attention_types").and_then(Value::as_array);
    for group in value.into_iter().flatten() {
        let (names, times) = (
            group.get(0).and_then(Value::as_array),
            group.get(1).and_then(Value::as_u64),
        );
        let times = times.unwrap_or(0).min(MAX_LAYERS);
        for _ in 0..times {
            kinds.extend(names.into_iter().flatten().filter_map(Value::as_str));
        }
    }
    kinds
}

/// Of how many layers one sees everything: a number, or letters for one period (`LLLG`).
fn pattern(fields: &mut Fields<'_>, default: u64) -> Result<u64> {
    let key = fields.named(&[
        "sliding_window_pattern",
        "_sliding_window_pattern",
        "global_attn_every_n_layers",
    ]);
    let letters = fields.value(key).and_then(|value| value.as_str());
    let interval = match letters {
        Some(letters) => letters.len() as u64,
        None => fields.number_or(key, default)?,
    };
    if interval == 0 {
        return fields.refuse(key, "an integer of at least 1");
    }
    Ok(interval)
}

/// Layers with rotary positions, which are those in chunks: ones in `no_rope_layers`, else all but every `interval`-th.
fn rotated(fields: &mut Fields<'_>, layers: u64, interval: u64) -> Result<u64> {
    let interval = fields.number_or("no_rope_layer_interval", interval)?;
    let listed = fields.numbers("no_rope_layers")?.unwrap_or_default();
    if listed.is_empty() {
        return match layers.checked_div(interval) {
            Some(full) => Ok(layers - full),
            None => fields.refuse("no_rope_layer_interval", "an integer of at least 1"),
        };
    }
    let used = listed.iter().take(layers as usize);
    Ok(used.filter(|rotates| **rotates != 0).count() as u64)
}
