//! Lowered steps against hand-made tables, published FLOP figures and closed forms.

use super::super::{KvCacheDtype, Mode, NormPlacement, Preset, Recipe};
use super::*;
use crate::ops::{Attention, CollectiveKind};
use proptest::prelude::*;

fn preset(name: &str) -> Architecture {
    Preset::find(name).unwrap().architecture.clone()
}

fn unfused(work: Workload) -> Workload {
    Workload {
        attention: AttentionKernel::Unfused,
        ..work
    }
}

fn items(step: &Step, role: Role) -> Vec<Item> {
    step.items.iter().filter(|item| item.role == role).copied().collect()
}

/// `(m, n, k, batch, layout)` and count of every GEMM of a role, in order of phases.
fn gemms(step: &Step, role: Role) -> Vec<(Phase, [u64; 4], &'static str, u64)> {
    items(step, role)
        .iter()
        .map(|item| {
            let Op::Gemm(g) = item.op else {
                panic!("{role} is not a GEMM")
            };
            let shape = [g.m, g.n, g.k, g.batch];
            (item.phase, shape, g.layout.name(), item.count)
        })
        .collect()
}

fn attention(step: &Step, phase: Phase) -> Vec<(Attention, u64)> {
    items(step, Role::Attention)
        .iter()
        .filter(|item| item.phase == phase)
        .map(|item| match item.op {
            Op::Attention(op) => (op, item.count),
            other => panic!("{other} is not attention"),
        })
        .collect()
}

fn gemm_flops(step: &Step, keep: impl Fn(&Item) -> bool) -> f64 {
    step.items
        .iter()
        .filter(|item| matches!(item.op, Op::Gemm(_)) && keep(item))
        .map(|item| item.flops().flops())
        .sum()
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * right.abs()
}

#[test]
fn every_linear_map_trains_as_three_gemms_with_the_layouts_of_pytorch() {
    use Phase::{Forward, GradInput, GradWeight};
    let work = Workload {
        tp: 2,
        microbatches: 3,
        ..Workload::train(4, 2048)
    };
    let step = lower(&preset("gpt3-2.7b"), &work).unwrap();
    let layers = 32 * 3;
    for (role, out, input, count) in [
        (Role::Qkv, 3840, 2560, layers),
        (Role::AttentionProjection, 2560, 1280, layers),
        (Role::MlpUp, 5120, 2560, layers),
        (Role::MlpDown, 2560, 5120, layers),
        (Role::Logits, 25129, 2560, 3),
    ] {
        assert_eq!(
            gemms(&step, role),
            [
                (Forward, [8192, out, input, 1], "tn", count),
                (GradInput, [8192, input, out, 1], "nn", count),
                (GradWeight, [out, input, 8192, 1], "nt", count),
            ],
            "{role}"
        );
    }
}

#[test]
fn unfused_attention_is_two_batched_gemms_with_kernels_between_and_flash_is_one() {
    use Phase::{Forward, GradInput, GradWeight};
    let arch = preset("gpt3-2.7b");
    let step = lower(&arch, &unfused(Workload::train(4, 2048))).unwrap();
    assert_eq!(
        gemms(&step, Role::AttentionScore),
        [
            (Forward, [2048, 2048, 80, 128], "tn", 32),
            (GradInput, [2048, 80, 2048, 128], "nn", 32),
            (GradWeight, [2048, 80, 2048, 128], "nt", 32),
        ]
    );
    assert_eq!(
        gemms(&step, Role::AttentionValue),
        [
            (Forward, [2048, 80, 2048, 128], "nn", 32),
            (GradInput, [2048, 2048, 80, 128], "tn", 32),
            (GradWeight, [2048, 80, 2048, 128], "nt", 32),
        ]
    );
    for role in [Role::AttentionMask, Role::AttentionSoftmax, Role::AttentionDropout] {
        assert_eq!(items(&step, role).len(), 2, "{role}");
    }
    assert!(items(&step, Role::Attention).is_empty());

    let step = lower(&arch, &Workload::train(4, 2048)).unwrap();
    let forward = attention(&step, Phase::Forward);
    assert_eq!(forward.len(), 1);
    assert_eq!((forward[0].0.heads, forward[0].0.head_dim), (32, 80));
    assert!(forward[0].0.causal && forward[0].1 == 32);
    assert_eq!(attention(&step, Phase::Backward).len(), 1);
    assert!(items(&step, Role::AttentionSoftmax).is_empty());
    assert!(items(&step, Role::AttentionOutputDropout).is_empty());
}

