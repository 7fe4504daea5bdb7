//! From the errors of a held-out fit to intervals: split-conformal calibration by group, and the error table.

use crate::families::{Family, grouped_sizes};
use crate::regressor::artifact::{Calibration, GroupErrors, SizeFactors, Weights, group_of};
use crate::stats::{conformal_rank, order_statistic, rounded};
use crate::train::fit::Samples;
use crate::train::teacher::LabelledTable;
use std::fmt::Display;

/// Upper ends of the groups by reference time, in microseconds.
const BOUNDS_US: [f64; 4] = [5.0, 20.0, 100.0, 1000.0];

/// Least held-out rows of a calibration group; smaller groups by time take the factor of all rows, smaller groups by size the factor 1.
const LEAST_GROUP: usize = 40;

/// How often the factors of each grouping are fitted to what those of the others leave; they hardly move after the third time.
const ROUNDS: usize = 5;

/// The errors of held-out fits on keys they had not seen.
pub struct Residuals {
    /// Signed `ln(predicted / measured)`.
    errors: Vec<f64>,
    spreads: Vec<f64>,
    references_us: Vec<f64>,
    /// What rows are grouped by besides reference time.
    groupings: Vec<(&'static str, &'static [u64])>,
    /// By grouping, the size of each row.
    sizes: Vec<Vec<u64>>,
}

impl Residuals {
    /// None yet, of a family.
    pub fn new(family: Family) -> Self {
        let groupings = family.groupings();
        Self {
            errors: vec![],
            spreads: vec![],
            references_us: vec![],
            sizes: vec![vec![]; groupings.len()],
            groupings,
        }
    }

