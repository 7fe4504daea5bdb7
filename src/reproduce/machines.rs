//! The GPUs that findings are about, and the user's timings that lie on a sweep.

use crate::error::Result;
use crate::gpu::Gpu;
use crate::ops::Gemm;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::regressor::artifact::Artifact;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::CORRELATION;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::RATE_ERROR;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::correlation;
use crate::reproduce::judge::median_error;
use crate::units::Seconds;
use std::collections::HashMap;

/// The GPUs that the authors measured on, under the names of `data/gpus`.
pub const AUTHORS: [&str; 3] = ["v100", "a100-40gb", "mi250x"];

/// Predictors for every GPU that a finding needs.
pub struct Machines {
    /// What whole models are predicted for.
    pub target: Predictor,
    /// What the rows of each of [`AUTHORS`] are to the nets that answer for it.
    fitted: [Basis; AUTHORS.len()],
    /// The authors' parts, in the order of [`AUTHORS`].
    pub v100: Predictor,
    #[allow(missing_docs)]
    pub a100: Predictor,
    #[allow(missing_docs)]
    pub mi250x: Predictor,
    /// Where the SwiGLU widths were measured.
    pub h100: Predictor,
    /// The two parts of the headline.
    pub a100_80gb: Predictor,
    #[allow(missing_docs)]
    pub h200: Predictor,
}

impl Machines {
    /// The named model where it answers, else the built-in ones, beside the predictor of the target.
    pub fn new(target: Predictor, model: Option<&Artifact>) -> Result<Self> {
        let predictor = |name: &str| Predictor::new(Gpu::find(name)?, model);
        Ok(Self {
            target,
            fitted: AUTHORS.map(|gpu| match model.map(|model| &model.card) {
                Some(card) if card.kept_out_of(gpu).is_some() => Basis::KeptOut,
                Some(card) if card.knows(gpu) => Basis::Unknown,
                // The built-in nets answer.
                _ => Basis::Trained,
            }),
            v100: predictor("v100")?,
            a100: predictor("a100-40gb")?,
            mi250x: predictor("mi250x")?,
            h100: predictor("h100")?,
            a100_80gb: predictor("a100")?,
            h200: predictor("h200")?,
        })
    }

    /// What points of the sweeps that the shipped nets were trained with are to the nets of this predictor, once
    /// [`Timings::judging`] has chosen them.
    pub fn fitted(&self, predictor: &Predictor) -> Basis {
        self.basis_of(name(predictor))
    }

    /// What means over such sweeps are, which are quoted as a whole: of kept-out keys and of others.
    pub fn quoted(&self, predictor: &Predictor) -> Basis {
        match self.fitted(predictor) {
            Basis::KeptOut => Basis::Trained,
            other => other,
        }
    }

    fn basis_of(&self, gpu: &str) -> Basis {
        let known = AUTHORS
            .iter()
            .zip(self.fitted)
            .find(|(author, _)| **author == gpu);
        known.map_or(Basis::Unknown, |(_, basis)| basis)
    }

    /// The authors' parts, in the order of [`AUTHORS`].
    pub fn authors(&self) -> [&Predictor; 3] {
        [&self.v100, &self.a100, &self.mi250x]
    }
}

/// The name of the GPU that a predictor answers for.
pub fn name(predictor: &Predictor) -> &str {
    &predictor.gpu().name
}

/// TFLOP/s of products.
pub fn rates(predictor: &Predictor, products: &[Gemm]) -> Vec<f64> {
    let ops: Vec<_> = products.iter().map(|product| Op::Gemm(*product)).collect();
    let estimates = predictor.predict(&ops);
    let rates = ops
        .iter()
        .zip(&estimates)
        .map(|(op, estimate)| tflops(op, estimate.time));
    rates.collect()
}

/// TFLOP/s of one product.
pub fn rate(predictor: &Predictor, product: Gemm) -> f64 {
    rates(predictor, &[product])[0]
}

