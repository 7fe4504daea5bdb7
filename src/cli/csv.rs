//! Documents as tables for other programs: a line an entry of the document's main lists, units in the heading.

use crate::report::Report;
use serde_json::{Map, Value};

/// The texts of a line by their headings.
type Line = Map<String, Value>;

/// The entries of the lists of each report, after its name if it has one.
pub(super) fn table<'a, R: Report + 'a>(reports: impl IntoIterator<Item = (Option<&'a str>, &'a R)>) -> String {
    let mut lines = Vec::new();
    for (name, report) in reports {
        let document = serde_json::to_value(report).expect("documents hold strings, numbers and lists of them only");
        let before = name.map(|name| ("name".to_owned(), name.into()));
        lines.extend(entries(&document, R::LISTS, &before.into_iter().collect()));
    }
    drawn(&lines)
}

/// The entries of these lists, or the document itself if there are none.
fn entries(document: &Value, lists: &[&str], before: &Line) -> Vec<Line> {
    let mut entries = Vec::new();
    match lists {
        [] => entries.push(before.clone().into_iter().chain(cells("", document)).collect()),
        _ => lists
            .iter()
            .for_each(|list| collect(document, list, before, &mut entries)),
    }
    entries
}

fn drawn(lines: &[Line]) -> String {
    let mut heading: Vec<&String> = Vec::new();
    for key in lines.iter().flat_map(Map::keys) {
        if !heading.contains(&key) {
            heading.push(key);
        }
    }
    let cell = |entry: &'_ Line, key: &String| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let entry = |entry| line(heading.iter().map(|key| cell(entry, key)));
    match heading[..] {
        [] => String::new(),
        _ => line(&heading) + &lines.iter().map(entry).collect::<String>(),
    }
}

/// One line of a table.
pub(super) fn line<C: AsRef<[u8]>>(cells: impl IntoIterator<Item = C>) -> String {
    let mut line = csv::Writer::from_writer(Vec::new());
    line.write_record(cells).expect("memory takes every line");
    let bytes = line.into_inner().expect("memory takes every line");
    String::from_utf8(bytes).expect("cells are texts")
}

/// Adds the entries of a list, each after the values of what holds it.
fn collect(holder: &Value, list: &str, before: &Line, entries: &mut Vec<Line>) {
    let (name, inner) = list
        .split_once('.')
        .map_or((list, None), |(name, inner)| (name, Some(inner)));
    for entry in holder[name].as_array().into_iter().flatten() {
        match inner {
            Some(inner) => {
                let own = entry.as_object().into_iter().flatten();
                let own = own.filter(|(_, value)| !value.is_array() && !value.is_object());
                let own = own.map(|(key, value)| (key.clone(), text(value).into()));
                let before = before.clone().into_iter().chain(own).collect();
                collect(entry, inner, &before, entries);
            }
            None => {
                let mut line = before.clone();
                line.extend(cells("", entry));
                entries.push(line);
            }
        }
    }
}

/// The values of an object as texts: keys of inner objects follow a dot, lists of plain values are one cell with blanks
/// between, other lists are JSON.
fn cells(prefix: &str, value: &Value) -> Line {
    let mut all = Line::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        let key = format!("{prefix}{key}");
        match value {
            Value::Object(_) => all.extend(cells(&format!("{key}."), value)),
            _ => drop(all.insert(key, text(value).into())),
        }
    }
    all
}

/// What a cell holds of a value.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) if !list.iter().any(|value| value.is_array() || value.is_object()) => {
            list.iter().map(text).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_the_entries_of_lists_with_the_values_of_what_holds_them() {
        let document = json!({
            "gpu": "h100",
            "time_us": 1.5,
            "plans": [
                {"gpus": 8, "layouts": [{"tp": 2, "memory": {"bytes": 3, "fits": true}}, {"tp": 4, "tied": [1, 2]}]},
                {"gpus": 16, "layouts": [{"tp": null, "note": "a, b"}]},
            ],
            "measured": [{"time_us": 2, "lines": [{"a": 1}]}],
        });
        for (lists, expected) in [
            (
                &["plans.layouts"][..],
                "gpus,tp,memory.bytes,memory.fits,tied,note\n8,2,3,true,,\n8,4,,,1 2,\n16,,,,,\"a, b\"\n",
            ),
            (
                &["measured", "plans"],
                "time_us,lines,gpus,layouts\n2,\"[{\"\"a\"\":1}]\",,\n",
            ),
            (&["none"], ""),
        ] {
            let table = drawn(&entries(&document, lists, &Line::new()));
            assert!(table.starts_with(expected), "{lists:?}: {table}");
        }
        let operator = json!({"time_us": 1.5, "op": {"m": 8}, "notes": []});
        assert_eq!(
            drawn(&entries(&operator, &[], &Line::new())),
            "time_us,op.m,notes\n1.5,8,\n"
        );
    }
}
