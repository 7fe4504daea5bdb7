//! Whole runs on a CUDA that misbehaves: whatever fails costs its own rows and is named, and there is
//! a table each time.
//!
//! The fake of `fake_cuda` reads its faults from a file when a device is opened, so that one process
//! can meet many of them; which libraries there are is decided once per process.

use crate::fake_cuda::{fake, libraries, run_alone};
use shapewise::dataset::{self, Role, Row};
use shapewise::measure::checks::Verdict;
use shapewise::measure::cuda;
use shapewise::measure::device::Device;
use shapewise::measure::journal::Existing;
use shapewise::measure::path::KernelPath;
use shapewise::measure::plan::{DeviceRates, Plan, Supported, file, max_bytes};
use shapewise::measure::{Ended, Options, Outcome, measure};
use shapewise::ops::{Attention, Dtype, Gemm, Layout, Op, OpKind, Pass};
use shapewise::random::Random;
use shapewise::shard::Shard;
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// All libraries that a machine may have.
const ALL: [&str; 5] = [
    "libcuda.so.1",
    "libcublasLt.so.13",
    "libnvrtc.so.13",
    "libcudnn.so.9",
    "libnvidia-ml.so.1",
];

/// A few small cases of every family; the rates spare the probe.
const PLAN: &str = r#"
name = "faults"
budget = "9m"
soak = "0s"
anchors = 0
anchor_period = "60s"
shortest_us = 1
longest_us = 3000
dtypes = { bf16 = 0.7, fp8 = 0.3 }
own_kernels = true

[sets]
sobol = 20
batched = 10
attention = 24
memory = 17

[scale]
floor_us = 1.0
gemm_flops_per_s = { bf16 = 3e8, fp8 = 3e8 }
attention_flops_per_s = { bf16 = 3e9 }
memory_bytes_per_s = 2e8
"#;

/// Runs tests below in a process that finds these libraries.
fn alone(names: &[&str], tests: &[&str], more: &[(&str, &str)]) {
    let Some(fake) = fake() else { return };
    let folder = libraries(fake, names);
    let faults = folder.path().join("faults");
    let faults = ("FAKE_FAULTS", faults.to_str().unwrap());
    let settings = [&[faults, ("FAKE_MODELLED", "1")], more].concat();
    for test in tests {
        run_alone(&format!("faults::inside::{test}"), folder.path(), &settings);
    }
}

#[test]
fn what_is_refused_wrong_or_lost_costs_its_own_rows() {
    let tests = [
        "attention_agrees_with_the_reference",
        "a_wrong_path_costs_its_rows",
        "shapes_that_libraries_refuse_cost_themselves",
        "an_engine_that_does_not_finalize_is_passed_over",
        "plans_of_another_handle_are_compiled_again",
        "a_compiler_that_does_not_work_leaves_the_gemms",
        "a_lost_device_leaves_its_table",
        "the_probe_goes_on_after_an_error",
    ];
    alone(&ALL, &tests, &[]);
}

#[test]
fn one_copy_of_a_library_is_opened_where_there_are_two() {
    let Some(fake) = fake() else { return };
    // The loader answers the name without version with another file than the first folder has.
    let first = libraries(fake, &["libcuda.so.1"]);
    let second = tempfile::tempdir().unwrap();
    for (folder, name) in [(&first, "libcublasLt.so.13"), (&second, "libcublasLt.so")] {
        std::fs::copy(fake.join("libfake.so"), folder.path().join(name)).unwrap();
    }
    let path = std::env::join_paths([first.path(), second.path()]).unwrap();
    let wanted = second.path().join("libcublasLt.so");
    let settings = [("WANTED", wanted.to_str().unwrap())];
    run_alone("faults::inside::one_copy", path.as_ref(), &settings);
}

/// A run takes seconds, most of them for the reference of the checks, so a part of the hundred is drawn
/// unless `SHAPEWISE_FAULTS` asks for all, as the number of each of the four processes.
#[test]
fn random_combinations_of_faults_leave_a_table_each() {
    // The libraries that are there belong to the process.
    let without = |name: &str| ALL.into_iter().filter(|known| *known != name).collect();
    let processes: [Vec<&str>; 4] = [
        ALL.to_vec(),
        without("libnvidia-ml.so.1"),
        without("libcudnn.so.9"),
        without("libnvrtc.so.13"),
    ];
    let count = std::env::var("SHAPEWISE_FAULTS").unwrap_or_else(|_| "3".to_owned());
    for (seed, libraries) in processes.into_iter().enumerate() {
        let seed = seed.to_string();
        let drawn = [("FAULTS_SEED", &*seed), ("FAULTS", &*count)];
        alone(&libraries, &["random_faults"], &drawn);
    }
}

