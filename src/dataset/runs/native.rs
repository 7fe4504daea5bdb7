//! Our own schema of whole-model runs: one measured step a row, in Parquet or CSV.
//!
//! `docs/runs.md` holds its columns. Nothing is skipped: a column that is not known, or a cell that breaks a
//! rule, is an error that names its place.

use super::{Measure, Run, Serving};
use crate::arch::{Architecture, Dimension, Mode, Preset, Workload, parse_config, read_config};
use crate::dataset::column::{Cell, Kind};
use crate::dataset::columns::{Field, Parquet, is_csv};
use crate::dataset::file::{check_folder, described_in, descriptions};
use crate::dataset::formats::encode;
use crate::error::{Error, Result, write_atomically};
use crate::gpu::{Gpu, GpuCatalog};
use crate::ops::{Dtype, LARGEST};
use crate::units::{BytesPerSecond, Seconds};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;
use utoipa::{PartialSchema, ToSchema};

/// One column.
struct Column {
    name: String,
    /// What a cell says, for `docs/runs.md`.
    meaning: String,
    /// What a cell may hold.
    allowed: String,
    content: Content,
}

/// What the cells hold, and how a run gives and takes it.
enum Content {
    /// The architecture, which is read before all else.
    Model,
    /// The GPU, likewise.
    Gpu,
    /// An option of the workload, of this type.
    Workload(Kind),
    /// What was timed.
    Measure,
    Text {
        get: fn(&Run) -> Option<&str>,
        set: fn(&mut Run, &str),
    },
    /// From 1 to [`LARGEST`].
    Load {
        get: fn(&Serving) -> u64,
        set: fn(&mut Serving, u64),
    },
    /// More than 0.
    Real {
        get: fn(&Run) -> Option<f64>,
        set: fn(&mut Run, f64),
    },
}

/// A load of which no cell has been read.
const NO_LOAD: Serving = Serving {
    concurrency: 0,
    prompt: 0,
    output: 0,
};

/// Columns that every file has and every row fills.
const NEEDED: [&str; 5] = ["model", "gpu", "mode", "batch", "seconds"];

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let column = |name: &str, meaning: &str, content| Column {
        name: name.to_owned(),
        meaning: meaning.to_owned(),
        allowed: allowed(&content),
        content,
    };
    let mut columns = vec![
        column(
            "model",
            "A preset, a `config.json` (its path relative to the file, or its object), or the architecture as JSON with the keys of `data/architectures`",
            Content::Model,
        ),
        column(
            "gpu",
            "A GPU of `data/gpus`, or one that the file or `--model` describes",
            Content::Gpu,
        ),
    ];
    columns.extend(options());
    columns.extend([
        column(
            "seconds",
            "Wall time of the step, or of the measure",
            Content::Real {
                get: |run| Some(run.time.secs()),
                set: |run, value| run.time = Seconds::from_secs(value),
            },
        ),
        column(
            "measure",
            "What was timed: a step, the time to a first token or per further token of a request, a static batch from its prompts to its last token",
            Content::Measure,
        ),
        column(
            "concurrency",
            "Requests in flight on all data-parallel ranks, where a server was measured",
            Content::Load {
                get: |load| load.concurrency,
                set: |load, count| load.concurrency = count,
            },
        ),
        column(
            "prompt",
            "Tokens of a prompt, where a server was measured",
            Content::Load {
                get: |load| load.prompt,
                set: |load, count| load.prompt = count,
            },
        ),
        column(
            "output",
            "Tokens that a request generates, where a server was measured",
            Content::Load {
                get: |load| load.output,
                set: |load, count| load.output = count,
            },
        ),
        column(
            "software",
            "Name and version of trainer or server",
            Content::Text {
                get: |run| Some(&run.software),
                set: |run, text| run.software = text.to_owned(),
            },
        ),
        column(
            "configuration",
            "Runs of one configuration are held out together; model, GPU and format where empty",
            Content::Text {
                get: |run| Some(&run.configuration),
                set: |run, text| run.configuration = text.to_owned(),
            },
        ),
        column(
            "network_bytes_per_s",
            "Bandwidth between nodes of one GPU in one direction",
            Content::Real {
                get: |run| run.network.map(BytesPerSecond::bytes_per_sec),
                set: |run, value| run.network = Some(BytesPerSecond::from_bytes_per_sec(value)),
            },
        ),
        column(
            "unfitted",
            "Reason why fits leave the run out; empty if they do not",
            Content::Text {
                get: |run| run.unfitted.as_deref(),
                set: |run, text| run.unfitted = Some(text.to_owned()),
            },
        ),
    ]);
    columns
});

