//! Attention with more than one query a sequence, as nets see it.

use super::attention::attention_kernels;
use super::rates::Times;
use super::row::FeatureRow;
use super::sampling::Proposal;
use super::{Coverage, GpuRates, Grouping, Kernels, Neighbour, Question, Variant, attention};
use crate::ops::{Attention, Op, Pass};

/// Tiles `(queries, keys, grouped heads packed)` of flash-attention kernels.
const TILES: [(f64, f64, bool); 6] = [
    (128.0, 128.0, false),
    (128.0, 64.0, false),
    (64.0, 64.0, false),
    (192.0, 128.0, false),
    (128.0, 128.0, true),
    (64.0, 128.0, true),
];

/// Attention over whole sequences.
pub(super) struct Prefill;

/// Attention over whole sequences without a mask.
pub(super) struct Bidirectional;

/// The backward pass of attention over whole sequences.
pub(super) struct PrefillBackward;

/// Features of whole sequences; returns the reference time in seconds.
pub(super) fn features(op: &Attention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    let [batch, heads, kv_heads] = [op.batch, op.heads, op.kv_heads].map(|dim| dim as f64);
    let [seq_q, seq_kv] = [op.seq_q, op.seq_kv].map(|dim| dim as f64);
    let width = (op.head_dim + op.value_dim) as f64;
    let size = op.dtype.size() as f64;
    let Times {
        compute,
        memory,
        roofline,
        reference,
    } = gpu.times(op.flops(), op.bytes(), op.dtype);
    let group = heads / kv_heads;

    row.log("ln_batch", batch);
    row.log("ln_heads", heads);
    row.log("ln_kv_heads", kv_heads);
    row.log("ln_group", group);
    row.log("ln_seq_q", seq_q);
    row.log("ln_seq_kv", seq_kv);
    attention::head_width(op, row);
    row.flag("causal", op.causal);
    row.flag("windowed", op.window > 0);
    row.log("ln_visible_share", op.pairs() / (seq_q * seq_kv));
    row.log("ln_intensity", compute / memory);
    row.log("ln_roofline_per_launch", roofline / gpu.launch);
    row.log("ln_compute_share", compute / reference);
    row.log("ln_memory_share", memory / reference);
    row.number("launch_share", gpu.launch / reference);
    row.log("ln_operands_per_l2", op.bytes().bytes() / gpu.l2);
    row.log("ln_cache_per_l2", batch * kv_heads * seq_kv * width * size / gpu.l2);
    row.log("ln_heads_per_sm", batch * heads / gpu.sms);
    row.log("ln_kv_heads_per_sm", batch * kv_heads / gpu.sms);
    row.log("ln_sms", gpu.sms / 100.0);
    row.log("ln_flops_per_clock", gpu.flops_per_clock / 2048.0);

    row.bins("seq_q", seq_q);
    row.bins("batch", batch);
    row.bins("heads", heads);

    for (tile_q, tile_kv, packed) in TILES {
        // A packed kernel lays the query heads that share a key head side by side in one tile.
        let (rows_q, groups) = if packed {
            (seq_q * group, kv_heads)
        } else {
            (seq_q, heads)
        };
        let blocks_q = (rows_q / tile_q).ceil();
        let tiles_of = |first: f64, last: f64| {
            let seen = if op.causal {
                (seq_kv - seq_q + last).min(seq_kv)
            } else {
                seq_kv
            };
            let hidden = match op.window {
                0 => 0.0,
                window => (seq_kv - seq_q + first - window as f64).max(0.0),
            };
            ((seen / tile_kv).ceil() - (hidden / tile_kv).floor()).max(1.0)
        };
        let span = if packed { tile_q / group } else { tile_q };
        let longest = tiles_of(seq_q - span.min(seq_q), seq_q);
        let shortest = tiles_of(0.0, span.min(seq_q));
        let tiles = batch * groups * blocks_q * (longest + shortest) / 2.0;
        let waves = batch * groups * blocks_q / gpu.sms;
        let tile_time = 2.0 * tile_q * tile_kv * width / (gpu.peak[op.dtype as usize] / gpu.sms);
        let suffix = if packed { "_packed" } else { "" };
        row.tile(format_args!("{tile_q}x{tile_kv}{suffix}"));
        row.log("ln_tile_waste", tiles * tile_q * tile_kv / (batch * heads * op.pairs()));
        row.number("last_wave_idle", waves.ceil() / waves - 1.0);
        row.log("ln_waves", waves);
        let busiest = (tiles / gpu.sms).max(longest);
        row.log("ln_busiest_sm_time", busiest * tile_time / reference);
        row.log("ln_longest_block_time", longest * tile_time / reference);
    }
    reference
}

/// Shapes that reach every branch of the features.
fn shapes() -> Vec<Attention> {
    let plain = Attention::new(3, 24, 777, 80);
    let (mut shapes, grouped) = attention::examples(plain, 128);
    shapes.extend([
        Attention {
            window: 4096,
            seq_q: 512,
            seq_kv: 16384,
            ..grouped
        },
        Attention {
            value_dim: 128,
            ..Attention::new(1, 128, 4096, 192)
        },
        Attention {
            kv_heads: 1,
            ..Attention::new(64, 71, 2048, 64)
        },
        Attention::new(1, 1, 2, 300),
        Attention::new(1, 8, 131_072, 128),
    ]);
    shapes
}

attention_kernels!(
    Prefill,
    |op: &Attention| !op.is_decode(),
    features,
    attention::split_key,
    attention,
    shapes()
);
attention_kernels!(
    Bidirectional,
    |op: &Attention| !op.is_decode() && !op.causal && op.window == 0,
    features,
    attention::split_key,
    attention,
    shapes().into_iter().map(|op| Attention {
        causal: false,
        window: 0,
        ..op
    })
);
attention_kernels!(
    PrefillBackward,
    |op: &Attention| !op.is_decode() && op.pass == Pass::Backward,
    features,
    attention::split_key,
    attention,
    shapes().into_iter().map(|op| Attention {
        pass: Pass::Backward,
        ..op
    })
);
