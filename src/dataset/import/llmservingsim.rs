//! Tables of casys-kaist/LLMServingSim: layers by name, tokens and tensor-parallel ranks, whose sizes follow from the model.
//!
//! No table states the number format: 16 bits are assumed. Rows of attention are recognised and left out, since they time something
//! else than they name: see [`attention`].

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Reason, Recipe};
use crate::arch::{Architecture, Preset};
use crate::error::Result;
use crate::ops::{Gemm, Memory, MemoryKind, Op, Pass};
use crate::units::Seconds;

const LAYERS: &[&str] = &["layer_name", "input", "latency(ns)", "model", "tp"];
const SERVED: &[&str] = &["layer", "tokens", "time_us", "model", "tp"];
const ATTENTION: &[&str] = &["prefill_chunk_size", "kv_cache_size", "is_prefill"];

const NANOSECOND: Seconds = Seconds::from_secs(1e-9);

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "casys-kaist/LLMServingSim@5daddb2",
    licence: "MIT",
    tables: "layers with layer_name, input and latency(ns), or layer, tokens and time_us, each with model and tp, or attention with \
             prefill_chunk_size and kv_cache_size",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let recipe = |identify, columns, reader| Recipe {
        identity: &["gpu"],
        identify,
        columns,
        readers: vec![reader],
    };
    let identify = |texts: &[&str]| (texts[0].to_owned(), "llmservingsim".to_owned());
    if file.has_all(LAYERS) {
        return Some(recipe(identify, LAYERS, layer));
    }
    if file.has_all(ATTENTION) {
        return Some(recipe(identify, ATTENTION, attention));
    }
    let identify = |texts: &[&str]| (texts[0].to_owned(), "llmservingsim vllm".to_owned());
    let known = file.has_all(SERVED);
    known.then(|| recipe(identify, SERVED, served))
}

/// The model of a row and its tensor-parallel ranks (`tp4`).
fn place(model: Option<&str>, tp: Option<&str>) -> std::result::Result<(&'static Architecture, u64), Reason> {
    let (model, tp) = (model.unwrap_or("null"), tp.unwrap_or("null"));
    let preset = Preset::find(model).map_err(|_| format!("no preset describes `{model}`"))?;
    let ranks = tp.strip_prefix("tp").and_then(|ranks| ranks.parse().ok());
    let ranks = ranks.filter(|ranks| *ranks > 0);
    let ranks = ranks.ok_or_else(|| format!("`tp` is {tp}, which names no number of ranks"))?;
    Ok((&preset.architecture, ranks))
}

/// The operator of a layer over `tokens` on one rank.
fn operator((arch, ranks): (&Architecture, u64), layer: Option<&str>, tokens: u64) -> std::result::Result<Op, Reason> {
    let hidden = arch.hidden;
    let queries = arch.heads * arch.head_dim / ranks;
    let keys = arch.kv_heads * arch.head_dim / ranks;
    let inner = arch.mlp.d_ff / ranks;
    let (outputs, inputs) = match layer {
        Some("q_proj") => (queries, hidden),
        Some("k_proj" | "v_proj") => (keys, hidden),
        Some("qkv_proj") => (queries + 2 * keys, hidden),
        Some("o_proj") => (hidden, queries),
        Some("gate_proj" | "up_proj") if arch.moe.is_none() => (inner, hidden),
        Some("gate_up_proj") if arch.moe.is_none() => (2 * inner, hidden),
        Some("down_proj") if arch.moe.is_none() => (hidden, inner),
        Some("lm_head") => (arch.vocab / ranks, hidden),
        Some("input_layernorm" | "post_layernorm" | "final_layernorm" | "layernorm") => {
            return Ok(Op::Memory(Memory {
                kind: MemoryKind::RmsNorm,
                rows: tokens,
                cols: hidden,
                pass: Pass::Forward,
                dtype: Default::default(),
            }));
        }
        other => {
            let layer = other.unwrap_or("null");
            return Err(format!("layer `{layer}` is no operator of ours"));
        }
    };
    Ok(Op::Gemm(Gemm::new(tokens, outputs, inputs)))
}

fn layer<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (name, tokens) = (rows.texts("layer_name")?, rows.counts("input")?);
    let (model, tp) = (rows.texts("model")?, rows.texts("tp")?);
    let latency = rows.counts("latency(ns)")?;
    Ok(Box::new(move |row| {
        let place = place(model.get(row), tp.get(row))?;
        Ok(Reading::new(
            operator(place, name.get(row), tokens.size(row))?,
            NANOSECOND * latency.size(row) as f64,
        ))
    }))
}

fn served<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (name, tokens) = (rows.texts("layer")?, rows.numbers("tokens")?);
    let (model, tp) = (rows.texts("model")?, rows.texts("tp")?);
    let time = rows.numbers("time_us")?;
    Ok(Box::new(move |row| {
        let Some(tokens) = tokens.get(row) else {
            return Err("`tokens` is not stated".to_owned());
        };
        let place = place(model.get(row), tp.get(row))?;
        Ok(Reading::new(
            operator(place, name.get(row), tokens as u64)?,
            time.time(row, MICROSECOND),
        ))
    }))
}

/// No row is kept. Of the decoding steps 91 in 100 on A6000 and 70 in 100 on H100 are faster than the cache that they name can be
/// read, seven and three times in the mean, so the others need not be right. A prefill of 1,024 tokens after 1,024 on A6000 takes 1.3 times as long as one of 512 after 1,536, though it
/// has 1.7 times the pairs of queries and keys: the tokens of the chunk itself are not attended to.
fn attention<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let is_prefill = rows.flags("is_prefill")?;
    Ok(Box::new(move |row| {
        Err(match is_prefill.get(row) {
            Some(true) => "a prefill that does not attend to its own chunk",
            _ => "a decoding step of a table in which most are faster than their cache can be read",
        }
        .to_owned())
    }))
}
