//! Which layers slide: the ways in which configs say so.

use super::super::{Architecture, Window};
use super::fields::Fields;
use crate::error::Result;

/// Which layers of a type see a window of keys only.
#[derive(Clone, Copy)]
pub(super) enum Slides {
    None,
    /// All, where `sliding_window` is there or has a default.
    All(Option<u64>),
    /// Those from `max_window_layers` on, where a flag says so or the type has none.
    From {
        flag: Option<&'static str>,
        first: u64,
    },
    /// All but every so many-th.
    Every {
        interval: u64,
        size: Option<u64>,
    },
    /// All but every so many-th sees its own chunk of the sequence.
    Chunks {
        interval: u64,
        size: u64,
    },
}

/// Sets the window of the architecture; `layer_types` has the last word on which layers use it.
pub(super) fn read(slides: Slides, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let layers = arch.layers;
    let mut field = "sliding_window";
    let (size, implied) = match slides {
        Slides::None => return full_attention(fields, arch),
        Slides::All(default) => (size_or(fields, default)?, layers),
        Slides::From { flag, first } => {
            let on = flag.map_or(Ok(true), |flag| fields.flag(flag, false))?;
            let size = size_or(fields, Some(4096))?.filter(|_| on);
            let first = fields.number_or("max_window_layers", first)?;
            (size, layers.saturating_sub(first))
        }
        Slides::Every { interval, size } => {
            let interval = pattern(fields, interval)?;
            (size_or(fields, size)?, layers - layers / interval)
        }
        Slides::Chunks { interval, size } => {
            field = "attention_chunk_size";
            let size = fields.number_or(field, size)?;
            (Some(size), rotated(fields, layers, interval)?)
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
    if arch.window.is_some() && matches!(slides, Slides::Chunks { .. }) {
        arch.stated.leave_out(
            "attention in chunks is taken as a sliding window of the same size, which sees up to twice the keys",
        );
    }
    Ok(())
}

/// `sliding_window`, where an explicit null means none.
fn size_or(fields: &mut Fields<'_>, default: Option<u64>) -> Result<Option<u64>> {
    let default = default.filter(|_| !fields.has("sliding_window"));
    Ok(fields.optional("sliding_window")?.or(default))
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

/// How many layers `layer_types` says slide.
fn layer_types(fields: &mut Fields<'_>, layers: u64) -> Result<Option<u64>> {
    let Some(types) = fields.texts("layer_types")? else {
        return Ok(None);
    };
    let slides = |kind: &&&str| matches!(**kind, "sliding_attention" | "chunked_attention");
    let sliding = types.iter().filter(slides).count();
    let full = types
        .iter()
        .filter(|kind| matches!(**kind, "full_attention" | "attention"))
        .count();
    if types.len() as u64 != layers || sliding + full != types.len() {
        let allowed = "full_attention or sliding_attention for each of num_hidden_layers; \
            state-space layers and others are of a kind that this program does not read here";
        return fields.refuse("layer_types", allowed);
    }
    Ok(Some(sliding as u64))
}

/// Of how many layers one sees everything: a number, or letters for one period (`LLLG`).
fn pattern(fields: &mut Fields<'_>, default: u64) -> Result<u64> {
    let key = fields.named(&["sliding_window_pattern", "_sliding_window_pattern"]);
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
