//! The set of memory-bound kernels: from one kilobyte to the traffic of the longest call, columns also
//! odd.

use super::Sizing;
use super::sobol::{Sobol, log_between};
use crate::measure::device::Case;
use crate::ops::{Memory, MemoryKind, Op, Pass};

/// Kernels and passes of the set; a device refuses those that it lacks.
const KERNELS: [(MemoryKind, Pass); 17] = {
    use MemoryKind as K;
    use Pass::{Backward, Forward};
    [
        (K::Softmax, Forward),
        (K::Softmax, Backward),
        (K::LayerNorm, Forward),
        (K::LayerNorm, Backward),
        (K::RmsNorm, Forward),
        (K::RmsNorm, Backward),
        (K::Gelu, Forward),
        (K::Gelu, Backward),
        (K::Swiglu, Forward),
        (K::Swiglu, Backward),
        (K::CrossEntropy, Forward),
        (K::CrossEntropy, Backward),
        (K::Rotary, Forward),
        (K::Add, Forward),
        (K::Embedding, Forward),
        (K::Adam, Forward),
        (K::Copy, Forward),
    ]
};

/// Least traffic of a kernel.
const LEAST_BYTES: f64 = 1024.0;

/// Range of a row's columns.
const COLUMNS: (f64, f64) = (64.0, 65536.0);

/// Sobol points over the logarithms of bytes and columns, kernels in turn; a third of the columns is
/// free, a third multiples of 8, a third of 64.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let Some(bandwidth) = sizing.rates.bandwidth() else {
        return Vec::new();
    };
    let most =
        (bandwidth.bytes_per_sec() * sizing.plan.longest.secs()).min(sizing.max_bytes.bytes());
    let sequence = Sobol::new(sizing.seed, "memory");
    let cases = sequence
        .take(20 * wanted.max(1))
        .enumerate()
        .filter_map(|(index, point)| {
            let (kind, pass) = KERNELS[index % KERNELS.len()];
            let unit = [1, 8, 64][index / KERNELS.len() % 3];
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
