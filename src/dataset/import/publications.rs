//! Timings of single publications, one line each: flash attention and memory-bound kernels forward and backward, GEMMs,
//! collectives.
//!
//! Every row names its software and its source. Times are those of the publication, or follow from its rate.

use super::{Batch, Importer, MICROSECOND, MILLISECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Attention, Collective, CollectiveKind, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use crate::units::Seconds;

const ATTENTION: &[&str] = &[
    "dtype",
    "pass",
    "batch",
    "q_len",
    "kv_len",
    "heads",
    "kv_heads",
    "head_dim_qk",
    "head_dim_v",
    "causal",
    "window",
    "time_ms",
    "suspect",
    "source_repo",
];
const GEMM: &[&str] = &["kind", "layout", "m", "n", "k", "dtype", "time_us", "source_repo"];
const MEMORY: &[&str] = &[
    "kernel",
    "provider",
    "mode",
    "dtype",
    "tokens",
    "hidden",
    "ffn",
    "vocab",
    "heads",
    "kv_heads",
    "time_ms",
    "source_repo",
];
const COLLECTIVE: &[&str] = &["op", "bytes", "num_gpus", "time_us", "source_repo"];
const OPTIMIZER: &[&str] = &["optimizer", "parameters", "time_ms", "source_repo"];

/// In less than this Liger-Kernel's benchmarks time how the host starts a backward pass in Python.
const LEAST_LIGER_BACKWARD: Seconds = Seconds::from_micros(140.0);

/// The publications and their tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "publications, named row by row",
    licence: "that of each publication",
    tables: "attention with pass, q_len and time_ms, memory-bound kernels with kernel, provider and mode, GEMMs with kind, layout and time_us, collectives with op, bytes \
             and time_us, or optimizers with optimizer, implementation, parameters and time_ms, each with source_repo",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let recipe = |identity: &'static [&'static str], columns: &'static [&'static str], reader| {
        let known = file.has_all(identity) && file.has_all(columns);
        known.then_some(Recipe {
            identity,
            identify: |texts| (texts[0].to_owned(), texts[1..].join(", ")),
            columns,
            readers: vec![reader],
        })
    };
    recipe(&["gpu", "backend", "software"], ATTENTION, attention)
        .or_else(|| recipe(&["gpu", "backend", "software"], GEMM, gemm))
        .or_else(|| recipe(&["gpu", "provider", "software"], MEMORY, memory))
        .or_else(|| recipe(&["gpu", "implementation", "software"], OPTIMIZER, optimizer))
        .or_else(|| {
            let collectives = recipe(&["gpu", "system"], COLLECTIVE, collective)?;
            let identify = |texts: &[&str]| {
                // The GPU is named without its memory.
                let gpu = match texts[1].contains("A100-SXM4-40GB") {
                    true => "a100-40gb",
                    false => texts[0],
                };
                (gpu.to_owned(), texts[1].to_owned())
            };
            Some(Recipe {
                identify,
                ..collectives
            })
        })
}

/// One pass of attention.
fn attention<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (dtype, pass) = (rows.texts("dtype")?, rows.texts("pass")?);
    let (batch, window) = (rows.counts("batch")?, rows.counts("window")?);
    let (queries, keys) = (rows.counts("q_len")?, rows.counts("kv_len")?);
    let (heads, kv_heads) = (rows.counts("heads")?, rows.counts("kv_heads")?);
    let (head_dim, value_dim) = (rows.counts("head_dim_qk")?, rows.counts("head_dim_v")?);
    let (causal, suspect) = (rows.flags("causal")?, rows.flags("suspect")?);
    let (time, source) = (rows.numbers("time_ms")?, rows.texts("source_repo")?);
    Ok(Box::new(move |row| {
        if suspect.get(row) == Some(true) {
            return Err("marked as suspect".to_owned());
        }
        Ok(Reading {
            op: Op::Attention(Attention {
                batch: batch.size(row),
                heads: heads.size(row),
                kv_heads: kv_heads.size(row),
                seq_q: queries.size(row),
                seq_kv: keys.size(row),
                head_dim: head_dim.size(row),
                value_dim: value_dim.size(row),
                causal: causal.get(row) == Some(true),
                window: window.size(row),
                pass: match pass.get(row) {
                    Some("fwd") => Pass::Forward,
                    Some("bwd") => Pass::Backward,
                    other => return Err(unknown("pass", other)),
                },
                dtype: match dtype.get(row) {
                    Some("bf16") => Dtype::Bf16,
                    Some("fp16") => Dtype::Fp16,
                    Some("fp8") => Dtype::Fp8,
                    other => return Err(unknown("dtype", other)),
                },
            }),
            time: time.time(row, MILLISECOND),
            group: None,
            libraries: source.get(row),
        })
    }))
}

/// One GEMM; a `layout` is that of column-major libraries, whose `m` is the width of our output.
fn gemm<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (kind, layout) = (rows.texts("kind")?, rows.texts("layout")?);
    let (m, n, k) = (rows.counts("m")?, rows.counts("n")?, rows.counts("k")?);
    let dtype = rows.texts("dtype")?;
    let (time, source) = (rows.numbers("time_us")?, rows.texts("source_repo")?);
    Ok(Box::new(move |row| {
        if !matches!(kind.get(row), Some("gemm" | "gemm best of a sweep")) {
            return Err(unknown("kind", kind.get(row)));
        }
        let (m, n) = (m.size(row), n.size(row));
        let (m, n, layout) = match layout.get(row) {
            None | Some("") => (m, n, Layout::Tn),
            Some("TN") => (n, m, Layout::Tn),
            Some("NN") => (n, m, Layout::Nn),
            Some("NT") => (n, m, Layout::Nt),
            other => return Err(unknown("layout", other)),
        };
        Ok(Reading {
            op: Op::Gemm(Gemm {
                layout,
                dtype: match dtype.get(row) {
                    Some("bf16" | "bf16/bf16->bf16") => Dtype::Bf16,
                    Some("fp16") => Dtype::Fp16,
                    Some("fp8" | "fp8/fp8->bf16") => Dtype::Fp8,
                    other => return Err(unknown("dtype", other)),
                },
                ..Gemm::new(m, n, k.size(row))
            }),
            time: time.time(row, MICROSECOND),
            group: None,
            libraries: source.get(row),
        })
    }))
}

