//! Layers of several shapes: the ways in which configs describe them.

use super::super::validate::MAX_LAYERS;
use super::super::{Architecture, KeyValues, LayerKind, Window};
use super::fields::Fields;
use super::kinds::says_nothing;
use super::table::{Given, Row};
use super::window::size_or;
use crate::error::Result;
use serde::Deserialize;
use serde_json::Value;

/// How a type says which shapes its layers have.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Varied {
    /// They have one.
    None,
    /// By `block_configs`, an object for each layer (Nemotron Super and Ultra, DeciLM).
    Blocks,
    /// By lists of the heads of each layer and of its MLP width in hidden sizes (OpenELM).
    Scaled,
    /// By lists of which layers compress their keys or choose among them (DeepSeek-V4, MiniMax-M3).
    Sparse,
    /// By fields of their own for layers with and without a window, or by lists with an item for each layer.
    Windows(Box<Windows>),
}

/// Which layers see a window, and the sizes of both sorts.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Windows {
    /// Size of the window where the file has none.
    size: u64,
    /// Without a list, of how many layers the last sees everything; 0 for all.
    interval: u64,
    /// Whether the first does, too.
    first_is_full: bool,
    /// How many of the last layers take keys and values of an earlier one, where the file does not say.
    shared: u64,
    each: Sizes,
    full: Sizes,
    sliding: Sizes,
}

/// Fields of some layers, and their defaults; 0 for what the others have.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Sizes {
    heads: Option<Given<u64>>,
    kv_heads: Option<Given<u64>>,
    head_dim: Option<Given<u64>>,
    one_projection: Option<Given<bool>>,
    sinks: Option<Given<bool>>,
}

impl Sizes {
    /// Sets what a layer, counted from 0, has of its own.
    fn set(&'static self, fields: &mut Fields<'_>, layer: u64, kind: &mut LayerKind) -> Result<()> {
        for (given, size) in [
            (&self.heads, &mut kind.heads),
            (&self.kv_heads, &mut kind.kv_heads),
            (&self.head_dim, &mut kind.head_dim),
        ] {
            if let Some(given) = given {
                match given.read_of(fields, layer)? {
                    0 => {}
                    own => *size = own,
                }
            }
        }
        if let Some(flag) = &self.one_projection
            && flag.read(fields)?
        {
            kind.key_values = KeyValues::One;
        }
        if let Some(flag) = &self.sinks {
            kind.sinks = flag.read(fields)?;
        }
        Ok(())
    }
}

/// Sets the shapes of the layers.
pub(super) fn read(row: &'static Row, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    match &row.kinds {
        Varied::None => Ok(()),
        Varied::Blocks => blocks(fields, arch),
        Varied::Scaled => scaled(fields, arch),
        Varied::Sparse => sparse(row, fields, arch),
        Varied::Windows(by) => windows(by, &row.window_field, fields, arch),
    }
}

fn windows(by: &'static Windows, field: &'static str, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let size = size_or(fields, field, by.size)?;
    // More layers than any architecture may have are refused later.
    let layers = arch.layers.min(MAX_LAYERS);
    let sliding = sliding(by, fields, layers)?;
    let shared = fields.number_or("num_kv_shared_layers", by.shared)?;
    let width = match fields.flag("use_double_wide_mlp", false)? {
        true => 2,
        false => 1,
    };
    let mut kinds = Vec::new();
    for (layer, slides) in (0..layers).zip(sliding) {
        let [mut full, mut windowed] = [arch.kind(); 2];
        // Both, so that all fields are known.
        for (own, kind) in [(&by.full, &mut full), (&by.sliding, &mut windowed)] {
            by.each.set(fields, layer, kind)?;
            own.set(fields, layer, kind)?;
        }
        windowed.window = size;
        let mut kind = if slides { windowed } else { full };
        if layer + shared >= layers {
            kind.key_values = KeyValues::Earlier;
            kind.d_ff = kind.d_ff.saturating_mul(width);
        }
        dense_without_experts(arch, layer, &mut kind);
        kinds.push(kind);
    }
    let attention = |kind: &LayerKind| LayerKind {
        window: None,
        experts: false,
        d_ff: 0,
        ..*kind
    };
    let slides = kinds.iter().filter(|kind| kind.window.is_some()).count() as u64;
    if !kinds.windows(2).all(|pair| attention(&pair[0]) == attention(&pair[1])) {
        arch.set_kinds(kinds);
    } else if let (Some(size), 1..) = (size, slides) {
        arch.window = Some(Window { size, layers: slides });
    }
    Ok(())
}

/// Which layers see a window, by the list that says it of each or by the rule of the type.
fn sliding(by: &Windows, fields: &mut Fields<'_>, layers: u64) -> Result<Vec<bool>> {
    let (key, listed) = match fields.texts("layer_types")? {
        Some(types) => {
            let slides = |kind: &&str| match *kind {
                "sliding_attention" => Some(true),
                "full_attention" => Some(false),
                _ => None,
            };
            ("layer_types", types.iter().map(slides).collect())
        }
        None => match fields.numbers("hybrid_layer_pattern")? {
            Some(ones) => ("hybrid_layer_pattern", Some(ones.iter().map(|one| *one > 0).collect())),
            None => {
                let slides = |layer: u64| {
                    let is_full = by.interval == 0 || (layer + 1).is_multiple_of(by.interval);
                    !is_full && (layer > 0 || !by.first_is_full)
                };
                return Ok((0..layers).map(slides).collect());
            }
        },
    };
    // Layers that predict further tokens may follow.
    match listed.filter(|listed: &Vec<bool>| listed.len() as u64 >= layers) {
        Some(listed) => Ok(listed),
        None => fields.refuse(
            key,
            "full_attention (0) or sliding_attention (1) for each of num_hidden_layers",
        ),
    }
}

