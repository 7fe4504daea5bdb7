//! What is assumed where nothing was measured: figures with their source, and widths that are assumptions.
//!
//! Uncertainties are half widths of a 90 % interval of `ln(time)`. They widen an interval; they are not
//! calibrated, because there are no measurements to calibrate them on.

use crate::families::{self, Module};
use crate::gpu::{Generation, Gpu};
use crate::ops::{Attention, Collective, Dtype, Op, Pass};
use crate::predict::collective::{NETWORK_HALF_WIDTH, Traffic};
use crate::predict::estimate::{Caveat, Caveats, Estimate, Tier};
use crate::regressor::artifact::Key;
use crate::units::{Bytes, Flops, FlopsPerSecond, Seconds};

/// The logarithm of the greatest penalty that is carried over: odd sizes cost up to 3.4 times on A100
/// (the co-design paper's vocabulary sweep), a few more for the smallest heads.
pub const GREATEST_CORRECTION: f64 = 1.8;

/// The greatest logarithm of a time over its reference, and of the width of an interval: trained nets stay below 10.
pub const GREATEST_OUTPUT: f64 = 20.0;

/// Repeating a measurement in one table: 0.7 % median, 2 to 3 % at the 90th percentile (aiconfigurator tables).
pub const MEASURED: f64 = 0.025;

/// What all operators of a model share on one stack: two builds of one library differ by 1 % in the median.
pub const STACK: f64 = 0.01;

/// Half width that one caveat adds; where no source is named, it is an assumption.
pub(super) const fn half_width(caveat: Caveat) -> f64 {
    match caveat {
        // An assumption: features are clipped beyond the training shapes, so errors grow slowly.
        Caveat::OutOfDomain => 0.10,
        // By how far the GPUs are apart, see `other_gpu`.
        Caveat::OtherGpu => 0.0,
        // An assumption: formats of one width run the same kernels.
        Caveat::OtherDtype => 0.10,
        // Nine in ten are off by less than 0.40 to 0.68 where fp8 attention is predicted from bf16 (H100, B200), by 0.35
        // to 0.57 where fp32 GEMMs are (H100; NeuSight's tables).
        Caveat::OtherWidth => 0.55,
        // cuBLAS picks other kernels per layout; single-digit percent on large GEMMs.
        Caveat::OtherLayout => 0.08,
        // Odd sizes of sweeps that no net saw are 16 to 38 % slower than predicted on the GPU of the sweeps itself.
        Caveat::Alignment => 0.40,
        // An assumption, below the 3.4 times that odd sizes cost at most where they were measured.
        Caveat::AlignmentUnknown => 0.60,
        // An assumption.
        Caveat::Batched => 0.20,
        // An assumption: the features count what the tile of a head adds.
        Caveat::HeadSize => 0.15,
        // One run was published, see `SCORE_BANDWIDTH`; kernel by kernel with a mask of its own it is another 1.5 times.
        Caveat::Unfused => 0.60,
        // An assumption: the features count the tiles that a mask leaves.
        Caveat::Mask => 0.10,
        // An assumption; steps that verify three drafts are known from a few published runs alone (docs/method/serving.md).
        Caveat::FewQueries => 0.20,
        // Where both were timed, nine in ten are within 0.2 for windows of 1,024 keys and more, 0.7 for 128 keys.
        Caveat::Window => 0.50,
        // The width of the ratio itself is fitted, see `ratios`.
        Caveat::BackwardFromForward | Caveat::TrainedFromServed => 0.0,
        // Of as many heads and tokens, Kimi Delta Attention (SGLang) takes 1.0 to 10 times Gated DeltaNet (vLLM) over
        // sequences, 1.0 to 1.8 times in decoding steps, in nine cases of ten on eight GPUs (aiconfigurator).
        Caveat::OtherRecurrence => 2.2,
        Caveat::OtherRecurrenceDecode => 0.60,
        // By the generation, see `ratio_of_recurrences`.
        Caveat::RatioOfRecurrences => 0.0,
        // By these modules 58 first tokens of GLM-5 that SGLang publishes on B200 and H200 take 2.4 times as long in the mean, nine in
        // ten at most 4.4 times (InferenceMAX).
        Caveat::TimedWithHost => 1.0,
        // Fitted, see `laws` and `scope`.
        Caveat::OtherProvider => 0.0,
        // Nine in ten are off by less than 0.19 (Marlin on A100, seven models) to 0.39 (Hopper, four) of a model kept out.
        Caveat::OtherLayer => 0.40,
        // Three shapes of two kernels lie within 0.12; that others lie within 0.50 is an assumption.
        Caveat::BackwardAssumed => 0.50,
        // An assumption: kernels reach 0.8 of a peak, see `REACHABLE_PEAK`, and these nets are far outside their table.
        Caveat::Physics => 0.30,
        // An assumption.
        Caveat::NotLearned => 0.30,
        // Levels of boards and formats with runs differ by up to 15 % from those of their neighbours (GB300 in fp8, GB200 in
        // nvfp4).
        Caveat::UnseenGpu => 0.20,
        Caveat::UnseenFormat => 0.15,
        // What steps with adapters lack in nine of ten published settings on A100, see docs/method/steps.md.
        Caveat::Adapters => 0.25,
        // Nine in ten of 12 published speedups by drafts are within 0.20 of what is predicted with three, see docs/method/serving.md.
        Caveat::Drafts => 0.20,
        // Nine in ten of 16 published settings on L40 and RTX 4090 are less than 0.70 faster than predicted, see the same page.
        Caveat::AdaptersOnAda => 0.70,
        // FSDP2 at 32 to 256 thousand tokens is 10 % too slow to 18 % too fast; attention kernels of releases differ by 2.2.
        Caveat::UnseenLength => 0.25,
        // A collective of DeepSeek-V3 over two nodes takes 109 to 210 us more than inside one
        // (tenstorrent/tt-inference-server, issue 356).
        Caveat::UnseenNodes => 0.35,
        // An assumption: a third to three times the time; of four published hosts one is outside, at a fifth of the rate.
        Caveat::Offload => 1.10,
    }
}

