//! Whole-model measurements: how each publisher's columns become runs.

use super::public::public_folder;
use super::write_columns;
use crate::arch::{AttentionKernel, KvCacheDtype, Mode, OptimizerStates, Recipe, Recompute, Workload, parameters};
use crate::dataset::runs::{Measure, Publisher, Runs, Serving, read_runs, write_runs};
use crate::gpu::GpuCatalog;
use crate::ops::Dtype;
use arrow_array::ArrayRef;
use arrow_array::BooleanArray;
use arrow_array::Float32Array;
use arrow_array::Int64Array;
use arrow_array::StringArray;
use std::sync::Arc;

pub(super) fn counts<const N: usize>(values: [i64; N]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

pub(super) fn texts<const N: usize>(values: [&str; N]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

pub(super) fn numbers<const N: usize>(values: [Option<f32>; N]) -> ArrayRef {
    Arc::new(Float32Array::from(values.to_vec()))
}

pub(super) fn read(columns: Vec<(&str, ArrayRef)>) -> Runs {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.parquet");
    write_columns(&path, columns);
    read_runs(&[path], &GpuCatalog::built_in()).unwrap()
}

fn reasons(runs: &Runs) -> Vec<(&str, u64)> {
    runs.skipped.iter().collect()
}

#[test]
fn a_step_of_mpt_lasts_its_tokens_over_the_rate_of_one_gpu() {
    let runs = read(vec![
        ("Model", texts(["7b", "7b", "7b", "7b"])),
        ("GPU", texts(["a100_80gb", "a100_40gb", "h100_80gb", "l20000"])),
        ("# GPUs", counts([8, 16, 8, 8])),
        ("SeqLen (T)", counts([2048; 4])),
        ("MicroBatchSize", counts([6; 4])),
        ("GradAccum", counts([21; 4])),
        ("Throughput (T/s/GPU)", counts([3000, 0, 4000, 4000])),
        ("Precision", texts(["amp_bf16", "bf16", "amp_fp8", "bf16"])),
        (
            "Sharding Strategy",
            texts(["FULL_SHARD", "SHARD_GRAD_OP", "FULL_SHARD", "FULL_SHARD"]),
        ),
        ("Activation Checkpointing", texts(["True", "False", "True", "True"])),
        ("d_model", counts([4096; 4])),
        ("n_heads", counts([32; 4])),
        ("n_layers", counts([32; 4])),
        ("expansion_ratio", counts([4; 4])),
        ("vocab_size", counts([50_432; 4])),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("GPU `l20000` is not in data/gpus", 1),
            ("`Throughput (T/s/GPU)` is not stated", 1),
            ("precision amp_fp8 has no net", 1),
        ]
    );
    let [run] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    assert_eq!(run.gpu.name, "a100");
    let work = run.workload;
    assert_eq!((work.batch, work.microbatches, work.dp, work.zero), (6, 21, 8, 3));
    assert_eq!((work.dtype, work.recompute), (Dtype::Bf16, Recompute::Full));
    assert!((run.time.secs() - 6.0 * 21.0 * 2048.0 / 3000.0).abs() < 1e-9);
    // The published MPT-7B has just these dimensions.
    assert_eq!(parameters(&run.architecture).total, 6_649_286_656);
}

#[test]
fn a_megatron_iteration_is_split_over_its_ranks() {
    let runs = read(vec![
        ("gpu", texts(["A100", "A100"])),
        ("# GPUs", counts([16, 16])),
        ("global batch", counts([64, 64])),
        ("micro batch", counts([4, 4])),
        ("hidden size", counts([1024, 1024])),
        ("attention heads", counts([16, 16])),
        ("# layers", counts([24, 24])),
        ("sequence length", counts([1024, 1024])),
        ("tensor parallelism", counts([4, 4])),
        ("data parallelism", counts([2, 2])),
        ("pipeline parallelism", counts([2, 1])),
        ("iteration time (ms)", numbers([Some(250.0), Some(250.0)])),
    ]);
    let reason = "the degrees of parallelism do not multiply to the GPUs";
    assert_eq!(reasons(&runs), [(reason, 1)]);
    let [run] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    let work = run.workload;
    assert_eq!((work.batch, work.microbatches), (4, 8));
    assert_eq!((work.tp, work.pp, work.dp), (4, 2, 2));
    assert_eq!(work.attention, AttentionKernel::Unfused);
    // 50257 words to the next multiple of 4 x 128.
    assert_eq!(run.architecture.vocab, 50_688);
    assert!((run.time.secs() - 0.25).abs() < 1e-9);
}

#[test]
fn a_served_model_gives_a_prefill_and_a_decode_step_of_the_median_iteration() {
    let runs = read(vec![
        (
            "file",
            texts(["tp2_H100", "tp2_H100", "tp2_H100", "tp2_H100", "L20000"]),
        ),
        ("run_name", texts(["Qwen3-32B-arxiv_12"; 5])),
        ("batch_size", counts([12; 5])),
        ("output_len", counts([18; 5])),
        ("total_prefill_tokens", counts([12_004; 5])),
        ("iteration", numbers([Some(0.0), Some(1.0), Some(2.0), None, Some(0.0)])),
        (
            "prefill_latency",
            numbers([Some(9.0), Some(1.5), Some(1.0), Some(7.0), Some(1.0)]),
        ),
        (
            "median_decode_latency",
            numbers([Some(0.25), Some(0.5), Some(0.125), Some(7.0), Some(1.0)]),
        ),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("GPU `L20000` is not in data/gpus", 1),
            ("not one iteration of a run", 1),
        ]
    );
    let [prefill, decode] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    assert_eq!(prefill.architecture.name, "qwen3-32b");
    assert_eq!(
        (prefill.workload.mode, decode.workload.mode),
        (Mode::Prefill, Mode::Decode)
    );
    assert_eq!((prefill.workload.batch, prefill.workload.seq), (12, 1000));
    assert_eq!((decode.workload.tp, decode.workload.context), (2, 1009));
    assert_eq!((prefill.time.secs(), decode.time.secs()), (1.5, 0.25));
}

#[test]
fn a_static_batch_is_read_with_its_layout_where_its_figures_agree_and_its_caches_fit() {
    let runs = read(vec![
        (
            "Hardware",
            texts([
                "Nvidia A100 GPU",
                "Nvidia H100 GPU",
                "Nvidia H100 GPU",
                "Habana Gaudi2",
                "Nvidia H100 GPU",
                "Nvidia H100 GPU",
            ]),
        ),
        ("Num of Hardware", counts([2, 2, 1, 1, 1, 1])),
        (
            "Framework",
            texts(["vLLM", "llama.cpp", "vLLM", "Deepspeed", "vLLM", "vLLM"]),
        ),
        (
            "Model",
            texts([
                "meta-llama/Llama-2-7b-hf",
                "meta-llama/Llama-2-7b-hf",
                "meta-llama/Llama-2-7b-hf",
                "meta-llama/Llama-2-7b-hf",
                "Deci/DeciLM-7B",
                "meta-llama/Llama-2-7b-hf",
            ]),
        ),
        ("Input Output Length", counts([128, 128, 2048, 128, 128, 128])),
        ("Batch Size", counts([16, 16, 64, 16, 16, 16])),
        ("Latency", numbers([Some(2.0); 6])),
        (
            "Throughput",
            numbers([
                Some(2048.0),
                Some(2048.0),
                Some(131_072.0),
                Some(2048.0),
                Some(2048.0),
                Some(128.0),
            ]),
        ),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("GPU `Habana Gaudi2` is not in data/gpus", 1),
            ("latency and throughput of the row disagree", 1),
            ("llama.cpp cuts a model between layers, one GPU after the other", 1),
            ("no preset describes `Deci/DeciLM-7B`", 1),
            ("the caches of the batch do not fit: fewer requests ran at once", 1),
        ]
    );
    let [run] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    let work = run.workload;
    assert_eq!((&*run.gpu.name, run.measure), ("a100-40gb", Measure::Batch));
    assert_eq!(
        (work.mode, work.tp, work.batch, work.context, work.dtype),
        (Mode::Decode, 2, 16, 192, Dtype::Fp16)
    );
    let load = run.serving.unwrap();
    assert_eq!((load.concurrency, load.prompt, load.output), (16, 128, 128));
    assert_eq!((&*run.software, run.time.secs()), ("vLLM", 2.0));
    // Our own schema holds it too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.csv");
    write_runs(&path, &runs.runs).unwrap();
    let again = &read_runs(&[path], &GpuCatalog::built_in()).unwrap().runs[0];
    assert_eq!((again.measure, again.serving), (run.measure, run.serving));
}

#[test]
fn a_pass_of_pytorch_is_a_step_over_the_gpus_that_its_variant_names() {
    let gpu = "NVIDIA_H100_80GB_HBM3";
    let runs = read(vec![
        ("gpu", texts([gpu, gpu, gpu, "Tesla_P4", gpu])),
        (
            "e2e_latency",
            numbers([Some(195.0), Some(215.0), Some(9.0), Some(9.0), Some(933.0)]),
        ),
        ("bwall_latency", numbers([Some(0.0); 5])),
        (
            "model",
            texts(["gpt2_large", "gpt2_large", "bert_large", "opt_13", "gpt3_xl"]),
        ),
        ("mode", texts(["train", "inf", "train", "train", "train"])),
        ("seq", counts([1024, 1024, 512, 2048, 2048])),
        ("batch", counts([4, 4, 8, 1, 1])),
        ("extra", texts(["dp4", "", "", "", ""])),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("GPU `Tesla P4` is not in data/gpus", 1),
            ("a pass without gradients scores every position, a prefill the last", 1),
            ("no preset describes `bert_large`", 1),
        ]
    );
    let [replicas, single] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    let work = replicas.workload;
    assert_eq!((work.dp, work.batch, work.dtype), (4, 1, Dtype::Fp32));
    assert_eq!(replicas.time.secs(), 0.195);
    // The published operators: addmm of 4096 x 3072 x 12288 and attention of 24 heads of 128.
    let shape = &single.architecture;
    assert_eq!((shape.hidden, shape.heads, shape.mlp.d_ff), (3072, 24, 12_288));
}

/// A table of N steps of Llama-3-8B on 64 H100, tp 2, pp 2, cp 2, but for the columns in `changed`.
fn steps<const N: usize>(changed: Vec<(&'static str, ArrayRef)>) -> Runs {
    let none = [None::<&str>; N];
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("gpu", texts(["H100"; N])),
        ("model", texts(["Llama 3 8b"; N])),
        ("task", texts(["pretrain"; N])),
        ("dtype", texts(["bf16"; N])),
        ("config_key", texts(["llama3_8b|H100|bf16|pretrain"; N])),
        ("source_repo", texts(["NVIDIA/dgxc-benchmarking"; N])),
        ("software", texts(["dgxc-benchmarking v25.04"; N])),
        ("step_time_s", numbers([Some(2.5); N])),
        ("suspect", Arc::new(BooleanArray::from(vec![false; N]))),
    ];
    for (column, value) in [
        ("num_gpus", 64),
        ("seq_len", 8192),
        ("global_batch", 128),
        ("micro_batch", 1),
        ("tp", 2),
        ("pp", 2),
        ("cp", 2),
        ("layers", 32),
        ("hidden", 4096),
        ("heads", 32),
        ("kv_heads", 8),
        ("head_dim", 128),
        ("ffn", 14_336),
        ("vocab", 128_256),
    ] {
        columns.push((column, counts([value; N])));
    }
    for column in ["vp", "ep", "fsdp", "experts", "topk"] {
        columns.push((column, Arc::new(Int64Array::from(vec![None; N]))));
    }
    for column in [
        "activation_ckpt",
        "recipe_recompute",
        "recipe_seq_parallel",
        "cfg_path",
        "cfg_recompute",
        "cfg_precision",
        "cfg_seq_parallel",
        "note",
    ] {
        columns.push((column, Arc::new(StringArray::from(none.to_vec()))));
    }
    for (name, values) in changed {
        let known = columns.iter_mut().find(|(column, _)| *column == name);
        known.unwrap().1 = values;
    }
    read(columns)
}

#[test]
fn a_training_step_has_the_layout_of_its_row() {
    let all = "pretrain";
    let limited = "none (bfloat16); power-limited B200";
    let runs = steps::<5>(vec![
        ("task", texts([all, "lora", all, all, all])),
        ("num_gpus", counts([64, 64, 60, 64, 64])),
        ("global_batch", counts([128, 128, 128, 100, 128])),
        ("note", texts(["", "", "", "", limited])),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("LoRA trains adapters, not the weights", 1),
            ("the degrees of parallelism do not divide the GPUs", 1),
            ("the limit of power that held the GPUs back is not stated", 1,),
            ("the micro-batches do not fill the batch", 1),
        ]
    );
    let [run] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    let expected = Workload {
        tp: 2,
        pp: 2,
        cp: 2,
        dp: 8,
        zero: 1,
        sequence_parallel: true,
        microbatches: 16,
        ..Workload::train(1, 8192)
    };
    assert_eq!((run.workload, run.time.secs()), (expected, 2.5));
    assert_eq!(run.architecture.name, "llama-3-8b");
    assert_eq!(run.configuration, "llama3_8b h100 bf16");
    assert_eq!(run.software, "dgxc-benchmarking v25.04, NeMo");
    assert_eq!((run.network, run.unfitted.as_deref()), (None, None));
}

#[test]
fn formats_and_recomputation_of_a_training_step_have_one_reading_each() {
    let rows = [
        ("bf16", None, None, Dtype::Bf16, Recipe::Tensorwise),
        ("fp8_cs", None, None, Dtype::Fp8, Recipe::Tensorwise),
        ("mxfp8", None, None, Dtype::Fp8, Recipe::Mxfp8),
        ("fp8_or_fp4", Some("nvfp4"), None, Dtype::Fp8, Recipe::Nvfp4),
        ("fp8_rowwise", None, Some("full"), Dtype::Fp8, Recipe::Rowwise),
        ("nvfp4", None, Some("full, 5 layers"), Dtype::Fp8, Recipe::Nvfp4),
        (
            "bf16",
            None,
            Some("policy save_dot_only"),
            Dtype::Bf16,
            Recipe::Tensorwise,
        ),
        ("bf16", None, Some("selective"), Dtype::Bf16, Recipe::Tensorwise),
        // These two are left out.
        ("fp8_or_fp4", None, Some("none"), Dtype::Fp8, Recipe::Tensorwise),
        ("bf16", None, Some("some"), Dtype::Bf16, Recipe::Tensorwise),
    ];
    let optional = |values: [Option<&str>; 10]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let runs = steps::<10>(vec![
        ("dtype", texts(rows.map(|row| row.0))),
        ("cfg_precision", optional(rows.map(|row| row.1))),
        ("cfg_recompute", optional(rows.map(|row| row.2))),
    ]);
    let formats: Vec<_> = runs
        .runs
        .iter()
        .map(|run| (run.workload.dtype, run.workload.recipe))
        .collect();
    assert_eq!(formats, rows[..8].iter().map(|r| (r.3, r.4)).collect::<Vec<_>>());
    let recomputed: Vec<_> = runs
        .runs
        .iter()
        .map(|run| (run.workload.recompute, run.workload.recompute_layers))
        .collect();
    let none = (Recompute::None, 0);
    assert_eq!(
        recomputed,
        [
            none,
            none,
            none,
            none,
            (Recompute::Full, 0),
            (Recompute::Full, 5),
            (Recompute::Pointwise, 0),
            (Recompute::Selective, 0),
        ]
    );
    assert_eq!(
        reasons(&runs),
        [
            ("recomputation `some` is not known", 1),
            ("whether the step ran in fp8 or fp4 is not stated", 1),
        ]
    );
}

#[test]
fn a_step_of_torchtitan_cuts_its_local_batch_by_the_pipeline() {
    let runs = steps::<1>(vec![
        ("source_repo", texts(["pytorch/torchtitan"])),
        ("software", texts(["torchtitan 9dec370"])),
        ("note", texts(["H100 96 GB HBM2e (2.4 TB/s), 500 W limit; async TP"])),
        ("activation_ckpt", texts(["selective"])),
        ("fsdp", counts([8])),
        ("micro_batch", counts([4])),
    ]);
    let [run] = &runs.runs[..] else {
        panic!("{}", runs.skipped)
    };
    let work = run.workload;
    assert_eq!((work.batch, work.microbatches, work.zero), (2, 8, 3));
    assert_eq!(work.recompute, Recompute::Operators);
    assert_eq!(run.gpu.name, "h100-hbm2e");
}

#[test]
fn a_training_step_keeps_the_states_of_its_configuration_and_none_is_read_against_its_recipe() {
    let states = OptimizerStates::Bf16;
    let runs = steps::<1>(vec![("cfg_path", texts(["nemotron/nemotron4-340b-synth.yaml"]))]);
    assert_eq!(runs.runs[0].workload.optimizer_states, states);
    let runs = steps::<1>(vec![("source_repo", texts(["NVIDIA-NeMo/Automodel"]))]);
    assert_eq!(runs.runs[0].workload.optimizer_states, states);
    let runs = steps::<1>(vec![
        ("software", texts(["NeMo container 25.11, Megatron-Bridge"])),
        ("config_key", texts(["gpt_oss_120b|H100|bf16|pretrain"])),
    ]);
    let why = "the table states micro-batches of 4, the recipe of its release of 1";
    assert_eq!(reasons(&runs), [(why, 1)]);
}

#[test]
fn a_shortened_model_with_experts_keeps_the_rest_of_its_preset() {
    let runs = steps::<2>(vec![
        ("config_key", texts(["grok_1_314b|H100|bf16|pretrain"; 2])),
        ("cp", counts([1; 2])),
        ("ep", counts([8; 2])),
        ("layers", counts([4; 2])),
        ("hidden", counts([6144; 2])),
        ("heads", counts([48; 2])),
        ("ffn", counts([32_768; 2])),
        ("vocab", counts([131_072; 2])),
        ("experts", counts([8, 16])),
        ("topk", counts([2; 2])),
        ("note", texts(["one reading; 8 GPUs a node, 400 Gb/s per GPU"; 2])),
        ("suspect", Arc::new(BooleanArray::from(vec![true; 2]))),
    ]);
    assert_eq!(reasons(&runs), [("the row and the preset of `grok_1_314b` differ", 1)]);
    let [run] = &runs.runs[..] else {
        panic!("{}", runs.skipped)
    };
    assert_eq!(run.architecture.name, "grok-1 with 4 layers");
    // Grok's recipes cut an expert by tensor parallelism; 0 means that.
    assert_eq!((run.workload.ep, run.workload.expert_tp), (8, 0));
    assert_eq!(run.network.unwrap().bytes_per_sec(), 50e9);
    assert!(run.unfitted.is_some());
}

/// A table of N measurements of Llama-3-70B in fp8 on H100, tp 4, 16 requests of 1000 + 200 tokens,
/// but for the columns in `changed`.
fn served<const N: usize>(changed: Vec<(&'static str, ArrayRef)>) -> Runs {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("gpu", texts(["H100"; N])),
        ("model", texts(["llama-3-70b"; N])),
        ("dtype", texts(["fp8"; N])),
        ("kv_dtype", texts(["fp8"; N])),
        ("framework", texts(["vllm"; N])),
        ("version", texts(["0.12.0"; N])),
        ("mode", texts(["serving"; N])),
        ("note", texts(["InferenceMAX run"; N])),
        ("source_repo", texts(["ai-dynamo/aiconfigurator"; N])),
        ("config_key", texts(["llama-3-70b|H100|fp8|vllm"; N])),
        ("osl", numbers([Some(200.0); N])),
        ("ttft_ms", numbers([Some(100.0); N])),
        ("tpot_ms", numbers([Some(20.0); N])),
        ("suspect", Arc::new(BooleanArray::from(vec![false; N]))),
    ];
    for (column, value) in [
        ("num_gpus", 4),
        ("tp", 4),
        ("pp", 1),
        ("dp", 1),
        ("ep", 1),
        ("moe_tp", 4),
        ("concurrency", 16),
        ("isl", 1000),
    ] {
        columns.push((column, counts([value; N])));
    }
    for (name, values) in changed {
        let known = columns.iter_mut().find(|(column, _)| *column == name);
        known.unwrap().1 = values;
    }
    read(columns)
}

#[test]
fn a_served_request_gives_a_first_token_and_a_time_per_token() {
    let runs = served::<1>(vec![]);
    let [first, further] = &runs.runs[..] else {
        panic!("{}", runs.skipped)
    };
    let load = Serving {
        concurrency: 16,
        prompt: 900,
        output: 180,
    };
    assert_eq!((first.measure, further.measure), (Measure::Ttft, Measure::Tpot));
    assert_eq!((first.serving, further.serving), (Some(load), Some(load)));
    let layout = Workload {
        dtype: Dtype::Fp8,
        kv_cache_dtype: KvCacheDtype::Fp8,
        tp: 4,
        ..Workload::prefill(1, 900)
    };
    assert_eq!(first.workload, layout);
    let decode = Workload {
        dtype: Dtype::Fp8,
        kv_cache_dtype: KvCacheDtype::Fp8,
        tp: 4,
        ..Workload::decode(16, 990)
    };
    assert_eq!(further.workload, decode);
    assert_eq!((first.time.millis(), further.time.millis()), (100.0, 20.0));
    assert_eq!(first.software, "vLLM 0.12.0");
    assert_eq!(first.configuration, "llama-3-70b H100 fp8 vllm");
}

#[test]
fn a_cache_is_in_fp8_where_the_row_or_the_script_of_its_benchmark_says_so() {
    let stated = StringArray::from(vec![None, None, Some("bf16")]);
    let runs = served::<3>(vec![
        ("gpu", texts(["H100", "H200", "H200"])),
        ("kv_dtype", Arc::new(stated)),
    ]);
    let formats = runs.runs.iter().map(|run| run.workload.kv_cache_dtype);
    let formats: Vec<_> = formats.step_by(2).collect();
    use KvCacheDtype::{Auto, Fp8};
    assert_eq!(formats, [Auto, Fp8, Auto]);
}

#[test]
fn experts_and_copies_of_an_engine_share_the_requests_of_a_server() {
    let runs = served::<3>(vec![
        ("gpu", texts(["B200"; 3])),
        ("model", texts(["deepseek-v3"; 3])),
        ("dtype", texts(["fp4"; 3])),
        ("num_gpus", counts([8, 8, 64])),
        ("tp", counts([1; 3])),
        ("dp", counts([8, 8, 64])),
        ("ep", counts([8, 4, 8])),
        ("moe_tp", counts([1, 1, 8])),
        ("note", texts(["NVIDIA's own run"; 3])),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("how the experts are spread is not stated", 1),
            ("the source's layout is doubtful", 1),
        ]
    );
    let work = runs.runs[1].workload;
    assert_eq!((work.batch, work.context), (2, 1100));
    assert_eq!((work.dp, work.ep, work.expert_tp), (8, 8, 1));
    assert_eq!((work.dtype, work.recipe), (Dtype::Fp8, Recipe::Nvfp4));
}

#[test]
fn rows_of_servers_that_no_step_describes_are_left_out_by_reason() {
    let suspect = BooleanArray::from(vec![false, false, true, false, false, false]);
    let runs = served::<6>(vec![
        (
            "mode",
            texts([
                "serving-disaggregated",
                "offline",
                "serving",
                "serving",
                "serving",
                "serving",
            ]),
        ),
        ("suspect", Arc::new(suspect)),
        ("dtype", texts(["fp8", "fp8", "fp8", "w4a8", "int4", "fp8"])),
        (
            "ttft_ms",
            numbers([100.0, 100.0, 100.0, 100.0, 100.0, 5000.0].map(Some)),
        ),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("mode offline: the batch is not stated", 1),
            (
                "over a quarter of a request passes before its first token: fewer ran than were sent",
                1
            ),
            ("prefill and decode ran on GPUs of their own", 1),
            ("the source's layout is doubtful", 1),
            ("weights of w4a8 have no format", 1),
        ]
    );
    let kept = runs.runs.iter().map(|run| {
        let Workload { dtype, recipe, .. } = run.workload;
        (run.measure, dtype, recipe)
    });
    assert_eq!(
        kept.collect::<Vec<_>>(),
        [
            (Measure::Ttft, Dtype::Bf16, Recipe::W4a16),
            (Measure::Tpot, Dtype::Bf16, Recipe::W4a16),
            (Measure::Ttft, Dtype::Fp8, Recipe::Tensorwise),
        ]
    );
}

#[test]
fn a_static_batch_is_a_step_without_a_load() {
    let runs = served::<3>(vec![
        ("mode", texts(["static"; 3])),
        ("note", texts(["fixed lengths"; 3])),
        (
            "source_repo",
            texts(["NVIDIA/TensorRT-LLM", "InternLM/lmdeploy", "ROCm/vllm"]),
        ),
        ("tpot_ms", numbers([None; 3])),
        ("ttft_ms", numbers([Some(100.0), Some(100.0), None])),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("only the time of prefill and decode together is stated", 1),
            ("the first token of a batch waits for the prefill of others", 1),
        ]
    );
    let [run] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    assert_eq!((run.measure, run.serving), (Measure::Step, None));
    assert_eq!((run.workload.batch, run.workload.seq), (16, 1000));
}

#[test]
fn a_foreign_table_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    write_columns(&path, vec![("shoe_size", counts([42]))]);
    let message = read_runs(&[path], &GpuCatalog::built_in()).unwrap_err().to_string();
    assert!(message.contains("iteration time (ms)"), "{message}");
}

#[test]
fn the_published_tables_are_kept_but_for_named_reasons() {
    let Some(folder) = public_folder() else {
        return;
    };
    let mut wrong = Vec::new();
    for (file, publisher, kept, skipped) in [
        ("llmfoundry_training_throughput", Publisher::LlmFoundry, 209, 7),
        ("vtrain_training_iterations", Publisher::Vtrain, 1549, 0),
        ("pipeweave_e2e_inference", Publisher::Pipeweave, 88, 3),
        ("llm_inference_bench", Publisher::LlmInferenceBench, 2519, 2253),
        ("neusight_model_runs", Publisher::Neusight, 33, 116),
        ("training_steps", Publisher::TrainingSteps, 597, 235),
        ("inference_runs", Publisher::InferenceRuns, 4270, 3557),
    ] {
        let runs = read_runs(&[folder.join(file).with_extension("parquet")], &GpuCatalog::built_in()).unwrap();
        assert!(runs.runs.iter().all(|run| run.publisher == publisher));
        let counts = (runs.runs.len(), runs.skipped.total());
        if counts != (kept, skipped) {
            wrong.push(format!("{file} {counts:?}\n{}", runs.skipped));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
