//! Whole-model measurements: how each publisher's columns become runs.

use super::public::public_folder;
use super::write_columns;
use crate::arch::AttentionKernel;
use crate::arch::Mode;
use crate::arch::Recompute;
use crate::arch::parameters;
use crate::dataset::runs::Publisher;
use crate::dataset::runs::Runs;
use crate::dataset::runs::read_runs;
use crate::ops::Dtype;
use arrow_array::ArrayRef;
use arrow_array::Float32Array;
use arrow_array::Int64Array;
use arrow_array::StringArray;
use std::sync::Arc;

fn counts<const N: usize>(values: [i64; N]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts<const N: usize>(values: [&str; N]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn numbers<const N: usize>(values: [Option<f32>; N]) -> ArrayRef {
    Arc::new(Float32Array::from(values.to_vec()))
}

fn read(columns: Vec<(&str, ArrayRef)>) -> Runs {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.parquet");
    write_columns(&path, columns);
    read_runs(&[path]).unwrap()
}

fn reasons(runs: &Runs) -> Vec<(&str, u64)> {
    runs.skipped.iter().collect()
}

#[test]
fn a_step_of_mpt_lasts_its_tokens_over_the_rate_of_one_gpu() {
    let runs = read(vec![
        ("Model", texts(["7b", "7b", "7b", "7b"])),
        ("GPU", texts(["a100_80gb", "a100_40gb", "h100_80gb", "h20"])),
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
        (
            "Activation Checkpointing",
            texts(["True", "False", "True", "True"]),
        ),
        ("d_model", counts([4096; 4])),
        ("n_heads", counts([32; 4])),
        ("n_layers", counts([32; 4])),
        ("expansion_ratio", counts([4; 4])),
        ("vocab_size", counts([50_432; 4])),
    ]);
    assert_eq!(
        reasons(&runs),
        [
            ("GPU `h20` is not in data/gpus", 1),
            ("precision amp_fp8 has no net", 1),
            ("the time is not more than 0", 1),
        ]
    );
    let [run] = &runs.runs[..] else {
        panic!("{:?}", runs.runs)
    };
    assert_eq!(
        (&*run.gpu.name, &*run.group),
        ("a100", "a100, one node, full recomputation")
    );
    let work = run.workload;
    assert_eq!(
        (work.batch, work.microbatches, work.dp, work.zero),
        (6, 21, 8, 3)
    );
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
    assert_eq!(run.group, "a100, several nodes");
    // 50257 words to the next multiple of 4 x 128.
    assert_eq!(run.architecture.vocab, 50_688);
    assert!((run.time.secs() - 0.25).abs() < 1e-9);
}

#[test]
fn a_served_model_gives_a_prefill_and_a_decode_step_of_the_median_iteration() {
    let runs = read(vec![
        (
            "file",
            texts(["tp2_H100", "tp2_H100", "tp2_H100", "tp2_H100", "L20"]),
        ),
        ("run_name", texts(["Qwen3-32B-arxiv_12"; 5])),
        ("batch_size", counts([12; 5])),
        ("output_len", counts([18; 5])),
        ("total_prefill_tokens", counts([12_004; 5])),
        (
            "iteration",
            numbers([Some(0.0), Some(1.0), Some(2.0), None, Some(0.0)]),
        ),
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
            ("GPU `L20` is not in data/gpus", 1),
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
fn a_foreign_table_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foreign.parquet");
    write_columns(&path, vec![("shoe_size", counts([42]))]);
    let message = read_runs(&[path]).unwrap_err().to_string();
    assert!(message.contains("iteration time (ms)"), "{message}");
}

#[test]
fn the_published_tables_are_kept_but_for_named_reasons() {
    let Some(folder) = public_folder() else {
        return;
    };
    for (file, publisher, kept, skipped) in [
        (
            "llmfoundry_training_throughput",
            Publisher::LlmFoundry,
            209,
            7,
        ),
        ("vtrain_training_iterations", Publisher::Vtrain, 1549, 0),
        ("pipeweave_e2e_inference", Publisher::Pipeweave, 48, 103),
    ] {
        let runs = read_runs(&[folder.join(file).with_extension("parquet")]).unwrap();
        assert!(runs.runs.iter().all(|run| run.publisher == publisher));
        assert_eq!(runs.runs.len(), kept, "{file}\n{}", runs.skipped);
        assert_eq!(runs.skipped.total(), skipped, "{file}\n{}", runs.skipped);
    }
}
