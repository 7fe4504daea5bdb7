//! What prefill and decode attention share.

use super::coverage::note;
use super::row::FeatureRow;
use super::sampling::{Proposal, sizes};
use super::{Caveat, Caveats, Coverage, Extent, Neighbour, Question};
use crate::ops::{Attention, Dtype, Op, Pass};

/// Implements `Kernels` for a family of attention, from which operators it takes, its features, what it holds out together, the
/// module that knows its coverage, nearest shape and proposals, and its examples.
macro_rules! attention_kernels {
    ($family:ident, $takes:expr, $features:path, $split_key:expr, $($shared:tt)::+, $examples:expr) => {
        impl Kernels for $family {
            type Shape = Attention;

            const GROUPINGS: &'static [Grouping<Attention>] = &[
                Grouping {
                    by: "seq_kv",
                    of: |op| op.seq_kv,
                    bounds: &[256, 2048, 16_384],
                },
                Grouping {
                    by: "heads",
                    of: |op| op.heads,
                    bounds: &[8, 32, 96],
                },
            ];

            fn shape(op: &Op) -> Option<Attention> {
                match op {
                    Op::Attention(op) if $takes(op) => Some(*op),
                    _ => None,
                }
            }

            fn variant(op: &Attention) -> Variant {
                Variant::Format(op.dtype)
            }

            fn roofline(op: &Attention, gpu: &GpuRates) -> f64 {
                gpu.times(op.flops(), op.bytes(), op.dtype).roofline
            }

            fn features(op: &Attention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
                $features(op, gpu, row)
            }

            fn split_key(op: &Attention) -> [u64; 4] {
                $split_key(op)
            }

            fn cover(op: &Attention, coverage: &mut Coverage) {
                $($shared)::+::cover(op, coverage);
            }

            fn nearest_covered(op: &Attention, asked: &Question<'_>) -> Option<Neighbour> {
                Some($($shared)::+::nearest_covered(op, asked))
            }

            fn proposal(measured: &[Attention]) -> Proposal {
                $($shared)::+::proposal(measured)
            }

            fn examples() -> Vec<Op> {
                $examples.into_iter().map(Op::Attention).collect()
            }
        }
    };
}

pub(super) use attention_kernels;

/// Shapes that every family of attention is shown: with eight key heads in each format, with as many key heads as query
/// heads, without a mask, in a window. Besides, the shape with eight key heads, from which others depart.
pub(super) fn examples(plain: Attention, window: u64) -> (Vec<Attention>, Attention) {
    let grouped = Attention { kv_heads: 8, ..plain };
    let formats = Dtype::ELEMENTS.map(|dtype| Attention { dtype, ..grouped });
    let others = [
        plain,
        Attention {
            causal: false,
            ..grouped
        },
        Attention { window, ..grouped },
    ];
    (formats.into_iter().chain(others).collect(), grouped)
}

/// The tile of 64, 128, 192 or 256 whose waste is a feature; FlashAttention has one for 96, too, which [`nearest_head`] knows.
fn head_tile(head_dim: u64) -> f64 {
    [64, 128, 192, 256]
        .into_iter()
        .find(|&tile| head_dim <= tile)
        .unwrap_or(head_dim.next_multiple_of(64)) as f64
}

/// The range of each is recorded and checked.
fn extents(op: &Attention) -> [(Extent, u64); 6] {
    [
        (Extent::Batch, op.batch),
        (Extent::Heads, op.heads),
        (Extent::Group, op.heads / op.kv_heads.max(1)),
        (Extent::SeqQ, op.seq_q),
        (Extent::SeqKv, op.seq_kv),
        (Extent::ValueDim, op.value_dim),
    ]
}

/// The width of a head and what its tile adds.
pub(super) fn head_width(op: &Attention, row: &mut impl FeatureRow) {
    row.log("ln_head_dim", op.head_dim as f64);
    row.log("ln_head_dim_waste", head_tile(op.head_dim) / op.head_dim as f64);
}

/// All attention with these heads, whatever batch and lengths.
pub(super) fn split_key(op: &Attention) -> [u64; 4] {
    [3, op.heads, op.kv_heads, op.head_dim]
}

pub(super) fn cover(op: &Attention, coverage: &mut Coverage) {
    coverage.widen(extents(op));
    note(&mut coverage.head_dims, op.head_dim);
    note(&mut coverage.causal, op.causal);
    coverage.windowed |= op.window > 0;
    coverage.backward |= op.pass == Pass::Backward;
}

/// Attention with a mask, a head size and lengths that were measured; ratios between kernels carry its time
/// over to the operator.
pub(super) fn nearest_covered(op: &Attention, asked: &Question<'_>) -> Neighbour {
    let coverage = asked.coverage;
    let mut caveats = Caveats::default();
    let mut covered = Attention {
        dtype: asked.variant.dtype().unwrap_or(op.dtype),
        pass: match coverage.backward {
            true => op.pass,
            false => Pass::Forward,
        },
        ..*op
    };
    caveats.insert_if(covered.pass != op.pass, Caveat::BackwardFromForward);
    if !coverage.head_dims.contains(&op.head_dim) {
        caveats.insert(Caveat::HeadSize);
        if !coverage.auxiliary_head_dims.contains(&op.head_dim) {
            covered.head_dim = nearest_head(op, op.head_dim);
            covered.value_dim = nearest_head(op, op.value_dim);
        }
    }
    // A single query sees all keys, masked or not.
    let masked_alike = op.seq_q == 1 || coverage.causal.contains(&op.causal);
    // Every prefill in the tables starts from an empty cache.
    let offset = op.seq_q > 1 && op.seq_q != op.seq_kv;
    caveats.insert_if(!masked_alike || offset, Caveat::Mask);
    let mut factor = 1.0;
    if op.window > 0 && !coverage.windowed {
        covered.window = 0;
        let hides = op.window < op.seq_kv;
        caveats.insert_if(hides, Caveat::Window);
        if op.is_decode() {
            // One query against one key would be no decoding.
            covered.seq_kv = op.keys().max(2);
        } else if hides {
            factor = window_share(op);
        }
    }
    if !masked_alike && !op.causal && op.window == 0 {
        factor = square(&mut covered);
        covered.causal = true;
    }
    coverage.check(extents(op), &mut caveats);
    // Decoding waits for the cache, so a narrower head than its tile moves fewer bytes; prefill computes the tile.
    let timed = if op.is_decode() {
        Attention {
            dtype: covered.dtype,
            pass: covered.pass,
            ..*op
        }
    } else {
        covered
    };
    // Beyond the longest sequences the share of the roofline stays as it was at the longest.
    if caveats.contains(Caveat::OutOfDomain) {
        covered = clamped(covered, coverage);
    }
    Neighbour {
        factor,
        timed: Op::Attention(timed),
        ..Neighbour::same(Op::Attention(covered), caveats)
    }
}

