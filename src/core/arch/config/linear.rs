//! Layers with linear attention: the ways in which configs describe them.

use super::super::{Architecture, LinearLayers, Positions, Window};
use super::fields::Fields;
use crate::error::Result;
use crate::ops::Recurrence;
use serde::Deserialize;

/// How a type describes its layers with linear attention.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hybrid {
    /// There are none.
    None,
    /// Gated DeltaNet in all layers but every `full_attention_interval`-th, or as `layer_types` says (Qwen3-Next, Qwen3.5).
    Qwen,
    /// Kimi Delta Attention in the layers that `linear_attn_config` lists.
    Kimi,
    /// Kimi Delta Attention with decays and gates of full rank in all but every `layer_group_size`-th (Ling 3).
    Ling,
    /// Lightning attention in all layers but every `layer_group_size`-th, and those after the last whole group, or as
    /// `layer_types` or `attn_type_list` says (MiniMax-01, Ling 2.5).
    Lightning,
    /// Gated DeltaNet with as many heads as attention where the file does not say (OLMo Hybrid).
    Olmo,
    /// Mamba-2 or attention, each with an MLP, as `layer_types` or `attn_layer_indices` says (Granite 4, Bamba).
    Mamba2,
    /// Mamba-2 and nothing else in every layer (Mamba-2, Codestral Mamba).
    Mamba2Alone,
    /// Mamba-1 and nothing else in every layer (Mamba, Falcon Mamba).
    Mamba1Alone,
    /// Mamba-1 or attention, each with an MLP or experts, by a period (Jamba).
    Jamba,
    /// Mamba-2 beside attention in every layer (Falcon-H1).
    FalconH1,
    /// A short convolution or attention, as `layer_types` or `full_attn_idxs` says, of so many taps where the file does not say;
    /// `rounded` where the MLP is two thirds as wide as the file says, rounded up (LFM2).
    ShortConvolution { rounded: bool, taps: u64 },
    /// Mamba-2, attention, MLP or experts, one a layer, as `hybrid_override_pattern` says (Nemotron-H).
    NemotronH,
}

/// What a layer of Nemotron-H is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Mamba,
    Attention,
    Mlp,
    Experts,
}

/// How many layers a type has that does not have to say so.
pub(super) fn layers(hybrid: Hybrid, fields: &mut Fields<'_>) -> Result<Option<u64>> {
    match hybrid {
        Hybrid::NemotronH => Ok(Some(blocks(fields)?.len() as u64)),
        _ => Ok(None),
    }
}

/// Whether a type has experts in this file.
pub(super) fn has_experts(hybrid: Hybrid, fields: &mut Fields<'_>) -> Result<bool> {
    match hybrid {
        Hybrid::NemotronH => Ok(blocks(fields)?.contains(&Block::Experts)),
        _ => Ok(true),
    }
}

/// Sets the layers with linear attention.
pub(super) fn read(hybrid: Hybrid, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    match hybrid {
        Hybrid::None => Ok(()),
        Hybrid::Qwen => qwen(fields, arch),
        Hybrid::Olmo => olmo(fields, arch),
        Hybrid::Mamba2 => mamba2(fields, arch),
        Hybrid::Mamba2Alone => mamba2_alone(fields, arch),
        Hybrid::Mamba1Alone => {
            arch.mlp_layers = Some(0);
            let inner = fields.number_or("expand", 2)?.saturating_mul(arch.hidden);
            let inner = fields.number_or("intermediate_size", inner)?;
            mamba1(
                fields,
                arch,
                arch.layers,
                inner,
                ["state_size", "conv_kernel", "time_step_rank"],
            )
        }
        Hybrid::Jamba => jamba(fields, arch),
        Hybrid::FalconH1 => falcon_h1(fields, arch),
        Hybrid::Kimi => kimi(fields, arch),
        Hybrid::Ling => ling(fields, arch),
        Hybrid::Lightning => lightning(fields, arch),
        Hybrid::ShortConvolution { rounded, taps } => short_convolution(rounded, taps, fields, arch),
        Hybrid::NemotronH => nemotron_h(fields, arch),
    }?;
    arch.linear = arch.linear.filter(|linear| linear.layers > 0);
    let kinds = fields.texts("layer_types")?.unwrap_or_default();
    let slides = kinds.iter().filter(|kind| **kind == "sliding_attention").count() as u64;
    if slides > 0 {
        let size = fields.number("sliding_window")?;
        arch.window = Some(Window { size, layers: slides });
    }
    Ok(())
}

