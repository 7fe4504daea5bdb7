//! GEMM rows per second: whole predictions, and their two halves, the net beside the plain loop it replaces.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shapewise::families::{Family, GpuRates};
use shapewise::gpu::Gpu;
use shapewise::ops::{Dtype, Gemm, Layout, Op};
use shapewise::predict::Predictor;
use shapewise::regressor::artifact::Weights;
use shapewise::regressor::evaluate::Evaluator;
use shapewise::regressor::net::{Layer, Net, Output};
use shapewise::units::Seconds;
use std::hint::black_box;

const HIDDEN: usize = 128;

/// A product whose dimensions change with `index`.
fn product(index: u64) -> Op {
    Op::Gemm(Gemm {
        m: 1 + index * 37 % 8192,
        n: 64 * (1 + index % 127),
        k: 64 * (1 + index % 113),
        batch: 1,
        layout: Layout::Tn,
        dtype: Dtype::Bf16,
    })
}

fn rates() -> GpuRates {
    let gpu = Gpu::find("h200").expect("a preset");
    GpuRates::new(gpu, Seconds::from_micros(2.5))
}

/// Features of the first `count` products, one row after the other.
fn rows(count: u64) -> Vec<f32> {
    let rates = rates();
    let width = Family::Gemm.width();
    let mut rows = vec![0.0; count as usize * width];
    for (index, row) in (0..count).zip(rows.chunks_exact_mut(width)) {
        rates.features(&product(index), row);
    }
    rows
}

/// A net of the usual shape with weights that take both signs.
fn weights() -> Weights {
    let layer = |pair: &[usize]| Layer {
        inputs: pair[0],
        outputs: pair[1],
        weight: (0..pair[0] * pair[1])
            .map(|at| (at as f32).sin() / (pair[0] as f32).sqrt())
            .collect(),
        bias: vec![0.1; pair[1]],
    };
    let inputs = Family::Gemm.width();
    let widths = [inputs, HIDDEN, HIDDEN, HIDDEN, Output::WIDTH];
    Weights {
        mean: vec![0.0; inputs],
        scale: vec![1.0; inputs],
        nets: vec![Net {
            layers: widths.windows(2).map(layer).collect(),
        }],
    }
}

fn features(criterion: &mut Criterion) {
    const COUNT: u64 = 1024;
    let rates = rates();
    let ops: Vec<Op> = (0..COUNT).map(product).collect();
    let mut row = vec![0.0; Family::Gemm.width()];
    let mut group = criterion.benchmark_group("features");
    group.throughput(Throughput::Elements(COUNT));
    group.bench_function("gemm", |bencher| {
        bencher.iter(|| {
            for op in &ops {
                black_box(rates.features(black_box(op), &mut row));
            }
        });
    });
    group.finish();
}

fn net(criterion: &mut Criterion) {
    let weights = weights();
    let evaluator = Evaluator::around(&weights, &rows(1));
    let mut group = criterion.benchmark_group("net");
    group.sample_size(10);
    for batch in [1, 64, 4096, 65536] {
        let rows = rows(batch);
        let mut out = Vec::new();
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::new("packed", batch), |bencher| {
            bencher.iter(|| evaluator.evaluate(black_box(&rows), &mut out));
        });
        group.bench_function(BenchmarkId::new("plain", batch), |bencher| {
            bencher.iter(|| weights.predict(black_box(&rows)));
        });
    }
    group.finish();
}

/// Operators to estimates with interval and tier, on one core.
fn predictions(criterion: &mut Criterion) {
    let gpu = Gpu::find("h200").expect("a preset");
    let predictor = Predictor::new(gpu, None).expect("the built-in models load");
    let mut group = criterion.benchmark_group("predictions");
    group.sample_size(10);
    for batch in [1, 64, 4096, 65536] {
        let ops: Vec<Op> = (0..batch).map(product).collect();
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::new("gemm", batch), |bencher| {
            bencher.iter(|| predictor.predict(black_box(&ops)));
        });
    }
    group.finish();
}

criterion_group!(benches, predictions, features, net);
criterion_main!(benches);
