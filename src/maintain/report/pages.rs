//! The report as pages: one walk over the findings, for HTML and for Markdown.

use crate::report::ReproduceReport;
use crate::report::document::FindingDocument;
use crate::reproduce::Comparison;
use crate::reproduce::judge::Unit;

/// How a page is written.
pub(super) trait Markup {
    /// The whole page around the table of findings and their sections.
    fn page(&self, report: &ReproduceReport, summary: &str, sections: &str) -> String;
    /// Heading, claim and verdict of a finding.
    fn heading(&self, finding: &FindingDocument) -> String;
    /// The plots of a finding; `at` is its place in the report.
    fn plots(&self, finding: &FindingDocument, at: usize) -> String;
    /// A table.
    fn table(&self, columns: &[(&str, Column)], rows: &[Vec<Cell>]) -> String;
    /// The table of criteria, which may be folded away.
    fn criteria(&self, finding: &FindingDocument, table: String) -> String;
    /// Rules, notes and source of a finding.
    fn remarks(&self, finding: &FindingDocument) -> String;
}

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// Words.
    Plain,
    /// Numbers, to the right.
    Number,
    /// Long texts, for wide screens.
    Roomy,
}

/// A table.
pub(super) enum Cell<'a> {
    /// A text.
    Text(String),
    /// An emphasised text.
    Strong(&'a str),
    /// A link to a finding.
    Link(&'a FindingDocument),
    /// The verdict on a finding.
    Verdict(&'a FindingDocument),
}

/// The whole report.
pub(super) fn page(report: &ReproduceReport, markup: &impl Markup) -> String {
    let findings = report.findings.iter();
    let rows: Vec<_> = findings
        .map(|finding| {
            vec![
                Cell::Link(finding),
                Cell::Verdict(finding),
                Cell::Text(finding.met()),
                Cell::Text(finding.stands_on()),
                Cell::Text(finding.decides()),
            ]
        })
        .collect();
    let columns = [
        ("finding", Column::Plain),
        ("verdict", Column::Plain),
        ("met", Column::Number),
        ("evidence", Column::Roomy),
        ("what decides", Column::Roomy),
    ];
    let findings = report.findings.iter().enumerate();
    let sections: String = findings.map(|(at, finding)| section(finding, at, markup)).collect();
    markup.page(report, &markup.table(&columns, &rows), &sections)
}

fn section(finding: &FindingDocument, at: usize, markup: &impl Markup) -> String {
    let mut text = markup.heading(finding);
    text.push_str(&markup.plots(finding, at));
    if !finding.comparisons.is_empty() {
        let columns = ["", "measured", "predicted", "difference"];
        let columns = columns.map(|heading| match heading {
            "" => (heading, Column::Plain),
            _ => (heading, Column::Number),
        });
        let rows = finding.comparisons.iter().map(|row| {
            let measured = row.measured.map(|measured| row.unit.text(measured));
            let texts = [
                row.what.clone(),
                measured.unwrap_or("not seen".to_owned()),
                row.unit.text(row.predicted),
                difference(row),
            ];
            texts.map(Cell::Text).into()
        });
        text.push_str(&markup.table(&columns, &rows.collect::<Vec<_>>()));
    }
    let columns = [
        ("criterion", Column::Plain),
        ("value", Column::Number),
        ("allowed", Column::Number),
        ("met", Column::Plain),
        ("evidence", Column::Plain),
    ];
    let rows = finding.criteria.iter().map(|row| {
        vec![
            Cell::Text(row.statement.clone()),
            Cell::Text(row.value()),
            Cell::Text(row.limit()),
            match row.is_met {
                true => Cell::Text("yes".to_owned()),
                false => Cell::Strong("no"),
            },
            Cell::Text(row.basis.text().to_owned()),
        ]
    });
    let table = markup.table(&columns, &rows.collect::<Vec<_>>());
    text.push_str(&markup.criteria(finding, table));
    text.push_str(&markup.remarks(finding));
    text
}

/// How far a prediction is from the measurement.
fn difference(row: &Comparison) -> String {
    let text = match (row.measured, row.unit) {
        (None, _) => return "-".to_owned(),
        (Some(measured), Unit::Share) => {
            format!("{:+.1} points", (row.predicted - measured) * 100.0)
        }
        (Some(measured), _) => format!("{:+.0} %", (row.predicted / measured - 1.0) * 100.0),
    };
    // Nothing is neither more nor less.
    let digits = text.trim_start_matches(['+', '-']);
    let is_zero = !digits.contains(|digit: char| ('1'..='9').contains(&digit));
    if is_zero { digits.to_owned() } else { text }
}