/// Half width that learning on another GPU adds: of equal GPUs, for each e-fold between peaks and bandwidths, and for
/// another maker. Quantile regression at 90 % over leave-one-GPU-out errors (docs/method/intervals.md).
const EQUAL_GPUS: f64 = 0.14;
const PER_E_FOLD: f64 = 0.30;
const OTHER_VENDOR: f64 = 0.60;

/// The same of a model of all GPUs: its error on GPUs that it did not see.
const ANY_OTHER_GPU: f64 = 0.30;

/// The same of GEMMs that wait for weights alone, on GPUs of one maker: with each of ten GPUs left out, nine in ten are off by less
/// than 0.07 to 0.32, and by 0.54 on another maker's (docs/method/intervals.md).
const WAITING_FOR_WEIGHTS: f64 = 0.32;

/// Half widths that learning on the GPU of a sub-model adds to an answer for `gpu`: of any operator, and of a GEMM that waits
/// for weights alone.
pub fn other_gpu(gpu: &Gpu, known: &Key) -> [f64; 2] {
    if known.gpu == gpu.name {
        return [0.0; 2];
    }
    let Ok(other) = Gpu::find(&known.gpu) else {
        return [ANY_OTHER_GPU; 2];
    };
    let dtype = known.variant.dtype().unwrap_or(Dtype::Bf16);
    let peaks = (gpu.nearest_peak(dtype) / other.nearest_peak(dtype)).ln();
    let bandwidths = (gpu.bandwidth() / other.bandwidth()).ln();
    let maker = if gpu.vendor == other.vendor { 0.0 } else { OTHER_VENDOR };
    let any = EQUAL_GPUS + PER_E_FOLD * (peaks.abs() + bandwidths.abs()) + maker;
    [any, any.min(WAITING_FOR_WEIGHTS + maker)]
}

/// Rates of short bursts over the best sustained ones: the fastest bf16 GEMMs of public tables of A100, H100, H200, B300, GB200 and MI355X over
/// what ml-engineering sustains there, 1.02 to 1.075 (docs/method/intervals.md).
const BURST: f64 = 1.08;

