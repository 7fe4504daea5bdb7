//! The answer to `evaluate`: the error table.

use crate::dataset::Row;
use crate::evaluate::{Errors, Evaluation, Group, Score, family};
use crate::ops::Dtype;
use crate::predict::estimate::{Tier, TierShares};
use crate::report::table::{dash, left, right, row, table};
use crate::report::tables::{SkippedRows, csv, skipped_text};
use crate::report::{Report, grouped, percent, tier_shares_text};
use crate::units::Seconds;
use serde::Serialize;

/// Error statistics over all rows and per group.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationReport {
    overall: Errors,
    groups: Vec<GroupKeys>,
    skipped: Vec<SkippedRows>,
}

#[derive(Clone, Debug, Serialize)]
struct GroupKeys {
    op: &'static str,
    dtype: Option<Dtype>,
    gpu: String,
    stack: String,
    basis: Option<String>,
    #[serde(flatten)]
    errors: Errors,
    tier_shares: TierShares,
}

impl EvaluationReport {
    /// Describes an evaluation; `skipped` are all rows without a prediction, those lost on import too.
    pub fn new(evaluation: &Evaluation, skipped: Vec<SkippedRows>) -> Self {
        Self {
            overall: evaluation.overall,
            groups: evaluation.groups.iter().map(GroupKeys::from).collect(),
            skipped,
        }
    }
}

/// One timing beside its prediction.
#[derive(Serialize)]
struct RowLine<'a> {
    gpu: &'a str,
    stack: &'a str,
    op: &'static str,
    shape: String,
    measured_us: Seconds,
    predicted_us: Seconds,
    low_us: Seconds,
    high_us: Seconds,
    tier: Tier,
}

/// Every predicted row of `rows` as a table for other programs, units in the heading.
pub fn rows_csv(rows: &[Row], evaluation: &Evaluation) -> Vec<u8> {
    let predicted = evaluation.places.iter().zip(&evaluation.scores);
    csv(predicted.map(|(&place, Score { measured, estimate })| {
        let row = &rows[place];
        RowLine {
            gpu: &row.gpu,
            stack: &row.stack,
            op: family(&row.op),
            shape: row.op.to_string(),
            measured_us: *measured,
            predicted_us: estimate.time,
            low_us: estimate.low(),
            high_us: estimate.high(),
            tier: estimate.tier,
        }
    }))
}

impl From<&Group> for GroupKeys {
    fn from(group: &Group) -> Self {
        Self {
            op: group.key.op,
            dtype: group.key.dtype,
            gpu: group.key.gpu.to_string(),
            stack: group.key.stack.to_string(),
            basis: group.basis.clone(),
            errors: group.errors,
            tier_shares: group.tier_shares,
        }
    }
}

fn cells(errors: &Errors) -> [String; 9] {
    let four = |value: f64| format!("{value:.4}");
    [
        grouped(errors.n as u64),
        dash(errors.median_ape.map(precise)),
        dash(errors.mean_ape.map(precise)),
        dash(errors.p90_ape.map(precise)),
        dash(errors.max_ape.map(percent)),
        dash(errors.r2.map(four)),
        dash(errors.spearman.map(four)),
        dash(errors.coverage_90.map(percent)),
        dash(errors.interval_half_width_median.map(precise)),
    ]
}

/// A percentage with two decimals: errors are compared in tenths.
fn precise(fraction: f64) -> String {
    format!("{:.2} %", fraction * 100.0)
}

impl GroupKeys {
    /// `94 % learned, 6.0 % roofline`, and what it is based on where that is another stack.
    fn answered_by(&self) -> String {
        let tiers = tier_shares_text(self.tier_shares);
        let basis = self.basis.as_ref();
        basis.map_or_else(|| tiers.clone(), |basis| format!("{tiers} ({basis})"))
    }
}

impl Report for EvaluationReport {
    const LISTS: &'static [&'static str] = &["groups"];

    fn page(&self) -> String {
        let line = |first: [String; 4], errors: &Errors, last: String| {
            let mut cells = first.into_iter().chain(cells(errors)).chain([last]);
            std::array::from_fn::<String, 14, _>(|_| cells.next().unwrap_or_default())
        };
        let groups = self.groups.iter().map(|group| {
            let first = row![group.op, dash(group.dtype), group.gpu, group.stack];
            line(first, &group.errors, group.answered_by())
        });
        let overall = line(row!["all", "", "", ""], &self.overall, String::new());
        let headings = [
            left("operators"),
            left("dtype"),
            left("GPU"),
            left("stack"),
            right("rows"),
            right("median"),
            right("mean").minor(4),
            right("p90").minor(3),
            right("max").minor(7),
            right("R2").minor(8),
            right("Spearman").minor(9),
            right("in 90 %"),
            right("half width").minor(5),
            left("answered by").minor(6),
        ];
        let skipped = skipped_text(&self.skipped);
        format!("{}{skipped}", table(headings, groups.chain([overall])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::GroupKey;

    #[test]
    fn the_keys_are_those_of_the_contract_and_absent_numbers_are_null() {
        let errors = Errors {
            n: 1,
            median_ape: Some(0.0213),
            ..Errors::default()
        };
        let evaluation = Evaluation {
            overall: errors,
            groups: vec![Group {
                key: GroupKey {
                    op: "gemm",
                    dtype: Some(Dtype::Bf16),
                    gpu: "h200".into(),
                    stack: "trtllm 1.3.0rc20".into(),
                },
                errors,
                basis: None,
                tier_shares: TierShares([0.0, 0.94, 0.0, 0.06]),
            }],
            ..Evaluation::default()
        };
        let skipped = vec![SkippedRows {
            first: None,
            reason: "no time".to_owned(),
            rows: 3,
        }];
        let report = EvaluationReport::new(&evaluation, skipped);
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let group = &json["groups"][0];
        for key in [
            "n",
            "median_ape",
            "mean_ape",
            "p90_ape",
            "max_ape",
            "r2",
            "spearman",
            "coverage_90",
            "interval_half_width_median",
        ] {
            assert!(json["overall"].get(key).is_some(), "overall has no {key}");
            assert!(group.get(key).is_some(), "a group has no {key}");
        }
        assert_eq!(group["median_ape"], 0.0213);
        assert!(group["r2"].is_null());
        assert_eq!(group["tier_shares"]["learned"], 0.94);
        assert_eq!(json["skipped"][0]["rows"], 3);
        let text = report.text();
        for part in ["2.13 %", "94 % learned, 6.0 % roofline", "skipped 3 rows"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