#[test]
fn classic_architectures_match_the_closed_forms() {
    for name in ["gpt3-125m", "gpt3-2.7b", "gpt3-175b", "pythia-1b"] {
        let arch = preset(name);
        let (batch, seq) = (2.0, 1024.0);
        let work = unfused(Workload::train(2, 1024));
        let [layers, hidden, vocab] = [arch.layers, arch.hidden, arch.vocab].map(|n| n as f64);
        let dense = layers * batch * seq * hidden * hidden;
        let scores = layers * batch * seq * seq * hidden;
        let head = batch * seq * hidden * vocab;

        let step = lower(&arch, &work).unwrap();
        let forward = gemm_flops(&step, |item| item.phase == Phase::Forward);
        assert!(close(forward, 24.0 * dense + 4.0 * scores + 2.0 * head));
        let training = 72.0 * dense + 12.0 * scores + 6.0 * head;
        assert!(close(gemm_flops(&step, |_| true), training), "{name}");
        assert!(close(step.square_flops.flops(), training));

        let full = Workload {
            recompute: Recompute::Full,
            ..work
        };
        let step = lower(&arch, &full).unwrap();
        let recomputed = 96.0 * dense + 16.0 * scores + 6.0 * head;
        assert!(close(gemm_flops(&step, |_| true), recomputed), "{name}");
        assert!(close(step.square_flops.flops(), training));

        let selective = Workload {
            recompute: Recompute::Selective,
            ..work
        };
        let step = lower(&arch, &selective).unwrap();
        assert!(close(gemm_flops(&step, |_| true), training + 4.0 * scores));
    }
}

/// The calculator of EleutherAI/cookbook for 300 billion tokens with full recomputation; its head is
/// padded to 51200 and counted forward only.
#[test]
fn gpt3_175b_matches_the_published_flop_figures() {
    let arch = Architecture {
        vocab: 51200,
        ..preset("gpt3-175b")
    };
    let work = Workload {
        recompute: Recompute::Full,
        ..unfused(Workload::train(1, 2048))
    };
    let step = lower(&arch, &work).unwrap();
    let steps = 300e9 / step.tokens as f64;
    let zetta = |roles: &[Role]| {
        let flops = gemm_flops(&step, |item| roles.contains(&item.role));
        (flops * steps / 1e19).round() / 100.0
    };
    assert_eq!(zetta(&[Role::Qkv]), 104.37);
    assert_eq!(zetta(&[Role::AttentionScore]), 5.80);
    assert_eq!(zetta(&[Role::AttentionValue]), 5.80);
    assert_eq!(zetta(&[Role::AttentionProjection]), 34.79);
    assert_eq!(zetta(&[Role::MlpUp, Role::MlpDown]), 278.31);
    let head = gemm_flops(&step, |item| item.role == Role::Logits && item.phase == Phase::Forward);
    assert_eq!((head * steps / 1e17).round() / 1e4, 0.3775);
}

#[test]
fn model_flops_equal_the_lowered_gemms_of_every_preset() {
    for preset in Preset::all() {
        let arch = &preset.architecture;
        // So many tokens that the experts of every preset get equal shares.
        for work in [Workload::train(315, 1024), Workload::prefill(315, 1024)] {
            if work.trains() && arch.index.is_some() {
                continue;
            }
            let step = lower(arch, &work).unwrap();
            let attention = |causal: bool| -> f64 {
                let ops = attention(&step, Phase::Forward);
                let each = ops.iter().map(|(op, count)| {
                    let op = Attention { causal, ..*op };
                    op.flops().flops() * *count as f64
                });
                each.sum()
            };
            let others: f64 = step
                .items
                .iter()
                .filter(|item| item.phase == Phase::Forward)
                .filter(|item| {
                    matches!(
                        item.role,
                        Role::LinearAttention | Role::IndexedAttention | Role::Experts
                    )
                })
                .map(|item| item.flops().flops())
                .sum();
            let gemms = gemm_flops(&step, |item| item.phase == Phase::Forward);
            let passes = if work.trains() { 3.0 } else { 1.0 };
            // A module of its own has no form that is not causal.
            let whole = [(false, step.square_flops)]
                .into_iter()
                .filter(|_| arch.index.is_none());
            for (causal, flops) in whole.chain([(true, step.model_flops)]) {
                let lowered = passes * (gemms + attention(causal) + others);
                let said = flops.flops();
                // Compressed keys are lowered to a window as wide as what is seen.
                let near = arch.compressed.is_some() && (said / lowered - 1.0).abs() < 0.01;
                assert!(near || close(said, lowered), "{}: {said} against {lowered}", arch.name);
            }
        }
    }
}

#[test]
fn prefill_predicts_the_last_position_and_decode_attends_to_context_and_itself() {
    let arch = preset("llama-3-8b");
    let step = lower(&arch, &Workload::prefill(3, 500)).unwrap();
    assert_eq!(gemms(&step, Role::Logits)[0].1, [3, 128256, 4096, 1]);
    assert_eq!(gemms(&step, Role::Qkv)[0].1, [1500, 6144, 4096, 1]);
    assert!(step.items.iter().all(|item| item.phase == Phase::Forward));

    let step = lower(&arch, &Workload::decode(16, 4000)).unwrap();
    let (op, count) = attention(&step, Phase::Forward)[0];
    assert_eq!((op.seq_q, op.seq_kv, op.batch, count), (1, 4001, 16, 32));
    assert_eq!(gemms(&step, Role::MlpUp)[0].1, [16, 28672, 4096, 1]);
    assert_eq!(step.tokens, 16.0);
}

