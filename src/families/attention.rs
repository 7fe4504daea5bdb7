//! What prefill and decode attention share.

use super::coverage::note;
use super::row::FeatureRow;
use super::sampling::{Proposal, sizes};
use super::{Caveat, Caveats, Coverage, Neighbour, Question};
use crate::ops::{Attention, Op, Pass};

/// Backward attention recomputes the scores: five GEMMs where the forward pass has two.
const BACKWARD_FLOPS: f64 = 2.5;

/// FLOP rate of backward attention relative to forward: 0.76 to 0.84 in NVIDIA's own H200 benchmark of cuDNN 9.19,
/// causal, head size 128, 2k to 32k tokens (cudnn-frontend, sdpa_benchmark_training).
const BACKWARD_EFFICIENCY: f64 = 0.8;

/// Width that a flash kernel runs a head of `head_dim` at: its own tile up to 64, 128, 192 or 256.
pub fn head_tile(head_dim: u64) -> f64 {
    [64, 128, 192, 256]
        .into_iter()
        .find(|&tile| head_dim <= tile)
        .unwrap_or(head_dim.next_multiple_of(64)) as f64
}

/// The range of each is recorded and checked.
fn extents(op: &Attention) -> [(&'static str, u64); 6] {
    [
        ("batch", op.batch),
        ("heads", op.heads),
        ("group", op.heads / op.kv_heads.max(1)),
        ("seq_q", op.seq_q),
        ("seq_kv", op.seq_kv),
        ("value_dim", op.value_dim),
    ]
}

/// The width of a head and what its tile adds.
pub(super) fn head_width(op: &Attention, row: &mut impl FeatureRow) {
    row.log("ln_head_dim", op.head_dim as f64);
    row.log(
        "ln_head_dim_waste",
        head_tile(op.head_dim) / op.head_dim as f64,
    );
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
}

/// Forward attention with a head size that was measured, or that of its tile.
pub(super) fn nearest_covered(op: &Attention, asked: &Question<'_>) -> Neighbour {
    let coverage = asked.coverage;
    let mut caveats = Caveats::default();
    let mut covered = Attention {
        dtype: asked.dtype.unwrap_or(op.dtype),
        pass: Pass::Forward,
        ..*op
    };
    if !coverage.head_dims.contains(&op.head_dim) {
        caveats.insert(Caveat::HeadSize);
        if !coverage.auxiliary_head_dims.contains(&op.head_dim) {
            // A size that nobody timed runs in the kernel of its tile.
            covered.head_dim = head_tile(op.head_dim) as u64;
            covered.value_dim = head_tile(op.value_dim) as u64;
        }
    }
    // A single query sees all keys, masked or not.
    let masked_alike = op.seq_q == 1 || coverage.causal.contains(&op.causal);
    // Every prefill in the tables starts from an empty cache.
    let offset = op.seq_q > 1 && op.seq_q != op.seq_kv;
    let windowed = op.window > 0 && !coverage.windowed;
    caveats.insert_if(!masked_alike || offset || windowed, Caveat::Mask);
    coverage.check(extents(op), &mut caveats);
    let mut factor = 1.0;
    if op.pass == Pass::Backward {
        caveats.insert(Caveat::BackwardFromForward);
        factor = BACKWARD_FLOPS / BACKWARD_EFFICIENCY;
    }
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
    Neighbour {
        factor,
        timed: Op::Attention(timed),
        ..Neighbour::same(Op::Attention(covered), caveats)
    }
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
        op.heads
            .is_multiple_of(op.kv_heads)
            .then_some(Op::Attention(op))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_of_80_runs_in_the_tile_of_128() {
        assert_eq!(
            [64, 80, 128, 129, 256, 300].map(head_tile),
            [64.0, 128.0, 128.0, 192.0, 256.0, 320.0]
        );
    }
}
