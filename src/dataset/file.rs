//! Our own Parquet tables: one row is one operator timed on one GPU and stack.
//!
//! Every column names its unit. `shapewise.schema` in the file's metadata is the version of the
//! layout; a column that is added or changes its meaning raises it. A file is written whole or
//! not at all, and a row that could not be read back is refused on writing.

use super::cells::{self, CAUSAL, COUNTS, Cells, NAMES, Problem};
use super::columns::write::{self, Field, Kind, Values};
use super::columns::{Batch, Counts, Flags, Numbers, Parquet, Texts};
use super::measured::{self, Measured, REALS, REMEASURED, Readings, TEXTS, WHOLES};
use super::{Origin, Row};
use crate::error::{Error, Result, write_atomically};
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::units::{Hertz, Seconds};
use parquet::file::metadata::KeyValue;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Before the name of a GPU that `data/gpus` does not know: its description follows.
const GPU_KEY: &str = "shapewise.gpu.";

const SCHEMA_KEY: &str = "shapewise.schema";
/// The layout that is written; `measured` columns came with 2, and files of 1 read with none.
pub const SCHEMA: u64 = 2;
const WITHOUT_MEASURED: u64 = 1;

const GPU: &str = "gpu";
const STACK: &str = "stack";
const SOURCE: &str = "source";
const LICENCE: &str = "licence";
const LIBRARIES: &str = "libraries";
const TIME: &str = "time_us";
const P10: &str = "p10_us";
const P90: &str = "p90_us";
const CLOCK: &str = "clock_hz";
const SAMPLES: &str = "samples";
const GROUP: &str = "group";

/// Every column of this version of the layout.
fn fields(version: u64) -> Vec<Field> {
    let field = |name, kind, may_be_null| Field {
        name,
        kind,
        may_be_null,
    };
    let mut fields = vec![
        field(GPU, Kind::Text, false),
        field(STACK, Kind::Text, false),
        field(TIME, Kind::Real, false),
        field(P10, Kind::Real, true),
        field(P90, Kind::Real, true),
        field(SAMPLES, Kind::Whole, true),
        field(CLOCK, Kind::Real, true),
        field(GROUP, Kind::Whole, true),
        field(CAUSAL, Kind::Flag, true),
        field(SOURCE, Kind::Text, false),
        field(LICENCE, Kind::Text, false),
        field(LIBRARIES, Kind::Text, true),
    ];
    fields.extend(NAMES.map(|name| field(name, Kind::Text, name != "family")));
    fields.extend(COUNTS.map(|name| field(name, Kind::Whole, true)));
    if version > WITHOUT_MEASURED {
        fields.extend(TEXTS.map(|name| field(name, Kind::Text, true)));
        fields.extend(REALS.map(|name| field(name, Kind::Real, true)));
        fields.extend(WHOLES.map(|name| field(name, Kind::Whole, true)));
        fields.push(field(REMEASURED, Kind::Flag, true));
    }
    fields
}

/// Refuses a path that [`write()`] could not write to, for callers with hours of work before it.
pub fn check_target(path: &Path) -> Result<()> {
    let problem = match path.parent() {
        None => "is not the path of a file".to_owned(),
        _ if path.is_dir() => "is a folder".to_owned(),
        Some(folder) if folder.as_os_str().is_empty() || folder.is_dir() => return Ok(()),
        Some(folder) => format!(
            "is in the folder {}, which does not exist",
            folder.display()
        ),
    };
    Err(Error::bad_input(format!(
        "{} {problem}; allowed: a file in an existing folder",
        path.display()
    )))
}

/// Writes rows to a file, replacing it, without a description of any GPU; the folder must exist.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    write_with(path, rows, &GpuCatalog::default(), &[])
}

