//! The report in Markdown, its plots beside it.

use crate::report::reproduce::ReproduceReport;
use crate::report::reproduce::keys::FindingKeys;
use crate::report::reproduce::text::decides;
use std::fmt::Write;

/// The whole document.
pub(super) fn page(report: &ReproduceReport) -> String {
    let mut page = format!(
        "# The findings of arXiv 2401.14489, predicted\n\n{}\n\n{}\n\n",
        report.basis(),
        report.summary()
    );
    page.push_str(
        "| finding | verdict | met | stands on | what decides |\n| --- | --- | --: | --- | --- |\n",
    );
    for finding in &report.findings {
        let decides = decides(finding).map_or(String::new(), |criterion| {
            format!("{} {}", criterion.statement, criterion.value_text)
        });
        // A string takes whatever is written to it.
        let _ = writeln!(
            page,
            "| [{}](#{}) | {} | {} of {} | {} | {} |",
            finding.title,
            finding.id,
            finding.verdict_text,
            finding.criteria_met,
            finding.criteria.len(),
            finding.stands_on(),
            cell(&decides)
        );
    }
    for finding in &report.findings {
        page.push_str(&section(finding));
    }
    page
}

fn section(finding: &FindingKeys) -> String {
    let mut text = format!(
        "\n<a id=\"{}\"></a>\n\n## {}\n\n{}\n\n**Verdict: {}** ({} of {} criteria met)\n\n",
        finding.id,
        finding.title,
        finding.claim,
        finding.verdict_text,
        finding.criteria_met,
        finding.criteria.len()
    );
    for (at, panel) in finding.panels.iter().enumerate() {
        text.push_str(&format!("![{}]({})\n\n", panel.title, finding.picture(at)));
    }
    if !finding.comparisons.is_empty() {
        text.push_str("| | measured | predicted | difference |\n| --- | --: | --: | --: |\n");
        for row in &finding.comparisons {
            text.push_str(&format!(
                "| {} | {} | {} | {} |\n",
                cell(&row.what),
                row.measured_text,
                row.predicted_text,
                row.difference_text
            ));
        }
        text.push('\n');
    }
    if !finding.criteria.is_empty() {
        text.push_str(
            "| criterion | value | allowed | met | stands on |\n| --- | --: | --: | --- | --- |\n",
        );
        for row in &finding.criteria {
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} |\n",
                cell(&row.statement),
                row.value_text,
                row.limit_text,
                if row.is_met { "yes" } else { "no" },
                row.basis_text
            ));
        }
        text.push('\n');
    }
    for rule in &finding.rules {
        text.push_str(&format!("- Rule `{}`: {}\n", rule.id, rule.demand));
    }
    for note in finding.notes.iter().chain(&finding.missing) {
        text.push_str(&format!("- {note}\n"));
    }
    text.push_str(&format!("- Source: {}\n", finding.source));
    text
}

/// Text that does not end a cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
