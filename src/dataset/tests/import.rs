//! The importers on small tables with the columns of their publishers.

use super::write_columns;
use crate::dataset::{Filter, Row, Source, Table, import};
use crate::ops::{
    Attention, Collective, CollectiveKind, Dtype, Experts, Gemm, Layout, Memory, MemoryKind, Op, Pass, RouterLoad,
};
use arrow_array::LargeStringArray;
use arrow_array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array};
use std::sync::Arc;

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(LargeStringArray::from(values.to_vec()))
}

fn sizes(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn singles(values: &[f32]) -> ArrayRef {
    Arc::new(Float32Array::from(values.to_vec()))
}

/// Imports one table with these columns.
fn imported(source: &str, filter: &Filter, columns: Vec<(&str, ArrayRef)>) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("any name");
    write_columns(&path, columns);
    import(found(source), &[path], filter).unwrap()
}

fn found(source: &str) -> Source {
    Source::find(source).unwrap()
}

fn reasons(table: &Table) -> Vec<(&str, u64)> {
    table.skipped.iter().collect()
}

fn micros(row: &Row) -> f64 {
    (row.time.micros() * 1e3).round() / 1e3
}

/// The identifying columns of an aiconfigurator table, for rows that are all on one GPU and stack.
fn h200(rows: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("gpu", texts(&vec!["h200_sxm"; rows])),
        ("framework", texts(&vec!["trtllm"; rows])),
        ("version", texts(&vec!["1.0"; rows])),
        ("kernel_source", texts(&vec!["torch_flow"; rows])),
    ]
}

fn gemm_table() -> Vec<(&'static str, ArrayRef)> {
    let dtypes = ["bfloat16", "fp8", "fp6", "bfloat16", "bfloat16", "bfloat16"];
    let suspect = vec![false, false, false, true, false, false];
    let mut columns = h200(6);
    columns.extend([
        ("gemm_dtype", texts(&dtypes)),
        ("m", sizes(&[16, 16, 16, 16, 0, 8192])),
        ("n", sizes(&[1024, 1024, 1024, 1024, 1024, 8192])),
        ("k", sizes(&[512, 512, 512, 512, 512, 8192])),
        ("latency", singles(&[0.005, 0.004, 0.1, 0.1, 0.1, 0.1])),
        ("suspect", Arc::new(BooleanArray::from(suspect))),
    ]);
    columns
}

#[test]
fn aiconfigurator_gemm_rows_are_linear_layers_in_milliseconds() {
    let table = imported("aiconfigurator", &Filter::default(), gemm_table());
    let expected = |dtype| {
        Op::Gemm(Gemm {
            m: 16,
            n: 1024,
            k: 512,
            batch: 1,
            layout: Layout::Tn,
            dtype,
        })
    };
    let [first, second] = &table.rows[..] else {
        panic!("{:?}", table.rows)
    };
    assert_eq!((first.op, micros(first)), (expected(Dtype::Bf16), 5.0));
    assert_eq!((second.op, micros(second)), (expected(Dtype::Fp8), 4.0));
    assert_eq!((&*first.gpu, &*first.stack), ("h200", "trtllm 1.0"));
    assert_eq!(first.origin.libraries.as_deref(), Some("torch_flow"));
    assert_eq!(first.origin.source, "ai-dynamo/aiconfigurator@095f58a");
    assert_eq!(
        reasons(&table),
        [
            (
                "`gemm_dtype` is fp6, which is no operator, format or pattern of ours",
                1
            ),
            ("`m` is not 1 to 2^53", 1),
            (
                "faster than the peak arithmetic of its GPU (h200, trtllm 1.0, bf16 gemm)",
                1
            ),
            ("marked as suspect by the source", 1),
        ]
    );
}

