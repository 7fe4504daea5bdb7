//! What the nets see of an operator: physics on *this* GPU, computed by one function for training and prediction.
//!
//! Every feature is dimensionless. Times are divided by the *reference time* of the operator,
//! `launch term + roofline time`, so that the nets learn `ln(time / reference)`, a small number on any GPU.
//! Tile and wave counts follow the NVIDIA Matrix Multiplication Background User's Guide
//! (tile and wave quantization) and arXiv 2401.14489.

use crate::gpu::Gpu;
use crate::ops::{Attention, Dtype, Gemm, Layout, Op};
use crate::random::fnv1a;
use crate::units::{Bytes, Flops, Seconds};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Operators that share a net: the same kernels in the same regime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Dense matrix products, batched or not.
    Gemm,
    /// Attention with more than one query a sequence.
    Prefill,
    /// Attention of one new token against a cache.
    Decode,
}

impl Family {
    /// Every learned family.
    pub const ALL: [Self; 3] = [Self::Gemm, Self::Prefill, Self::Decode];

    /// The family an operator belongs to; memory-bound kernels and collectives are not learned yet.
    pub fn of(op: &Op) -> Option<Self> {
        match op {
            Op::Gemm(_) => Some(Self::Gemm),
            Op::Attention(attention) if attention.is_decode() => Some(Self::Decode),
            Op::Attention(_) => Some(Self::Prefill),
            Op::Memory(_) | Op::Collective(_) => None,
        }
    }

    /// The name used on disk and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }

    /// Which features say how an operator falls into tiles: the last ones.
    pub const fn tile_features(self) -> Range<usize> {
        let tiles = match self {
            Self::Gemm => GEMM_TILES.len() * GEMM_PER_TILE.len(),
            Self::Prefill => PREFILL_TILES.len() * PREFILL_PER_TILE.len(),
            Self::Decode => DECODE_CHUNKS.len() * DECODE_PER_CHUNK.len(),
        };
        self.width() - tiles..self.width()
    }

    /// Which features are powers of two that divide the sizes of an operator; none but those of products.
    pub const fn alignment_features(self) -> Range<usize> {
        match self {
            Self::Gemm => GEMM_ALIGNMENT,
            Self::Prefill | Self::Decode => 0..0,
        }
    }

    /// How many features an operator of this family has.
    pub const fn width(self) -> usize {
        LADDERS * LADDER_RUNGS
            + match self {
                Self::Gemm => GEMM_SCALARS.len() + GEMM_TILES.len() * GEMM_PER_TILE.len(),
                Self::Prefill => {
                    PREFILL_SCALARS.len() + PREFILL_TILES.len() * PREFILL_PER_TILE.len()
                }
                Self::Decode => DECODE_SCALARS.len() + DECODE_CHUNKS.len() * DECODE_PER_CHUNK.len(),
            }
    }
}

/// The numbers of one GPU that enter the features, read out once.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    sms: f64,
    peak: [f64; Dtype::ALL.len()],
    bandwidth: f64,
    l2: f64,
    flops_per_clock: f64,
    launch: f64,
}

/// Times of one operator in seconds.
struct Times {
    /// Arithmetic at peak.
    compute: f64,
    /// Traffic at full bandwidth.
    memory: f64,
    /// The longer of the two.
    roofline: f64,
    /// Launch term plus roofline.
    reference: f64,
}

impl Machine {
    /// Features on this GPU; `launch` is the additive launch term of the software stack.
    ///
    /// A format the part has no matrix units for runs at the peak of the next wider one.
    pub fn new(gpu: &Gpu, launch: Seconds) -> Self {
        let mut peak = [0.0; Dtype::ALL.len()];
        for (slot, dtype) in peak.iter_mut().zip(Dtype::ALL) {
            *slot = gpu.nearest_peak(dtype).flops_per_sec();
        }
        let sms = gpu.sm_count() as f64;
        let fp16 = gpu.nearest_peak(Dtype::Fp16).flops_per_sec();
        Self {
            sms,
            peak,
            bandwidth: gpu.bandwidth().bytes_per_sec(),
            l2: gpu.l2().bytes(),
            flops_per_clock: fp16 / sms / gpu.clock().hertz(),
            launch: launch.secs(),
        }
    }

