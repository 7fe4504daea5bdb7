//! Tile and wave quantization: how the output of a GEMM falls into blocks, and blocks into waves.
//!
//! A kernel cuts its output into blocks of one tile each; `S` multiprocessors work through `C` blocks
//! in `ceil(C / S)` waves, and the last wave costs as much as a full one (NVIDIA Matrix
//! Multiplication Background User's Guide; arXiv 2401.14489, section III).

use crate::ops::Gemm;
use std::fmt;

/// The share of an output that one block computes, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    /// Rows of the output.
    pub rows: u64,
    /// Columns of the output.
    pub columns: u64,
}

impl Tile {
    /// The largest tile that cuBLAS uses widely, on which sizing rules and reports count.
    pub const LARGE: Self = Self::new(128, 256);

    /// A tile of `rows` by `columns`.
    pub const fn new(rows: u64, columns: u64) -> Self {
        Self { rows, columns }
    }

    /// Elements of one tile.
    pub const fn area(self) -> f64 {
        self.rows as f64 * self.columns as f64
    }
}

/// `128x256`.
impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

/// How a GEMM fills the multiprocessors of a GPU with blocks of one tile.
///
/// Counts are in floating point, so that no size overflows; they are exact up to 2^53.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waves {
    /// Blocks of the whole output.
    pub blocks: f64,
    /// Elements of the output.
    elements: f64,
    /// Elements that the blocks cover.
    covered: f64,
    /// Multiprocessors.
    sms: f64,
}

impl Waves {
    /// Blocks of `tile` in the output of `gemm`, on `sms` multiprocessors.
    #[inline]
    pub fn new(gemm: &Gemm, tile: Tile, sms: f64) -> Self {
        let [m, n, batch] = [gemm.m, gemm.n, gemm.batch].map(|size| size as f64);
        let blocks = batch * ceil(m / tile.rows as f64) * ceil(n / tile.columns as f64);
        Self {
            blocks,
            elements: batch * m * n,
            covered: blocks * tile.area(),
            sms,
        }
    }

    /// Blocks per multiprocessor.
    pub fn waves(&self) -> f64 {
        self.blocks / self.sms
    }

    /// Waves that run, the last one full or not.
    pub fn rounds(&self) -> f64 {
        ceil(self.waves())
    }

    /// By how much the blocks exceed the output: at least 1.
    pub fn waste(&self) -> f64 {
        self.covered / self.elements
    }

    /// Share of the blocks that is output: at most 1.
    pub fn tile_fill(&self) -> f64 {
        self.elements / self.covered
    }

    /// By how much the places of all waves exceed the blocks: at least 1.
    pub fn idle(&self) -> f64 {
        self.rounds() * self.sms / self.blocks
    }

    /// Share of the places of all waves that hold a block: at most 1.
    pub fn wave_fill(&self) -> f64 {
        self.waves() / self.rounds()
    }

    /// Share of the last wave that holds a block.
    pub fn last_wave_fill(&self) -> f64 {
        self.waves() - (self.rounds() - 1.0)
    }
}

/// [`f64::ceil`] of a positive number without a call, which costs more than all else where the build targets SSE2; exact
/// up to 2^52.
#[inline]
fn ceil(number: f64) -> f64 {
    const WHOLE: f64 = (1u64 << 52) as f64;
    let nearest = (number + WHOLE) - WHOLE;
    nearest + f64::from(u8::from(nearest < number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_exceed_the_output_and_their_waves_the_blocks() {
        // 9 x 18 blocks of 256x128 cover 2304 x 2304, 64 columns more than 2240; 162 blocks are 3 waves of 80.
        let tile = Tile::new(256, 128);
        let gemm = Gemm::new(2304, 2240, 4096);
        let waves = Waves::new(&gemm, tile, 80.0);
        let (waste, idle) = (waves.waste(), waves.idle());
        assert!((waste - 2304.0 / 2240.0).abs() < 1e-12, "{waste}");
        assert!((idle - 240.0 / 162.0).abs() < 1e-12, "{idle}");
        assert!((waves.tile_fill() * waste - 1.0).abs() < 1e-12);
        assert!((waves.wave_fill() * idle - 1.0).abs() < 1e-12);
        assert!((waves.last_wave_fill() - 2.0 / 80.0).abs() < 1e-12);
        // One step before, 153 blocks are 2 waves; twice the GEMM has twice the blocks.
        let narrower = Gemm { n: 2176, ..gemm };
        let waves = Waves::new(&narrower, tile, 80.0);
        assert!((waves.waste() - 1.0).abs() < 1e-12 && (waves.idle() - 160.0 / 153.0).abs() < 1e-12);
        let twice = Gemm { batch: 2, ..narrower };
        let idle = Waves::new(&twice, tile, 80.0).idle();
        assert!((idle - 320.0 / 306.0).abs() < 1e-12, "{idle}");
    }
}
