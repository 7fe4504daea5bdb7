//! The findings of the co-design paper as a document: text and JSON, and a report in HTML and
//! Markdown with its plots.

mod chart;

mod document;

mod html;

mod markdown;

mod pages;

mod text;

use crate::report::document::{FindingDocument, ThresholdDocument};
use crate::report::html::Html;
use crate::report::markdown::Markdown;
use crate::reproduce::Finding;
use crate::reproduce::judge::Outcome;
use serde::Serialize;
use shapewise::error::Result;
use shapewise::gpu::Gpu;
use shapewise::report::plot;
use shapewise::report::plot::Chart;

/// Pixels of one plot: two fit side by side on a screen, one can be read on a phone.
const PLOT: (u32, u32) = (720, 460);

/// Every finding, predicted beside measured.
#[derive(Clone, Debug, Serialize)]
pub struct ReproduceReport {
    gpu: String,
    gpu_title: String,
    /// Rows that were handed over, of the authors' GPUs.
    measured_rows: u64,
    thresholds: ThresholdDocument,
    reproduced: usize,
    partly: usize,
    not_reproduced: usize,
    /// Agreeing in direction, or nothing to compare with.
    unmeasured: usize,
    findings: Vec<FindingDocument>,
    #[serde(skip)]
    charts: Vec<Vec<Chart>>,
}

/// A file of the report.
pub struct File {
    /// Its name inside the folder.
    pub name: String,
    /// What it holds.
    pub content: String,
}

impl ReproduceReport {
    /// The document on these findings.
    pub fn new(gpu: &Gpu, measured_rows: u64, findings: &[Finding]) -> Self {
        let count = |outcome: Outcome| {
            let verdicts = findings.iter().map(Finding::verdict);
            verdicts
                .filter(|verdict| verdict.measured && verdict.outcome == outcome)
                .count()
        };
        let unmeasured = findings.iter().filter(|finding| !finding.verdict().measured);
        Self {
            gpu: gpu.name.clone(),
            gpu_title: gpu.title.clone(),
            measured_rows,
            thresholds: ThresholdDocument::default(),
            reproduced: count(Outcome::Reproduced),
            partly: count(Outcome::Partly),
            not_reproduced: count(Outcome::NotReproduced),
            unmeasured: unmeasured.count(),
            findings: findings.iter().map(FindingDocument::from).collect(),
            charts: findings.iter().map(chart::charts).collect(),
        }
    }

    /// The report as one HTML file, and as Markdown with picture files.
    pub fn files(&self) -> Result<Vec<File>> {
        let mut plots = Vec::new();
        for charts in &self.charts {
            let drawn = charts.iter().map(|chart| plot::svg(chart, PLOT.0, PLOT.1));
            plots.push(drawn.collect::<Result<Vec<_>>>()?);
        }
        let mut files = vec![
            File {
                name: "report.html".to_owned(),
                content: pages::page(self, &Html(&plots)),
            },
            File {
                name: "report.md".to_owned(),
                content: pages::page(self, &Markdown),
            },
        ];
        for (finding, plots) in self.findings.iter().zip(plots) {
            files.extend(plots.into_iter().enumerate().map(|(at, content)| File {
                name: finding.picture(at),
                content,
            }));
        }
        Ok(files)
    }

    /// What the verdicts come to, in one sentence.
    fn summary(&self) -> String {
        format!(
            "{} findings: {} reproduced, {} partly, {} not; {} without a measurement to compare with.",
            self.findings.len(),
            self.reproduced,
            self.partly,
            self.not_reproduced,
            self.unmeasured
        )
    }

