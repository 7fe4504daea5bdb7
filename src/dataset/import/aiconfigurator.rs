//! Tables of ai-dynamo/aiconfigurator: kernels of serving stacks, forward only.
//!
//! Latencies are means in milliseconds, taken in short bursts inside CUDA graphs. Weights of a
//! GEMM are cold in L2, attention is warm. Two versions of one stack differ by more than a good
//! predictor's error, so the stack of a row keeps its version. fp8 rows include the quantization
//! of the activation; trtllm attention includes the rotary embedding and the cache write.

use super::{Batch, Importer, Parquet, Reader, Reading, Reason, Recipe};
use crate::error::Result;
use crate::ops::{Attention, Collective, CollectiveKind, Dtype, Gemm, Layout, Op, Pass};
use crate::units::Seconds;

const MILLISECOND: Seconds = Seconds::from_secs(1e-3);

const GEMM: &[&str] = &[
    "gemm_dtype",
    "m",
    "n",
    "k",
    "latency",
    "kernel_source",
    "suspect",
];
const ATTENTION: &[&str] = &[
    "attn_dtype",
    "kv_cache_dtype",
    "batch_size",
    "isl",
    "step",
    "num_heads",
    "num_key_value_heads",
    "head_dim",
    "window_size",
    "latency",
    "kernel_source",
    "suspect",
];
const ENCODER: &[&str] = &[
    "attn_dtype",
    "batch_size",
    "isl",
    "num_heads",
    "head_dim",
    "latency",
    "kernel_source",
];
const COLLECTIVE: &[&str] = &[
    "op_name",
    "dtype",
    "num_gpus",
    "message_size",
    "latency",
    "kernel_source",
];
const EXPERTS: &[&str] = &["num_experts"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ai-dynamo/aiconfigurator@095f58a",
    licence: "Apache-2.0",
    tables: "its GEMM, attention, collective or mixture-of-experts tables",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let recipe = |columns: &'static [&'static str], reader| {
        let known = columns.iter().all(|column| file.has(column));
        known.then_some(Recipe {
            identity: &["gpu", "framework", "version"],
            identify: |texts| (texts[0].to_owned(), format!("{} {}", texts[1], texts[2])),
            columns,
            reader,
        })
    };
    // Encoder tables have a subset of the columns of the other attention tables.
    recipe(GEMM, gemm)
        .or_else(|| recipe(ATTENTION, attention))
        .or_else(|| recipe(ENCODER, encoder))
        .or_else(|| recipe(COLLECTIVE, collective))
        .or_else(|| recipe(EXPERTS, experts))
}

