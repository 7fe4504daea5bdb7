//! Attention to the keys that an index chooses as nets see it: whole prompts or chunks of them, and one new token.

use super::rates::Times;
use super::row::FeatureRow;
use super::sampling::{Proposal, sizes};
use super::{
    Caveat, Caveats, Coverage, Extent, GpuRates, Grouping, Kernels, Learning, Module, Neighbour, Question, Variant,
};
use crate::ops::{Dtype, IndexedAttention, Op};

/// Sequences up to which SGLang's tables run decoding steps in a CUDA graph: the next takes ten times as long.
const GRAPH_BATCH: u64 = 256;

/// Heads that a block of an attention kernel takes.
const HEAD_TILES: [u64; 3] = [16, 64, 128];

/// Many sub-models in a package that may not grow, each of one or two models.
const LEARNING: Learning = Learning {
    members: 1,
    hidden: &[64; 3],
    // SGLang's tables of prompts hold 70,000 with every chunk behind every prefix.
    rows: 20_000,
    ..Learning::USUAL
};

/// Implements `Kernels` for prompts or for single tokens: its number, the kernels that it launches, how it is learned, and the
/// sizes that its intervals are calibrated by.
///
/// A decoding step of one sequence takes 53 to 238 us of nearly no work on Hopper and Blackwell (aiconfigurator, three engines),
/// and a short prompt, which no CUDA graph runs, 99 to 1,856 us.
macro_rules! indexed_kernels {
    (
        $(#[$doc:meta])* $family:ident, $decodes:literal, $number:literal, $launches:literal, $learning:expr, $groupings:expr
    ) => {
        $(#[$doc])*
        pub(super) struct $family;

        impl Kernels for $family {
            type Shape = IndexedAttention;

            const GROUPINGS: &'static [Grouping<IndexedAttention>] = $groupings;

            const LEARNING: Learning = $learning;

            fn module(op: &IndexedAttention) -> Option<Module> {
                Some(Module {
                    launches: $launches,
                    stages: op.stages().to_vec(),
                })
            }

            fn shape(op: &Op) -> Option<IndexedAttention> {
                match op {
                    Op::IndexedAttention(op) if op.is_decode() == $decodes => Some(*op),
                    _ => None,
                }
            }

            /// One net knows all formats: those of the projections and of the cache are features.
            fn variant(_: &IndexedAttention) -> Variant {
                Variant::Format(Dtype::Bf16)
            }

            fn roofline(op: &IndexedAttention, gpu: &GpuRates) -> f64 {
                stages(op, gpu).iter().map(|stage| stage.roofline).sum()
            }

            fn features(op: &IndexedAttention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
                features(op, gpu, row)
            }

            /// All lengths and models of a pair of heads and batch.
            fn split_key(op: &IndexedAttention) -> [u64; 4] {
                [$number, op.heads, op.batch, 0]
            }

            fn cover(op: &IndexedAttention, coverage: &mut Coverage) {
                coverage.widen(extents(op));
            }

            fn nearest_covered(op: &IndexedAttention, asked: &Question<'_>) -> Option<Neighbour> {
                Some(nearest_covered(op, asked.coverage))
            }

            fn proposal(measured: &[IndexedAttention]) -> Proposal {
                proposal(measured)
            }

            fn examples() -> Vec<Op> {
                examples($decodes)
            }
        }
    };
}

const BY_KEYS: Grouping<IndexedAttention> = Grouping {
    by: "seq_kv",
    of: |op| op.seq_kv,
    bounds: &[2049, 16_384],
};

indexed_kernels!(
    /// Prompts, or chunks behind what is cached of them.
    IndexedPrefill,
    false,
    12,
    250.0,
    Learning {
        // Many rows.
        epochs: 20,
        pseudo_labels: [5_000, 30_000],
        ..LEARNING
    },
    &[
        BY_KEYS,
        Grouping {
            by: "tokens",
            of: |op| op.tokens(),
            bounds: &[64, 2048],
        },
    ]
);
indexed_kernels!(
    /// One new token a sequence.
    IndexedDecode,
    true,
    13,
    30.0,
    LEARNING,
    &[
        BY_KEYS,
        Grouping {
            by: "batch",
            of: |op| op.batch,
            bounds: &[32, GRAPH_BATCH + 1],
        },
    ]
);

fn extents(op: &IndexedAttention) -> [(Extent, u64); 9] {
    [
        (Extent::Batch, op.batch),
        (Extent::Heads, op.heads),
        (Extent::SeqQ, op.seq_q),
        (Extent::SeqKv, op.seq_kv),
        (Extent::Hidden, op.hidden),
        (Extent::HeadDim, op.head_dim),
        (Extent::TopK, op.top_k),
        (Extent::IndexHeads, op.index_heads),
        (Extent::WeightBits, (8.0 * op.dtype.operand_sizes()[1]).ceil() as u64),
    ]
}

/// What each stage takes.
fn stages(op: &IndexedAttention, gpu: &GpuRates) -> [Times; 3] {
    op.stages()
        .map(|stage| gpu.times(stage.flops, stage.bytes, stage.dtype))
}

fn features(op: &IndexedAttention, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
    let of_stages = stages(op, gpu);
    let roofline: f64 = of_stages.iter().map(|stage| stage.roofline).sum();
    let reference = gpu.launch + roofline;
    let [batch, heads, seq_q, seq_kv] = [op.batch, op.heads, op.seq_q, op.seq_kv].map(|dim| dim as f64);
    let tokens = op.tokens() as f64;
    let weight_bytes = op.dtype.operand_sizes()[1];
    let weights = op.weights() * weight_bytes;
    let latent = (op.latent + op.rotary) as f64 * op.cache_dtype.size() as f64;
    let gathered = batch * op.gathered();

    row.log("ln_batch", batch);
    row.log("ln_heads", heads);
    row.log("ln_seq_q", seq_q);
    row.log("ln_seq_kv", seq_kv);
    row.log("ln_cached", seq_kv - seq_q + 1.0);
    row.log("ln_tokens", tokens);
    row.log("ln_hidden", op.hidden as f64);
    row.log("ln_query_rank", op.query_rank as f64);
    row.log("ln_head_dim", op.head_dim as f64);
    row.log("ln_value_dim", op.value_dim as f64);
    row.log("ln_index_heads", op.index_heads.max(1) as f64);
    row.log("ln_chosen", seq_kv.min(op.top_k as f64));
    row.log("ln_weight_bytes", weight_bytes);
    row.flag("has_index", op.has_index());
    row.flag("fp8_cache", op.cache_dtype.size() == 1);
    row.flag("dense", op.is_dense());
    row.flag("indexes", op.has_index() && !op.is_dense());
    row.flag("beyond_graph", op.batch > GRAPH_BATCH);
    row.log("ln_roofline_per_launch", roofline / gpu.launch);
    row.number("launch_share", gpu.launch / reference);
    row.log("ln_weights_per_l2", weights / gpu.l2);
    row.log("ln_cache_per_l2", batch * seq_kv * latent / gpu.l2);
    row.log("ln_sms", gpu.sms / 100.0);
    row.log("ln_flops_per_clock", gpu.flops_per_clock / 2048.0);
    let share = |bytes: f64| bytes / gpu.bandwidth / reference;
    // Scores in single precision of each query for each key, what stages give one another, and latents key by key.
    let scored = if op.has_index() && !op.is_dense() {
        gathered_by_all(op)
    } else {
        0.0
    };
    row.log("ln_scores_time", share(4.0 * scored) + LEAST_SHARE);
    let of_heads = heads * (op.head_dim + op.value_dim + 2 * op.latent) as f64;
    let width = of_heads + op.query_rank as f64 + op.index_heads as f64 * op.index_dim as f64;
    row.log("ln_between_time", share(2.0 * tokens * width));
    row.log("ln_gathered_time", share(gathered * latent));
    let expanded = 2.0 * heads * (op.head_dim + op.value_dim) as f64 * gathered;
    row.log(
        "ln_expanded_time",
        expanded / gpu.peak[Dtype::Bf16 as usize] / reference,
    );
    row.bins("tokens", tokens);
    row.bins("keys", seq_kv);
    row.bins("batch", batch);
    for (name, stage) in ["projections", "scores", "attention"].into_iter().zip(of_stages) {
        row.tile(format_args!("{name}"));
        row.log("ln_compute_share", stage.compute / reference + LEAST_SHARE);
        row.log("ln_memory_share", stage.memory / reference + LEAST_SHARE);
    }
    for tile in HEAD_TILES {
        let tiles = op.heads.div_ceil(tile) as f64;
        let waves = tokens * tiles / gpu.sms;
        row.tile(format_args!("{tile}"));
        row.log("ln_head_waste", tiles * tile as f64 / heads);
        row.log("ln_waves", waves);
        row.number("last_wave_idle", waves.ceil() / waves - 1.0);
    }
    reference
}

/// Added to shares that may be 0.
const LEAST_SHARE: f64 = 1e-5;

/// Pairs of a query and a key that it may choose, of all sequences.
fn gathered_by_all(op: &IndexedAttention) -> f64 {
    let all = IndexedAttention {
        top_k: op.seq_kv,
        ..*op
    };
    op.batch as f64 * all.gathered()
}

/// The formats that were timed, in the place of those that were not, and what is unlike.
fn timed_format(dtype: Dtype) -> (Dtype, Option<Caveat>) {
    match dtype {
        Dtype::Bf16 | Dtype::Fp8Block | Dtype::Nvfp4 => (dtype, None),
        Dtype::Fp16 => (Dtype::Bf16, Some(Caveat::OtherDtype)),
        Dtype::Fp8 => (Dtype::Fp8Block, Some(Caveat::OtherDtype)),
        _ => (Dtype::Bf16, Some(Caveat::OtherWidth)),
    }
}

/// Formats that were timed, and sizes inside the measured region.
fn nearest_covered(op: &IndexedAttention, coverage: &Coverage) -> Neighbour {
    let mut caveats = Caveats::default();
    let (dtype, unlike) = timed_format(op.dtype);
    let (cache_dtype, unlike_cache) = match op.cache_dtype.size() {
        1 => (Dtype::Fp8, None),
        2 => (Dtype::Bf16, None),
        _ => (Dtype::Bf16, Some(Caveat::OtherWidth)),
    };
    for caveat in unlike.into_iter().chain(unlike_cache) {
        caveats.insert(caveat);
    }
    let timed = IndexedAttention {
        dtype,
        cache_dtype,
        ..*op
    };
    caveats.insert_if(!op.is_decode(), Caveat::TimedWithHost);
    coverage.check(extents(&timed), &mut caveats);
    let mut covered = timed;
    if caveats.contains(Caveat::OutOfDomain) {
        let clamp = |extent, size| coverage.clamp(extent, size);
        let cached = op.seq_kv - op.seq_q;
        covered.batch = clamp(Extent::Batch, op.batch);
        covered.heads = clamp(Extent::Heads, op.heads);
        covered.seq_q = clamp(Extent::SeqQ, op.seq_q);
        covered.seq_kv = clamp(Extent::SeqKv, covered.seq_q + cached).max(covered.seq_q);
        covered.index_heads = clamp(Extent::IndexHeads, op.index_heads);
    }
    Neighbour {
        timed: Op::IndexedAttention(timed),
        ..Neighbour::same(Op::IndexedAttention(covered), caveats)
    }
}

fn proposal(measured: &[IndexedAttention]) -> Proposal {
    let known = measured.to_vec();
    let [batch, heads] =
        [|op: &IndexedAttention| op.batch, |op: &IndexedAttention| op.heads].map(|size| sizes(&known, size));
    Box::new(move |random| {
        let of_lengths = known[random.below(known.len())];
        Some(Op::IndexedAttention(IndexedAttention {
            batch: random.pick(&batch),
            heads: random.pick(&heads),
            seq_q: of_lengths.seq_q,
            seq_kv: of_lengths.seq_kv,
            ..known[random.below(known.len())]
        }))
    })
}

fn examples(decodes: bool) -> Vec<Op> {
    let of = |batch, heads, seq_q: u64, cached| {
        IndexedAttention::deepseek(batch, heads, if decodes { 1 } else { seq_q }, cached)
    };
    let plain = of(3, 16, 777, 5000);
    let shapes = [
        plain,
        of(1, 128, 2, 1),
        of(512, 24, 8192, 100_000),
        IndexedAttention {
            index_heads: 0,
            cache_dtype: Dtype::Fp8,
            dtype: Dtype::Nvfp4,
            ..plain
        },
        IndexedAttention {
            hidden: 6144,
            query_rank: 2048,
            head_dim: 256,
            value_dim: 256,
            index_heads: 32,
            dtype: Dtype::Bf16,
            ..plain
        },
    ];
    shapes.map(Op::IndexedAttention).to_vec()
}
