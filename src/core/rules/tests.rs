//! The boundary examples of the paper, and every rule once met and once broken.

use super::*;
use crate::arch::AttentionKernel;
use crate::ops::{Attention, Dtype};

fn preset(name: &str) -> Architecture {
    Architecture::find(name).unwrap()
}

fn verdict(rule: &str, arch: &Architecture, work: &Workload, gpu: &str) -> Verdict {
    let gpu = Gpu::find(gpu).unwrap();
    let practice = &Practice::default();
    Rule::find(rule).unwrap().judge(&Subject {
        arch,
        work,
        gpu,
        practice,
    })
}

fn met(rule: &str, arch: &Architecture, work: &Workload, gpu: &str) -> Option<bool> {
    verdict(rule, arch, work, gpu).is_met()
}

fn train() -> Workload {
    Workload::train(4, 2048)
}

fn unfused() -> Workload {
    Workload {
        attention: AttentionKernel::Unfused,
        ..train()
    }
}

fn split(tp: u64, pp: u64) -> Workload {
    Workload { tp, pp, ..train() }
}

#[test]
fn head_size_80_fails_at_64_and_passes_at_8_and_where_nothing_is_aligned() {
    let gpt = preset("gpt3-2.7b");
    for work in [unfused(), train()] {
        for (gpu, expected) in [("a100", false), ("h200", false), ("v100", true), ("mi250x", true)] {
            assert_eq!(met("head-size", &gpt, &work, gpu), Some(expected), "{gpu}");
        }
    }
    let hard = verdict("head-size", &gpt, &unfused(), "a100");
    assert_eq!(hard.severity, Some(Severity::Hard));
    assert_eq!(hard.detail, "head size 80 = 16 · 5; a multiple of 64 wanted");
    let advice = verdict("head-size", &gpt, &train(), "a100");
    assert_eq!(advice.severity, Some(Severity::Advice));
    assert!(advice.detail.contains("FlashAttention computes it as 96"), "{advice:?}");
}

#[test]
fn decode_reads_heads_of_any_whole_loads() {
    let gpt = preset("gpt3-2.7b");
    let decode = Workload::decode(1, 1024);
    assert_eq!(met("head-size", &gpt, &decode, "a100"), Some(true));
    assert_eq!(met("flash", &gpt, &decode, "a100"), None);
    let odd = Architecture { head_dim: 100, ..gpt };
    assert_eq!(met("head-size", &odd, &decode, "a100"), Some(false));
}

#[test]
fn vocabularies_of_the_paper() {
    let mut arch = preset("gpt2");
    let work = Workload::train(4, 1024);
    for (vocab, expected) in [
        (50257, false),
        (50304, true),
        (51200, true),
        (50368, true),
        (49954, false),
        (10922, false),
    ] {
        arch.vocab = vocab;
        assert_eq!(met("vocabulary", &arch, &work, "a100"), Some(expected), "{vocab}");
    }
    arch.vocab = 49960;
    assert_eq!(met("vocabulary", &arch, &work, "v100"), Some(true));
    arch.vocab = 50257;
    assert_eq!(met("vocabulary", &arch, &work, "v100"), Some(false));
    assert_eq!(met("vocabulary", &arch, &work, "mi250x"), Some(true));
}

#[test]
fn a_rank_holds_an_aligned_share_of_the_vocabulary() {
    let mut arch = preset("gpt2");
    arch.vocab = 50304;
    // 50304 = 128 · 393.
    for (tp, expected) in [(1, true), (2, true), (4, false)] {
        let work = Workload {
            tp,
            seq: 1024,
            ..train()
        };
        assert_eq!(met("vocabulary", &arch, &work, "a100"), Some(expected));
    }
}

#[test]
fn logits_that_only_run_forward_need_a_multiple_of_eight() {
    let mut arch = preset("gpt2");
    arch.vocab = 50264;
    let serve = Workload::prefill(1, 512);
    assert_eq!(met("vocabulary", &arch, &serve, "a100"), Some(true));
    assert_eq!(met("vocabulary", &arch, &train(), "a100"), Some(false));
    arch.vocab = 50257;
    assert_eq!(met("vocabulary", &arch, &serve, "a100"), Some(false));
    let reason = Rule::find("vocabulary").unwrap().reason;
    assert!(reason.contains("Backward") && reason.contains("reduction"));
}

