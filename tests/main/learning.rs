//! Training for real, small: burn and our evaluation agree, a seed repeats, a killed run goes on.

use crate::cli::{parse, refuses, run};
use crate::made_up;
use shapewise::dataset::choices;
use shapewise::dataset::runs::read_runs;
use shapewise::dataset::{Kernel, Row, is_held_out, key, read, write};
use shapewise::evaluate::runs::{Choice, Judged, judge};
use shapewise::families::{Family, Variant};
use shapewise::framework::Kernels;
use shapewise::gpu::{Gpu, GpuCatalog};
use shapewise::ops::{Collective, CollectiveKind, Dtype, Memory, MemoryKind, Op, Pass};
use shapewise::predict::estimate::Tier;
use shapewise::predict::{Predictor, library};
use shapewise::regressor::artifact::{Artifact, Weights};
use shapewise::regressor::evaluate::Evaluator;
use shapewise::regressor::net::Output;
use shapewise::train::fit::{Backend, FitConfig, Samples, fit, forward, fresh};
use shapewise::train::{Event, Options, train};
use shapewise::units::Seconds;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

fn rows() -> Vec<Row> {
    made_up::rows("h200")
}

fn options(out: &Path) -> Options {
    Options {
        gpus: GpuCatalog::default(),
        out: out.to_owned(),
        gpu: None,
        across: false,
        choices: vec![],
        base: None,
        seed: 7,
        backend: Backend::Cpu,
        epochs: Some(12),
        labels: Some(1000),
        keep_out: None,
    }
}

/// Rows that name one kernel, and what a library of this stack says of as many other shapes.
fn rows_and_choices(stack: &str) -> (Vec<Row>, Vec<Row>) {
    let kernel = Kernel {
        tile: Some((128, 128)),
        ..Kernel::default()
    };
    let with_kernel = |row: Row, stack: &str, time| {
        let Op::Gemm(gemm) = row.op else { panic!("{}", row.op) };
        let choice = choices::Choice {
            gemm,
            kernel: kernel.clone(),
        };
        Row {
            time,
            ..choice.into_row(&row.gpu, &stack.into())
        }
    };
    let (timed, asked): (Vec<_>, Vec<_>) = rows().into_iter().enumerate().partition(|(place, _)| place % 2 == 0);
    let timed = timed.into_iter().map(|(_, row)| {
        let time = row.time;
        with_kernel(row, "made-up 1", time)
    });
    let asked = asked.into_iter().map(|(_, row)| with_kernel(row, stack, Seconds::ZERO));
    (timed.collect(), asked.collect())
}

#[test]
fn choices_of_the_librarys_kernels_are_learned_and_those_of_another_stack_refused() {
    let folder = tempfile::tempdir().unwrap();
    let train_with = |stack| {
        let (rows, choices) = rows_and_choices(stack);
        let count = choices.len();
        let options = Options {
            choices,
            epochs: Some(3),
            ..options(&folder.path().join("mine"))
        };
        (train(&rows, &options, &|_| {}), count)
    };
    let (model, count) = train_with("made-up 1");
    assert_eq!(model.unwrap().card.submodels[0].training.choices, Some(count));
    let error = train_with("made-up 2").0.unwrap_err().to_string();
    assert!(error.contains("choices of made-up 2 on h200"), "{error}");
}

#[test]
fn a_seed_repeats_and_a_finished_model_predicts() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows();
    let first = train(&rows, &options(&folder.path().join("mine")), &|_| {}).unwrap();
    let second = train(&rows, &options(&folder.path().join("again/mine")), &|_| {}).unwrap();
    assert_eq!(first, second);
    let opened = Artifact::open(&folder.path().join("mine")).unwrap();
    assert!(opened.card.weights_sha256.is_some());
    assert_eq!(opened.card, first.card);
    assert!(!folder.path().join("mine/.checkpoints").exists());

    let predictor = Predictor::new(Gpu::find("h200").unwrap(), Some(&opened)).unwrap();
    assert_eq!(
        predictor.basis(Kernels::default(), Family::Gemm, Dtype::Bf16).unwrap(),
        "made-up 1 on h200"
    );
    let head = &first.card.submodels[0];
    assert_eq!(head.data[0].rows, rows.len());
    assert!(head.held_out[0].median_ape < 0.25, "{:?}", head.held_out[0]);
}