    /// The times that features are relative to.
    fn times(&self, flops: Flops, bytes: Bytes, dtype: Dtype) -> Times {
        let compute = flops.flops() / self.peak[dtype as usize];
        let memory = bytes.bytes() / self.bandwidth;
        let roofline = compute.max(memory);
        Times {
            compute,
            memory,
            roofline,
            reference: self.launch + roofline,
        }
    }

    /// `max(flops / peak, bytes / bandwidth)`: no kernel is faster. Nothing computes in a collective.
    pub fn roofline(&self, op: &Op) -> Seconds {
        let dtype = op.dtype().unwrap_or(Dtype::Bf16);
        Seconds::from_secs(self.times(op.flops(), op.bytes(), dtype).roofline)
    }

    /// Launch term plus roofline: the scale that a net's output multiplies.
    pub fn reference(&self, op: &Op) -> Seconds {
        Seconds::from_secs(self.launch) + self.roofline(op)
    }

    /// The additive launch term.
    pub fn launch(&self) -> Seconds {
        Seconds::from_secs(self.launch)
    }

    /// By how much blocks of `tile` exceed the output of a product, and their whole waves its blocks: both at least 1.
    ///
    /// Source: tile and wave quantization in the NVIDIA Matrix Multiplication Background User's Guide.
    pub fn quantization(&self, gemm: &Gemm, tile: (u64, u64)) -> (f64, f64) {
        let blocks = (gemm.batch * gemm.m.div_ceil(tile.0) * gemm.n.div_ceil(tile.1)) as f64;
        let waste = blocks * (tile.0 * tile.1) as f64 / (gemm.batch * gemm.m * gemm.n) as f64;
        (waste, (blocks / self.sms).ceil() * self.sms / blocks)
    }

    /// Writes the features of `op` into `out`, which holds [`Family::width`] numbers; returns the reference time.
    ///
    /// # Panics
    /// When `op` belongs to no family or `out` has another length.
    pub fn features(&self, op: &Op, out: &mut [f32]) -> Seconds {
        let mut row = Row { out, next: 0 };
        let reference = match op {
            Op::Gemm(gemm) => self.gemm(gemm, &mut row),
            Op::Attention(attention) if attention.is_decode() => self.decode(attention, &mut row),
            Op::Attention(attention) => self.prefill(attention, &mut row),
            Op::Memory(_) | Op::Collective(_) => panic!("{op} belongs to no learned family"),
        };
        assert_eq!(row.next, row.out.len(), "one value per feature name");
        Seconds::from_secs(reference)
    }

    fn gemm(&self, gemm: &Gemm, row: &mut Row<'_>) -> f64 {
        let [m, n, k, batch] = [gemm.m, gemm.n, gemm.k, gemm.batch].map(|dim| dim as f64);
        let size = gemm.dtype.size() as f64;
        let Times {
            compute,
            memory,
            roofline,
            reference,
        } = self.times(gemm.flops(), gemm.bytes(), gemm.dtype);
        let (left, right) = (batch * m * k * size, batch * n * k * size);
        let output = batch * m * n * gemm.dtype.output_size() as f64;

        row.log(m);
        row.log(n);
        row.log(k);
        row.log(batch);
        row.log(compute / memory);
        row.log(roofline / self.launch);
        row.log(compute / reference);
        row.log(memory / reference);
        row.push(self.launch / reference);
        row.log(left / self.l2);
        row.log(right / self.l2);
        row.log(output / self.l2);
        row.log((left + right + output) / self.l2);
        row.log(m / n);
        for dim in [gemm.m, gemm.n, gemm.k] {
            row.push(f64::from(dim.trailing_zeros().min(MAX_POWER)));
        }
        row.push(f64::from((gemm.n | gemm.k).trailing_zeros().min(MAX_POWER)));
        row.log(self.sms / 100.0);
        row.log(self.flops_per_clock / 2048.0);
        let (second, first) = match gemm.layout {
            Layout::Nn => (0.0, 0.0),
            Layout::Tn => (1.0, 0.0),
            Layout::Nt => (0.0, 1.0),
            Layout::Tt => (1.0, 1.0),
        };
        row.push(first);
        row.push(second);

        row.ladders([m, n, k]);
        for (tile_m, tile_n) in GEMM_TILES {
            let blocks_m = (m / tile_m).ceil();
            let blocks_n = (n / tile_n).ceil();
            let waves = batch * blocks_m * blocks_n / self.sms;
            let padded = batch * blocks_m * tile_m * blocks_n * tile_n;
            // One tile on one SM at peak; a wave takes as long as its tiles, full or not.
            let tile_time = 2.0 * tile_m * tile_n * k / (self.peak[gemm.dtype as usize] / self.sms);
            row.log(padded / (batch * m * n));
            row.push(waves.ceil() / waves - 1.0);
            row.log(waves);
            row.log(waves.ceil() * tile_time / reference);
        }
        reference
    }