/// One memory-bound kernel; modules with GEMMs and sums of both passes are none.
fn memory<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (kernel, mode) = (rows.texts("kernel")?, rows.texts("mode")?);
    let (dtype, time) = (rows.texts("dtype")?, rows.numbers("time_ms")?);
    let (tokens, hidden) = (rows.counts("tokens")?, rows.counts("hidden")?);
    let (ffn, vocab) = (rows.counts("ffn")?, rows.counts("vocab")?);
    let (heads, kv_heads) = (rows.counts("heads")?, rows.counts("kv_heads")?);
    let (provider, source) = (rows.texts("provider")?, rows.texts("source_repo")?);
    Ok(Box::new(move |row| {
        let name = kernel.get(row).unwrap_or("null");
        let (kind, cols) = match name {
            "rms_norm" | "megatron_rms_norm" => (MemoryKind::RmsNorm, hidden.size(row)),
            "layer_norm" => (MemoryKind::LayerNorm, hidden.size(row)),
            "softmax" => (MemoryKind::Softmax, hidden.size(row)),
            "embedding" => (MemoryKind::Embedding, hidden.size(row)),
            "rope_one_tensor" => (MemoryKind::Rotary, hidden.size(row)),
            // Queries and keys at once.
            "rope" => {
                let head_dim = hidden.size(row) / heads.size(row).max(1);
                let both = heads.size(row).saturating_add(kv_heads.size(row));
                (MemoryKind::Rotary, head_dim.saturating_mul(both))
            }
            "cross_entropy" | "megatron_cross_entropy" => (MemoryKind::CrossEntropy, vocab.size(row)),
            "megatron_swiglu" => (MemoryKind::Swiglu, ffn.size(row)),
            "swiglu" | "geglu" | "tiled_swiglu" | "tiled_geglu" => {
                return Err("an MLP with its GEMMs".to_owned());
            }
            name if name.starts_with("fused_linear") => {
                return Err("a loss with its GEMM".to_owned());
            }
            name => return Err(format!("kernel `{name}`, which is none of ours")),
        };
        let pass = match mode.get(row) {
            Some("forward" | "no-grad-forward") => Pass::Forward,
            Some("backward") if name.starts_with("megatron") => {
                return Err("a backward pass with the forward pass in its time".to_owned());
            }
            Some("backward") => Pass::Backward,
            Some("full") => return Err("both passes in one time".to_owned()),
            other => return Err(unknown("mode", other)),
        };
        let liger = provider.get(row).is_some_and(|name| name.starts_with("liger"));
        let time = time.time(row, MILLISECOND);
        if liger && pass == Pass::Backward && time < LEAST_LIGER_BACKWARD {
            return Err("a backward pass in which the host is timed".to_owned());
        }
        Ok(Reading {
            op: Op::Memory(Memory {
                kind,
                rows: tokens.size(row),
                cols,
                pass,
                dtype: match dtype.get(row) {
                    Some("bf16") => Dtype::Bf16,
                    Some("fp32") => Dtype::Fp32,
                    other => return Err(unknown("dtype", other)),
                },
            }),
            time,
            group: None,
            libraries: source.get(row),
        })
    }))
}

/// One collective, out of place; `bytes` is the larger of what a rank has before and after.
fn collective<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (kind, ranks) = (rows.texts("op")?, rows.counts("num_gpus")?);
    let (bytes, time) = (rows.counts("bytes")?, rows.numbers("time_us")?);
    let source = rows.texts("source_repo")?;
    Ok(Box::new(move |row| {
        let kind = match kind.get(row) {
            Some("all_reduce") => CollectiveKind::AllReduce,
            Some("all_gather") => CollectiveKind::AllGather,
            Some("reduce_scatter") => CollectiveKind::ReduceScatter,
            Some("all_to_all") => CollectiveKind::AllToAll,
            other => return Err(unknown("op", other)),
        };
        Ok(Reading {
            op: Op::Collective(Collective::new(kind, bytes.size(row), ranks.size(row))),
            time: time.time(row, MICROSECOND),
            group: None,
            libraries: source.get(row),
        })
    }))
}

/// One update of all weights; without a stated precision they are fp32, PyTorch's default: in 16 bits Adam would reach a third
/// of the bandwidth.
fn optimizer<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (name, parameters) = (rows.texts("optimizer")?, rows.counts("parameters")?);
    let (time, source) = (rows.numbers("time_ms")?, rows.texts("source_repo")?);
    Ok(Box::new(move |row| {
        // Decoupled decay is arithmetic: both move the same bytes.
        if !matches!(name.get(row), Some("adam" | "adamw")) {
            let name = name.get(row).unwrap_or("null");
            return Err(format!("optimizer `{name}`, which is none of ours"));
        }
        Ok(Reading {
            op: Op::Memory(Memory::forward(
                MemoryKind::PlainAdam,
                1,
                parameters.size(row),
                Dtype::Fp32,
            )),
            time: time.time(row, MILLISECOND),
            group: None,
            libraries: source.get(row),
        })
    }))
}
