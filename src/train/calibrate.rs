//! From the errors of a held-out fit to intervals: split-conformal calibration, and the error table.

use crate::regressor::artifact::{Calibration, GroupErrors, Weights};
use crate::stats::{conformal_rank, order_statistic};
use crate::train::fit::Samples;
use crate::train::teacher::LabelledTable;

/// Upper ends of the size groups of the calibration, in microseconds of reference time.
const BOUNDS_US: [f64; 4] = [5.0, 20.0, 100.0, 1000.0];

/// Least held-out rows of a calibration group; smaller ones use the factor of all rows.
const LEAST_GROUP: usize = 60;

/// The errors of held-out fits on keys they had not seen.
#[derive(Default)]
pub struct Residuals {
    /// Signed `ln(predicted / measured)`.
    errors: Vec<f64>,
    spreads: Vec<f64>,
    references_us: Vec<f64>,
}

impl Residuals {
    /// Evaluates the nets of a held-out fit on its held-out rows.
    pub fn add(&mut self, weights: &Weights, probe: &Samples, tables: &[LabelledTable<'_>]) {
        let outputs = weights.predict(&probe.inputs);
        let ops = tables
            .iter()
            .flat_map(|table| table.rows.iter().map(|(op, _)| (&table.rates, *op)));
        for (row, (rates, op)) in ops.enumerate() {
            self.errors
                .push(outputs[row].mean - f64::from(probe.targets[row]));
            self.spreads.push(outputs[row].spread);
            self.references_us.push(rates.reference(op).micros());
        }
    }

    /// The split-conformal quantile of `|error| / (spread + floor)` in each size group.
    pub fn calibrate(&self) -> Calibration {
        let floor = quantile(self.spreads.clone(), 0.5).max(1e-3);
        let scores = |chosen: &dyn Fn(f64) -> bool| -> Vec<f64> {
            (0..self.errors.len())
                .filter(|&row| chosen(self.references_us[row]))
                .map(|row| self.errors[row].abs() / (self.spreads[row] + floor))
                .collect()
        };
        let all = conformal(scores(&|_| true));
        let mut calibration = Calibration {
            floor,
            bounds_us: BOUNDS_US.to_vec(),
            factors: Vec::new(),
            rows: Vec::new(),
        };
        for group in 0..=BOUNDS_US.len() {
            let members = scores(&|reference| calibration.group(reference) == group);
            calibration.rows.push(members.len());
            calibration.factors.push(if members.len() < LEAST_GROUP {
                all
            } else {
                conformal(members)
            });
        }
        calibration
    }

    /// The error table: all rows, then each size group.
    pub fn errors(&self, calibration: &Calibration) -> Vec<GroupErrors> {
        let bounds: Vec<String> = calibration
            .bounds_us
            .iter()
            .map(|bound| format!("{bound} us"))
            .collect();
        let mut table = vec![self.group_errors("all".to_owned(), calibration, &|_| true)];
        for group in 0..=bounds.len() {
            let name = match group {
                0 => format!("under {}", bounds[0]),
                last if last == bounds.len() => format!("from {}", bounds[last - 1]),
                middle => format!("{} to {}", bounds[middle - 1], bounds[middle]),
            };
            table.push(self.group_errors(name, calibration, &|reference| {
                calibration.group(reference) == group
            }));
        }
        table.retain(|errors| errors.n > 0);
        table
    }

    fn group_errors(
        &self,
        group: String,
        calibration: &Calibration,
        chosen: &dyn Fn(f64) -> bool,
    ) -> GroupErrors {
        let rows: Vec<usize> = (0..self.errors.len())
            .filter(|&row| chosen(self.references_us[row]))
            .collect();
        let widths: Vec<f64> = rows
            .iter()
            .map(|&row| calibration.half_width(self.references_us[row], self.spreads[row]))
            .collect();
        let covered = rows
            .iter()
            .zip(&widths)
            .filter(|&(&row, width)| self.errors[row].abs() <= *width)
            .count();
        let apes: Vec<f64> = rows
            .iter()
            .map(|&row| self.errors[row].exp_m1().abs())
            .collect();
        let n = rows.len();
        GroupErrors {
            group,
            n,
            median_ape: quantile(apes.clone(), 0.5),
            mean_ape: apes.iter().sum::<f64>() / n.max(1) as f64,
            p90_ape: quantile(apes, 0.9),
            coverage_90: covered as f64 / n.max(1) as f64,
            interval_half_width_median: quantile(widths, 0.5),
        }
    }
}

/// The `ceil((n + 1)·0.9)`-th smallest score: with it, a new score of the same kind stays below with
/// probability 0.9 or more.
fn conformal(mut scores: Vec<f64>) -> f64 {
    scores.sort_by(f64::total_cmp);
    let rank = conformal_rank(scores.len(), 0.9);
    let score = rank.checked_sub(1).map(|place| scores[place]);
    score.unwrap_or(3.0).max(1e-3)
}

/// An order statistic of errors; 0 of nothing.
pub fn quantile(values: Vec<f64>, share: f64) -> f64 {
    order_statistic(values, share).unwrap_or(0.0)
}

/// `|predicted / measured - 1|` of outputs and targets, both logarithms.
pub fn apes(outputs: &[f32], targets: &[f32]) -> Vec<f64> {
    outputs
        .iter()
        .zip(targets)
        .map(|(y, t)| f64::from(y - t).exp_m1().abs())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conformal_quantile_is_the_one_that_leaves_a_new_score_below_nine_times_in_ten() {
        // Of 9 scores the 9th, of 19 the 18th; fewer than 9 cannot bound 90 % and take the largest.
        let scores = |n: i32| (1..=n).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(
            [9, 19, 99, 4].map(|n| conformal(scores(n))),
            [9.0, 18.0, 90.0, 4.0]
        );
    }

    #[test]
    fn calibrated_intervals_cover_nine_rows_in_ten_of_every_size() {
        // Errors grow with the spread, and small operators err twice as much.
        let mut residuals = Residuals {
            errors: vec![],
            spreads: vec![],
            references_us: vec![],
        };
        for row in 0..4000 {
            let uniform = f64::from(row * 7919 % 4001) / 4001.0 - 0.5;
            let spread = 0.01 + 0.02 * f64::from(row % 5) / 5.0;
            let small = row % 2 == 0;
            residuals
                .errors
                .push(uniform * spread * if small { 8.0 } else { 4.0 });
            residuals.spreads.push(spread);
            residuals
                .references_us
                .push(if small { 3.0 } else { 300.0 });
        }
        let calibration = residuals.calibrate();
        let table = residuals.errors(&calibration);
        assert_eq!(table.len(), 3, "all, and the two sizes that occur");
        for errors in &table {
            assert!((0.895..0.91).contains(&errors.coverage_90), "{errors:?}");
        }
        assert!(calibration.factors[0] > 1.8 * calibration.factors[3]);
    }

    #[test]
    fn quantiles_of_little_and_of_nothing_exist() {
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(vec![7.0], 0.9), 7.0);
        assert_eq!(quantile(vec![], 0.5), 0.0);
    }
}
