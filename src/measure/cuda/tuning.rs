//! Meaning of cuBLASLt's numbers of tiles, stages and clusters.
//!
//! `tiles.txt` and `clusters.txt` list the names of `cublasLt.h` (CUDA 13.0) by their number; both
//! only ever grow.

/// Rows and columns of cuBLASLt's tiles, in its column-major order.
const TILES: &str = include_str!("tiles.txt");

/// Blocks of a cluster along both axes and the batch.
const CLUSTERS: &str = include_str!("clusters.txt");

/// The numbers in `128x256`.
fn numbers(name: &str) -> Option<Vec<u32>> {
    name.split('x').map(|part| part.parse().ok()).collect()
}

/// The tile of a number, as rows and columns of our row-major output: the transpose of cuBLASLt's.
pub fn tile(number: u32) -> Option<(u32, u32)> {
    let name = TILES.split_whitespace().nth(number as usize)?;
    match numbers(name)?[..] {
        [columns, rows] => Some((rows, columns)),
        _ => None,
    }
}

/// The cluster of a number, along rows and columns of our output.
pub fn cluster(number: u32) -> Option<(u32, u32)> {
    let name = CLUSTERS.split_whitespace().nth(number as usize)?;
    match numbers(name)?[..] {
        [columns, rows, _] => Some((rows, columns)),
        _ => None,
    }
}

/// Stages of the pipeline, the second figure of names such as `64x4`; `None` if the kernel chooses
/// (`64xAUTO`).
pub const fn stages(number: u32) -> Option<u32> {
    const COUNTS: [u32; 32] = [
        0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 10, 4, 10, 5, 0, 0, 3,
    ];
    match number {
        0..32 if COUNTS[number as usize] > 0 => Some(COUNTS[number as usize]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::cublaslt::sys::{cublasLtClusterShape_t, cublasLtMatmulStages_t, cublasLtMatmulTile_t};

    /// The name of an enumerator without its prefix.
    fn name(enumerator: impl std::fmt::Debug, prefix: &str) -> String {
        format!("{enumerator:?}").replace(prefix, "")
    }

    #[test]
    fn tiles_have_the_names_of_the_header() {
        let end = cublasLtMatmulTile_t::CUBLASLT_MATMUL_TILE_END as u32;
        assert_eq!(TILES.split_whitespace().count() as u32, end);
        for number in 1..end {
            // SAFETY: the enumerators of tiles are 0 to END without a gap, as their header's order
            // shows.
            let tile_of: cublasLtMatmulTile_t = unsafe { std::mem::transmute(number) };
            let (rows, columns) = tile(number).unwrap();
            let spelled = format!("{columns}x{rows}");
            assert_eq!(name(tile_of, "CUBLASLT_MATMUL_TILE_"), spelled);
        }
        assert_eq!((tile(0), tile(100_000)), (None, None));
    }

    #[test]
    fn clusters_and_stages_have_the_names_of_the_header() {
        use cublasLtClusterShape_t as C;
        use cublasLtMatmulStages_t as S;
        for shape in [
            C::CUBLASLT_CLUSTER_SHAPE_1x1x1,
            C::CUBLASLT_CLUSTER_SHAPE_2x1x1,
            C::CUBLASLT_CLUSTER_SHAPE_1x2x1,
            C::CUBLASLT_CLUSTER_SHAPE_2x2x1,
            C::CUBLASLT_CLUSTER_SHAPE_16x1x1,
            C::CUBLASLT_CLUSTER_SHAPE_3x1x1,
            C::CUBLASLT_CLUSTER_SHAPE_1x15x1,
        ] {
            let (rows, columns) = cluster(shape as u32).unwrap();
            let spelled = format!("{columns}x{rows}x1");
            assert_eq!(name(shape, "CUBLASLT_CLUSTER_SHAPE_"), spelled);
        }
        assert_eq!(cluster(0), None);
        for (stage, count) in [
            (S::CUBLASLT_MATMUL_STAGES_16x1, 1),
            (S::CUBLASLT_MATMUL_STAGES_32x6, 6),
            (S::CUBLASLT_MATMUL_STAGES_64x3, 3),
            (S::CUBLASLT_MATMUL_STAGES_128x6, 6),
            (S::CUBLASLT_MATMUL_STAGES_32x10, 10),
            (S::CUBLASLT_MATMUL_STAGES_8x4, 4),
            (S::CUBLASLT_MATMUL_STAGES_16x10, 10),
            (S::CUBLASLT_MATMUL_STAGES_8x5, 5),
            (S::CUBLASLT_MATMUL_STAGES_8x3, 3),
        ] {
            assert_eq!(stages(stage as u32), Some(count), "{stage:?}");
        }
        let auto = S::CUBLASLT_MATMUL_STAGES_64xAUTO as u32;
        assert_eq!((stages(0), stages(auto)), (None, None));
    }
}