/// The share of the rated peak that half-rate units reach in large GEMMs: the median of 15 GPUs (GeForce 30, 40 and 50, L20) at 8192^3 in bf16,
/// 0.91 to 1.12 (zzc0721/torch-performance-test-data). Their power holds them at no size, and clocks exceed the rated one.
const HALF_UNITS_REACH: f64 = 1.03;

/// The fastest arithmetic of a format of a GPU without timed kernels; `None` if no sustained rate was published.
pub fn reachable_peak(gpu: &Gpu, dtype: Dtype) -> Option<FlopsPerSecond> {
    match dtype {
        dtype if gpu.has_half_units(dtype) => Some(gpu.nearest_peak(dtype) * HALF_UNITS_REACH),
        Dtype::Bf16 | Dtype::Fp16 => gpu.reachable_peak().map(|sustained| sustained * BURST),
        _ => None,
    }
}

/// The same of one format where a net of another answers that runs on half-rate units, which say nothing of those of this one.
pub fn reachable_of_another(gpu: &Gpu, known: Dtype, asked: Dtype) -> Option<FlopsPerSecond> {
    gpu.has_half_units(known)
        .then(|| gpu.nearest_peak(asked) * REACHABLE_PEAK)
}

/// The share of its peak that the best sustained arithmetic in 16 bits of a GPU reaches, where that was published.
fn reachable_share(gpu: &Gpu) -> Option<f64> {
    Some(gpu.reachable_peak()? / gpu.peak(Dtype::Bf16)?)
}

/// A GPU reaches more than this share of its peak where its matrix units are held below their clock, as H20's are (0.95); all others
/// with a published rate and whole units reach 0.51 to 0.87.
const HELD_UNITS: f64 = 0.9;

/// By which the peaks of a GPU are multiplied before nets that saw another one are asked, so that the share of the peak that
/// they learned there makes the rate that this GPU reaches. 1 for GPUs that reach no more than 0.9 of it: there it does not help (docs/method/intervals.md).
pub fn peaks_of_held_units(gpu: &Gpu, known: &Key) -> f64 {
    let dtype = known.variant.dtype().unwrap_or(Dtype::Bf16);
    let share = match gpu.has_half_units(dtype) {
        true => Some(HALF_UNITS_REACH),
        false => reachable_share(gpu).filter(|share| *share > HELD_UNITS),
    };
    share.map_or(1.0, |share| {
        let other = Gpu::find(&known.gpu).ok();
        share / other.and_then(reachable_share).unwrap_or(REACHABLE_PEAK)
    })
}

/// Half width of the time of Mamba-2 over that of Kimi Delta Attention. On an H100 four published lengths are off by up to 0.10;
/// the ratio of Triton's Gated DeltaNet to it is 0.07 off H200's there, 0.12 to 0.18 on other generations in the median
/// (aiconfigurator).
pub fn ratio_of_recurrences(generation: Generation) -> f64 {
    match generation {
        Generation::Hopper => 0.15,
        _ => 0.40,
    }
}

/// The half width of all caveats together, taken as independent.
pub fn uncertainty(caveats: Caveats) -> f64 {
    caveats
        .iter()
        .map(|caveat| half_width(caveat).powi(2))
        .sum::<f64>()
        .sqrt()
}

/// Whether any caveat says that the number was carried over from something else.
pub fn is_transfer(caveats: Caveats) -> bool {
    caveats != Caveats::default()
}

/// Time of one hop between GPUs before the first byte arrives; 10 us is aiconfigurator's constant for NVLink nodes.
const LINK_LATENCY: Seconds = Seconds::from_micros(10.0);

/// Share of the dense peak that the best GEMMs reach: 0.78 to 0.87 on A100, H100 and B200 (ml-engineering,
/// compute/accelerator).
const REACHABLE_PEAK: f64 = 0.8;

/// What a step waits for where it offloads to the host.
pub fn offload(time: Seconds) -> Estimate {
    unlearned(time, Caveat::Offload)
}

