//! Least squares by Levenberg-Marquardt on a handful of variables.

/// A minimum, and the standard deviation of each variable by the curvature there.
pub struct Solution {
    /// The minimum.
    pub at: Vec<f64>,
    /// Standard deviation of each variable.
    pub deviations: Vec<f64>,
}

/// Distance of the points that a derivative is taken from.
const STEP: f64 = 1e-4;

/// Minimises the sum of squares of `residuals`, whose standard deviation is 1.
pub fn least_squares(residuals: &dyn Fn(&[f64]) -> Vec<f64>, start: &[f64], iterations: usize) -> Solution {
    let mut at = start.to_vec();
    let mut here = residuals(&at);
    let mut damping = 1e-3;
    for _ in 0..iterations {
        let (normal, gradient) = normal_equations(residuals, &at, &here);
        let mut damped = normal.clone();
        for (index, row) in damped.iter_mut().enumerate() {
            row[index] *= 1.0 + damping;
        }
        let Some(step) = inverse(&damped).map(|inverse| product(&inverse, &gradient)) else {
            break;
        };
        let next: Vec<f64> = at.iter().zip(&step).map(|(at, step)| at - step).collect();
        let there = residuals(&next);
        let (before, after) = (squares(&here), squares(&there));
        if after < before {
            (at, here) = (next, there);
            damping *= 0.3;
            if before - after < 1e-7 * before {
                break;
            }
        } else {
            damping *= 10.0;
            if damping > 1e8 {
                break;
            }
        }
    }
    let (normal, _) = normal_equations(residuals, &at, &here);
    let deviations = match inverse(&normal) {
        Some(inverse) => (0..at.len())
            .map(|index| inverse[index][index].max(0.0).sqrt())
            .collect(),
        None => vec![0.0; at.len()],
    };
    Solution { at, deviations }
}

/// `J^T J` and `J^T r` by forward differences.
fn normal_equations(residuals: &dyn Fn(&[f64]) -> Vec<f64>, at: &[f64], here: &[f64]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let columns: Vec<Vec<f64>> = (0..at.len())
        .map(|index| {
            let mut moved = at.to_vec();
            moved[index] += STEP;
            let there = residuals(&moved);
            there
                .iter()
                .zip(here)
                .map(|(there, here)| (there - here) / STEP)
                .collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    let normal = columns
        .iter()
        .map(|a| columns.iter().map(|b| dot(a, b)).collect())
        .collect();
    (normal, columns.iter().map(|column| dot(column, here)).collect())
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

fn product(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    let row = |row: &Vec<f64>| row.iter().zip(vector).map(|(a, b)| a * b).sum();
    matrix.iter().map(row).collect()
}

/// The inverse by Gauss-Jordan elimination with partial pivoting; `None` if the matrix is singular.
fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let mut rows: Vec<Vec<f64>> = matrix
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let unit = (0..n).map(|column| f64::from(u8::from(column == index)));
            row.iter().copied().chain(unit).collect()
        })
        .collect();
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        let scale = rows[column][column];
        if scale.abs() < 1e-300 {
            return None;
        }
        rows[column].iter_mut().for_each(|value| *value /= scale);
        let pivot_row = rows[column].clone();
        for (index, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if index != column && factor != 0.0 {
                row.iter_mut()
                    .zip(&pivot_row)
                    .for_each(|(value, pivot)| *value -= factor * pivot);
            }
        }
    }
    Some(rows.into_iter().map(|row| row[n..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_found_with_its_deviations() {
        // y = a exp(b x), exact but for a prior far away that weighs little.
        let points: Vec<(f64, f64)> = (0..20)
            .map(|i| f64::from(i) / 10.0)
            .map(|x| (x, 2.0 * (0.7 * x).exp()))
            .collect();
        let residuals = |at: &[f64]| -> Vec<f64> {
            points
                .iter()
                .map(|(x, y)| (at[0] * (at[1] * x).exp() - y) / 0.1)
                .collect()
        };
        let solution = least_squares(&residuals, &[1.0, 0.1], 100);
        assert!(
            (solution.at[0] - 2.0).abs() < 1e-4 && (solution.at[1] - 0.7).abs() < 1e-4,
            "{:?}",
            solution.at
        );
        assert!(solution.deviations.iter().all(|&sd| sd > 0.0 && sd < 0.1));
        assert!(inverse(&[vec![1.0, 2.0], vec![2.0, 4.0]]).is_none());
    }
}
