//! Predictions against timings: the error table.
//!
//! APE is the absolute percentage error `|predicted / measured - 1|`, as a fraction. Every statistic
//! that a handful of rows cannot give is absent, never a NaN.

pub mod layouts;
#[cfg(test)]
#[path = "tests/memory.rs"]
mod memory_of_runs;
pub mod runs;

use crate::dataset::Row;
use crate::dataset::Skipped;
use crate::error::Result;
use crate::families::{Family, Variant};
use crate::framework::Kernels;
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::ops::Dtype;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::predict::estimate::{Estimate, Tier, TierShares};
use crate::predict::scope::Scope;
use crate::stats::{correlation, quantile};
use crate::units::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that are predicted in one batch.
const CHUNK: usize = 1 << 14;

/// Rows that are reported together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// Operator family.
    pub op: &'static str,
    /// Number format; none for collectives.
    pub dtype: Option<Dtype>,
    /// Our name of the GPU.
    pub gpu: Arc<str>,
    /// The software that was timed.
    pub stack: Arc<str>,
}

/// The error table of one group and what its predictions are based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which rows.
    pub key: GroupKey,
    /// How far off the predictions are.
    pub errors: Errors,
    /// The stack and GPU that were learned from; `None` if nothing was learned.
    pub basis: Option<String>,
    /// Share of the rows by tier.
    pub tier_shares: TierShares,
}

/// Predictions of a whole table against its timings.
#[derive(Clone, Debug, Default)]
pub struct Evaluation {
    /// All rows together.
    pub overall: Errors,
    /// Groups in the order of their keys.
    pub groups: Vec<Group>,
    /// Every predicted row, group after group of each GPU.
    pub scores: Vec<Score>,
    /// The place in the table of the row of each score.
    pub places: Vec<usize>,
    /// Rows without a prediction.
    pub skipped: Skipped,
}

/// Error statistics; fractions, not percent; null where too few rows give none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Rows.
    pub n: usize,
    /// Median APE.
    pub median_ape: Option<f64>,
    /// Mean APE.
    pub mean_ape: Option<f64>,
    /// 90th percentile of the APE.
    pub p90_ape: Option<f64>,
    /// Median of `predicted / measured - 1`.
    #[serde(skip)]
    pub bias: Option<f64>,
    /// Largest APE.
    pub max_ape: Option<f64>,
    /// Coefficient of determination of `ln(time)`.
    pub r2: Option<f64>,
    /// Rank correlation of predicted and measured times.
    pub spearman: Option<f64>,
    /// Share of the timings inside their 90 % interval.
    pub coverage_90: Option<f64>,
    /// Median of half the interval's width over the predicted time.
    pub interval_half_width_median: Option<f64>,
}

/// Predicts every row and compares; `answer` gives the predictor of a GPU of the catalogue.
pub fn evaluate(rows: &[Row], gpus: &GpuCatalog, answer: &dyn Fn(&Gpu) -> Result<Predictor>) -> Result<Evaluation> {
    let mut evaluation = Evaluation::default();
    let mut by_gpu: BTreeMap<&Arc<str>, Vec<usize>> = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        by_gpu.entry(&row.gpu).or_default().push(place);
    }
    for (name, places) in by_gpu {
        let Ok(gpu) = gpus.find(name) else {
            let reason = format!("GPU `{name}` is not described in data/gpus");
            evaluation.skipped.add(&reason, places.len() as u64);
            continue;
        };
        let predictor = answer(gpu)?;
        let mut groups: BTreeMap<GroupKey, Vec<usize>> = BTreeMap::new();
        for place in places {
            let key = GroupKey::of(&rows[place]);
            groups.entry(key).or_default().push(place);
        }
        for (key, places) in groups {
            let rows: Vec<&Row> = places.iter().map(|&place| &rows[place]).collect();
            let kernels = match predictor.scope() {
                Scope::ThisStack => Kernels::of_stack(&key.stack),
                Scope::AnyStack => Kernels::default(),
            };
            let scores = score(&predictor, kernels, &rows);
            let op = &rows[0].op;
            let basis = predictor.basis(kernels, Family::of(op), Variant::of(op));
            evaluation.groups.push(Group {
                key,
                errors: Errors::of(&scores),
                basis,
                tier_shares: tier_shares(&scores),
            });
            evaluation.scores.extend(scores);
            evaluation.places.extend(places);
        }
    }
    evaluation.overall = Errors::of(&evaluation.scores);
    evaluation.groups.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(evaluation)
}

/// The name of an operator's family.
pub fn family(op: &Op) -> &'static str {
    Family::of(op).name()
}

impl GroupKey {
    fn of(row: &Row) -> Self {
        Self {
            op: family(&row.op),
            dtype: row.op.dtype(),
            gpu: Arc::clone(&row.gpu),
            stack: Arc::clone(&row.stack),
        }
    }
}

/// One timing and what was predicted for it.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// What was timed.
    pub measured: Seconds,
    /// What was predicted.
    pub estimate: Estimate,
}

fn score(predictor: &Predictor, kernels: Kernels, rows: &[&Row]) -> Vec<Score> {
    let mut scores = Vec::with_capacity(rows.len());
    for chunk in rows.chunks(CHUNK) {
        let ops: Vec<Op> = chunk.iter().map(|row| row.op).collect();
        let estimates = predictor.predict_by(kernels, &ops);
        scores.extend(chunk.iter().zip(estimates).map(|(row, estimate)| Score {
            measured: row.time,
            estimate,
        }));
    }
    scores
}

fn tier_shares(scores: &[Score]) -> TierShares {
    TierShares(Tier::ALL.map(|tier| share(scores, |score| score.estimate.tier == tier)))
}

