//! The findings as a table for a terminal.

use crate::report::Report;
use crate::report::reproduce::ReproduceReport;
use crate::report::reproduce::how_to_get;
use crate::report::reproduce::keys::CriterionKeys;
use crate::report::reproduce::keys::FindingKeys;
use crate::report::table::Side;
use crate::report::table::table;

impl Report for ReproduceReport {
    fn text(&self) -> String {
        let headings = [
            ("finding", Side::Left),
            ("verdict", Side::Left),
            ("met", Side::Right),
            ("stands on", Side::Left),
            ("what decides", Side::Left),
        ];
        let rows = self.findings.iter().map(|finding| {
            let of = finding.criteria.len();
            [
                finding.id.to_owned(),
                finding.verdict_text.to_owned(),
                format!("{} of {of}", finding.criteria_met),
                finding.stands_on(),
                decides(finding).map_or(String::new(), |criterion| {
                    format!("{} {}", criterion.statement, criterion.value_text)
                }),
            ]
        });
        let mut text = format!(
            "The findings of arXiv 2401.14489\n{}\n\n{}\n{}\n",
            self.basis(),
            table(headings, rows),
            self.summary()
        );
        if self
            .findings
            .iter()
            .any(|finding| finding.missing.is_some())
        {
            text.push_str(&how_to_get("PATH…"));
            text.push('\n');
        }
        text
    }
}

/// The first criterion that is not met, else the first.
pub(super) fn decides(finding: &FindingKeys) -> Option<&CriterionKeys> {
    let mut criteria = finding.criteria.iter();
    criteria
        .find(|criterion| !criterion.is_met)
        .or(finding.criteria.first())
}
