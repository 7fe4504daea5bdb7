//! Tables in CSV as Parquet files of texts, so that one reader serves both; the type of a text is known when a column is asked for.

use super::Field;
use crate::dataset::column::{Cell, Kind};
use crate::dataset::formats::encode;
use crate::error::{Error, Result};
use csv::{ReaderBuilder, StringRecord, Trim};
use std::path::Path;

/// Whether a file is CSV by its name.
pub(in crate::dataset) fn is_csv(path: &Path) -> bool {
    let named = |ending: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending));
    named("csv") || named("txt")
}

/// The bytes of a Parquet file whose columns are texts, null where a cell is empty; errors name the table `place`.
pub(super) fn to_parquet(content: &[u8], place: &str) -> Result<Vec<u8>> {
    let damaged = |error: csv::Error| {
        Error::bad_input(format!(
            "{place}: is not a table ({error}); allowed: CSV in UTF-8 with as many cells a row as there are columns"
        ))
    };
    let mut reader = ReaderBuilder::new();
    let mut reader = reader.trim(Trim::All).from_reader(content);
    let names = reader.headers().map_err(damaged)?.clone();
    let records: Vec<StringRecord> = reader.records().collect::<csv::Result<_>>().map_err(damaged)?;
    let fields = names.iter().map(|name| Field {
        name,
        kind: Kind::Text,
        may_be_null: true,
    });
    let fields: Vec<Field<'_>> = fields.collect();
    let encoded = encode(&fields, &[], records.len(), |column, row| {
        let cell = records[row].get(column);
        cell.filter(|text| !text.is_empty()).map(Cell::Text)
    });
    encoded.map_err(|error| {
        Error::bad_input(format!(
            "{place}: is not a table ({error}); allowed: CSV with a row of names first"
        ))
    })
}

/// A whole number, also one that pandas writes as `4096.0` because another row of the column is empty.
pub(super) fn whole(text: &str) -> Option<i64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// `true` or `false`, capitalised where Python writes it.
pub(super) fn flag(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}
