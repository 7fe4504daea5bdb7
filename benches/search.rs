//! Finding the fastest shape: annealing and polishing, beside looking at everything and beside random
//! shapes, as many as annealing has moves. Before the timings it prints how good each one's best is.

use criterion::{Criterion, criterion_group, criterion_main};
use shapewise::arch::{MlpKind, Mode, Workload};
use shapewise::gpu::Gpu;
use shapewise::predict::Predictor;
use shapewise::search::rank::ties;
use shapewise::search::{Found, Method, Request, USUAL_VOCABULARY, search};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

/// Budgets with the ranks that they are searched on.
const BUDGETS: [(&str, u64, u64); 6] = [
    ("125M", 125_000_000, 1),
    ("1.3B", 1_300_000_000, 1),
    ("2.7B", 2_700_000_000, 1),
    ("6.7B", 6_700_000_000, 1),
    ("13B", 13_000_000_000, 1),
    ("70B", 70_000_000_000, 8),
];

const SEEDS: u64 = 5;

fn request(parameters: u64, tp: u64, mode: Mode, method: Method) -> Request {
    let alone = match mode {
        Mode::Train => Workload::train(4, 2048),
        Mode::Prefill => Workload::prefill(1, 2048),
        Mode::Decode => Workload::decode(8, 2048),
    };
    let workload = Workload { tp, ..alone };
    Request {
        method,
        ..Request::usual(parameters, MlpKind::Swiglu, USUAL_VOCABULARY, workload).unwrap()
    }
}

fn run(predictor: &Predictor, request: &Request) -> Found {
    search(predictor, request, &|_| ControlFlow::Continue(())).unwrap()
}

/// How far the best of each method is above the best there is, and how fast everything is looked at.
fn quality(predictor: &Predictor) {
    println!(
        "{:>5} {:>8} {:>9} {:>14} {:>22} {:>22} {:>6}",
        "size",
        "mode",
        "lattice",
        "shapes/s",
        "annealing, above best",
        "random, above best",
        "ties"
    );
    for (name, parameters, tp) in BUDGETS {
        for mode in Mode::ALL {
            let start = Instant::now();
            let all = run(
                predictor,
                &request(parameters, tp, mode, Method::Exhaustive),
            );
            let rate = all.lattice as f64 / start.elapsed().as_secs_f64();
            let truth = all.fastest.candidate;
            let worst = |method: fn(u64) -> Method| {
                let found = (0..SEEDS).map(|seed| {
                    let request = request(parameters, tp, mode, method(seed));
                    run(predictor, &request).fastest.candidate
                });
                found
                    .reduce(|a, b| if b.cost > a.cost { b } else { a })
                    .unwrap()
            };
            let annealed = worst(|seed| Method::Anneal { seed });
            let random = worst(|seed| Method::Random { seed });
            println!(
                "{name:>5} {mode:>8} {:>9} {rate:>14.0} {:>20.3} % {:>20.3} % {:>6}",
                all.lattice,
                (annealed.cost - truth.cost).exp_m1() * 100.0,
                (random.cost - truth.cost).exp_m1() * 100.0,
                ties(&truth, &annealed, 0.0)
            );
            assert!(
                ties(&truth, &annealed, 0.0),
                "{name} {mode}: {annealed:?} for {truth:?}"
            );
        }
    }
}

fn methods(c: &mut Criterion) {
    let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
    quality(&predictor);
    let mut group = c.benchmark_group("search");
    group.sample_size(10);
    for (name, parameters, tp) in [BUDGETS[0], BUDGETS[3], BUDGETS[5]] {
        for (kind, method) in [
            ("annealing", Method::Anneal { seed: 0 }),
            ("random", Method::Random { seed: 0 }),
            ("everything", Method::Exhaustive),
        ] {
            let request = request(parameters, tp, Mode::Train, method);
            group.bench_function(format!("{name}/{kind}"), |b| {
                b.iter(|| run(&predictor, black_box(&request)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, methods);
criterion_main!(benches);
