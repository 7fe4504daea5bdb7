//! No answer is faster than physics, whatever is asked: random operators of all families on every GPU.

use shapewise::arch::{Architecture, Dimension, Mode, Preset, Workload};
use shapewise::families::GpuRates;
use shapewise::gpu::Gpu;
use shapewise::ops::{
    Attention, Dtype, Experts, Gemm, IndexedAttention, Layout, LinearAttention, Memory, MemoryKind, Op, Pass,
    Recurrence, RouterLoad,
};
use shapewise::plan::{Limits, Query, serve};
use shapewise::predict::Predictor;
use shapewise::predict::estimate::{Caveat, Tier};
use shapewise::predict::step::estimate_step;
use shapewise::random::Random;
use shapewise::units::Seconds;

/// Operators on all GPUs together.
const OPERATORS: usize = 100_000;

/// Log-uniform from 1 to `most`, half the time a multiple of 64.
fn size(random: &mut Random, most: f64) -> u64 {
    let size = most.powf(random.uniform()) as u64;
    if random.uniform() < 0.5 {
        size.next_multiple_of(64)
    } else {
        size.max(1)
    }
}

fn operator(random: &mut Random) -> Op {
    let dtype = random.pick(&Dtype::ELEMENTS);
    match random.below(7) {
        0 | 1 => Op::Gemm(Gemm {
            batch: random.pick(&[1, 1, 1, 96]),
            layout: random.pick(&Layout::ALL),
            dtype: random.pick(&Dtype::ALL),
            ..Gemm::new(
                size(random, 262_144.0),
                size(random, 131_072.0),
                size(random, 131_072.0),
            )
        }),
        2 => {
            let kv_heads = random.pick(&[1, 3, 7, 8, 12, 25, 32]);
            let seq_kv = size(random, 262_144.0);
            let chunk = size(random, seq_kv as f64).min(seq_kv);
            Op::Attention(Attention {
                kv_heads,
                seq_q: random.pick(&[1, seq_kv, seq_kv, chunk]),
                causal: random.uniform() < 0.7,
                window: random.pick(&[0, 0, 1, 2, 64, 1024]),
                pass: random.pick(&Pass::ALL),
                dtype,
                ..Attention::new(
                    size(random, 512.0),
                    kv_heads * random.pick(&[1, 3, 4, 8]),
                    seq_kv,
                    random.pick(&[16, 64, 72, 80, 96, 128, 160, 192, 256, 512]),
                )
            })
        }
        3 => {
            let key_heads = random.pick(&[1, 2, 8, 16]);
            let seq = size(random, 262_144.0);
            Op::LinearAttention(LinearAttention {
                kind: random.pick(&Recurrence::ALL),
                head_dim: random.pick(&[64, 128, 256]),
                value_dim: random.pick(&[64, 128, 256]),
                pass: random.pick(&Pass::ALL),
                dtype,
                ..LinearAttention::new(
                    size(random, 1024.0),
                    key_heads,
                    key_heads * random.pick(&[1, 2, 4, 16]),
                    random.pick(&[1, seq]),
                )
            })
        }
        4 => {
            let experts = random.pick(&[8, 64, 256, 512]);
            Op::Experts(Experts {
                width_shards: random.pick(&[1, 1, 4, 8]),
                expert_shards: random.pick(&[1, 1, 4, 8]),
                gated: random.uniform() < 0.8,
                load: random.pick(&RouterLoad::ALL),
                dtype: random.pick(&Dtype::ALL),
                ..Experts::new(
                    size(random, 65_536.0),
                    64 * size(random, 128.0),
                    64 * size(random, 256.0),
                    experts,
                    random.pick(&[1, 2, 8]),
                )
            })
        }
        5 => {
            let chunk = size(random, 32_768.0);
            Op::IndexedAttention(IndexedAttention {
                index_heads: random.pick(&[0, 32, 64]),
                cache_dtype: random.pick(&[Dtype::Bf16, Dtype::Fp8]),
                dtype: random.pick(&Dtype::ALL),
                ..IndexedAttention::deepseek(
                    size(random, 1024.0),
                    random.pick(&[1, 8, 16, 24, 64, 128]),
                    random.pick(&[1, chunk]),
                    size(random, 1_048_576.0),
                )
            })
        }
        _ => Op::Memory(Memory {
            kind: random.pick(&MemoryKind::ALL),
            rows: size(random, 262_144.0),
            cols: size(random, 131_072.0),
            pass: random.pick(&Pass::ALL),
            dtype,
        }),
    }
}

