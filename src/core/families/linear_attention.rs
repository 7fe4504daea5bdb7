//! Linear attention as nets see it: whole sequences in chunks, and one token that changes the states.

use super::coverage::note;
use super::rates::Times;
use super::row::FeatureRow;
use super::sampling::{Proposal, sizes};
use super::{Caveat, Caveats, Coverage, Extent, GpuRates, Grouping, Kernels, Learning, Neighbour, Question, Variant};
use crate::ops::{Dtype, LinearAttention, Op, Pass, Recurrence};

/// Tokens of a chunk, and parts that the values of a head are cut into, of kernels that pass a state from chunk to chunk.
const CHUNKS: [(f64, f64); 3] = [(64.0, 1.0), (64.0, 4.0), (128.0, 1.0)];

/// Parts that the values of a head are cut into by kernels of one token.
const PARTS: [f64; 3] = [1.0, 4.0, 16.0];

/// Time of a backward pass beyond the launch term over that of the forward pass: the mean of three measurements on an H200
/// with 4,096 tokens (docs/gpu-log.md), 3.0 of Kimi Delta Attention by fla, 3.4 and 3.7 of Mamba-2 by mamba_ssm.
const BACKWARD: f64 = 3.4;

/// Time of Mamba-2 over a sequence, forward (mamba_ssm 2.3.2), over that of Kimi Delta Attention (SGLang 0.5.16) with as many
/// elements of states: 0.280 and 0.285 with 64 and 128 heads of 64 and 4,096 tokens on an H200 (docs/gpu-log.md).
const MAMBA2_OVER_KIMI: f64 = 0.282;

/// Time of its backward pass over that of its forward pass: 3.69 and 3.43 of the same shapes.
const MAMBA2_BACKWARD: f64 = 3.56;

/// Width of the keys and values of the heads that were timed.
const MAMBA2_HEAD: [u64; 2] = [128, 64];