    /// Evaluates the nets of a held-out fit on its held-out rows.
    pub fn add(&mut self, weights: &Weights, probe: &Samples, tables: &[LabelledTable<'_>]) {
        let outputs = weights.predict(&probe.inputs);
        let ops = tables
            .iter()
            .flat_map(|table| table.rows.iter().map(|(op, _)| (&table.rates, *op)));
        for (row, (rates, op)) in ops.enumerate() {
            self.errors.push(outputs[row].mean - f64::from(probe.targets[row]));
            self.spreads.push(outputs[row].spread);
            self.references_us.push(rates.reference(op).micros());
            for (sizes, size) in self.sizes.iter_mut().zip(grouped_sizes(op)) {
                sizes.push(size);
            }
        }
    }

    /// The mean of `|ln(predicted / measured)|`.
    pub fn mean_error(&self) -> f64 {
        let sum: f64 = self.errors.iter().map(|error| error.abs()).sum();
        sum / self.errors.len().max(1) as f64
    }

    /// Whether these errors are less than those of another model of the same rows, by more than two standard errors of the
    /// mean difference.
    pub fn is_better_than(&self, other: &Self) -> bool {
        let pairs = self.errors.iter().zip(&other.errors);
        let gains: Vec<f64> = pairs.map(|(own, other)| other.abs() - own.abs()).collect();
        let rows = gains.len().max(2) as f64;
        let mean = gains.iter().sum::<f64>() / rows;
        let squares: f64 = gains.iter().map(|gain| (gain - mean).powi(2)).sum();
        mean > 2.0 * (squares / (rows - 1.0) / rows).sqrt()
    }

    /// The groups of every row: by reference time, then by each size.
    fn groups(&self) -> Vec<Vec<usize>> {
        let by_time = self.references_us.iter();
        let by_time = by_time.map(|time| group_of(&BOUNDS_US, *time)).collect();
        let by_size = self.groupings.iter().zip(&self.sizes);
        let by_size = by_size.map(|((_, bounds), sizes)| {
            let groups = sizes.iter().map(|size| group_of(bounds, *size));
            groups.collect()
        });
        std::iter::once(by_time).chain(by_size).collect()
    }

    /// The split-conformal quantile of `|error| / (spread + floor)`, as a product of factors of which every group by time or size
    /// has one. Each grouping in turn is fitted to what the others leave, that by time first and last.
    pub fn calibrate(&self) -> Calibration {
        let floor = quantile(self.spreads.clone(), 0.5).max(1e-3);
        let scores = self.errors.iter().zip(&self.spreads);
        let scores: Vec<f64> = scores.map(|(error, spread)| error.abs() / (spread + floor)).collect();
        let groups = self.groups();
        let counts: Vec<usize> = std::iter::once(BOUNDS_US.len() + 1)
            .chain(self.groupings.iter().map(|(_, bounds)| bounds.len() + 1))
            .collect();
        let mut factors: Vec<Vec<f64>> = counts.iter().map(|count| vec![1.0; *count]).collect();
        let mut rows: Vec<Vec<usize>> = counts.iter().map(|count| vec![0; *count]).collect();
        let by_sizes = (0..ROUNDS).flat_map(|_| (1..counts.len()).chain([0]));
        for grouping in std::iter::once(0).chain(by_sizes) {
            let mut members = vec![vec![]; counts[grouping]];
            for (row, score) in scores.iter().enumerate() {
                let others = (0..counts.len()).filter(|other| *other != grouping);
                let known: f64 = others.map(|other| factors[other][groups[other][row]]).product();
                members[groups[grouping][row]].push(score / known);
            }
            let few = match grouping {
                0 => conformal(members.concat()),
                _ => 1.0,
            };
            for (group, members) in members.into_iter().enumerate() {
                rows[grouping][group] = members.len();
                factors[grouping][group] = match members.len() < LEAST_GROUP {
                    true => few,
                    false => conformal(members),
                };
            }
        }
        let mut fitted = factors.into_iter().zip(rows);
        let (factors, rows) = fitted.next().expect("reference time is the first grouping");
        let sizes = self.groupings.iter().zip(fitted);
        Calibration {
            floor,
            bounds_us: BOUNDS_US.to_vec(),
            factors,
            rows,
            sizes: sizes
                .map(|((by, bounds), (factors, rows))| SizeFactors {
                    by: (*by).to_owned(),
                    bounds: bounds.to_vec(),
                    factors,
                    rows,
                })
                .collect(),
        }
    }

    /// The error table: all rows, then each group by reference time, then those by each size.
    pub fn errors(&self, calibration: &Calibration) -> Vec<GroupErrors> {
        let by_time = group_names("", &BOUNDS_US, " us");
        let by_size = self.groupings.iter();
        let by_size = by_size.map(|(by, bounds)| group_names(&format!("{by} "), bounds, ""));
        let names = std::iter::once(by_time).chain(by_size);
        let mut table = vec![self.group_errors("all".to_owned(), calibration, &|_| true)];
        for (groups, names) in self.groups().iter().zip(names) {
            for (group, name) in names.into_iter().enumerate() {
                table.push(self.group_errors(name, calibration, &|row| groups[row] == group));
            }
        }
        table.retain(|errors| errors.n > 0);
        table
    }

    /// Errors and intervals of the rows that are chosen.
    fn group_errors(&self, group: String, calibration: &Calibration, chosen: &dyn Fn(usize) -> bool) -> GroupErrors {
        let rows: Vec<usize> = (0..self.errors.len()).filter(|&row| chosen(row)).collect();
        let half_width = |&row: &usize| {
            let sizes = self.sizes.iter().map(|sizes| sizes[row]);
            calibration.half_width(
                self.references_us[row],
                calibration.size_factor(sizes),
                self.spreads[row],
            )
        };
        let widths: Vec<f64> = rows.iter().map(half_width).collect();
        let covered = rows
            .iter()
            .zip(&widths)
            .filter(|&(&row, width)| self.errors[row].abs() <= *width)
            .count();
        let apes: Vec<f64> = rows.iter().map(|&row| self.errors[row].exp_m1().abs()).collect();
        let n = rows.len();
        GroupErrors {
            group,
            n,
            median_ape: printed(quantile(apes.clone(), 0.5)),
            mean_ape: printed(apes.iter().sum::<f64>() / n.max(1) as f64),
            p90_ape: printed(quantile(apes, 0.9)),
            coverage_90: printed(covered as f64 / n.max(1) as f64),
            interval_half_width_median: printed(quantile(widths, 0.5)),
        }
    }
}

/// A figure of a card in four significant digits: 2,400 groups of rows are built into the program.
fn printed(figure: f64) -> f64 {
    rounded(figure, 4)
}

/// What the groups between rising bounds are called.
fn group_names(of: &str, bounds: &[impl Display], unit: &str) -> Vec<String> {
    let named = |group: usize| match group {
        0 => format!("{of}under {}{unit}", bounds[0]),
        last if last == bounds.len() => format!("{of}from {}{unit}", bounds[last - 1]),
        middle => format!("{of}{}{unit} to {}{unit}", bounds[middle - 1], bounds[middle]),
    };
    (0..=bounds.len()).map(named).collect()
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
        assert_eq!([9, 19, 99, 4].map(|n| conformal(scores(n))), [9.0, 18.0, 90.0, 4.0]);
    }