/// What runs in processes of its own.
mod inside {
    use super::*;

    fn plan() -> Plan {
        file::parse(PLAN, "faults.toml").unwrap()
    }

    /// The next device that is opened has these faults, one a line.
    fn set(faults: &str) {
        std::fs::write(std::env::var("FAKE_FAULTS").unwrap(), faults).unwrap();
    }

    /// A whole run with these faults; its rows are those of its file.
    fn run(plan: &Plan, faults: &str) -> shapewise::error::Result<Outcome> {
        set(faults);
        let mut device = cuda::open(0)?;
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("mine.parquet");
        let options = Options {
            out: &out,
            existing: Existing::Refuse,
            plan,
            budget: plan.budget,
            seed: 0,
            shard: Shard::WHOLE,
            strict: false,
        };
        let outcome = measure(&mut device, &options, &mut |_| ControlFlow::Continue(()))?;
        let rows = dataset::read(&out).unwrap();
        assert_eq!(rows.len(), outcome.rows.len());
        Ok(outcome)
    }

    fn planned(outcome: &Outcome) -> HashSet<Op> {
        let is_planned = |row: &&Row| row.measured.as_ref().unwrap().role == Role::Plan;
        outcome.rows.iter().filter(is_planned).map(|row| row.op).collect()
    }

    fn of_kind(cases: &HashSet<Op>, kind: OpKind) -> HashSet<Op> {
        let mut found = cases.clone();
        found.retain(|op| op.kind() == kind);
        found
    }

    /// Cases of the plan without a row, by the counts of the outcome.
    fn counted(outcome: &Outcome) -> u64 {
        let named = |reason: &str| reason.starts_with("failed: ") || reason.starts_with("refused: ");
        let lost = outcome.skipped.iter().filter(|(reason, _)| named(reason));
        lost.map(|(_, rows)| rows).sum()
    }

    fn verdict(faults: &str, formats: &[Dtype]) -> Verdict {
        set(faults);
        let mut device = cuda::open(0).unwrap();
        Verdict::of(&device.check(formats).unwrap())
    }

