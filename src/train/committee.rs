//! Which of many shapes to measure next: those that a committee of small forests disagrees about.
//!
//! Query by committee (Seung, Opper and Sompolinsky, "Query by Committee", COLT 1992) with bagged members (Breiman,
//! "Bagging Predictors", Machine Learning 24, 1996): every forest sees its own draw of the rows, with repetition, by the
//! features of the nets. Where the draws matter for the answer, another timing teaches most. Real shapes are mostly
//! multiples of 64, so those count for more.

use crate::dataset::{Row, is_timing};
use crate::families::{Family, Variant, alignment};
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::random::Random;
use crate::train::submodel::least_rows;
use crate::train::tables::TableRows;
use crate::train::teacher::LabelledTable;
use crate::train::trees::{TreesConfig, grow};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Forests in the committee.
const MEMBERS: usize = 5;

/// How much a shape counts whose sizes are all multiples of 64, all of 8, or neither.
const USUAL: [f64; 3] = [1.0, 0.8, 0.6];

/// Places of at most `wanted` of the candidates, those that the members disagree about most first; shapes of variants with fewer rows than a sub-model takes are left out.
///
/// `rows` are of one GPU, `gpu`, and one stack.
pub fn query_by_committee(gpu: &Gpu, rows: &[Row], candidates: &[Op], wanted: usize) -> Vec<usize> {
    let mut asked: BTreeMap<(Family, Variant), Vec<usize>> = BTreeMap::new();
    for (place, op) in candidates.iter().enumerate() {
        asked.entry(kind(op)).or_default().push(place);
    }
    let mut ranked: Vec<(f64, usize)> = Vec::new();
    for ((family, variant), places) in asked {
        let table = TableRows {
            gpu,
            rows: rows
                .iter()
                .filter(|row| is_timing(row) && kind(&row.op) == (family, variant))
                .collect(),
        };
        if table.rows.len() >= least_rows(family) {
            let ops: Vec<&Op> = places.iter().map(|&place| &candidates[place]).collect();
            let spreads = spreads(&table, family, &ops);
            let scored = ops.iter().zip(spreads);
            let scores = scored.map(|(op, spread)| spread * usual(op));
            ranked.extend(scores.zip(places));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.truncate(wanted);
    ranked.into_iter().map(|(_, place)| place).collect()
}

fn kind(op: &Op) -> (Family, Variant) {
    (Family::of(op), Variant::of(op))
}

/// The standard deviation of the members' answers on each operator, in logarithms of time.
fn spreads(table: &TableRows<'_>, family: Family, ops: &[&Op]) -> Vec<f64> {
    let labelled = table.labelled(|_| true);
    let samples = labelled.samples(family);
    let asked = LabelledTable {
        rates: labelled.rates,
        // Nobody has timed them.
        rows: ops.iter().map(|op| (*op, 1.0)).collect(),
    };
    let inputs = asked.samples(family).inputs;
    let config = TreesConfig {
        trees: 150,
        leaves: 31,
        learning_rate: 0.1,
        min_leaf_rows: 5,
        ..TreesConfig::default()
    };
    let member = |member: usize| {
        let mut random = Random::new(member as u64, "committee");
        let mut weights = vec![0.0; samples.len()];
        for _ in 0..samples.len() {
            weights[random.below(samples.len())] += 1.0;
        }
        let mut ignored = |_| {};
        grow(
            samples.width,
            &samples.inputs,
            &samples.targets,
            &weights,
            &config,
            member as u64,
            &mut ignored,
        )
        .predict(&inputs)
    };
    let answers: Vec<Vec<f32>> = (0..MEMBERS).into_par_iter().map(member).collect();
    let spread = |op: usize| {
        let of_op = || answers.iter().map(|answers| f64::from(answers[op]));
        let mean = of_op().sum::<f64>() / MEMBERS as f64;
        let squares = of_op().map(|answer| (answer - mean).powi(2));
        (squares.sum::<f64>() / MEMBERS as f64).sqrt()
    };
    (0..ops.len()).map(spread).collect()
}

fn usual(op: &Op) -> f64 {
    let Op::Gemm(gemm) = op else { return USUAL[0] };
    match alignment([gemm.m, gemm.n, gemm.k].iter()) {
        64.. => USUAL[0],
        8.. => USUAL[1],
        _ => USUAL[2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Dtype, Gemm, Layout};
    use crate::units::Seconds;

    fn gemm(m: u64, n: u64) -> Op {
        Op::Gemm(Gemm {
            m,
            n,
            ..Gemm::square(4096, Layout::Tn, Dtype::Bf16)
        })
    }

    /// A GEMM that takes what its arithmetic takes, times `factor`.
    fn row(op: Op, factor: f64) -> Row {
        let time = Seconds::from_secs(2e-6 + op.flops().flops() / 5e14) * factor;
        Row::new(op, "h200", "made up", time)
    }

    #[test]
    fn shapes_are_asked_for_where_rows_contradict_each_other() {
        let gpu = Gpu::find("h200").unwrap();
        let mut random = Random::new(0, "factors");
        let sizes = || (1..12).flat_map(|m| (1..12).map(move |n| (64 * m, 64 * n)));
        let plain = sizes().map(|(m, n)| row(gemm(m, n), 1.0));
        // From 4096 on half of the rows take twice their time.
        let mut torn = |(m, n)| {
            let factor = if random.uniform() < 0.5 { 1.0 } else { 2.0 };
            row(gemm(4096 + m, 4096 + n), factor)
        };
        let rows: Vec<Row> = plain.chain(sizes().map(&mut torn)).collect();
        let candidates: Vec<Op> = (0..200)
            .map(|index| match index % 2 {
                0 => gemm(64 + 4 * index, 768 - 2 * index),
                _ => gemm(4160 + 4 * index, 4864 - 2 * index),
            })
            .collect();
        let chosen = query_by_committee(gpu, &rows, &candidates, 20);
        assert_eq!(chosen.len(), 20);
        assert!(chosen.iter().all(|place| place % 2 == 1), "{chosen:?}");
        assert_eq!(chosen, query_by_committee(gpu, &rows, &candidates, 20));
        // An untimed format, and rows that are too few.
        let other = Op::Gemm(Gemm::square(512, Layout::Tn, Dtype::Fp16));
        assert!(query_by_committee(gpu, &rows, &[other], 20).is_empty());
        assert!(query_by_committee(gpu, &rows[..least_rows(Family::Gemm) - 1], &candidates, 20).is_empty());
    }

    #[test]
    fn multiples_of_64_count_for_more() {
        let weights = [(128, 256), (72, 256), (65, 256)].map(|(m, n)| usual(&gemm(m, n)));
        assert_eq!(weights, USUAL);
    }
}