#[test]
fn memory_bound_kernels_and_collectives_are_learned_like_any_other_family() {
    let gpu = Gpu::find("h200").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let norm = |rows, cols| {
        Op::Memory(Memory {
            kind: MemoryKind::RmsNorm,
            rows,
            cols,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        })
    };
    let reduce = |bytes, ranks| Op::Collective(Collective::new(CollectiveKind::AllReduce, bytes, ranks));
    let norms = (0..10).flat_map(|i| (1..10).map(move |j| norm(1 << i, 512 * j)));
    let reduces = (8..30).flat_map(|i| [2, 4, 8].map(move |ranks| reduce(1 << i, ranks)));
    let row = |op: Op| {
        // Half of what the datasheet promises, after twenty microseconds.
        let rate = match op {
            Op::Collective(_) => gpu.link_bandwidth().unwrap(),
            _ => gpu.bandwidth(),
        };
        let time = Seconds::from_micros(20.0) + op.bytes() / rate * 2.0;
        Row::new(op, "h200", "made-up 1", time)
    };
    let rows: Vec<Row> = norms.chain(reduces).map(row).collect();
    let model = train(&rows, &options(&folder.path().join("mine")), &|_| {}).unwrap();
    let variants: Vec<_> = model.card.submodels.iter().map(|sub| sub.key.variant).collect();
    let wanted = [
        Variant::Kernel(MemoryKind::RmsNorm, Dtype::Bf16),
        Variant::Pattern(CollectiveKind::AllReduce),
    ];
    assert_eq!(variants, wanted);
    let opened = Artifact::open(&folder.path().join("mine")).unwrap();
    assert_eq!(opened.card, model.card);

    let predictor = Predictor::new(gpu, Some(&opened)).unwrap();
    let (small, large) = (norm(8, 700), norm(512, 4000));
    let other = Op::Memory(Memory {
        kind: MemoryKind::Permute,
        rows: 8,
        cols: 700,
        pass: Pass::Forward,
        dtype: Dtype::Bf16,
    });
    let ops = [small, large, reduce(3 << 20, 8), other, reduce(1 << 20, 1)];
    let estimates = predictor.predict(&ops);
    let tiers: Vec<_> = estimates.iter().map(|estimate| estimate.tier).collect();
    let (learned, roofline) = (Tier::Learned, Tier::Roofline);
    assert_eq!(tiers, [learned, learned, learned, roofline, roofline]);
    for (op, estimate) in ops.iter().zip(&estimates).take(3) {
        let error = estimate.time / row(*op).time - 1.0;
        assert!(error.abs() < 0.3, "{op}: {error}");
    }
    assert_eq!(estimates[4].time, Seconds::ZERO);
    assert_eq!(
        predictor
            .basis(Kernels::default(), Family::Collective, wanted[1])
            .unwrap(),
        "made-up 1 on h200"
    );
}

