//! The answer to `check gemm` and `check attention`: the rules that one operator can be judged by, and what a better size
//! saves.

use crate::check::{Faster, OperatorDiagnosis};
use crate::report::check::{VerdictKeys, summary, verdict_text};
use crate::report::operator::{OperatorReport, faster_text};
use crate::report::table::{left, row, table};
use crate::report::{Report, percent};
use serde::Serialize;
use utoipa::ToSchema;

/// One operator under the rules that apply to it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OperatorCheckReport {
    /// The operator as it is, with what bounds it.
    predicted: OperatorReport,
    broken: usize,
    rules: Vec<OperatorRuleKeys>,
}

/// What one rule says.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OperatorRuleKeys {
    id: &'static str,
    #[serde(flatten)]
    verdict: VerdictKeys,
    demand: &'static str,
    reason: &'static str,
    source: &'static str,
    /// The nearest size that fixes it and is predicted faster.
    fix: Option<Faster>,
}

impl OperatorCheckReport {
    /// Describes the check of the operator that was `predicted`.
    pub fn new(predicted: OperatorReport, diagnoses: &[OperatorDiagnosis]) -> Self {
        let rules: Vec<_> = diagnoses.iter().map(OperatorRuleKeys::from).collect();
        Self {
            predicted,
            broken: rules.iter().filter(|rule| rule.verdict.counts(true)).count(),
            rules,
        }
    }

    /// Whether a rule is broken that counts: advice where it is wanted, and where a least gain is named, only rules with
    /// a near size that is expected to save more than this fraction of the time.
    pub fn fails(&self, advice: bool, above: Option<f64>) -> bool {
        let mut counted = self.rules.iter().filter(|rule| rule.verdict.counts(advice));
        let gain = |rule: &OperatorRuleKeys| rule.fix.as_ref().map_or(0.0, |fix| fix.loss);
        counted.any(|rule| above.is_none_or(|least| gain(rule) > least))
    }
}

impl From<&OperatorDiagnosis> for OperatorRuleKeys {
    fn from(diagnosis: &OperatorDiagnosis) -> Self {
        let finding = &diagnosis.finding;
        Self {
            id: finding.id,
            verdict: VerdictKeys::from(&finding.verdict),
            demand: finding.demand,
            reason: finding.reason,
            source: finding.source,
            fix: diagnosis.faster.clone(),
        }
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
            let saves = match (&rule.fix, rule.verdict.is_broken() && !rule.verdict.counts(true)) {
                (Some(fix), _) => {
                    format!("{} of the time: {}", percent(fix.loss), faster_text(fix))
                }
                (None, true) => "no near size is predicted faster".to_owned(),
                (None, false) => String::new(),
            };
            row![rule.id, verdict_text(&rule.verdict), rule.verdict.detail, saves]
        });
        let summary = summary(self.rules.iter().map(|rule| &rule.verdict));
        format!("{}\n{}\n{summary}\n", self.predicted.page(), table(headings, rows))
    }
}
