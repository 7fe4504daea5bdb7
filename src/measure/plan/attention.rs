//! The set of fused attention: forward and backward, causal or not, grouped heads, odd lengths, decoding.

use super::{Sizing, cold};
use crate::measure::device::Case;
use crate::ops::Attention;
use crate::ops::Op;
use crate::ops::Pass;
use crate::random::Random;

/// Head sizes of published models.
const HEAD_DIMS: [u64; 7] = [64, 72, 80, 96, 128, 192, 256];

/// Query heads of one GPU.
const HEADS: [u64; 6] = [8, 12, 16, 24, 32, 64];

/// Query heads that share a key/value head.
const GROUPS: [u64; 4] = [1, 2, 4, 8];

/// Share of lengths that are multiples of 128, of all cases that decode.
const ALIGNED: f64 = 0.7;
const DECODING: f64 = 0.2;

/// Draws attempted per case that is wanted.
const ATTEMPTS: usize = 40;

/// Every problem four times, causal or not, forward and backward; decoding once.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let mut random = Random::new(sizing.seed, "attention");
    let dtypes: Vec<_> = sizing
        .offer
        .dtypes
        .iter()
        .map(|(dtype, _)| *dtype)
        .filter(|dtype| sizing.scale.attention_flops_per_s.contains_key(dtype))
        .collect();
    if dtypes.is_empty() {
        return Vec::new();
    }
    let mut cases = Vec::new();
    // Around 1024 tokens in steps of ten: the edges of tiles along the sequence.
    let steps = (-13i64..=13).map(|step| 1024u64.saturating_add_signed(10 * step));
    for seq in steps.take(wanted / 10) {
        push(sizing, &mut cases, problem(1, 16, 1, seq, 128, dtypes[0]));
    }
    for _ in 0..ATTEMPTS * wanted {
        if cases.len() >= wanted {
            break;
        }
        let heads = random.pick(&HEADS);
        let group = random.pick(&GROUPS);
        let head_dim = random.pick(&HEAD_DIMS);
        let dtype = random.pick(&dtypes);
        let drawn = (64f64.ln() + (512f64).ln() * random.uniform())
            .exp()
            .round() as u64;
        let seq = match random.uniform() < ALIGNED {
            true => drawn.next_multiple_of(128),
            false => drawn,
        };
        if random.uniform() < DECODING {
            let batch = 1 << random.below(8);
            let op = Attention {
                seq_q: 1,
                causal: false,
                ..problem(batch, heads, group, seq, head_dim, dtype)
            };
            let op = Op::Attention(op);
            if sizing.fits(&op) {
                cases.push(cold(op));
            }
            continue;
        }
        // 4k to 64k tokens a call, less on a device for which that is too much.
        let tokens = (4096f64.ln() + 16f64.ln() * random.uniform()).exp();
        let mut op = problem(
            (tokens as u64 / seq).max(1),
            heads,
            group,
            seq,
            head_dim,
            dtype,
        );
        while op.batch > 1 && !sizing.fits(&Op::Attention(op)) {
            op.batch = op.batch.div_ceil(2);
        }
        push(sizing, &mut cases, op);
    }
    cases.truncate(wanted);
    cases
}

/// Both masks and both passes, as far as they are short enough.
fn push(sizing: &Sizing<'_>, cases: &mut Vec<Case>, op: Attention) {
    for causal in [true, false] {
        for pass in [Pass::Forward, Pass::Backward] {
            let op = Op::Attention(Attention { causal, pass, ..op });
            if sizing.fits(&op) {
                cases.push(cold(op));
            }
        }
    }
}

fn problem(
    batch: u64,
    heads: u64,
    group: u64,
    seq: u64,
    head_dim: u64,
    dtype: crate::ops::Dtype,
) -> Attention {
    Attention {
        batch,
        heads,
        kv_heads: (heads / group).max(1),
        seq_q: seq,
        seq_kv: seq,
        head_dim,
        value_dim: head_dim,
        causal: true,
        window: 0,
        pass: Pass::Forward,
        dtype,
    }
}
