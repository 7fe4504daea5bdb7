//! The answer to `check gemm` and `check attention`: the rules that one operator can be judged by, and what a better size
//! saves.

use crate::check::OperatorDiagnosis;
use crate::report::check::{summary, verdict_text};
use crate::report::operator::{OperatorReport, faster_text};
use crate::report::table::{left, row, table};
use crate::report::{Report, percent};
use crate::rules::Severity;
use serde::Serialize;
use utoipa::ToSchema;

/// One operator under the rules that apply to it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OperatorCheckReport {
    /// The operator as it is, with what bounds it.
    predicted: OperatorReport,
    broken: usize,
    rules: Vec<OperatorDiagnosis>,
}

impl OperatorCheckReport {
    /// Describes the check of the operator that was `predicted`.
    pub fn new(predicted: OperatorReport, rules: Vec<OperatorDiagnosis>) -> Self {
        Self {
            predicted,
            broken: rules.iter().filter(|rule| rule.finding.verdict.counts(true)).count(),
            rules,
        }
    }

    /// Whether a rule is broken that counts: advice where it is wanted, and where a least gain is named, only rules with
    /// a near size that is expected to save more than this fraction of the time.
    pub fn fails(&self, advice: bool, above: Option<f64>) -> bool {
        let mut counted = self.rules.iter().filter(|rule| rule.finding.verdict.counts(advice));
        let gain = |rule: &OperatorDiagnosis| rule.faster.as_ref().map_or(0.0, |fix| fix.loss);
        counted.any(|rule| above.is_none_or(|least| gain(rule) > least))
    }
}

impl Report for OperatorCheckReport {
    const LISTS: &'static [&'static str] = &["rules"];

    fn page(&self) -> String {
        let headings = [
            left("rule"),
            left("verdict"),
            left("what decides"),
            left("what a better size saves"),
        ];
        let rows = self.rules.iter().map(|rule| {
            let saves = match (&rule.faster, rule.finding.verdict.severity == Some(Severity::NoGain)) {
                (Some(fix), _) => {
                    format!("{} of the time: {}", percent(fix.loss), faster_text(fix))
                }
                (None, true) => "no near size is predicted faster".to_owned(),
                (None, false) => String::new(),
            };
            row![
                rule.finding.id,
                verdict_text(&rule.finding.verdict),
                rule.finding.verdict.detail,
                saves
            ]
        });
        let summary = summary(self.rules.iter().map(|rule| &rule.finding.verdict));
        format!("{}\n{}\n{summary}\n", self.predicted.page(), table(headings, rows))
    }
}
