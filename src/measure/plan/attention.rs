//! The set of fused attention: forward and backward, causal or not, grouped heads, odd lengths,
//! decoding.

use super::Sizing;
use super::shares::weighted;
use super::sobol::log_between;
use crate::ops::{Attention, Dtype, Op, Pass};
use crate::random::Random;

/// Query heads of one GPU.
const HEADS: [u64; 6] = [8, 12, 16, 24, 32, 64];

/// Query heads that share a key/value head.
const GROUPS: [u64; 4] = [1, 2, 4, 8];

/// Draws attempted per case that is wanted.
const ATTEMPTS: usize = 40;

/// Cases of the set, drawn by the plan's shares of formats, masks, passes, lengths and decoding.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let mut random = Random::new(sizing.seed, "attention");
    let shares = &sizing.plan.attention;
    let known = |dtype: &Dtype| sizing.rates.attention_flops_per_s.contains_key(dtype);
    let mut dtypes = sizing.supported.dtypes.clone();
    dtypes.retain(|(dtype, _)| known(dtype));
    if dtypes.is_empty() {
        return Vec::new();
    }
    let groups = if sizing.supported.grouped_heads {
        &GROUPS[..]
    } else {
        &GROUPS[..1]
    };
    let fitting = |op: Attention| {
        let op = Op::Attention(op);
        sizing.fits(&op).then_some(op)
    };
    let of_whole_sequences = |op: Attention, random: &mut Random| Attention {
        causal: random.uniform() >= shares.bidirectional,
        pass: match random.uniform() < shares.backward {
            true => Pass::Backward,
            false => Pass::Forward,
        },
        ..op
    };
    let mut cases = Vec::new();
    // Around 1024 tokens in steps of ten: the edges of tiles along the sequence.
    let steps = (-13i64..=13).map(|step| 1024u64.saturating_add_signed(10 * step));
    let [least, most] = shares.tokens;
    let near = if (least..=most).contains(&1024) { wanted / 10 } else { 0 };
    for seq in steps.cycle().take(near) {
        let op = Attention {
            dtype: weighted(&dtypes, random.uniform()),
            ..Attention::new(1, 16, seq, random.pick(&shares.head_dims))
        };
        cases.extend(fitting(of_whole_sequences(op, &mut random)));
    }
    for _ in 0..ATTEMPTS * wanted {
        if cases.len() >= wanted {
            break;
        }
        let heads = random.pick(&HEADS);
        let group = random.pick(groups);
        let head_dim = random.pick(&shares.head_dims);
        let drawn = log_between((least as f64, most as f64), random.uniform()).round() as u64;
        let seq = match random.uniform() < shares.off_grid {
            true => drawn,
            false => drawn.next_multiple_of(128),
        };
        let mut op = Attention {
            kv_heads: (heads / group).max(1),
            dtype: weighted(&dtypes, random.uniform()),
            ..Attention::new(1, heads, seq, head_dim)
        };
        if random.uniform() < shares.decode {
            cases.extend(fitting(Attention {
                batch: 1 << random.below(8),
                seq_q: 1,
                causal: false,
                ..op
            }));
            continue;
        }
        op = of_whole_sequences(op, &mut random);
        // 4k to 64k tokens a call, less on a device for which that is too much.
        let tokens = (4096f64.ln() + 16f64.ln() * random.uniform()).exp();
        op.batch = (tokens as u64 / seq).max(1);
        while op.batch > 1 && !sizing.fits(&Op::Attention(op)) {
            op.batch = op.batch.div_ceil(2);
        }
        cases.extend(fitting(op));
    }
    cases
}