#[test]
fn experts_share_the_tokens_evenly_and_a_single_token_visits_only_its_own() {
    let arch = preset("mixtral-8x7b");
    let step = lower(&arch, &Workload::train(1, 1000)).unwrap();
    assert_eq!(gemms(&step, Role::Router)[0].1, [1000, 8, 4096, 1]);
    assert_eq!(gemms(&step, Role::ExpertsUp)[0].1, [250, 28672, 4096, 8]);
    assert_eq!(gemms(&step, Role::ExpertsDown)[0].1, [250, 4096, 14336, 8]);
    let step = lower(&arch, &Workload::train(1, 1)).unwrap();
    assert_eq!(gemms(&step, Role::ExpertsUp)[0].1, [1, 28672, 4096, 2]);

    let step = lower(&preset("deepseek-v3"), &Workload::train(1, 64)).unwrap();
    assert_eq!(gemms(&step, Role::MlpUp)[0].3, 3);
    assert_eq!(gemms(&step, Role::ExpertsUp)[0].3, 58);
    assert_eq!(gemms(&step, Role::SharedUp)[0].1, [64, 4096, 7168, 1]);
}

#[test]
fn a_server_runs_routed_experts_in_one_layer_that_all_ranks_share() {
    let work = Workload {
        tp: 8,
        ep: 4,
        expert_tp: 2,
        ..Workload::decode(64, 1024)
    };
    let step = lower(&preset("deepseek-v3"), &work).unwrap();
    let fused = items(&step, Role::Experts);
    let [
        Item {
            op: Op::Experts(op),
            count: 58,
            ..
        },
    ] = fused[..]
    else {
        panic!("{fused:?}")
    };
    assert_eq!((op.tokens, op.hidden, op.width), (64, 7168, 2048));
    assert_eq!((op.width_shards, op.expert_shards, op.top_k), (2, 4, 8));
    assert!(items(&step, Role::ExpertsUp).is_empty());
    // Behind a latent, experts take its width.
    let step = lower(&preset("nemotron-3-super-120b-a12b"), &Workload::prefill(1, 512)).unwrap();
    let [
        Item {
            op: Op::Experts(op),
            count: 40,
            ..
        },
    ] = items(&step, Role::Experts)[..]
    else {
        panic!("no experts")
    };
    assert_eq!((op.hidden, op.gated), (1024, false));
    assert_eq!(gemms(&step, Role::ExpertsLatentDown)[0].1, [512, 1024, 4096, 1]);
}

/// Above 8 ranks with tokens of their own, kernels see what a rank receives: 64 tokens of each rank, whatever the number of ranks,
/// are 512 for the 8 of a group.
#[test]
fn many_expert_parallel_ranks_are_groups_that_share_the_experts() {
    let asked = |tp: u64, ep: u64| {
        let work = Workload {
            tp,
            ep,
            expert_tp: 1,
            dp: ep / tp,
            ..Workload::decode(64, 1024)
        };
        let step = lower(&preset("deepseek-v3"), &work).unwrap();
        let [
            Item {
                op: Op::Experts(op), ..
            },
        ] = items(&step, Role::Experts)[..]
        else {
            panic!("no experts")
        };
        (op.tokens, op.experts, op.expert_shards)
    };
    assert_eq!(asked(1, 8), (512, 256, 8));
    assert_eq!(asked(1, 16), (512, 128, 8));
    assert_eq!(asked(1, 256), (512, 8, 8));
    // Fewer ranks than a group has, and ranks that share their tokens, sort them all.
    assert_eq!(asked(1, 4), (256, 256, 4));
    assert_eq!(asked(16, 16), (64, 256, 16));
}

/// GLM-5.2: 21 of 78 layers have an index, each with a key of 132 bytes a token beside a latent of 576 elements.
#[test]
fn layers_with_and_without_an_index_are_modules_of_their_own() {
    let (arch, work) = (
        preset("glm-5.2"),
        Workload {
            tp: 8,
            ..Workload::decode(32, 32_767)
        },
    );
    let step = lower(&arch, &work).unwrap();
    let modules = items(&step, Role::IndexedAttention);
    let modules: Vec<_> = modules
        .iter()
        .map(|item| (item.op.get("index_heads"), item.op.get("heads"), item.count))
        .collect();
    let count = |count| Some(crate::ops::Value::Count(count));
    assert_eq!(modules, [(count(32), count(8), 21), (count(0), count(8), 57)]);
    for role in [Role::QueryDown, Role::Attention, Role::AttentionProjection] {
        assert!(items(&step, role).is_empty(), "{role}");
    }
    assert_eq!(items(&step, Role::AttentionResidual)[0].count, 78);
    let memory = super::super::memory_use(&arch, &work, &super::super::Practice::default()).unwrap();
    assert_eq!(
        memory.kv_cache.bytes(),
        32.0 * 32_768.0 * (78.0 * 576.0 * 2.0 + 21.0 * 132.0)
    );
}