/// The operator with the nearest batch and lengths that were measured: square where it was, one query where it had one.
pub(super) fn clamped(op: Attention, coverage: &Coverage) -> Attention {
    let seq_kv = coverage.clamp(Extent::SeqKv, op.seq_kv).max(2);
    Attention {
        batch: coverage.clamp(Extent::Batch, op.batch),
        seq_kv,
        seq_q: if op.seq_q == op.seq_kv {
            seq_kv
        } else if op.is_decode() {
            op.seq_q
        } else {
            coverage.clamp(Extent::SeqQ, op.seq_q).clamp(2, seq_kv)
        },
        ..op
    }
}

/// The head size whose time is that of `size`, of queries or values, but for a measured ratio.
///
/// Prefill kernels have a tile between 64 and 128 whose time is known relative to 64; any other size that was not
/// measured runs in the kernel of its tile.
fn nearest_head(op: &Attention, size: u64) -> u64 {
    if (65..=96).contains(&size) && !op.is_decode() {
        64
    } else {
        head_tile(size) as u64
    }
}

/// Side of a tile of the kernels that windows were timed with, in queries and keys.
const WINDOW_TILE: f64 = 128.0;

/// Tiles of keys that a block of queries costs besides those that it reads.
const BLOCK_TILES: f64 = 3.0;

/// Time of a prefill with a sliding window over that of the same one without, by the tiles of keys that the blocks of
/// queries read: one is cut by the diagonal, a second one by the edge of the window.
///
/// Of 134,000 pairs of rows with and without a window on nine GPUs (aiconfigurator, 0.05 ms and more) half are within 5 %
/// for windows of 1,024 keys and 3 % of 8,192, nine in ten within 20 %; those of 128 keys take a fifth longer in the
/// median and up to twice as long.
fn window_share(op: &Attention) -> f64 {
    let tiles = |op: &Attention, cut: f64| {
        let blocks = op.seq_q as f64 / WINDOW_TILE;
        op.pairs() / WINDOW_TILE.powi(2) + (cut + BLOCK_TILES) * blocks
    };
    let whole = Attention { window: 0, ..*op };
    (tiles(op, 1.0) / tiles(&whole, 0.5)).min(1.0)
}

/// Turns unmasked attention into sequences as long as their keys with as many queries in all; the share of the queries
/// that rounding loses or adds.
///
/// Without a mask queries are independent of one another.
fn square(op: &mut Attention) -> f64 {
    if op.seq_q == op.seq_kv {
        return 1.0;
    }
    let sequences = op.batch as f64 * op.seq_q as f64 / op.seq_kv as f64;
    op.batch = (sequences.round() as u64).max(1);
    op.seq_q = op.seq_kv;
    sequences / op.batch as f64
}

pub(super) fn proposal(measured: &[Attention]) -> Proposal {
    let known = measured.to_vec();
    let [batch, heads, keys] = [
        |op: &Attention| op.batch,
        |op: &Attention| op.heads,
        |op: &Attention| op.seq_kv,
    ]
    .map(|size| sizes(&known, size));
    Box::new(move |random| {
        let mut op = known[random.below(known.len())];
        let grouped = known[random.below(known.len())];
        let self_attending = op.seq_q == op.seq_kv;
        op.batch = random.pick(&batch);
        op.heads = random.pick(&heads);
        op.kv_heads = if grouped.heads == grouped.kv_heads {
            op.heads
        } else {
            grouped.kv_heads
        };
        op.seq_kv = random.pick(&keys);
        if self_attending {
            op.seq_q = op.seq_kv;
        }
        op.heads.is_multiple_of(op.kv_heads).then_some(Op::Attention(op))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_its_share_of_the_tiles() {
        let share = |window| {
            window_share(&Attention {
                window,
                ..Attention::new(2, 32, 16_384, 128)
            })
        };
        // 64.5 tiles of keys a block on average, and 2, 9 or 64.
        assert!((share(128) - 5.0 / 67.5).abs() < 3e-3, "{}", share(128));
        assert!((share(1024) - 12.0 / 67.5).abs() < 5e-3, "{}", share(1024));
        assert!((share(8192) - 0.77).abs() < 0.01, "{}", share(8192));
        assert_eq!(share(16_384), 1.0);
    }

    #[test]
    fn a_head_of_80_wastes_what_the_tile_of_128_adds() {
        assert_eq!(
            [64, 80, 128, 129, 256, 300].map(head_tile),
            [64.0, 128.0, 128.0, 192.0, 256.0, 320.0]
        );
    }
}
