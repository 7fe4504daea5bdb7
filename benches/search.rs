//! Finding the fastest shape: annealing and polishing, beside looking at everything and beside random
//! shapes, as many as annealing has moves. Before the timings, random questions are annealed and looked at as a whole.

use criterion::{Criterion, criterion_group, criterion_main};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use shapewise::arch::{MlpKind, Mode, Workload};
use shapewise::gpu::Gpu;
use shapewise::predict::Predictor;
use shapewise::search::bounds::Quantity;
use shapewise::search::{Found, Free, Layout, Method, Request, StopReason};
use shapewise::search::{GAP, USUAL_VOCABULARY, search};
use std::hint::black_box;
use std::ops::ControlFlow;

/// Budgets with the ranks that they are searched on.
const BUDGETS: [(&str, u64, u64); 3] = [
    ("125M", 125_000_000, 1),
    ("6.7B", 6_700_000_000, 1),
    ("70B", 70_000_000_000, 8),
];

/// Random questions, and seeds of each.
const QUESTIONS: usize = 200;
const SEEDS: u64 = 3;

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

/// A question of any size, mode, length, batch and freedom.
fn question(random: &mut Xoshiro256PlusPlus) -> Request {
    fn of<T: Copy>(random: &mut Xoshiro256PlusPlus, all: &[T]) -> T {
        all[random.random_range(0..all.len())]
    }
    let parameters = 10f64.powf(random.random_range(8.3..10.2)) as u64;
    let context = of(random, &[2048, 16_384, 65_536]);
    let batch = of(random, &[1, 8, 32]);
    let workload = match of(random, &Mode::ALL) {
        Mode::Train => Workload::train(4, of(random, &[2048, 4096])),
        Mode::Prefill => Workload::prefill(1, context),
        Mode::Decode => Workload {
            context,
            ..Workload::decode(batch, 2048)
        },
    };
    let free: &[Free] = match of(random, &[0, 1, 2, 3, 4, 5]) {
        0 => &[Free::Window],
        1 => &[Free::Latent],
        2 => &[Free::Window, Free::Latent],
        3 => &[Free::Tp],
        _ => &[],
    };
    let relaxed = match of(random, &[0, 1, 2, 3]) {
        0 => vec![Quantity::AspectRatio],
        1 => vec![Quantity::Heads, Quantity::HeadDim],
        _ => Vec::new(),
    };
    let usual = Request::usual(parameters, MlpKind::Swiglu, USUAL_VOCABULARY, workload);
    Request {
        free: free.to_vec(),
        relaxed,
        equal_loss: of(random, &[true, false]),
        layout: Layout {
            gpus: workload.trains().then_some(16),
            ..Layout::default()
        },
        ..usual.unwrap()
    }
}

/// Looks at everything and anneals, and fails where an annealed answer is more than one per cent from the best there is.
fn quality() {
    let predictors = ["a100", "h100", "b200"].map(|gpu| Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
    let (mut asked, mut annealed, mut worst) = (0, 0, 0.0_f64);
    while asked < QUESTIONS {
        let predictor = &predictors[random.random_range(0..predictors.len())];
        let question = question(&mut random);
        let with = |method| {
            let request = Request {
                method,
                ..question.clone()
            };
            search(predictor, &request, &|_| ControlFlow::Continue(()))
        };
        let Ok(all) = with(Method::Exhaustive) else {
            continue;
        };
        asked += 1;
        for seed in 0..SEEDS {
            let found = with(Method::Anneal { seed }).unwrap();
            if found.stopped == StopReason::Exhausted {
                break;
            }
            annealed += 1;
            let best = |found: &Found| {
                let ranked = found.shapes.iter().map(|shape| shape.ranked.candidate.cost);
                [found.fastest.candidate.cost, ranked.reduce(f64::min).unwrap()]
            };
            for (of_all, of_seed) in best(&all).into_iter().zip(best(&found)) {
                let off = (of_seed - of_all).exp_m1();
                worst = worst.max(off);
                assert!(
                    off <= GAP,
                    "{:.2} % off with seed {seed}, {} shapes: {question:?}",
                    off * 100.0,
                    all.lattice
                );
            }
        }
    }
    println!(
        "{asked} random questions, {annealed} answers of annealing: at most {:.3} % from the best there is",
        worst * 100.0
    );
}

fn methods(c: &mut Criterion) {
    let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
    quality();
    let mut group = c.benchmark_group("search");
    group.sample_size(10);
    for (name, parameters, tp) in BUDGETS {
        for (kind, method) in [
            ("annealing", Method::Anneal { seed: 0 }),
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