#[test]
fn aiconfigurator_names_of_quantized_weights_are_formats_of_ours() {
    let mut columns = h200(7);
    columns[3].1 = texts(&[
        "plugin",
        "plugin",
        "plugin",
        "plugin",
        "sglang",
        "deepgemm",
        "DeepGemmFp8BlockScaledMMKernel",
    ]);
    columns.extend([
        (
            "gemm_dtype",
            texts(&["nvfp4", "sq", "int8_wo", "int4_wo", "int8_wo", "fp8_block", "fp8_block"]),
        ),
        ("m", sizes(&[16; 7])),
        ("n", sizes(&[1024; 7])),
        ("k", sizes(&[512; 7])),
        ("latency", singles(&[0.004; 7])),
        ("suspect", Arc::new(BooleanArray::from(vec![false; 7]))),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let dtypes: Vec<_> = table.rows.iter().filter_map(|row| row.op.dtype()).collect();
    let expected = [
        Dtype::Nvfp4,
        Dtype::Int8,
        Dtype::W8a16,
        Dtype::W4a16,
        Dtype::Int8,
        Dtype::Fp8Block,
    ];
    assert_eq!(dtypes, expected);
    let host = ("block-scaled GEMM whose time is that of the host", 1);
    assert_eq!(reasons(&table), [host]);
}

#[test]
fn aiconfigurator_quantization_by_a_known_scale_is_a_kernel_of_ours() {
    let mut columns = h200(2);
    columns.extend([
        ("op_name", texts(&["scale_matrix", "compute_scale"])),
        ("quant_dtype", texts(&["fp8", "fp8"])),
        ("m", sizes(&[4096; 2])),
        ("k", sizes(&[8192; 2])),
        ("latency", singles(&[0.04; 2])),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let op = Memory::forward(MemoryKind::CastFp8, 4096, 8192, Dtype::Bf16);
    let ops: Vec<_> = table.rows.iter().map(|row| row.op).collect();
    assert_eq!(ops, [Op::Memory(op)]);
    let reason = "`op_name` is compute_scale, which is no operator, format or pattern of ours";
    assert_eq!(reasons(&table), [(reason, 1)]);
}

#[test]
fn filters_and_unknown_gpus_are_counted_by_name() {
    let mut columns = gemm_table();
    columns[0].1 = texts(&["h200_sxm", "h200_sxm", "h100_sxm", "abacus", "abacus", "h200_sxm"]);
    columns[2].1 = texts(&["1.0", "2.0", "1.0", "1.0", "1.0", "1.0"]);
    let filter = Filter {
        gpus: Some(vec!["NVIDIA H200".to_owned()]),
        stacks: Some(vec!["trtllm 1.0".to_owned()]),
        ..Filter::default()
    };
    let table = imported("aiconfigurator", &filter, columns);
    assert_eq!(table.rows.len(), 1);
    assert_eq!(
        reasons(&table),
        [
            ("GPU `abacus` is not in data/gpus", 2),
            ("GPU `h100` was not asked for", 1),
            (
                "faster than the peak arithmetic of its GPU (h200, trtllm 1.0, bf16 gemm)",
                1
            ),
            ("stack `trtllm 2.0` was not asked for", 1),
        ]
    );
    let unknown = Filter {
        gpus: Some(vec!["abacus".to_owned()]),
        ..Filter::default()
    };
    let error = import(found("aiconfigurator"), &["absent"], &unknown).unwrap_err();
    assert!(error.is_bad_input(), "{error}");
}

fn attention(seq_q: u64, seq_kv: u64, window: u64, dtype: Dtype) -> Attention {
    Attention {
        batch: 2,
        heads: 8,
        kv_heads: 4,
        seq_q,
        seq_kv,
        head_dim: 128,
        value_dim: 128,
        causal: true,
        window,
        pass: Pass::Forward,
        dtype,
    }
}

#[test]
fn aiconfigurator_prefill_decoding_and_encoders_are_attention() {
    let mut columns = h200(5);
    columns.extend([
        (
            "attn_dtype",
            texts(&["bfloat16", "bfloat16", "fp8", "bfloat16", "bfloat16"]),
        ),
        ("kv_cache_dtype", texts(&["bfloat16", "bfloat16", "fp8", "fp8", "fp8"])),
        ("batch_size", sizes(&[2; 5])),
        ("isl", sizes(&[1024, 1, 1024, 1024, 1])),
        ("step", sizes(&[0, 4095, 0, 0, 4095])),
        ("num_heads", sizes(&[8; 5])),
        ("num_key_value_heads", sizes(&[4; 5])),
        ("head_dim", sizes(&[128; 5])),
        ("window_size", sizes(&[-1, 128, 0, 0, 0])),
        ("latency", singles(&[1.0; 5])),
        ("suspect", Arc::new(BooleanArray::from(vec![false; 5]))),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let ops: Vec<Op> = table.rows.iter().map(|row| row.op).collect();
    let expected = [
        attention(1024, 1024, 0, Dtype::Bf16),
        attention(1, 4096, 128, Dtype::Bf16),
        attention(1024, 1024, 0, Dtype::Fp8),
        attention(1, 4096, 0, Dtype::Fp8),
    ];
    assert_eq!(ops, expected.map(Op::Attention));
    assert_eq!(reasons(&table), [("a prompt in bfloat16 that fills an fp8 cache", 1)]);

    let mut columns = h200(1);
    columns.extend([
        ("attn_dtype", texts(&["bfloat16"])),
        ("batch_size", sizes(&[2])),
        ("isl", sizes(&[256])),
        ("num_heads", sizes(&[8])),
        ("head_dim", sizes(&[128])),
        ("latency", singles(&[1.0])),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let expected = Attention {
        kv_heads: 8,
        causal: false,
        ..attention(256, 256, 0, Dtype::Bf16)
    };
    assert_eq!(table.rows[0].op, Op::Attention(expected));
}

#[test]
fn aiconfigurator_messages_are_counted_in_bytes() {
    let mut columns = h200(3);
    columns[3].1 = texts(&["NCCL", "NCCL", "vLLM_custom_eager"]);
    columns.extend([
        ("op_name", texts(&["all_reduce", "alltoall", "all_reduce"])),
        ("dtype", texts(&["half", "int8", "half"])),
        ("num_gpus", sizes(&[8; 3])),
        ("message_size", sizes(&[1 << 20; 3])),
        ("latency", singles(&[0.1; 3])),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let ops: Vec<Op> = table.rows.iter().map(|row| row.op).collect();
    let expected = [
        (CollectiveKind::AllReduce, 1 << 21),
        (CollectiveKind::AllToAll, 1 << 20),
    ];
    let ranks = 8;
    assert_eq!(
        ops,
        expected.map(|(kind, bytes)| Op::Collective(Collective::new(kind, bytes, ranks)))
    );
    let eager = ("collective launched eagerly, which times the host", 1);
    assert_eq!(reasons(&table), [eager]);

    // No switch adds up integers.
    let mut columns = h200(3);
    columns[3].1 = texts(&["NCCL"; 3]);
    columns.extend([
        ("op_name", texts(&["all_reduce", "all_reduce", "all_gather"])),
        ("dtype", texts(&["half", "int8", "int8"])),
        ("num_gpus", sizes(&[8; 3])),
        ("message_size", sizes(&[1 << 20; 3])),
        ("latency", singles(&[0.1; 3])),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let integers = table.rows.iter().map(|row| row.stack.ends_with(" int8"));
    assert_eq!(integers.collect::<Vec<_>>(), [false, true, false]);
}

/// Three layers of 128 experts over two ranks; the last is Gemma 4's.
fn layers_of_experts(framework: &str) -> Vec<(&'static str, ArrayRef)> {
    let mut columns = h200(3);
    columns[1].1 = texts(&[framework; 3]);
    columns.extend([
        ("moe_dtype", texts(&["bfloat16", "fp8_block", "bfloat16"])),
        ("num_tokens", sizes(&[64; 3])),
        ("hidden_size", sizes(&[2048, 2688, 2816])),
        ("inter_size", sizes(&[768, 1856, 704])),
        ("topk", sizes(&[8, 6, 8])),
        ("num_experts", sizes(&[128; 3])),
        ("moe_tp_size", sizes(&[4; 3])),
        ("moe_ep_size", sizes(&[2; 3])),
        ("distribution", texts(&["balanced", "power_law_1.2", "balanced"])),
        ("latency", singles(&[0.2; 3])),
    ]);
    columns
}

#[test]
fn aiconfigurator_experts_are_one_layer_and_block_scales_a_stack_of_their_own() {
    let columns = layers_of_experts("sglang");
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let gated = Experts {
        width_shards: 4,
        expert_shards: 2,
        ..Experts::new(64, 2048, 768, 128, 8)
    };
    let ungated = Experts {
        hidden: 2688,
        width: 1856,
        top_k: 6,
        gated: false,
        load: RouterLoad::PowerLaw120,
        dtype: Dtype::Fp8,
        ..gated
    };
    let rows: Vec<_> = table.rows.iter().map(|row| (row.op, &*row.stack)).collect();
    let expected = [
        (Op::Experts(gated), "sglang 1.0"),
        (Op::Experts(ungated), "sglang 1.0 fp8_block"),
    ];
    assert_eq!(rows, expected);
    let unsharded = "two to eight expert shards take longer than one, as if every rank ran all tokens";
    assert_eq!(reasons(&table), [(unsharded, 1)]);
    let columns = layers_of_experts("trtllm");
    let table = imported("aiconfigurator", &Filter::default(), columns);
    assert_eq!(table.rows.len(), 3);
}

#[test]
fn aiconfigurator_group_limited_layers_keep_what_their_load_describes() {
    let kept = |framework: &str| {
        let mut columns = h200(4);
        columns[1].1 = texts(&[framework; 4]);
        columns.extend([
            ("moe_dtype", texts(&["fp8_block"; 4])),
            ("num_tokens", sizes(&[64; 4])),
            ("hidden_size", sizes(&[7168; 4])),
            ("inter_size", sizes(&[2048; 4])),
            ("topk", sizes(&[8; 4])),
            ("num_experts", sizes(&[256, 256, 256, 384])),
            ("moe_tp_size", sizes(&[1; 4])),
            ("moe_ep_size", sizes(&[8, 1, 1, 8])),
            (
                "distribution",
                texts(&["power_law_1.2", "balanced", "power_law_1.2", "balanced"]),
            ),
            ("latency", singles(&[5.0; 4])),
        ]);
        let table = imported("aiconfigurator", &Filter::default(), columns);
        let layers = table.rows.iter().map(|row| match row.op {
            Op::Experts(op) => (op.experts, op.expert_shards),
            _ => panic!("{}", row.op),
        });
        (layers.collect::<Vec<_>>(), table.skipped.total())
    };
    assert_eq!(kept("sglang"), (vec![(256, 1), (384, 8)], 2));
    assert_eq!(kept("vllm"), kept("sglang"));
    assert_eq!(kept("trtllm").1, 0);
}

#[test]
fn aiconfigurator_latent_attention_is_absorbed_or_expanded_as_the_kernel_says() {
    let mut columns = h200(4);
    columns[3].1 = texts(&["default", "flash_attention", "default", "default"]);
    columns.extend([
        (
            "table",
            texts(&["context_mla", "context_mla", "generation_mla", "mla_bmm"]),
        ),
        ("op_name", texts(&["mla"; 4])),
        ("mla_dtype", texts(&["bfloat16"; 4])),
        ("kv_cache_dtype", texts(&["bfloat16"; 4])),
        ("bmm_dtype", texts(&["bfloat16"; 4])),
        ("num_heads", sizes(&[16; 4])),
        ("batch_size", singles(&[2.0; 4])),
        ("isl", singles(&[256.0, 256.0, 1.0, 1.0])),
        ("step", singles(&[0.0, 0.0, 255.0, 0.0])),
        ("num_tokens", singles(&[1.0; 4])),
        ("latency", singles(&[1.0; 4])),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let expanded = Attention {
        value_dim: 128,
        ..Attention::new(2, 16, 256, 192)
    };
    let absorbed = Attention {
        kv_heads: 1,
        value_dim: 512,
        ..Attention::new(2, 16, 256, 576)
    };
    let decoding = Attention { seq_q: 1, ..absorbed };
    let ops: Vec<Op> = table.rows.iter().map(|row| row.op).collect();
    assert_eq!(ops, [expanded, absorbed, decoding].map(Op::Attention));
    let products = "the GEMMs that latent attention absorbs, a batch of one a head";
    assert_eq!(reasons(&table), [(products, 1)]);
}

/// One cookbook row with the columns `batch, m, n, k`, at tensor-parallel degree 8.
fn cookbook(role: &str, sizes_of_row: [i64; 4]) -> Table {
    let [batch, m, n, k] = sizes_of_row.map(|size| sizes(&[size]));
    let columns = vec![
        // The authors' parts are described under names of their own; any known GPU will do here.
        ("gpu", texts(&["h200"])),
        ("role", texts(&[role])),
        ("tp", sizes(&[8])),
        ("batch", batch),
        ("m", m),
        ("n", n),
        ("k", k),
        ("dtype", texts(&["fp16"])),
        ("seconds", Arc::new(Float64Array::from(vec![0.5]))),
    ];
    imported("cookbook", &Filter::default(), columns)
}

#[test]
fn cookbook_roles_give_layout_and_hidden_size() {
    let hidden = 29_440;
    for (role, sizes, layout, group) in [
        ("plain", [1, 32, 4096, 32], Layout::Nn, None),
        (
            "attention_key_query_prob",
            [64, 2048, 2048, 230],
            Layout::Nn,
            Some(hidden),
        ),
        (
            "attention_prob_times_values",
            [64, 2048, 230, 2048],
            Layout::Nn,
            Some(hidden),
        ),
        (
            "attention_key_value_query_transform",
            [1, 8192, 11_040, 29_440],
            Layout::Tn,
            Some(hidden),
        ),
        (
            "attention_linear_projection",
            [1, 8192, 29_440, 3_680],
            Layout::Tn,
            Some(hidden),
        ),
        ("mlp_h_to_4h", [1, 8192, 14_720, 29_440], Layout::Tn, Some(hidden)),
        ("mlp_4h_to_h", [1, 8192, 29_440, 14_720], Layout::Tn, Some(hidden)),
        ("logit_v_as_reduction", [1, 8192, 14_336, 51_200], Layout::Tn, None),
    ] {
        let table = cookbook(role, sizes);
        let [batch, m, n, k] = sizes.map(|size| size as u64);
        let dtype = Dtype::Fp16;
        let product = Gemm {
            m,
            n,
            k,
            batch,
            layout,
            dtype,
        };
        let row = &table.rows[0];
        assert_eq!((row.op, row.group), (Op::Gemm(product), group), "{role}");
        assert_eq!((&*row.stack, row.time.secs()), ("cookbook torch 1.13", 0.5));
    }
}

#[test]
fn neusight_linear_layers_swap_their_features() {
    let products = |name: &str| {
        vec![
            ("OPName", texts(&[name])),
            ("Device", texts(&["NVIDIA H100 80GB HBM3"])),
            ("Torch Version", texts(&["p2.1.0"])),
            ("CUDA Version", texts(&["cu121"])),
            ("B", sizes(&[3])),
            ("M", sizes(&[5])),
            ("N", sizes(&[7])),
            ("K", sizes(&[11])),
            ("Latency", singles(&[0.125])),
        ]
    };
    for (name, n, k, layout) in [("bmm", 7, 11, Layout::Nn), ("linear", 11, 7, Layout::Tn)] {
        let table = imported("neusight", &Filter::default(), products(name));
        let (m, batch, dtype) = (5, 3, Dtype::Fp32);
        let product = Gemm {
            m,
            n,
            k,
            batch,
            layout,
            dtype,
        };
        let row = &table.rows[0];
        assert_eq!((row.op, micros(row)), (Op::Gemm(product), 125.0));
        assert_eq!((&*row.gpu, &*row.stack), ("h100", "torch 2.1.0"));
    }
    let table = imported("neusight", &Filter::default(), products("conv"));
    assert_eq!(
        reasons(&table),
        [("`OPName` is conv, which is no operator, format or pattern of ours", 1)]
    );
}

#[test]
fn neusight_rows_of_vectors_are_memory_kernels_where_we_know_them() {
    let names = ["softmax", "ln", "add", "gelu", "tanh"];
    let columns = vec![
        ("OPName", texts(&names)),
        ("Device", texts(&["NVIDIA H100 80GB HBM3"; 5])),
        ("Torch Version", texts(&["p2.1.0"; 5])),
        ("CUDA Version", texts(&["cu121"; 5])),
        ("B", sizes(&[5; 5])),
        ("H", sizes(&[7; 5])),
        ("Latency", singles(&[0.1; 5])),
    ];
    let table = imported("neusight", &Filter::default(), columns);
    let ops: Vec<Op> = table.rows.iter().map(|row| row.op).collect();
    use MemoryKind::*;
    let expected = [Softmax, LayerNorm, Add, Gelu].map(|kind| {
        let (rows, cols, pass, dtype) = (5, 7, Pass::Forward, Dtype::Fp32);
        Op::Memory(Memory {
            kind,
            rows,
            cols,
            pass,
            dtype,
        })
    });
    assert_eq!(ops, expected);
    assert_eq!(
        reasons(&table),
        [("`OPName` is tanh, which is no operator, format or pattern of ours", 1)]
    );
}

#[test]
fn a_table_of_another_publisher_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.parquet");
    write_columns(&path, vec![("speed", sizes(&[1]))]);
    for source in Source::all() {
        let sentence = import(source, &[&path], &Filter::default()).unwrap_err().to_string();
        let expected = format!("other.parquet: no table of {} has these", source.name());
        assert!(sentence.contains(&expected), "{sentence}");
        assert_eq!(found(source.name()).name(), source.name());
    }
    // The right columns but none that says where the rows were timed.
    let mut columns = gemm_table();
    columns.remove(0);
    write_columns(&path, columns);
    let error = import(found("aiconfigurator"), &[&path], &Filter::default()).unwrap_err();
    let sentence = error.to_string();
    assert!(sentence.contains("the column `gpu` is missing"), "{sentence}");
}

#[test]
fn attention_of_publications_keeps_pass_and_lengths() {
    let rows = 4;
    let all = |value: i64| sizes(&vec![value; rows]);
    let table = imported(
        "publications",
        &Filter::default(),
        vec![
            ("gpu", texts(&["H200"; 4])),
            ("backend", texts(&["cudnn"; 4])),
            ("software", texts(&["cuDNN 92200"; 4])),
            ("source_repo", texts(&["NVIDIA/cudnn-frontend"; 4])),
            ("dtype", texts(&["bf16", "bf16", "mxfp8", "fp16"])),
            ("pass", texts(&["bwd", "fwd+bwd", "fwd", "fwd"])),
            ("batch", all(2)),
            ("q_len", all(4096)),
            ("kv_len", all(8192)),
            ("heads", all(32)),
            ("kv_heads", all(8)),
            ("head_dim_qk", all(192)),
            ("head_dim_v", all(128)),
            ("window", all(0)),
            ("causal", Arc::new(BooleanArray::from(vec![true; rows]))),
            ("suspect", Arc::new(BooleanArray::from(vec![false, false, false, true]))),
            ("time_ms", singles(&[20.0; 4])),
        ],
    );
    let [row] = &table.rows[..] else {
        panic!("{}", table.skipped)
    };
    let attention = Attention {
        kv_heads: 8,
        seq_kv: 8192,
        value_dim: 128,
        pass: Pass::Backward,
        ..Attention::new(2, 32, 4096, 192)
    };
    assert_eq!(row.op, Op::Attention(attention));
    assert_eq!((&*row.stack, micros(row)), ("cudnn, cuDNN 92200", 20_000.0));
    assert_eq!(row.origin.libraries.as_deref(), Some("NVIDIA/cudnn-frontend"));
    assert_eq!(table.skipped.total(), 3);
}

#[test]
fn memory_bound_kernels_of_publications_are_one_pass_of_one_kernel() {
    let kernels = [
        ("rms_norm", "forward"),
        ("rms_norm", "backward"),
        ("rms_norm", "full"),
        ("megatron_swiglu", "no-grad-forward"),
        ("megatron_swiglu", "backward"),
        ("rope", "forward"),
        ("cross_entropy", "backward"),
        ("swiglu", "forward"),
        ("fused_linear_jsd", "forward"),
        ("dyt", "forward"),
    ];
    let rows = kernels.len();
    let all = |value: i64| sizes(&vec![value; rows]);
    let table = imported(
        "publications",
        &Filter::default(),
        vec![
            ("gpu", texts(&vec!["H200"; rows])),
            ("provider", texts(&vec!["cudnn"; rows])),
            ("software", texts(&vec!["cuDNN 91901"; rows])),
            ("source_repo", texts(&vec!["NVIDIA/cudnn-frontend"; rows])),
            ("kernel", texts(&kernels.map(|(kernel, _)| kernel))),
            ("mode", texts(&kernels.map(|(_, mode)| mode))),
            ("dtype", texts(&vec!["bf16"; rows])),
            ("tokens", all(8192)),
            ("hidden", all(4096)),
            ("ffn", all(14336)),
            ("vocab", all(128_256)),
            ("heads", all(32)),
            ("kv_heads", all(8)),
            ("time_ms", singles(&vec![10.0; rows])),
        ],
    );
    let found = table.rows.iter().map(|row| match row.op {
        Op::Memory(op) => (op.kind, op.rows, op.cols, op.pass, op.dtype),
        _ => unreachable!(),
    });
    use MemoryKind::*;
    let expected = [
        (RmsNorm, 4096, Pass::Forward),
        (RmsNorm, 4096, Pass::Backward),
        (Swiglu, 14336, Pass::Forward),
        (Rotary, 5120, Pass::Forward),
        (CrossEntropy, 128_256, Pass::Backward),
    ];
    let expected = expected.map(|(kind, cols, pass)| (kind, 8192, cols, pass, Dtype::Bf16));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let row = &table.rows[0];
    assert_eq!((&*row.gpu, &*row.stack), ("h200", "cudnn, cuDNN 91901"));
    assert_eq!(micros(row), 10_000.0);
    assert_eq!(
        reasons(&table),
        [
            ("`kernel` is dyt, which is no operator, format or pattern of ours", 1),
            ("a backward pass with the forward pass in its time", 1),
            ("a loss with its GEMM", 1),
            ("an MLP with its GEMMs", 1),
            ("both passes in one time", 1),
        ]
    );
}

#[test]
fn a_layer_of_vidur_is_five_memory_bound_kernels_on_one_rank() {
    let table = imported(
        "vidur",
        &Filter::default(),
        vec![
            ("gpu", texts(&["h100", "l20000", "h100"])),
            ("num_tokens", sizes(&[4096; 3])),
            ("n_embd", sizes(&[8192, 8192, 2560])),
            ("n_expanded_embd", sizes(&[28672, 28672, 10240])),
            ("n_head", sizes(&[64, 64, 32])),
            ("n_kv_head", sizes(&[8, 8, 32])),
            ("num_tensor_parallel_workers", sizes(&[2, 2, 1])),
            ("use_gated_mlp", Arc::new(BooleanArray::from(vec![true, true, false]))),
            ("time_stats.input_layernorm.median", singles(&[0.1; 3])),
            ("time_stats.post_attention_layernorm.median", singles(&[0.1; 3])),
            ("time_stats.attn_rope.median", singles(&[0.05; 3])),
            ("time_stats.mlp_act.median", singles(&[0.2; 3])),
            ("time_stats.add.median", singles(&[0.012; 3])),
        ],
    );
    let found = table.rows.iter().map(|row| match row.op {
        Op::Memory(op) => (op.kind, op.cols, micros(row)),
        _ => unreachable!(),
    });
    use MemoryKind::*;
    let expected = [
        (RmsNorm, 8192, 100.0),
        (RmsNorm, 8192, 100.0),
        (Rotary, 4608, 50.0),
        (Swiglu, 14336, 200.0),
        (LayerNorm, 2560, 100.0),
        (Rotary, 5120, 50.0),
        (Gelu, 10240, 200.0),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(
        reasons(&table),
        [
            ("GPU `l20000` is not in data/gpus", 1),
            ("a sum of three tensors", 1),
            ("less than 20 us, rounded to 1 us", 1),
            ("no norm in front of the MLP", 1),
        ]
    );
}

#[test]
fn column_major_gemms_of_publications_are_turned() {
    let table = imported(
        "publications",
        &Filter::default(),
        vec![
            ("gpu", texts(&["MI355X"; 3])),
            ("backend", texts(&["hipblaslt"; 3])),
            ("software", texts(&["primus"; 3])),
            ("source_repo", texts(&["AMD-AGI/Primus"; 3])),
            ("kind", texts(&["gemm", "gemm", "grouped"])),
            ("layout", texts(&["NT", "", "TN"])),
            ("m", sizes(&[4096, 4096, 4096])),
            ("n", sizes(&[8192, 8192, 8192])),
            ("k", sizes(&[1024, 1024, 1024])),
            ("dtype", texts(&["bf16/bf16->bf16", "fp8", "bf16"])),
            ("time_us", singles(&[100.0; 3])),
        ],
    );
    let gemms = [
        Gemm {
            layout: Layout::Nt,
            ..Gemm::new(8192, 4096, 1024)
        },
        Gemm {
            dtype: Dtype::Fp8,
            ..Gemm::new(4096, 8192, 1024)
        },
    ];
    let found: Vec<Op> = table.rows.iter().map(|row| row.op).collect();
    assert_eq!(found, gemms.map(Op::Gemm));
    assert_eq!(table.skipped.total(), 1);
}

#[test]
fn collectives_of_xla_and_publications_count_bytes_of_the_whole_tensor() {
    let gathered = Collective::new(CollectiveKind::AllGather, 1 << 26, 8);
    let xla = imported(
        "xla",
        &Filter::default(),
        vec![
            ("gpu", texts(&["H100"; 3])),
            ("collective", texts(&["all-gather", "collective-permute", "all-reduce"])),
            ("tensor_bytes", sizes(&[1 << 26, 1 << 26, 1 << 9])),
            ("gpus_per_group", sizes(&[8, 0, 8])),
            ("time_us", singles(&[400.0, 400.0, 51.2])),
            ("throughput_gb_s", singles(&[167.77, 167.77, 0.01])),
        ],
    );
    let rounded = ("time of a rate that is rounded to 0.01 GB/s", 1);
    assert_eq!(reasons(&xla), [rounded]);
    let sent = Collective::new(CollectiveKind::SendReceive, 1 << 26, 2);
    let found = xla.rows.iter().map(|row| (row.op, &*row.stack));
    let expected = [gathered, sent].map(|op| (Op::Collective(op), "xla"));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let published = imported(
        "publications",
        &Filter::default(),
        vec![
            ("gpu", texts(&["H100"; 2])),
            ("system", texts(&["one node, A100-SXM4-40GB"; 2])),
            ("source_repo", texts(&["somebody/nccl-tests"; 2])),
            ("op", texts(&["all_gather", "moe_dispatch"])),
            ("num_gpus", sizes(&[8; 2])),
            ("bytes", sizes(&[1 << 26; 2])),
            ("time_us", singles(&[400.0; 2])),
        ],
    );
    assert_eq!(published.rows[0].op, Op::Collective(gathered));
    assert_eq!(&*published.rows[0].gpu, "a100-40gb");
    assert_eq!(published.skipped.total(), 1);
}

#[test]
fn ranks_of_vidur_that_fill_no_node_are_spread_over_nodes() {
    let table = imported(
        "vidur",
        &Filter::default(),
        vec![
            (
                "system",
                texts(&["a100_dgx", "a100_dgx", "pipeweave H100", "a100_pairwise_nvlink"]),
            ),
            (
                "collective",
                texts(&["all_reduce", "all_reduce", "send_recv", "all_reduce"]),
            ),
            ("num_workers", sizes(&[4, 16, 2, 4])),
            ("devices_per_node", sizes(&[2, 8, 2, 4])),
            ("max_devices_per_node", sizes(&[8, 8, 4, 4])),
            ("size", sizes(&[1 << 20; 4])),
            ("median", singles(&[0.05; 4])),
        ],
    );
    let found: Vec<_> = table
        .rows
        .iter()
        .map(|row| match row.op {
            Op::Collective(op) => (&*row.gpu, &*row.stack, op.ranks, op.ranks_per_node(8)),
            _ => unreachable!(),
        })
        .collect();
    let expected = [
        ("a100", "vidur", 4, 2),
        ("a100", "vidur", 16, 8),
        ("h100", "pipeweave", 2, 2),
    ];
    assert_eq!(found, expected);
    assert_eq!(table.skipped.total(), 1);
}

#[test]
fn what_experts_exchange_is_counted_by_the_ranks_or_experts_that_a_token_reaches() {
    let mut columns = h200(4);
    columns[3].1 = texts(&["deepep", "deepep", "NVLinkTwoSided", "NVLinkTwoSided"]);
    columns.extend([
        (
            "op_name",
            texts(&["ll", "normal", "alltoall_dispatch", "alltoall_prepare"]),
        ),
        ("node_num", singles(&[2.0, 1.0, 0.0, 0.0])),
        ("hidden_size", sizes(&[4096; 4])),
        ("num_token", singles(&[16.0, 16.0, 0.0, 0.0])),
        ("num_topk", singles(&[8.0, 8.0, 0.0, 0.0])),
        ("combine_avg_t_us", singles(&[30.0; 4])),
        ("moe_dtype", texts(&["", "", "fp8", "fp8"])),
        ("num_tokens", singles(&[0.0, 0.0, 16.0, 16.0])),
        ("topk", singles(&[0.0, 0.0, 2.0, 2.0])),
        ("moe_ep_size", singles(&[0.0, 0.0, 4.0, 4.0])),
        ("latency", singles(&[0.04; 4])),
    ]);
    let table = imported("aiconfigurator", &Filter::default(), columns);
    let sent = |bytes, ranks| Op::Collective(Collective::new(CollectiveKind::AllToAll, bytes, ranks));
    let ops: Vec<Op> = table.rows.iter().map(|row| row.op).collect();
    // Two experts of a token are on 1.75 of four ranks.
    let expected = [sent(16 * 8 * 4096 * 2, 16), sent(16 * 7 * 4096 / 4, 4)];
    assert_eq!(ops, expected);
    let micros = table.rows.iter().map(|row| row.time.micros().round());
    assert_eq!(micros.collect::<Vec<_>>(), [30.0, 40.0]);
    assert_eq!(table.skipped.total(), 2);
}

#[test]
fn tuned_minima_and_means_are_stacks_of_their_own() {
    let aiter = imported(
        "aiter",
        &Filter::default(),
        vec![
            ("gfx", texts(&["gfx942", "gfx942", "gfx950", "gfx1250"])),
            ("cu_num", sizes(&[304, 80, 256, 96])),
            (
                "file",
                texts(&[
                    "bf16_tuned_gemm.csv",
                    "bf16_tuned_gemm.csv",
                    "a8w8_blockscale_bpreshuffle_tuned_gemm.csv",
                    "bf16_tuned_gemm.csv",
                ]),
            ),
            ("q_dtype_w", texts(&["", "", "torch.float8_e4m3fn", ""])),
            ("libtype", texts(&["asm"; 4])),
            ("M", sizes(&[4096; 4])),
            ("N", sizes(&[4096; 4])),
            ("K", sizes(&[4096; 4])),
            ("us", singles(&[300.0; 4])),
        ],
    );
    let stacks: Vec<(&str, &str)> = aiter.rows.iter().map(|row| (&*row.gpu, &*row.stack)).collect();
    let expected = [
        ("mi300x", "aiter, tuned minimum"),
        ("mi355x", "aiter bpreshuffle, tuned minimum"),
    ];
    assert_eq!(stacks, expected, "{}", aiter.skipped);
    assert_eq!(aiter.rows[1].op.dtype(), Some(Dtype::Fp8Block));
    let pipeweave = imported(
        "pipeweave",
        &Filter::default(),
        vec![
            ("hardware", texts(&["NVIDIA H100", "NVIDIA L20000"])),
            ("M", sizes(&[4096; 2])),
            ("N", sizes(&[4096; 2])),
            ("K", sizes(&[4096; 2])),
            ("avg_duration", singles(&[120.0; 2])),
        ],
    );
    let [row] = &pipeweave.rows[..] else {
        panic!("{}", pipeweave.skipped)
    };
    assert_eq!((&*row.gpu, micros(row)), ("h100", 120.0));
    assert_eq!(row.op.dtype(), Some(Dtype::Fp8));
}

#[test]
fn gemms_of_xla_and_layers_of_experts_of_aiter_are_read_by_their_formats() {
    let formats = ["bf16", "f32", "f8e4m3fn", "bf16", "bf16"];
    let rows = formats.len();
    let outputs = ["bf16", "f32", "bf16", "f32", "bf16"];
    let all = |value: i64| sizes(&vec![value; rows]);
    let table = imported(
        "xla",
        &Filter::default(),
        vec![
            ("gpu", texts(&vec!["H100"; rows])),
            ("device_key", texts(&vec!["sm_90"; rows])),
            ("batch", all(2)),
            ("m", all(256)),
            ("n", all(512)),
            ("k", all(1024)),
            ("lhs", texts(&formats)),
            ("rhs", texts(&formats)),
            ("out", texts(&outputs)),
            ("time_us", singles(&vec![10.0; rows])),
            (
                "suspect",
                Arc::new(BooleanArray::from(vec![false, false, false, false, true])),
            ),
        ],
    );
    let found = table.rows.iter().map(|row| match row.op {
        Op::Gemm(op) => (op.batch, [op.m, op.n, op.k], op.dtype),
        _ => unreachable!(),
    });
    let expected = [Dtype::Bf16, Dtype::Tf32, Dtype::Fp8];
    let expected = expected.map(|dtype| (2, [256, 512, 1024], dtype));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(
        reasons(&table),
        [
            ("`out` is f32, which is no operator, format or pattern of ours", 1),
            ("marked as suspect", 1),
        ]
    );

    let weights = ["bfloat16", "float8_e4m3fn", "int4", "float4_e2m1fn_x2"];
    let inputs = ["bfloat16", "float8_e4m3fn", "bfloat16", "float4_e2m1fn_x2"];
    let table = imported(
        "aiter",
        &Filter::default(),
        vec![
            ("gpu", texts(&["MI355X"; 4])),
            ("quant", texts(&["No", "per_1x128", "No", "per_1x32"])),
            ("tokens", sizes(&[16; 4])),
            ("hidden", sizes(&[4096; 4])),
            ("ffn", sizes(&[192; 4])),
            ("experts", sizes(&[128; 4])),
            ("topk", sizes(&[8; 4])),
            ("quant_act_dtype", texts(&inputs)),
            ("weight_dtype", texts(&weights)),
            ("activation", texts(&["Silu"; 4])),
            ("time_us", singles(&[100.0; 4])),
        ],
    );
    let found = table.rows.iter().map(|row| match row.op {
        Op::Experts(op) => (&*row.stack, op.width, op.top_k, op.dtype),
        _ => unreachable!(),
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            ("aiter, tuned minimum", 192, 8, Dtype::Bf16),
            ("aiter per_1x128, tuned minimum", 192, 8, Dtype::Fp8),
            ("aiter, tuned minimum", 192, 8, Dtype::W4a16),
        ]
    );
}

#[test]
fn layers_of_a_served_model_have_the_sizes_of_the_model_on_one_rank() {
    let layers = [
        "q_proj",
        "gate_proj",
        "down_proj",
        "lm_head",
        "input_layernorm",
        "act_fn",
    ];
    let table = imported(
        "llmservingsim",
        &Filter::default(),
        vec![
            ("gpu", texts(&["H100"; 6])),
            ("layer_name", texts(&layers)),
            ("input", sizes(&[100; 6])),
            ("latency(ns)", sizes(&[500_000; 6])),
            ("model", texts(&["meta-llama/Llama-3.1-8B"; 6])),
            ("tp", texts(&["tp2"; 6])),
        ],
    );
    let found = table.rows.iter().map(|row| match row.op {
        Op::Gemm(op) => [op.m, op.n, op.k],
        Op::Memory(op) => [op.rows, op.cols, 0],
        _ => unreachable!(),
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            [100, 2048, 4096],
            [100, 7168, 4096],
            [100, 4096, 7168],
            [100, 64128, 4096],
            [100, 4096, 0],
        ]
    );
    assert_eq!(micros(&table.rows[0]), 500.0);
    assert_eq!(reasons(&table), [("layer `act_fn` is no operator of ours", 1)]);
}

#[test]
fn attention_of_llmservingsim_is_recognised_and_left_out() {
    let table = imported(
        "llmservingsim",
        &Filter::default(),
        vec![
            ("gpu", texts(&["H100", "A6000", "TPU-v6e-1"])),
            ("prefill_chunk_size", sizes(&[0, 512, 0])),
            ("kv_cache_size", sizes(&[1024; 3])),
            ("is_prefill", Arc::new(BooleanArray::from(vec![false, true, false]))),
        ],
    );
    assert!(table.rows.is_empty());
    let reasons = reasons(&table);
    for part in ["faster than their cache", "its own chunk", "TPU-v6e-1"] {
        let told = reasons.iter().any(|(reason, rows)| reason.contains(part) && *rows == 1);
        assert!(told, "{part}: {reasons:?}");
    }
}

#[test]
fn an_update_of_adam_is_one_memory_bound_kernel_also_in_csv() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.csv");
    std::fs::write(
        &path,
        "gpu,optimizer,implementation,parameters,time_ms,software,source_repo\n\
         A100,adamw,torch (default),10000000,0.8757,\"PyTorch 2.8.0, CUDA 12.6\",a repository\n\
         A100,lion,triton fused,10000000,1,\"PyTorch 2.8.0, CUDA 12.6\",a repository\n",
    )
    .unwrap();
    assert_eq!(
        Source::recognise(&path, &Filter::default()).unwrap().map(Source::name),
        Some("publications")
    );
    let table = import(found("publications"), &[path], &Filter::default()).unwrap();
    let [row] = &table.rows[..] else {
        panic!("one row");
    };
    let update = Memory {
        kind: MemoryKind::PlainAdam,
        rows: 1,
        cols: 10_000_000,
        pass: Pass::Forward,
        dtype: Dtype::Fp32,
    };
    assert_eq!(row.op, Op::Memory(update));
    // Gradient, weight and two moments are read, the last three written.
    assert_eq!(row.op.bytes().bytes(), 28e7);
    assert_eq!(micros(row), 875.7);
    assert_eq!(&*row.stack, "torch (default), PyTorch 2.8.0, CUDA 12.6");
    assert_eq!(
        reasons(&table),
        [(
            "`optimizer` is lion, which is no operator, format or pattern of ours",
            1
        )]
    );
}

#[test]
fn operators_of_neusights_models_are_read_by_their_shapes() {
    let addmm = "<built-in method addmm of type object>";
    let matmul = "<built-in method matmul of type object>";
    let layer = "model.decoder.layers.#";
    let (fc, norm) = (format!("{layer}.fc#"), format!("{layer}.final_layer_norm"));
    let rows = [
        (addmm, "[[3840], [4096, 1280], [1280, 3840]]", "(4096, 3840)"),
        (matmul, "[[16, 12, 512, 256], [16, 12, 256, 64]]", "(16, 12, 512, 64)"),
        (&fc, "[[4096, 2048]]", "(4096, 8192)"),
        (&norm, "[[2, 1024, 2048]]", "(2, 1024, 2048)"),
        ("transformer.wte", "[[4, 1024]]", "(4, 1024, 1280)"),
        ("transformer.drop", "[[4, 1024, 1280]]", "(4, 1024, 1280)"),
        (&fc, "not a list", "(4096, 8192)"),
    ];
    let table = imported(
        "neusight",
        &Filter::default(),
        vec![
            ("gpu", texts(&["NVIDIA_H100_80GB_HBM3"; 7])),
            ("target", texts(&rows.map(|row| row.0))),
            ("input_shapes", texts(&rows.map(|row| row.1))),
            ("output_shape", texts(&rows.map(|row| row.2))),
            ("fw_latency", singles(&[5.0; 7])),
        ],
    );
    let found = table.rows.iter().map(|row| match row.op {
        Op::Gemm(op) => [op.batch, op.m, op.n, op.k],
        Op::Memory(op) => [op.rows, op.cols, op.kind as u64, 0],
        _ => unreachable!(),
    });
    let kind = |kind| kind as u64;
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            [1, 4096, 3840, 1280],
            [192, 512, 64, 256],
            [1, 4096, 8192, 2048],
            [2048, 2048, kind(MemoryKind::LayerNorm), 0],
            [4096, 1280, kind(MemoryKind::Embedding), 0],
        ]
    );
    assert!(
        table
            .rows
            .iter()
            .all(|row| micros(row) == 5000.0 && &*row.gpu == "h100")
    );
    assert_eq!(reasons(&table), [("operator `drop`", 1), ("operator `fc#`", 1)]);
}

/// Writes a file as a publisher does and imports it.
fn published(source: &str, filter: &Filter, name: &str, content: &str) -> crate::error::Result<Table> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    let auto = Source::recognise(&path, filter)?;
    assert!(auto.is_none_or(|found| found.name() == source), "{auto:?}");
    import(found(source), &[path], filter)
}

const PUBLISHED_GEMM: &str = "\
framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency
TRTLLM,1.3.0rc10,NVIDIA H200,gemm,torch_flow,bfloat16,16,1024,512,0.005
TRTLLM,1.3.0rc10,NVIDIA H200,gemm,torch_flow,fp6,16,1024,512,0.005
";

#[test]
fn aiconfigurator_files_as_published_say_their_gpu_by_folder_or_driver() {
    for name in [
        "h200_sxm/trtllm/1.3.0rc10/gemm_perf.txt",
        "h200_sxm/gemm/trtllm/1.3.0rc10/gemm_perf.csv",
        "gemm_perf.txt",
    ] {
        let table = published("aiconfigurator", &Filter::default(), name, PUBLISHED_GEMM);
        let table = table.unwrap();
        let [row] = &table.rows[..] else {
            panic!("{name}: {:?}", table.rows)
        };
        assert_eq!((&*row.gpu, &*row.stack), ("h200", "trtllm 1.3.0rc10"), "{name}");
        let (reason, rows) = table.skipped.iter().next().unwrap();
        assert_eq!(rows, 1);
        let first = table.skipped.first(reason).unwrap();
        assert!(first.ends_with("row 2"), "{first}");
    }
}

#[test]
fn a_gpu_that_is_asked_for_names_only_files_without_one() {
    let asked = |name: &str| Filter {
        gpus: Some(vec![name.to_owned()]),
        ..Filter::default()
    };
    for name in ["h200_sxm/trtllm/1.3.0rc10/gemm_perf.txt", "gemm_perf.txt"] {
        let table = published("aiconfigurator", &asked("h100"), name, PUBLISHED_GEMM).unwrap();
        assert_eq!(reasons(&table), [("GPU `h200` was not asked for", 2)], "{name}");
    }
    let nameless = PUBLISHED_GEMM.replace("device", "board");
    let table = published("aiconfigurator", &asked("h100"), "gemm_perf.txt", &nameless).unwrap();
    let gpus: Vec<_> = table.rows.iter().map(|row| &*row.gpu).collect();
    assert_eq!(gpus, ["h100"]);
    // The folder next to the file counts.
    let name = "a100/h200_sxm/trtllm/gemm_perf.txt";
    let table = published("aiconfigurator", &Filter::default(), name, &nameless).unwrap();
    assert!(table.rows.iter().all(|row| &*row.gpu == "h200"), "{:?}", table.rows);
}

#[test]
fn aiconfigurator_tables_as_published_are_told_by_the_name_of_the_file() {
    let latent = "\
framework,version,device,op_name,kernel_source,mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,tp_size,step,latency
SGLang,0.5.10,NVIDIA H200,mla_context,flashinfer,bfloat16,bfloat16,16,2,1024,8,0,0.5
";
    let name = "h200_sxm/sglang/0.5.10/context_mla_perf.txt";
    let table = published("aiconfigurator", &Filter::default(), name, latent).unwrap();
    let [row] = &table.rows[..] else {
        panic!("{:?}", table.rows)
    };
    let Op::Attention(op) = row.op else {
        panic!("{:?}", row.op)
    };
    assert_eq!((op.heads, op.kv_heads, op.head_dim, op.seq_q), (16, 16, 192, 1024));
    assert_eq!(&*row.stack, "sglang 0.5.10");

    let reduce = "\
framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency
NCCL,2.26.2,NVIDIA H100 80GB HBM3,all_reduce,NCCL,half,8,1048576,0.05
";
    let name = "nccl_perf.txt";
    let table = published("aiconfigurator", &Filter::default(), name, reduce).unwrap();
    let op = Collective::new(CollectiveKind::AllReduce, 2 << 20, 8);
    let ops: Vec<_> = table.rows.iter().map(|row| (row.op, &*row.gpu)).collect();
    assert_eq!(ops, [(Op::Collective(op), "h100")]);
}

#[test]
fn a_file_of_git_lfs_is_not_taken_for_a_table() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:de41\nsize 8815104\n";
    for name in ["h200_sxm/gemm_perf.txt", "h200_sxm/gemm_perf.parquet"] {
        let error = published("aiconfigurator", &Filter::default(), name, pointer);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("pointer of Git LFS"), "{error}");
    }
}

#[test]
fn cookbook_logs_as_published_are_products_whose_times_are_their_throughput() {
    let log = "\
num_attention_heads: 64, hidden_size: 32512, train_micro_batch_size_per_gpu: 4, tensor_mp_size: 4, dp_size: 1
Elapsed time for 1024x4096x64: 0.000
Throughput (in TFLOP/s) for 1024x4096x64: 50.0
Throughput (in TFLOP/s) for attention_key_query_prob (64x2048x508x2048): 100.0
Throughput (in TFLOP/s) for mlp_4h_to_h (4x32512x8128, b=2048): 250.0
Throughput (in TFLOP/s) for 8192x51136x14336, b=1: 200.0
";
    let table = published("cookbook", &Filter::default(), "mm/a100.out", log).unwrap();
    let shapes = table.rows.iter().map(|row| match row.op {
        Op::Gemm(op) => (op.batch, op.m, op.n, op.k, op.layout),
        other => panic!("{other:?}"),
    });
    assert_eq!(
        shapes.collect::<Vec<_>>(),
        [
            (1, 1024, 64, 4096, Layout::Nn),
            (64, 2048, 2048, 508, Layout::Nn),
            (1, 8192, 8128, 32512, Layout::Tn),
            (1, 8192, 14336, 51136, Layout::Tn),
        ]
    );
    // 2 x 1024 x 4096 x 64 FLOP at 50 TFLOP/s.
    assert_eq!(micros(&table.rows[0]), 10.737);
    // 64 members are micro-batch 4 times heads / 4: 64 heads of 508.
    assert_eq!(table.rows[1].group, Some(508 * 64));
    assert_eq!(&*table.rows[0].gpu, "a100-40gb");

    let gpu = |name: &str| Filter {
        gpus: Some(vec![name.to_owned()]),
        ..Filter::default()
    };
    let table = published("cookbook", &gpu("v100"), "h_sweep.out", log).unwrap();
    assert!(table.rows.iter().all(|row| &*row.gpu == "v100"));
    let nameless = published("cookbook", &Filter::default(), "h_sweep.out", log);
    let error = nameless.unwrap_err().to_string();
    assert!(error.contains("of a GPU that the path or `gpu` names"), "{error}");
    let damaged = log.replace("1024x4096x64: 50.0", "1024xx64: 50.0");
    let error = published("cookbook", &gpu("v100"), "h_sweep.out", &damaged);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("h_sweep.out: line 3: `Throughput` is `1024xx64: 50.0`"),
        "{error}"
    );
}
