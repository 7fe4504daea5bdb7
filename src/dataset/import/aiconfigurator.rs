//! Tables of ai-dynamo/aiconfigurator: kernels of serving stacks, forward only.
//!
//! Latencies are means in milliseconds, taken in short bursts inside CUDA graphs. Weights of a
//! GEMM are cold in L2, attention is warm. Two versions of one stack differ by more than a good
//! predictor's error, so the stack of a row keeps its version. fp8 rows include the quantization
//! of the activation; trtllm attention includes the rotary embedding and the cache write.

use super::{
    Batch, Filter, Importer, MICROSECOND, MILLISECOND, Parquet, Reader, Reading, Reason, Recipe, Supplied, unknown,
};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::ops::{
    Attention, Collective, CollectiveKind, Dtype, Experts, Gemm, Layout, LinearAttention, Memory, MemoryKind, Op, Pass,
    Recurrence, RouterLoad,
};
use std::path::Path;

const GEMM: &[&str] = &["gemm_dtype", "m", "n", "k", "latency", "kernel_source", "suspect"];
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
const ALL_TO_ALL: &[&str] = &[
    "gpu",
    "op_name",
    "kernel_source",
    "node_num",
    "hidden_size",
    "num_token",
    "num_topk",
    "combine_avg_t_us",
    "moe_dtype",
    "num_tokens",
    "topk",
    "moe_ep_size",
    "latency",
];
const EXPERTS: &[&str] = &[
    "framework",
    "moe_dtype",
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "distribution",
    "latency",
    "kernel_source",
];
const LATENT: &[&str] = &[
    "table",
    "mla_dtype",
    "kv_cache_dtype",
    "num_heads",
    "batch_size",
    "isl",
    "step",
    "latency",
    "bmm_dtype",
    "num_tokens",
    "op_name",
    "kernel_source",
];

const LINEAR: &[&str] = &[
    "table",
    "kernel_source",
    "phase",
    "batch_size",
    "seq_len",
    "num_k_heads",
    "head_k_dim",
    "num_v_heads",
    "head_v_dim",
    "d_state",
    "nheads",
    "head_dim",
    "n_groups",
    "latency",
];

/// Sizes of delta rules, and of state-space models.
const DELTA: [&str; 4] = ["num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"];
const STATE_SPACE: [&str; 4] = ["n_groups", "d_state", "nheads", "head_dim"];

const QUANTIZE: &[&str] = &["op_name", "kernel_source", "quant_dtype", "m", "k", "latency"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ai-dynamo/aiconfigurator@095f58a",
    licence: "Apache-2.0",
    tables: "its GEMM, attention, latent attention, linear attention, collective, all-to-all, quantization or mixture-of-experts tables",
    recipe,
};