    /// Errors of 4,000 GEMMs, which grow with the spread and by `factor` of reference time in microseconds and of `m`.
    fn residuals(factor: fn(f64, u64) -> f64) -> Residuals {
        let mut residuals = Residuals::new(Family::Gemm);
        for row in 0..4000 {
            let uniform = f64::from(row * 7919 % 4001) / 4001.0 - 0.5;
            let spread = 0.01 + 0.02 * f64::from(row % 5) / 5.0;
            let reference = if row % 2 == 0 { 3.0 } else { 300.0 };
            let m = if row % 6 < 2 { 8 } else { 1024 };
            residuals.errors.push(uniform * spread * factor(reference, m));
            residuals.spreads.push(spread);
            residuals.references_us.push(reference);
            residuals.sizes[0].push(m);
            residuals.sizes[1].push(4096);
        }
        residuals
    }

    #[test]
    fn calibrated_intervals_cover_nine_rows_in_ten_of_every_group() {
        // Small operators err twice as much, those of few rows three times.
        let residuals =
            residuals(|reference, m| (if reference < 100.0 { 8.0 } else { 4.0 }) * if m < 32 { 3.0 } else { 1.0 });
        let calibration = residuals.calibrate();
        let table = residuals.errors(&calibration);
        let groups: Vec<&str> = table.iter().map(|errors| &*errors.group).collect();
        assert_eq!(
            groups,
            [
                "all",
                "under 5 us",
                "100 us to 1000 us",
                "m under 32",
                "m 512 to 4096",
                "min(n, k) 2048 to 8192"
            ]
        );
        for errors in &table {
            assert!((0.89..0.915).contains(&errors.coverage_90), "{errors:?}");
        }
        let times = calibration.factors[0] / calibration.factors[3];
        assert!((1.9..2.1).contains(&times), "{calibration:?}");
        let of_m = &calibration.sizes[0];
        let sizes = of_m.factors[0] / of_m.factors[2];
        assert!((2.8..3.2).contains(&sizes), "{calibration:?}");
        // Groups without rows take no part.
        assert_eq!((of_m.factors[1], of_m.rows[1]), (1.0, 0));
    }

    #[test]
    fn sizes_that_do_not_matter_leave_the_factors_of_time() {
        let residuals = residuals(|reference, _| if reference < 100.0 { 8.0 } else { 4.0 });
        for by in residuals.calibrate().sizes {
            let known = by.factors.iter().zip(by.rows).filter(|(_, rows)| *rows > 0);
            for (factor, _) in known {
                assert!((0.95..1.05).contains(factor), "{:?}", by.factors);
            }
        }
    }

    #[test]
    fn quantiles_of_little_and_of_nothing_exist() {
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(vec![7.0], 0.9), 7.0);
        assert_eq!(quantile(vec![], 0.5), 0.0);
    }
}
