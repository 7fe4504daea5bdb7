//! Dense matrix multiplication as nets see it.
//!
//! Tile and wave counts follow the NVIDIA Matrix Multiplication Background User's Guide
//! (tile and wave quantization) and arXiv 2401.14489.

use super::coverage::note;
use super::rates::Times;
use super::row::FeatureRow;
use super::sampling::{Proposal, alignment, size, sizes};
use super::{
    Caveat, Caveats, Coverage, Extent, GpuRates, Grouping, Kernels, Learning, Neighbour, OddSizes, Question, Variant,
};
use crate::ops::{Dtype, Gemm, Layout, Op};
use crate::tiles::{Tile, Waves};

/// Output tiles of the library kernels, from the widest to the skinny ones of decoding.
const TILES: [Tile; 12] = [
    Tile::new(256, 128),
    Tile::new(128, 256),
    Tile::new(192, 128),
    Tile::new(128, 192),
    Tile::new(128, 128),
    Tile::new(256, 64),
    Tile::new(64, 256),
    Tile::new(128, 64),
    Tile::new(64, 128),
    Tile::new(64, 64),
    Tile::new(32, 128),
    Tile::new(16, 64),
];

/// Sizes are rounded up to this many elements to find the aligned neighbour of a GEMM: 128 bytes of 16-bit
/// elements, NVIDIA Matrix Multiplication Background User's Guide.
const ALIGNED: u64 = 64;

/// Sizes along which some operand lies in memory element by element: those whose alignment decides about loads.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Contiguous {
    m: bool,
    n: bool,
    k: bool,
}

impl Contiguous {
    const fn of(layout: Layout) -> Self {
        let [m, n, k] = layout.contiguous();
        Self { m, n, k }
    }

    /// Those that are no multiple of `alignment`.
    fn misaligned(self, op: &Gemm, alignment: u64) -> Self {
        Self {
            m: self.m && !op.m.is_multiple_of(alignment),
            n: self.n && !op.n.is_multiple_of(alignment),
            k: self.k && !op.k.is_multiple_of(alignment),
        }
    }

    /// The GEMM with the sizes along which no operand is contiguous rounded to multiples of 8: no row of memory starts
    /// elsewhere for them, and tables hold few that 8 does not divide but where they lie contiguously, and cost. An odd
    /// reduction of weight gradients was timed beside other odd sizes, where it stays.
    ///
    /// Where 64 divides the contiguous sizes, `m` is rounded up to a multiple of it, too: kernels compute whole tiles, and
    /// our own tables hold hardly another size there, so that nets would guess (12 % more at m = 2683 than at 2688).
    fn rounded(self, op: Gemm) -> Gemm {
        let is_aligned = self.misaligned(&op, ALIGNED) == Self::default();
        let round = |stays: bool, size: u64| match stays {
            true => size,
            false => nearest(size, 1 << size.ilog2().min(3)),
        };
        let is_odd = !(op.m | op.n).is_multiple_of(8);
        Gemm {
            m: match is_aligned && !self.m && op.m > ALIGNED {
                true => op.m.next_multiple_of(ALIGNED),
                false => round(self.m, op.m),
            },
            k: round(self.k || is_odd, op.k),
            ..op
        }
    }

    /// The GEMM in a layout that no row has, with the reduction rounded to a multiple of 64 if no operand is contiguous
    /// along it: in the layouts of the rows one is, and nets know its alignment as a cost.
    fn rounded_reduction(self, op: Gemm) -> Gemm {
        let unit = (1 << op.k.ilog2().saturating_sub(2)).min(ALIGNED);
        Gemm {
            k: if self.k { op.k } else { nearest(op.k, unit) },
            ..op
        }
    }

    /// A GEMM and its aligned, unbatched neighbour, as the sub-model of odd sizes is asked: in fp16, the one format it
    /// knows, and with a misaligned `m` as the `n` of the transposed GEMM.
    fn pair(self, op: Gemm, covered: Gemm) -> [Op; 2] {
        let contiguous = Self::of(op.layout);
        let is_row = !contiguous.m && op.batch == 1;
        [op, covered].map(|gemm| {
            let mut gemm = contiguous.rounded(gemm);
            if is_row {
                gemm.m = quarter_octave(gemm.m);
            }
            let turned = self.m && !self.n;
            let (m, n) = if turned { (gemm.n, gemm.m) } else { (gemm.m, gemm.n) };
            Op::Gemm(Gemm {
                m,
                n,
                dtype: Dtype::Fp16,
                ..gemm
            })
        })
    }
}

/// The nearest of four sizes an octave: what misaligned rows of memory cost hardly changes with how many there are, and so
/// one row more is answered by the same ratio.
fn quarter_octave(size: u64) -> u64 {
    nearest(size, 1 << size.ilog2().saturating_sub(2))
}

