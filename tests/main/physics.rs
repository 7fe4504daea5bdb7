//! No answer is faster than physics, whatever is asked: random operators of all families on every GPU.

use shapewise::families::GpuRates;
use shapewise::gpu::Gpu;
use shapewise::ops::{
    Attention, Dtype, Experts, Gemm, IndexedAttention, Layout, LinearAttention, Memory, MemoryKind, Op, Pass,
    Recurrence, RouterLoad,
};
use shapewise::predict::Predictor;
use shapewise::predict::estimate::{Caveat, Tier};
use shapewise::random::Random;

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
            let peak = op.flops() / gpu.nearest_peak(op.dtype().unwrap());
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