#[test]
fn a_killed_run_goes_on_where_it_was_and_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows();
    let out = folder.path().join("mine");
    let whole = train(&rows, &options(&folder.path().join("whole/mine")), &|_| {}).unwrap();

    // Die in the middle of the last nets, as kill -9 would: nothing is tidied up.
    let epochs = AtomicUsize::new(0);
    let killed = std::panic::catch_unwind(|| {
        train(&rows, &options(&out), &|event| {
            if let Event::Epoch { .. } = event
                && epochs.fetch_add(1, Ordering::Relaxed) == 50
            {
                panic!("killed");
            }
        })
    });
    assert!(killed.is_err() && !out.join("card.json").exists());

    let resumed = AtomicUsize::new(0);
    let finished = train(&rows, &options(&out), &|event| {
        if let Event::Resumed { .. } = event {
            resumed.fetch_add(1, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(resumed.load(Ordering::Relaxed) > 0);
    assert_eq!(finished, whole);
}

#[test]
fn fine_tuning_starts_from_the_base_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let base = train(&rows(), &options(&folder.path().join("base")), &|_| {}).unwrap();
    let few: Vec<Row> = rows().into_iter().step_by(2).collect();
    let tuned = Options {
        base: Some(base.clone()),
        ..options(&folder.path().join("tuned"))
    };
    let tuned = train(&few, &tuned, &|_| {}).unwrap();
    assert_eq!(tuned.card.base.as_deref(), Some("base"));
    assert_eq!(tuned.weights[0].mean, base.weights[0].mean);
    assert_ne!(tuned.weights[0].nets, base.weights[0].nets);
}

/// The median error of a model on rows.
fn median_error(model: &Artifact, rows: &[Row]) -> f64 {
    let predictor = Predictor::new(Gpu::find("h200").unwrap(), Some(model)).unwrap();
    let ops: Vec<_> = rows.iter().map(|row| row.op).collect();
    let times = predictor.predict(&ops).into_iter().zip(rows);
    let mut errors: Vec<f64> = times.map(|(times, row)| (times.time / row.time - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    errors[errors.len() / 2]
}

#[test]
fn few_rows_move_a_base_to_another_level_without_forgetting_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let slower = |row: Row| Row {
        time: row.time * 1.3,
        ..row
    };
    let rows: Vec<Row> = rows().into_iter().map(slower).collect();
    let base = train(&self::rows(), &options(&folder.path().join("base")), &|_| {}).unwrap();
    let (few, rest): (Vec<_>, Vec<_>) = rows.iter().cloned().enumerate().partition(|(index, _)| index % 3 == 0);
    let [few, rest] = [few, rest].map(|rows| rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>());
    assert!((45..70).contains(&few.len()), "{}", few.len());
    let fresh = train(&few, &options(&folder.path().join("fresh")), &|_| {}).unwrap();
    let tuned = Options {
        base: Some(base.clone()),
        ..options(&folder.path().join("tuned"))
    };
    let tuned = train(&few, &tuned, &|_| {}).unwrap();
    let [base, fresh, tuned] = [base, fresh, tuned].map(|model| median_error(&model, &rest));
    // 0.80 with AVX-512, less with narrower vectors, whose products round otherwise.
    assert!(
        base > 0.15 && tuned < 0.5 * base && tuned < 0.85 * fresh,
        "base {base}, fresh {fresh}, tuned {tuned}"
    );
}

#[test]
fn keys_that_are_kept_out_leave_no_trace_but_in_the_card() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine");
    let keeping = Options {
        keep_out: Some(0.3),
        ..options(&out)
    };
    let model = train(&rows(), &keeping, &|_| {}).unwrap();
    let kept = model.card.kept_out.unwrap();
    assert_eq!(kept.fraction, 0.3);
    let is_kept = |row: &Row| is_held_out(key(row), kept.fraction, kept.seed);
    let (judges, seen): (Vec<_>, Vec<_>) = rows().into_iter().partition(is_kept);
    assert!(judges.len() > 20 && seen.len() > judges.len());
    let plain = train(&seen, &options(&folder.path().join("plain/mine")), &|_| {}).unwrap();
    assert_eq!(model.weights, plain.weights);
    assert_eq!(model.card.submodels, plain.card.submodels);
    assert_eq!(plain.card.kept_out, None);

    // What was kept out is what `evaluate --kept-out` takes.
    let table = folder.path().join("rows.parquet");
    write(&table, &rows()).unwrap();
    let [table, out] = [&table, &out].map(|path| path.to_str().unwrap());
    let evaluate = ["evaluate", "--data", table, "--format", "json", "--model"];
    let judged = run(&[&evaluate[..], &[out, "--kept-out"]].concat());
    assert_eq!(judged.code, 0, "{}", judged.err);
    let document = parse("evaluate", &judged.out);
    assert_eq!(document["overall"]["n"], judges.len());
    let plain = folder.path().join("plain/mine");
    let plain = plain.to_str().unwrap();
    let every = [&evaluate[..], &[plain, "--kept-out"]].concat();
    refuses(&every, 1, &["trained with every key", "--keep-out"]);
    refuses(&["evaluate", "--data", table, "--kept-out"], 2, &["--model"]);
    let all = ["train", "--data", table, "--out", out, "--keep-out", "1"];
    refuses(&all, 2, &["between 0 and 1"]);
}

#[test]
fn burn_and_our_evaluation_give_the_same_numbers() {
    let inputs: Vec<f32> = (0..200 * 24).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
    let samples = Samples {
        width: 24,
        targets: inputs
            .chunks(24)
            .flat_map(|row| [row[0] * 0.3 - row[5], 0.1 * row[2].abs()])
            .collect(),
        inputs: inputs.clone(),
    };
    let config = FitConfig {
        epochs: 4,
        batch: 32,
        learning_rate: 1e-2,
        weight_decay: 0.01,
        warm_up: 0.1,
        huber: 0.1,
    };
    let computer = Backend::Cpu.device().unwrap();
    let net = fit(
        &fresh(24, &[40, 17], Output::WIDTH, 1),
        &samples,
        &config,
        1,
        &computer,
        |_, _, _| {},
    );
    let weights = Weights {
        mean: vec![0.0; 24],
        scale: vec![1.0; 24],
        nets: vec![net.rounded()],
    };
    let mut ours = Vec::new();
    Evaluator::new(&weights).evaluate(&inputs, &mut ours);
    let burn = forward(&weights.nets[0], &inputs, &computer);
    let plain = weights.nets[0].forward(&inputs);
    assert_eq!((ours.len(), burn.len(), plain.len()), (200, 400, 400));
    for (row, fast) in ours.iter().enumerate() {
        let (burn, plain) = (&burn[2 * row..][..2], &plain[2 * row..][..2]);
        assert!((burn[0] - plain[0]).abs() < 1e-4 && (burn[1] - plain[1]).abs() < 1e-4);
        assert!((fast.mean - f64::from(plain[0])).abs() < 1e-4, "{fast:?} {plain:?}");
        assert!(
            (fast.spread - f64::from(plain[1].max(0.0))).abs() < 1e-4,
            "{fast:?} {plain:?}"
        );
    }
}

#[test]
fn too_few_rows_and_foreign_rows_are_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let few: Vec<Row> = rows().into_iter().take(10).collect();
    let message = train(&few, &options(&folder.path().join("mine")), &|_| {})
        .unwrap_err()
        .to_string();
    assert!(message.contains("enough"), "{message}");
    let path = folder.path().join("rows.parquet");
    write(&path, &rows()).unwrap();
    assert_eq!(read(&path).unwrap().len(), rows().len());
    let absent = Options {
        gpu: Some("a100".into()),
        ..options(&folder.path().join("mine"))
    };
    let message = train(&rows(), &absent, &|_| {}).unwrap_err().to_string();
    assert!(
        message.contains("holds no rows of a100") && message.contains("h200"),
        "{message}"
    );
}

/// The same fit on a GPU through burn-wgpu; Mesa's lavapipe is enough.
#[cfg(feature = "wgpu")]
#[test]
fn wgpu_trains_like_the_cpu() {
    let computer = match Backend::Wgpu.device() {
        Ok(computer) => computer,
        Err(error) => return crate::skip::skip("wgpu", error),
    };
    let inputs: Vec<f32> = (0..64 * 8).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
    let samples = Samples {
        width: 8,
        targets: inputs.chunks(8).map(|row| row[0] * 0.3 - row[5]).collect(),
        inputs: inputs.clone(),
    };
    let config = FitConfig {
        epochs: 2,
        batch: 32,
        learning_rate: 1e-2,
        weight_decay: 0.0,
        warm_up: 0.1,
        huber: 0.1,
    };
    let start = fresh(8, &[8], 1, 1);
    let here = fit(
        &start,
        &samples,
        &config,
        1,
        &Backend::Cpu.device().unwrap(),
        |_, _, _| {},
    );
    let there = fit(&start, &samples, &config, 1, &computer, |_, _, _| {});
    for (a, b) in here.forward(&inputs).iter().zip(there.forward(&inputs)) {
        assert!((a - b).abs() < 1e-2, "{a} {b}");
    }
}

/// What `measure` gave on an H200, every thirtieth row of each file: GEMMs and attention by libraries that PyTorch runs, too, and
/// kernels of our own.
fn measured_on_h200() -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/measurements/h200");
    let files = ["gemm-bf16", "attention-bf16", "decode-bf16", "memory"];
    let rows = files.map(|name| read(&folder.join(name).with_extension("parquet")).unwrap());
    rows.into_iter().flat_map(|rows| rows.into_iter().step_by(30)).collect()
}

