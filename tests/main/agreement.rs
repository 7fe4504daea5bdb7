//! What publications say of models beside each other, asked here: `tests/agreement.toml` has the questions, `docs/method/serving.md`
//! the answers.

use crate::cli::json;
use crate::documents::section_holds;
use crate::files::text_of;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    what: String,
    source: String,
    published: f64,
    /// How far the answer may be, of what is published.
    tolerance: f64,
    ask: String,
    beside: Option<String>,
    per: Option<f64>,
    key: String,
    /// What the difference is, where it is more.
    why: Option<String>,
}

#[derive(Deserialize)]
struct Rows {
    row: Vec<Row>,
}

/// Three digits, or all before the point.
fn short(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[test]
fn answers_agree_with_publications_or_say_why_not() {
    let rows: Rows = toml::from_str(&text_of("tests/agreement.toml")).unwrap();
    let mut table = "\n| what | published | here | apart | source |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for row in &rows.row {
        let of = |line: &str| {
            let answer = json(line);
            let value = answer.pointer(&row.key).and_then(serde_json::Value::as_f64);
            value.unwrap_or_else(|| panic!("{line}: {} is no number", row.key))
        };
        let beside = row.beside.as_deref().map(of).or(row.per).expect("`beside` or `per`");
        let here = of(&row.ask) / beside;
        let apart = here / row.published - 1.0;
        let agrees = apart.abs() <= row.tolerance;
        assert_eq!(
            agrees,
            row.why.is_none(),
            "{}: {here}, published {}",
            row.what,
            row.published
        );
        let what = match &row.why {
            Some(why) => format!("{}; {why}", row.what),
            None => row.what.clone(),
        };
        table += &format!(
            "| {what} | {} | {} | {:+.0} % | {} |\n",
            short(row.published),
            short(here),
            100.0 * apart,
            row.source
        );
    }
    section_holds("docs/method/serving.md", "agreement", &(table + "\n"));
}
