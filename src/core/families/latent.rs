//! Latent attention as nets see it: the features of other attention, in families of its own.
//!
//! Prefill expands keys and values from the latent, so that they have unequal widths, or absorbs the expansion into
//! queries and outputs, as decoding does, so that all heads attend to the one latent (arXiv 2405.04434, section 2.1.2).

use super::attention::{attention_kernels, clamped};
use super::coverage::note;
use super::row::FeatureRow;
use super::sampling::{Proposal, size, sizes};
use super::{Caveat, Caveats, Coverage, Extent, GpuRates, Grouping, Kernels, Neighbour, Question, Variant};
use super::{decode, prefill};
use crate::ops::{Attention, Dtype, Op, Pass};

/// Latent attention over whole sequences, keys and values expanded.
pub(super) struct LatentPrefill;

/// Latent attention over whole sequences, expansion absorbed.
pub(super) struct AbsorbedPrefill;

/// Latent attention of one query a sequence.
pub(super) struct LatentDecode;

fn extents(op: &Attention) -> [(Extent, u64); 4] {
    [
        (Extent::Batch, op.batch),
        (Extent::Heads, op.heads),
        (Extent::SeqQ, op.seq_q),
        (Extent::SeqKv, op.seq_kv),
    ]
}

fn cover(op: &Attention, coverage: &mut Coverage) {
    coverage.widen(extents(op));
    note(&mut coverage.head_dims, op.head_dim);
    note(&mut coverage.causal, op.causal);
    coverage.windowed |= op.window > 0;
}

/// Forward attention with a mask that was measured; its share of the reference time is that of the operator.
fn nearest_covered(op: &Attention, asked: &Question<'_>) -> Neighbour {
    let coverage = asked.coverage;
    let mut caveats = Caveats::default();
    let timed = Attention {
        dtype: asked.variant.dtype().unwrap_or(op.dtype),
        pass: Pass::Forward,
        ..*op
    };
    caveats.insert_if(op.pass == Pass::Backward, Caveat::BackwardFromForward);
    caveats.insert_if(!coverage.head_dims.contains(&op.head_dim), Caveat::HeadSize);
    // A single query sees all keys, masked or not.
    let masked_alike = op.seq_q == 1 || coverage.causal.contains(&op.causal);
    let offset = op.seq_q > 1 && op.seq_q != op.seq_kv;
    let windowed = op.window > 0 && !coverage.windowed;
    caveats.insert_if(!masked_alike || offset || windowed, Caveat::Mask);
    coverage.check(extents(op), &mut caveats);
    let mut covered = timed;
    if caveats.contains(Caveat::OutOfDomain) {
        covered = clamped(covered, coverage);
    }
    Neighbour {
        timed: Op::Attention(timed),
        ..Neighbour::same(Op::Attention(covered), caveats)
    }
}

fn proposal(measured: &[Attention]) -> Proposal {
    let known = measured.to_vec();
    let [batch, heads, keys] = [
        |op: &Attention| op.batch,
        |op: &Attention| op.heads,
        |op: &Attention| op.seq_kv,
    ]
    .map(|size| sizes(&known, size));
    Box::new(move |random| {
        let mut op = known[random.below(known.len())];
        let self_attending = op.seq_q == op.seq_kv;
        let expanded = op.heads == op.kv_heads;
        op.batch = random.pick(&batch);
        op.heads = size(random, &heads, 1);
        if expanded {
            op.kv_heads = op.heads;
        }
        op.seq_kv = size(random, &keys, 1).max(2);
        if self_attending {
            op.seq_q = op.seq_kv;
        }
        Some(Op::Attention(op))
    })
}

fn expanded(heads: u64, batch: u64, seq: u64) -> Attention {
    Attention {
        value_dim: 128,
        ..Attention::new(batch, heads, seq, 192)
    }
}

fn decoding(heads: u64, batch: u64, keys: u64) -> Attention {
    Attention {
        seq_q: 1,
        ..absorbed(heads, batch, keys)
    }
}

fn absorbed(heads: u64, batch: u64, keys: u64) -> Attention {
    Attention {
        kv_heads: 1,
        value_dim: 512,
        ..Attention::new(batch, heads, keys, 576)
    }
}

fn decoding_features(op: &Attention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    decode::features(op, op.bytes(), gpu, row)
}

const fn is_expanded(op: &Attention) -> bool {
    !op.is_decode() && !op.is_absorbed()
}

const fn is_absorbed(op: &Attention) -> bool {
    !op.is_decode() && op.is_absorbed()
}

/// Shapes of every format, one of a single head, and the longest.
fn shapes(shape: fn(u64, u64, u64) -> Attention, longest: u64) -> impl IntoIterator<Item = Attention> {
    let plain = shape(16, 3, 777);
    let formats = Dtype::ELEMENTS.map(|dtype| Attention { dtype, ..plain });
    formats.into_iter().chain([shape(1, 1, 2), shape(128, 64, longest)])
}

/// All attention with these heads, whatever batch and lengths.
fn split_key(family: u64, op: &Attention) -> [u64; 4] {
    [family, op.heads, op.head_dim, op.value_dim]
}

attention_kernels!(
    LatentPrefill,
    |op: &Attention| op.is_latent() && is_expanded(op),
    prefill::features,
    |op| split_key(7, op),
    self,
    shapes(expanded, 16_384)
);
attention_kernels!(
    AbsorbedPrefill,
    |op: &Attention| op.is_latent() && is_absorbed(op),
    prefill::features,
    |op| split_key(8, op),
    self,
    shapes(absorbed, 16_384)
);
attention_kernels!(
    LatentDecode,
    |op: &Attention| op.is_latent() && op.is_decode(),
    decoding_features,
    |op| split_key(9, op),
    self,
    shapes(decoding, 131_072)
);
