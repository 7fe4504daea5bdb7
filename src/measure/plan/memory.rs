//! The set of memory-bound kernels: from one kilobyte to the traffic of the longest call, columns
//! also odd.

use super::Sizing;
use super::sobol::{Sobol, log_between};
use crate::measure::device::Case;
use crate::ops::{Memory, MemoryKind, Op, Pass};

/// Kernels of the set with both passes; a device refuses those that it lacks.
const BOTH_PASSES: [MemoryKind; 6] = [
    MemoryKind::Softmax,
    MemoryKind::LayerNorm,
    MemoryKind::RmsNorm,
    MemoryKind::Gelu,
    MemoryKind::Swiglu,
    MemoryKind::CrossEntropy,
];

/// Kernels of the set whose backward pass does not exist or is equal to the forward pass.
const FORWARD_ONLY: [MemoryKind; 5] = [
    MemoryKind::Rotary,
    MemoryKind::Add,
    MemoryKind::Embedding,
    MemoryKind::Adam,
    MemoryKind::Copy,
];

/// Least traffic of a kernel.
const LEAST_BYTES: f64 = 1024.0;

/// Range of a row's columns.
const COLUMNS: (f64, f64) = (64.0, 65536.0);

/// Sobol points over the logarithms of bytes and columns, kernels in turn; a third of the columns
/// is free, a third multiples of 8, a third of 64.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let Some(bandwidth) = sizing.rates.bandwidth() else {
        return Vec::new();
    };
    let most =
        (bandwidth.bytes_per_sec() * sizing.plan.longest.secs()).min(sizing.max_bytes.bytes());
    let both = BOTH_PASSES.into_iter();
    let both = both.flat_map(|kind| Pass::ALL.map(|pass| (kind, pass)));
    let forward = FORWARD_ONLY.map(|kind| (kind, Pass::Forward));
    let kernels: Vec<_> = both.chain(forward).collect();
    let sequence = Sobol::new(sizing.seed, "memory");
    let cases = sequence
        .take(20 * wanted.max(1))
        .enumerate()
        .filter_map(|(index, point)| {
            let (kind, pass) = kernels[index % kernels.len()];
            let unit = [1, 8, 64][index / kernels.len() % 3];
            let cols = (log_between(COLUMNS, point[1]) as u64).next_multiple_of(unit);
            let dtype = sizing.supported.dtype(point[2]);
            let row = Memory {
                kind,
                rows: 1,
                cols,
                pass,
                dtype,
            };
            let bytes = log_between((LEAST_BYTES, most.max(2.0 * LEAST_BYTES)), point[0]);
            let rows = (bytes / row.bytes().bytes()).round() as u64;
            let op = Op::Memory(Memory {
                rows: rows.max(1),
                ..row
            });
            sizing.fits(&op).then(|| Case::cold(op))
        });
    cases.take(wanted).collect()
}