/// What tables lack as they are published, `…/h200_sxm/gemm/trtllm/1.3.0rc10/gemm_perf.parquet`: the GPU is in the path
/// and, as its driver names it, in a column; `context_mla` or `gdn` is the name of the file.
pub(super) fn supplied(path: &Path, filter: &Filter) -> Vec<(&'static str, Supplied)> {
    let folders = path.ancestors().skip(1);
    let mut names = folders.filter_map(|folder| folder.file_name()?.to_str());
    let gpu = names.find(|name| Gpu::find(name).is_ok());
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
    let table = stem.strip_suffix("_perf").unwrap_or(stem);
    let asked = filter.supplied().filter(|(name, _)| *name == "gpu");
    let known = gpu.map(|name| ("gpu", Supplied::Text(name.to_owned())));
    let same = [("gpu", "device"), ("dtype", "nccl_dtype"), ("dtype", "allreduce_dtype")];
    // Of tables in one file only some have these.
    let null = ["suspect", "window_size", "bmm_dtype", "num_tokens"].iter();
    let null = null.chain(&DELTA).chain(&STATE_SPACE);
    // What is asked for counts last: it chooses among the GPUs of other files.
    known
        .into_iter()
        .chain(same.map(|(name, column)| (name, Supplied::Same(column))))
        .chain(asked)
        .chain([("table", Supplied::Text(table.to_owned()))])
        .chain(null.map(|&name| (name, Supplied::Null)))
        .collect()
}

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let recipe = |columns: &'static [&'static str], reader| {
        file.has_all(columns).then_some(Recipe {
            identity: &["gpu", "framework", "version"],
            identify: |texts| (texts[0].to_owned(), stack(texts, "")),
            columns,
            readers: vec![reader],
        })
    };
    // Encoder tables have a subset of the columns of the other attention tables.
    recipe(GEMM, gemm)
        .or_else(|| recipe(ATTENTION, attention))
        .or_else(|| recipe(ENCODER, encoder))
        .or_else(|| {
            // A switch adds up numbers of 16 bits, but no integers: sums of those are other kernels.
            file.has_all(COLLECTIVE).then_some(Recipe {
                identity: &["gpu", "framework", "version", "op_name", "dtype"],
                identify: |texts| {
                    let sums = matches!(texts[3], "all_reduce" | "reduce_scatter");
                    let integers = if sums && texts[4] == "int8" { " int8" } else { "" };
                    (texts[0].to_owned(), stack(texts, integers))
                },
                columns: COLLECTIVE,
                readers: vec![collective],
            })
        })
        .or_else(|| {
            // Dispatch, combine and each library are other kernels than NCCL's all-to-all: stacks of their own.
            file.has_all(ALL_TO_ALL).then_some(Recipe {
                identity: &["gpu", "framework", "version", "op_name", "kernel_source"],
                identify: |texts| {
                    let library = format!(" {} {}", texts[4], texts[3]);
                    (texts[0].to_owned(), stack(texts, &library))
                },
                columns: ALL_TO_ALL,
                readers: vec![all_to_all],
            })
        })
        .or_else(|| recipe(LATENT, latent))
        .or_else(|| recipe(LINEAR, linear))
        .or_else(|| recipe(QUANTIZE, quantize))
        .or_else(|| {
            // Scales a block are other kernels than scales a tensor, and SGLang has more than one library of
            // kernels: each a stack of its own.
            file.has_all(EXPERTS).then_some(Recipe {
                identity: &["gpu", "framework", "version", "moe_dtype", "kernel_source"],
                identify: |texts| {
                    let scales = match texts[3] {
                        "fp8_block" => " fp8_block",
                        _ => "",
                    };
                    let library = match texts[4] {
                        "sglang_flashinfer_cutlass_moe" => " flashinfer_cutlass",
                        "sglang_flashinfer_trtllm_moe" => " flashinfer_trtllm",
                        _ => "",
                    };
                    (texts[0].to_owned(), stack(texts, &format!("{scales}{library}")))
                },
                columns: EXPERTS,
                readers: vec![experts],
            })
        })
}

/// The software of a row, which tables call `TRTLLM` as well as `trtllm`.
fn stack(texts: &[&str], suffix: &str) -> String {
    format!("{} {}{suffix}", texts[1].to_ascii_lowercase(), texts[2])
}

/// How vLLM's block-scaled kernels are named; their rows take as long for one token as for 3,000: 60 us on Hopper, 240 us on B200, 440 us on GB300.
const VLLM_BLOCK_SCALED: &str = "Fp8BlockScaledMMKernel";

