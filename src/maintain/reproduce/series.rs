//! Series: what the predictor says along a size, beside what was measured there.

use crate::reproduce::formula::Sizes;
use crate::reproduce::judge::{Basis, Unit, correlation, mean};
use crate::reproduce::layer::Layer;
use crate::reproduce::spec::{Evidence, SeriesSpec};
use crate::reproduce::subject::{LayerValue, StepValue, Subject};
use crate::reproduce::timings::{Predictors, Timings, rates};
use shapewise::arch::parameters;
use shapewise::error::{Error, Result};
use shapewise::ops::Gemm;
use shapewise::predict::step::estimate_step;

/// Fewer measured points than this say nothing about a curve.
const LEAST_POINTS: usize = 8;

/// A series of a finding, computed.
pub struct Series {
    /// Its name in the file.
    pub name: String,
    /// The GPU that was predicted.
    pub gpu: String,
    /// What its measurements are.
    pub basis: Basis,
    /// What its values count.
    pub unit: Unit,
    /// The name of its horizontal size; empty where nothing varies.
    pub along: String,
    /// Horizontal and predicted values.
    pub predicted: Vec<(f64, f64)>,
    /// The sizes of each predicted point; fewer where points are means.
    pub sizes: Vec<Sizes>,
    /// Horizontal and measured values; fewer or none.
    pub measured: Vec<(f64, f64)>,
    /// The measured points that are judged.
    pub judged: Vec<Point>,
    /// Single measurements that look like a disturbance of the run.
    pub disturbed: Vec<(f64, f64)>,
}

/// What was measured and predicted at one place.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The horizontal value.
    pub x: f64,
    /// As it was measured.
    pub measured: f64,
    /// As it is predicted.
    pub predicted: f64,
}

/// The user's timings: all of them, and those that judge what nets are fitted to.
pub struct Rows<'a> {
    /// All.
    pub all: &'a Timings,
    /// Those that judge.
    pub judging: Timings,
}

impl Series {
    /// Predicts a series; `place` names its file.
    pub fn new(spec: &SeriesSpec, place: &str, predictors: &Predictors, rows: &Rows) -> Result<Self> {
        let points = spec.points(place)?;
        let gpu = &predictors.of(&spec.gpu).gpu().name;
        let along = spec.along.as_ref().or_else(|| spec.sizes.keys().next());
        let mut series = Self {
            name: spec.name.clone(),
            gpu: gpu.to_string(),
            basis: predictors.basis(spec.basis, gpu),
            unit: spec.predict.unit(),
            along: along.cloned().unwrap_or_default(),
            predicted: Vec::new(),
            sizes: Vec::new(),
            measured: spec.measured.clone(),
            judged: Vec::new(),
            disturbed: Vec::new(),
        };
        if let Subject::Gemm(gemm) = &spec.predict {
            let inner = spec.inner();
            let mut gemms = Vec::new();
            for (_, sizes) in &points {
                for inner in &inner {
                    let sizes = sizes.clone().into_iter().chain(inner.clone()).collect();
                    gemms.push(spec.within(place, gemm.at(&sizes))?);
                }
            }
            let values = rates(predictors.of(&spec.gpu), &gemms);
            let means = values.chunks(inner.len()).map(|each| mean(each.iter().copied()));
            series.predicted = points.iter().map(|point| point.0).zip(means).collect();
            series.sizes = points.into_iter().map(|(_, sizes)| sizes).collect();
            if spec.rows {
                series.lay(&gemms, rows, spec.basis);
            }
        } else {
            for (x, sizes) in points {
                if let Some(y) = value(spec, place, predictors, &sizes)? {
                    let scaled = spec.scale.as_ref();
                    let y = scaled.map_or(y, |(size, over)| y * sizes[size] as f64 / over);
                    series.predicted.push((x, y));
                    series.sizes.push(sizes);
                }
            }
        }
        if spec.by_power_of_two {
            series.predicted = by_power_of_two(&series.predicted);
        }
        if let (true, Some((_, first))) = (spec.over_first, series.predicted.first().copied()) {
            series.predicted.iter_mut().for_each(|point| point.1 /= first);
        }
        if !spec.rows {
            let judged = spec.measured.iter().map(|(x, measured)| {
                Ok(Point {
                    x: *x,
                    measured: *measured,
                    predicted: series.at(place, *x)?,
                })
            });
            series.judged = judged.collect::<Result<_>>()?;
        }
        Ok(series)
    }

