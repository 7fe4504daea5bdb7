//! The answer to `import`: how many rows were kept, and why the others were not.

use crate::ops::Dtype;
use crate::report::table::{dash, left, right, row, table};
use crate::report::tables::{SkippedRows, skipped_text};
use crate::report::{Report, signed};
use serde::Serialize;

/// What an import kept and left out.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// The file that was written.
    pub out: String,
    /// Rows in it.
    pub kept_rows: u64,
    /// Those rows by GPU, stack, family and format.
    pub kept: Vec<KeptRows>,
    /// How far the anchors of each further file of one GPU and stack are from those of the first.
    pub drift: Vec<FileDrift>,
    /// Steps of traces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TraceSteps>,
    /// Rows that are not in it.
    pub skipped: Vec<SkippedRows>,
}

/// Change of the anchors between two files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileDrift {
    /// The later file.
    pub file: String,
    /// The first file.
    pub against: String,
    /// Anchors that both have.
    pub anchors: u64,
    /// Median change of their times, relative and signed.
    pub change: f64,
}

/// Steps of one trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceSteps {
    /// The trace.
    pub file: String,
    /// How many it has.
    pub steps: u64,
    /// The median of their times.
    pub median_ms: f64,
    /// The file that holds it as a run.
    pub run: Option<String>,
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptRows {
    /// GPU.
    pub gpu: String,
    /// Software stack.
    pub stack: String,
    /// Operator family.
    pub op: String,
    /// Number format; none for collectives.
    pub dtype: Option<Dtype>,
    /// How many.
    pub rows: u64,
}

impl Report for ImportReport {
    const LISTS: &'static [&'static str] = &["kept"];

    fn page(&self) -> String {
        let rows = self
            .kept
            .iter()
            .map(|kept| row![kept.gpu, kept.stack, kept.op, dash(kept.dtype), kept.rows]);
        let headings = [
            left("GPU"),
            left("stack"),
            left("operators"),
            left("dtype"),
            right("rows"),
        ];
        let drift = self.drift.iter().map(|drift| {
            format!(
                "drift       {} in {} against {} ({} anchors)\n",
                signed(drift.change),
                drift.file,
                drift.against,
                drift.anchors
            )
        });
        let steps = self.steps.iter().map(|steps| {
            let run = steps.run.as_ref().map_or_else(
                || "--run makes a run of them".to_owned(),
                |run| format!("a run in {run}"),
            );
            let TraceSteps {
                file, steps, median_ms, ..
            } = steps;
            format!("steps       {steps}, median {median_ms:.4} ms, in {file}; {run}\n")
        });
        format!(
            "{}\nkept {} rows in {}\n{}{}{}",
            table(headings, rows),
            self.kept_rows,
            self.out,
            drift.collect::<String>(),
            steps.collect::<String>(),
            skipped_text(&self.skipped)
        )
    }
}
