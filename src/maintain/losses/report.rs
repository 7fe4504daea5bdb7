//! The answer to `losses`: errors of predicted differences of loss.

use crate::losses::pairs::{PairErrors, PairTest};
use serde::Serialize;
use shapewise::report::table::{dash, left, right, table};
use shapewise::report::tables::{SkippedRows, skipped_text};
use shapewise::report::{Report, grouped, percent};
use std::collections::BTreeMap;

/// Errors of predicted differences of loss by set of comparable losses and by what predicted them.
#[derive(Clone, Debug, Serialize)]
pub struct LossReport {
    sets: Vec<PairKeys>,
    overall: Vec<PairKeys>,
    skipped: Vec<SkippedRows>,
    /// Pairs without a prediction of some laws, by reason.
    unjudged_pairs: BTreeMap<String, u64>,
}

/// Statistics on the wire: shares are fractions, null where no pair gives them.
#[derive(Clone, Debug, Serialize)]
struct PairKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_on: Option<String>,
    judge: &'static str,
    shapes: usize,
    pairs: usize,
    measured_rms_mnat: f64,
    median_error_mnat: f64,
    rms_error_mnat: f64,
    sign_right: Option<f64>,
    coverage_90: Option<f64>,
}

impl LossReport {
    /// Describes a pair test; `skipped` are all rows without a pair.
    pub fn new(test: &PairTest, skipped: Vec<SkippedRows>) -> Self {
        let keys = |all: bool| {
            let errors = test.errors.iter();
            let wanted = errors.filter(|errors| errors.set.is_none() == all);
            wanted.map(PairKeys::from).collect()
        };
        Self {
            sets: keys(false),
            overall: keys(true),
            skipped,
            unjudged_pairs: test
                .unjudged
                .iter()
                .map(|(reason, pairs)| (reason.to_owned(), pairs))
                .collect(),
        }
    }
}

impl From<&PairErrors> for PairKeys {
    fn from(errors: &PairErrors) -> Self {
        let set = errors.set.as_ref();
        Self {
            source: set.map(|set| set.source.clone()),
            split: set.map(|set| set.split.clone()),
            loss_on: set.map(|set| set.loss_on.clone()),
            judge: errors.judge.name(),
            shapes: errors.shapes,
            pairs: errors.pairs,
            measured_rms_mnat: 1e3 * errors.measured_rms,
            median_error_mnat: 1e3 * errors.median_error,
            rms_error_mnat: 1e3 * errors.rms_error,
            sign_right: errors.sign_right,
            coverage_90: errors.coverage_90,
        }
    }
}

impl Report for LossReport {
    const LISTS: &'static [&'static str] = &["sets"];

    fn page(&self) -> String {
        let headings = [
            left("source"),
            left("split"),
            left("loss on"),
            left("laws").minor(4),
            right("shapes"),
            right("pairs"),
            right("measured").minor(3),
            right("median error"),
            right("rms error").minor(5),
            right("sign"),
            right("inside"),
        ];
        let cell = |text: &Option<String>| text.clone().unwrap_or_else(|| "all".to_owned());
        let rows = self.sets.iter().chain(&self.overall).map(|keys| {
            [
                cell(&keys.source),
                cell(&keys.split),
                cell(&keys.loss_on),
                keys.judge.to_owned(),
                keys.shapes.to_string(),
                grouped(keys.pairs as u64),
                format!("{:.1}", keys.measured_rms_mnat),
                format!("{:.1}", keys.median_error_mnat),
                format!("{:.1}", keys.rms_error_mnat),
                dash(keys.sign_right.map(percent)),
                dash(keys.coverage_90.map(percent)),
            ]
        });
        let table = table(headings, rows);
        let note = "Differences of loss in 10^-3 nats per token, between shapes after equal tokens whose parameters differ by at most 12 %; signs of differences above 0.01 nats.\n";
        let unjudged = self.unjudged_pairs.iter();
        let unjudged: String = unjudged
            .map(|(reason, pairs)| format!("{pairs:>9}  {reason}\n"))
            .collect();
        let unjudged = match unjudged.is_empty() {
            true => unjudged,
            false => format!("pairs without a prediction of some laws:\n{unjudged}"),
        };
        format!("{table}{note}{unjudged}{}", skipped_text(&self.skipped))
    }
}
