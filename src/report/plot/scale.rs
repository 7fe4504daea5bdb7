//! The range of an axis and the positions of its numbers.

use crate::report::grouped;
use crate::report::plot::Axis;
use crate::units::significant;
use std::ops::Range;

/// Free space beside the outermost values, as a share of their distance.
const MARGIN: f64 = 0.03;

/// An axis with its range. Positions are values, or their decimal logarithms.
#[derive(Clone)]
pub(super) struct Scale {
    log: bool,
    /// The range in positions.
    pub range: Range<f64>,
    /// Positions of the numbers.
    pub ticks: Vec<f64>,
    step: f64,
}

impl Scale {
    /// An axis that shows all these values, with about this many numbers; `head` is further free space at its
    /// upper end, as a share of its length.
    pub(super) fn new(axis: &Axis, values: impl Iterator<Item = f64>, numbers: f64, head: f64) -> Self {
        let log = axis.log;
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.map(|value| place(log, value)) {
            if value.is_finite() {
                (low, high) = (low.min(value), high.max(value));
            }
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low == high {
            let room = if log { 0.5 } else { low.abs().max(1.0) * 0.1 };
            (low, high) = (low - room, high + room);
        }
        let length = high - low;
        let range = low - length * MARGIN..high + length * (MARGIN + head);
        let (ticks, step) = if log && length > 0.7 {
            (decades(&range), 0.0)
        } else if log {
            // Less than a decade: round values, at the places of their logarithms.
            let values = 10f64.powf(range.start)..10f64.powf(range.end);
            let (ticks, step) = round_values(&values, numbers);
            (ticks.into_iter().map(f64::log10).collect(), step)
        } else {
            round_values(&range, numbers)
        };
        Self {
            log,
            range,
            ticks,
            step,
        }
    }

    /// The position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        place(self.log, value)
    }

    /// The number at a position.
    pub(super) fn number(&self, position: f64) -> String {
        let value = if self.log { 10f64.powf(position) } else { position };
        if self.log && self.step == 0.0 && value < 1.0 {
            return significant(value)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned();
        }
        let digits = if self.step > 0.0 && self.step < 1.0 {
            (-self.step.log10()).ceil() as usize
        } else {
            0
        };
        if digits == 0 && value >= 0.0 {
            grouped(value.round() as u64)
        } else {
            format!("{value:.digits$}")
        }
    }
}

fn place(log: bool, value: f64) -> f64 {
    if log { value.log10() } else { value }
}

/// Multiples of 1, 2 or 5 times a power of ten, and their distance.
fn round_values(range: &Range<f64>, numbers: f64) -> (Vec<f64>, f64) {
    let rough = (range.end - range.start) / numbers;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power);
    let first = (range.start / step).ceil() as i64;
    let last = (range.end / step).floor() as i64;
    let ticks = (first..=last).map(|at| at as f64 * step).collect();
    (ticks, step)
}

/// The logarithms of 1, 2 and 5 times each power of ten, or of the powers alone where there are many.
fn decades(range: &Range<f64>) -> Vec<f64> {
    let factors: &[f64] = if range.end - range.start > 3.0 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let powers = range.start.floor() as i32..=range.end.ceil() as i32;
    powers
        .flat_map(|power| factors.iter().map(move |factor| f64::from(power) + factor.log10()))
        .filter(|at| range.contains(at))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(log: bool, values: &[f64]) -> Vec<String> {
        let axis = Axis { log, ..Axis::default() };
        let scale = Scale::new(&axis, values.iter().copied(), 8.0, 0.0);
        scale.ticks.iter().map(|at| scale.number(*at)).collect()
    }

    #[test]
    fn numbers_are_round_and_few() {
        let expected = ["2,000", "3,000", "4,000", "5,000", "6,000"];
        assert_eq!(numbers(false, &[1536.0, 6144.0]), expected);
        assert_eq!(numbers(false, &[0.61, 0.79])[..2], ["0.65", "0.70"]);
        assert_eq!(numbers(true, &[1.0, 100.0])[..4], ["1", "2", "5", "10"]);
        assert_eq!(numbers(true, &[0.1, 1.0])[..2], ["0.1", "0.2"]);
        assert!(numbers(true, &[100.0, 200.0]).len() >= 3);
        assert!(!numbers(false, &[7.0]).is_empty());
        assert!(!numbers(false, &[]).is_empty());
    }
}