fn tflops(op: &Op, time: Seconds) -> f64 {
    (op.flops() / time).flops_per_sec() / 1e12
}

/// One timing of the user.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Our name of the GPU.
    pub gpu: String,
    /// What ran.
    pub op: Op,
    /// How long.
    pub time: Seconds,
    /// Whether the training of the named model kept its key out.
    pub kept_out: bool,
}

/// The user's timings; may be none.
#[derive(Clone, Debug, Default)]
pub struct Timings(pub Vec<Timing>);

impl Timings {
    /// What judges sweeps that nets are trained with: of a GPU whose nets kept keys out, these keys alone.
    pub fn judging(&self, machines: &Machines) -> Self {
        let judges =
            |timing: &&Timing| timing.kept_out || machines.basis_of(&timing.gpu) != Basis::KeptOut;
        Self(self.0.iter().filter(judges).cloned().collect())
    }

    /// Predicted and measured rates of the products of a grid, each with its place on the horizontal axis.
    pub fn along(&self, predictor: &Predictor, grid: &[(f64, Gemm)]) -> Along {
        let products: Vec<_> = grid.iter().map(|(_, product)| *product).collect();
        let rates = rates(predictor, &products);
        let gpu = name(predictor);
        let point = |(index, measured): (usize, f64)| Point {
            place: grid[index].0,
            measured,
            predicted: rates[index],
        };
        let judged: Vec<_> = self.on_grid(gpu, grid).map(point).collect();
        Along {
            gpu: gpu.to_owned(),
            measured: judged
                .iter()
                .map(|point| (point.place, point.measured))
                .collect(),
            judged,
            predicted: grid.iter().map(|(place, _)| *place).zip(rates).collect(),
        }
    }

    /// Single measurements on a grid that lie far below both of their neighbours, with their places; a product that was timed
    /// twice is its own neighbour.
    pub fn hiccups(&self, predictor: &Predictor, grid: &[(f64, Gemm)]) -> Vec<(f64, f64)> {
        let on_grid = self.on_grid(name(predictor), grid);
        let points: Vec<_> = on_grid.map(|(index, rate)| (grid[index].0, rate)).collect();
        let alone = |points: &&[(f64, f64)]| {
            let [before, here, after] = [points[0], points[1], points[2]];
            here.1 < (1.0 - HICCUP) * before.1.min(after.1)
        };
        let found = points.windows(3).filter(alone);
        found.map(|points| points[1]).collect()
    }

    /// The measured rates of products on a grid, with their indices there, in order.
    fn on_grid(&self, gpu: &str, grid: &[(f64, Gemm)]) -> impl Iterator<Item = (usize, f64)> {
        let indices: HashMap<Gemm, usize> =
            grid.iter().map(|(_, product)| *product).zip(0..).collect();
        let here = self.0.iter().filter(|timing| timing.gpu == gpu);
        let rates = here.filter_map(|timing| match timing.op {
            Op::Gemm(product) => Some((*indices.get(&product)?, tflops(&timing.op, timing.time))),
            _ => None,
        });
        let mut rates: Vec<_> = rates.collect();
        rates.sort_by_key(|(index, _)| *index);
        rates.into_iter()
    }
}

/// One sweep on one GPU.
pub struct Along {
    /// The GPU.
    pub gpu: String,
    /// Horizontal values with predicted rates.
    pub predicted: Vec<(f64, f64)>,
    /// Horizontal values with measured rates; fewer or none.
    pub measured: Vec<(f64, f64)>,
    /// The measured points that are judged.
    judged: Vec<Point>,
}

/// A product that was measured and predicted.
#[derive(Clone, Copy)]
pub struct Point {
    /// The horizontal value.
    pub place: f64,
    /// The measured rate.
    pub measured: f64,
    /// The predicted rate.
    pub predicted: f64,
}

/// A single measurement that lies this share below both of its neighbours in a sweep is taken for a disturbance of the run:
/// the logs keep the slowest or the mean of 200 calls, so one slow call shows, and the sizes beside it show nothing.
const HICCUP: f64 = 0.1;