impl Errors {
    /// The statistics of these timings.
    pub fn of(scores: &[Score]) -> Self {
        let n = scores.len();
        if n == 0 {
            return Self::default();
        }
        let error = |score: &Score| score.estimate.time / score.measured - 1.0;
        let apes = sorted(scores, |score| error(score).abs());
        let half_widths = sorted(scores, |score| {
            let Estimate { time, .. } = score.estimate;
            (score.estimate.high() - score.estimate.low()) / time / 2.0
        });
        let covered = |score: &Score| (score.estimate.low()..=score.estimate.high()).contains(&score.measured);
        Self {
            n,
            median_ape: Some(quantile(&apes, 0.5)),
            mean_ape: Some(apes.iter().sum::<f64>() / n as f64),
            p90_ape: Some(quantile(&apes, 0.9)),
            bias: Some(quantile(&sorted(scores, error), 0.5)),
            max_ape: apes.last().copied(),
            r2: r2(scores),
            spearman: spearman(scores),
            coverage_90: Some(share(scores, covered)),
            interval_half_width_median: Some(quantile(&half_widths, 0.5)),
        }
    }
}

fn share(scores: &[Score], is_counted: impl Fn(&Score) -> bool) -> f64 {
    scores.iter().filter(|score| is_counted(score)).count() as f64 / scores.len() as f64
}

fn sorted(scores: &[Score], value: impl Fn(&Score) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = scores.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// `1 - residual / total sum of squares` of `ln(time)`; `None` if all timings are equal.
fn r2(scores: &[Score]) -> Option<f64> {
    let logs: Vec<f64> = scores.iter().map(|s| s.measured.secs().ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let total: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let residual: f64 = scores.iter().map(|s| (s.estimate.time / s.measured).ln().powi(2)).sum();
    // Equal times differ in their last bits once they are logarithms.
    let equal = 1e-18 * logs.len() as f64;
    (total > equal).then(|| 1.0 - residual / total)
}

/// Pearson's correlation of the ranks; `None` if either side has no order.
fn spearman(scores: &[Score]) -> Option<f64> {
    let measured = ranks(scores.iter().map(|s| s.measured.secs()));
    let predicted = ranks(scores.iter().map(|s| s.estimate.time.secs()));
    let pairs: Vec<_> = measured.into_iter().zip(predicted).collect();
    correlation(&pairs)
}

/// The rank of every value from 0; equal values share the mean of their ranks.
fn ranks(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for tie in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = start as f64 + (tie.len() as f64 - 1.0) / 2.0;
        for &index in tie {
            ranks[index] = rank;
        }
        start += tie.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::estimate::Caveats;

    /// Pairs of measured and predicted microseconds, all with this half width of `ln(time)`.
    fn scores(pairs: &[(f64, f64)], half_width: f64) -> Vec<Score> {
        let score = |&(measured, predicted)| Score {
            measured: Seconds::from_micros(measured),
            estimate: Estimate {
                time: Seconds::from_micros(predicted),
                half_width,
                shared: 0.0,
                least: Seconds::ZERO,
                tier: Tier::Learned,
                caveats: Caveats::default(),
            },
        };
        pairs.iter().map(score).collect()
    }

    fn near(value: Option<f64>, expected: f64) {
        let value = value.expect("a statistic");
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn the_error_table_of_five_rows_worked_out_by_hand() {
        // APE: 0.1, 0.2, 0, 0.5, 0.25; sorted 0, 0.1, 0.2, 0.25, 0.5.
        let pairs = [(10.0, 11.0), (20.0, 16.0), (40.0, 40.0), (80.0, 120.0), (160.0, 200.0)];
        let errors = Errors::of(&scores(&pairs, 1.26f64.ln()));
        assert_eq!(errors.n, 5);
        near(errors.median_ape, 0.2);
        near(errors.mean_ape, 0.21);
        near(errors.p90_ape, 0.4); // 0.6 of the way from 0.25 to 0.5
        near(errors.max_ape, 0.5);
        near(errors.spearman, 1.0);
        // Only 80 is missed, by [95.2, 151.2]; 160 lies just inside [158.7, 252].
        near(errors.coverage_90, 0.8);
        near(errors.interval_half_width_median, (1.26 - 1.0 / 1.26) / 2.0);
        // ln(measured) is evenly spaced by ln 2: total = 10 (ln 2)^2.
        let residual: f64 = [1.1f64, 0.8, 1.0, 1.5, 1.25]
            .iter()
            .map(|ratio| ratio.ln().powi(2))
            .sum();
        near(errors.r2, 1.0 - residual / (10.0 * 2f64.ln().powi(2)));
    }

    #[test]
    fn ranks_share_ties_and_reversed_order_is_minus_one() {
        assert_eq!(ranks([3.0, 1.0, 3.0, 2.0].into_iter()), [2.5, 0.0, 2.5, 1.0]);
        let reversed = scores(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], 0.1);
        near(spearman(&reversed), -1.0);
        // d = (0, 1, -1): 1 - 6 * 2 / (3 * 8).
        let swapped = scores(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)], 0.1);
        near(spearman(&swapped), 0.5);
    }

    #[test]
    fn what_few_rows_cannot_give_is_absent() {
        assert_eq!(Errors::of(&[]), Errors::default());
        let one = Errors::of(&scores(&[(10.0, 12.0)], 0.1));
        assert_eq!((one.n, one.r2, one.spearman), (1, None, None));
        near(one.p90_ape, 0.2);
        assert_eq!(one.coverage_90, Some(0.0));
        let constant = Errors::of(&scores(&[(10.0, 12.0), (10.0, 11.0)], 0.1));
        assert_eq!((constant.r2, constant.spearman), (None, None));
    }
}