fn qwen(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let interval = fields.number_or("full_attention_interval", 4)?;
    let usual = LinearLayers {
        kind: Some(Recurrence::GatedDeltaNet),
        layers: arch.layers - arch.layers.checked_div(interval).unwrap_or(0),
        key_heads: 16,
        heads: 32,
        head_dim: 128,
        value_dim: 128,
        taps: 4,
        ..LinearLayers::default()
    };
    gated_delta(fields, arch, usual)
}

fn olmo(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let key_heads = fields.number_or("linear_num_key_heads", arch.heads)?;
    let width = arch.hidden.saturating_mul(3);
    let width = width.checked_div(key_heads.saturating_mul(4)).unwrap_or(0);
    let usual = LinearLayers {
        kind: Some(Recurrence::GatedDeltaNet),
        layers: arch.layers - arch.layers / 4,
        key_heads,
        heads: arch.heads,
        head_dim: width,
        value_dim: width.saturating_mul(2),
        taps: 4,
        ..LinearLayers::default()
    };
    gated_delta(fields, arch, usual)
}

/// Gated DeltaNet by its fields, where they are there.
fn gated_delta(fields: &mut Fields<'_>, arch: &mut Architecture, usual: LinearLayers) -> Result<()> {
    let full = listed(fields, "layer_types", arch.layers)?;
    arch.linear = Some(LinearLayers {
        layers: full.map_or(usual.layers, |full| arch.layers - full),
        key_heads: fields.number_or("linear_num_key_heads", usual.key_heads)?,
        heads: fields.number_or("linear_num_value_heads", usual.heads)?,
        head_dim: fields.number_or("linear_key_head_dim", usual.head_dim)?,
        value_dim: fields.number_or("linear_value_head_dim", usual.value_dim)?,
        taps: fields.number_or("linear_conv_kernel_dim", usual.taps)?,
        ..usual
    });
    Ok(())
}

/// How many layers attend by the list that says what each layer is.
fn listed(fields: &mut Fields<'_>, key: &'static str, layers: u64) -> Result<Option<u64>> {
    let Some(types) = fields.texts(key)? else {
        return Ok(None);
    };
    let kinds: [&[&str]; 2] = [
        &["full_attention", "attention", "sliding_attention"],
        &["linear_attention", "mamba", "conv"],
    ];
    let allowed = "full_attention or linear_attention for each of num_hidden_layers";
    fields.layers_of(key, &types, layers, kinds, allowed).map(Some)
}

/// How many layers attend by the list of their indices.
fn indexed(fields: &mut Fields<'_>, key: &'static str, layers: u64) -> Result<Option<u64>> {
    let Some(mut indices) = fields.numbers(key)? else {
        return Ok(None);
    };
    indices.sort_unstable();
    let count = indices.len();
    indices.dedup();
    if indices.len() < count || indices.last().is_some_and(|last| *last >= layers) {
        return fields.refuse(key, "indices of layers, from 0, each once");
    }
    Ok(Some(count as u64))
}

fn mamba2(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let key = fields.named(&["layer_types", "layers_block_type"]);
    let full = indexed(fields, "attn_layer_indices", arch.layers)?.unwrap_or(0);
    let full = listed(fields, key, arch.layers)?.unwrap_or(full);
    let heads = fields.number_or("mamba_n_heads", 128)?;
    let inner = fields.number_or("mamba_expand", 2)?.saturating_mul(arch.hidden);
    let value_dim = match fields.value("mamba_d_head").is_none_or(|value| value == "auto") {
        true => inner.checked_div(heads).unwrap_or(0),
        false => fields.number("mamba_d_head")?,
    };
    arch.linear = Some(LinearLayers {
        kind: Some(Recurrence::Mamba2),
        layers: arch.layers.saturating_sub(full),
        key_heads: fields.number_or("mamba_n_groups", 1)?,
        heads,
        head_dim: fields.number_or("mamba_d_state", 256)?,
        value_dim,
        taps: fields.number_or("mamba_d_conv", 4)?,
        ..LinearLayers::default()
    });
    if fields
        .value("position_embedding_type")
        .is_some_and(|kind| kind == "nope")
    {
        arch.positions = Positions::None;
    }
    Ok(())
}

fn mamba2_alone(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    arch.mlp_layers = Some(0);
    arch.linear = Some(LinearLayers {
        kind: Some(Recurrence::Mamba2),
        layers: arch.layers,
        key_heads: fields.number_or("n_groups", 8)?,
        heads: arch.heads,
        head_dim: fields.number_or("state_size", 128)?,
        value_dim: arch.head_dim,
        taps: fields.number_or("conv_kernel", 4)?,
        ..LinearLayers::default()
    });
    Ok(())
}