#[test]
fn no_answer_and_no_end_of_an_interval_is_faster_than_peak_or_compulsory_traffic() {
    let gpus = Gpu::all();
    let mut random = Random::seeded(11);
    for gpu in gpus {
        let predictor = Predictor::new(gpu, None).unwrap();
        let rates = GpuRates::new(gpu, gpu.launch_floor());
        let ops: Vec<Op> = (0..OPERATORS.div_ceil(gpus.len()))
            .map(|_| operator(&mut random))
            .collect();
        for (op, estimate) in ops.iter().zip(predictor.predict(&ops)) {
            let peak = op.flops() / gpu.greatest_peak(op.dtype().unwrap());
            let beyond_l2 = (op.bytes().bytes() - gpu.l2().bytes()).max(0.0);
            let traffic = beyond_l2 / gpu.bandwidth().bytes_per_sec();
            let least = peak.secs().max(traffic);
            assert!((rates.least(op).secs() / least.max(1e-30) - 1.0).abs() < 1e-9 || least == 0.0);
            for time in [estimate.low(), estimate.time, estimate.high()] {
                assert!(
                    time.secs().is_finite() && time.secs() >= least * (1.0 - 1e-9),
                    "{}: {op}: {time} of at least {least} s",
                    gpu.name
                );
            }
            assert!(estimate.low() <= estimate.time && estimate.time <= estimate.high());
            assert!(
                estimate.tier != Tier::Learned || estimate.caveats.iter().count() == 0,
                "{}: {op}",
                gpu.name
            );
        }
    }
}

/// Steps on all GPUs together.
const STEPS: usize = 600;

#[test]
fn no_step_and_no_latency_of_a_server_is_faster_than_its_matrix_kernels_allow() {
    let presets: Vec<&Preset> = Preset::all().iter().collect();
    let mut random = Random::seeded(12);
    let (mut steps, mut engines) = (0, 0);
    for gpu in Gpu::all() {
        let predictor = Predictor::new(gpu, None).unwrap();
        let rates = GpuRates::new(gpu, gpu.launch_floor());
        for _ in 0..STEPS.div_ceil(Gpu::all().len()) {
            let arch = &random.pick(&presets).architecture;
            let (batch, seq) = (size(&mut random, 64.0), size(&mut random, 2048.0));
            let work = match random.below(3) {
                0 => Workload::train(batch, seq),
                1 => Workload::prefill(batch, seq),
                _ => Workload::decode(batch, seq),
            };
            let work = Workload {
                dtype: random.pick(&[Dtype::Bf16, Dtype::Fp8]),
                ..work
            };
            let Ok(step) = estimate_step(&predictor, arch, &work) else {
                continue;
            };
            let kernels = step.lines.iter().filter(|line| !matches!(line.item.op, Op::Memory(_)));
            let least: f64 = kernels
                .map(|line| rates.least(&line.item.op).secs() * line.item.count as f64)
                .sum();
            let name = format!("{} {}: {work:?}", gpu.name, arch.name);
            assert!(step.low.secs() >= least * (1.0 - 1e-9), "{name}: {} {least}", step.low);
            assert!(step.low <= step.time && step.time <= step.high, "{name}");
            steps += 1;
            if work.mode != Mode::Decode {
                continue;
            }
            let query = Query {
                gpus: 1,
                global_batch: 1,
                workload: Workload { batch: 1, ..work },
                kept: vec![(Dimension::Batch, batch)],
                zero: None,
                recompute: None,
                offloads: Vec::new(),
                memory_share: 0.9,
                top: 1,
            };
            let limits = Limits {
                prompt: seq,
                cached: 0,
                output: 2,
                concurrency: None,
                first_token: None,
                token: Some(Seconds::from_secs(least * 0.99)),
                confidence: 0.0,
            };
            let Ok(served) = serve(&predictor, arch, &query, &limits) else {
                continue;
            };
            for engine in served.engines {
                let [low, high] = engine.ends[1].unwrap();
                let token = engine.token.unwrap();
                assert!(low <= token && token <= high, "{name}");
                // The cache holds half of what is generated beside the prompt.
                assert!(low.secs() >= least * (1.0 - 1e-9), "{name}: {low} {least}");
                assert!(engine.kept[1] == Some(0.0) || least == 0.0, "{name}: {:?}", engine.kept);
                let [_, most] = engine.tokens_per_s_ends.unwrap();
                assert!(most <= batch as f64 / least, "{name}: {most}");
                engines += 1;
            }
        }
    }
    assert!(steps > STEPS / 2 && engines > 20, "{steps} {engines}");
}