/// Writes rows with the descriptions that `gpus` has of their GPUs, which [`described_gpus`] reads,
/// and with entries of the file's own metadata, which [`property`] reads.
pub fn write_with(
    path: &Path,
    rows: &[Row],
    gpus: &GpuCatalog,
    properties: &[(&str, String)],
) -> Result<()> {
    check_target(path)?;
    for (index, row) in rows.iter().enumerate() {
        cells::check_row(row)
            .map_err(|problem| problem.at(format!("{}: row {}", path.display(), index + 1)))?;
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

fn encode(
    rows: &[Row],
    gpus: &GpuCatalog,
    properties: &[(&str, String)],
) -> parquet::errors::Result<Vec<u8>> {
    let version = (SCHEMA_KEY, SCHEMA.to_string());
    let entries = std::iter::once(&version).chain(properties);
    let entries = entries.map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let names: BTreeSet<&str> = rows.iter().map(|row| &*row.gpu).collect();
    let described = names.into_iter().filter_map(|name| {
        let gpu = gpus.find(name).ok().filter(|gpu| gpu.is_described())?;
        let text = serde_json::to_string(gpu).expect("a description has only plain fields");
        Some(KeyValue::new(format!("{GPU_KEY}{name}"), text))
    });
    let properties = entries.chain(described).collect();
    write::encode(&fields(SCHEMA), properties, rows.len(), |field, part| {
        column(field.name, &rows[part])
    })
}

/// One column of these rows, by its name.
fn column<'a>(name: &str, rows: &'a [Row]) -> Values<'a> {
    fn texts<'a>(rows: &'a [Row], get: impl Fn(&'a Row) -> Option<&'a str>) -> Values<'a> {
        Values::Texts(rows.iter().map(get).collect())
    }
    fn reals<'a>(rows: &[Row], get: impl Fn(&Row) -> Option<f64>) -> Values<'a> {
        Values::Reals(rows.iter().map(get).collect())
    }
    // `check_row` has bounded the counts far below 2^63.
    fn wholes<'a>(rows: &[Row], get: impl Fn(&Row) -> Option<u64>) -> Values<'a> {
        let signed = rows.iter().map(|row| get(row).map(|value| value as i64));
        Values::Wholes(signed.collect())
    }
    fn flags<'a>(rows: &[Row], get: impl Fn(&Row) -> Option<bool>) -> Values<'a> {
        Values::Flags(rows.iter().map(get).collect())
    }
    match name {
        GPU => texts(rows, |row| Some(&row.gpu)),
        STACK => texts(rows, |row| Some(&row.stack)),
        SOURCE => texts(rows, |row| Some(&row.origin.source)),
        LICENCE => texts(rows, |row| Some(&row.origin.licence)),
        LIBRARIES => texts(rows, |row| row.origin.libraries.as_deref()),
        TIME => reals(rows, |row| Some(cells::micros(row.time))),
        P10 => reals(rows, |row| row.p10.map(cells::micros)),
        P90 => reals(rows, |row| row.p90.map(cells::micros)),
        CLOCK => reals(rows, |row| row.clock.map(Hertz::hertz)),
        SAMPLES => wholes(rows, |row| row.samples.map(u64::from)),
        GROUP => wholes(rows, |row| row.group),
        CAUSAL => flags(rows, |row| cells::causal(&row.op)),
        REMEASURED => flags(rows, |row| {
            row.measured.as_ref().map(|about| about.remeasured)
        }),
        name if NAMES.contains(&name) => texts(rows, |row| cells::name(&row.op, name)),
        name if TEXTS.contains(&name) => {
            texts(rows, |row| measured::text(row.measured.as_deref()?, name))
        }
        name if REALS.contains(&name) => {
            reals(rows, |row| measured::real(row.measured.as_deref()?, name))
        }
        name if WHOLES.contains(&name) => {
            wholes(rows, |row| measured::whole(row.measured.as_deref()?, name))
        }
        name => wholes(rows, |row| cells::count(&row.op, name)),
    }
}

/// The GPUs that a file describes: those of its rows that `data/gpus` did not know when it was written.
pub fn described_gpus(path: &Path) -> Result<Vec<Gpu>> {
    let file = Parquet::open(path)?;
    check_schema(&file)?;
    let descriptions = file.properties_of(GPU_KEY);
    descriptions
        .map(|text| Gpu::from_json(text, file.place()))
        .collect()
}

