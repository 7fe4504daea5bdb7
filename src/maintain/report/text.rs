//! The findings as a table for a terminal.

use crate::report::{ReproduceReport, how_to_get};
use crate::reproduce::judge::Outcome;
use shapewise::report::Report;
use shapewise::report::table::{bad, doubtful, good, left, right, table};

impl Report for ReproduceReport {
    const LISTS: &'static [&'static str] = &["findings"];

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
                match finding.verdict {
                    Outcome::Reproduced => good(finding.verdict_text),
                    Outcome::NotReproduced => bad(finding.verdict_text),
                    _ => doubtful(finding.verdict_text),
                },
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
