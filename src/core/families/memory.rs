//! Memory-bound kernels as nets see them.

use super::rates::Times;
use super::row::{FeatureRow, TILE_EDGE};
use super::sampling::{Proposal, alignment, size, sizes};
use super::{Caveats, Coverage, Extent, GpuRates, Kernels, Learning, Neighbour, Question, Variant};
use crate::ops::{Dtype, Memory, MemoryKind, Op, Pass};

/// Rows that one block of a row-wise kernel takes: one a block, one a warp of a block of four, one a warp of eight.
const ROWS_A_BLOCK: [f64; 3] = [1.0, 4.0, 8.0];

/// The first number of their split keys.
pub const KEY: u64 = 4;

/// Memory-bound kernels.
pub(super) struct MemoryBound;

fn extents(op: &Memory) -> [(Extent, u64); 3] {
    let backward = u64::from(op.pass == Pass::Backward);
    [
        (Extent::Rows, op.rows),
        (Extent::Cols, op.cols),
        (Extent::Backward, backward),
    ]
}

impl Kernels for MemoryBound {
    type Shape = Memory;

    const LEARNING: Learning = Learning {
        hidden: &[48; 2],
        ..Learning::USUAL
    };

    fn shape(op: &Op) -> Option<Memory> {
        match op {
            Op::Memory(op) => Some(*op),
            _ => None,
        }
    }

    fn variant(op: &Memory) -> Variant {
        Variant::Kernel(op.kind, op.dtype)
    }

    fn roofline(op: &Memory, gpu: &GpuRates) -> f64 {
        gpu.times(op.flops(), op.bytes(), op.dtype).roofline
    }

    fn features(op: &Memory, gpu: &GpuRates, row: &mut impl FeatureRow) -> f64 {
        let [rows, cols] = [op.rows, op.cols].map(|dim| dim as f64);
        let bytes = op.bytes().bytes();
        let Times {
            memory,
            roofline,
            reference,
            ..
        } = gpu.times(op.flops(), op.bytes(), op.dtype);

        row.log("ln_rows", rows);
        row.log("ln_cols", cols);
        row.log("ln_roofline_per_launch", roofline / gpu.launch);
        row.log("ln_memory_share", memory / reference);
        row.number("launch_share", gpu.launch / reference);
        row.log("ln_bytes_per_l2", bytes / gpu.l2);
        row.log("ln_rows_per_sm", rows / gpu.sms);
        row.power_of_two("cols", op.cols, TILE_EDGE);
        row.flag("backward", op.pass == Pass::Backward);
        row.log("ln_sms", gpu.sms / 100.0);

        row.bins("rows", rows);
        row.bins("cols", cols);
        for each in ROWS_A_BLOCK {
            let waves = (rows / each).ceil() / gpu.sms;
            row.tile(format_args!("{each}"));
            row.number("last_wave_idle", waves.ceil() / waves - 1.0);
            row.log("ln_waves", waves);
        }
        reference
    }

    /// All kernels over this width; an optimizer step, which has no columns, alone.
    fn split_key(op: &Memory) -> [u64; 4] {
        [KEY, op.cols, if op.cols == 1 { op.rows } else { 0 }, 0]
    }

    fn cover(op: &Memory, coverage: &mut Coverage) {
        coverage.widen(extents(op));
    }

    fn nearest_covered(op: &Memory, asked: &Question<'_>) -> Option<Neighbour> {
        let covered = Memory {
            dtype: asked.variant.dtype().unwrap_or(op.dtype),
            ..*op
        };
        let mut caveats = Caveats::default();
        asked.coverage.check(extents(op), &mut caveats);
        Some(Neighbour::same(Op::Memory(covered), caveats))
    }

    fn proposal(measured: &[Memory]) -> Proposal {
        let known = measured.to_vec();
        let rows = sizes(&known, |op| op.rows);
        let cols = sizes(&known, |op| op.cols);
        let step = alignment(cols.iter());
        Box::new(move |random| {
            let mut op = known[random.below(known.len())];
            op.rows = size(random, &rows, 1);
            op.cols = size(random, &cols, step);
            Some(Op::Memory(op))
        })
    }

    fn examples() -> Vec<Op> {
        let shapes = [(1, 1), (4096, 4096), (333, 50257), (131_072, 80)];
        let kinds = [
            MemoryKind::RmsNorm,
            MemoryKind::Adam,
            MemoryKind::Dropout,
            MemoryKind::Copy,
        ];
        let formats = [Dtype::Bf16, Dtype::Fp32, Dtype::Fp16, Dtype::Fp8];
        let memory = |(kind, dtype), (rows, cols), pass| {
            Op::Memory(Memory {
                kind,
                rows,
                cols,
                pass,
                dtype,
            })
        };
        let chosen = kinds.into_iter().zip(formats).zip(shapes);
        let both = chosen.flat_map(|(kernel, shape)| Pass::ALL.map(|pass| memory(kernel, shape, pass)));
        both.collect()
    }
}