    fn prefill(&self, op: &Attention, row: &mut Row<'_>) -> f64 {
        let [batch, heads, kv_heads] = [op.batch, op.heads, op.kv_heads].map(|dim| dim as f64);
        let [seq_q, seq_kv] = [op.seq_q, op.seq_kv].map(|dim| dim as f64);
        let width = (op.head_dim + op.value_dim) as f64;
        let Times {
            compute,
            memory,
            roofline,
            reference,
        } = self.times(op.flops(), op.bytes(), op.dtype);
        let group = heads / kv_heads;

        row.log(batch);
        row.log(heads);
        row.log(kv_heads);
        row.log(group);
        row.log(seq_q);
        row.log(seq_kv);
        row.log(op.head_dim as f64);
        row.log(head_tile(op.head_dim) / op.head_dim as f64);
        row.push(f64::from(u8::from(op.causal)));
        row.push(f64::from(u8::from(op.window > 0)));
        row.log(op.pairs() / (seq_q * seq_kv));
        row.log(compute / memory);
        row.log(roofline / self.launch);
        row.log(compute / reference);
        row.log(memory / reference);
        row.push(self.launch / reference);
        row.log(op.bytes().bytes() / self.l2);
        row.log(batch * kv_heads * seq_kv * width * op.dtype.size() as f64 / self.l2);
        row.log(batch * heads / self.sms);
        row.log(batch * kv_heads / self.sms);
        row.log(self.sms / 100.0);
        row.log(self.flops_per_clock / 2048.0);

        row.ladders([seq_q, batch, heads]);

        for (tile_q, tile_kv, packed) in PREFILL_TILES {
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
            let waves = batch * groups * blocks_q / self.sms;
            let tile_time =
                2.0 * tile_q * tile_kv * width / (self.peak[op.dtype as usize] / self.sms);
            row.log(tiles * tile_q * tile_kv / (batch * heads * op.pairs()));
            row.push(waves.ceil() / waves - 1.0);
            row.log(waves);
            row.log((tiles / self.sms).max(longest) * tile_time / reference);
            row.log(longest * tile_time / reference);
        }
        reference
    }

    fn decode(&self, op: &Attention, row: &mut Row<'_>) -> f64 {
        let [batch, heads, kv_heads] = [op.batch, op.heads, op.kv_heads].map(|dim| dim as f64);
        let keys = op.pairs();
        let width = (op.head_dim + op.value_dim) as f64;
        let Times {
            compute,
            memory,
            roofline,
            reference,
        } = self.times(op.flops(), op.bytes(), op.dtype);
        let group = heads / kv_heads;

        row.log(batch);
        row.log(heads);
        row.log(kv_heads);
        row.log(group);
        row.log(keys);
        row.log(op.head_dim as f64);
        row.log(head_tile(op.head_dim) / op.head_dim as f64);
        row.push(f64::from(u8::from(op.window > 0)));
        row.log(compute / memory);
        row.log(roofline / self.launch);
        row.log(memory / reference);
        row.push(self.launch / reference);
        row.log(op.bytes().bytes() / self.l2);
        row.log(batch * heads / self.sms);
        row.log(batch * kv_heads / self.sms);
        row.log(keys * width * op.dtype.size() as f64 / (self.bandwidth / self.sms) / reference);
        row.log(self.sms / 100.0);
        row.log(self.flops_per_clock / 2048.0);

        row.ladders([keys, batch, heads]);

        let sequences = batch * kv_heads;
        for chunk in DECODE_CHUNKS {
            let chunks = (keys / chunk).ceil();
            let waves = sequences * chunks / self.sms;
            // Split-KV kernels cut a sequence until the SMs are busy; a whole sequence a block is the other end.
            let splits = (self.sms / sequences).clamp(1.0, chunks).floor();
            let balanced =
                (sequences * splits / self.sms).ceil() * (chunks / splits).ceil() * chunk;
            row.log(chunks * chunk / keys);
            row.push(waves.ceil() / waves - 1.0);
            row.log(waves);
            row.log(balanced * self.sms / (sequences * keys));
        }
        reference
    }
}

