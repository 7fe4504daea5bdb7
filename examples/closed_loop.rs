//! The whole loop on the CPU at hand: operators and steps are timed, a model learns them, a search recommends shapes by it,
//! and the recommended transformers run against badly shaped ones of equal size.
//!
//! `cargo run --release --example closed_loop -- 600` takes ten minutes; the number is in seconds. It prints the gain of
//! each recommendation, predicted and realised.

use shapewise::answer::calibrate;
use shapewise::arch::{Architecture, Mlp, MlpKind, Positions, Workload, parameters};
use shapewise::dataset::{self, steps::steps_path};
use shapewise::error::{Error, Result};
use shapewise::framework::Framework;
use shapewise::gpu::GpuCatalog;
use shapewise::measure::device::Device;
use shapewise::measure::journal::Existing;
use shapewise::measure::plan;
use shapewise::measure::{self, measure};
use shapewise::ops::Dtype;
use shapewise::predict::Predictor;
use shapewise::predict::step::estimate_step;
use shapewise::random::Random;
use shapewise::request::{CalibrateRequest, FrameworkRequest, MeasuredRun};
use shapewise::search::bounds::Quantity;
use shapewise::search::{Request, search};
use shapewise::shard::Shard;
use shapewise::stats::median;
use shapewise::train::fit::Backend;
use shapewise::train::{self, train};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps of each model that are timed in turn with those of its opponent, after one that warms up.
const STEPS: usize = 3;

/// Rows of operators that a model needs at least.
const FEWEST: usize = 150;

