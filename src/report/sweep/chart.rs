//! A sweep as a chart.

use crate::report::based_on;
use crate::report::plot::{Axis, Band, Chart, Series};
use crate::report::sweep::SweepReport;

/// The most points that are marked one by one.
const MOST_POINTS: usize = 600;

impl SweepReport {
    /// The curve with its interval, and what was measured.
    pub(super) fn chart(&self) -> Chart {
        let (rate, unit) = if self.is_model() {
            ("throughput", "tokens/s")
        } else {
            ("rate", "TFLOP/s")
        };
        let points = || self.points.iter().map(|point| (point.value as f64, point.rates()));
        Chart {
            title: format!(
                "{} on {}: {unit} against {}",
                self.subject, self.gpu.title, self.dimension
            ),
            subtitle: format!("{}\nbased on {}", self.constants(), based_on(&self.basis)),
            x: Axis::linear(&self.dimension, ""),
            y: Axis::linear(rate, unit),
            band: Some(Band {
                name: "90 % interval".to_owned(),
                points: points().map(|(x, [low, _, high])| (x, low, high)).collect(),
            }),
            lines: vec![Series::new("predicted", points().map(|(x, [_, rate, _])| (x, rate)))],
            points: self
                .measured_series()
                .into_iter()
                .chain(self.aligned())
                .chain(self.too_large())
                .collect(),
            ..Chart::default()
        }
    }

    /// One series of measured points per software stack.
    fn measured_series(&self) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for point in &self.measured {
            let name = format!("measured, {}", point.stack);
            let spot = (point.value as f64, point.tflops_per_s);
            match all.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(spot),
                None => all.push(Series::new(name, [spot])),
            }
        }
        all
    }

    /// The points of a model whose size is aligned, if some are not.
    fn aligned(&self) -> Option<Series> {
        let wanted = self.alignment_wanted;
        let is_aligned = |alignment: Option<u64>| alignment.is_some_and(|of| of >= wanted);
        let aligned = self.points.iter().filter(|point| is_aligned(point.alignment));
        let points: Vec<_> = aligned.map(|point| (point.value as f64, point.rates()[1])).collect();
        let differs = !points.is_empty() && points.len() < self.points.len();
        // A decoding step waits for memory, which asks for no alignment of the batch or the context.
        let computes = self.first["mode"] != "decode";
        (self.is_model() && computes && differs && points.len() <= MOST_POINTS)
            .then(|| Series::new(format!("{} is a multiple of {wanted}", self.alignment_of), points))
    }

    /// Points that do not fit in memory, drawn apart because their times cannot be reached.
    fn too_large(&self) -> Option<Series> {
        let large = self.points.iter();
        let large = large.filter(|point| point.model.as_ref().is_some_and(|model| !model.fits));
        let points: Vec<_> = large.map(|point| (point.value as f64, point.rates()[1])).collect();
        let every = points.len().div_ceil(MOST_POINTS).max(1);
        (!points.is_empty()).then(|| {
            let name = format!("does not fit ({} of {})", points.len(), self.points.len());
            Series::new(name, points.into_iter().step_by(every))
        })
    }
}