#[test]
fn an_index_is_served_as_a_module_and_trained_as_kernels() {
    let arch = preset("deepseek-v3.2");
    let step = lower(&arch, &Workload::train(1, 4096)).unwrap();
    assert!(items(&step, Role::IndexedAttention).is_empty());
    for role in [Role::IndexQuery, Role::IndexScores, Role::IndexChoice, Role::QueryUp] {
        assert_eq!(items(&step, role)[0].count, 61, "{role}");
    }
    assert_eq!(attention(&step, Phase::Forward)[0].0.window, 2048);
    let cp = Workload {
        cp: 2,
        ..Workload::prefill(1, 4096)
    };
    let refused = cp.validate(&arch).unwrap_err().to_string();
    assert!(refused.contains("`cp` is 2; allowed: 1 where an index"), "{refused}");
    let mut plain = arch.clone();
    plain.mla.as_mut().unwrap().q_lora_rank = None;
    let refused = plain.validate().unwrap_err().to_string();
    assert!(
        refused.contains("`index.heads` is 64; allowed: none unless queries"),
        "{refused}"
    );
}

/// DeepSeek-V4-Flash: 21 layers see 512 keys of blocks of 4, 20 one of each block of 128, all the last 128 tokens; each block
/// of a layer reads and writes four residual streams (arXiv 2512.24880).
#[test]
fn layers_of_compressed_keys_see_a_window_and_one_key_a_block() {
    let text = r#"{"model_type":"deepseek_v4","hidden_size":4096,"num_hidden_layers":43,"num_attention_heads":64,
        "num_key_value_heads":1,"head_dim":512,"q_lora_rank":1024,"index_n_heads":64,"index_head_dim":128,"index_topk":512,
        "moe_intermediate_size":2048,"vocab_size":129280,"compress_ratios":[0,0,4,128,4,128,4,128,4,128,4,128,4,128,4,
        128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,0]}"#;
    let arch = crate::arch::parse_config(text, "v4", "config.json").unwrap();
    let keys = 32_768;
    let work = Workload::decode(2, keys - 1);
    let step = lower(&arch, &work).unwrap();
    let mut seen: Vec<_> = attention(&step, Phase::Forward)
        .iter()
        .map(|(op, count)| (op.window, *count))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(128, 2), (128 + 256, 20), (128 + 512, 21)]);
    let shapes = |role| -> Vec<_> {
        let of_role = gemms(&step, role);
        of_role.iter().map(|(_, shape, _, count)| (*shape, *count)).collect()
    };
    let scores = items(&step, Role::IndexScores);
    let sizes = ["heads", "kv_heads", "seq_kv", "head_dim"].map(|size| scores[0].op.get(size));
    assert_eq!(
        sizes,
        [64, 1, 4096, 128].map(|size| Some(crate::ops::Value::Count(size)))
    );
    assert_eq!((scores.len(), scores[0].count), (1, 21));
    assert_eq!(
        shapes(Role::FurtherMap),
        [([2, 24, 16_384, 1], 86), ([2, 4, 16_384, 1], 1)]
    );
    assert_eq!(shapes(Role::AttentionOutputDown), [([2, 1024, 4096, 8], 43)]);
    let memory = super::super::memory_use(&arch, &work, &super::super::Practice::default()).unwrap();
    let rows = 43 * 128 + 21 * keys / 4 + 20 * keys / 128;
    let index = (21 * keys / 4 * 128) as f64 * (1.0 + 4.0 / 128.0);
    assert_eq!(memory.kv_cache.bytes(), 2.0 * ((rows * 512 * 2) as f64 + index));
}

/// Jamba: 28 of 32 layers are Mamba-1 with 8192 channels of 16 states.
#[test]
fn a_scan_of_channels_keeps_their_states() {
    let text = r#"{"model_type":"jamba","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
        "num_attention_heads":32,"num_key_value_heads":8,"mamba_dt_rank":256,"vocab_size":65536}"#;
    let arch = crate::arch::parse_config(text, "jamba", "config.json").unwrap();
    let work = Workload::decode(1, 1023);
    let step = lower(&arch, &work).unwrap();
    assert_eq!(items(&step, Role::LinearAttention)[0].count, 28);
    assert_eq!(items(&step, Role::Attention)[0].count, 4);
    let memory = super::super::memory_use(&arch, &work, &super::super::Practice::default()).unwrap();
    let states = 28 * 8192 * (16 * 4 + 3 * 2);
    assert_eq!(memory.kv_cache.bytes(), (states + 4 * 1024 * 2 * 1024 * 2) as f64);
}

#[test]
fn a_decoding_step_attends_in_the_format_of_its_cache_and_a_prompt_in_its_own() {
    let arch = preset("llama-3-8b");
    let dtype = |work: Workload| {
        let work = Workload {
            kv_cache_dtype: KvCacheDtype::Fp8,
            ..work
        };
        attention(&lower(&arch, &work).unwrap(), Phase::Forward)[0].0.dtype
    };
    assert_eq!(dtype(Workload::decode(8, 4096)), Dtype::Fp8);
    assert_eq!(dtype(Workload::prefill(1, 4096)), Dtype::Bf16);
}