/// Fewer measured points than this say nothing about a curve.
const LEAST_POINTS: usize = 8;

impl Along {
    /// Takes points out of what is judged; they are drawn all the same.
    pub fn take_out(&mut self, is_out: impl Fn(&Point) -> bool) -> Vec<Point> {
        let (out, judged) = std::mem::take(&mut self.judged)
            .into_iter()
            .partition(is_out);
        self.judged = judged;
        out
    }

    /// Measured with predicted rates of what is judged.
    fn pairs(&self) -> Vec<(f64, f64)> {
        let pairs = self.judged.iter();
        pairs
            .map(|point| (point.measured, point.predicted))
            .collect()
    }

    /// Between measured and predicted rates.
    pub fn correlation(&self) -> f64 {
        correlation(&self.pairs())
    }

    /// Whether there are enough measured points to judge.
    pub fn is_measured(&self) -> bool {
        self.judged.len() >= LEAST_POINTS
    }

    /// Correlation and median error, where there are points.
    pub fn criteria(&self, what: &str, basis: Basis) -> Vec<Criterion> {
        if !self.is_measured() {
            return Vec::new();
        }
        vec![
            self.follows(what, basis),
            Criterion::at_most(
                format!("{what}, {}: median error of the rate", self.gpu),
                basis,
                median_error(&self.pairs()),
                Unit::Share,
                RATE_ERROR,
            ),
        ]
    }

    /// Correlation alone.
    pub fn follows(&self, what: &str, basis: Basis) -> Criterion {
        Criterion::at_least(
            format!(
                "{what}, {}: correlation over {} points",
                self.gpu,
                self.judged.len()
            ),
            basis,
            self.correlation(),
            Unit::Plain,
            CORRELATION,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Dtype, Layout};
    use crate::units::FlopsPerSecond;

    #[test]
    fn single_disturbed_measurements_are_told_from_steps_and_ranges() {
        let rates = [
            240.0, 40.0, 241.0, 243.0, 200.0, 210.0, 220.0, 244.0, 150.0, 152.0, 245.0,
        ];
        let product = |step: u64| Gemm {
            m: 64 * (step + 1),
            n: 64,
            k: 64,
            batch: 1,
            layout: Layout::Tn,
            dtype: Dtype::Fp16,
        };
        let grid = (0..rates.len() as u64).map(|step| (step as f64, product(step)));
        let grid: Vec<(f64, Gemm)> = grid.collect();
        let timed = grid.iter().zip(rates).map(|((_, product), rate)| Timing {
            gpu: "a100-40gb".to_owned(),
            op: Op::Gemm(*product),
            time: Op::Gemm(*product).flops() / FlopsPerSecond::from_flops_per_sec(rate * 1e12),
            kept_out: false,
        });
        let timings = Timings(timed.collect());
        let a100 = Predictor::new(Gpu::find("a100-40gb").unwrap(), None).unwrap();
        let near = |rate: f64, wanted: f64| (rate - wanted).abs() < 1e-6;
        // The step down to 200 and the range of 150 have neighbours that are as low.
        let hiccups = timings.hiccups(&a100, &grid);
        assert_eq!(hiccups.len(), 1);
        assert!(
            hiccups[0].0 == 1.0 && near(hiccups[0].1, 40.0),
            "{hiccups:?}"
        );
        let mut along = timings.along(&a100, &grid);
        let taken = along.take_out(|point| near(point.measured, 40.0));
        assert_eq!((taken.len(), taken[0].place), (1, 1.0));
        assert_eq!(taken[0].predicted, along.predicted[1].1);
        // Another time, places and rates still belong together.
        let taken = along.take_out(|point| point.place == 4.0);
        assert!(near(taken[0].measured, 200.0));
        assert_eq!((along.judged.len(), along.measured.len()), (9, 11));
    }
}