#[test]
fn a_table_of_ones_own_does_not_make_steps_of_pytorch_worse() {
    let folder = tempfile::tempdir().unwrap();
    let fine_tuned = Options {
        base: library::find("h200").unwrap().cloned(),
        ..options(&folder.path().join("mine"))
    };
    let kept = std::sync::Mutex::new(Vec::new());
    let listen = |event: Event<'_>| {
        if let Event::BaseKept { key, .. } = event {
            kept.lock().unwrap().push(key.family);
        }
    };
    let model = train(&measured_on_h200(), &fine_tuned, &listen).unwrap();
    let families: Vec<Family> = model.card.submodels.iter().map(|sub| sub.key.family).collect();
    assert!(families.contains(&Family::Gemm) && !families.contains(&Family::Memory));
    assert!(!families.contains(&Family::Decode), "{families:?}");
    // The base learned all of these rows and many more.
    assert!(kept.lock().unwrap().contains(&Family::Gemm));

    let steps = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/measurements/h200/pytorch-h200.csv");
    let runs = read_runs(&[steps], &GpuCatalog::default()).unwrap();
    let error_and_inside = |model: Option<&Artifact>| {
        let answer = |gpu: &Gpu| Predictor::new(gpu, model);
        let judged = judge(&runs, &Choice::Auto, &answer).unwrap();
        assert_eq!(judged.len(), 60);
        let count = judged.len() as f64;
        let off = |each: &Judged<'_>| (each.time() / each.run.time - 1.0).abs();
        let is_inside = |each: &&Judged<'_>| {
            let ratio = each.time() / each.run.time;
            let width = each.framework.half_width(each.kind());
            width.is_some_and(|width| ratio.ln().abs() <= width)
        };
        let inside = judged.iter().filter(is_inside).count() as f64 / count;
        (judged.iter().map(off).sum::<f64>() / count, inside)
    };
    let (before, after) = (error_and_inside(None), error_and_inside(Some(&model)));
    println!("mean error and share inside: {before:.4?} before, {after:.4?} after");
    assert!(after.0 <= before.0 + 0.002 && after.1 >= before.1 - 0.02);
    assert!(after.0 <= 0.025 && after.1 >= 0.88, "{after:?}");
}
