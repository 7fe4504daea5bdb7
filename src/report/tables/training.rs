//! The answer to `train`: what was trained, and how wrong it is on shapes it had not seen.

use crate::dataset::RunToRun;
use crate::regressor::artifact::{Card, Key, Submodel};
use crate::report::models::SubmodelKeys;
use crate::report::table::{dash, left, right, row, table};
use crate::report::{Report, percent};
use serde::Serialize;
use std::path::Path;

/// A model that has just been written.
#[derive(Clone, Debug, Serialize)]
pub struct TrainingReport {
    /// Folder of the model.
    pub out: String,
    /// Its sub-models.
    pub submodels: Vec<SubmodelLine>,
}

/// One sub-model and the error table of its held-out fit.
#[derive(Clone, Debug, Serialize)]
pub struct SubmodelLine {
    /// What it has learned from, and how well.
    #[serde(flatten)]
    pub submodel: SubmodelKeys,
    /// Median difference between two times of one case, where the rows hold repeats: no model can be better than that.
    pub run_to_run_median: Option<f64>,
}

impl TrainingReport {
    /// What the card says.
    pub fn new(out: &Path, card: &Card, noise: &dyn Fn(&Key) -> Option<RunToRun>) -> Self {
        let line = |submodel: &Submodel| SubmodelLine {
            submodel: submodel.into(),
            run_to_run_median: noise(&submodel.key).map(|noise| noise.median),
        };
        Self {
            out: out.display().to_string(),
            submodels: card.submodels.iter().map(line).collect(),
        }
    }
}

impl Report for TrainingReport {
    const LISTS: &'static [&'static str] = &["submodels.held_out"];

    fn page(&self) -> String {
        let mut lines = Vec::new();
        for line in &self.submodels {
            let submodel = &line.submodel;
            for errors in &submodel.held_out {
                lines.push(row![
                    format!(
                        "{} {} {} {}",
                        submodel.gpu, submodel.stack, submodel.family, submodel.dtype
                    ),
                    errors.group,
                    errors.n,
                    percent(errors.median_ape),
                    percent(errors.mean_ape),
                    percent(errors.p90_ape),
                    percent(errors.interval_half_width_median),
                    dash(line.run_to_run_median.map(percent)),
                ]);
            }
        }
        let columns = [
            left("sub-model"),
            left("group"),
            right("held-out rows"),
            right("median"),
            right("mean").minor(4),
            right("p90"),
            right("half width"),
            right("run to run").minor(3),
        ];
        format!("{} written\n\n{}", self.out, table(columns, lines))
    }
}
