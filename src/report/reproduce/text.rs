//! The findings as a table for a terminal.

use crate::report::Report;
use crate::report::reproduce::ReproduceReport;
use crate::report::reproduce::how_to_get;
use crate::report::table::{left, right, table};

impl Report for ReproduceReport {
    fn page(&self) -> String {
        let headings = [
            left("finding"),
            left("verdict"),
            right("met"),
            left("evidence"),
            left("what decides"),
        ];
        let rows = self.findings.iter().map(|finding| {
            [
                finding.id.clone(),
                finding.verdict_text.to_owned(),
                finding.met(),
                finding.stands_on(),
                finding.decides(),
            ]
        });
        let mut text = format!(
            "The findings of arXiv 2401.14489\n{}\n\n{}\n{}\n",
            self.basis(),
            table(headings, rows),
            self.summary()
        );
        if self.findings.iter().any(|finding| finding.missing.is_some()) {
            text.push_str(&how_to_get("PATH…"));
            text.push('\n');
        }
        text
    }
}
