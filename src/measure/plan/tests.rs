//! Plans: deterministic, balanced wherever they are cut, scaled to the device, split without
//! overlap.

use super::*;
use crate::arch::Preset;
use crate::dataset::Skipped;
use crate::measure::device::{Device, canonical};
use crate::measure::scripted::{Script, Scripted};
use crate::ops::Pass;
use crate::shard::Shard;
use crate::units::{BytesPerSecond, FlopsPerSecond};
use std::collections::{BTreeMap, BTreeSet};

/// A device that is slower than the usual script by this factor, with these formats.
fn device(slower: f64, dtypes: Vec<Dtype>) -> Scripted {
    let usual = Script::default();
    Scripted::new(Script {
        rate: FlopsPerSecond::from_flops_per_sec(usual.rate.flops_per_sec() / slower),
        bandwidth: BytesPerSecond::from_bytes_per_sec(usual.bandwidth.bytes_per_sec() / slower),
        dtypes,
        ..usual
    })
}

fn planned(name: &str, seed: u64, device: &mut Scripted) -> (Vec<Planned>, DeviceRates) {
    let plan = find(name).unwrap();
    let sizing = sizing(&plan, seed, device);
    (sizing.cases(), sizing.rates)
}

fn sizing<'a>(plan: &'a Plan, seed: u64, device: &mut Scripted) -> Sizing<'a> {
    let supported = Supported::new(plan, &|case| device.refuses(case)).unwrap();
    let max_bytes = max_bytes(device.identity().driver.memory_bytes);
    let rates = DeviceRates::probe(device, &supported, max_bytes, &mut Skipped::default()).unwrap();
    Sizing {
        plan,
        rates,
        supported,
        max_bytes,
        seed,
    }
}

fn usual() -> Scripted {
    device(1.0, vec![Dtype::Bf16, Dtype::Fp16, Dtype::Fp32])
}

/// A CPU: ten thousand times slower, single precision only.
fn slow() -> Scripted {
    device(1e4, vec![Dtype::Fp32])
}

#[test]
fn equal_seeds_give_equal_cases_in_equal_order_and_others_give_others() {
    let first = planned("quick", 0, &mut usual()).0;
    assert_eq!(first, planned("quick", 0, &mut usual()).0);
    // The order of the noise must not change the plan: rates are rounded.
    let mut noisy = Scripted::new(Script {
        seed: 9,
        dtypes: vec![Dtype::Bf16, Dtype::Fp16, Dtype::Fp32],
        ..Script::default()
    });
    assert_eq!(first, planned("quick", 0, &mut noisy).0);
    let other = planned("quick", 1, &mut usual()).0;
    let cases = |planned: &[Planned]| planned.iter().map(|one| one.op).collect::<HashSet<_>>();
    assert!(cases(&first).intersection(&cases(&other)).count() < first.len() / 2);
}

#[test]
fn every_set_has_its_cases_each_once() {
    let plan = find("quick").unwrap();
    let (cases, _) = planned("quick", 0, &mut usual());
    let distinct: HashSet<&Op> = cases.iter().map(|planned| &planned.op).collect();
    assert_eq!(distinct.len(), cases.len());
    for (set, wanted) in &plan.sets {
        let found = cases.iter().filter(|planned| planned.set == *set).count();
        let expected = wanted * 9 / 10..=*wanted;
        assert!(expected.contains(&found), "{}: {found} of {wanted}", set.name());
    }
}

#[test]
fn a_set_without_cases_has_none() {
    let mut plan = find("quick").unwrap();
    for set in Set::ALL {
        plan.sets = vec![(set, 3)];
        let found = sizing(&plan, 0, &mut usual()).cases();
        assert!(
            found.iter().all(|planned| planned.set == set) && found.len() <= 24,
            "{}",
            set.name()
        );
    }
}

