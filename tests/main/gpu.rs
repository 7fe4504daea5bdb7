//! The CUDA device on a real GPU, where `SHAPEWISE_GPU` says which: every path is checked, and what
//! `docs/gpu-log.md` asks is printed.

use shapewise::measure::cuda::{self, CudaDevice};
use shapewise::measure::device::{Cache, Case, Device};
use shapewise::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use shapewise::units::Seconds;
use std::time::{Duration, Instant};

/// What timing one case by hand gave.
struct Timed {
    set_up: Duration,
    eager: Seconds,
    chained: Seconds,
    clock_mhz: f64,
}

fn square(size: u64, dtype: Dtype) -> Op {
    Op::Gemm(Gemm::square(size, Layout::Tn, dtype))
}

fn attention(pass: Pass, seq: u64) -> Op {
    Op::Attention(Attention {
        kv_heads: 8,
        pass,
        ..Attention::new(1, 64, seq, 128)
    })
}

fn copy(bytes: u64) -> Op {
    let (kind, pass, dtype, cols) = (MemoryKind::Copy, Pass::Forward, Dtype::Bf16, 4096);
    let rows = bytes / cols / dtype.size();
    Op::Memory(Memory {
        kind,
        rows,
        cols,
        pass,
        dtype,
    })
}

fn timed(device: &mut CudaDevice, op: Op, cache: Cache) -> Timed {
    let begin = Instant::now();
    let mut chain = device
        .open(&Case {
            cache,
            ..Case::cold(op)
        })
        .unwrap();
    chain.trial().unwrap();
    let eager = chain.trial().unwrap();
    let calls = (1e-3 / eager.secs()).ceil().clamp(1.0, 64.0) as u32;
    chain.record(calls).unwrap();
    let set_up = begin.elapsed();
    chain.replay().unwrap();
    let mut replays: Vec<_> = (0..11).map(|_| chain.replay().unwrap()).collect();
    replays.sort_by(|a, b| a.elapsed.secs().total_cmp(&b.elapsed.secs()));
    Timed {
        set_up,
        eager,
        chained: replays[5].elapsed / f64::from(calls),
        clock_mhz: replays[5]
            .clock
            .map_or(f64::NAN, |clock| clock.hertz() / 1e6),
    }
}

#[test]
fn a_real_gpu_passes_its_checks_and_answers_the_log() {
    let Some(index) = std::env::var_os("SHAPEWISE_GPU") else {
        eprintln!("skipped: SHAPEWISE_GPU names no GPU");
        return;
    };
    let index = index
        .to_str()
        .and_then(|index| index.parse().ok())
        .expect("the number of a GPU");
    println!("devices: {:?}", cuda::devices().unwrap());
    let mut device = cuda::open(index).unwrap();
    println!("{:#?}", device.identity());
    let begin = Instant::now();
    let checked = device.check().unwrap();
    let wrong: Vec<_> = checked
        .iter()
        .filter(|path| path.error > path.allowed)
        .collect();
    println!(
        "{} paths checked in {:.1?}, wrong: {wrong:#?}",
        checked.len(),
        begin.elapsed()
    );
    let slack = checked.iter().map(|path| path.error / path.allowed);
    println!(
        "the worst at {:.3} of what is allowed",
        slack.fold(0.0, f64::max)
    );
    println!("before the soak: {:?}", device.sensors());
    device.soak(Duration::from_secs(5)).unwrap();
    println!("after the soak: {:?}", device.sensors());
    println!("| operator | cache | set-up ms | alone us | in a chain us | TFLOP/s | GB/s | MHz |");
    println!("| --- | --- | --: | --: | --: | --: | --: | --: |");
    let mut operators = Vec::new();
    for size in [256, 1024, 4096, 8192] {
        operators.push(square(size, Dtype::Bf16));
    }
    operators.extend([Dtype::Fp16, Dtype::Tf32, Dtype::Fp8].map(|dtype| square(8192, dtype)));
    for seq in [2048, 8192] {
        operators.extend([
            attention(Pass::Forward, seq),
            attention(Pass::Backward, seq),
        ]);
    }
    operators.extend([1 << 20, 64 << 20, 1 << 30].map(copy));
    for op in operators {
        for cache in [Cache::Cold, Cache::Hot] {
            let case = Case {
                cache,
                ..Case::cold(op)
            };
            if let Some(reason) = device.refuses(&case) {
                println!("| {op} | {cache:?} | {reason} |");
                continue;
            }
            let timed = timed(&mut device, op, cache);
            let seconds = timed.chained.secs();
            println!(
                "| {op} | {cache:?} | {:.2} | {:.2} | {:.2} | {:.1} | {:.0} | {:.0} |",
                timed.set_up.as_secs_f64() * 1e3,
                timed.eager.micros(),
                timed.chained.micros(),
                op.flops().flops() / seconds * 1e-12,
                op.bytes().bytes() / seconds * 1e-9,
                timed.clock_mhz
            );
        }
    }
    println!("at the end: {:?}", device.sensors());
    assert!(wrong.is_empty() && !checked.is_empty());
}
