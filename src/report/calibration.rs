//! The answer to `calibrate`: the constants that moved, and the errors on configurations kept out.

use crate::calibrate::Sample;
use crate::framework::{Constant, Fit, Framework, Kind};
use crate::report::table::{left, right, row, table};
use crate::report::{Report, percent};
use crate::units::significant;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A framework that was fitted to measured steps.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CalibrationReport {
    framework: String,
    base: String,
    /// Mean absolute percentage error of the base on the same runs, as a fraction.
    base_mean_ape: f64,
    fits: BTreeMap<Kind, Fit>,
    half_widths: BTreeMap<Kind, f64>,
    constants: Vec<Moved>,
    /// The text of the framework's file: a framework of any request.
    pub toml: String,
}

/// A constant before and after the fit.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Moved {
    #[serde(rename = "name")]
    constant: Constant,
    before: f64,
    value: f64,
    sd: f64,
}

impl CalibrationReport {
    /// Describes the framework `fitted` from `base` to `samples`.
    pub fn new(base: &Framework, fitted: &Framework, samples: &[Sample]) -> Self {
        let moved = Constant::ALL
            .into_iter()
            .filter(|&constant| fitted.figure(constant).prior.is_some());
        let apes = samples
            .iter()
            .map(|sample| (sample.time(base) / sample.measured - 1.0).abs());
        Self {
            framework: fitted.name.clone(),
            base: base.name.clone(),
            toml: fitted.to_toml(),
            base_mean_ape: apes.sum::<f64>() / samples.len() as f64,
            fits: fitted.fits.clone(),
            half_widths: Kind::ALL
                .into_iter()
                .filter_map(|kind| Some((kind, fitted.half_width(kind)?)))
                .collect(),
            constants: moved
                .map(|constant| Moved {
                    constant,
                    before: base.get(constant),
                    value: fitted.get(constant),
                    sd: fitted.figure(constant).sd,
                })
                .collect(),
        }
    }
}

impl Report for CalibrationReport {
    const LISTS: &'static [&'static str] = &["constants"];

    fn page(&self) -> String {
        let headings = [
            left("constant"),
            right(self.base.as_str()),
            right("fitted"),
            right("sd of ln"),
        ];
        let rows = self.constants.iter().map(|moved| {
            row![
                moved.constant,
                significant(moved.before),
                significant(moved.value),
                significant(moved.sd),
            ]
        });
        let mut text = format!("{}\n", table(headings, rows));
        for (kind, fit) in &self.fits {
            text.push_str(&format!(
                "{kind}: {} runs, {} configurations; held out: median {}, mean {}, p90 {}; {} inside +-{}\n",
                fit.runs,
                fit.configurations,
                percent(fit.median_ape),
                percent(fit.mean_ape),
                percent(fit.p90_ape),
                percent(fit.coverage_90),
                self.half_widths
                    .get(kind)
                    .map_or_else(String::new, |half| percent(*half)),
            ));
        }
        text.push_str(&format!(
            "{} without the fit: mean {}\n",
            self.base,
            percent(self.base_mean_ape),
        ));
        text
    }
}
