//! Checks of published shapes, and promises that hold for any shape.

use super::*;
use crate::arch::{AttentionKernel, Practice, parameters};
use crate::gpu::Gpu;
use crate::rules::{Subject, is_met};
use proptest::prelude::*;
use std::sync::OnceLock;

fn predictor(gpu: &str) -> Predictor {
    Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap()
}

fn preset(name: &str) -> Architecture {
    Architecture::find(name).unwrap()
}

fn nearest<'a>(check: &'a Check, rule: &str) -> &'a Fix {
    match &check.diagnosis(rule).unwrap().remedy {
        Some(Remedy::Fixed { nearest, .. }) => nearest,
        other => panic!("{rule}: {other:?}"),
    }
}

/// Every promise that a fix makes.
fn keeps_its_promises(rule: &'static Rule, fix: &Fix, arch: &Architecture, gpu: &Gpu) {
    fix.architecture.validate().unwrap();
    fix.workload.validate(&fix.architecture).unwrap();
    let before = parameters(arch).total as f64;
    let after = parameters(&fix.architecture).total as f64;
    assert!((after / before - 1.0).abs() <= 0.01, "{}", rule.id);
    assert!((fix.parameter_change - (after / before - 1.0)).abs() < 1e-12);
    let subject = Subject {
        arch: &fix.architecture,
        work: &fix.workload,
        gpu,
        practice: &Practice::default(),
    };
    assert_eq!(is_met(rule, &subject), Some(true), "{}", rule.id);
    assert!(!fix.changes.is_empty());
    assert!(fix.fixes.iter().any(|fixed| fixed.id == rule.id));
    assert!(fix.architecture.vocab >= arch.vocab, "tokens have no row");
}

fn all_fixes(check: &Check) -> impl Iterator<Item = (&'static Rule, &Fix)> {
    check.diagnoses.iter().flat_map(|diagnosis| {
        let fixes = match &diagnosis.remedy {
            Some(Remedy::Fixed { nearest, faster }) => vec![&**nearest].into_iter().chain(faster.as_deref()),
            _ => Vec::new().into_iter().chain(None),
        };
        fixes.map(|fix| (diagnosis.rule(), fix))
    })
}

#[test]
fn gpt3_is_told_of_its_heads_and_its_vocabulary() {
    let arch = preset("gpt3-2.7b");
    for gpu in ["a100", "h200"] {
        let predictor = predictor(gpu);
        let check = check(&predictor, &arch, &Workload::train(4, 2048)).unwrap();
        for (rule, number) in [("head-size", "80"), ("vocabulary", "50257")] {
            let diagnosis = check.diagnosis(rule).unwrap();
            assert!(diagnosis.is_broken());
            let detail = &diagnosis.finding.verdict.detail;
            assert!(detail.contains(number), "{detail}");
        }
        for (rule, fix) in all_fixes(&check) {
            keeps_its_promises(rule, fix, &arch, predictor.gpu());
        }
        let vocabulary = nearest(&check, "vocabulary");
        assert_eq!(vocabulary.architecture.vocab, 50304);
        assert_eq!(vocabulary.gain.unwrap().outlook, Outlook::Faster);
        let heads = nearest(&check, "head-size");
        assert_eq!(heads.architecture.head_dim, 64);
        assert_eq!(heads.architecture.hidden, 2560);
        let together = check.together.as_ref().unwrap();
        assert_eq!(together.architecture.head_dim, 128);
        assert!(together.fixes.len() >= 3, "{together:?}");
        assert!(together.breaks.is_empty());
        let single = vocabulary.gain.unwrap().expected;
        assert!(together.gain.unwrap().expected > single);
    }
}

/// The paper: 40 heads of 64 are slower than 32 of 80, 20 of 128 faster.
#[test]
fn an_aligned_head_that_does_not_pay_is_not_offered() {
    let arch = preset("gpt3-2.7b");
    let work = Workload {
        attention: AttentionKernel::Unfused,
        ..Workload::train(4, 2048)
    };
    let check = check(&predictor("a100"), &arch, &work).unwrap();
    let nearest = nearest(&check, "head-size");
    assert_eq!(nearest.architecture.heads, 20);
    assert!(nearest.gain.unwrap().expected > 0.0, "{nearest:?}");
}

/// Wide heads free memory, so that a larger micro-batch would fit.
#[test]
fn needing_less_memory_breaks_no_rule() {
    let work = Workload {
        attention: AttentionKernel::Unfused,
        ..Workload::train(1, 2048)
    };
    let check = check(&predictor("a100"), &preset("gpt3-2.7b"), &work).unwrap();
    assert!(nearest(&check, "few-heads").breaks.is_empty());
    let together = check.together.unwrap();
    assert!(together.breaks.is_empty());
    assert_eq!(together.architecture.heads, 20);
}