/// Powers of two beyond this change nothing: 128 elements are a whole tile edge.
const MAX_POWER: u32 = 7;

/// Where the powers of two stand among [`GEMM_SCALARS`].
const GEMM_ALIGNMENT: Range<usize> = 14..18;

/// Scalar features of a product, in order.
const GEMM_SCALARS: [&str; 22] = [
    "ln_m",
    "ln_n",
    "ln_k",
    "ln_batch",
    "ln_intensity",
    "ln_roofline_per_launch",
    "ln_compute_share",
    "ln_memory_share",
    "launch_share",
    "ln_left_per_l2",
    "ln_right_per_l2",
    "ln_output_per_l2",
    "ln_operands_per_l2",
    "ln_aspect",
    "power_of_two_m",
    "power_of_two_n",
    "power_of_two_k",
    "power_of_two_n_k",
    "ln_sms",
    "ln_flops_per_clock",
    "left_transposed",
    "right_transposed",
];

/// Rungs of the ladder a dimension is also given as: rung `i` rises from 0 to 1 over `[2^i, 2^(i+1)]`.
///
/// The steps let a small rectifier net bend at each power of two, where libraries switch kernels;
/// piecewise-linear encoding as in Gorishniy et al., arXiv 2203.05556.
const LADDER_RUNGS: usize = 16;

/// Dimensions given as ladders in each family.
const LADDERS: usize = 3;