/// Reads all rows of a file that [`write()`] has written.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let file = Parquet::open(path)?;
    let version = check_schema(&file)?;
    let fields = fields(version);
    let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
    let mut rows = Vec::new();
    let mut shared = Shared::default();
    for batch in file.batches(&names, None)? {
        let batch = batch?;
        let columns = Columns::new(&batch, version)?;
        rows.reserve(batch.len());
        for row in 0..batch.len() {
            let read = columns.row(row, &mut shared);
            rows.push(read.map_err(|problem| problem.at(batch.position(row)))?);
        }
    }
    Ok(rows)
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
    let Some(version) = file.property(SCHEMA_KEY) else {
        return Err(Error::bad_input(format!(
            "{place}: this Parquet file is not a shapewise table (no `{SCHEMA_KEY}` in its metadata); \
             allowed: files of `shapewise measure` or `shapewise import`"
        )));
    };
    match version.parse::<u64>() {
        Ok(version @ WITHOUT_MEASURED..=SCHEMA) => Ok(version),
        Ok(newer) if newer > SCHEMA => Err(Error::bad_input(format!(
            "{place}: `{SCHEMA_KEY}` is {newer}, written by a newer shapewise; allowed: {WITHOUT_MEASURED} to {SCHEMA}"
        ))),
        _ => Err(Error::field(
            place,
            SCHEMA_KEY,
            format!("`{version}`"),
            &format!("{WITHOUT_MEASURED} to {SCHEMA}"),
        )),
    }
}

/// Texts and origins that rows of one file share.
#[derive(Default)]
struct Shared {
    texts: HashMap<String, Arc<str>>,
    origins: HashMap<Origin, Arc<Origin>>,
}

impl Shared {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&shared));
        shared
    }

    fn origin(&mut self, origin: Origin) -> Arc<Origin> {
        let shared = self.origins.entry(origin);
        let key = shared.key().clone();
        Arc::clone(shared.or_insert_with(|| Arc::new(key)))
    }
}

/// The columns of one batch, resolved once.
struct Columns<'a> {
    names: Vec<Texts<'a>>,
    counts: Vec<Counts<'a>>,
    causal: Flags<'a>,
    gpu: Texts<'a>,
    stack: Texts<'a>,
    source: Texts<'a>,
    licence: Texts<'a>,
    libraries: Texts<'a>,
    time: Numbers<'a>,
    p10: Numbers<'a>,
    p90: Numbers<'a>,
    clock: Numbers<'a>,
    samples: Counts<'a>,
    group: Counts<'a>,
    measured: Option<MeasuredColumns<'a>>,
}

/// The columns that `measure` adds.
struct MeasuredColumns<'a> {
    texts: Vec<Texts<'a>>,
    reals: Vec<Numbers<'a>>,
    wholes: Vec<Counts<'a>>,
    remeasured: Flags<'a>,
}

impl<'a> MeasuredColumns<'a> {
    fn new(batch: &'a Batch<'_>) -> Result<Self> {
        let texts = TEXTS.iter().map(|name| batch.texts(name));
        let reals = REALS.iter().map(|name| batch.numbers(name));
        let wholes = WHOLES.iter().map(|name| batch.counts(name));
        Ok(Self {
            texts: texts.collect::<Result<_>>()?,
            reals: reals.collect::<Result<_>>()?,
            wholes: wholes.collect::<Result<_>>()?,
            remeasured: batch.flags(REMEASURED)?,
        })
    }
}

