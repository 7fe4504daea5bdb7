//! Order statistics, correlation and sums of errors, each defined once.

use std::ops::{Add, Mul, Sub};

/// Quantile of the normal distribution that leaves 5 % on either side.
pub const NORMAL_90: f64 = 1.645;

/// The standard normal distribution function, to 1e-7 (Abramowitz and Stegun, 26.2.17).
pub fn normal_cdf(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] = [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530];
    let t = 1.0 / (1.0 + 0.2316419 * x.abs());
    let sum = COEFFICIENTS.iter().fold(0.0, |sum, at| (sum + at) * t);
    let tail = sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// The sum of two independent deviations; the `hypot` of the C library would ask for glibc 2.35.
pub fn quadrature(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

/// The quantile of rising values, linear between the two nearest ranks: Hyndman and Fan's type 7,
/// the default of R and NumPy. There must be a value.
pub fn quantile<T>(sorted: &[T], share: f64) -> T
where
    T: Copy + Add<Output = T> + Sub<Output = T> + Mul<f64, Output = T>,
{
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The middle value, or the mean of the two in the middle; none of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some((values[half - 1] + values[half]) / 2.0),
        _ => Some(values[half]),
    }
}

/// The smallest value that more than this share of the values do not exceed, one of the values
/// themselves; none of nothing.
pub fn order_statistic(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let place = (values.len() as f64 * share) as usize;
    Some(values[place.min(last)])
}

/// A value in so many significant digits.
pub fn rounded(value: f64, digits: usize) -> f64 {
    let text = format!("{value:.*e}", digits - 1);
    text.parse().expect("a number reads back")
}

/// Which of `n` rising scores bounds a new one with this probability: split-conformal
/// `ceil((n + 1) * coverage)`, counted from 1 and at most `n`.
pub fn conformal_rank(n: usize, coverage: f64) -> usize {
    (((n + 1) as f64 * coverage).ceil() as usize).min(n)
}

/// Pearson's correlation; `None` if one side does not vary.
pub fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let mean = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>() / count;
    let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |product: &dyn Fn(f64, f64) -> f64| -> f64 { pairs.iter().map(|(x, y)| product(x - a, y - b)).sum() };
    let spread = (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt();
    (spread > 0.0).then(|| sum(&|x, y| x * y) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seconds;

    #[test]
    fn the_normal_distribution_is_that_of_python() {
        // statistics.NormalDist().cdf.
        for (x, expected) in [
            (0.0, 0.5),
            (0.524, 0.699_860_7),
            (-1.645, 0.049_984_9),
            (4.0, 0.999_968_3),
        ] {
            let found = normal_cdf(x);
            assert!((found - expected).abs() < 2e-7, "{x}: {found}");
        }
        assert_eq!(normal_cdf(f64::NEG_INFINITY), 0.0);
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        // numpy.quantile([1, 2, 4, 8], [0.25, 0.5, 0.9, 1]).
        let sorted = [1.0, 2.0, 4.0, 8.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
            let found: f64 = quantile(&sorted, share);
            assert!((found - expected).abs() < 1e-12, "{share}: {found}");
        }
        assert_eq!(quantile(&[7.0], 0.9), 7.0);
        let times = [1.0, 2.0].map(Seconds::from_secs);
        assert_eq!(quantile(&times, 0.5), Seconds::from_secs(1.5));
    }

    #[test]
    fn medians_of_even_odd_and_nothing() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn order_statistics_are_values_and_conformal_ranks_reach_the_last() {
        assert_eq!(order_statistic(vec![3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(order_statistic(vec![4.0, 1.0, 2.0, 3.0], 0.5), Some(3.0));
        assert_eq!(order_statistic(vec![7.0], 1.0), Some(7.0));
        assert_eq!(order_statistic(vec![], 0.5), None);
        assert_eq!([9, 10, 99, 5].map(|n| conformal_rank(n, 0.9)), [9, 10, 90, 5]);
        assert_eq!(conformal_rank(0, 0.9), 0);
    }

    #[test]
    fn correlation_is_absent_where_a_side_is_constant() {
        let line: Vec<_> = (0..5).map(|x| (f64::from(x), 3.0 - f64::from(x))).collect();
        assert_eq!(correlation(&line), Some(-1.0));
        assert_eq!(correlation(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(correlation(&[]), None);
    }
}