    /// Lays the user's timings beside a sweep of GEMMs.
    fn lay(&mut self, gemms: &[Gemm], rows: &Rows, evidence: Evidence) {
        let grid: Vec<_> = self
            .predicted
            .iter()
            .map(|point| point.0)
            .zip(gemms.iter().copied())
            .collect();
        let judging = match evidence {
            Evidence::KeptOut => rows.all,
            _ => &rows.judging,
        };
        let point = |(at, measured): (usize, f64)| Point {
            x: self.predicted[at].0,
            measured,
            predicted: self.predicted[at].1,
        };
        self.judged = judging.on_grid(&self.gpu, &grid).map(point).collect();
        self.measured = self.judged.iter().map(|point| (point.x, point.measured)).collect();
        // Neighbours are those of the whole sweep, whether they judge or not.
        self.disturbed = rows.all.disturbed(&self.gpu, &grid);
    }

    /// The predicted value at a place.
    pub fn at(&self, place: &str, x: f64) -> Result<f64> {
        let found = self.predicted.iter().find(|point| point.0 == x);
        found.map(|point| point.1).ok_or_else(|| {
            let field = format!("series {}: at", self.name);
            Error::field(place, &field, x, "horizontal values of the series")
        })
    }

    /// The measured value at a place.
    pub fn measured_at(&self, x: f64) -> Option<f64> {
        let found = self.measured.iter().find(|point| point.0 == x);
        found.map(|point| point.1)
    }

    /// Takes points out of what is judged; they are drawn all the same.
    pub fn take_out(judged: &mut Vec<Point>, is_out: impl Fn(&Point) -> bool) -> Vec<Point> {
        let (out, kept) = std::mem::take(judged).into_iter().partition(is_out);
        *judged = kept;
        out
    }

    /// Values of neighbours.
    pub fn steps(&self) -> impl Iterator<Item = (f64, f64)> {
        self.predicted.windows(2).map(|pair| (pair[0].1, pair[1].1))
    }
}

/// Measured with predicted values.
pub fn pairs(points: &[Point]) -> Vec<(f64, f64)> {
    points.iter().map(|point| (point.measured, point.predicted)).collect()
}

/// Correlation of measured and predicted values.
pub fn follows(points: &[Point]) -> f64 {
    correlation(&pairs(points))
}

/// Whether there are enough measured points to judge a curve.
pub fn is_measured(points: &[Point]) -> bool {
    points.len() >= LEAST_POINTS
}

/// The value of a layer or a step; `None` if the ranks do not divide it and that is asked for.
fn value(spec: &SeriesSpec, place: &str, predictors: &Predictors, sizes: &Sizes) -> Result<Option<f64>> {
    let predictor = predictors.of(&spec.gpu);
    let value = match &spec.predict {
        Subject::Gemm(_) => return Ok(None),
        Subject::Layer { model, work, value } => {
            let model = spec.within(place, model.at(sizes))?;
            let layer = Layer::predict(predictor, &model, &spec.within(place, work.at(sizes))?)?;
            match value {
                LayerValue::Rate => layer.rate(),
                LayerValue::AttentionRate => layer.attention_rate(),
                LayerValue::AttentionShare => 1.0 - layer.share(|role| role.name().starts_with("mlp")),
                LayerValue::Millis => layer.time().millis(),
                LayerValue::ShareOf(roles) => layer.share(|role| roles.contains(&role)),
            }
        }
        Subject::Step { model, work, value } => {
            let model = spec.within(place, model.at(sizes))?;
            let work = spec.within(place, work.at(sizes))?;
            if spec.skip_indivisible && work.validate(&model).is_err() {
                return Ok(None);
            }
            let step = estimate_step(predictor, &model, &work)?;
            match value {
                StepValue::TokensPerS => step.tokens_per_s,
                StepValue::TokensPerSPerGpu => step.tokens_per_s_per_gpu(),
                StepValue::Millis => step.time.millis(),
            }
        }
        Subject::LayerParameters { model } => parameters(&spec.within(place, model.at(sizes))?).non_embedding as f64,
    };
    Ok(Some(value))
}

/// The greatest power of two, at most 64, that divides a size.
pub fn power_of_two(size: u64) -> u64 {
    1 << size.trailing_zeros().min(6)
}