/// The share of the time that measuring takes; training takes about as long as the pairs that follow.
const MEASURING: f64 = 0.5;

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(600.0), |text| text.parse());
    let seconds: f64 = seconds.map_err(|_| Error::bad_input("the argument is no number of seconds"))?;
    let begin = Instant::now();
    let folder = std::env::temp_dir().join(format!("shapewise-loop-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
    let mut device = measure::open("cpu")?;

    let budget = Duration::from_secs_f64(MEASURING * seconds);
    let predictor = learned(&mut *device, &folder, budget)?;
    println!(
        "learned after {:.0} s: {}",
        begin.elapsed().as_secs_f64(),
        predictor.gpu().title
    );

    let mut random = Random::new(0, "badly shaped");
    let (mut pairs, mut right) = (0, 0);
    let mut gains = Vec::new();
    println!("{:>44}  {:>44}  predicted  realised", "badly shaped", "recommended");
    while begin.elapsed().as_secs_f64() < seconds || pairs == 0 {
        let baseline = badly_shaped(&mut random);
        let work = Workload {
            dtype: Dtype::Fp32,
            ..Workload::train(4, 64)
        };
        let request = Request {
            top: 100,
            // Models this small are outside of what is usual.
            relaxed: Quantity::ALL.to_vec(),
            ..Request::like(&baseline, work)
        };
        let found = search(&predictor, &request, &|_| ControlFlow::Continue(()))?;
        let mut shapes = found.shapes.iter().map(|shape| &shape.ranked.architecture);
        // Burn's attention wants as many key heads as query heads.
        let Some(best) = shapes.find(|shape| shape.heads == shape.kv_heads) else {
            continue;
        };
        // At equal parameters, as the search compares.
        let size = parameters(best).total as f64 / parameters(&baseline).total as f64;
        let predicted =
            [&baseline, best].map(|model| estimate_step(&predictor, model, &work).map(|step| step.time.secs()));
        let [predicted_baseline, predicted_best] = predicted;
        let predicted = predicted_baseline? / predicted_best? * size;
        let realised = realised(&mut *device, &baseline, best, &work)? * size;
        println!(
            "{:>44}  {:>44}  {predicted:>8.2}x  {realised:>7.2}x",
            shape(&baseline),
            shape(best)
        );
        pairs += 1;
        right += usize::from((predicted > 1.0) == (realised > 1.0));
        gains.push(realised);
    }
    let middle = median(gains).unwrap_or_default();
    println!(
        "{right} of {pairs} signs right, {middle:.2} times as fast in the median, {:.0} s",
        begin.elapsed().as_secs_f64()
    );
    std::fs::remove_dir_all(&folder).map_err(|error| Error::io(&folder, error))
}

/// What predicts steps on this device, from rows and steps that are timed in this time.
fn learned(device: &mut dyn Device, folder: &Path, budget: Duration) -> Result<Predictor> {
    let (table, model) = (folder.join("cpu.parquet"), folder.join("cpu"));
    let mut options = measure::Options {
        out: &table,
        existing: Existing::Refuse,
        plan: &plan::find("steps")?,
        budget,
        seed: 0,
        shard: Shard::WHOLE,
        strict: false,
    };
    // A slow machine, or one that others use, takes the time again until there is enough to learn from.
    let measured = loop {
        let measured = measure(device, &options, &mut |_| ControlFlow::Continue(()))?;
        let (rows, steps) = (measured.rows.len(), measured.steps.len());
        println!(
            "{rows} operators and {steps} steps after {:.0} s more",
            measured.spent.as_secs_f64()
        );
        if rows >= FEWEST || measured.added == 0 {
            break measured;
        }
        options.existing = Existing::Resume;
    };

    let gpus = GpuCatalog::from_iter(dataset::described_gpus(&table)?);
    let gpu = gpus.find(&measured.rows[0].gpu)?.clone();
    let options = train::Options {
        out: model.clone(),
        gpus,
        gpu: None,
        across: false,
        choices: vec![],
        base: None,
        seed: 0,
        backend: Backend::Cpu,
        epochs: Some(30),
        labels: Some(2000),
        keep_out: None,
    };
    let artifact = train(&measured.rows, &options, &|_| {})?;
    let fitted = calibrate::run(&CalibrateRequest {
        runs: vec![MeasuredRun::File(steps_path(&table))],
        framework: Some(FrameworkRequest::Named("burn".to_owned())),
        model: Some(model.display().to_string()),
        ..CalibrateRequest::default()
    });
    let predictor = Predictor::new(&gpu, Some(&artifact))?;
    // A short run has fewer steps than a fit needs.
    Ok(match fitted {
        Ok(report) => predictor.with_framework(Framework::from_toml(&report.toml, "the calibration")?),
        Err(error) => {
            println!("constants as built in: {error}");
            predictor.with_framework_named("burn")
        }
    })
}

/// How often as fast the second model is, from steps that are timed in turn.
fn realised(device: &mut dyn Device, first: &Architecture, second: &Architecture, work: &Workload) -> Result<f64> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..2 {
        for (model, times) in [first, second].into_iter().zip(&mut times) {
            let mut step = device.open_step(model, work)?;
            step()?;
            for _ in 0..STEPS {
                times.push(step()?.secs());
            }
        }
    }
    let [first, second] = times.map(|times| median(times).expect("steps were timed"));
    Ok(first / second)
}

/// A transformer of 10 to 30 million parameters of a bad shape: an odd vocabulary, head sizes and an MLP width
/// that are multiples of nothing, thin and deep.
fn badly_shaped(random: &mut Random) -> Architecture {
    let mut drawn = |least: usize, most: usize| (least + random.below(most - least + 1)) as u64;
    let heads = drawn(7, 15);
    let head_dim = 2 * drawn(6, 14);
    let (hidden, layers) = (drawn(220, 320), drawn(14, 24));
    Architecture {
        head_dim,
        mlp: Mlp {
            kind: MlpKind::Gelu,
            d_ff: drawn(700, 1300),
        },
        vocab: 2 * drawn(1000, 4000) + 1,
        positions: Positions::Rotary,
        tied_embeddings: false,
        ..Architecture::gpt(hidden, layers, heads)
    }
}

fn shape(model: &Architecture) -> String {
    let Architecture {
        layers,
        hidden,
        heads,
        head_dim,
        vocab,
        ..
    } = model;
    format!(
        "{layers} x {hidden}, {heads} heads of {head_dim}, d_ff {}, {vocab} words",
        model.mlp.d_ff
    )
}
