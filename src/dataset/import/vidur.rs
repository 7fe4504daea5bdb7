//! Tables of microsoft/vidur and zksainx/pipeweave: collectives in steps of a few kilobytes, the memory-bound kernels of a
//! layer, medians in milliseconds.
//!
//! Ranks that fill no node are spread evenly over nodes. Systems whose GPUs are linked in pairs are no GPU of ours: their
//! links differ.

use super::{Batch, Importer, MILLISECOND, Parquet, Reader, Reading, Reason, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Collective, CollectiveKind, Dtype, Memory, MemoryKind, Op, Pass};
use crate::units::Seconds;

const COLLECTIVE: &[&str] = &[
    "collective",
    "num_workers",
    "devices_per_node",
    "max_devices_per_node",
    "size",
    "median",
];

const LAYER: &[&str] = &[
    "num_tokens",
    "n_embd",
    "n_expanded_embd",
    "n_head",
    "n_kv_head",
    "num_tensor_parallel_workers",
    "use_gated_mlp",
    "time_stats.input_layernorm.median",
    "time_stats.post_attention_layernorm.median",
    "time_stats.attn_rope.median",
    "time_stats.mlp_act.median",
    "time_stats.add.median",
];

/// Times are rounded to 1 us: below this one by more than 2.5 %.
const LEAST_TIME: Seconds = Seconds::from_micros(20.0);

/// The publishers and their tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "microsoft/vidur@7d475133 and zksainx/pipeweave@55e03178",
    licence: "MIT and Apache-2.0",
    tables: "collectives with system, collective, num_workers, devices_per_node, size and median, or layers with gpu, \
             num_tokens and time_stats",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    if file.has_all(LAYER) {
        return Some(Recipe {
            identity: &["gpu"],
            identify: |texts| (texts[0].to_owned(), "vidur".to_owned()),
            columns: LAYER,
            readers: vec![input_norm, attention_norm, rotary, activation, residual],
        });
    }
    let known = file.has_all(COLLECTIVE) && file.has("system");
    known.then_some(Recipe {
        identity: &["system"],
        identify: |texts| match texts[0].strip_prefix("pipeweave ") {
            Some("RTX PRO 6000 S") => ("rtx-pro-6000".to_owned(), "pipeweave".to_owned()),
            Some(gpu) => (gpu.to_owned(), "pipeweave".to_owned()),
            None => {
                let gpu = texts[0].trim_end_matches("_dgx");
                (gpu.to_owned(), "vidur".to_owned())
            }
        },
        columns: COLLECTIVE,
        readers: vec![collective],
    })
}

/// The sizes of a layer on one rank.
struct Layer {
    hidden: u64,
    ffn: u64,
    /// Query and key heads.
    heads: u64,
    head_dim: u64,
    gated: bool,
}

/// One kernel of a layer in fp16; `kernel` says which and how wide.
fn kernel<'a>(
    rows: &'a Batch<'_>,
    column: &str,
    kernel: fn(&Layer) -> std::result::Result<(MemoryKind, u64), &'static str>,
) -> Result<Reader<'a>> {
    let (tokens, hidden) = (rows.counts("num_tokens")?, rows.counts("n_embd")?);
    let (ffn, ranks) = (
        rows.counts("n_expanded_embd")?,
        rows.counts("num_tensor_parallel_workers")?,
    );
    let (heads, kv_heads) = (rows.counts("n_head")?, rows.counts("n_kv_head")?);
    let (gated, median) = (rows.flags("use_gated_mlp")?, rows.numbers(column)?);
    Ok(Box::new(move |row| {
        let (ranks, all) = (ranks.size(row).max(1), heads.size(row).max(1));
        let layer = Layer {
            hidden: hidden.size(row),
            ffn: ffn.size(row) / ranks,
            heads: all.saturating_add(kv_heads.size(row)) / ranks,
            head_dim: hidden.size(row) / all,
            gated: gated.get(row) == Some(true),
        };
        let (kind, cols) = kernel(&layer).map_err(Reason::from)?;
        let time = median.time(row, MILLISECOND);
        if time < LEAST_TIME {
            return Err("less than 20 us, rounded to 1 us".to_owned());
        }
        Ok(Reading::new(
            Op::Memory(Memory {
                kind,
                rows: tokens.size(row),
                cols,
                pass: Pass::Forward,
                dtype: Dtype::Fp16,
            }),
            time,
        ))
    }))
}

/// Models with a gate normalise by the root mean square.
fn norm(layer: &Layer) -> std::result::Result<(MemoryKind, u64), &'static str> {
    let kind = match layer.gated {
        true => MemoryKind::RmsNorm,
        false => MemoryKind::LayerNorm,
    };
    Ok((kind, layer.hidden))
}

fn input_norm<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    kernel(rows, "time_stats.input_layernorm.median", norm)
}

fn attention_norm<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    kernel(
        rows,
        "time_stats.post_attention_layernorm.median",
        |layer| match layer.gated {
            true => norm(layer),
            false => Err("no norm in front of the MLP"),
        },
    )
}

fn rotary<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    kernel(rows, "time_stats.attn_rope.median", |layer| {
        let cols = layer.heads.saturating_mul(layer.head_dim);
        Ok((MemoryKind::Rotary, cols))
    })
}

fn activation<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    kernel(rows, "time_stats.mlp_act.median", |layer| {
        let kind = match layer.gated {
            true => MemoryKind::Swiglu,
            false => MemoryKind::Gelu,
        };
        Ok((kind, layer.ffn))
    })
}

fn residual<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    kernel(rows, "time_stats.add.median", |layer| match layer.gated {
        true => Ok((MemoryKind::Add, layer.hidden)),
        false => Err("a sum of three tensors"),
    })
}

fn collective<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (kind, ranks) = (rows.texts("collective")?, rows.counts("num_workers")?);
    let inside = rows.counts("devices_per_node")?;
    let node = rows.counts("max_devices_per_node")?;
    let (bytes, median) = (rows.counts("size")?, rows.numbers("median")?);
    Ok(Box::new(move |row| {
        let (ranks, inside) = (ranks.size(row), inside.size(row));
        let kind = match kind.get(row) {
            Some("all_reduce") => CollectiveKind::AllReduce,
            Some("send_recv") => CollectiveKind::SendReceive,
            other => return Err(unknown("collective", other)),
        };
        let stride = match ranks > inside {
            true => node.size(row) / inside.max(1),
            false => 1,
        };
        Ok(Reading::new(
            Op::Collective(Collective {
                stride,
                ..Collective::new(kind, bytes.size(row), ranks)
            }),
            median.time(row, MILLISECOND),
        ))
    }))
}