#[test]
fn gated_widths_of_the_paper() {
    let mut arch = preset("llama-2-7b");
    for (width, expected) in [
        (10922, false),
        (10944, true),
        (11008, true),
        (28672, true),
        (49954, false),
    ] {
        arch.mlp.d_ff = width;
        assert_eq!(met("swiglu-width", &arch, &train(), "a100"), Some(expected), "{width}");
    }
    let llama = preset("llama-2-7b");
    for gpu in ["v100", "a100", "h200", "mi250x"] {
        assert_eq!(met("swiglu-width", &llama, &train(), gpu), Some(true));
    }
    // 11008 = 256 · 43: eight ranks hold 1376 = 32 · 43.
    assert_eq!(met("swiglu-width", &llama, &split(8, 1), "a100"), Some(false));
    assert_eq!(met("mlp-shard", &llama, &train(), "a100"), None);
    assert_eq!(met("swiglu-width", &preset("gpt2"), &train(), "a100"), None);
}

#[test]
fn fp8_wants_twice_as_many_elements() {
    let mut arch = preset("llama-2-7b");
    arch.mlp.d_ff = 10944;
    let fp8 = Workload {
        dtype: Dtype::Fp8,
        ..train()
    };
    assert_eq!(met("swiglu-width", &arch, &train(), "h200"), Some(true));
    assert_eq!(met("swiglu-width", &arch, &fp8, "h200"), Some(false));
    // The head stays in 16 bits.
    arch.vocab = 32064;
    assert_eq!(met("vocabulary", &arch, &fp8, "h200"), Some(true));
}

#[test]
fn flash_drops_the_power_of_two_but_not_the_eight() {
    let mut arch = preset("gpt3-2.7b");
    for (size, expected) in [
        (32, false),
        (60, false),
        (64, true),
        (80, true),
        (84, false),
        (256, true),
        (512, false),
    ] {
        arch.head_dim = size;
        assert_eq!(met("flash", &arch, &train(), "a100"), Some(expected), "{size}");
    }
    assert_eq!(met("flash", &arch, &unfused(), "a100"), None);
    for (size, expected) in [(64, true), (96, true), (112, false), (128, true), (192, true)] {
        arch.head_dim = size;
        let found = met("head-size", &arch, &train(), "a100");
        assert_eq!(found, Some(expected), "{size}");
    }
}