/// Reading the weights of Qwen3-32B takes 240 ms at the 273 GB/s of a GB10, those of Llama-3-8B 53 ms at the 300 GB/s of an L4.
#[test]
fn an_interval_ends_where_the_weights_are_read_at_the_bandwidth_of_the_memory() {
    for (gpu, model, least_ms) in [("gb10", "qwen3-32b", 232.0), ("l4", "llama-3-8b", 49.8)] {
        let arch = Architecture::find(model).unwrap();
        let predictor = Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap();
        let step = estimate_step(&predictor, &arch, &Workload::decode(1, 2048)).unwrap();
        assert!(step.low.secs() > least_ms * 1e-3, "{gpu}: {}", step.low);
    }
}

#[test]
fn a_long_prefill_is_extrapolated_by_its_flops_and_says_so() {
    let gpu = Gpu::find("h100").unwrap();
    let predictor = Predictor::new(gpu, None).unwrap();
    let of = |seq| {
        let op = Attention {
            kv_heads: 8,
            ..Attention::new(1, 32, seq, 128)
        };
        (op, predictor.predict(&[Op::Attention(op)])[0])
    };
    let (short, at_16k) = of(16_384);
    let (long, at_128k) = of(131_072);
    let rate = |op: Attention, time| op.flops() / time;
    let change = rate(long, at_128k.time) / rate(short, at_16k.time);
    assert!((0.95..1.1).contains(&change), "{change}");
    assert_eq!((at_16k.tier, at_128k.tier), (Tier::Learned, Tier::Transferred));
    assert!(at_128k.caveats.contains(Caveat::OutOfDomain));
    assert!(at_128k.high() / at_128k.low() < 1.5);
}

#[test]
fn few_rows_of_a_gemm_on_a_sparse_table_are_answered_by_a_dense_one() {
    for name in ["a100-40gb", "a30"] {
        let gpu = Gpu::find(name).unwrap();
        let predictor = Predictor::new(gpu, None).unwrap();
        let dtype = Dtype::Fp16;
        let gemms = [16, 4096].map(|m| {
            Op::Gemm(Gemm {
                dtype,
                ..Gemm::new(m, 16_384, 8192)
            })
        });
        let few = predictor.predict(&gemms)[0];
        let traffic = gemms[0].bytes() / gpu.bandwidth();
        assert!((1.0..1.6).contains(&(few.time / traffic)), "{name}");
        assert!(few.caveats.contains(Caveat::OtherGpu) && few.tier == Tier::Transferred);
        assert!(!few.caveats.contains(Caveat::Physics));
    }
}
