//! The answer to `check gemm` and `check attention`: the rules that one operator can be judged by, and what a better size
//! saves.

use crate::check::OperatorDiagnosis;
use crate::report::Report;
use crate::report::check::ADVICE;
use crate::report::check_text::verdict_text;
use crate::report::operator::{FasterKeys, OperatorReport};
use crate::report::percent;
use crate::report::table::{left, table};
use crate::rules::Verdict;
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
    verdict: &'static str,
    severity: Option<&'static str>,
    detail: String,
    value: Option<f64>,
    wanted: Option<String>,
    demand: &'static str,
    reason: &'static str,
    source: &'static str,
    /// The nearest size that fixes it and is predicted faster.
    fix: Option<FasterKeys>,
}

impl OperatorCheckReport {
    /// Describes the check of the operator that was `predicted`.
    pub fn new(predicted: OperatorReport, diagnoses: &[OperatorDiagnosis]) -> Self {
        let rules: Vec<_> = diagnoses.iter().map(OperatorRuleKeys::from).collect();
        Self {
            predicted,
            broken: rules.iter().filter(|rule| rule.is_broken()).count(),
            rules,
        }
    }

    /// Whether a rule is broken that counts: advice where it is wanted, and where a least gain is named, only rules with
    /// a near size that is expected to save more than this fraction of the time.
    pub fn fails(&self, advice: bool, above: Option<f64>) -> bool {
        let broken = self.rules.iter().filter(|rule| rule.is_broken());
        let mut counted = broken.filter(|rule| advice || rule.severity != Some(ADVICE));
        let gain = |rule: &OperatorRuleKeys| rule.fix.as_ref().map_or(0.0, |fix| fix.loss_fraction);
        counted.any(|rule| above.is_none_or(|least| gain(rule) > least))
    }
}

impl OperatorRuleKeys {
    fn is_broken(&self) -> bool {
        self.verdict == "broken"
    }
}

impl From<&OperatorDiagnosis> for OperatorRuleKeys {
    fn from(diagnosis: &OperatorDiagnosis) -> Self {
        let finding = &diagnosis.finding;
        let (value, wanted) = match &finding.verdict {
            Verdict::Broken { value, wanted, .. } => (Some(*value), Some(wanted.clone())),
            _ => (None, None),
        };
        Self {
            id: finding.id,
            verdict: finding.verdict.name(),
            severity: finding.verdict.severity().map(|severity| severity.name()),
            detail: finding.verdict.detail().to_owned(),
            value,
            wanted,
            demand: finding.demand,
            reason: finding.reason,
            source: finding.source,
            fix: diagnosis.faster.as_ref().map(FasterKeys::from),
        }
    }
}

impl Report for OperatorCheckReport {
    const LISTS: &'static [&'static str] = &["rules"];

    fn predicted(&self) -> usize {
        1
    }

    fn page(&self) -> String {
        let headings = [
            left("rule"),
            left("verdict"),
            left("what decides"),
            left("what a better size saves"),
        ];
        let rows = self.rules.iter().map(|rule| {
            let verdict = verdict_text(rule.verdict, rule.severity);
            let saves = match (&rule.fix, rule.is_broken()) {
                (Some(fix), _) => {
                    format!("{} of the time: {}", percent(fix.loss_fraction), fix.text())
                }
                (None, true) => "no near size is predicted faster".to_owned(),
                (None, false) => String::new(),
            };
            [rule.id.to_owned(), verdict, rule.detail.clone(), saves]
        });
        let summary = match self.broken {
            0 => format!("all {} rules that apply are met", self.rules.len()),
            broken => format!("{broken} of {} rules that apply are broken", self.rules.len()),
        };
        format!("{}\n{}\n{summary}\n", self.predicted.page(), table(headings, rows))
    }
}
