//! Documents about timing tables: measured, imported, judged, trained on.

pub mod choices;
pub mod evaluation;
pub mod import;
pub mod measure;
pub mod runs;
pub mod training;

use serde::Serialize;
use utoipa::ToSchema;

/// Rows that were left out, and why.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct SkippedRows {
    /// Why.
    pub reason: String,
    /// How many.
    pub rows: u64,
    /// The file and row of the first of them, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

/// One line per reason, or nothing.
pub fn skipped_text(skipped: &[SkippedRows]) -> String {
    if skipped.is_empty() {
        return String::new();
    }
    let total: u64 = skipped.iter().map(|skip| skip.rows).sum();
    let lines: String = skipped
        .iter()
        .map(|skip| {
            let first = skip.first.as_ref();
            let first = first.map_or_else(String::new, |first| format!(" (first: {first})"));
            format!("{:>9}  {}{first}\n", skip.rows, skip.reason)
        })
        .collect();
    format!("skipped {total} rows:\n{lines}")
}

/// Lines as a table for other programs; the keys of the first are the heading.
fn csv<L: Serialize>(lines: impl Iterator<Item = L>) -> Vec<u8> {
    let mut table = csv::Writer::from_writer(Vec::new());
    for line in lines {
        table.serialize(line).expect("lines hold strings and numbers only");
    }
    table.into_inner().expect("memory takes every line")
}
