//! The answer to `measure --choices`: how many GEMMs the library named a kernel for.

use crate::measure::choices::Outcome;
use crate::report::tables::{SkippedRows, skipped_text};
use crate::report::{Report, grouped};
use serde::Serialize;
use std::path::Path;
use utoipa::ToSchema;

/// Choices of a library.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChoicesReport {
    /// The file that was written.
    pub out: String,
    /// GPU.
    pub gpu: String,
    /// Software stack.
    pub stack: String,
    /// Seed of the shapes.
    pub seed: u64,
    /// Why it ended: complete, budget, interrupted.
    pub ended: &'static str,
    /// Shapes that the file knows an answer or a refusal of.
    pub shapes: u64,
    /// Shapes that this run asked about.
    pub added: u64,
    /// Answers in the file.
    pub answers: u64,
    /// Shapes of this run without an answer.
    pub skipped: Vec<SkippedRows>,
    /// Threads that asked.
    pub threads: u64,
    /// Duration of the questions.
    pub spent_s: f64,
    /// Time of a thread for one question.
    pub answer_us: Option<f64>,
}

impl ChoicesReport {
    /// The report of a run.
    pub fn new(out: &Path, outcome: &Outcome, skipped: Vec<SkippedRows>) -> Self {
        let (asked, spent) = (&outcome.asked, outcome.spent.as_secs_f64());
        let each = 1e6 * spent * outcome.threads as f64 / outcome.added as f64;
        Self {
            out: out.display().to_string(),
            gpu: asked.gpu.clone(),
            stack: asked.stack.clone(),
            seed: asked.seed,
            ended: outcome.ended.name(),
            shapes: asked.asked,
            added: outcome.added,
            answers: outcome.answers as u64,
            skipped,
            threads: outcome.threads as u64,
            spent_s: spent,
            answer_us: (outcome.added > 0).then_some(each),
        }
    }
}

impl Report for ChoicesReport {
    fn page(&self) -> String {
        let each = self
            .answer_us
            .map_or(String::new(), |each| format!(", {each:.1} us a shape and thread"));
        format!(
            "{}: {} answers of {} on {}\nasked       {} shapes, {} now, ended by {} after {:.1} s with {} threads{each}\n{}",
            self.out,
            grouped(self.answers),
            self.stack,
            self.gpu,
            grouped(self.shapes),
            grouped(self.added),
            self.ended,
            self.spent_s,
            self.threads,
            skipped_text(&self.skipped)
        )
    }
}
