//! The set of fused attention: forward and backward, causal or not, grouped heads, odd lengths,
//! decoding.

use super::Sizing;
use crate::measure::device::Case;
use crate::ops::{Attention, Op, Pass};
use crate::random::Random;

/// Head sizes of published models.
const HEAD_DIMS: [u64; 7] = [64, 72, 80, 96, 128, 192, 256];

/// Query heads of one GPU.
const HEADS: [u64; 6] = [8, 12, 16, 24, 32, 64];

/// Query heads that share a key/value head.
const GROUPS: [u64; 4] = [1, 2, 4, 8];

/// Share of lengths that are multiples of 128.
const ALIGNED: f64 = 0.7;

/// Share of cases that decode.
const DECODING: f64 = 0.2;

/// Draws attempted per case that is wanted.
const ATTEMPTS: usize = 40;

/// Cases of the set: every shape causal and not, forward and backward; decoding shapes once.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let mut random = Random::new(sizing.seed, "attention");
    let dtypes: Vec<_> = sizing
        .supported
        .dtypes
        .iter()
        .map(|(dtype, _)| *dtype)
        .filter(|dtype| sizing.rates.attention_flops_per_s.contains_key(dtype))
        .collect();
    if dtypes.is_empty() {
        return Vec::new();
    }
    let mut cases = Vec::new();
    // Around 1024 tokens in steps of ten: the edges of tiles along the sequence.
    let steps = (-13i64..=13).map(|step| 1024u64.saturating_add_signed(10 * step));
    for seq in steps.take(wanted / 10) {
        let op = Attention {
            dtype: dtypes[0],
            ..Attention::new(1, 16, seq, 128)
        };
        push(sizing, &mut cases, op);
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
        let mut op = Attention {
            kv_heads: (heads / group).max(1),
            dtype,
            ..Attention::new(1, heads, seq, head_dim)
        };
        if random.uniform() < DECODING {
            let op = Op::Attention(Attention {
                batch: 1 << random.below(8),
                seq_q: 1,
                causal: false,
                ..op
            });
            cases.extend(sizing.fits(&op).then(|| Case::cold(op)));
            continue;
        }
        // 4k to 64k tokens a call, less on a device for which that is too much.
        let tokens = (4096f64.ln() + 16f64.ln() * random.uniform()).exp();
        op.batch = (tokens as u64 / seq).max(1);
        while op.batch > 1 && !sizing.fits(&Op::Attention(op)) {
            op.batch = op.batch.div_ceil(2);
        }
        push(sizing, &mut cases, op);
    }
    cases.truncate(wanted);
    cases
}

/// Adds the shape with both masks and both passes, as far as they are short enough.
fn push(sizing: &Sizing<'_>, cases: &mut Vec<Case>, op: Attention) {
    for causal in [true, false] {
        for pass in [Pass::Forward, Pass::Backward] {
            let op = Op::Attention(Attention { causal, pass, ..op });
            cases.extend(sizing.fits(&op).then(|| Case::cold(op)));
        }
    }
}
