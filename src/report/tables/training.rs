//! The answer to `train`: what was trained, and how wrong it is on shapes it had not seen.

use crate::dataset::RunToRun;
use crate::families::Family;
use crate::regressor::artifact::{Card, GroupErrors, Key, Submodel};
use crate::report::table::{dash, left, right, row, table};
use crate::report::{Report, percent};
use serde::Serialize;
use std::path::Path;

/// A model that has just been written.
#[derive(Clone, Debug, Serialize)]
pub struct TrainingReport {
    /// Folder of the model.
    pub out: String,
    /// Its heads.
    pub heads: Vec<HeadLine>,
}

/// One sub-model and the error table of its held-out fit.
#[derive(Clone, Debug, Serialize)]
pub struct HeadLine {
    /// Name of the GPU.
    pub gpu: String,
    /// Software that was timed.
    pub stack: String,
    /// Name of the operator family.
    pub family: Family,
    /// Number format or kernel within the family.
    pub dtype: String,
    /// Rows of every table it learned from.
    pub rows: u64,
    /// Errors on held-out keys, all rows first.
    pub held_out: Vec<GroupErrors>,
    /// Median difference between two times of one case, where the rows hold repeats: no model can be better than that.
    pub run_to_run_median: Option<f64>,
}

impl TrainingReport {
    /// What the card says.
    pub fn new(out: &Path, card: &Card, noise: &dyn Fn(&Key) -> Option<RunToRun>) -> Self {
        let line = |head: &Submodel| HeadLine {
            gpu: head.key.gpu.clone(),
            stack: head.key.stack.clone(),
            family: head.key.family,
            dtype: head.key.variant.to_string(),
            rows: head.data.iter().map(|source| source.rows as u64).sum(),
            held_out: head.held_out.clone(),
            run_to_run_median: noise(&head.key).map(|noise| noise.median),
        };
        Self {
            out: out.display().to_string(),
            heads: card.submodels.iter().map(line).collect(),
        }
    }
}

impl Report for TrainingReport {
    const LISTS: &'static [&'static str] = &["heads.held_out"];

    fn page(&self) -> String {
        let mut lines = Vec::new();
        for head in &self.heads {
            for errors in &head.held_out {
                lines.push(row![
                    format!("{} {} {} {}", head.gpu, head.stack, head.family, head.dtype),
                    errors.group,
                    errors.n,
                    percent(errors.median_ape),
                    percent(errors.mean_ape),
                    percent(errors.p90_ape),
                    percent(errors.interval_half_width_median),
                    dash(head.run_to_run_median.map(percent)),
                ]);
            }
        }
        let columns = [
            left("head"),
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