    fn names(lost: &[shapewise::measure::checks::Lost]) -> Vec<String> {
        lost.iter().map(|lost| lost.path.to_string()).collect()
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn attention_agrees_with_the_reference() {
        let verdict = verdict("", &[Dtype::Bf16, Dtype::Fp16]);
        assert_eq!(verdict.wrong, []);
        assert_eq!((verdict.missing.len(), verdict.not_run.len()), (0, 0));
        let paths = verdict.paths.iter();
        let attention = paths.filter(|path| path.kind() == OpKind::Attention);
        // Both formats, masks and passes, and decoding with both masks.
        assert_eq!(attention.count(), 2 * (2 * 2 + 2));
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn a_wrong_path_costs_its_rows() {
        let whole = run(&plan(), "").unwrap();
        assert_eq!((whole.ended, whole.lost.as_ref()), (Ended::Complete, None));
        let all = planned(&whole);
        for kind in [OpKind::Gemm, OpKind::Attention, OpKind::Memory] {
            assert!(of_kind(&all, kind).len() >= 5, "{kind}");
        }
        for (fault, path) in [
            ("wrong_gemm bf16 single tn", "gemm tn bf16"),
            ("wrong_kernel gelu_backward", "gelu backward bf16"),
            ("wrong_attention backward causal", "attention backward causal bf16"),
        ] {
            let outcome = match run(&plan(), fault) {
                Ok(outcome) => outcome,
                Err(error) => panic!("{fault}: {error}"),
            };
            let wrong = names(&outcome.verdict.wrong);
            assert!(wrong.contains(&path.to_owned()), "{fault}: {wrong:?}");
            let mut expected = all.clone();
            expected.retain(|op| !wrong.contains(&KernelPath::of(op).to_string()));
            // Of attention, the plan may have none with this mask and pass that is short enough.
            let costs = expected.len() < all.len() || fault.starts_with("wrong_attention");
            assert!(costs, "{fault}");
            let found = planned(&outcome);
            assert_eq!(found, expected, "{fault}");
            let timed = outcome.rows.iter().map(|row| KernelPath::of(&row.op));
            assert!(timed.into_iter().all(|path| !wrong.contains(&path.to_string())));
        }
        // Five wrong paths of some forty are no accident.
        let error = run(&plan(), "wrong_gemm *").unwrap_err().to_string();
        assert!(error.contains("all paths of gemm are wrong"), "{error}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn shapes_that_libraries_refuse_cost_themselves() {
        let whole = run(&plan(), "").unwrap();
        let all = planned(&whole);
        // One corner of fp8 is a path of its own, or one of its shapes.
        let batched = verdict("refuse_fp8 batched", &[Dtype::Fp8]);
        assert_eq!(names(&batched.missing), ["batched gemm tn fp8"]);
        let single = verdict("refuse_fp8 single_row", &[Dtype::Fp8]);
        assert_eq!((single.missing.len(), single.not_run.len()), (0, 1));
        assert!(single.not_run[0].0.contains("tn fp8"), "{:?}", single.not_run);
        let outcome = run(&plan(), "refuse_fp8 single_row").unwrap();
        let found = planned(&outcome);
        assert!(found.is_subset(&all), "{}", outcome.skipped);
        for case in all.difference(&found) {
            assert!(matches!(case, Op::Gemm(op) if is_corner(op)), "{case:?}");
        }
        let fp8 = |op: &&Op| op.dtype() == Some(Dtype::Fp8);
        assert!(found.iter().filter(fp8).count() > 0);

        // Many refusals in a row, of the family that comes last, end nothing.
        let outcome = run(&plan(), "refuse_gemm 3 1\nrefuse_attention 2 1").unwrap();
        assert_eq!(outcome.ended, Ended::Complete);
        let found = planned(&outcome);
        assert_eq!(
            found.len() as u64 + counted(&outcome),
            all.len() as u64 + counted(&whole),
            "{}",
            outcome.skipped
        );
        assert_eq!(of_kind(&found, OpKind::Memory), of_kind(&all, OpKind::Memory));
        assert!(found.len() < all.len() && found.is_subset(&all));
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn an_engine_that_does_not_finalize_is_passed_over() {
        let case = Op::Attention(Attention::new(1, 4, 128, 64));
        let kernel = |faults: &str| {
            set(faults);
            let mut device = cuda::open(0).unwrap();
            let chain = device.open(&case).map_err(|error| error.to_string())?;
            Ok::<_, String>(chain.kernel().unwrap().name.unwrap())
        };
        assert_eq!(kernel("").unwrap(), "fake_flash_0");
        let second = "fake_flash_1 (engine 1 of the heuristic)";
        assert_eq!(kernel("engines 1").unwrap(), second);
        let none = kernel("engines 3").unwrap_err();
        assert!(none.contains("cuDNN has 3 engines for"), "{none}");
        assert!(none.contains("the engine does not finalize"), "{none}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn plans_of_another_handle_are_compiled_again() {
        let whole = run(&plan(), "").unwrap();
        let outcome = run(&plan(), "own_plans").unwrap();
        assert_eq!(planned(&outcome), planned(&whole), "{}", outcome.skipped);
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn a_compiler_that_does_not_work_leaves_the_gemms() {
        let all = planned(&run(&plan(), "").unwrap());
        let outcome = run(&plan(), "no_compile *").unwrap();
        assert_eq!(planned(&outcome), of_kind(&all, OpKind::Gemm));
        let reasons = outcome.skipped.to_string();
        assert!(reasons.contains("does not find its builtins"), "{reasons}");
        // One source costs its kernels.
        let outcome = run(&plan(), "no_compile norm.cu").unwrap();
        let missing = names(&outcome.verdict.missing);
        let norms = ["layer_norm", "rms_norm"];
        let is_norm = |name: &String| norms.iter().any(|norm| name.starts_with(norm));
        assert!(missing.len() == 4 && missing.iter().all(is_norm), "{missing:?}");
        let mut expected = all;
        expected.retain(|op| !is_norm(&KernelPath::of(op).to_string()));
        assert_eq!(planned(&outcome), expected);
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn a_lost_device_leaves_its_table() {
        let outcome = run(&plan(), "die 120").unwrap();
        assert_eq!(outcome.ended, Ended::DeviceLost);
        let lost = outcome.lost.unwrap();
        assert!(
            lost.contains("NVIDIA H200") && lost.contains("ILLEGAL_ADDRESS"),
            "{lost}"
        );
        assert!(!outcome.rows.is_empty() && outcome.unreached > 0);
        // Before the first row there is nothing to write, and the culprit is named.
        let error = run(&plan(), "die 0").unwrap_err().to_string();
        assert!(error.contains("ILLEGAL_ADDRESS"), "{error}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn the_probe_goes_on_after_an_error() {
        set("refuse_gemm 2 5");
        let plan = plan();
        let mut device = cuda::open(0).unwrap();
        let supported = Supported::new(&plan, &|case| device.refuses(case)).unwrap();
        // A path that the checks found wrong has its share of the plan, and no rate.
        let tn = Op::Gemm(Gemm::square(512, Layout::Tn, Dtype::Bf16));
        device.refuse(KernelPath::of(&tn), "wrong".to_owned());
        let mut skipped = dataset::Skipped::default();
        // Squares to 256 only: the CPU is no GPU.
        let most = shapewise::units::Bytes::from_bytes(4e5);
        let most = if most < max_bytes(None) { most } else { max_bytes(None) };
        let rates = DeviceRates::probe(&mut device, &supported, most, &mut skipped).unwrap();
        assert!(rates.gemm_flops_per_s.contains_key(&Dtype::Bf16), "{rates:?}");
        let reasons = skipped.to_string();
        assert!(reasons.contains("failed in the probe: cuBLASLt"), "{reasons}");
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn one_copy() {
        let device = cuda::open(0).unwrap();
        let wanted = std::env::var("WANTED").unwrap();
        assert_eq!(device.identity().files, [wanted]);
    }

    /// Faults drawn from a seed.
    fn draw(random: &mut Random) -> Vec<String> {
        let salt = random.below(1000);
        let every = 2 + random.below(6);
        let pool = [
            "wrong_gemm bf16 single nn".to_owned(),
            "wrong_gemm bf16 batched tn".to_owned(),
            "wrong_kernel softmax_backward".to_owned(),
            "wrong_attention backward causal".to_owned(),
            format!("refuse_gemm {every} {salt}"),
            "refuse_fp8 batched".to_owned(),
            "refuse_fp8 single_row".to_owned(),
            format!("refuse_attention {every} {salt}"),
            "engines 1".to_owned(),
            "engines 3".to_owned(),
            "no_compile norm.cu".to_owned(),
            "no_compile elementwise.cu".to_owned(),
            "no_compile *".to_owned(),
            "fail_kernel gelu_forward".to_owned(),
            "no_nvml".to_owned(),
            "no_cudnn".to_owned(),
            "drift 0.0001".to_owned(),
            format!("die {}", 40 + random.below(800)),
        ];
        let mut chosen = BTreeSet::new();
        // One of the first four at most: several wrong paths end a run, as they should.
        chosen.insert(random.below(pool.len()));
        for _ in 0..random.below(4) {
            chosen.insert(4 + random.below(pool.len() - 4));
        }
        chosen.into_iter().map(|at| pool[at].clone()).collect()
    }

    #[test]
    #[ignore = "runs in a process of its own"]
    fn random_faults() {
        let plan = plan();
        let whole = run(&plan, "").unwrap();
        let all = planned(&whole);
        let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
        let mut random = Random::new(number("FAULTS_SEED"), "faults");
        for number in 0..number("FAULTS") {
            let faults = draw(&mut random);
            let text = faults.join("\n");
            let outcome = match run(&plan, &text) {
                Ok(outcome) => outcome,
                Err(error) => panic!("{number}: {faults:?}: {error}"),
            };
            let context = || format!("{number}: {faults:?}\n{}", outcome.skipped);
            let found = planned(&outcome);
            let has = |name: &str| faults.iter().any(|fault| fault.starts_with(name));
            assert!(!found.is_empty(), "{}", context());
            assert!(found.is_subset(&all), "{}", context());
            if has("die") && outcome.ended == Ended::DeviceLost {
                assert!(outcome.lost.is_some(), "{}", context());
            } else {
                assert_eq!(outcome.ended, Ended::Complete, "{}", context());
                // What no fault touches is measured.
                let touched = |op: &Op| match op {
                    Op::Gemm(op) => has("refuse_gemm") || has("wrong_gemm") || has("refuse_fp8") && is_corner(op),
                    Op::Attention(op) => {
                        let backward = op.pass == Pass::Backward && op.causal;
                        has("refuse_attention")
                            || has("engines 3")
                            || has("no_cudnn")
                            || has("no_compile *")
                            || has("wrong_attention") && backward
                    }
                    Op::Memory(_) => has("no_compile") || has("wrong_kernel") || has("fail_kernel"),
                    _ => false,
                };
                for case in all.iter().filter(|case| !touched(case)) {
                    assert!(found.contains(case), "{}\n{case:?}", context());
                }
                // What is not measured is named: as a path, or counted with its reason.
                let lost = [&outcome.verdict.wrong, &outcome.verdict.missing];
                let lost: BTreeSet<_> = lost.into_iter().flatten().map(|lost| lost.path).collect();
                let left = all.difference(&found).filter(|op| !lost.contains(&KernelPath::of(op)));
                let left = left.count() as u64;
                let before = counted(&whole);
                assert!(left + before <= counted(&outcome), "{left} {}", context());
            }
        }
    }

    fn is_corner(op: &Gemm) -> bool {
        op.dtype == Dtype::Fp8 && (op.batch > 1 || op.m == 1)
    }
}