/// A column for each option of [`Workload`], with the documentation and the values of its field.
fn options() -> impl Iterator<Item = Column> {
    let schema = |schema| serde_json::to_value(schema).expect("a schema has only plain fields");
    let mut parts = Vec::new();
    Workload::schemas(&mut parts);
    let parts: BTreeMap<String, Value> = parts.into_iter().map(|(name, part)| (name, schema(part))).collect();
    let fields = schema(Workload::schema())["properties"].take();
    let Value::Object(fields) = fields else {
        unreachable!("a workload has fields");
    };
    fields.into_iter().map(move |(name, field)| {
        let part = field["$ref"]
            .as_str()
            .and_then(|path| parts.get(path.rsplit('/').next()?));
        let part = part.unwrap_or(&field);
        let text = |of: &Value| of["description"].as_str().unwrap_or_default().replace('\n', " ");
        let (kind, allowed) = match (part["type"].as_str(), &part["enum"]) {
            (Some("boolean"), _) => (Kind::Flag, "true or false".to_owned()),
            (Some("integer"), _) => {
                let range = range(&name);
                (
                    Kind::Whole,
                    format!("a whole number from {} to {}", range.start(), range.end()),
                )
            }
            (Some("number"), _) => {
                let allowed = format!("a number from {} to {}", part["minimum"], part["maximum"]);
                (Kind::Real, allowed)
            }
            // Operators have more formats than workloads.
            _ if name == "dtype" => (Kind::Text, Dtype::ELEMENT_NAMES.join(", ")),
            (_, Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                (Kind::Text, names.join(", "))
            }
            _ => (Kind::Text, text(part)),
        };
        let meaning = text(&field);
        let sentence = meaning.split(". ").next().unwrap_or_default();
        Column {
            meaning: sentence.trim_end_matches('.').to_owned(),
            name,
            allowed,
            content: Content::Workload(kind),
        }
    })
}

/// The values of a whole number of the workload.
fn range(name: &str) -> RangeInclusive<u64> {
    Dimension::parse(name).map_or(0..=LARGEST, Dimension::range)
}

/// What a cell may hold that is no option of the workload.
fn allowed(content: &Content) -> String {
    match content {
        Content::Model => "a preset, a config.json or an architecture as JSON".to_owned(),
        Content::Gpu => {
            let names: Vec<&str> = Gpu::all().iter().map(|gpu| &*gpu.name).collect();
            let described = "or one that the file or --model describes";
            format!("{}, {described}", names.join(", "))
        }
        Content::Measure => Measure::NAMES.join(", "),
        Content::Text { .. } | Content::Workload(_) => "a text".to_owned(),
        Content::Load { .. } => format!("a whole number from 1 to {LARGEST}"),
        Content::Real { .. } => "a number above 0".to_owned(),
    }
}

/// A run as it is written: its architecture as text, and the options of its workload that are not their defaults.
struct Written<'a> {
    run: &'a Run,
    model: String,
    options: Value,
}

impl<'a> Written<'a> {
    fn new(run: &'a Run) -> Self {
        Self {
            run,
            model: model_text(&run.architecture),
            options: serde_json::to_value(run.workload).expect("a workload has only plain fields"),
        }
    }
}

impl Column {
    const fn kind(&self) -> Kind {
        match self.content {
            Content::Workload(kind) => kind,
            Content::Model | Content::Gpu | Content::Measure | Content::Text { .. } => Kind::Text,
            Content::Load { .. } => Kind::Whole,
            Content::Real { .. } => Kind::Real,
        }
    }