/// Implements `Kernels` for sequences or for single tokens, by whether it takes decoding steps, its features, its number, and
/// the sizes that its intervals are calibrated by.
macro_rules! linear_kernels {
    ($(#[$doc:meta])* $family:ident, $decodes:literal, $features:path, $number:literal, $groupings:expr) => {
        $(#[$doc])*
        pub(super) struct $family;

        impl Kernels for $family {
            type Shape = LinearAttention;

            const GROUPINGS: &'static [Grouping<LinearAttention>] = $groupings;

            const LEARNING: Learning = Learning {
                // One kind of kernel, of few heads, each fitted several times.
                hidden: &[48; 2],
                epochs: 60,
                ..Learning::USUAL
            };

            fn shape(op: &Op) -> Option<LinearAttention> {
                match op {
                    Op::LinearAttention(op) if op.is_decode() == $decodes => Some(*op),
                    _ => None,
                }
            }

            fn variant(op: &LinearAttention) -> Variant {
                Variant::Recurrence(op.kind, op.dtype)
            }

            fn roofline(op: &LinearAttention, gpu: &GpuRates) -> f64 {
                gpu.times(op.flops(), op.bytes(), op.dtype).roofline
            }

            fn features(op: &LinearAttention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
                $features(op, gpu, row)
            }

            /// All batches and lengths of these heads.
            fn split_key(op: &LinearAttention) -> [u64; 4] {
                [$number, op.heads, op.key_heads, op.value_dim]
            }

            fn cover(op: &LinearAttention, coverage: &mut Coverage) {
                coverage.widen(extents(op));
                note(&mut coverage.head_dims, op.head_dim);
            }

            fn nearest_covered(op: &LinearAttention, asked: &Question<'_>) -> Option<Neighbour> {
                Some(nearest_covered(op, asked))
            }

            fn proposal(measured: &[LinearAttention]) -> Proposal {
                proposal(measured)
            }

            fn examples() -> Vec<Op> {
                examples($decodes)
            }
        }
    };
}

linear_kernels!(
    /// Linear attention over whole sequences.
    LinearPrefill,
    false,
    of_sequence,
    10,
    &[Grouping {
        by: "seq_q",
        of: |op| op.seq_q,
        bounds: &[256, 2048, 16_384],
    }]
);
linear_kernels!(
    /// Linear attention of one new token a sequence.
    LinearDecode,
    true,
    of_token,
    11,
    &[]
);

fn extents(op: &LinearAttention) -> [(Extent, u64); 6] {
    [
        (Extent::Batch, op.batch),
        (Extent::Heads, op.heads),
        (Extent::Group, op.heads / op.key_heads.max(1)),
        (Extent::SeqQ, op.seq_q),
        (Extent::HeadDim, op.head_dim),
        (Extent::ValueDim, op.value_dim),
    ]
}

/// What sequences and single tokens share; the reference time in seconds.
fn shared(op: &LinearAttention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    let [batch, heads, key_heads] = [op.batch, op.heads, op.key_heads].map(|dim| dim as f64);
    let bytes = op.bytes();
    let Times {
        compute,
        memory,
        roofline,
        reference,
    } = gpu.times(op.flops(), bytes, op.dtype);
    row.log("ln_batch", batch);
    row.log("ln_heads", heads);
    row.log("ln_key_heads", key_heads);
    row.log("ln_group", heads / key_heads);
    row.log("ln_head_dim", op.head_dim as f64);
    row.log("ln_value_dim", op.value_dim as f64);
    row.log("ln_intensity", compute / memory);
    row.log("ln_roofline_per_launch", roofline / gpu.launch);
    row.log("ln_memory_share", memory / reference);
    row.number("launch_share", gpu.launch / reference);
    row.log("ln_bytes_per_l2", bytes.bytes() / gpu.l2);
    row.log("ln_heads_per_sm", batch * heads / gpu.sms);
    row.log("ln_sms", gpu.sms / 100.0);
    row.log("ln_flops_per_clock", gpu.flops_per_clock / 2048.0);
    row.bins("batch", batch);
    row.bins("states", batch * heads);
    reference
}

fn of_sequence(op: &LinearAttention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    let reference = shared(op, gpu, row);
    let (heads, seq) = ((op.batch * op.heads) as f64, op.seq_q as f64);
    row.log("ln_seq", seq);
    row.log("ln_tokens", op.batch as f64 * seq);
    row.bins("seq", seq);
    let state = (op.head_dim * op.value_dim) as f64;
    for (chunk, parts) in CHUNKS {
        let chunks = (seq / chunk).ceil();
        let waves = heads * chunks / gpu.sms;
        // A head passes its state on from chunk to chunk; heads and parts of their values run side by side.
        let rounds = (heads * parts / gpu.sms).ceil();
        let products = 2.0 * 3.0 * chunk * state / parts;
        let scan = rounds * chunks * products / (gpu.peak[op.dtype as usize] / gpu.sms) / reference;
        row.tile(format_args!("{chunk}x{parts}"));
        row.log("ln_chunk_waste", chunks * chunk / seq);
        row.log("ln_waves", waves);
        row.number("last_wave_idle", waves.ceil() / waves - 1.0);
        row.log("ln_rounds", rounds);
        row.log("ln_scan_time", scan);
    }
    reference
}

fn of_token(op: &LinearAttention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    let reference = shared(op, gpu, row);
    let heads = (op.batch * op.heads) as f64;
    for parts in PARTS {
        let waves = heads * parts / gpu.sms;
        row.tile(format_args!("{parts}"));
        row.log("ln_waves", waves);
        row.number("last_wave_idle", waves.ceil() / waves - 1.0);
    }
    reference
}

/// A scan of Mamba-2 as the heads of 128 of Kimi Delta Attention, each with its own key, whose states have as many elements.
fn as_kimi_delta(op: &LinearAttention) -> LinearAttention {
    let plain = LinearAttention::new(op.batch, 1, 1, op.seq_q);
    let elements = op.heads * op.head_dim * op.value_dim;
    let heads = (elements / (plain.head_dim * plain.value_dim)).max(1);
    LinearAttention {
        kind: Recurrence::KimiDelta,
        heads,
        key_heads: heads,
        pass: op.pass,
        dtype: op.dtype,
        ..plain
    }
}

/// The forward pass of the recurrence and heads that were measured, with states of as many elements.
fn nearest_covered(op: &LinearAttention, asked: &Question<'_>) -> Neighbour {
    let known = asked.variant.recurrence();
    if (op.kind, known) == (Recurrence::Mamba2, Some(Recurrence::KimiDelta)) && !op.is_decode() {
        let forward = LinearAttention {
            pass: Pass::Forward,
            ..*op
        };
        let mut near = nearest_covered(&as_kimi_delta(&forward), asked);
        near.caveats.insert(Caveat::RatioOfRecurrences);
        let other_heads = [op.head_dim, op.value_dim] != MAMBA2_HEAD;
        near.caveats.insert_if(other_heads, Caveat::HeadSize);
        near.scale = match op.pass {
            Pass::Forward => MAMBA2_OVER_KIMI,
            Pass::Backward => MAMBA2_OVER_KIMI * MAMBA2_BACKWARD,
        };
        return near;
    }
    let coverage = asked.coverage;
    let mut caveats = Caveats::default();
    let kind = known.unwrap_or(op.kind);
    let other = match op.is_decode() {
        true => Caveat::OtherRecurrenceDecode,
        false => Caveat::OtherRecurrence,
    };
    caveats.insert_if(kind != op.kind, other);
    caveats.insert_if(op.pass == Pass::Backward, Caveat::BackwardAssumed);
    let mut covered = LinearAttention {
        kind,
        pass: Pass::Forward,
        dtype: asked.variant.dtype().unwrap_or(op.dtype),
        ..*op
    };
    let timed = covered;
    coverage.check(extents(op), &mut caveats);
    // Beyond the measured region the share of the roofline stays as it was at its edge.
    if caveats.contains(Caveat::OutOfDomain) {
        let clamp = |extent, size| coverage.clamp(extent, size);
        covered.head_dim = clamp(Extent::HeadDim, op.head_dim);
        covered.value_dim = clamp(Extent::ValueDim, op.value_dim);
        let states = op.heads * op.head_dim * op.value_dim;
        let heads = states / (covered.head_dim * covered.value_dim);
        covered.heads = clamp(Extent::Heads, heads.max(1));
        let group = clamp(Extent::Group, op.heads / op.key_heads.max(1));
        covered.key_heads = (covered.heads / group.max(1)).max(1);
        covered.batch = clamp(Extent::Batch, op.batch);
        covered.seq_q = clamp(Extent::SeqQ, op.seq_q);
    }
    Neighbour {
        timed: Op::LinearAttention(timed),
        factor: match op.pass {
            Pass::Forward => 1.0,
            Pass::Backward => BACKWARD,
        },
        ..Neighbour::same(Op::LinearAttention(covered), caveats)
    }
}

fn proposal(measured: &[LinearAttention]) -> Proposal {
    let known = measured.to_vec();
    let [batch, seq, heads] = [
        |op: &LinearAttention| op.batch,
        |op: &LinearAttention| op.seq_q,
        |op: &LinearAttention| op.heads,
    ]
    .map(|size| sizes(&known, size));
    Box::new(move |random| {
        let mut op = known[random.below(known.len())];
        let group = op.heads / op.key_heads;
        op.batch = random.pick(&batch);
        op.seq_q = random.pick(&seq);
        op.heads = random.pick(&heads);
        op.key_heads = op.heads / group;
        (op.key_heads * group == op.heads && op.key_heads > 0).then_some(Op::LinearAttention(op))
    })
}

fn examples(decodes: bool) -> Vec<Op> {
    let plain = LinearAttention::new(3, 8, 24, 777);
    let shapes = Dtype::ELEMENTS.map(|dtype| LinearAttention { dtype, ..plain });
    let recurrences = Recurrence::ALL.map(|kind| LinearAttention { kind, ..plain });
    let sizes = [
        LinearAttention::new(1, 1, 1, 2),
        LinearAttention::new(1024, 16, 64, 32_768),
        LinearAttention {
            value_dim: 64,
            ..LinearAttention::new(1, 8, 256, 131_072)
        },
    ];
    let all = shapes.into_iter().chain(recurrences).chain(sizes);
    let op = |op: LinearAttention| {
        Op::LinearAttention(LinearAttention {
            seq_q: if decodes { 1 } else { op.seq_q },
            ..op
        })
    };
    all.map(op).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::OddSizes;

    #[test]
    fn other_head_sizes_are_asked_for_by_the_elements_of_their_states() {
        let mut coverage = Coverage::default();
        for heads in [2, 64] {
            LinearPrefill::cover(&LinearAttention::new(64, 16, heads, 32_768), &mut coverage);
        }
        LinearPrefill::cover(&LinearAttention::new(1, 1, 2, 2), &mut coverage);
        let asked = Question {
            variant: Variant::Recurrence(Recurrence::GatedDeltaNet, Dtype::Bf16),
            coverage: &coverage,
            odd_sizes: OddSizes::Unknown,
            gpus_per_node: None,
        };
        let mamba = LinearAttention {
            kind: Recurrence::Mamba2,
            value_dim: 64,
            ..LinearAttention::new(1, 8, 64, 4096)
        };
        let near = nearest_covered(&mamba, &asked);
        assert!(near.caveats.contains(Caveat::OtherRecurrence));
        let Op::LinearAttention(covered) = near.covered else {
            panic!("{}", near.covered)
        };
        assert_eq!((covered.heads, covered.value_dim), (32, 128));
        assert_eq!(covered.kind, Recurrence::GatedDeltaNet);
        // A measured shape is asked for as it is, its backward pass by its forward pass.
        let known = LinearAttention {
            pass: Pass::Backward,
            ..LinearAttention::new(1, 16, 32, 4096)
        };
        let near = nearest_covered(&known, &asked);
        assert_eq!(near.factor, BACKWARD);
        let forward = LinearAttention {
            pass: Pass::Forward,
            ..known
        };
        assert_eq!(near.covered, Op::LinearAttention(forward));
        assert!(!near.caveats.contains(Caveat::OutOfDomain));
    }
}