/// The nearest multiple.
const fn nearest(size: u64, step: u64) -> u64 {
    (size + step / 2) / step * step
}

/// GEMMs.
pub(super) struct Gemms;

fn extents(op: &Gemm) -> [(Extent, u64); 4] {
    [
        (Extent::M, op.m),
        (Extent::N, op.n),
        (Extent::K, op.k),
        (Extent::Batch, op.batch),
    ]
}

impl Kernels for Gemms {
    type Shape = Gemm;

    const GROUPINGS: &'static [Grouping<Gemm>] = &[
        Grouping {
            by: "m",
            of: |op| op.m,
            bounds: &[32, 512, 4096],
        },
        Grouping {
            by: "min(n, k)",
            of: |op| op.n.min(op.k),
            bounds: &[512, 2048, 8192],
        },
    ];

    const LEARNING: Learning = Learning {
        trees: [600, 2500],
        pseudo_labels: [40_000, 90_000],
        ..Learning::USUAL
    };

    fn shape(op: &Op) -> Option<Gemm> {
        match op {
            Op::Gemm(gemm) => Some(*gemm),
            _ => None,
        }
    }

    fn variant(op: &Gemm) -> Variant {
        Variant::Format(op.dtype)
    }

    fn roofline(op: &Gemm, gpu: &GpuRates) -> f64 {
        gpu.times(op.flops(), op.bytes(), op.dtype).roofline
    }

    #[inline(always)] // into a function that is compiled for vectors
    fn features(op: &Gemm, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
        let [m, n, k, batch] = [op.m, op.n, op.k, op.batch].map(|dim| dim as f64);
        let [left_size, right_size] = op.dtype.operand_sizes();
        let Times {
            compute,
            memory,
            roofline,
            reference,
        } = gpu.times(op.flops(), op.bytes(), op.dtype);
        let left = batch * m * k * left_size;
        let right = batch * n * k * right_size;
        let output = batch * m * n * op.dtype.output_size() as f64;

        row.log("ln_m", m);
        row.log("ln_n", n);
        row.log("ln_k", k);
        row.log("ln_batch", batch);
        row.log("ln_intensity", compute / memory);
        row.log("ln_roofline_per_launch", roofline / gpu.launch);
        row.log("ln_compute_share", compute / reference);
        row.log("ln_memory_share", memory / reference);
        row.number("launch_share", gpu.launch / reference);
        row.log("ln_left_per_l2", left / gpu.l2);
        row.log("ln_right_per_l2", right / gpu.l2);
        row.log("ln_output_per_l2", output / gpu.l2);
        row.log("ln_operands_per_l2", (left + right + output) / gpu.l2);
        row.log("ln_aspect", m / n);
        row.power_of_two("m", op.m, gpu.largest_power);
        row.power_of_two("n", op.n, gpu.largest_power);
        row.power_of_two("k", op.k, gpu.largest_power);
        row.power_of_two("n_k", op.n | op.k, gpu.largest_power);
        row.log("ln_sms", gpu.sms / 100.0);
        row.log("ln_flops_per_clock", gpu.flops_per_clock / 2048.0);
        row.flag("left_transposed", matches!(op.layout, Layout::Nt | Layout::Tt));
        row.flag("right_transposed", matches!(op.layout, Layout::Tn | Layout::Tt));

        row.bins("m", m);
        row.bins("n", n);
        row.bins("k", k);
        // Of all tiles in one loop, so that compilers turn it into vectors.
        let mut fills = [[0.0; 4]; TILES.len()];
        for (fill, tile) in fills.iter_mut().zip(TILES) {
            let waves = Waves::new(op, tile, gpu.sms);
            let (count, rounds) = (waves.waves(), waves.rounds());
            // One tile on one SM at peak; a wave takes as long as its tiles, full or not.
            let tile_time = 2.0 * tile.area() * k / (gpu.peak[op.dtype as usize] / gpu.sms);
            let wave_time = rounds * tile_time / reference;
            *fill = [waves.waste(), rounds / count - 1.0, count, wave_time];
        }
        for (tile, [waste, idle, waves, wave_time]) in TILES.into_iter().zip(fills) {
            row.tile(format_args!("{tile}"));
            row.log("ln_tile_waste", waste);
            row.number("last_wave_idle", idle);
            row.log("ln_waves", waves);
            row.log("ln_wave_time", wave_time);
        }
        reference
    }

    /// All GEMMs with these weights, whatever `m`.
    fn split_key(op: &Gemm) -> [u64; 4] {
        [2, op.n, op.k, 0]
    }

    fn cover(op: &Gemm, coverage: &mut Coverage) {
        coverage.widen(extents(op));
        // Of nothing so far the greatest common power of two is 0.
        let known = coverage.alignment;
        coverage.alignment = alignment([op.n, op.k, known].iter());
        note(&mut coverage.layouts, op.layout);
    }

    /// The nearest GEMM of the kind that was measured: aligned, batch members stacked along `m`.
    fn nearest_covered(op: &Gemm, asked: &Question<'_>) -> Option<Neighbour> {
        let coverage = asked.coverage;
        let mut caveats = Caveats::default();
        let timed = Gemm {
            dtype: asked.variant.dtype().unwrap_or(op.dtype),
            ..*op
        };
        let contiguous = Contiguous::of(op.layout);
        // Tables of several layouts are our own, whose sizes are drawn freely.
        let is_free = coverage.layouts.len() > 1;
        let penalised = contiguous.misaligned(op, coverage.alignment);
        let batched = op.batch > 1 && coverage.clamp(Extent::Batch, op.batch) == 1;
        let was_measured = coverage.layouts.contains(&op.layout);
        caveats.insert_if(!was_measured, Caveat::OtherLayout);
        let mut covered = match is_free {
            true => contiguous.rounded(timed),
            false => timed,
        };
        if !was_measured {
            covered = contiguous.rounded_reduction(covered);
        }
        // A power of two divides both exactly when it divides their union of bits.
        let unlike = !(op.n | covered.k).is_multiple_of(coverage.alignment);
        if penalised.m || unlike {
            covered.n = op.n.next_multiple_of(ALIGNED);
            covered.k = op.k.next_multiple_of(ALIGNED);
        }
        if penalised.m {
            covered.m = op.m.next_multiple_of(ALIGNED);
        }
        // What costs where odd sizes do: those along which an operand is contiguous.
        let odd = match asked.odd_sizes {
            OddSizes::Free => covered,
            _ => Gemm {
                n: if penalised.n { op.n } else { covered.n },
                k: if penalised.k { op.k } else { covered.k },
                ..timed
            },
        };
        if batched {
            covered.m = covered.m.saturating_mul(op.batch);
            covered.batch = 1;
        }
        coverage.check(extents(&covered), &mut caveats);
        let misaligned = penalised != Contiguous::default();
        let mut correction = None;
        if misaligned || batched {
            if asked.odd_sizes == OddSizes::Unknown {
                caveats.insert(Caveat::AlignmentUnknown);
            } else {
                correction = Some(penalised.pair(odd, covered));
                caveats.insert_if(misaligned, Caveat::Alignment);
            }
            caveats.insert_if(batched, Caveat::Batched);
        }
        // The paper's sweeps through single sizes step by two, but for one along `k`.
        let odd = contiguous.misaligned(op, 2) != Contiguous::default();
        caveats.insert_if(odd && op.batch == 1 && !misaligned && !is_free, Caveat::Alignment);
        // Beyond the largest sizes the share of the roofline stays as it was at the largest.
        if caveats.contains(Caveat::OutOfDomain) && !batched {
            covered.m = coverage.clamp(Extent::M, covered.m);
            covered.n = coverage.clamp(Extent::N, covered.n);
            covered.k = coverage.clamp(Extent::K, covered.k);
            covered.batch = coverage.clamp(Extent::Batch, covered.batch);
        }
        Some(Neighbour {
            covered: Op::Gemm(covered),
            timed: Op::Gemm(timed),
            factor: 1.0,
            scale: 1.0,
            correction,
            caveats,
        })
    }

    fn proposal(measured: &[Gemm]) -> Proposal {
        let known = measured.to_vec();
        let [m, n, k] = [|op: &Gemm| op.m, |op: &Gemm| op.n, |op: &Gemm| op.k].map(|size| sizes(&known, size));
        let step = alignment(n.iter().chain(&k));
        Box::new(move |random| {
            let mut op = known[random.below(known.len())];
            op.m = size(random, &m, 1);
            op.n = size(random, &n, step);
            op.k = size(random, &k, step);
            Some(Op::Gemm(op))
        })
    }

    fn usual() -> Op {
        Op::Gemm(Gemm::new(4096, 4096, 4096))
    }

    fn examples() -> Vec<Op> {
        let gemm = Gemm::new;
        let layouts = Layout::ALL.map(|layout| Gemm {
            layout,
            ..gemm(768, 3072, 1536)
        });
        let formats = Dtype::ELEMENTS.map(|dtype| Gemm {
            dtype,
            ..gemm(1, 50257, 4097)
        });
        let others = [
            gemm(1, 1, 1),
            gemm(4096, 50257, 12288),
            gemm(131_072, 96, 28672),
            Gemm {
                batch: 96,
                ..gemm(2048, 2048, 80)
            },
        ];
        let all = layouts.into_iter().chain(formats).chain(others);
        all.map(Op::Gemm).collect()
    }
}