/// `C[m,n] = A[m,k] B[n,k]ᵀ`, a linear layer's forward product.
fn gemm<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let dtype = batch.texts("gemm_dtype")?;
    let (m, n, k) = (batch.counts("m")?, batch.counts("n")?, batch.counts("k")?);
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    let suspect = batch.flags("suspect")?;
    Ok(Box::new(move |row| {
        trusted(suspect.get(row))?;
        let is_of_host = |kernel: &str| kernel.ends_with(VLLM_BLOCK_SCALED);
        if kernel.get(row).is_some_and(is_of_host) {
            return Err("block-scaled GEMM whose time is that of the host".to_owned());
        }
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
                    Some("fp8_block") => Dtype::Fp8Block,
                    Some("nvfp4") => Dtype::Nvfp4,
                    Some("sq") => Dtype::Int8,
                    // SGLang quantizes inputs, too: its large GEMMs are faster than the peak of 16 bits.
                    Some("int8_wo") if kernel.get(row) == Some("sglang") => Dtype::Int8,
                    Some("int8_wo") => Dtype::W8a16,
                    Some("int4_wo") => Dtype::W4a16,
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
        let (new, cached) = (new.size(row), cached.size(row));
        let dtype = match (dtype.get(row), cache.get(row)) {
            (Some("fp8"), Some("fp8")) => Dtype::Fp8,
            (dtype, cache) => cached_format("attn_dtype", dtype, cache, [new, cached])?,
        };
        Ok(Reading {
            op: Op::Attention(Attention {
                batch: members.size(row),
                heads: heads.size(row),
                kv_heads: kv_heads.size(row),
                seq_q: new,
                seq_kv: cached + new,
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

/// The cast to fp8 of the 16-bit inputs of a GEMM, by a scale that is known; finding that scale is no kernel of ours.
fn quantize<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (call, dtype) = (batch.texts("op_name")?, batch.texts("quant_dtype")?);
    let (rows, cols) = (batch.counts("m")?, batch.counts("k")?);
    let (latency, kernel) = (batch.numbers("latency")?, batch.texts("kernel_source")?);
    Ok(Box::new(move |row| {
        match (call.get(row), dtype.get(row)) {
            (Some("scale_matrix"), Some("fp8")) => {}
            (Some("scale_matrix"), other) => return Err(unknown("quant_dtype", other)),
            (other, _) => return Err(unknown("op_name", other)),
        }
        let (rows, cols) = (rows.size(row), cols.size(row));
        Ok(Reading {
            op: Op::Memory(Memory::forward(MemoryKind::CastFp8, rows, cols, Dtype::Bf16)),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// GPUs of a node in the tables of DeepEP, but for trays of Grace, whose number is not said.
const DEEP_EP_NODE: u64 = 8;

/// What experts exchange: TensorRT-LLM's dispatch and combine send a token once to every rank that holds one of its
/// experts, which an even router makes `r (1 - (1 - 1/r)^k)` ranks; DeepEP's combine of low latency sends it once for
/// each expert, in 16 bits.
fn all_to_all<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (call, kernel) = (batch.texts("op_name")?, batch.texts("kernel_source")?);
    let gpu = batch.texts("gpu")?;
    let (nodes, hidden) = (batch.numbers("node_num")?, batch.counts("hidden_size")?);
    let (tokens, top_k) = (batch.numbers("num_token")?, batch.numbers("num_topk")?);
    let combined = batch.numbers("combine_avg_t_us")?;
    let dtype = batch.texts("moe_dtype")?;
    let (rank_tokens, experts) = (batch.numbers("num_tokens")?, batch.numbers("topk")?);
    let ranks = batch.numbers("moe_ep_size")?;
    let latency = batch.numbers("latency")?;
    Ok(Box::new(move |row| {
        let hidden = hidden.size(row) as f64;
        let width = match (call.get(row), dtype.get(row)) {
            (Some("ll" | "alltoall_combine"), _) => 2.0,
            (Some("alltoall_dispatch"), Some("bfloat16")) => 2.0,
            (Some("alltoall_dispatch"), Some("fp8")) => 1.0,
            (Some("alltoall_dispatch"), Some("nvfp4")) => 0.5,
            (Some("normal"), _) => {
                return Err("DeepEP's time by the multiprocessors that it is given".to_owned());
            }
            (other, _) => return Err(unknown("op_name", other)),
        };
        let (copies, ranks, time) = if call.get(row) == Some("ll") {
            if gpu.get(row).is_some_and(|gpu| gpu.starts_with("gb")) {
                return Err("DeepEP over an unknown number of Grace Blackwell GPUs".to_owned());
            }
            let copies = tokens.count(row) * top_k.count(row);
            let ranks = DEEP_EP_NODE * nodes.count(row);
            (copies as f64, ranks, combined.time(row, MICROSECOND))
        } else {
            let ranks = ranks.count(row);
            let missed = (1.0 - 1.0 / ranks as f64).powf(experts.count(row) as f64);
            let reached = ranks as f64 * (1.0 - missed);
            let copies = rank_tokens.count(row) as f64 * reached;
            (copies, ranks, latency.time(row, MILLISECOND))
        };
        let bytes = (copies * hidden * width).round() as u64;
        Ok(Reading {
            op: Op::Collective(Collective::new(CollectiveKind::AllToAll, bytes, ranks)),
            time,
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Fused layers of experts on the rank with the most tokens.
///
/// The experts of Nemotron models have no gate (their sizes are named here, since only some stacks' kernels say so).
fn experts<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let framework = batch.texts("framework")?;
    let dtype = batch.texts("moe_dtype")?;
    let tokens = batch.counts("num_tokens")?;
    let (hidden, width) = (batch.counts("hidden_size")?, batch.counts("inter_size")?);
    let (top_k, experts) = (batch.counts("topk")?, batch.counts("num_experts")?);
    let (width_shards, expert_shards) = (batch.counts("moe_tp_size")?, batch.counts("moe_ep_size")?);
    let load = batch.texts("distribution")?;
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    Ok(Box::new(move |row| {
        let is = |name| {
            framework
                .get(row)
                .is_some_and(|own: &str| own.eq_ignore_ascii_case(name))
        };
        let op = Experts {
            tokens: tokens.size(row),
            hidden: hidden.size(row),
            width: width.size(row),
            experts: experts.size(row),
            top_k: top_k.size(row),
            width_shards: width_shards.size(row),
            expert_shards: expert_shards.size(row),
            gated: !matches!((width.size(row), top_k.size(row)), (1856, 6) | (2688 | 5120, 22)),
            load: match load.get(row) {
                Some("balanced") => RouterLoad::Even,
                Some("power_law_1.01") => RouterLoad::PowerLaw101,
                Some("power_law_1.2") => RouterLoad::PowerLaw120,
                other => return Err(unknown("distribution", other)),
            },
            dtype: match dtype.get(row) {
                Some("bfloat16") => Dtype::Bf16,
                Some("fp8" | "fp8_block") => Dtype::Fp8,
                other => return Err(unknown("moe_dtype", other)),
            },
        };
        let unsharded = is("sglang") && (op.hidden, op.width) == (2816, 704);
        if unsharded && op.expert_shards > 1 {
            return Err("two to eight expert shards take longer than one, as if every rank ran all tokens".to_owned());
        }
        // DeepSeek-V3's router is group-limited: the experts of a token are in four of eight groups. SGLang's and vLLM's tables
        // draw logits without regard to that: some ranks get up to five times their share, and an even load visits half of the
        // experts.
        let group_limited = dtype.get(row) == Some("fp8_block")
            && !is("trtllm")
            && (op.hidden, op.width, op.experts, op.top_k) == (7168, 2048, 256, 8);
        if group_limited && (op.expert_shards > 1 || op.load == RouterLoad::Even) {
            return Err("group-limited routing spreads tokens otherwise than the load says".to_owned());
        }
        Ok(Reading {
            op: Op::Experts(op),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Format of 16-bit attention of new tokens over cached ones: that of the cache where a decoding step reads it.
fn cached_format(
    column: &str,
    dtype: Option<&str>,
    cache: Option<&str>,
    [new, cached]: [u64; 2],
) -> std::result::Result<Dtype, Reason> {
    let decodes = new == 1 && cached > 0;
    match (dtype, cache) {
        (Some("bfloat16"), Some("bfloat16")) => Ok(Dtype::Bf16),
        (Some("bfloat16"), Some("fp8")) if decodes => Ok(Dtype::Fp8),
        (Some("bfloat16"), Some("fp8")) => Err("a prompt in bfloat16 that fills an fp8 cache".to_owned()),
        (other, _) => Err(unknown(column, other)),
    }
}

/// Latent attention of the DeepSeek-V2 and V3 sizes: latents of 512, rotary keys of 64, values of 128.
///
/// Decoding absorbs the expansion of keys and values, and so does prefill by the kernels that SGLang runs before Blackwell:
/// they reach 0.2 of the peak at most if it were expanded; the others would be 1.8 to 3.6 times as fast as the peak if it
/// were absorbed. `num_heads` counts the heads of a rank.
fn latent<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let table = batch.texts("table")?;
    let (dtype, cache) = (batch.texts("mla_dtype")?, batch.texts("kv_cache_dtype")?);
    let heads = batch.counts("num_heads")?;
    let (members, new) = (batch.numbers("batch_size")?, batch.numbers("isl")?);
    let cached = batch.numbers("step")?;
    let latency = batch.numbers("latency")?;
    let kernel = batch.texts("kernel_source")?;
    Ok(Box::new(move |row| {
        if table.get(row) == Some("mla_bmm") {
            return Err("the GEMMs that latent attention absorbs, a batch of one a head".to_owned());
        }
        let (new, cached) = (new.count(row), cached.count(row));
        let dtype = cached_format("mla_dtype", dtype.get(row), cache.get(row), [new, cached])?;
        let heads = heads.size(row);
        let absorbed = match (table.get(row), kernel.get(row)) {
            (Some("generation_mla"), _) | (_, Some("flash_attention" | "triton")) => true,
            (Some("context_mla"), _) => false,
            (other, _) => return Err(unknown("table", other)),
        };
        Ok(Reading {
            op: Op::Attention(Attention {
                batch: members.count(row),
                heads,
                kv_heads: if absorbed { 1 } else { heads },
                seq_q: new,
                seq_kv: cached + new,
                head_dim: if absorbed { 512 + 64 } else { 128 + 64 },
                value_dim: if absorbed { 512 } else { 128 },
                causal: true,
                window: 0,
                pass: Pass::Forward,
                dtype,
            }),
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Kernels of hybrid models: the convolution in front of a recurrence, and the recurrence over a sequence or one token.
///
/// A convolution runs over queries, keys and values together. Sizes of state-space models are in columns of their own.
fn linear<'a>(batch: &'a Batch<'_>) -> Result<Reader<'a>> {
    let table = batch.texts("table")?;
    let (kernel, phase) = (batch.texts("kernel_source")?, batch.texts("phase")?);
    let (members, length) = (batch.counts("batch_size")?, batch.counts("seq_len")?);
    let read = |names: [&str; 4]| -> Result<Vec<_>> { names.iter().map(|name| batch.numbers(name)).collect() };
    let (delta, state_space) = (read(DELTA)?, read(STATE_SPACE)?);
    let latency = batch.numbers("latency")?;
    Ok(Box::new(move |row| {
        let (kind, sizes) = match table.get(row) {
            Some("gdn") => (Recurrence::GatedDeltaNet, &delta),
            Some("kda") => (Recurrence::KimiDelta, &delta),
            Some("mamba2") => (Recurrence::Mamba2, &state_space),
            other => return Err(unknown("table", other)),
        };
        let size = |index: usize| sizes[index].count(row);
        let (members, length) = (members.size(row), length.size(row));
        let op = LinearAttention {
            kind,
            head_dim: size(1),
            value_dim: size(3),
            ..LinearAttention::new(members, size(0), size(2), length)
        };
        let name = kernel.get(row).unwrap_or_default();
        let convolution = |kind, rows| {
            Op::Memory(Memory {
                kind,
                rows,
                cols: op.channels(),
                pass: Pass::Forward,
                dtype: Dtype::Bf16,
            })
        };
        let op = match (name.starts_with("causal_conv1d"), phase.get(row)) {
            (_, Some("verify")) => {
                return Err("several speculated tokens at once".to_owned());
            }
            _ if name == "kda_fused_decode" => {
                return Err("convolution and recurrence in one kernel".to_owned());
            }
            (true, Some("context")) => convolution(MemoryKind::CausalConv, members * length),
            (true, Some("generation")) => convolution(MemoryKind::CausalConvStep, members),
            (false, Some("context")) if length == 1 => {
                return Err("a prompt of one token, by the kernel of longer ones".to_owned());
            }
            (false, Some("context" | "generation")) => Op::LinearAttention(op),
            (_, other) => return Err(unknown("phase", other)),
        };
        Ok(Reading {
            op,
            time: latency.time(row, MILLISECOND),
            group: None,
            libraries: kernel.get(row),
        })
    }))
}

/// Refuses a row that its publisher or packer marked.
fn trusted(suspect: Option<bool>) -> std::result::Result<(), Reason> {
    match suspect {
        Some(true) => Err("marked as suspect by the source".to_owned()),
        _ => Ok(()),
    }
}
