//! Fits laws of the loss to runs.

use shapewise::error::Result;
use shapewise::least_squares::least_squares;
use shapewise::loss::law::{Form, Law, Size};

/// Standard deviation of a loss that the fit takes for granted, nats per token.
const NOISE: f64 = 0.01;

/// Iterations of a fit.
const ITERATIONS: usize = 60;

/// One measured loss.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The shape.
    pub size: Size,
    /// Tokens trained on.
    pub tokens: f64,
    /// Nats per token.
    pub loss: f64,
    /// Its weight; rows of one shape share theirs.
    pub weight: f64,
}

/// Where the coefficients of a form are before any run is seen, each with its standard deviation: exponents of
/// Chinchilla's fits (arXiv 2203.15556, 2404.10102), the flat region of figure 5 of Kaplan et al. (arXiv 2001.08361).
fn prior(form: Form) -> Vec<(f64, f64)> {
    let common = [(1.8, 0.5), (0.0, 2.0), (0.3, 0.15), (-1.0, 2.0), (0.4, 0.2)];
    let of_shape: &[(f64, f64)] = match form {
        Form::Aspect => &[(0.3, 0.5), (60f64.ln(), 0.7), (0.1, 0.2), (0.05, 0.1)],
        Form::WidthDepth => &[(-1.0, 2.0), (0.5, 0.4), (-1.0, 2.0), (0.5, 0.4)],
        Form::Total => &[],
    };
    common.into_iter().chain(of_shape.iter().copied()).collect()
}

/// Coefficients of the aspect form that are not negative: `kappa`, `q_wide`, `q_deep`.
const NOT_NEGATIVE: [usize; 3] = [5, 7, 8];

/// The law of a form that prior and observations together make most likely.
pub fn fit(form: Form, observations: &[Observation]) -> Result<Law> {
    let prior = prior(form);
    let rooted = |index: usize| form == Form::Aspect && NOT_NEGATIVE.contains(&index);
    let coefficients = |at: &[f64]| -> Vec<f64> {
        let values = at.iter().enumerate();
        let squared = values.map(|(index, value)| match rooted(index) {
            true => value * value,
            false => *value,
        });
        let mut values: Vec<f64> = squared.collect();
        if form == Form::Total {
            // The form counts parameters and tokens one by one, the prior by 1e8 and 1e10.
            values[1] += values[2] * 1e8f64.ln();
            values[3] += values[4] * 1e10f64.ln();
        }
        values
    };
    let residuals = |at: &[f64]| -> Vec<f64> {
        let values = coefficients(at);
        let Ok(law) = Law::new(form, values.clone()) else {
            return vec![f64::MAX.sqrt(); observations.len() + at.len()];
        };
        let of_runs = observations.iter().map(|run| {
            let error = law.loss(&run.size, run.tokens) - run.loss;
            run.weight.sqrt() * error / NOISE
        });
        let of_prior = at.iter().zip(&values).zip(&prior).enumerate();
        let of_prior = of_prior.map(|(index, ((at, value), (mean, sd)))| {
            let value = if rooted(index) { value } else { at };
            (value - mean) / sd
        });
        of_runs.chain(of_prior).collect()
    };
    let start = prior.iter().enumerate();
    let start: Vec<f64> = start
        .map(|(index, (mean, _))| if rooted(index) { mean.sqrt() } else { *mean })
        .collect();
    let solution = least_squares(&residuals, &start, ITERATIONS);
    Law::new(form, coefficients(&solution.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shape of so many parameters in blocks, so much wider than deep.
    fn size(blocks: f64, ratio: f64) -> Size {
        let width = f64::cbrt(blocks * ratio / 12.0);
        Size {
            layers: width / ratio,
            width,
            blocks,
            embeddings: 0.1 * blocks,
        }
    }

    #[test]
    fn a_law_is_found_again_from_its_own_losses() {
        for form in Form::ALL {
            let law = match form {
                Form::Total => Law::new(form, vec![1.8, 6.2, 0.34, 6.2, 0.3]),
                Form::Aspect => Law::new(form, vec![1.9, -0.1, 0.23, -0.8, 0.45, 0.3, 3.8, 0.1, 0.05]),
                Form::WidthDepth => Law::new(form, vec![1.2, -0.7, 0.3, -0.8, 0.45, -0.9, 0.4, -1.0, 0.6]),
            }
            .unwrap();
            let shapes = [1e8, 3e8, 1e9]
                .into_iter()
                .flat_map(|blocks| [8.0, 20.0, 45.0, 90.0, 180.0, 300.0].map(|ratio| size(blocks, ratio)));
            let observations: Vec<_> = shapes
                .flat_map(|size| {
                    let law = &law;
                    [3e9, 1e10, 3e10, 1e11].map(|tokens| Observation {
                        size,
                        tokens,
                        loss: law.loss(&size, tokens),
                        weight: 1.0,
                    })
                })
                .collect();
            let found = fit(form, &observations).unwrap();
            let held_out = size(6e8, 130.0);
            let [there, here] = [&law, &found].map(|law| law.loss(&held_out, 2e10));
            assert!((there - here).abs() < 2e-3, "{form}: {here} for {there}");
        }
    }
}