impl<'a> Columns<'a> {
    fn new(batch: &'a Batch<'_>, version: u64) -> Result<Self> {
        let measured = version > WITHOUT_MEASURED;
        let names = NAMES.iter().map(|name| batch.texts(name));
        let counts = COUNTS.iter().map(|name| batch.counts(name));
        Ok(Self {
            names: names.collect::<Result<_>>()?,
            counts: counts.collect::<Result<_>>()?,
            causal: batch.flags(CAUSAL)?,
            gpu: batch.texts(GPU)?,
            stack: batch.texts(STACK)?,
            source: batch.texts(SOURCE)?,
            licence: batch.texts(LICENCE)?,
            libraries: batch.texts(LIBRARIES)?,
            time: batch.numbers(TIME)?,
            p10: batch.numbers(P10)?,
            p90: batch.numbers(P90)?,
            clock: batch.numbers(CLOCK)?,
            samples: batch.counts(SAMPLES)?,
            group: batch.counts(GROUP)?,
            measured: measured.then(|| MeasuredColumns::new(batch)).transpose()?,
        })
    }

    fn row(&self, row: usize, shared: &mut Shared) -> std::result::Result<Row, Problem> {
        let text = |column: &Texts<'a>| column.get(row).unwrap_or_default();
        let seconds = |numbers: &Numbers<'_>| numbers.get(row).map(Seconds::from_micros);
        let read = Row {
            op: cells::op(&Cell { columns: self, row })?,
            gpu: shared.text(text(&self.gpu)),
            stack: shared.text(text(&self.stack)),
            time: seconds(&self.time).unwrap_or(Seconds::ZERO),
            p10: seconds(&self.p10),
            p90: seconds(&self.p90),
            samples: whole(&self.samples, row, SAMPLES, "0 to 2^32 - 1")?,
            clock: self.clock.get(row).map(Hertz::from_hertz),
            group: whole(&self.group, row, GROUP, "0 to 2^53")?,
            origin: shared.origin(Origin {
                source: text(&self.source).to_owned(),
                licence: text(&self.licence).to_owned(),
                libraries: self.libraries.get(row).map(str::to_owned),
            }),
            measured: self.measured(row)?,
        };
        cells::check_row(&read).map(|()| read)
    }

    fn measured(&self, row: usize) -> std::result::Result<Option<Box<Measured>>, Problem> {
        let columns = self.measured.as_ref();
        columns.map_or(Ok(None), |columns| {
            measured::read(&Reading { columns, row })
        })
    }
}

/// The cells that `measure` adds in one row of a batch.
struct Reading<'a> {
    columns: &'a MeasuredColumns<'a>,
    row: usize,
}

impl Readings for Reading<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        let index = TEXTS.iter().position(|name| *name == column)?;
        self.columns.texts[index].get(self.row)
    }

    fn real(&self, column: &str) -> Option<f64> {
        let index = REALS.iter().position(|name| *name == column)?;
        self.columns.reals[index].get(self.row)
    }

    fn whole(&self, column: &str) -> Option<i64> {
        let index = WHOLES.iter().position(|name| *name == column)?;
        self.columns.wholes[index].get(self.row)
    }

    fn remeasured(&self) -> Option<bool> {
        self.columns.remeasured.get(self.row)
    }
}

/// A whole number that fits its type; nothing where it is null.
fn whole<T: TryFrom<i64>>(
    counts: &Counts<'_>,
    row: usize,
    column: &'static str,
    allowed: &str,
) -> std::result::Result<Option<T>, Problem> {
    let value = counts.get(row);
    let fits =
        value.map(|value| T::try_from(value).map_err(|_| Problem::new(column, value, allowed)));
    fits.transpose()
}

/// The cells of an operator in one row of a batch.
struct Cell<'a> {
    columns: &'a Columns<'a>,
    row: usize,
}

impl Cells for Cell<'_> {
    fn count(&self, column: &str) -> Option<i64> {
        let index = COUNTS.iter().position(|name| *name == column)?;
        self.columns.counts[index].get(self.row)
    }

    fn name(&self, column: &str) -> Option<&str> {
        let index = NAMES.iter().position(|name| *name == column)?;
        self.columns.names[index].get(self.row)
    }

    fn causal(&self) -> Option<bool> {
        self.columns.causal.get(self.row)
    }
}