#[test]
fn an_adam_step_with_bf16_moments_moves_half_the_bytes() {
    let arch = preset("llama-3-8b");
    let bytes = |optimizer_states| {
        let work = Workload {
            optimizer_states,
            ..Workload::train(1, 2048)
        };
        items(&lower(&arch, &work).unwrap(), Role::Optimizer)[0]
            .op
            .bytes()
            .bytes()
    };
    let [wide, narrow] = [OptimizerStates::Fp32, OptimizerStates::Bf16].map(bytes);
    assert_eq!(wide, 2.0 * narrow);
}

#[test]
fn latent_attention_expands_in_prefill_and_is_absorbed_in_decode() {
    let arch = preset("deepseek-v3");
    let step = lower(&arch, &Workload::prefill(1, 512)).unwrap();
    let (op, _) = attention(&step, Phase::Forward)[0];
    assert_eq!((op.kv_heads, op.head_dim, op.value_dim), (128, 192, 128));
    assert_eq!(gemms(&step, Role::KeyValueUp)[0].1, [512, 32768, 512, 1]);

    let step = lower(&arch, &Workload::decode(8, 4095)).unwrap();
    let (op, _) = attention(&step, Phase::Forward)[0];
    assert_eq!((op.heads, op.kv_heads), (128, 1));
    assert_eq!((op.head_dim, op.value_dim), (576, 512));
    assert!(items(&step, Role::KeyValueUp).is_empty());
    assert_eq!(gemms(&step, Role::QueryAbsorb)[0].1, [8, 512, 128, 128]);
    assert_eq!(gemms(&step, Role::ValueAbsorb)[0].1, [8, 128, 512, 128]);
}

#[test]
fn windowed_layers_are_a_separate_attention_operator() {
    let step = lower(&preset("gemma-2-9b"), &Workload::prefill(1, 8192)).unwrap();
    let windows: Vec<_> = attention(&step, Phase::Forward)
        .iter()
        .map(|(op, count)| (op.window, *count))
        .collect();
    assert_eq!(windows, [(0, 21), (4096, 21)]);
    let step = lower(&preset("gemma-2-9b"), &Workload::prefill(1, 4096)).unwrap();
    assert_eq!(attention(&step, Phase::Forward)[0].1, 42);
}

#[test]
fn parallel_layers_need_half_the_all_reduces_and_a_shared_norm_is_one_less() {
    let all_reduces = |arch: &Architecture| -> u64 {
        let work = Workload {
            tp: 2,
            ..Workload::train(1, 512)
        };
        items(&lower(arch, &work).unwrap(), Role::TensorParallel)
            .iter()
            .map(|item| item.count)
            .sum()
    };
    let parallel = preset("pythia-1b");
    let sequential = Architecture {
        parallel_layers: false,
        ..parallel.clone()
    };
    assert_eq!(all_reduces(&sequential), 2 * 2 * 16 + 2);
    assert_eq!(all_reduces(&parallel), 2 * 16 + 2);

    let mut shared = parallel.clone();
    shared.norm.placement = NormPlacement::Shared;
    let step = lower(&shared, &Workload::prefill(1, 512)).unwrap();
    assert!(items(&step, Role::MlpNorm).is_empty());
    assert_eq!(items(&step, Role::AttentionNorm)[0].count, 16);
}

#[test]
fn the_last_pipeline_stage_is_lowered_with_transfers_and_the_bubble_is_told() {
    let arch = preset("llama-2-7b");
    let work = Workload {
        pp: 5,
        microbatches: 8,
        ..Workload::train(1, 1024)
    };
    let step = lower(&arch, &work).unwrap();
    assert_eq!(gemms(&step, Role::Qkv)[0].3, 7 * 8);
    assert!(items(&step, Role::Embedding).is_empty());
    assert_eq!(items(&step, Role::PipelineParallel).len(), 2);
    assert_eq!(step.bubble(work.mode), 4.0);
    assert_eq!(
        [1, 3, 5, 9].map(|microbatches| Step {
            microbatches,
            ..step.clone()
        }
        .bubble(Mode::Decode)),
        [4.0, 2.0, 0.0, 0.0]
    );
    assert_eq!((step.tokens, step.gpus_per_replica), (8192.0, 5));
}

