//! Where tiles and waves step up along a sweep, and which tile explains the predicted curve.
//!
//! A kernel cuts its output into blocks of one tile each; `S` multiprocessors work through `C` blocks in
//! `ceil(C / S)` waves, and the last wave costs as much as a full one (arXiv 2401.14489, section III).
//! Which tile a library takes is its own choice, so every usual one is held against the curve.

use crate::ops::Op;
use crate::stats::correlation;
use crate::sweep::Point;
use crate::sweep::Subject;
use crate::tiles;
use crate::tiles::Tile;
use serde::Serialize;
use utoipa::ToSchema;

/// Tiles of GEMMs that cuBLAS uses widely, the best first.
const GEMM_TILES: [Cut; 3] = [
    Cut::Output(Tile::LARGE),
    Cut::Output(Tile::new(256, 128)),
    Cut::Output(Tile::new(128, 128)),
];

/// Queries of one head that fused attention gives one block.
const QUERY_TILES: [Cut; 2] = [Cut::Queries(128), Cut::Queries(64)];

/// The least correlation that counts as an explanation. Ours: what a tile without influence reaches by chance on the
/// hundred points of a usual sweep is below it.
const EXPLAINS: f64 = 0.3;

/// What one block computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// A tile of a GEMM's output.
    Output(Tile),
    /// Some queries of one head.
    Queries(u64),
}

impl Cut {
    /// `128x256`, `128-query`.
    pub fn name(self) -> String {
        match self {
            Self::Output(tile) => tile.to_string(),
            Self::Queries(queries) => format!("{queries}-query"),
        }
    }

    /// Blocks of an operator that is cut like this.
    fn blocks(self, op: &Op) -> Option<u64> {
        match (self, op) {
            // How many multiprocessors there are does not change the blocks.
            (Self::Output(tile), Op::Gemm(op)) => Some(tiles::Waves::new(op, tile, 1.0).blocks as u64),
            (Self::Queries(queries), Op::Attention(op)) if !op.is_decode() => {
                let factors = [op.seq_q.div_ceil(queries), op.heads, op.batch];
                Some(factors.into_iter().fold(1, u64::saturating_mul))
            }
            _ => None,
        }
    }
}

/// How one tile fills the GPU along a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Waves {
    /// The tile.
    pub tile: Cut,
    /// Waves at each point.
    pub counts: Vec<u64>,
    /// Where a new wave begins.
    pub starts: Vec<Wave>,
    /// Where new blocks begin.
    pub block_starts: Vec<u64>,
    /// Correlation of the steps of `work / waves` with those of the predicted rate, both in logarithms.
    pub fit: Option<f64>,
}

/// A new wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Wave {
    /// The first value that needs it.
    pub value: u64,
    /// Waves from there on.
    pub waves: u64,
}

impl Waves {
    /// Whether the waves of this tile explain the steps of the predicted curve.
    pub fn explains(&self) -> bool {
        self.fit.is_some_and(|fit| fit >= EXPLAINS)
    }

    fn of(tile: Cut, points: &[Point], multiprocessors: u64) -> Option<Self> {
        let blocks: Vec<u64> = points
            .iter()
            .map(|point| match &point.subject {
                Subject::Operator(op) => tile.blocks(op),
                Subject::Model(_) => None,
            })
            .collect::<Option<_>>()?;
        let counts: Vec<_> = blocks.iter().map(|blocks| blocks.div_ceil(multiprocessors)).collect();
        let rises = |counts: &[u64]| -> Vec<(u64, u64)> {
            let pairs = counts.windows(2).zip(&points[1..]);
            pairs
                .filter(|(pair, _)| pair[1] > pair[0])
                .map(|(pair, point)| (point.value, pair[1]))
                .collect()
        };
        let starts = rises(&counts).into_iter();
        Some(Self {
            tile,
            starts: starts.map(|(value, waves)| Wave { value, waves }).collect(),
            block_starts: rises(&blocks).iter().map(|(value, _)| *value).collect(),
            fit: fit(points, &counts),
            counts,
        })
    }
}

/// The waves of every usual tile, the one that explains the curve best first.
pub(super) fn along(points: &[Point], multiprocessors: u64) -> Vec<Waves> {
    let tiles = GEMM_TILES.into_iter().chain(QUERY_TILES);
    let mut all: Vec<_> = tiles
        .filter_map(|tile| Waves::of(tile, points, multiprocessors))
        .collect();
    let fit = |waves: &Waves| waves.fit.unwrap_or(f64::NEG_INFINITY);
    all.sort_by(|a, b| fit(b).total_cmp(&fit(a)));
    all
}

fn fit(points: &[Point], counts: &[u64]) -> Option<f64> {
    let steps = points.windows(2).zip(counts.windows(2));
    let steps: Vec<(f64, f64)> = steps
        .map(|(pair, waves)| {
            let work = (pair[1].flops / pair[0].flops).ln();
            let ideal = work - (waves[1] as f64 / waves[0] as f64).ln();
            (ideal, (pair[1].rate() / pair[0].rate()).ln())
        })
        .collect();
    let stepped = counts.windows(2).any(|pair| pair[0] != pair[1]);
    if stepped { correlation(&steps) } else { None }
}
