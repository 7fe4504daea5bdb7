//! The report in Markdown, its plots beside it.

use crate::report::ReproduceReport;
use crate::report::document::FindingDocument;
use crate::report::pages::{Cell, Column, Markup};

/// Markdown that names the files of pictures.
pub(super) struct Markdown;

impl Markup for Markdown {
    fn page(&self, report: &ReproduceReport, summary: &str, sections: &str) -> String {
        format!(
            "# The findings of arXiv 2401.14489, predicted\n\n{}\n\n{}\n\n{}\n{sections}",
            report.basis(),
            report.summary(),
            summary.trim_end()
        )
    }

    fn heading(&self, finding: &FindingDocument) -> String {
        format!(
            "\n<a id=\"{}\"></a>\n\n## {}\n\n{}\n\n**Verdict: {}** ({} criteria met)\n\n",
            finding.id,
            finding.title,
            finding.claim,
            finding.verdict_text,
            finding.met()
        )
    }

    fn plots(&self, finding: &FindingDocument, _: usize) -> String {
        let panels = finding.panels.iter().enumerate();
        panels
            .map(|(at, panel)| format!("![{}]({})\n\n", panel.title, finding.picture(at)))
            .collect()
    }

    fn table(&self, columns: &[(&str, Column)], rows: &[Vec<Cell>]) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let headings = columns.iter().map(|(heading, _)| (*heading).to_owned());
        let mut text = line(headings.collect()).replacen("|  |", "| |", 1);
        let rules = columns.iter().map(|(_, column)| match column {
            Column::Number => "--:".to_owned(),
            Column::Plain | Column::Roomy => "---".to_owned(),
        });
        text.push_str(&line(rules.collect()));
        for row in rows {
            let cells = row.iter().map(|cell| match cell {
                Cell::Text(text) => text.replace('|', "\\|"),
                Cell::Strong(text) => (*text).to_owned(),
                Cell::Link(finding) => format!("[{}](#{})", finding.title, finding.id),
                Cell::Verdict(finding) => finding.verdict_text.to_owned(),
            });
            text.push_str(&line(cells.collect()));
        }
        text.push('\n');
        text
    }

    fn criteria(&self, finding: &FindingDocument, table: String) -> String {
        match finding.criteria[..] {
            [] => String::new(),
            _ => table,
        }
    }

    fn remarks(&self, finding: &FindingDocument) -> String {
        let rules = finding.rules.iter();
        let rules = rules.map(|rule| format!("- Rule `{}`: {}\n", rule.id, rule.demand));
        let notes = finding.notes.iter().chain(&finding.missing);
        let notes = notes.map(|note| format!("- {note}\n"));
        let source = format!("- Source: {}\n", finding.source);
        rules.chain(notes).chain([source]).collect()
    }
}
