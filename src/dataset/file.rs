//! Our own tables: one row is one operator timed on one GPU and stack.
//!
//! Every column names its unit. They are Parquet: `shapewise.schema` in the file's metadata is the version of the
//! layout; a column that is added or changes its meaning raises it. A file is written whole or
//! not at all, and a row that could not be read back is refused on writing. Tables in CSV, which others write, are read
//! with the columns of the newest layout that they have.

use super::column::{Column, Presence};
use super::columns::{Field, Parquet, Supplied, is_csv};
use super::draft::Draft;
use super::formats;
use super::schema::{self, OLDEST_SCHEMA, SCHEMA, columns, columns_of_file, columns_of_operator};
use super::{Filter, Row};
use crate::error::{Error, Result, write_atomically};
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::names;
use crate::ops::OpKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// Before the name of a GPU that `data/gpus` does not know: its description follows.
const GPU_KEY: &str = "shapewise.gpu.";

const SCHEMA_KEY: &str = "shapewise.schema";

/// Refuses a path that [`write()`] could not write to, for callers with hours of work before it.
pub fn check_target(path: &Path) -> Result<()> {
    match is_csv(path) {
        true => Err(unfit(
            path,
            "is the name of a CSV table",
            "a name of Parquet, such as rows.parquet",
        )),
        false => check_folder(path).and_then(|()| formats::require()),
    }
}

/// Refuses a path that is no file in an existing folder.
pub(super) fn check_folder(path: &Path) -> Result<()> {
    let problem = match path.parent() {
        None => "is not the path of a file".to_owned(),
        _ if path.is_dir() => "is a folder".to_owned(),
        Some(folder) if folder.as_os_str().is_empty() || folder.is_dir() => return Ok(()),
        Some(folder) => format!("is in the folder {}, which does not exist", folder.display()),
    };
    Err(unfit(path, &problem, "a file in an existing folder"))
}

fn unfit(path: &Path, problem: &str, allowed: &str) -> Error {
    Error::bad_input(format!("{} {problem}; allowed: {allowed}", path.display()))
}

/// Writes rows to a file, replacing it, without a description of any GPU; the folder must exist.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    write_with(path, rows, &GpuCatalog::default(), &[])
}

/// Writes rows with the descriptions that `gpus` has of their GPUs, which [`described_gpus`] reads,
/// and with entries of the file's own metadata, which [`property`] reads.
pub fn write_with(path: &Path, rows: &[Row], gpus: &GpuCatalog, properties: &[(&str, String)]) -> Result<()> {
    check_target(path)?;
    for (index, row) in rows.iter().enumerate() {
        schema::check(row).map_err(|problem| problem.at(format!("{}: row {}", path.display(), index + 1)))?;
    }
    let content = encode(rows, gpus, properties)
        .map_err(|error| Error::bad_input(format!("{}: cannot encode: {error}", path.display())))?;
    write_atomically(path, &content)
}

/// An entry of the metadata of a file that [`write_with`] has written.
pub fn property(path: &Path, key: &str) -> Result<Option<String>> {
    let file = Parquet::open(path)?;
    check_schema(&file)?;
    Ok(file.property(key).map(str::to_owned))
}

fn encode(rows: &[Row], gpus: &GpuCatalog, properties: &[(&str, String)]) -> Result<Vec<u8>, impl Display> {
    let version = (SCHEMA_KEY, SCHEMA.to_string());
    let entries = std::iter::once(&version).chain(properties);
    let entries = entries.map(|(key, value)| ((*key).to_owned(), value.clone()));
    let names: BTreeSet<&str> = rows.iter().map(|row| &*row.gpu).collect();
    let described = names.into_iter().filter_map(|name| gpus.find(name).ok());
    let properties: Vec<_> = entries.chain(descriptions(described)).collect();
    let columns: Vec<&Column> = columns_of_file().collect();
    let fields: Vec<Field<'_>> = columns
        .iter()
        .map(|column| Field {
            name: column.name,
            kind: column.kind(),
            may_be_null: column.presence != Presence::Always,
        })
        .collect();
    formats::encode(&fields, &properties, rows.len(), |field, row| {
        columns[field].get(&rows[row])
    })
}

/// Entries of the metadata of a file that describe those of the GPUs that `data/gpus` does not know, each once.
pub(super) fn descriptions<'a>(gpus: impl Iterator<Item = &'a Gpu>) -> Vec<(String, String)> {
    let described = gpus.filter(|gpu| gpu.is_described());
    let by_name: BTreeMap<&str, &Gpu> = described.map(|gpu| (&*gpu.name, gpu)).collect();
    let entry = |(name, gpu): (&str, &Gpu)| {
        let text = serde_json::to_string(gpu).expect("a description has only plain fields");
        (format!("{GPU_KEY}{name}"), text)
    };
    by_name.into_iter().map(entry).collect()
}