    /// A sentence on the data behind the numbers.
    fn basis(&self) -> String {
        let rows = match self.measured_rows {
            0 => "no timings were handed over (`--data`); single measured numbers are quoted with their source"
                .to_owned(),
            rows => format!(
                "{rows} timings of the authors' GPUs were handed over; single measured numbers are quoted with their source"
            ),
        };
        format!(
            "Whole models are predicted for {} ({}), sweeps and single layers for the GPUs they were measured on: V100, A100 with 40 GB, \
             one die of MI250X. {}.",
            self.gpu_title,
            self.gpu,
            capitalised(&rows)
        )
    }
}

/// How the rows of a table are obtained that was not handed over.
fn how_to_get(table: &str) -> String {
    format!(
        "The measured points of a sweep are missing here: convert the authors' raw sweeps with `shapewise import cookbook {table} --out \
         mine.parquet` and name the result with `--data mine.parquet`."
    )
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::judge::{Basis, Criterion, Unit};
    use crate::reproduce::{Axis, Comparison, Curve, Panel};
    use shapewise::report::Report;

    /// A finding with a met and an unmet criterion, a number that was not seen, and texts that are
    /// no HTML.
    fn finding() -> Finding {
        let axis = |label: &str| Axis {
            label: label.to_owned(),
            unit: Unit::Share,
            log: false,
        };
        Finding {
            id: "made-up".to_owned(),
            title: "Made up & <small>".to_owned(),
            claim: "a < b".to_owned(),
            source: "no source".to_owned(),
            rules: vec!["vocabulary".to_owned()],
            takes_rows: true,
            panels: vec![Panel {
                title: "A panel".to_owned(),
                conditions: "word ".repeat(60).trim().to_owned(),
                x: axis("x"),
                y: axis("y"),
                predicted: vec![Curve {
                    name: "predicted".to_owned(),
                    points: vec![(1.0, 0.25), (2.0, 0.5)],
                    labels: Vec::new(),
                }],
                points: Vec::new(),
                basis: Vec::new(),
                marks: None,
            }],
            comparisons: vec![Comparison {
                what: "a | b".to_owned(),
                measured: None,
                predicted: 1.5,
                unit: Unit::Ratio,
            }],
            criteria: vec![
                Criterion::near("a ratio", Basis::KeptOut, 1.0, 1.0),
                Criterion::near("another", Basis::Trained, 2.0, 1.0),
            ],
            notes: vec!["the paper's number was not seen".to_owned()],
            missing: Some("table.parquet".to_owned()),
        }
    }

    fn report() -> ReproduceReport {
        let gpu = Gpu::find("a100").unwrap();
        ReproduceReport::new(gpu, 0, &[finding()])
    }

    #[test]
    fn text_and_json_say_the_same() {
        let (text, json) = (report().text(), report().json());
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        let finding = &document["findings"][0];
        assert_eq!(finding["verdict"], "partly");
        assert_eq!(finding["stands_on"], serde_json::json!(["kept_out", "trained"]));
        assert_eq!((&document["partly"], &document["reproduced"]), (&1.into(), &0.into()));
        // What was not measured is absent, the limit of a criterion present.
        assert!(finding["comparisons"][0]["measured"].is_null());
        assert_eq!(finding["criteria"][0]["at_most"], 0.15);
        for part in [
            "made-up",
            "partly",
            "1 of 2",
            "another: 2.00 predicted",
            "import cookbook",
        ] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }

    #[test]
    fn pages_hold_every_text_and_no_markup_of_it() {
        let files = report().files().unwrap();
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["report.html", "report.md", "made-up-1.svg"]);
        let html = &files[0].content;
        assert!(html.contains("Made up &amp; &lt;small&gt;") && !html.contains("<small>"));
        assert!(html.contains("viewBox=\"0 0 720 460\"") && html.contains("not seen"));
        let markdown = &files[1].content;
        assert!(markdown.contains("](made-up-1.svg)") && markdown.contains("a \\| b"));
        // Long conditions take several lines; shares are drawn in percent.
        let svg = &files[2].content;
        assert!(svg.matches("word word").count() > 2 && svg.contains("50"));
    }
}