    /// What a run holds; `None` if the cell is null.
    fn get<'a>(&self, written: &'a Written<'_>) -> Option<Cell<'a>> {
        let run = written.run;
        Some(match &self.content {
            Content::Model => Cell::Text(&written.model),
            Content::Gpu => Cell::Text(&run.gpu.name),
            Content::Workload(_) => match written.options.get(&self.name)? {
                Value::Bool(flag) => Cell::Flag(*flag),
                Value::String(text) => Cell::Text(text),
                number => match number.as_i64() {
                    Some(count) => Cell::Whole(count),
                    None => Cell::Real(number.as_f64()?),
                },
            },
            Content::Measure => Cell::Text(run.measure.name()),
            Content::Text { get, .. } => Cell::Text(get(run).filter(|text| !text.is_empty())?),
            Content::Load { get, .. } => Cell::Whole(get(run.serving.as_ref()?) as i64),
            Content::Real { get, .. } => Cell::Real(get(run)?),
        })
    }

    /// Writes a cell to the run; `None` if the run may not hold its value.
    fn set(&self, run: &mut Run, text: &str) -> Option<()> {
        match &self.content {
            Content::Model | Content::Gpu => {}
            Content::Workload(kind) => {
                let value = match kind {
                    Kind::Flag => Value::Bool(text.to_lowercase().parse().ok()?),
                    Kind::Whole => {
                        let range = range(&self.name);
                        Value::from(text.parse().ok().filter(|count| range.contains(count))?)
                    }
                    Kind::Real => Value::from(text.parse::<f64>().ok()?),
                    Kind::Text => Value::from(text),
                };
                let mut options = serde_json::to_value(run.workload).ok()?;
                options[&self.name] = value;
                run.workload = serde_json::from_value(options).ok()?;
            }
            Content::Measure => run.measure = Measure::parse(text)?,
            Content::Text { set, .. } => set(run, text),
            Content::Load { set, .. } => {
                let count = text.parse().ok().filter(|count| (1..=LARGEST).contains(count))?;
                set(run.serving.get_or_insert(NO_LOAD), count);
            }
            Content::Real { set, .. } => {
                let value = text.parse().ok();
                set(run, value.filter(|&value: &f64| value > 0.0 && value.is_finite())?);
            }
        }
        Some(())
    }

    fn refuse(&self, place: &str, value: impl fmt::Display) -> Error {
        Error::field(place, &self.name, value, &self.allowed)
    }
}

/// Every column as a Markdown table, as `docs/runs.md` holds it.
pub fn columns_markdown() -> String {
    let mut table = "| column | meaning | holds |\n| --- | --- | --- |\n".to_owned();
    for Column {
        name,
        meaning,
        allowed,
        content,
    } in COLUMNS.iter()
    {
        let holds = match content {
            Content::Model | Content::Gpu => "a text",
            _ => allowed,
        };
        let always = if NEEDED.contains(&name.as_str()) {
            "; in every row"
        } else {
            ""
        };
        table += &format!("| `{name}` | {meaning} | {holds}{always} |\n");
    }
    table
}

/// The column of this name, or the names that are allowed.
fn known(name: &str) -> Result<&'static Column, String> {
    let found = COLUMNS.iter().find(|column| column.name == name);
    let names = COLUMNS.iter().map(|column| column.name.as_str());
    found.ok_or_else(|| names.collect::<Vec<_>>().join(", "))
}

/// The columns that a file has, in its order.
fn columns_of<'a>(names: impl Iterator<Item = &'a str>, place: &str) -> Result<Vec<&'static Column>> {
    let column = |name| {
        known(name).map_err(|allowed| {
            Error::bad_input(format!("{place}: the column `{name}` is not known; allowed: {allowed}"))
        })
    };
    let columns: Vec<_> = names.map(column).collect::<Result<_>>()?;
    for needed in NEEDED {
        if !columns.iter().any(|column| column.name == needed) {
            return Err(Error::bad_input(format!(
                "{place}: the column `{needed}` is missing; allowed: a file with the columns {}",
                NEEDED.join(", ")
            )));
        }
    }
    Ok(columns)
}