/// Mamba-1 of this inner width in so many layers; the fields with the sizes of states, convolution and step sizes.
fn mamba1(
    fields: &mut Fields<'_>,
    arch: &mut Architecture,
    layers: u64,
    inner: u64,
    [state, taps, rank]: [&'static str; 3],
) -> Result<()> {
    // Channels are alike: of any number of heads.
    let heads = 1_u64 << inner.trailing_zeros().min(8);
    arch.linear = Some(LinearLayers {
        kind: None,
        layers,
        key_heads: heads,
        heads,
        head_dim: fields.number_or(state, 16)?,
        value_dim: inner / heads,
        taps: fields.number_or(taps, 4)?,
        step_rank: match fields.value(rank).is_none_or(|value| value == "auto") {
            true => arch.hidden.div_ceil(16),
            false => fields.number(rank)?,
        },
        unnormed: arch.mlp_layers.is_some(),
        ..LinearLayers::default()
    });
    Ok(())
}

fn jamba(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let period = fields.number_or("attn_layer_period", 8)?;
    let offset = fields.number_or("attn_layer_offset", 4)?;
    // Layers `offset`, `offset + period` and so on.
    let Some(full) = arch
        .layers
        .saturating_add(period)
        .saturating_sub(offset.saturating_add(1))
        .checked_div(period)
    else {
        return fields.refuse("attn_layer_period", "an integer of at least 1");
    };
    let inner = fields.number_or("mamba_expand", 2)?.saturating_mul(arch.hidden);
    let layers = arch.layers.saturating_sub(full);
    mamba1(
        fields,
        arch,
        layers,
        inner,
        ["mamba_d_state", "mamba_d_conv", "mamba_dt_rank"],
    )
}

fn falcon_h1(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    mamba2(fields, arch)?;
    let (inner, normed) = (fields.optional("mamba_d_ssm")?, fields.flag("mamba_rms_norm", false)?);
    arch.linear = arch.linear.map(|linear| LinearLayers {
        value_dim: inner.map_or(linear.value_dim, |inner| inner.checked_div(linear.heads).unwrap_or(0)),
        beside: true,
        unnormed: !normed,
        ..linear
    });
    Ok(())
}

fn short_convolution(rounded: bool, taps: u64, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let full = indexed(fields, "full_attn_idxs", arch.layers)?.unwrap_or(arch.layers);
    let full = listed(fields, "layer_types", arch.layers)?.unwrap_or(full);
    let factor = match fields.value("block_ffn_dim_multiplier") {
        None => 1.0,
        Some(value) => match value.as_f64().filter(|factor| (0.0..1e6).contains(factor)) {
            Some(factor) => factor,
            None => return fields.refuse("block_ffn_dim_multiplier", "a number of at least 0"),
        },
    };
    if !arch.hidden.is_multiple_of(arch.heads) {
        return fields.refuse("hidden_size", "a multiple of num_attention_heads");
    }
    let multiple = fields.number_or("block_multiple_of", 256)?;
    if fields.flag("block_auto_adjust_ff_dim", rounded)? {
        let inner = (arch.mlp.d_ff.saturating_mul(2) / 3) as f64 * factor;
        let rounded = (inner as u64).checked_next_multiple_of(multiple.max(1));
        arch.mlp.d_ff = rounded.unwrap_or(u64::MAX);
    }
    arch.linear = Some(LinearLayers {
        kind: None,
        layers: arch.layers.saturating_sub(full),
        key_heads: arch.heads,
        heads: arch.heads,
        head_dim: arch.head_dim,
        value_dim: arch.hidden.checked_div(arch.heads).unwrap_or(0),
        taps: fields.number_or("conv_L_cache", taps)?,
        ..LinearLayers::default()
    });
    Ok(())
}

fn kimi(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    if fields.flag("mla_use_nope", true)? {
        arch.positions = Positions::None;
    }
    let Some(mut nested) = fields.object("linear_attn_config")? else {
        let allowed = "an object with kda_layers, num_heads, head_dim";
        return fields.refuse("linear_attn_config", allowed);
    };
    let listed = nested.numbers("kda_layers")?.unwrap_or_default();
    nested.ignore(&["full_attn_layers", "gate_lower_bound"]);
    let (heads, width) = (nested.number("num_heads")?, nested.number("head_dim")?);
    arch.linear = Some(LinearLayers {
        kind: Some(Recurrence::KimiDelta),
        layers: listed.len() as u64,
        key_heads: heads,
        heads,
        head_dim: width,
        value_dim: width,
        taps: nested.number_or("short_conv_kernel_size", 4)?,
        full_gate: nested.flag("use_full_rank_gate", false)?,
        ..LinearLayers::default()
    });
    fields.finish_part(nested, "linear_attn_config")
}

fn ling(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let interval = fields.number_or("layer_group_size", 6)?;
    let full = arch.layers.checked_div(interval).unwrap_or(0);
    let full = listed(fields, "layer_types", arch.layers)?.unwrap_or(full);
    // What `head_dim` is once `transformers` has saved it is the rotated part of a key.
    let key = fields.named(&["linear_head_dim", "head_dim"]);
    let width = fields.number_or(key, 128)?;
    arch.linear = Some(LinearLayers {
        kind: Some(Recurrence::KimiDelta),
        layers: arch.layers - full,
        key_heads: arch.heads,
        heads: arch.heads,
        head_dim: width,
        value_dim: width,
        taps: fields.number_or("short_conv_kernel_size", 4)?,
        full_gate: true,
        full_decay: true,
        ..LinearLayers::default()
    });
    Ok(())
}

fn lightning(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let layers = arch.layers;
    let full = match fields.optional("layer_group_size")? {
        Some(0) => return fields.refuse("layer_group_size", "an integer of at least 1"),
        Some(group) => layers / group + layers % group,
        // `MiniMaxConfig`.
        None => layers.div_ceil(2),
    };
    let kinds = fields.numbers("attn_type_list")?;
    if kinds
        .as_ref()
        .is_some_and(|kinds| kinds.len() as u64 != layers || kinds.iter().any(|kind| *kind > 1))
    {
        return fields.refuse("attn_type_list", "0 or 1 for each of num_hidden_layers");
    }
    let full = kinds.map_or(full, |kinds| kinds.iter().sum());
    let full = listed(fields, "layer_types", layers)?.unwrap_or(full);
    let width = match arch.mla {
        Some(_) => fields.number_or("head_dim", arch.hidden.checked_div(arch.heads).unwrap_or(0))?,
        None => arch.head_dim,
    };
    arch.linear = Some(LinearLayers {
        kind: Some(Recurrence::Mamba2),
        layers: layers - full,
        key_heads: arch.heads,
        heads: arch.heads,
        head_dim: width,
        value_dim: width,
        taps: 0,
        normed_keys: fields.flag("use_qk_norm", false)?,
        ..LinearLayers::default()
    });
    Ok(())
}

fn nemotron_h(fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    let blocks = blocks(fields)?;
    let count = |block| blocks.iter().filter(|known| **known == block).count() as u64;
    let (mlps, experts) = (count(Block::Mlp), count(Block::Experts));
    if mlps > 0 && experts > 0 {
        let allowed = "MLP layers or MoE layers, not both";
        let key = pattern_key(fields);
        return fields.refuse(key, allowed);
    }
    // The shared experts have a width of their own.
    fields.ignore(&["n_shared_experts"]);
    arch.positions = Positions::None;
    arch.mlp_layers = Some(mlps + experts);
    arch.linear = Some(LinearLayers {
        kind: Some(Recurrence::Mamba2),
        layers: count(Block::Mamba),
        key_heads: fields.number_or("n_groups", 8)?,
        heads: fields.number_or("mamba_num_heads", 128)?,
        head_dim: fields.number_or("ssm_state_size", 128)?,
        value_dim: fields.number_or("mamba_head_dim", 64)?,
        taps: fields.number_or("conv_kernel", 4)?,
        ..LinearLayers::default()
    });
    Ok(())
}

fn pattern_key(fields: &mut Fields<'_>) -> &'static str {
    fields.named(&["hybrid_override_pattern", "layers_block_type", "layer_types"])
}

/// The layers of Nemotron-H: letters, or names in a list.
fn blocks(fields: &mut Fields<'_>) -> Result<Vec<Block>> {
    let key = pattern_key(fields);
    let letters = fields.value(key).and_then(|value| value.as_str());
    let found: Option<Vec<Block>> = match letters {
        Some(letters) => letters
            .chars()
            .map(|letter| match letter {
                'M' => Some(Block::Mamba),
                '*' => Some(Block::Attention),
                '-' => Some(Block::Mlp),
                'E' => Some(Block::Experts),
                _ => None,
            })
            .collect(),
        None => fields
            .texts(key)?
            .unwrap_or_default()
            .iter()
            .map(|name| match *name {
                "mamba" | "linear_attention" => Some(Block::Mamba),
                "attention" | "full_attention" => Some(Block::Attention),
                "mlp" => Some(Block::Mlp),
                "moe" => Some(Block::Experts),
                _ => None,
            })
            .collect(),
    };
    match found.filter(|blocks| !blocks.is_empty()) {
        Some(blocks) => Ok(blocks),
        None => fields.refuse(key, "M, *, - or E for each layer"),
    }
}
