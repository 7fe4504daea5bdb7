//! Samples unmeasured shapes inside the measured region, for the teacher to label.

use super::{Family, Kernels};
use crate::ops::Op;
use crate::random::Random;
use std::collections::BTreeSet;

/// Draws one shape, if the draw makes sense.
pub(super) type Proposal = Box<dyn Fn(&mut Random) -> Option<Op>>;

/// At most `count` unlabelled shapes inside the measured region: unseen combinations of measured sizes and, where
/// kernels take any size, sizes between them. None costs more traffic or arithmetic than the largest measured one.
pub fn sample_unlabelled(measured: &[&Op], count: usize, seed: u64) -> Vec<Op> {
    let Some(family) = measured.first().map(|op| Family::of(op)) else {
        return Vec::new();
    };
    let most = |amount: &dyn Fn(&Op) -> f64| measured.iter().map(|op| amount(op)).fold(0.0, f64::max);
    let most_bytes = most(&|op| op.bytes().bytes());
    let most_flops = most(&|op| op.flops().flops());
    let propose = dispatch_family!(family, F => F::proposal(&members::<F>(measured)));
    let mut random = Random::seeded(seed);
    let mut shapes = BTreeSet::new();
    for _ in 0..8 * count {
        let fits =
            |op: &Op| Family::of(op) == family && op.bytes().bytes() <= most_bytes && op.flops().flops() <= most_flops;
        shapes.extend(propose(&mut random).filter(fits));
        if shapes.len() == count {
            break;
        }
    }
    shapes.into_iter().collect()
}

fn members<F: Kernels>(measured: &[&Op]) -> Vec<F::Shape> {
    measured.iter().filter_map(|op| F::shape(op)).collect()
}

/// The distinct sizes of one dimension, in order.
pub(super) fn sizes<T>(known: &[T], size: fn(&T) -> u64) -> Vec<u64> {
    let distinct: BTreeSet<u64> = known.iter().map(size).collect();
    distinct.into_iter().collect()
}

/// The greatest power of two, at most 128, that divides every size.
pub fn alignment<'a>(sizes: impl Iterator<Item = &'a u64>) -> u64 {
    1 << sizes.fold(0, |bits, size| bits | size).trailing_zeros().min(7)
}

/// Half the time one of the sorted `sizes`, else log-uniform between their ends, a multiple of `step`.
pub(super) fn size(random: &mut Random, sizes: &[u64], step: u64) -> u64 {
    if random.uniform() < 0.5 {
        return random.pick(sizes);
    }
    let (low, high) = (sizes[0] as f64, sizes[sizes.len() - 1] as f64);
    let size = low * (high / low).powf(random.uniform());
    ((size / step as f64).round() as u64 * step).max(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Collective, CollectiveKind, Dtype, Gemm, Memory, MemoryKind, Pass};

    #[test]
    fn sampled_gemms_stay_inside_the_measured_region_and_alignment() {
        let gemm = |m, n, k| Op::Gemm(Gemm::new(m, n, k));
        let measured = [gemm(1, 64, 4096), gemm(333, 1024, 96), gemm(8192, 32, 512)];
        let measured: Vec<&Op> = measured.iter().collect();
        let shapes = sample_unlabelled(&measured, 200, 7);
        assert_eq!(shapes.len(), 200);
        assert_eq!(shapes, sample_unlabelled(&measured, 200, 7));
        let mut between = 0;
        for op in &shapes {
            let Op::Gemm(gemm) = op else { panic!("{op}") };
            assert!((1..=8192).contains(&gemm.m) && (32..=1024).contains(&gemm.n), "{op}");
            assert_eq!((gemm.n % 32, gemm.k % 32), (0, 0), "{op}");
            between += usize::from(![1, 333, 8192].contains(&gemm.m));
        }
        assert!(between > 20);
    }

    #[test]
    fn sampled_kernels_and_collectives_stay_between_what_was_measured() {
        let kernel = |rows, cols| {
            Op::Memory(Memory {
                kind: MemoryKind::RmsNorm,
                rows,
                cols,
                pass: Pass::Forward,
                dtype: Dtype::Bf16,
            })
        };
        let collective = |bytes, ranks| Op::Collective(Collective::new(CollectiveKind::AllReduce, bytes, ranks));
        for measured in [
            [kernel(1, 4096), kernel(64, 1024), kernel(8192, 8192)],
            [collective(1 << 10, 2), collective(1 << 20, 4), collective(1 << 28, 8)],
        ] {
            let known: Vec<&Op> = measured.iter().collect();
            let shapes = sample_unlabelled(&known, 100, 3);
            assert_eq!(shapes.len(), 100);
            for op in &shapes {
                assert!(op.bytes() <= measured[2].bytes(), "{op}");
                assert_eq!(Family::of(op), Family::of(&measured[0]));
            }
            assert!(shapes.iter().any(|op| !measured.contains(op)));
        }
    }
}