/// Reads runs out of an open table; `path` is the file that holds it.
pub(super) fn read(file: &Parquet, path: Option<&Path>, gpus: &GpuCatalog) -> Result<Vec<Run>> {
    let mut gpus = gpus.clone();
    gpus.extend(described_in(file)?);
    let names: Vec<String> = file.columns().map(str::to_owned).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let columns = columns_of(names.iter().copied(), file.place())?;
    let mut runs = Vec::new();
    for batch in file.batches(&names, None)? {
        let batch = batch?;
        for row in 0..batch.len() {
            let cells = names.iter().map(|name| batch.written(name, row));
            let cells: Vec<String> = cells.collect::<Result<_>>()?;
            let place = batch.position(row);
            runs.push(run(&columns, &cells, &place, path, &gpus)?);
        }
    }
    Ok(runs)
}

/// Reads runs that no file holds out of the text of a CSV table.
pub fn read_csv_text(text: &str) -> Result<Vec<Run>> {
    let table = Parquet::of_csv(text.as_bytes(), "csv".to_owned())?;
    read(&table, None, &GpuCatalog::built_in())
}

/// Reads runs that no file holds, each an object with columns as keys; errors name the field as `runs[3].batch`.
pub fn read_objects(runs: &[Map<String, Value>]) -> Result<Vec<Run>> {
    let runs = runs.iter().enumerate();
    let read = runs.map(|(at, run)| {
        read_object(run, &format!("runs[{at}]"), None).map_err(|error| match error.field_error() {
            Some(wrong) => {
                let field = format!("runs[{at}].{}", wrong.field);
                Error::field("request", &field, &wrong.value, &wrong.allowed)
            }
            None => error,
        })
    });
    read.collect()
}

/// Reads the run of an object; `path` is the file beside which a config of its model is looked for.
pub fn read_object(keys: &Map<String, Value>, place: &str, path: Option<&Path>) -> Result<Run> {
    let (mut columns, mut cells) = (Vec::new(), Vec::new());
    for (key, value) in keys {
        let column = known(key).map_err(|allowed| Error::field(place, key, "unknown", &allowed))?;
        let cell = match value {
            Value::Null => String::new(),
            Value::String(text) => text.trim().to_owned(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Object(_) if matches!(column.content, Content::Model) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(column.refuse(place, value)),
        };
        columns.push(column);
        cells.push(cell);
    }
    run(&columns, &cells, place, path, &GpuCatalog::built_in())
}

/// The run of a row; an empty cell is one that is not stated.
fn run(
    columns: &[&'static Column],
    cells: &[String],
    place: &str,
    path: Option<&Path>,
    gpus: &GpuCatalog,
) -> Result<Run> {
    let stated = |name: &str| {
        let mut cells = columns.iter().zip(cells);
        let found = cells.find(|(column, _)| column.name == name);
        found.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty())
    };
    let needed = |name: &str| stated(name).ok_or_else(|| column(name).refuse(place, "empty"));
    let refused = |name: &str, text: &str| column(name).refuse(place, format!("`{text}`"));
    for name in NEEDED {
        needed(name)?;
    }
    let (name, gpu) = (needed("model")?, needed("gpu")?);
    let gpu = gpus.find(gpu).map_err(|_| refused("gpu", gpu))?;
    let architecture = model(name, path)?.ok_or_else(|| refused("model", name))?;
    let gpu = Cow::Owned(gpu.clone());
    let mut run = Run::measured(gpu, architecture, Workload::train(1, 1), Seconds::ZERO);
    for (column, text) in columns.iter().zip(cells) {
        if !text.is_empty() && column.set(&mut run, text).is_none() {
            return Err(refused(&column.name, text));
        }
    }
    // What a request holds half way follows from its load.
    match (run.workload.mode, run.serving) {
        (Mode::Decode, Some(load)) if stated("context").is_none() => {
            run.workload.context = load.prompt + load.output / 2;
        }
        (Mode::Prefill, Some(load)) if stated("seq").is_none() => run.workload.seq = load.prompt,
        (Mode::Decode, _) => _ = needed("context")?,
        (Mode::Train | Mode::Prefill, _) => _ = needed("seq")?,
    }
    let (mode, allowed) = match run.measure {
        Measure::Step => (run.workload.mode, ""),
        Measure::Ttft => (Mode::Prefill, "prefill, where a first token was timed"),
        Measure::Tpot => (Mode::Decode, "decode, where a further token was timed"),
        Measure::Batch => (Mode::Decode, "decode, where a static batch was timed"),
    };
    if run.workload.mode != mode {
        return Err(Error::field(place, "mode", run.workload.mode, allowed));
    }
    if run.serving.is_some() || run.measure != Measure::Step {
        for name in ["concurrency", "prompt", "output"] {
            needed(name)?;
        }
    }
    run.workload
        .validate(&run.architecture)
        .map_err(|error| match error.field_error() {
            Some(at) => Error::field(place, &at.field, &at.value, &at.allowed),
            None => Error::bad_input(format!("{place}: {error}")),
        })?;
    if stated("configuration").is_none() {
        run.configuration = run.usual_configuration();
    }
    run.label = run.usual_label();
    Ok(run)
}

/// The column of this name.
fn column(name: &str) -> &'static Column {
    known(name).expect("only names of columns are asked for")
}