/// Which layers see compressed keys behind their window, or choose among keys by an index: names, or tokens of a block.
fn sparse(row: &'static Row, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let window = size_or(fields, &row.window_field, 128)?.filter(|_| row.compressed);
    let names: &'static [&'static str] = &[
        "layer_types",
        "compress_ratios",
        "sparse_attention_config.sparse_attention_freq",
    ];
    let key = fields.named(names);
    let is_text = fields.value(key).is_some_and(|value| value[0].is_string());
    let strides: Option<Vec<u64>> = match is_text {
        true => {
            let texts = fields.texts(key)?.unwrap_or_default();
            let stride = |name: &&str| match *name {
                "full_attention" | "sliding_attention" => Some(0),
                "minimax_m3_sparse" => Some(1),
                "compressed_sparse_attention" => Some(4),
                "heavily_compressed_attention" => Some(128),
                _ => None,
            };
            texts.iter().map(stride).collect()
        }
        false => fields.numbers(key)?,
    };
    // More layers than any architecture may have are refused later; layers that predict further tokens may follow.
    let layers = arch.layers.min(MAX_LAYERS);
    let Some(strides) = strides.filter(|strides| strides.len() as u64 >= layers) else {
        return fields.refuse(key, "what each of num_hidden_layers attends to");
    };
    // Of compressed keys an index chooses among the finest.
    let finest = strides.iter().copied().filter(|stride| *stride > 0).min();
    let kinds = (0..layers).zip(strides).map(|(layer, stride)| {
        let mut kind = LayerKind {
            window,
            stride: if row.compressed { stride } else { 0 },
            indexed: Some(stride) == finest,
            ..arch.kind()
        };
        dense_without_experts(arch, layer, &mut kind);
        kind
    });
    let kinds: Vec<_> = kinds.collect();
    arch.set_kinds(kinds);
    arch.index = arch.index.filter(|_| finest.is_some());
    Ok(())
}

/// Gives a layer the dense MLP where a model of experts has none in it.
fn dense_without_experts(arch: &Architecture, layer: u64, kind: &mut LayerKind) {
    if arch.moe.is_some_and(|moe| !moe.is_in(layer)) {
        (kind.experts, kind.d_ff) = (false, arch.mlp.d_ff);
    }
}

fn blocks(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let key = "block_configs";
    let listed = fields.value(key).and_then(Value::as_array);
    let listed = listed.map_or(&[][..], Vec::as_slice);
    // More layers than any architecture may have are refused later.
    if arch.layers > MAX_LAYERS {
        return Ok(());
    }
    let listed = Some(listed).filter(|listed| listed.len() as u64 == arch.layers);
    let kinds: Option<Vec<_>> = listed.and_then(|listed| listed.iter().map(|block| of_block(block, arch)).collect());
    match kinds {
        Some(kinds) => {
            arch.set_kinds(kinds);
            Ok(())
        }
        None => fields.refuse(
            key,
            "for each of num_hidden_layers attention with n_heads_in_group and ffn with ffn_mult, or no_op, and neither \
             replace_with_linear nor sparsify",
        ),
    }
}

fn scaled(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let unit = fields.number_or("ffn_dim_divisor", 256)?.max(1) as f64;
    let key = "ffn_multipliers";
    let multiples = fields.value(key);
    let mut kinds = Vec::new();
    // More layers than any architecture may have are refused later.
    for layer in 0..arch.layers.min(MAX_LAYERS) {
        let multiple = multiples.and_then(|all| all.get(layer as usize)?.as_f64());
        let Some(multiple) = multiple.filter(|multiple| (0.0..1e3).contains(multiple)) else {
            return fields.refuse(key, "the MLP width in hidden sizes of each of num_transformer_layers");
        };
        let wanted = multiple * arch.hidden as f64;
        let nearest = ((wanted / unit + 0.5).floor() * unit).max(unit);
        // Rounding down takes at most a tenth.
        let width = if nearest < 0.9 * wanted {
            nearest + unit
        } else {
            nearest
        };
        kinds.push(LayerKind {
            heads: fields.number_of("num_query_heads", layer, 0)?,
            kv_heads: fields.number_of("num_kv_heads", layer, 0)?,
            d_ff: width as u64,
            ..arch.kind()
        });
    }
    arch.set_kinds(kinds);
    Ok(())
}

/// The shape of a layer by its object; `None` where that is of no kind that is known.
fn of_block(block: &Value, arch: &Architecture) -> Option<LayerKind> {
    let is_on = |part: &str, key: &str| block[part].get(key).is_some_and(|value| !says_nothing(value));
    let odd = ["replace_with_linear", "sparsify"];
    if ["attention", "ffn"]
        .iter()
        .any(|part| odd.iter().any(|key| is_on(part, key)))
    {
        return None;
    }
    let mut kind = LayerKind {
        layers: 1,
        ..LayerKind::default()
    };
    if !is_on("attention", "no_op") {
        let group = block["attention"]["n_heads_in_group"].as_u64()?;
        kind = LayerKind {
            kv_heads: arch.heads.checked_div(group)?,
            window: block["attention"]["window_length"].as_u64(),
            d_ff: 0,
            ..arch.kind()
        };
    }
    if !is_on("ffn", "no_op") {
        let multiple = block["ffn"]["ffn_mult"].as_f64();
        let multiple = multiple.filter(|multiple| (0.0..1e3).contains(multiple))?;
        // Of two thirds, as a gate has a matrix of its own; whole tiles.
        let width = (2.0 * multiple * arch.hidden as f64 / 3.0) as u64;
        // Widths out of bounds are refused later.
        kind.d_ff = width.checked_next_multiple_of(256).unwrap_or(width);
    }
    Some(kind)
}
