//! The report as one HTML file that needs nothing else.

use crate::report::ReproduceReport;
use crate::report::document::FindingDocument;
use crate::report::pages::{Cell, Column, Markup};

const STYLE: &str = include_str!("style.css");

/// HTML with the pictures of each finding inside.
pub(super) struct Html<'a>(pub &'a [Vec<String>]);

impl Markup for Html<'_> {
    fn page(&self, report: &ReproduceReport, summary: &str, sections: &str) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>The findings of arXiv 2401.14489, predicted</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>The findings of arXiv 2401.14489, predicted</h1>\n<p>{}</p>\n<p><strong>{}</strong></p>\n\
             {summary}{sections}</main>\n</body>\n</html>\n",
            escaped(&report.basis()),
            escaped(&report.summary()),
        )
    }

    fn heading(&self, finding: &FindingDocument) -> String {
        let mut text = format!(
            "<section id=\"{}\">\n<h2>{} {}</h2>\n<p class=\"claim\">{}</p>\n",
            finding.id,
            escaped(&finding.title),
            badge(finding),
            escaped(&finding.claim)
        );
        if let Some(missing) = &finding.missing {
            text.push_str(&format!("<p class=\"missing\">{}</p>\n", escaped(missing)));
        }
        text
    }

    fn plots(&self, finding: &FindingDocument, at: usize) -> String {
        let figures = finding.panels.iter().zip(&self.0[at]).map(|(panel, plot)| {
            let bases: Vec<_> = panel.basis.iter().map(|basis| basis.text()).collect();
            let basis = match bases[..] {
                [] => "Nothing measured is shown.".to_owned(),
                _ => format!("Points: {}.", bases.join(" and ")),
            };
            format!(
                "<figure><div class=\"plot\">{}</div><figcaption>{basis}</figcaption></figure>\n",
                inline(plot, &panel.title)
            )
        });
        let figures: String = figures.collect();
        format!("<div class=\"plots\">\n{figures}</div>\n")
    }

    fn table(&self, columns: &[(&str, Column)], rows: &[Vec<Cell>]) -> String {
        let class = |column: &Column| match column {
            Column::Plain => "",
            Column::Number => " class=\"number\"",
            Column::Roomy => " class=\"roomy\"",
        };
        let headings = columns
            .iter()
            .map(|(heading, column)| format!("<th{}>{heading}</th>", class(column)));
        let headings: String = headings.collect();
        let mut body = String::new();
        for row in rows {
            body.push_str("<tr>");
            for (cell, (_, column)) in row.iter().zip(columns) {
                let text = match cell {
                    Cell::Text(text) => escaped(text),
                    Cell::Strong(text) => format!("<strong>{text}</strong>"),
                    Cell::Link(finding) => {
                        format!("<a href=\"#{}\">{}</a>", finding.id, escaped(&finding.title))
                    }
                    Cell::Verdict(finding) => badge(finding),
                };
                body.push_str(&format!("<td{}>{text}</td>", class(column)));
            }
            body.push_str("</tr>\n");
        }
        format!(
            "<div class=\"wide\"><table>\n<thead><tr>{headings}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
        )
    }

    fn criteria(&self, finding: &FindingDocument, table: String) -> String {
        format!(
            "<details><summary>What decides: {} criteria met</summary>\n{}</details>\n",
            finding.met(),
            table.trim_end()
        )
    }

    fn remarks(&self, finding: &FindingDocument) -> String {
        let rules = finding
            .rules
            .iter()
            .map(|rule| format!("<li>Rule <code>{}</code>: {}</li>\n", rule.id, escaped(rule.demand)));
        let notes = finding.notes.iter();
        let notes = notes.map(|note| format!("<li>{}</li>\n", escaped(note)));
        let items: String = rules.chain(notes).collect();
        format!(
            "<ul>\n{items}</ul>\n<p class=\"source\">Source: {}</p>\n</section>\n",
            escaped(&finding.source)
        )
    }
}

fn badge(finding: &FindingDocument) -> String {
    let class = match finding.measured {
        true => finding.verdict.name(),
        false => "direction",
    };
    format!("<span class=\"badge {class}\">{}</span>", finding.verdict_text)
}

/// A picture as part of the page: it takes the width that there is, and has a name for those who
/// cannot see it.
fn inline(svg: &str, title: &str) -> String {
    let body = svg.find('>').map_or(svg, |end| &svg[end + 1..]);
    let size = |key: &str| -> &str {
        let start = svg.find(&format!("{key}=\"")).map_or(0, |at| at + key.len() + 2);
        let rest = &svg[start..];
        &rest[..rest.find('"').unwrap_or(0)]
    };
    format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\">{}",
        escaped(title),
        size("width"),
        size("height"),
        body.trim()
    )
}

/// Text that is nothing but text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_keep_their_shape_and_get_a_name() {
        let svg = "<svg width=\"720\" height=\"460\" viewBox=\"0 0 720 460\" xmlns=\"x\">\n<g/>\n</svg>\n";
        assert_eq!(
            inline(svg, "a < b"),
            "<svg role=\"img\" aria-label=\"a &lt; b\" viewBox=\"0 0 720 460\"><g/>\n</svg>"
        );
    }
}