/// A time that follows from bandwidths and peaks alone.
fn unlearned(time: Seconds, caveat: Caveat) -> Estimate {
    let mut caveats = Caveats::default();
    caveats.insert(caveat);
    let half_width = half_width(caveat);
    Estimate {
        time,
        half_width,
        shared: half_width,
        least: Seconds::ZERO,
        tier: Tier::Roofline,
        caveats,
    }
}

/// Launch term plus the longer of arithmetic and traffic over the bandwidth that streaming kernels reach; collectives over their
/// link, without what a network adds: frameworks count that in constants of their own.
pub fn roofline(gpu: &Gpu, op: &Op) -> Estimate {
    let kernel = |bytes: Bytes, flops: Flops, dtype: Dtype| {
        let peak = gpu.nearest_peak(dtype) * REACHABLE_PEAK;
        (bytes / gpu.reachable_bandwidth()).max(flops / peak)
    };
    let module = families::module(op);
    let time = match (op, &module) {
        (Op::Collective(collective), _) => collective_time(gpu, collective),
        (Op::Attention(attention), _) if attention.is_decode() => {
            let reached = match gpu.generation {
                Generation::Volta | Generation::Turing | Generation::Ampere | Generation::Cdna2 => OLD_DECODE,
                _ => 1.0,
            };
            DECODE_START
                + decode_blocks(gpu, attention)
                + kernel(op.bytes(), op.flops(), attention.dtype) * (1.0 / reached)
        }
        // Elementwise arithmetic is far below the matrix peak; traffic decides.
        (Op::Memory(_), _) => gpu.launch_floor() + op.bytes() / gpu.reachable_bandwidth(),
        (_, Some(Module { launches, stages })) => {
            let stages = stages.iter().map(|stage| kernel(stage.bytes, stage.flops, stage.dtype));
            gpu.launch_floor() * *launches + stages.sum::<Seconds>()
        }
        (op, None) => gpu.launch_floor() + kernel(op.bytes(), op.flops(), op.dtype().unwrap_or_default()),
    };
    let estimate = unlearned(time, Caveat::NotLearned);
    match module {
        None if matches!(op, Op::Attention(op) if op.is_decode()) => estimate.widened(DECODE),
        // Equal modules of three engines are 0.1 to 10 times as fast as each other (`data/other_stacks.toml`).
        Some(_) => estimate.widened(GUESS),
        None => estimate,
    }
}

/// A decoding step of attention without a table takes this, and more for each key head of a sequence on each multiprocessor, beside reading
/// its cache. Fitted to 25 tables of nine GPUs and three engines, each GPU kept out: the median error is 9 to 25 % in 18 of them, up to 57 %
/// where the cache of one layer stays in L2; nine in ten rows are off by less than 0.28 to 0.96 in all but two (aiconfigurator).
const DECODE_START: Seconds = Seconds::from_micros(10.0);
const DECODE_BLOCK: Seconds = Seconds::from_micros(2.0);
const DECODE: f64 = 0.60;
/// The share of that rate on generations before Ada: SGLang reads caches on A100 at 0.46 of the bandwidth, vLLM at 0.64.
const OLD_DECODE: f64 = 0.65;

fn decode_blocks(gpu: &Gpu, op: &Attention) -> Seconds {
    DECODE_BLOCK * (op.batch as f64 * op.kv_heads as f64 / gpu.sm_count() as f64)
}

/// Half width of a time from bandwidths and peaks alone. An assumption: 0.2 to 4.5 times it.
pub const GUESS: f64 = 1.5;

/// The time of nets whose interval is wider than [`GUESS`], drawn to the roofline: of the logarithm of their ratio the nets keep
/// the square of [`GUESS`] over the square of their own half width.
pub fn towards_roofline(gpu: &Gpu, op: &Op, time: Seconds, half_width: f64) -> Seconds {
    let known = roofline(gpu, op).time;
    time * (known / time).powf(1.0 - (GUESS / half_width).powi(2))
}

/// Times that unfused attention writes or reads its scores: forward both GEMMs and a softmax that reads and writes, backward
/// the gradients of both operands of both GEMMs and of the softmax.
const SCORE_PASSES: [f64; 2] = [4.0, 7.0];