/// The architecture that a cell of `model` names; `None` if it names none. Without a file no path is read.
fn model(text: &str, path: Option<&Path>) -> Result<Option<Architecture>> {
    if text.starts_with('{') {
        let read = parse_config(text, "config", "model");
        return match text.contains("\"model_type\"") {
            true => read.map(Some),
            false => Ok(read.ok()),
        };
    }
    if let Ok(preset) = Preset::find(text) {
        return Ok(Some(preset.architecture.clone()));
    }
    let Some(folder) = path.map(|path| path.parent().unwrap_or(Path::new(""))) else {
        return Ok(None);
    };
    let config = folder.join(text);
    config.is_file().then(|| read_config(&config)).transpose()
}

/// The architecture in a cell of `model`.
fn model_text(architecture: &Architecture) -> String {
    match Preset::find(&architecture.name) {
        Ok(preset) if preset.architecture == *architecture => architecture.name.clone(),
        _ => serde_json::to_string(architecture).expect("an architecture has only plain fields"),
    }
}

/// Writes runs in the schema of `docs/runs.md`, replacing the file: CSV where its name ends so, else Parquet, which
/// describes GPUs that `data/gpus` does not know.
pub fn write_runs(path: &Path, runs: &[Run]) -> Result<()> {
    check_folder(path)?;
    let written: Vec<Written<'_>> = runs.iter().map(Written::new).collect();
    let cell = |column: usize, row: usize| COLUMNS[column].get(&written[row]);
    let content = match is_csv(path) {
        true => encode_csv(runs.len(), cell).map_err(|error| error.to_string()),
        false => {
            let gpus = runs.iter().map(|run| &*run.gpu);
            let fields = COLUMNS.iter().map(|column| Field {
                name: &column.name,
                kind: column.kind(),
                may_be_null: !NEEDED.contains(&column.name.as_str()),
            });
            let fields: Vec<Field<'_>> = fields.collect();
            encode(&fields, &descriptions(gpus), runs.len(), cell).map_err(|error| error.to_string())
        }
    };
    let content = content.map_err(|error| Error::bad_input(format!("{}: cannot encode: {error}", path.display())))?;
    write_atomically(path, &content)
}

fn encode_csv<'a>(rows: usize, cell: impl Fn(usize, usize) -> Option<Cell<'a>>) -> csv::Result<Vec<u8>> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(COLUMNS.iter().map(|column| &column.name))?;
    for row in 0..rows {
        let cells = (0..COLUMNS.len()).map(|column| cell(column, row));
        table.write_record(cells.map(|cell| cell.map(|cell| cell.to_string()).unwrap_or_default()))?;
    }
    table.into_inner().map_err(|error| error.into_error().into())
}