#[test]
fn zero_stages_trade_the_all_reduce_for_scatter_and_gather() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let arch = preset("llama-2-7b");
    for (zero, expected) in [
        (0, vec![(Phase::Update, AllReduce, 1)]),
        (
            1,
            vec![(Phase::Update, ReduceScatter, 1), (Phase::Update, AllGather, 1)],
        ),
        (
            2,
            vec![(Phase::Backward, ReduceScatter, 4), (Phase::Update, AllGather, 1)],
        ),
        (
            3,
            vec![
                (Phase::Forward, AllGather, 4),
                (Phase::Backward, AllGather, 4),
                (Phase::Backward, ReduceScatter, 4),
            ],
        ),
    ] {
        let work = Workload {
            dp: 8,
            zero,
            microbatches: 4,
            ..Workload::train(1, 1024)
        };
        let step = lower(&arch, &work).unwrap();
        let found: Vec<_> = items(&step, Role::DataParallel)
            .iter()
            .map(|item| match item.op {
                Op::Collective(op) => {
                    assert_eq!(op.bytes, 2 * 6_738_415_616);
                    (item.phase, op.kind, item.count)
                }
                other => panic!("{other} is not a collective"),
            })
            .collect();
        assert_eq!(found, expected, "stage {zero}");
        let adam = items(&step, Role::Optimizer)[0];
        let shards = if zero > 0 { 8 } else { 1 };
        let Op::Memory(op) = adam.op else {
            panic!("the optimizer is memory-bound")
        };
        assert_eq!((op.rows, adam.count), (6_738_415_616 / shards, 1));
    }
}

#[test]
fn quantized_weights_are_those_of_linear_maps_inside_layers() {
    let formats = [
        (Dtype::Fp8, Recipe::Nvfp4, Dtype::Nvfp4),
        (Dtype::Fp8, Recipe::Fp8Block, Dtype::Fp8Block),
        (Dtype::Bf16, Recipe::Int8, Dtype::Int8),
        (Dtype::Bf16, Recipe::W8a16, Dtype::W8a16),
        (Dtype::Bf16, Recipe::W4a16, Dtype::W4a16),
        (Dtype::Bf16, Recipe::Sparse, Dtype::SparseBf16),
        (Dtype::Fp8, Recipe::Sparse, Dtype::SparseFp8),
    ];
    for (dtype, recipe, linear) in formats {
        let work = Workload {
            dtype,
            recipe,
            ..Workload::decode(4, 1024)
        };
        for name in ["llama-3-8b", "mixtral-8x7b"] {
            let step = lower(&preset(name), &work).unwrap();
            for item in &step.items {
                let expected = match item.role {
                    _ if !matches!(item.op, Op::Gemm(_) | Op::Experts(_)) => Some(Dtype::Bf16),
                    Role::Logits | Role::Router => Some(Dtype::Bf16),
                    _ => Some(linear),
                };
                assert_eq!(item.op.dtype(), expected, "{} {}", item.role, item.op);
            }
        }
    }
}

#[test]
fn fp8_keeps_to_the_linear_maps_and_to_tn() {
    let work = Workload {
        dtype: Dtype::Fp8,
        ..Workload::train(1, 1024)
    };
    let step = lower(&preset("llama-3-8b"), &work).unwrap();
    for item in &step.items {
        match item.op {
            Op::Gemm(gemm) if item.role == Role::Logits => assert_eq!(gemm.dtype, Dtype::Bf16),
            Op::Gemm(gemm) => assert_eq!((gemm.dtype, gemm.layout), (Dtype::Fp8, Layout::Tn)),
            Op::Attention(op) => assert_eq!(op.dtype, Dtype::Bf16),
            _ => {}
        }
    }
}

#[test]
fn autocast_casts_every_weight_once_each_way_and_what_norms_give() {
    let arch = preset("llama-3-8b");
    let lowered = |autocast| {
        let work = Workload {
            autocast,
            microbatches: 3,
            ..Workload::train(1, 512)
        };
        lower(&arch, &work).unwrap()
    };
    let [cast, plain] = [true, false].map(lowered);
    let matrices = |step: &Step| -> Vec<Item> {
        let items = step.items.iter().copied();
        items.filter(|item| !matches!(item.op, Op::Memory(_))).collect()
    };
    assert_eq!(matrices(&cast), matrices(&plain));
    let elements = |kind| -> u64 {
        let casts = cast.items.iter().filter_map(|item| match item.op {
            Op::Memory(op) if op.kind == kind => Some(op.rows * op.cols * item.count),
            _ => None,
        });
        casts.sum()
    };
    let linears = 32 * 4096 * (6144 + 4096 + 3 * 14336) + 4096 * 128_256;
    let (residual, logits) = (512 * 4096, 512 * 128_256);
    // Outputs of 65 norms; backward also the gradients of 64 branches.
    let down = linears + (65 + 64) * residual + logits;
    assert_eq!(elements(MemoryKind::Downcast), 3 * down);
    assert_eq!(elements(MemoryKind::Upcast), 3 * (linears + 65 * residual + logits));
    assert_eq!(elements(MemoryKind::AccumulateGradient), 0);
    // Each micro-batch after the first adds its gradients.
    let sums = items(&cast, Role::GradientAccumulation).into_iter();
    let sums = sums.chain(items(&cast, Role::HeadAccumulation));
    let added: u64 = sums
        .map(|item| match item.op {
            Op::Memory(op) => op.rows * op.cols * item.count,
            other => panic!("{other} adds no gradients"),
        })
        .sum();
    assert_eq!(added, 2 * linears);
    for item in &cast.items {
        if let Op::Memory(op) = item.op {
            let wide = matches!(
                op.kind,
                MemoryKind::RmsNorm | MemoryKind::Add | MemoryKind::Embedding | MemoryKind::Zero | MemoryKind::Adam
            );
            assert_eq!(op.dtype == Dtype::Fp32, wide, "{}", item.label());
        }
    }
}

