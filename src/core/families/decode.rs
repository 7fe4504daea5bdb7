//! Attention of one new token against a cache, as nets see it.

use super::attention::attention_kernels;
use super::rates::Times;
use super::row::FeatureRow;
use super::sampling::Proposal;
use super::{Coverage, GpuRates, Grouping, Kernels, Neighbour, Question, Variant, attention};
use crate::ops::{Attention, Op};
use crate::units::Bytes;

/// Keys that one step of a decode kernel takes.
const CHUNKS: [f64; 3] = [64.0, 128.0, 512.0];

/// Attention of one query a sequence.
pub(super) struct Decode;

/// Features of one query a sequence against a cache, given the traffic; returns the reference time in seconds.
pub(super) fn features(op: &Attention, bytes: Bytes, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    let [batch, heads, kv_heads] = [op.batch, op.heads, op.kv_heads].map(|dim| dim as f64);
    let keys = op.pairs();
    let width = (op.head_dim + op.value_dim) as f64;
    let Times {
        compute,
        memory,
        roofline,
        reference,
    } = gpu.times(op.flops(), bytes, op.dtype);
    // What one SM takes for one sequence at its share of the bandwidth.
    let sequence = keys * width * op.dtype.size() as f64 / (gpu.bandwidth / gpu.sms);

    row.log("ln_batch", batch);
    row.log("ln_heads", heads);
    row.log("ln_kv_heads", kv_heads);
    row.log("ln_group", heads / kv_heads);
    row.log("ln_keys", keys);
    attention::head_width(op, row);
    row.flag("windowed", op.window > 0);
    // TensorRT-LLM's kernels on Hopper and RTX PRO 6000 take up to 3.7 times as long where most of the cache lies behind the window.
    row.log("ln_cached_per_key", op.seq_kv as f64 / keys);
    row.log("ln_intensity", compute / memory);
    row.log("ln_roofline_per_launch", roofline / gpu.launch);
    row.log("ln_memory_share", memory / reference);
    row.number("launch_share", gpu.launch / reference);
    row.log("ln_cache_per_l2", bytes.bytes() / gpu.l2);
    row.log("ln_heads_per_sm", batch * heads / gpu.sms);
    row.log("ln_kv_heads_per_sm", batch * kv_heads / gpu.sms);
    row.log("ln_sequence_time", sequence / reference);
    row.log("ln_sms", gpu.sms / 100.0);
    row.log("ln_flops_per_clock", gpu.flops_per_clock / 2048.0);

    row.bins("keys", keys);
    row.bins("batch", batch);
    row.bins("heads", heads);

    let sequences = batch * kv_heads;
    for chunk in CHUNKS {
        let chunks = (keys / chunk).ceil();
        let waves = sequences * chunks / gpu.sms;
        // Split-KV kernels cut a sequence until the SMs are busy; a whole sequence a block is the other end.
        let splits = (gpu.sms / sequences).clamp(1.0, chunks).floor();
        let balanced = (sequences * splits / gpu.sms).ceil() * (chunks / splits).ceil() * chunk;
        row.tile(format_args!("{chunk}"));
        row.log("ln_chunk_waste", chunks * chunk / keys);
        row.number("last_wave_idle", waves.ceil() / waves - 1.0);
        row.log("ln_waves", waves);
        row.log("ln_imbalance", balanced * gpu.sms / (sequences * keys));
    }
    reference
}

/// Keys and values are both read; of latents the values are part of the keys.
fn of_token(op: &Attention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    features(op, op.bytes_with(op.value_dim), gpu, row)
}

/// Shapes that reach every branch of the features.
fn shapes() -> Vec<Attention> {
    let plain = Attention {
        seq_q: 1,
        ..Attention::new(3, 24, 4097, 80)
    };
    let (mut shapes, grouped) = attention::examples(plain, 1024);
    shapes.extend([
        Attention {
            batch: 512,
            seq_kv: 131_072,
            ..grouped
        },
        Attention {
            kv_heads: 1,
            head_dim: 576,
            value_dim: 512,
            ..plain
        },
        Attention {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            seq_kv: 2,
            ..plain
        },
        Attention {
            head_dim: 128,
            value_dim: 128,
            ..grouped
        },
    ]);
    shapes
}

attention_kernels!(
    Decode,
    Attention::is_decode,
    of_token,
    attention::split_key,
    attention,
    shapes()
);