/// Share of the bandwidth of streaming kernels that those passes reach, so that a 70B model with heads of 132 takes 1.69 times
/// the step with heads of 128 on 128 H100 (219 and 370 TFLOP/s: Dao-AILab/flash-attention, issue 1141).
const SCORE_BANDWIDTH: f64 = 0.55;

/// The estimate of attention whose heads no fused kernel takes: GEMMs over all pairs, masked or not, and the traffic of the scores.
pub fn unfused(gpu: &Gpu, op: &Attention, fused: Estimate) -> Estimate {
    let whole = Attention {
        causal: false,
        window: 0,
        ..*op
    };
    let pairs = op.batch as f64 * op.heads as f64 * op.seq_q as f64 * op.seq_kv as f64;
    let passes = match op.pass {
        Pass::Forward => SCORE_PASSES[0],
        Pass::Backward => SCORE_PASSES[1],
    };
    let traffic = Bytes::from_bytes(passes * pairs * op.dtype.size() as f64);
    let arithmetic = whole.flops() / (gpu.nearest_peak(op.dtype) * REACHABLE_PEAK);
    let time = arithmetic + traffic / (gpu.reachable_bandwidth() * SCORE_BANDWIDTH);
    let mut caveats = fused.caveats;
    caveats.insert(Caveat::Unfused);
    let estimate = fused.widened(half_width(Caveat::Unfused));
    Estimate {
        time: fused.time.max(time),
        tier: fused.tier.max(Tier::Transferred),
        caveats,
        ..estimate
    }
}

/// A collective alone over several nodes; none inside one.
pub fn over_network(gpu: &Gpu, op: &Collective) -> Option<Estimate> {
    let time = Traffic::alone(gpu, op)?;
    Some(Estimate {
        half_width: NETWORK_HALF_WIDTH,
        shared: NETWORK_HALF_WIDTH,
        ..unlearned(time, Caveat::NotLearned)
    })
}

fn collective_time(gpu: &Gpu, op: &Collective) -> Seconds {
    match Traffic::of(gpu, op) {
        Some(traffic) => LINK_LATENCY + traffic.transfer(),
        None => Seconds::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{CollectiveKind, Dtype, Memory, MemoryKind, Pass};

    #[test]
    fn a_memory_bound_kernel_costs_its_traffic_and_never_less_than_a_launch() {
        let gpu = Gpu::find("h200").unwrap();
        let norm = |rows| {
            let kind = MemoryKind::RmsNorm;
            Op::Memory(Memory {
                kind,
                rows,
                cols: 4096,
                pass: Pass::Forward,
                dtype: Dtype::Bf16,
            })
        };
        let tiny = roofline(gpu, &norm(1));
        assert!(tiny.time.secs() >= gpu.launch_floor().secs());
        let large = roofline(gpu, &norm(1 << 20));
        assert!((large.time / (norm(1 << 20).bytes() / gpu.reachable_bandwidth()) - 1.0).abs() < 0.01);
        assert_eq!(large.tier, Tier::Roofline);
    }

    #[test]
    fn crossing_the_node_is_slower() {
        let gpu = Gpu::find("h200").unwrap();
        let reduce = |ranks, stride| {
            let op = Collective {
                stride,
                ..Collective::new(CollectiveKind::AllReduce, 1 << 30, ranks)
            };
            roofline(gpu, &Op::Collective(op)).time
        };
        assert!(reduce(8, 8).secs() > 4.0 * reduce(8, 1).secs());
        assert_eq!(reduce(1, 1), Seconds::ZERO);
    }

    #[test]
    fn caveats_add_up_like_independent_errors() {
        let mut caveats = Caveats::default();
        assert_eq!(uncertainty(caveats), 0.0);
        assert!(!is_transfer(caveats));
        caveats.insert(Caveat::OutOfDomain);
        caveats.insert(Caveat::OtherLayout);
        assert!(is_transfer(caveats));
        assert!((uncertainty(caveats) - (0.1f64 * 0.1 + 0.08 * 0.08).sqrt()).abs() < 1e-12);
    }
}