/// The GPUs that an opened file describes.
pub(super) fn described_in(file: &Parquet) -> Result<Vec<Gpu>> {
    let descriptions = file.properties_of(GPU_KEY);
    descriptions.map(|text| Gpu::from_json(text, file.place())).collect()
}

/// The GPUs that a file describes: those of its rows that `data/gpus` did not know when it was written.
pub fn described_gpus(path: &Path) -> Result<Vec<Gpu>> {
    let file = Parquet::open(path)?;
    check_schema(&file)?;
    described_in(&file)
}

/// Reads all rows of a file that [`write()`] has written.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    read_known(path, &Filter::default())
}

/// The same, also of a table in CSV without the columns that `known` fills for all its rows, or without a family where its
/// other columns are of one.
pub fn read_known(path: &Path, known: &Filter) -> Result<Vec<Row>> {
    let mut file = Parquet::open(path)?;
    let version = check_schema(&file)?;
    let family = file.is_text().then(|| inferred(&file)).flatten();
    if file.is_text() {
        let family = family.map(|kind| ("family", Supplied::Text(kind.name().to_owned())));
        file.supply(known.supplied().chain(family));
    }
    let is_needed = |column: &Column| {
        column.presence == Presence::Always || family.is_some_and(|kind| column.need(kind) == Some(true))
    };
    let columns = columns(version).filter(|column| !file.is_text() || file.has(column.name) || is_needed(column));
    let columns: Vec<&Column> = columns.collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let mut rows = Vec::new();
    let mut draft = Draft::new("".into(), "".into(), Arc::default());
    for batch in file.batches(&names, None)? {
        let batch = batch?;
        let cells = batch.cells(columns.iter().map(|column| (column.name, column.kind())))?;
        rows.reserve(batch.len());
        for row in 0..batch.len() {
            let read = draft.read(columns.iter().copied(), |place, _| cells[place].get(row));
            rows.push(read.map_err(|problem| problem.at(batch.position(row)))?);
        }
    }
    Ok(rows)
}

/// The first family that has all columns of operators in this table, and needs one of them.
fn inferred(file: &Parquet) -> Option<OpKind> {
    let own = || columns_of_operator().filter(|column| file.has(column.name));
    OpKind::ALL.into_iter().find(|kind| {
        let needs = || own().map(|column| column.need(*kind));
        needs().all(|need| need.is_some()) && needs().any(|need| need == Some(true))
    })
}

/// Reads several files, one after the other; a shape that was timed twice stays twice.
pub fn read_many<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for path in paths {
        rows.extend(read(path.as_ref())?);
    }
    Ok(rows)
}

/// The version of the layout, if it can be read.
fn check_schema(file: &Parquet) -> Result<u64> {
    let place = file.place();
    if file.is_text() {
        return check_names(file).map(|()| SCHEMA);
    }
    let Some(version) = file.property(SCHEMA_KEY) else {
        return Err(Error::bad_input(format!(
            "{place}: this Parquet file is not a shapewise table (no `{SCHEMA_KEY}` in its metadata); \
             allowed: files of `shapewise measure` or `shapewise import`, or CSV with the columns of data/README.md"
        )));
    };
    match version.parse::<u64>() {
        Ok(version @ OLDEST_SCHEMA..=SCHEMA) => Ok(version),
        Ok(newer) if newer > SCHEMA => Err(Error::bad_input(format!(
            "{place}: `{SCHEMA_KEY}` is {newer}, written by a newer shapewise; allowed: {OLDEST_SCHEMA} to {SCHEMA}"
        ))),
        _ => Err(Error::field(
            place,
            SCHEMA_KEY,
            format!("`{version}`"),
            &format!("{OLDEST_SCHEMA} to {SCHEMA}"),
        )),
    }
}

/// What others call columns.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("op", "family"),
    ("operator", "family"),
    ("kind", "family"),
    ("time", "time_us"),
    ("latency", "time_us"),
    ("time_ms", "time_us"),
    ("precision", "dtype"),
];

/// Refuses a table in CSV with an unknown column: it might be meant as one of ours.
fn check_names(file: &Parquet) -> Result<()> {
    let known = || columns(SCHEMA).map(|column| column.name);
    match file.columns().find(|name| known().all(|column| column != *name)) {
        None => Ok(()),
        Some(unknown) => {
            let other = OTHER_NAMES.iter().find(|(other, _)| *other == unknown);
            let nearest = other.map_or_else(
                || names::nearest(unknown, known()).join(", "),
                |(_, ours)| (*ours).to_owned(),
            );
            Err(Error::bad_input(format!(
                "{}: the column `{unknown}` is not known; allowed: those of data/README.md, such as {nearest}",
                file.place(),
            )))
        }
    }
}
