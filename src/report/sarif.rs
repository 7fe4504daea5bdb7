//! Broken rules as SARIF 2.1.0, which code hosts show beside the file that breaks them.

use crate::report::check::{CheckReport, RuleKeys};
use crate::report::{joined, percent};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One run over these checks, each with the name or the path of what was checked.
pub fn document(checks: &[(String, CheckReport)]) -> Value {
    let mut rules = BTreeMap::new();
    let mut results = Vec::new();
    for (subject, report) in checks {
        for rule in report.rules.iter().filter(|rule| rule.verdict.severity.is_some()) {
            rules.entry(rule.id).or_insert_with(|| descriptor(rule));
            results.push(result(subject, report, rule));
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "shapewise",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_values().collect::<Vec<_>>(),
            }},
            "results": results,
        }],
    })
}

fn descriptor(rule: &RuleKeys) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.demand},
        "fullDescription": {"text": rule.reason},
        "help": {"text": format!("{} Source: {}", rule.reason, rule.source)},
    })
}

fn result(subject: &str, report: &CheckReport, rule: &RuleKeys) -> Value {
    let level = match rule.verdict.counts(false) {
        true => "warning",
        false => "note",
    };
    let place = match subject.ends_with(".json") {
        true => json!({"physicalLocation": {
            "artifactLocation": {"uri": subject},
            "region": {"startLine": 1},
        }}),
        false => json!({"logicalLocations": [{"name": subject, "kind": "module"}]}),
    };
    json!({
        "ruleId": rule.id,
        "level": level,
        "message": {"text": message(report, rule)},
        "locations": [place],
        "partialFingerprints": {"rule/v1": format!("{subject}:{}", rule.id)},
    })
}

/// What is wrong and what fixes it, in a sentence or two.
fn message(report: &CheckReport, rule: &RuleKeys) -> String {
    let mut text = format!("{} on {}: {}.", rule.title, report.gpu.name, rule.verdict.detail);
    if let Some(fix) = &rule.fix {
        let changes = fix.changes.iter();
        let changes = changes.map(|change| format!("{} {} -> {}", change.dimension, change.from, change.to));
        text += &format!(" Fixed by {}", joined(", ", changes));
        if let Some(gain) = fix.gain {
            text += &format!(
                ", which saves {} of the time ({} to {})",
                percent(gain.expected),
                percent(gain.low),
                percent(gain.high)
            );
        }
        text.push('.');
    }
    text
}
