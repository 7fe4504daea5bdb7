//! What a user waits for: one whole transformer, and the start of the program. Each beside a reference
//! in the same run: lowering without prediction, and a program that does nothing.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use shapewise::arch::{Architecture, Mode, Workload, lower};
use shapewise::gpu::Gpu;
use shapewise::predict::Predictor;
use shapewise::predict::memo::Memo;
use shapewise::predict::step::estimate_step;
use std::hint::black_box;
use std::process::{Command, Stdio};

fn whole_transformer(c: &mut Criterion) {
    let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
    let mut group = c.benchmark_group("transformer");
    for (name, model, workload) in [
        ("train", "llama-3-8b", Workload::train(4, 2048)),
        ("prefill", "llama-3-8b", Workload::prefill(1, 2048)),
        ("decode", "llama-3-8b", Workload::decode(8, 2048)),
        ("decode with experts", "qwen3-30b-a3b", Workload::decode(8, 2048)),
    ] {
        let architecture = Architecture::find(model).unwrap();
        group.bench_function(format!("{name}/predicted"), |b| {
            b.iter(|| estimate_step(&predictor, black_box(&architecture), &workload).unwrap());
        });
        group.bench_function(format!("{name}/lowered only"), |b| {
            b.iter(|| lower(black_box(&architecture), &workload).unwrap());
        });
        // Of one layout step after step, as a cache grows.
        let mut memo = Memo::new(&predictor);
        let mut longer = workload;
        group.bench_function(format!("{name}/one token longer"), |b| {
            b.iter(|| {
                match longer.mode {
                    Mode::Decode => longer.context += 1,
                    Mode::Train | Mode::Prefill => longer.seq += 1,
                }
                memo.cost(black_box(&architecture), &longer).unwrap()
            });
        });
    }
    let llama = Architecture::find("llama-3-8b").unwrap();
    let decode = Workload::decode(8, 2048);
    group.sample_size(10);
    group.bench_function("decode/first of a predictor", |b| {
        let fresh = || Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
        b.iter_batched(
            fresh,
            |predictor| estimate_step(&predictor, &llama, &decode).unwrap(),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn cold_start(c: &mut Criterion) {
    let mut group = c.benchmark_group("start");
    let run = |program: &str, arguments: &[&str]| {
        let status = Command::new(program)
            .args(arguments)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
    };
    let shapewise = env!("CARGO_BIN_EXE_shapewise");
    group.bench_function("predict gemm", |b| {
        b.iter(|| {
            run(
                shapewise,
                &["predict", "gemm", "-m", "4096", "-n", "4096", "-k", "4096"],
            )
        });
    });
    group.bench_function("predict model", |b| {
        b.iter(|| run(shapewise, &["predict", "model", "gpt3-2.7b"]))
    });
    group.bench_function("true", |b| b.iter(|| run("true", &[])));
    group.finish();
}

criterion_group!(benches, whole_transformer, cold_start);
criterion_main!(benches);
