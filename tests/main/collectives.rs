//! Collectives as the built-in nets answer them: tiers, bounds, growth with size and ranks.

use shapewise::arch::{Preset, Workload};
use shapewise::framework::{Engine, Kernels};
use shapewise::gpu::Gpu;
use shapewise::ops::{Collective, CollectiveKind, Op};
use shapewise::predict::Predictor;
use shapewise::predict::estimate::{Estimate, Tier};
use shapewise::predict::step::estimate_step;

fn asked(gpu: &str, ops: &[Collective]) -> Vec<Estimate> {
    asked_of(None, gpu, ops)
}

/// The same by the kernels of an engine.
fn asked_of(engine: Option<Engine>, gpu: &str, ops: &[Collective]) -> Vec<Estimate> {
    let predictor = Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap();
    let ops: Vec<Op> = ops.iter().copied().map(Op::Collective).collect();
    let kernels = Kernels {
        engine,
        ..Kernels::default()
    };
    predictor.predict_by(kernels, &ops)
}

#[test]
fn inside_a_node_collectives_are_learned_and_over_a_network_they_are_not() {
    let op = |ranks, stride| Collective {
        stride,
        ..Collective::new(CollectiveKind::AllReduce, 1 << 26, ranks)
    };
    let tier = |gpu, ranks, stride| asked(gpu, &[op(ranks, stride)])[0].tier;
    assert_eq!(tier("h100", 8, 1), Tier::Learned);
    assert_eq!(tier("h100", 16, 1), Tier::Roofline);
    assert_eq!(tier("h100", 2, 8), Tier::Roofline);
    assert_eq!(tier("gb200", 72, 1), Tier::Learned);
    assert_eq!(tier("gb200", 144, 1), Tier::Roofline);
    assert_eq!(tier("a100-40gb", 4, 1), Tier::Transferred);
    for unlike in ["a30", "mi300x"] {
        assert_eq!(tier(unlike, 4, 1), Tier::Roofline);
    }
    // NCCL's tables say 323 to 325 us.
    let large = Collective::new(CollectiveKind::AllReduce, 1 << 26, 8);
    let micros = asked("h100", &[large])[0].time.micros();
    assert!((290.0..360.0).contains(&micros), "{micros}");
}

/// Eight H200 sum 16 KiB in 18 us by NCCL, in 3.5 to 5.2 us by kernels of engines, whose tables agree with NCCL's from 128 MiB on
/// (ai-dynamo/aiconfigurator).
#[test]
fn engines_sum_small_messages_by_kernels_of_their_own() {
    let of = |engine, bytes| {
        let op = Collective::new(CollectiveKind::AllReduce, bytes, 8);
        let estimate = asked_of(engine, "h200", &[op])[0];
        assert_eq!(estimate.tier, Tier::Learned);
        estimate.time
    };
    let engines = Engine::ALL.map(Some);
    for engine in engines {
        let small = of(None, 1 << 14) / of(engine, 1 << 14);
        assert!((2.5..6.0).contains(&small), "{engine:?}: {small}");
        let large = of(None, 1 << 29) / of(engine, 1 << 29);
        assert!((0.9..1.1).contains(&large), "{engine:?}: {large}");
    }
}

/// TensorRT-LLM's all-to-alls were timed on GB200, SGLang's on nodes of eight.
#[test]
fn an_engine_answers_for_the_gpus_where_it_was_timed_and_nccl_for_others() {
    let of = |engine, gpu| {
        let op = Collective::new(CollectiveKind::AllToAll, 1 << 20, 4);
        asked_of(engine, gpu, &[op])[0]
    };
    for (engine, gpu, is_nccl) in [
        (Engine::Trtllm, "gb200", false),
        (Engine::Trtllm, "h200", true),
        (Engine::Sglang, "h200", false),
        (Engine::Vllm, "b200", false),
        (Engine::Sglang, "gb200", true),
        (Engine::Vllm, "a100", true),
    ] {
        let (own, nccl) = (of(Some(engine), gpu), of(None, gpu));
        assert_eq!(own.time == nccl.time, is_nccl, "{engine} on {gpu}");
    }
}

#[test]
fn no_collective_is_faster_than_its_link_and_few_fall_as_their_size_grows() {
    let mut falls = 0;
    let mut steps = 0;
    let gpus = ["a100", "h100", "h200", "b200", "b300", "gb200", "gb300", "l40s"];
    let engines = std::iter::once(None).chain(Engine::ALL.map(Some));
    for (engine, name) in engines.flat_map(|engine| gpus.map(|name| (engine, name))) {
        let gpu = Gpu::find(name).unwrap();
        let link = gpu.link_bandwidth().unwrap();
        for kind in CollectiveKind::ALL {
            for ranks in [2, 4, 8] {
                let sizes = (36..140).map(|quarter| 2f64.powf(f64::from(quarter) / 4.0) as u64);
                let ops: Vec<_> = sizes.map(|bytes| Collective::new(kind, bytes, ranks)).collect();
                let times = asked_of(engine, name, &ops);
                for (op, each) in ops.iter().zip(&times) {
                    let once = match kind {
                        CollectiveKind::AllReduce => op.bytes as f64,
                        _ => op.wire_bytes().bytes(),
                    };
                    let least = once / link.bytes_per_sec();
                    assert!(each.time.secs() >= 0.999 * least, "{op} on {name}");
                }
                // A doubling is four steps.
                for (one, two) in times.iter().zip(&times[4..]) {
                    steps += 1;
                    falls += usize::from(two.time / one.time < 0.95);
                }
            }
        }
    }
    // 929 of 48,000.
    assert!(falls * 100 < 2 * steps, "{falls} of {steps}");
}

#[test]
fn a_step_over_more_nodes_is_no_cliff() {
    let predictor = Predictor::new(Gpu::find("h100").unwrap(), None).unwrap();
    let arch = &Preset::find("llama-3-8b").unwrap().architecture;
    let time = |dp| {
        let work = Workload {
            dp,
            zero: 3,
            ..Workload::train(1, 8192)
        };
        let step = estimate_step(&predictor, arch, &work).unwrap();
        assert!(dp > 8 || step.tier_shares.0[Tier::Roofline as usize] < 0.2);
        step.time
    };
    let (node, two, many) = (time(8), time(16), time(512));
    assert!((0.95..1.2).contains(&(two / node)), "{}", two / node);
    assert!((0.95..1.3).contains(&(many / two)), "{}", many / two);
}