/// Rule, architecture, workload and GPU that meet it, and that break it.
#[test]
fn every_rule_is_met_by_one_shape_and_broken_by_another() {
    let gpt = preset("gpt3-2.7b");
    let llama = preset("llama-2-7b");
    let small = preset("pythia-410m");
    let changed = |arch: &Architecture, change: fn(&mut Architecture)| {
        let mut arch = arch.clone();
        change(&mut arch);
        arch
    };
    type Run = (Architecture, Workload);
    let cases: Vec<(&str, Run, Run)> = vec![
        ("vocabulary", (llama.clone(), train()), (gpt.clone(), train())),
        (
            "micro-batch",
            (gpt.clone(), train()),
            (small.clone(), Workload::train(1, 512)),
        ),
        (
            "tokens",
            (llama.clone(), train()),
            (llama.clone(), Workload::train(1, 1001)),
        ),
        ("head-size", (llama.clone(), train()), (gpt.clone(), train())),
        (
            "hidden-shard",
            (llama.clone(), train()),
            (changed(&gpt, |a| a.hidden = 2592), train()),
        ),
        (
            "attention-shard",
            (llama.clone(), split(8, 1)),
            (preset("llama-3-8b"), split(16, 1)),
        ),
        (
            "tensor-parallel",
            (preset("llama-3.1-405b"), split(8, 8)),
            (llama.clone(), split(8, 1)),
        ),
        ("few-heads", (llama.clone(), train()), (small.clone(), train())),
        (
            "flash",
            (gpt.clone(), train()),
            (changed(&gpt, |a| a.head_dim = 40), train()),
        ),
        (
            "swiglu-width",
            (llama.clone(), train()),
            (changed(&llama, |a| a.mlp.d_ff = 10922), train()),
        ),
        (
            "qkv-shard",
            (llama.clone(), train()),
            (changed(&gpt, |a| (a.heads, a.kv_heads) = (25, 25)), train()),
        ),
        (
            "mlp-shard",
            (gpt.clone(), train()),
            (changed(&gpt, |a| a.mlp.d_ff = 10000), train()),
        ),
        (
            "tiles",
            (llama.clone(), train()),
            (llama.clone(), Workload::train(1, 130)),
        ),
        (
            "waves",
            (llama.clone(), Workload::train(16, 2048)),
            (preset("gpt2"), Workload::train(2, 1024)),
        ),
        ("pipeline", (llama.clone(), split(1, 8)), (llama.clone(), split(1, 5))),
        ("node-size", (llama.clone(), split(8, 1)), (llama.clone(), split(6, 1))),
        (
            "depth",
            (preset("pythia-1b"), Workload::decode(8, 1024)),
            (small, Workload::decode(8, 1024)),
        ),
    ];
    assert_eq!(cases.len(), RULES.len());
    for (rule, (good, good_work), (bad, bad_work)) in cases {
        let good = verdict(rule, &good, &good_work, "h200");
        assert_eq!(good.is_met(), Some(true), "{rule}: {}", good.detail);
        let bad = verdict(rule, &bad, &bad_work, "h200");
        assert_eq!(bad.is_met(), Some(false), "{rule}: {}", bad.detail);
        assert!(bad.detail.contains("wanted"), "{rule}: {}", bad.detail);
        assert!(bad.severity.is_some() && good.severity.is_none());
    }
}

#[test]
fn a_split_that_does_not_run_is_still_judged() {
    let llama = preset("llama-3-8b");
    let findings = judge_all(&Subject {
        arch: &llama,
        work: &split(6, 1),
        gpu: Gpu::find("h200").unwrap(),
        practice: &Practice::default(),
    });
    let node = findings.iter().find(|finding| finding.rule.id == "node-size");
    let detail = &node.unwrap().verdict.detail;
    assert!(detail.contains("heads 32") && detail.contains("d_ff 14336"), "{detail}");
}

#[test]
fn every_rule_explains_itself() {
    for (index, rule) in RULES.iter().enumerate() {
        assert!(RULES[..index].iter().all(|other| other.id != rule.id));
        assert!(rule.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
        for text in [rule.demand, rule.reason] {
            assert!(text.ends_with('.') && !text.contains("  "), "{}", rule.id);
        }
        assert!(!rule.source.is_empty() && !rule.title.is_empty());
    }
}

#[test]
fn numbers_are_taken_apart_into_a_power_of_two_and_the_rest() {
    for (value, expected) in [
        (80, "80 = 16 · 5"),
        (50257, "50257 is odd"),
        (128, "128 is a power of two"),
    ] {
        assert_eq!(factors(value), expected);
    }
    assert_eq!([0, 1, 12, 64].map(power_of_two), [0, 1, 4, 64]);
}

#[test]
fn heads_without_a_fused_kernel_are_padded_up_to_256_and_not_in_decode() {
    let of = |seq_q, size| {
        fused_head(&Attention {
            seq_q,
            ..Attention::new(1, 1, 2, size)
        })
    };
    assert_eq!(
        of(2, 100),
        "no fused kernel takes it; PyTorch and flash_attn pad it to 104, Transformer Engine does not"
    );
    assert_eq!(of(2, 300), "no fused kernel takes it, only multiples of 8 up to 256");
    for (seq_q, size, kernel) in [(2, 72, 96), (2, 80, 96), (2, 112, 128), (2, 160, 192), (1, 100, 128)] {
        assert_eq!(of(seq_q, size), format!("FlashAttention computes it as {kernel}"));
    }
}