/// Output tiles `(rows, columns)` of the library kernels, from the skinny ones of decoding to the widest.
const GEMM_TILES: [(f64, f64); 12] = [
    (256.0, 128.0),
    (128.0, 256.0),
    (192.0, 128.0),
    (128.0, 192.0),
    (128.0, 128.0),
    (256.0, 64.0),
    (64.0, 256.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (64.0, 64.0),
    (32.0, 128.0),
    (16.0, 64.0),
];

/// Features of each tile of a product.
const GEMM_PER_TILE: [&str; 4] = [
    "ln_tile_waste",
    "last_wave_idle",
    "ln_waves",
    "ln_wave_time",
];

/// Scalar features of prefill attention, in order.
const PREFILL_SCALARS: [&str; 22] = [
    "ln_batch",
    "ln_heads",
    "ln_kv_heads",
    "ln_group",
    "ln_seq_q",
    "ln_seq_kv",
    "ln_head_dim",
    "ln_head_dim_waste",
    "causal",
    "windowed",
    "ln_visible_share",
    "ln_intensity",
    "ln_roofline_per_launch",
    "ln_compute_share",
    "ln_memory_share",
    "launch_share",
    "ln_operands_per_l2",
    "ln_cache_per_l2",
    "ln_heads_per_sm",
    "ln_kv_heads_per_sm",
    "ln_sms",
    "ln_flops_per_clock",
];

/// Tiles `(queries, keys, grouped heads packed)` of flash-attention kernels.
const PREFILL_TILES: [(f64, f64, bool); 6] = [
    (128.0, 128.0, false),
    (128.0, 64.0, false),
    (64.0, 64.0, false),
    (192.0, 128.0, false),
    (128.0, 128.0, true),
    (64.0, 128.0, true),
];

/// Features of each tile of prefill attention.
const PREFILL_PER_TILE: [&str; 5] = [
    "ln_tile_waste",
    "last_wave_idle",
    "ln_waves",
    "ln_busiest_sm_time",
    "ln_longest_block_time",
];

/// Scalar features of decode attention, in order.
const DECODE_SCALARS: [&str; 18] = [
    "ln_batch",
    "ln_heads",
    "ln_kv_heads",
    "ln_group",
    "ln_keys",
    "ln_head_dim",
    "ln_head_dim_waste",
    "windowed",
    "ln_intensity",
    "ln_roofline_per_launch",
    "ln_memory_share",
    "launch_share",
    "ln_cache_per_l2",
    "ln_heads_per_sm",
    "ln_kv_heads_per_sm",
    "ln_sequence_time",
    "ln_sms",
    "ln_flops_per_clock",
];

/// Keys that one step of a decode kernel takes.
const DECODE_CHUNKS: [f64; 3] = [64.0, 128.0, 512.0];

/// Features of each chunk length of decode attention.
const DECODE_PER_CHUNK: [&str; 4] = [
    "ln_chunk_waste",
    "last_wave_idle",
    "ln_waves",
    "ln_imbalance",
];

/// Width that a flash kernel runs a head of `head_dim` at: its own tile up to 64, 128, 192 or 256.
pub fn head_tile(head_dim: u64) -> f64 {
    [64, 128, 192, 256]
        .into_iter()
        .find(|&tile| head_dim <= tile)
        .unwrap_or(head_dim.next_multiple_of(64)) as f64
}

/// The names of a family's features in order.
pub fn names(family: Family) -> Vec<String> {
    let (scalars, ladders, tiles, per_tile): (&[&str], _, Vec<String>, &[&str]) = match family {
        Family::Gemm => {
            let tiles = GEMM_TILES.map(|(rows, columns)| format!("{rows}x{columns}"));
            (&GEMM_SCALARS, ["m", "n", "k"], tiles.into(), &GEMM_PER_TILE)
        }
        Family::Prefill => {
            let suffix = |packed| if packed { "_packed" } else { "" };
            let tiles = PREFILL_TILES.map(|(q, kv, packed)| format!("{q}x{kv}{}", suffix(packed)));
            (
                &PREFILL_SCALARS,
                ["seq_q", "batch", "heads"],
                tiles.into(),
                &PREFILL_PER_TILE,
            )
        }
        Family::Decode => {
            let tiles = DECODE_CHUNKS.map(|chunk| chunk.to_string());
            (
                &DECODE_SCALARS,
                ["keys", "batch", "heads"],
                tiles.into(),
                &DECODE_PER_CHUNK,
            )
        }
    };
    let rungs = ladders
        .iter()
        .flat_map(|dim| (0..LADDER_RUNGS).map(move |rung| format!("ladder_{dim}_{rung}")));
    let tiled = tiles
        .iter()
        .flat_map(|tile| per_tile.iter().map(move |name| format!("{name}_{tile}")));
    scalars
        .iter()
        .map(|name| (*name).to_owned())
        .chain(rungs)
        .chain(tiled)
        .collect()
}

/// A digest of the names, their order and the meaning of this file: a net trained under another one does not load.
pub fn schema_hash(family: Family) -> String {
    const MEANING: u64 = 1; // raise when a formula above changes without a name changing
    let text = format!("{MEANING},{}", names(family).join(","));
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// Writes one feature after the other.
struct Row<'a> {
    out: &'a mut [f32],
    next: usize,
}

impl Row<'_> {
    fn push(&mut self, value: f64) {
        self.out[self.next] = value as f32;
        self.next += 1;
    }

    fn ladders(&mut self, dims: [f64; LADDERS]) {
        for dim in dims {
            let height = (dim as f32).log2();
            for rung in 0..LADDER_RUNGS {
                self.push(f64::from((height - rung as f32).clamp(0.0, 1.0)));
            }
        }
    }

    fn log(&mut self, value: f64) {
        self.push(f64::from((value as f32).ln()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Pass;

    fn row(op: &Op) -> (Seconds, Vec<f32>) {
        let machine = Machine::new(Gpu::find("h200").unwrap(), Seconds::from_micros(2.5));
        let mut row = vec![f32::NAN; Family::of(op).unwrap().width()];
        (machine.features(op, &mut row), row)
    }

    fn gemm(m: u64, n: u64, k: u64) -> Op {
        Op::Gemm(Gemm {
            m,
            n,
            k,
            batch: 1,
            layout: Layout::Tn,
            dtype: Dtype::Bf16,
        })
    }

    fn attention(seq_q: u64, seq_kv: u64) -> Op {
        Op::Attention(Attention {
            batch: 3,
            heads: 24,
            kv_heads: 8,
            seq_q,
            seq_kv,
            head_dim: 80,
            value_dim: 80,
            causal: true,
            window: 0,
            pass: Pass::Forward,
            dtype: Dtype::Bf16,
        })
    }

    fn named(op: &Op, name: &str) -> f32 {
        let at = names(Family::of(op).unwrap())
            .iter()
            .position(|other| other == name);
        row(op).1[at.unwrap_or_else(|| panic!("no feature {name}"))]
    }

    #[test]
    fn every_family_names_each_feature_once_and_fills_it_with_a_number() {
        for op in [
            gemm(1, 1, 1),
            gemm(4096, 50257, 12288),
            attention(1, 4097),
            attention(777, 777),
        ] {
            let family = Family::of(&op).unwrap();
            let names = names(family);
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(
                (names.len(), unique.len()),
                (family.width(), family.width())
            );
            let (reference, values) = row(&op);
            assert!(
                reference.secs() > 0.0 && values.iter().all(|value| value.is_finite()),
                "{op}"
            );
        }
    }

    #[test]
    fn columns_that_have_a_name_of_their_own_are_what_they_say() {
        for family in Family::ALL {
            let names = names(family);
            for (place, name) in names.iter().enumerate() {
                let aligns = name.starts_with("power_of_two");
                assert_eq!(
                    family.alignment_features().contains(&place),
                    aligns,
                    "{name}"
                );
                let tiled = name.contains("last_wave_idle") || name.contains("_waste_");
                assert!(!tiled || family.tile_features().contains(&place), "{name}");
            }
            let first = &names[family.tile_features().start];
            assert!(first.contains("waste"), "{first}");
            assert_eq!(family.tile_features().end, names.len());
        }
    }

    #[test]
    fn blocks_exceed_the_output_and_their_waves_the_blocks() {
        // 9 x 18 blocks of 256x128 cover 2304 x 2304, 64 columns more than 2240; 162 blocks are 3 waves of 80.
        let Op::Gemm(product) = gemm(2304, 2240, 4096) else {
            panic!("a product")
        };
        let v100 = Machine::new(Gpu::find("v100").unwrap(), Seconds::from_micros(3.0));
        let (waste, idle) = v100.quantization(&product, (256, 128));
        assert!((waste - 2304.0 / 2240.0).abs() < 1e-12, "{waste}");
        assert!((idle - 240.0 / 162.0).abs() < 1e-12, "{idle}");
        // One step before, 153 blocks are 2 waves; twice the product has twice the blocks.
        let narrower = Gemm { n: 2176, ..product };
        let (waste, idle) = v100.quantization(&narrower, (256, 128));
        assert!((waste - 1.0).abs() < 1e-12 && (idle - 160.0 / 153.0).abs() < 1e-12);
        let (_, idle) = v100.quantization(
            &Gemm {
                batch: 2,
                ..narrower
            },
            (256, 128),
        );
        assert!((idle - 320.0 / 306.0).abs() < 1e-12, "{idle}");
    }

    #[test]
    fn waves_follow_the_textbook_example() {
        // 2304 x 4096 x 3328 in 256x128 tiles: 9 x 26 = 234 blocks; on 132 SMs 1.77 waves run as 2.
        let op = gemm(2304, 3328, 4096);
        assert!((named(&op, "ln_waves_256x128") - (234.0f32 / 132.0).ln()).abs() < 1e-6);
        assert!((named(&op, "last_wave_idle_256x128") - (2.0 * 132.0 / 234.0 - 1.0)).abs() < 1e-6);
        // 256 wide is 4 tiles of 128x128, 257 wide is 6 (NVIDIA's example of tile quantization).
        let waste = |n| named(&gemm(256, n, 1024), "ln_tile_waste_128x128");
        assert_eq!(waste(256), 0.0);
        assert!((waste(257) - (6.0f32 * 128.0 * 128.0 / (256.0 * 257.0)).ln()).abs() < 1e-6);
    }

    #[test]
    fn the_reference_time_is_the_launch_term_plus_the_roofline() {
        let (reference, _) = row(&gemm(8192, 8192, 8192));
        let expected = 2.5 + 2.0 * 8192f64.powi(3) / 989.4e12 * 1e6;
        assert!(
            (reference.micros() / expected - 1.0).abs() < 1e-3,
            "{reference}"
        );
    }

    #[test]
    fn a_head_of_80_runs_in_the_tile_of_128() {
        assert_eq!(
            [64, 80, 128, 129, 256, 300].map(head_tile),
            [64.0, 128.0, 128.0, 192.0, 256.0, 320.0]
        );
    }

    #[test]
    fn the_schema_hash_tells_families_apart() {
        assert_ne!(schema_hash(Family::Gemm), schema_hash(Family::Prefill));
        assert_eq!(schema_hash(Family::Decode), schema_hash(Family::Decode));
    }
}