/// A smaller model is no faster by its size, and ranks that divide are named before another shape.
#[test]
fn the_nearest_fix_that_pays_is_named_at_equal_parameters() {
    let narrow = |arch: &mut Architecture| {
        (arch.hidden, arch.head_dim, arch.mlp.d_ff) = (2304, 72, 6144);
    };
    let odd = |arch: &mut Architecture| arch.mlp.d_ff = 11006;
    let ranks = Workload {
        tp: 8,
        ..Workload::decode(8, 4096)
    };
    let six = Workload {
        tp: 6,
        ..Workload::train(4, 1024)
    };
    let experts = Workload {
        tp: 8,
        ..Workload::prefill(8, 4096)
    };
    type Change = fn(&mut Architecture);
    let staged = Workload {
        tp: 8,
        pp: 6,
        ..Workload::train(4, 4096)
    };
    let cases: [(&str, Change, Workload, &str, &str); 6] = [
        (
            "llama-2-7b",
            narrow,
            Workload::train(4, 4096),
            "few-heads",
            "heads 18, kv_heads 18, head_dim 128",
        ),
        (
            "llama-2-7b",
            odd,
            Workload::train(4, 4096),
            "swiglu-width",
            "d_ff 11008",
        ),
        ("qwen2.5-7b", |_| (), ranks, "attention-shard", "tp 4"),
        ("llama-3-8b", |_| (), staged, "pipeline", "pp 4"),
        ("gpt2-medium", |_| (), six, "node-size", "tp 2"),
        ("qwen3-30b-a3b", |_| (), experts, "swiglu-width", "tp 4"),
    ];
    let predictor = predictor("h100");
    for (name, change, work, rule, wanted) in cases {
        let mut arch = preset(name);
        change(&mut arch);
        let check = check(&predictor, &arch, &work).unwrap();
        let named = |fix: &Fix| {
            let changes = fix.changes.iter();
            Vec::from_iter(changes.map(|change| format!("{} {}", change.dimension, change.to))).join(", ")
        };
        assert_eq!(named(nearest(&check, rule)), wanted);
        let is_shape = nearest(&check, rule).workload == work;
        let together = check.together.as_ref();
        assert!(
            together.is_none_or(|together| (named(together) == wanted) == is_shape),
            "{together:?}"
        );
    }
}

/// A server takes as long for a step of any small model.
#[test]
fn a_step_that_the_server_bounds_has_no_fix_of_speed() {
    for name in ["smollm2-135m", "pythia-410m", "qwen3-0.6b"] {
        let check = check(&predictor("h100"), &preset(name), &Workload::decode(1, 1024)).unwrap();
        assert!(check.together.is_none() && all_fixes(&check).next().is_none(), "{name}");
        assert!(!check.diagnoses.iter().any(Diagnosis::is_broken), "{name}");
    }
}

#[test]
fn a_split_that_does_not_run_is_a_finding_with_a_fix() {
    let arch = preset("gpt2-medium");
    let work = Workload {
        tp: 6,
        ..Workload::train(4, 1024)
    };
    let predictor = predictor("v100");
    let check = check(&predictor, &arch, &work).unwrap();
    assert!(check.as_is.is_err());
    assert!(check.diagnosis("node-size").unwrap().is_broken());
    for (rule, fix) in all_fixes(&check) {
        keeps_its_promises(rule, fix, &arch, predictor.gpu());
        assert!(fix.gain.is_none());
    }
}

#[test]
fn impossible_input_is_refused() {
    let predictor = predictor("h200");
    let long = check(&predictor, &preset("gpt2"), &Workload::train(1, 4096));
    assert!(long.unwrap_err().to_string().contains("position table"));
    let mut arch = preset("gpt2");
    arch.layers = 0;
    assert!(check(&predictor, &arch, &Workload::train(1, 64)).is_err());
}

#[test]
fn the_same_step_gains_nothing_for_certain() {
    let predictor = predictor("h200");
    let step = |batch| estimate_step(&predictor, &preset("gpt2"), &Workload::train(batch, 1024)).unwrap();
    let framework = predictor.framework(crate::arch::Mode::Train).unwrap();
    let same = Gain::between(framework, &step(4), &step(4));
    assert_eq!((same.expected, same.low, same.high), (0.0, 0.0, 0.0));
    assert_eq!(same.outlook, Outlook::Unclear);
    let larger = Gain::between(framework, &step(1), &step(8));
    assert!(larger.low <= larger.expected && larger.expected <= larger.high);
    assert!(larger.expected > 0.0, "{larger:?}");
}

fn shapes() -> impl Strategy<Value = (Architecture, Workload)> {
    let presets = ["gpt2", "llama-2-7b", "llama-3-8b", "mixtral-8x7b", "gemma-2-2b"];
    (
        0..presets.len(),
        (1u64..40, 1u64..40, 1u64..24, 1u64..33),
        (100u64..60_000, 100u64..30_000),
        (1u64..9, 1u64..1025, 0u32..3, 1u64..5),
        any::<(bool, bool)>(),
    )
        .prop_filter_map(
            "cannot be built",
            move |(name, (layers, width, group, size), (vocab, d_ff), run, (trains, flash))| {
                let mut arch = preset(presets[name]);
                let (batch, seq, tp, pp) = run;
                arch.layers = layers;
                arch.window = None;
                arch.kv_heads = width;
                arch.heads = width * group.min(4);
                arch.head_dim = size * 8;
                arch.hidden = arch.heads * arch.head_dim + (group / 8) * 24;
                arch.vocab = vocab;
                arch.mlp.d_ff = d_ff;
                if let Some(moe) = &mut arch.moe {
                    moe.d_ff = d_ff;
                }
                let mut work = if trains {
                    Workload::train(batch, seq)
                } else {
                    Workload::prefill(batch, seq)
                };
                work.tp = 1 << tp;
                work.pp = pp.min(layers);
                if !flash {
                    work.attention = AttentionKernel::Unfused;
                }
                arch.validate().ok()?;
                Some((arch, work))
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn fixes_of_any_shape_keep_their_promises((arch, work) in shapes()) {
        static PREDICTOR: OnceLock<Predictor> = OnceLock::new();
        let predictor = PREDICTOR.get_or_init(|| predictor("h200"));
        let check = check(predictor, &arch, &work).unwrap();
        for (rule, fix) in all_fixes(&check) {
            keeps_its_promises(rule, fix, &arch, predictor.gpu());
        }
        if let Some(together) = &check.together {
            prop_assert!(together.parameter_change.abs() <= 0.01);
            prop_assert_eq!(together.workload, work);
        }
    }
}