#[test]
fn autocast_casts_what_norms_of_each_placement_take_and_give() {
    // Casts down and up of a layer forward, down and up backward; weights, whose rows are no multiples of 499, left out.
    for (name, expected) in [
        ("gpt2", [2, 0, 2, 2]),
        ("bloom-176b", [2, 0, 2, 2]),
        ("gpt-j-6b", [2, 0, 2, 2]),
        ("qwen3-8b", [4, 2, 4, 4]),
        ("olmo-2-7b", [4, 4, 4, 4]),
        ("gemma-2-9b", [2, 2, 2, 2]),
    ] {
        let work = Workload {
            autocast: true,
            ..Workload::train(1, 499)
        };
        let step = lower(&preset(name), &work).unwrap();
        let of = |phase, kind| -> u64 {
            let casts = items(&step, Role::Autocast).into_iter();
            let casts = casts.filter(|item| {
                let of_tokens = |op: Memory| op.kind == kind && op.rows.is_multiple_of(499);
                item.phase == phase && matches!(item.op, Op::Memory(op) if of_tokens(op))
            });
            casts.map(|item| item.count).sum::<u64>() / step.layers
        };
        let found = [
            of(Phase::Forward, MemoryKind::Downcast),
            of(Phase::Forward, MemoryKind::Upcast),
            of(Phase::Backward, MemoryKind::Downcast),
            of(Phase::Backward, MemoryKind::Upcast),
        ];
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn full_recomputation_casts_the_weights_of_layers_again() {
    let arch = preset("llama-3-8b");
    let work = Workload {
        autocast: true,
        recompute: Recompute::Full,
        ..Workload::train(1, 512)
    };
    let step = lower(&arch, &work).unwrap();
    let cast = |phase, cols| -> u64 {
        let casts = items(&step, Role::Autocast).into_iter();
        casts
            .filter(|item| item.phase == phase)
            .filter(|item| matches!(item.op, Op::Memory(op) if op.cols == cols))
            .map(|item| item.count)
            .sum()
    };
    // The down projection alone has this many inputs.
    assert_eq!(cast(Phase::Forward, 14336), 32);
    assert_eq!(cast(Phase::Recompute, 14336), 32);
}

#[test]
fn tensor_parallel_ranks_sum_the_embedding_in_the_format_of_the_residual_stream() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let arch = preset("llama-3-8b");
    let narrow = 512 * 4096 * 2;
    for (sequence_parallel, expected) in [
        (false, vec![(Phase::Forward, AllReduce, 1)]),
        (
            true,
            vec![(Phase::Backward, AllGather, 1), (Phase::Forward, ReduceScatter, 1)],
        ),
    ] {
        let sums = |autocast, bytes| -> Vec<(Phase, CollectiveKind, u64)> {
            let work = Workload {
                autocast,
                sequence_parallel,
                tp: 4,
                ..Workload::train(1, 512)
            };
            let step = lower(&arch, &work).unwrap();
            let sums = items(&step, Role::TensorParallel).into_iter();
            sums.filter_map(|item| match item.op {
                Op::Collective(op) if op.bytes == bytes => Some((item.phase, op.kind, item.count)),
                _ => None,
            })
            .collect()
        };
        let count = |sums: Vec<(_, _, u64)>| sums.iter().map(|(.., count)| count).sum::<u64>();
        assert_eq!(sums(true, 2 * narrow), expected);
        assert_eq!(sums(false, 2 * narrow), []);
        let embedding = expected.len() as u64;
        assert_eq!(count(sums(false, narrow)), count(sums(true, narrow)) + embedding);
    }
}

#[test]
fn labels_are_unique_per_operator_of_a_plain_model() {
    let step = lower(&preset("qwen3-8b"), &Workload::train(1, 512)).unwrap();
    let fused = [Role::Quantize, Role::GradientAccumulation];
    let kernels = step.items.iter().filter(|item| !fused.contains(&item.role));
    let mut labels: Vec<_> = kernels.map(Item::label).collect();
    assert!(labels.contains(&"qkv.grad_weight".to_owned()));
    assert!(labels.contains(&"attention.backward".to_owned()));
    labels.sort();
    assert!(labels.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn every_preset_lowers_in_every_mode() {
    for preset in Preset::all() {
        for mode in Mode::ALL {
            for attention in AttentionKernel::ALL {
                let work = Workload {
                    attention,
                    ..match mode {
                        Mode::Train => Workload::train(1, 512),
                        Mode::Prefill => Workload::prefill(1, 512),
                        Mode::Decode => Workload::decode(1, 511),
                    }
                };
                let beside_index = mode == Mode::Train || attention == AttentionKernel::Unfused;
                if beside_index && preset.architecture.index.is_some() {
                    continue;
                }
                let step = lower(&preset.architecture, &work).unwrap();
                assert!(step.items.iter().all(|item| item.count > 0));
            }
        }
    }
}

proptest! {
    #[test]
    fn tensor_parallelism_divides_the_gemms_and_backward_is_twice_forward(
        layers in 1u64..5,
        groups in 1u64..4,
        per_group in 1u64..4,
        head_dim in 1u64..33,
        width in 1u64..65,
        log_tp in 0u32..4,
        batch in 1u64..4,
        seq in 1u64..65,
        gated: bool,
        flash: bool,
    ) {
        let mut arch = preset(if gated { "llama-2-7b" } else { "pythia-1b" });
        arch.layers = layers;
        arch.kv_heads = 8 * groups;
        arch.heads = arch.kv_heads * per_group;
        arch.head_dim = 4 * head_dim;
        arch.hidden = 8 * width;
        arch.mlp.d_ff = 24 * width;
        arch.vocab = 1000;
        let work = Workload {
            attention: if flash { AttentionKernel::Flash } else { AttentionKernel::Unfused },
            ..Workload::train(batch, seq)
        };
        let tp = 1u64 << log_tp;
        let whole = gemm_flops(&lower(&arch, &work).unwrap(), |_| true);
        let step = lower(&arch, &Workload { tp, ..work }).unwrap();
        prop_assert!(close(gemm_flops(&step, |_| true) * tp as f64, whole));
        let forward = gemm_flops(&step, |item| item.phase == Phase::Forward);
        prop_assert!(close(gemm_flops(&step, |item| item.phase != Phase::Forward), 2.0 * forward));
    }
}

#[test]
fn context_ranks_share_attention_in_a_ring_and_windows_at_once() {
    let arch = preset("llama-3-8b");
    let split = |cp| Workload {
        cp,
        ..Workload::train(1, 8192)
    };
    let step = lower(&arch, &split(4)).unwrap();
    let (op, count) = attention(&step, Phase::Forward)[0];
    assert_eq!((op.seq_q, op.seq_kv, count), (2048, 2048, 32 * 4));
    let whole = lower(&arch, &split(1)).unwrap();
    let work = |step: &Step, phase| -> f64 {
        let all = attention(step, phase);
        let flops = all.iter().map(|(op, count)| op.flops().flops() * *count as f64);
        flops.sum()
    };
    for phase in [Phase::Forward, Phase::Backward] {
        let share = work(&whole, phase) / work(&step, phase);
        assert!((share - 4.0).abs() < 0.01, "{share}");
    }
    assert!(items(&whole, Role::AttentionMerge).is_empty());
    let merges = items(&step, Role::AttentionMerge);
    let cols = |op: &Op| match op {
        Op::Memory(op) => (op.rows, op.cols, op.dtype),
        _ => panic!("{op}"),
    };
    let found: Vec<_> = merges.iter().map(|item| (cols(&item.op), item.count)).collect();
    let gradients = 4096 + 2 * 1024;
    assert_eq!(
        found,
        [((2048, 4096, Dtype::Fp32), 128), ((2048, gradients, Dtype::Bf16), 128)]
    );

    let step = lower(&preset("gemma-2-9b"), &split(2)).unwrap();
    let calls = attention(&step, Phase::Forward);
    let shapes: Vec<_> = calls
        .iter()
        .map(|(op, count)| (op.seq_q, op.seq_kv, op.window, *count))
        .collect();
    assert_eq!(shapes, [(4096, 4096, 0, 2 * 21), (4096, 8192, 4096, 21)]);
}

#[test]
fn in_fp8_linear_maps_gather_one_byte_an_element() {
    let gathered = |name: &str, dtype| {
        let work = Workload {
            tp: 4,
            sequence_parallel: true,
            dtype,
            ..Workload::train(1, 4096)
        };
        let step = lower(&preset(name), &work).unwrap();
        let all = items(&step, Role::TensorParallel);
        let gathers = all.iter().filter_map(|item| match item.op {
            Op::Collective(op) if op.kind == CollectiveKind::AllGather => {
                Some((item.phase, op.bytes / (4096 * 4096), item.count))
            }
            _ => None,
        });
        gathers.collect::<Vec<_>>()
    };
    use Phase::{Backward, Forward};
    assert_eq!(
        gathered("llama-3-8b", Dtype::Bf16),
        [(Forward, 2, 65), (Backward, 2, 130)]
    );
    assert_eq!(
        gathered("llama-3-8b", Dtype::Fp8),
        [(Forward, 1, 64), (Forward, 2, 1), (Backward, 1, 128), (Backward, 2, 2)]
    );
    // Routers decide in 16 bits.
    assert_eq!(
        gathered("mixtral-8x7b", Dtype::Fp8)[..2],
        [(Forward, 1, 32), (Forward, 2, 33)]
    );
}