#[test]
fn every_beginning_is_a_balanced_sample() {
    let (cases, _) = planned("standard", 3, &mut usual());
    let count = |cases: &[Planned]| {
        let mut counts: BTreeMap<Set, usize> = BTreeMap::new();
        cases
            .iter()
            .for_each(|planned| *counts.entry(planned.set).or_default() += 1);
        counts
    };
    let all = count(&cases);
    for cut in [cases.len() / 50, cases.len() / 7, cases.len() / 2] {
        let begun = count(&cases[..cut]);
        for (set, whole) in &all {
            let expected = *whole as f64 * cut as f64 / cases.len() as f64;
            let found = *begun.get(set).unwrap_or(&0) as f64;
            assert!(
                (found - expected).abs() <= 3.0 + 0.02 * expected,
                "{}: {found} of {expected} in {cut}",
                set.name()
            );
        }
    }
}

#[test]
fn sizes_follow_the_speed_of_the_device() {
    for (mut device, least_share) in [(usual(), 0.2), (slow(), 0.2)] {
        let (cases, rates) = planned("quick", 0, &mut device);
        let plan = find("quick").unwrap();
        let mut decades = BTreeSet::new();
        let mut longer_than_floor = 0;
        for planned in &cases {
            let time = device.truth(&planned.op);
            // The probe's rates are rounded to powers of two, the script is off its roofline by 10
            // %.
            assert!(time.secs() <= plan.longest.secs() * 2.0, "{}: {time}", planned.op);
            decades.insert((time.micros().log10() * 2.0) as i32);
            longer_than_floor += usize::from(time > rates.floor() * 4.0);
        }
        assert!(longer_than_floor as f64 > least_share * cases.len() as f64);
        assert!(decades.len() >= 6, "{decades:?}");
    }
    let (fast, slow) = (planned("quick", 0, &mut usual()).1, planned("quick", 0, &mut slow()).1);
    let ratio = fast.gemm_flops_per_s[&Dtype::Fp32] / slow.gemm_flops_per_s[&Dtype::Fp32];
    assert!((2000.0..50_000.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_sets_hold_what_they_are_for() {
    let (cases, _) = planned("full", 0, &mut usual());
    let of = |set: Set| {
        cases
            .iter()
            .filter(move |planned| planned.set == set)
            .map(|planned| &planned.op)
    };
    let gemms = |set: Set| {
        of(set).filter_map(|op| match *op {
            Op::Gemm(gemm) => Some(gemm),
            _ => None,
        })
    };
    for set in [Set::Transformer, Set::Sobol, Set::Alignment, Set::Sweeps] {
        let layouts: HashSet<Layout> = gemms(set).map(|gemm| gemm.layout).collect();
        assert!(layouts.len() == 3 && !layouts.contains(&Layout::Tt), "{set}");
    }
    for unit in [8, 64] {
        let multiples =
            gemms(Set::Sobol).filter(|gemm| [gemm.m, gemm.n, gemm.k].iter().all(|size| size.is_multiple_of(unit)));
        assert!(multiples.count() * 4 > of(Set::Sobol).count());
    }
    let powers: HashSet<(u32, u32)> = gemms(Set::Alignment)
        .filter(|gemm| gemm.layout == Layout::Tn)
        .map(|gemm| (gemm.n.trailing_zeros(), gemm.k.trailing_zeros()))
        .collect();
    assert_eq!(powers.len(), 64);
    assert!(gemms(Set::Batched).all(|gemm| gemm.batch >= 2));
    let attention: Vec<_> = of(Set::Attention)
        .filter_map(|op| match *op {
            Op::Attention(op) => Some(op),
            _ => None,
        })
        .collect();
    let has = |wanted: &dyn Fn(&crate::ops::Attention) -> bool| {
        attention.iter().filter(|op| wanted(op)).count() * 20 > attention.len()
    };
    assert!(has(&|op| op.pass == Pass::Backward && op.causal));
    assert!(has(&|op| op.kv_heads < op.heads) && has(&|op| op.is_decode()));
    let kernels: HashSet<_> = of(Set::Memory)
        .filter_map(|op| match *op {
            Op::Memory(op) => Some((op.kind.name(), op.pass)),
            _ => None,
        })
        .collect();
    assert_eq!(kernels.len(), 23);
}

/// Share of these that meet a condition.
fn share<T>(all: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    all.iter().filter(|one| holds(one)).count() as f64 / all.len() as f64
}

fn near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 0.05
}

/// The cases of a plan that brings its rates, on a device that runs every format in every layout
/// but fp8, which has one, and no attention or memory-bound kernel in fp8.
fn cases_of(plan: &Plan) -> Vec<Planned> {
    let refuses = |op: &Op| {
        let refused = match *op {
            Op::Gemm(gemm) => gemm.dtype == Dtype::Fp8 && gemm.layout != Layout::Tn,
            op => op.dtype() == Some(Dtype::Fp8),
        };
        refused.then(|| "fp8 tensor cores take one layout".to_owned())
    };
    let sizing = Sizing {
        plan,
        rates: plan.rates.clone().expect("the plan brings its rates"),
        supported: Supported::new(plan, &refuses).unwrap(),
        max_bytes: max_bytes(Some(80e9)),
        seed: 0,
    };
    let cases = sizing.cases();
    let refused: Vec<_> = cases.iter().filter_map(|planned| refuses(&planned.op)).collect();
    assert!(refused.is_empty(), "{refused:?}");
    cases
}

#[test]
fn the_plan_for_training_holds_what_training_runs() {
    let mut plan = find("training").unwrap();
    assert_eq!(plan.cases_of(Set::Memory), 0);
    plan.sets.push((Set::Memory, 2600));
    let cases = cases_of(&plan);
    let wanted: usize = plan.sets.iter().map(|(_, cases)| cases).sum();
    assert!(cases.len() * 100 > wanted * 98, "{} of {wanted}", cases.len());
    let (mut gemms, mut attention, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for planned in &cases {
        match planned.op {
            Op::Gemm(op) if op.dtype == Dtype::Bf16 => gemms.push(op),
            Op::Attention(op) => attention.push(op),
            Op::Memory(op) => memory.push(op),
            _ => {}
        }
    }
    for (layout, wanted) in [(Layout::Tn, 0.4), (Layout::Nn, 0.3), (Layout::Nt, 0.3)] {
        let found = share(&gemms, |op| op.layout == layout);
        assert!(near(found, wanted), "{layout}: {found}");
        // What is contiguous: k and n, in the weight gradient m and n.
        let odd = share(&gemms, |op| {
            let other = if layout == Layout::Nt { op.m } else { op.k };
            op.layout == layout && op.n % 8 + other % 8 > 0
        });
        assert!(odd > 0.05, "{layout}: {odd}");
    }
    assert!(attention.iter().all(|op| op.dtype == Dtype::Bf16));
    for head_dim in [64, 80, 96, 112, 128, 192, 256] {
        assert!(near(share(&attention, |op| op.head_dim == head_dim), 1.0 / 7.0));
    }
    let whole: Vec<_> = attention.iter().filter(|op| !op.is_decode()).collect();
    assert!(near(share(&whole, |op| !op.causal), plan.attention.bidirectional));
    assert!(near(
        share(&whole, |op| op.pass == Pass::Backward),
        plan.attention.backward
    ));
    assert!(share(&whole, |op| op.seq_q % 128 > 0) > 0.25);
    let of = |kind: MemoryKind| memory.iter().filter(move |op| op.kind == kind);
    assert!(of(MemoryKind::Adam).count() > 80);
    assert!(of(MemoryKind::Adam).all(|op| op.cols == 1 && op.dtype == Dtype::Fp32));
    // Vocabularies of Llama 3, Qwen 2.5 and Gemma.
    let logits = |least: u64| of(MemoryKind::CrossEntropy).filter(move |op| op.cols >= least);
    assert!(logits(100_000).count() > 20 && logits(200_000).count() > 0);
    let widths: HashSet<u64> = Preset::all().iter().map(|preset| preset.architecture.hidden).collect();
    let norms: Vec<_> = of(MemoryKind::RmsNorm).collect();
    assert!(share(&norms, |op| widths.contains(&op.cols)) > 0.3);
    for kind in [MemoryKind::Add, MemoryKind::Rotary, MemoryKind::Embedding] {
        assert!(of(kind).any(|op| op.pass == Pass::Backward), "{kind}");
    }
}

#[test]
fn the_plan_for_attention_holds_nothing_else() {
    let attention = cases_of(&find("attention").unwrap());
    assert!(attention.len() > 2900);
    assert!(attention.iter().all(|planned| planned.set == Set::Attention));
}

#[test]
fn a_layout_is_measured_if_the_plan_names_it() {
    let mut plan = find("training").unwrap();
    plan.layouts = vec![(Layout::Nn, 1.0), (Layout::Tt, 3.0)];
    plan.sets = vec![(Set::Transformer, 1000), (Set::Sobol, 500)];
    let cases = cases_of(&plan);
    let found = share(
        &cases,
        |planned| matches!(planned.op, Op::Gemm(op) if op.layout == Layout::Tt),
    );
    assert!(near(found, 0.75), "{found}");
    let all: HashSet<_> = cases.iter().map(|planned| planned.op.dtype()).collect();
    assert_eq!(all, HashSet::from([Some(Dtype::Bf16)]), "fp8 has neither layout");
}

#[test]
fn shards_cover_a_plan_without_overlap() {
    let (cases, _) = planned("quick", 0, &mut usual());
    for of in [1, 2, 3, 8] {
        let mut sizes = Vec::new();
        for planned in &cases {
            let holders = (1..=of).filter(|&index| Shard { index, of }.holds(&canonical(&planned.op)));
            assert_eq!(holders.count(), 1, "{:?}", planned.op);
        }
        for index in 1..=of {
            let shard = Shard { index, of };
            sizes.push(
                cases
                    .iter()
                    .filter(|planned| shard.holds(&canonical(&planned.op)))
                    .count(),
            );
        }
        let even = cases.len() / of as usize;
        assert!(sizes.iter().all(|size| size.abs_diff(even) < even / 6 + 1), "{sizes:?}");
    }
}

#[test]
fn a_device_without_any_format_of_the_plan_is_told_so() {
    let plan = find("quick").unwrap();
    let refuses = |_: &Op| Some("it has no units for that".to_owned());
    let sentence = Supported::new(&plan, &refuses).unwrap_err().to_string();
    assert!(
        sentence.contains("tf32") && sentence.contains("it has no units for that"),
        "{sentence}"
    );
}

#[test]
fn the_digest_of_a_plan_follows_from_its_canonical_text() {
    let mut plan = find("quick").unwrap();
    plan.sets = vec![(Set::Sobol, 7)];
    plan.shortest = Seconds::from_micros(0.25);
    plan.dtypes = vec![(Dtype::Bf16, 0.5), (Dtype::Fp32, 2.0)];
    plan.layouts = vec![(Layout::Tn, 1.0)];
    plan.attention.head_dims = vec![64, 112];
    plan.memory.kinds = vec![MemoryKind::Adam];
    let text = concat!(
        r#"{"name":"quick","budget":{"secs":120,"nanos":0},"soak":{"secs":5,"nanos":0},"#,
        r#""anchors":24,"anchor_period":{"secs":30,"nanos":0},"shortest_us":0.25,"longest_us":10000.0,"#,
        r#""chain_us":1000.0,"fewest":7,"few_rows":1.0,"dtypes":[["bf16",0.5],["fp32",2.0]],"#,
        r#""layouts":[["tn",1.0]],"#,
        r#""attention":{"head_dims":[64,112],"bidirectional":0.5,"backward":0.5,"decode":0.2,"off_grid":0.3,"#,
        r#""tokens":[64,32768]},"memory":{"kinds":["adam"],"presets":0.5},"own_kernels":false,"#,
        r#""sets":[["sobol",7]],"scale":null}"#
    );
    assert_eq!(plan.canonical(), text);
    assert_eq!(plan.digest(), "a0b16eecf7dfdf93");
    plan.anchors += 1;
    assert_eq!(plan.digest(), "53018d977109de0e");
}

#[test]
fn operators_of_steps_are_what_other_transformers_consist_of() {
    let plan = find("steps").unwrap();
    let mut device = slow();
    let sizing = sizing(&plan, 0, &mut device);
    let cases = steps::operators(&sizing, 400);
    assert_eq!(cases.len(), 400);
    assert_eq!(cases.iter().collect::<HashSet<_>>().len(), 400);
    assert!(cases.iter().all(|op| sizing.fits(op)));
    let holds = |family: &dyn Fn(&Op) -> bool| cases.iter().any(family);
    assert!(holds(&|op| matches!(op, Op::Gemm(op) if op.m <= 16)));
    for wanted in Pass::ALL {
        assert!(holds(&|op| matches!(op, Op::Attention(op) if op.pass == wanted)));
    }
    assert!(holds(
        &|op| matches!(op, Op::Memory(op) if op.kind == MemoryKind::Swiglu)
    ));
    assert_eq!(steps::operators(&sizing, 0).len(), 0);
}

#[test]
fn every_kernel_has_small_and_large_tensors_however_many_kernels_there_are() {
    for name in ["steps", "standard"] {
        let (cases, _) = planned(name, 0, &mut usual());
        let mut sizes: BTreeMap<Kernel, Vec<f64>> = BTreeMap::new();
        for planned in cases.iter().filter(|planned| planned.set == Set::Memory) {
            if let Op::Memory(op) = planned.op {
                let bytes = op.bytes().bytes();
                sizes.entry((op.kind, op.pass)).or_default().push(bytes);
            }
        }
        assert!(sizes.len() > 10, "{name}");
        for ((kind, pass), sizes) in sizes {
            let least = sizes.iter().copied().fold(f64::INFINITY, f64::min);
            let most = sizes.iter().copied().fold(0.0, f64::max);
            assert!(
                least < 1e6 && most > 1e3 * least,
                "{name} {kind} {pass}: {least} to {most}"
            );
        }
    }
}

#[test]
fn the_plan_for_gaps_draws_few_rows_oftener() {
    let plan = find("gaps").unwrap();
    let cases = cases_of(&plan);
    let of = |set: Set| {
        let cases = cases.iter().filter(move |planned| planned.set == set);
        cases.map(|planned| planned.op)
    };
    let is_few = |op: &&Op| matches!(op, Op::Gemm(op) if (17..=512).contains(&op.m));
    let usual = Plan {
        few_rows: 1.0,
        ..plan.clone()
    };
    let usual = cases_of(&usual);
    let usual: Vec<&Op> = usual
        .iter()
        .filter(|planned| planned.set == Set::Sobol)
        .map(|planned| &planned.op)
        .collect();
    let odds = |few: usize, all: usize| few as f64 / (all - few) as f64;
    let before = odds(usual.iter().copied().filter(is_few).count(), usual.len());
    let sobol: Vec<Op> = of(Set::Sobol).collect();
    let after = odds(sobol.iter().filter(is_few).count(), sobol.len());
    assert!((1.8..2.2).contains(&(after / before)), "{before} {after}");
    for op in of(Set::Attention) {
        let Op::Attention(op) = op else { panic!("{op}") };
        assert!((32..=512).contains(&op.seq_q) && !op.is_decode());
    }
    assert!(cases.len() > 8_500, "{}", cases.len());
}
