//! The report as one HTML file that needs nothing else.

use crate::report::reproduce::ReproduceReport;
use crate::report::reproduce::keys::FindingKeys;
use crate::report::reproduce::text::decides;

const STYLE: &str = include_str!("style.css");

/// The whole page; `plots` are the pictures of each finding.
pub(super) fn page(report: &ReproduceReport, plots: &[Vec<String>]) -> String {
    let rows: String = report.findings.iter().map(summary_row).collect();
    let sections: String = report
        .findings
        .iter()
        .zip(plots)
        .map(|(finding, plots)| section(finding, plots))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>The findings of arXiv 2401.14489, predicted</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>The findings of arXiv 2401.14489, predicted</h1>\n<p>{}</p>\n<p><strong>{}</strong></p>\n\
         <div class=\"wide\"><table>\n<thead><tr><th>finding</th><th>verdict</th><th class=\"number\">met</th><th class=\"roomy\">stands on</th>\
         <th class=\"roomy\">what decides</th></tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n{sections}</main>\n</body>\n</html>\n",
        escaped(&report.basis()),
        escaped(&report.summary()),
    )
}

fn badge(finding: &FindingKeys) -> String {
    let class = match finding.measured {
        true => finding.verdict,
        false => "direction",
    };
    format!(
        "<span class=\"badge {class}\">{}</span>",
        finding.verdict_text
    )
}

fn summary_row(finding: &FindingKeys) -> String {
    let decides = decides(finding).map_or(String::new(), |criterion| {
        format!("{} {}", criterion.statement, criterion.value_text)
    });
    format!(
        "<tr><td><a href=\"#{}\">{}</a></td><td>{}</td><td class=\"number\">{} of {}</td><td class=\"roomy\">{}</td><td class=\"roomy\">{}</td></tr>\n",
        finding.id,
        escaped(finding.title),
        badge(finding),
        finding.criteria_met,
        finding.criteria.len(),
        finding.stands_on(),
        escaped(&decides)
    )
}

fn section(finding: &FindingKeys, plots: &[String]) -> String {
    let mut text = format!(
        "<section id=\"{}\">\n<h2>{} {}</h2>\n<p class=\"claim\">{}</p>\n",
        finding.id,
        escaped(finding.title),
        badge(finding),
        escaped(finding.claim)
    );
    if let Some(missing) = &finding.missing {
        text.push_str(&format!("<p class=\"missing\">{}</p>\n", escaped(missing)));
    }
    text.push_str("<div class=\"plots\">\n");
    for (panel, plot) in finding.panels.iter().zip(plots) {
        let basis = match panel.basis_text.as_str() {
            "" => "Nothing measured is shown.".to_owned(),
            basis => format!("Points: {basis}."),
        };
        text.push_str(&format!(
            "<figure><div class=\"plot\">{}</div><figcaption>{basis}</figcaption></figure>\n",
            inline(plot, &panel.title)
        ));
    }
    text.push_str("</div>\n");
    if !finding.comparisons.is_empty() {
        text.push_str(
            "<div class=\"wide\"><table>\n<thead><tr><th></th><th class=\"number\">measured</th><th class=\"number\">predicted</th>\
             <th class=\"number\">difference</th></tr></thead>\n<tbody>\n",
        );
        for row in &finding.comparisons {
            text.push_str(&format!(
                "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
                escaped(&row.what),
                row.measured_text,
                row.predicted_text,
                row.difference_text
            ));
        }
        text.push_str("</tbody>\n</table></div>\n");
    }
    text.push_str(&criteria(finding));
    text.push_str("<ul>\n");
    for rule in &finding.rules {
        text.push_str(&format!(
            "<li>Rule <code>{}</code>: {}</li>\n",
            rule.id,
            escaped(rule.demand)
        ));
    }
    for note in &finding.notes {
        text.push_str(&format!("<li>{}</li>\n", escaped(note)));
    }
    text.push_str(&format!(
        "</ul>\n<p class=\"source\">Source: {}</p>\n</section>\n",
        escaped(finding.source)
    ));
    text
}

fn criteria(finding: &FindingKeys) -> String {
    let rows: String = finding
        .criteria
        .iter()
        .map(|row| {
            format!(
                "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&row.statement),
                row.value_text,
                row.limit_text,
                if row.is_met { "yes" } else { "<strong>no</strong>" },
                row.basis_text
            )
        })
        .collect();
    format!(
        "<details><summary>What decides: {} of {} criteria met</summary>\n<div class=\"wide\"><table>\n<thead><tr><th>criterion</th>\
         <th class=\"number\">value</th><th class=\"number\">allowed</th><th>met</th><th>stands on</th></tr></thead>\n<tbody>\n{rows}</tbody>\n\
         </table></div></details>\n",
        finding.criteria_met,
        finding.criteria.len()
    )
}

/// A picture as part of the page: it takes the width that there is, and has a name for those who cannot see it.
fn inline(svg: &str, title: &str) -> String {
    let body = svg.find('>').map_or(svg, |end| &svg[end + 1..]);
    let size = |key: &str| -> &str {
        let start = svg
            .find(&format!("{key}=\""))
            .map_or(0, |at| at + key.len() + 2);
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
