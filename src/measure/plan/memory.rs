//! The set of memory-bound kernels: from one kilobyte to what the longest call moves, columns also odd.

use super::sobol::Sobol;
use super::{Sizing, cold};
use crate::measure::device::Case;
use crate::ops::Memory;
use crate::ops::MemoryKind;
use crate::ops::Op;
use crate::ops::Pass;

/// What is timed, with the passes that there are; a device refuses what it lacks.
const KERNELS: [(MemoryKind, Pass); 17] = [
    (MemoryKind::Softmax, Pass::Forward),
    (MemoryKind::Softmax, Pass::Backward),
    (MemoryKind::LayerNorm, Pass::Forward),
    (MemoryKind::LayerNorm, Pass::Backward),
    (MemoryKind::RmsNorm, Pass::Forward),
    (MemoryKind::RmsNorm, Pass::Backward),
    (MemoryKind::Gelu, Pass::Forward),
    (MemoryKind::Gelu, Pass::Backward),
    (MemoryKind::Swiglu, Pass::Forward),
    (MemoryKind::Swiglu, Pass::Backward),
    (MemoryKind::CrossEntropy, Pass::Forward),
    (MemoryKind::CrossEntropy, Pass::Backward),
    (MemoryKind::Rotary, Pass::Forward),
    (MemoryKind::Add, Pass::Forward),
    (MemoryKind::Embedding, Pass::Forward),
    (MemoryKind::Adam, Pass::Forward),
    (MemoryKind::Copy, Pass::Forward),
];

/// Least traffic, and widths of one row.
const LEAST_BYTES: f64 = 1024.0;
const COLUMNS: (f64, f64) = (64.0, 65536.0);

/// Sobol points over the logarithms of bytes and columns, kernels in turn; a third of the widths is free, the rest are
/// multiples of 8 and 64.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let Some(bandwidth) = sizing.scale.bandwidth() else {
        return Vec::new();
    };
    let most = (bandwidth.bytes_per_sec() * sizing.plan.longest.secs()).min(sizing.most.bytes());
    let log = |(least, most): (f64, f64), at: f64| (least.ln() + (most / least).ln() * at).exp();
    let sequence = Sobol::new(sizing.seed, "memory");
    let cases = sequence
        .take(20 * wanted.max(1))
        .enumerate()
        .filter_map(|(index, point)| {
            let (kind, pass) = KERNELS[index % KERNELS.len()];
            let unit = [1, 8, 64][index / KERNELS.len() % 3];
            let cols = (log(COLUMNS, point[1]) as u64).next_multiple_of(unit);
            let dtype = sizing.offer.dtype(point[2]);
            let row = Memory {
                kind,
                rows: 1,
                cols,
                pass,
                dtype,
            };
            let bytes = log((LEAST_BYTES, most.max(2.0 * LEAST_BYTES)), point[0]);
            let rows = (bytes / row.bytes().bytes()).round() as u64;
            let op = Op::Memory(Memory {
                rows: rows.max(1),
                ..row
            });
            sizing.fits(&op).then(|| cold(op))
        });
    cases.take(wanted).collect()
}