/// The mean of all points that the same power of two divides, by that power.
fn by_power_of_two(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let powers = (0..7).map(|exponent| 1 << exponent);
    let means = powers.map(|power| {
        let of = points.iter().filter(|point| power_of_two(point.0 as u64) == power);
        (power as f64, mean(of.map(|point| point.1)))
    });
    // A power that divides no size has no mean.
    means.filter(|(_, mean)| !mean.is_nan()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::timings::Timing;
    use shapewise::gpu::Gpu;
    use shapewise::ops::Dtype;
    use shapewise::ops::Layout;
    use shapewise::ops::Op;
    use shapewise::predict::Predictor;
    use shapewise::toml_text;
    use shapewise::units::FlopsPerSecond;

    const GPU: &str = "a100-40gb";

    fn series(text: &str, timings: &Timings) -> Series {
        let spec: SeriesSpec = toml_text::parse(text, "").unwrap();
        let target = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
        let predictors = Predictors::new(target, None, [GPU].into_iter()).unwrap();
        let rows = Rows {
            all: timings,
            judging: timings.judging(&predictors),
        };
        Series::new(&spec, "x.toml", &predictors, &rows).unwrap()
    }

    #[test]
    fn single_disturbed_measurements_are_told_from_steps_and_ranges() {
        let rates = [
            240.0, 40.0, 241.0, 243.0, 200.0, 210.0, 220.0, 244.0, 150.0, 152.0, 245.0,
        ];
        let timed = rates.iter().zip(1..).map(|(rate, step)| {
            let op = Op::Gemm(Gemm {
                layout: Layout::Tn,
                dtype: Dtype::Fp16,
                ..Gemm::new(64 * step, 64, 64)
            });
            Timing {
                gpu: GPU.to_owned(),
                op,
                time: op.flops() / FlopsPerSecond::from_flops_per_sec(rate * 1e12),
                kept_out: false,
            }
        });
        let text = r#"
            name = "m"
            gpu = "a100-40gb"
            sizes.m = { from = 64, to = 704, step = 64 }
            predict.gemm = { m = "m", n = 64, k = 64, layout = "tn", dtype = "fp16" }
            rows = true
            basis = "fitted"
        "#;
        let series = series(text, &Timings(timed.collect()));
        let near = |rate: f64, wanted: f64| (rate - wanted).abs() < 1e-6;
        // The step down to 200 and the range of 150 have neighbours that are as low.
        let [(x, rate)] = series.disturbed[..] else {
            panic!("one: {:?}", series.disturbed)
        };
        assert!(x == 128.0 && near(rate, 40.0));
        assert_eq!((series.judged.len(), series.measured.len()), (11, 11));
        let mut judged = series.judged.clone();
        let taken = Series::take_out(&mut judged, |point| near(point.measured, 40.0));
        assert_eq!((taken.len(), taken[0].x), (1, 128.0));
        assert_eq!(taken[0].predicted, series.predicted[1].1);
        // Another time, places and rates still belong together.
        let taken = Series::take_out(&mut judged, |point| point.x == 320.0);
        assert!(near(taken[0].measured, 200.0));
        assert_eq!((judged.len(), series.basis), (9, Basis::Trained));
    }

    #[test]
    fn means_are_of_the_sizes_that_one_power_of_two_divides() {
        let powers = [50257, 50258, 12, 40, 48, 96, 64, 51200].map(power_of_two);
        assert_eq!(powers, [1, 2, 4, 8, 16, 32, 64, 64]);
        let points = [(1.0, 10.0), (2.0, 5.0), (3.0, 20.0), (128.0, 7.0)];
        assert_eq!(by_power_of_two(&points), [(1.0, 15.0), (2.0, 5.0), (64.0, 7.0)]);
    }

    #[test]
    fn a_mean_over_a_size_is_that_of_its_single_predictions() {
        let text = |sizes: &str| {
            format!(
                r#"
                name = "n"
                gpu = "a100-40gb"
                sizes.ranks = [1, 2]
                mean_over.h = {sizes}
                predict.gemm = {{ m = 512, n = "h/ranks", k = "h", layout = "tn", dtype = "fp16" }}
                "#
            )
        };
        let of = |sizes: &str| series(&text(sizes), &Timings::default()).predicted;
        let (both, small, large) = (of("[1024, 4096]"), of("[1024]"), of("[4096]"));
        for (at, ranks) in [1.0, 2.0].into_iter().enumerate() {
            assert_eq!(both[at], (ranks, (small[at].1 + large[at].1) / 2.0));
        }
        assert!(small[0].1 < large[0].1);
    }
}