/// `C[m,n] = A[m,k] B[n,k]ᵀ`, a linear layer's forward product.
fn gemm<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let dtype = batch.texts("gemm_dtype")?;
    let (m, n, k) = (batch.counts("m")?, batch.counts("n")?, batch.counts("k")?);
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    let suspect = batch.flags("suspect")?;
    Ok(Box::new(move |row| {
        trusted(suspect.get(row))?;
        Ok(Reading {
            op: Op::Gemm(Gemm {
                m: m.size(row),
                n: n.size(row),
                k: k.size(row),
                batch: 1,
                layout: Layout::Tn,
                dtype: match dtype.get(row) {
                    Some("bfloat16") => Dtype::Bf16,
                    Some("fp8") => Dtype::Fp8,
                    other => return Err(unknown("gemm_dtype", other)),
                },
            }),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Prefill (`isl` new tokens, none cached) and decoding (one new token after `step` cached ones).
///
/// Both are causal attention of the last `isl` of `step + isl` tokens.
fn attention<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let dtype = batch.texts("attn_dtype")?;
    let cache = batch.texts("kv_cache_dtype")?;
    let members = batch.counts("batch_size")?;
    let (new, cached) = (batch.counts("isl")?, batch.counts("step")?);
    let heads = batch.counts("num_heads")?;
    let kv_heads = batch.counts("num_key_value_heads")?;
    let head_dim = batch.counts("head_dim")?;
    let window = batch.counts("window_size")?;
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    let suspect = batch.flags("suspect")?;
    Ok(Box::new(move |row| {
        trusted(suspect.get(row))?;
        let dtype = match (dtype.get(row), cache.get(row)) {
            (Some("bfloat16"), Some("bfloat16")) => Dtype::Bf16,
            (Some("fp8"), Some("fp8")) => Dtype::Fp8,
            (Some("bfloat16"), Some("fp8")) => {
                return Err("bfloat16 attention over an fp8 cache".to_owned());
            }
            (other, _) => return Err(unknown("attn_dtype", other)),
        };
        Ok(Reading {
            op: Op::Attention(Attention {
                batch: members.size(row),
                heads: heads.size(row),
                kv_heads: kv_heads.size(row),
                seq_q: new.size(row),
                seq_kv: cached.size(row) + new.size(row),
                head_dim: head_dim.size(row),
                value_dim: head_dim.size(row),
                causal: true,
                // 0 and -1 both say that there is no window; `size` maps -1 to 0.
                window: window.size(row),
                pass: Pass::Forward,
                dtype,
            }),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Bidirectional attention, as in vision towers; every query head has its own keys.
fn encoder<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let dtype = batch.texts("attn_dtype")?;
    let members = batch.counts("batch_size")?;
    let length = batch.counts("isl")?;
    let heads = batch.counts("num_heads")?;
    let head_dim = batch.counts("head_dim")?;
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    Ok(Box::new(move |row| {
        Ok(Reading {
            op: Op::Attention(Attention {
                batch: members.size(row),
                heads: heads.size(row),
                kv_heads: heads.size(row),
                seq_q: length.size(row),
                seq_kv: length.size(row),
                head_dim: head_dim.size(row),
                value_dim: head_dim.size(row),
                causal: false,
                window: 0,
                pass: Pass::Forward,
                dtype: match dtype.get(row) {
                    Some("bfloat16") => Dtype::Bf16,
                    other => return Err(unknown("attn_dtype", other)),
                },
            }),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Collectives inside one node; `message_size` counts elements of `dtype`.
fn collective<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let kind = batch.texts("op_name")?;
    let dtype = batch.texts("dtype")?;
    let ranks = batch.counts("num_gpus")?;
    let elements = batch.counts("message_size")?;
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    Ok(Box::new(move |row| {
        let kernel = kernel.get(row);
        if kernel.is_some_and(|kernel| kernel.ends_with("_eager")) {
            return Err("collective launched eagerly, which times the host".to_owned());
        }
        let element_bytes = match dtype.get(row) {
            Some("half" | "bfloat16") => 2,
            Some("int8") => 1,
            other => return Err(unknown("dtype", other)),
        };
        Ok(Reading {
            op: Op::Collective(Collective::new(
                match kind.get(row) {
                    Some("all_reduce") => CollectiveKind::AllReduce,
                    Some("all_gather") => CollectiveKind::AllGather,
                    Some("reduce_scatter") => CollectiveKind::ReduceScatter,
                    Some("alltoall") => CollectiveKind::AllToAll,
                    other => return Err(unknown("op_name", other)),
                },
                elements.size(row).saturating_mul(element_bytes),
                ranks.size(row),
            )),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel,
        })
    }))
}

fn experts<'a>(_: &'a Batch<'_>) -> Result<Reader<'a>> {
    Ok(Box::new(|_| {
        Err("a whole mixture-of-experts layer, which is several operators".to_owned())
    }))
}

/// Refuses a row that its publisher or packer marked.
fn trusted(suspect: Option<bool>) -> std::result::Result<(), Reason> {
    match suspect {
        Some(true) => Err("marked as suspect by the source".to_owned()),
        _ => Ok(()),
    }
}

fn unknown(column: &str, value: Option<&str>) -> Reason {
    format!(
        "`{column}` is {}, which is no operand format or pattern of ours",
        value.unwrap_or("null")
    )
}
