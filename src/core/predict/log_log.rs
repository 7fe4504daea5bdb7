//! Interpolation of measured points, linear in the logarithms of both axes.

use serde::Deserialize;

/// A positive quantity by size; in TOML a list of `[size, value]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<(f64, f64)>")]
pub struct LogLog {
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    size: f64,
    value: f64,
    ln_size: f64,
    ln_value: f64,
}

impl TryFrom<Vec<(f64, f64)>> for LogLog {
    type Error = &'static str;

    fn try_from(points: Vec<(f64, f64)>) -> Result<Self, Self::Error> {
        let positive = points.iter().all(|&(size, value)| size > 0.0 && value > 0.0);
        if !positive || points.is_empty() || !points.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("allowed are one point or more, with rising sizes and positive values");
        }
        let points = points.into_iter().map(|(size, value)| Point {
            size,
            value,
            ln_size: size.ln(),
            ln_value: value.ln(),
        });
        Ok(Self {
            points: points.collect(),
        })
    }
}

impl LogLog {
    /// The value at a size; beyond the ends that of the end.
    pub fn at(&self, size: f64) -> f64 {
        let next = self.points.iter().position(|point| point.size >= size);
        match next {
            None => self.points[self.points.len() - 1].value,
            Some(0) => self.points[0].value,
            Some(next) => {
                let [from, to] = [self.points[next - 1], self.points[next]];
                let share = (size.ln() - from.ln_size) / (to.ln_size - from.ln_size);
                (from.ln_value + (to.ln_value - from.ln_value) * share).exp()
            }
        }
    }

    /// The values of its points.
    #[cfg(test)]
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_points_logarithms_are_interpolated_and_beyond_the_ends_nothing_changes() {
        let curve = LogLog::try_from(vec![(1.0, 8.0), (100.0, 2.0), (1e4, 2.0)]).unwrap();
        for (size, value) in [
            (0.5, 8.0),
            (1.0, 8.0),
            (10.0, 4.0),
            (100.0, 2.0),
            (500.0, 2.0),
            (1e9, 2.0),
        ] {
            assert!((curve.at(size) - value).abs() < 1e-12, "{size}");
        }
        let flat = LogLog::try_from(vec![(3.0, 0.7)]).unwrap();
        assert_eq!([1.0, 3.0, 9.0].map(|size| flat.at(size)), [0.7; 3]);
        for points in [vec![], vec![(2.0, 1.0), (1.0, 1.0)], vec![(1.0, 0.0)]] {
            assert!(LogLog::try_from(points).is_err());
        }
    }
}
