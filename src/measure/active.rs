//! Which of many candidates to measure next: where the neighbours' times disagree about how far a simple law is off.
//!
//! The law is a roofline whose rates are the best that the rows reached. A candidate whose eight nearest measured shapes are
//! all off by the same factor teaches little; one whose neighbours contradict each other teaches much. Real
//! shapes are mostly multiples of 64, so those count for more.

use super::device::Case;
use crate::dataset;
use crate::dataset::Row;
use crate::op::Dtype;
use crate::op::Gemm;
use crate::op::Layout;
use crate::op::Op;
use rayon::prelude::*;
use std::collections::HashMap;

/// Neighbours that are asked.
const NEIGHBOURS: usize = 8;

/// What a power of two of alignment counts beside a factor of two in a size.
const ALIGNMENT_WEIGHT: f32 = 0.35;

/// Chosen candidates are at least so far apart: a round is not spent on one corner.
const APART: f32 = 0.5;

/// How much a candidate counts whose sizes are all multiples of 64, all of 8, or neither.
const USUAL: [f64; 3] = [1.0, 0.8, 0.6];

const FEATURES: usize = 7;
type Point = [f32; FEATURES];

/// At most `wanted` of the candidates, most contested first; products only, as all candidates are.
pub fn choose(rows: &[Row], candidates: Vec<Case>, wanted: usize) -> Vec<Case> {
    let laws = Laws::new(rows);
    let mut known: HashMap<Kind, Vec<(Point, f32)>> = HashMap::new();
    for (gemm, seconds) in products(rows) {
        if let Some(law) = laws.seconds(&gemm) {
            let residual = (seconds / law).ln() as f32;
            known
                .entry(kind(&gemm))
                .or_default()
                .push((point(&gemm), residual));
        }
    }
    let score = |case: &Case| {
        let Op::Gemm(gemm) = case.op else { return None };
        let near = nearest(known.get(&kind(&gemm))?, &point(&gemm));
        (near.len() == NEIGHBOURS).then(|| spread(&near) * usual(&gemm))
    };
    let scores: Vec<Option<f64>> = candidates.par_iter().map(score).collect();
    let mut ranked: Vec<(f64, Case)> = candidates
        .into_iter()
        .zip(scores)
        .filter_map(|(case, score)| Some((score?, case)))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut chosen: Vec<(Kind, Point)> = Vec::new();
    let mut cases = Vec::new();
    for (_, case) in ranked {
        let Op::Gemm(gemm) = case.op else { continue };
        let (kind, point) = (kind(&gemm), point(&gemm));
        let close = |(other, place): &(Kind, Point)| {
            *other == kind && distance(place, &point) < APART * APART
        };
        if !chosen.iter().any(close) {
            chosen.push((kind, point));
            cases.push(case);
        }
        if cases.len() == wanted {
            break;
        }
    }
    cases
}

/// Shapes of different kinds are no neighbours.
type Kind = (Dtype, Layout);

fn kind(gemm: &Gemm) -> Kind {
    (gemm.dtype, gemm.layout)
}

/// Products that are the time of their shape.
fn products(rows: &[Row]) -> impl Iterator<Item = (Gemm, f64)> {
    rows.iter()
        .filter(|row| dataset::is_timing(row))
        .filter_map(|row| match row.op {
            Op::Gemm(gemm) => Some((gemm, row.time.secs())),
            _ => None,
        })
}

/// Logarithms of the sizes, and of the power of two in each, up to 128.
fn point(gemm: &Gemm) -> Point {
    let log = |size: u64| (size as f32).log2();
    let power = |size: u64| ALIGNMENT_WEIGHT * size.trailing_zeros().min(7) as f32;
    let Gemm { m, n, k, batch, .. } = *gemm;
    [
        log(m),
        log(n),
        log(k),
        log(batch),
        power(m),
        power(n),
        power(k),
    ]
}

fn distance(a: &Point, b: &Point) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The residuals of the nearest points.
fn nearest(known: &[(Point, f32)], at: &Point) -> Vec<f32> {
    let mut near: Vec<(f32, f32)> = Vec::with_capacity(NEIGHBOURS + 1);
    for (point, residual) in known {
        let distance = distance(point, at);
        if near.len() < NEIGHBOURS || distance < near[near.len() - 1].0 {
            let place = near.partition_point(|(other, _)| *other < distance);
            near.insert(place, (distance, *residual));
            near.truncate(NEIGHBOURS);
        }
    }
    near.into_iter().map(|(_, residual)| residual).collect()
}

/// The standard deviation.
fn spread(values: &[f32]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let squares = values
        .iter()
        .map(|value| (f64::from(*value) - mean).powi(2));
    (squares.sum::<f64>() / count).sqrt()
}

fn usual(gemm: &Gemm) -> f64 {
    let multiples = |unit: u64| {
        [gemm.m, gemm.n, gemm.k]
            .iter()
            .all(|size| size.is_multiple_of(unit))
    };
    match (multiples(64), multiples(8)) {
        (true, _) => USUAL[0],
        (_, true) => USUAL[1],
        _ => USUAL[2],
    }
}

/// The law: a floor, and the best rates that rows of a format reached.
struct Laws {
    floor: f64,
    rates: HashMap<Dtype, (f64, f64)>,
}

impl Laws {
    fn new(rows: &[Row]) -> Self {
        let mut laws = Self {
            floor: f64::INFINITY,
            rates: HashMap::new(),
        };
        for (gemm, seconds) in products(rows) {
            laws.floor = laws.floor.min(seconds);
            let (flops, bytes) = laws.rates.entry(gemm.dtype).or_default();
            *flops = flops.max(gemm.flops().flops() / seconds);
            *bytes = bytes.max(gemm.bytes().bytes() / seconds);
        }
        laws
    }

    fn seconds(&self, gemm: &Gemm) -> Option<f64> {
        let (flops, bytes) = self.rates.get(&gemm.dtype)?;
        let arithmetic = gemm.flops().flops() / flops;
        Some(self.floor + arithmetic.max(gemm.bytes().bytes() / bytes))
    }
}
