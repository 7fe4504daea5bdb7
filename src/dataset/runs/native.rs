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
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;
use utoipa::ToSchema;

/// One column.
struct Column {
    name: String,
    /// What a cell says, for `docs/runs.md`.
    meaning: String,
    kind: Kind,
    /// What a cell may hold.
    allowed: String,
    /// Whether it is an option of the workload.
    is_option: bool,
}

/// What a row holds besides the options of its workload.
#[derive(Serialize, Deserialize, ToSchema)]
struct Line {
    /// A preset, a `config.json` (its path relative to the file, or its object), or the architecture as JSON with the keys of `data/architectures`
    model: String,
    /// A GPU of `data/gpus`, or one that the file or `--model` describes
    gpu: String,
    /// Wall time of the step, or of the measure
    seconds: f64,
    /// What was timed: a step, the time to a first token or per further token of a request, a static batch from its prompts to its last token
    #[serde(default)]
    measure: Measure,
    /// Requests in flight on all data-parallel ranks, where a server was measured
    concurrency: Option<u64>,
    /// Tokens of a prompt, where a server was measured
    prompt: Option<u64>,
    /// Tokens that a request generates, where a server was measured
    output: Option<u64>,
    /// Name and version of trainer or server
    software: Option<String>,
    /// Runs of one configuration are held out together; model, GPU and format where empty
    configuration: Option<String>,
    /// Bandwidth between nodes of one GPU in one direction
    network_bytes_per_s: Option<f64>,
    /// Reason why fits leave the run out; empty if they do not
    unfitted: Option<String>,
}

/// Columns that every file has and every row fills.
const NEEDED: [&str; 5] = ["model", "gpu", "mode", "batch", "seconds"];

static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let mut columns: Vec<Column> = columns_for::<Line>(false).collect();
    let seconds = columns.iter().position(|column| column.name == "seconds");
    let seconds = seconds.expect("a line has a time");
    columns.splice(seconds..seconds, columns_for::<Workload>(true));
    columns
});

/// A column for each field of a type, with its documentation and its values.
fn columns_for<T: ToSchema>(is_option: bool) -> impl Iterator<Item = Column> {
    let schema = |schema| serde_json::to_value(schema).expect("a schema has only plain fields");
    let mut parts = Vec::new();
    T::schemas(&mut parts);
    let parts: BTreeMap<String, Value> = parts.into_iter().map(|(name, part)| (name, schema(part))).collect();
    let fields = schema(T::schema())["properties"].take();
    let Value::Object(fields) = fields else {
        unreachable!("the type has fields");
    };
    fields.into_iter().map(move |(name, field)| {
        let part = field["$ref"]
            .as_str()
            .and_then(|path| parts.get(path.rsplit('/').next()?));
        let part = part.unwrap_or(&field);
        let text = |of: &Value| of["description"].as_str().unwrap_or_default().replace('\n', " ");
        // What a row need not have is of its type or null.
        let kind = part["type"].as_array().map_or(&part["type"], |kinds| &kinds[0]);
        let (kind, allowed) = match (kind.as_str(), &part["enum"]) {
            (Some("boolean"), _) => (Kind::Flag, "true or false".to_owned()),
            (Some("integer"), _) => {
                let range = range(&name, is_option);
                (
                    Kind::Whole,
                    format!("a whole number from {} to {}", range.start(), range.end()),
                )
            }
            (Some("number"), _) if is_option => {
                let allowed = format!("a number from {} to {}", part["minimum"], part["maximum"]);
                (Kind::Real, allowed)
            }
            (Some("number"), _) => (Kind::Real, "a number above 0".to_owned()),
            // Operators have more formats than workloads.
            _ if name == "dtype" => (Kind::Text, Dtype::ELEMENT_NAMES.join(", ")),
            (_, Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                (Kind::Text, names.join(", "))
            }
            _ if is_option => (Kind::Text, text(part)),
            _ => (Kind::Text, allowed(&name)),
        };
        let meaning = text(&field);
        let sentence = meaning.split(". ").next().unwrap_or_default();
        Column {
            meaning: sentence.trim_end_matches('.').to_owned(),
            name,
            kind,
            allowed,
            is_option,
        }
    })
}

/// The values of a whole number.
fn range(name: &str, is_option: bool) -> RangeInclusive<u64> {
    let least = u64::from(!is_option);
    Dimension::parse(name).map_or(least..=LARGEST, Dimension::range)
}

/// What a text that is no option of the workload may be.
fn allowed(name: &str) -> String {
    match name {
        "model" => "a preset, a config.json or an architecture as JSON".to_owned(),
        "gpu" => {
            let names: Vec<&str> = Gpu::all().iter().map(|gpu| &*gpu.name).collect();
            let described = "or one that the file or --model describes";
            format!("{}, {described}", names.join(", "))
        }
        _ => "a text".to_owned(),
    }
}

/// A run as it is written, by column.
fn written(run: &Run) -> Map<String, Value> {
    let stated = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let line = Line {
        model: model_text(&run.architecture),
        gpu: run.gpu.name.clone(),
        seconds: run.time.secs(),
        measure: run.measure,
        concurrency: run.serving.map(|load| load.concurrency),
        prompt: run.serving.map(|load| load.prompt),
        output: run.serving.map(|load| load.output),
        software: stated(&run.software),
        configuration: stated(&run.configuration),
        network_bytes_per_s: run.network.map(BytesPerSecond::bytes_per_sec),
        unfitted: run.unfitted.clone(),
    };
    let mut row = object(&line);
    row.extend(object(&run.workload));
    row
}

/// The fields of a struct.
fn object(of: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(of) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("it has only plain fields"),
    }
}

impl Column {
    /// What a row holds; `None` if the cell is null.
    fn get<'a>(&self, row: &'a Map<String, Value>) -> Option<Cell<'a>> {
        Some(match row.get(&self.name)? {
            Value::Bool(flag) => Cell::Flag(*flag),
            Value::String(text) => Cell::Text(text),
            number => match number.as_i64() {
                Some(count) => Cell::Whole(count),
                None => Cell::Real(number.as_f64()?),
            },
        })
    }

    /// The value of a cell; `None` if the column holds no such value.
    fn value(&self, text: &str) -> Option<Value> {
        Some(match self.kind {
            Kind::Flag => Value::Bool(text.to_lowercase().parse().ok()?),
            Kind::Whole => {
                let range = range(&self.name, self.is_option);
                Value::from(text.parse().ok().filter(|count| range.contains(count))?)
            }
            Kind::Real => {
                let value: f64 = text.parse().ok()?;
                let is_held = self.is_option || (value > 0.0 && value.is_finite());
                is_held.then(|| Value::from(value))?
            }
            Kind::Text => Value::from(text),
        })
    }

    fn refuse(&self, place: &str, value: impl fmt::Display) -> Error {
        Error::field(place, &self.name, value, &self.allowed)
    }
}

/// Every column as a Markdown table, as `docs/runs.md` holds it.
pub fn columns_markdown() -> String {
    let mut table = "| column | meaning | holds |\n| --- | --- | --- |\n".to_owned();
    for Column {
        name, meaning, allowed, ..
    } in COLUMNS.iter()
    {
        let holds = match name.as_str() {
            "model" | "gpu" => "a text",
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
            Value::Object(_) if column.name == "model" => value.to_string(),
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
    let mut workload = Workload::train(1, 1);
    let (mut options, mut line) = (object(&workload), Map::new());
    for (column, text) in columns.iter().zip(cells).filter(|(_, text)| !text.is_empty()) {
        let refuse = || refused(&column.name, text);
        let (name, value) = (column.name.clone(), column.value(text).ok_or_else(refuse)?);
        if column.is_option {
            options.insert(name, value);
            workload = Workload::deserialize(&options).map_err(|_| refuse())?;
        } else {
            line.insert(name, value);
        }
    }
    // All but names was judged by the kind of its column.
    let line = Line::deserialize(&line);
    let line = line.map_err(|_| refused("measure", stated("measure").unwrap_or_default()))?;
    let load = [line.concurrency, line.prompt, line.output];
    let is_served = load.iter().any(Option::is_some);
    let [concurrency, prompt, output] = load.map(Option::unwrap_or_default);
    // What a request holds half way follows from its load.
    match workload.mode {
        Mode::Decode if is_served && stated("context").is_none() => workload.context = prompt + output / 2,
        Mode::Prefill if is_served && stated("seq").is_none() => workload.seq = prompt,
        Mode::Decode => _ = needed("context")?,
        Mode::Train | Mode::Prefill => _ = needed("seq")?,
    }
    let (mode, allowed) = match line.measure {
        Measure::Step => (workload.mode, ""),
        Measure::Ttft => (Mode::Prefill, "prefill, where a first token was timed"),
        Measure::Tpot => (Mode::Decode, "decode, where a further token was timed"),
        Measure::Batch => (Mode::Decode, "decode, where a static batch was timed"),
    };
    if workload.mode != mode {
        return Err(Error::field(place, "mode", workload.mode, allowed));
    }
    if is_served || line.measure != Measure::Step {
        for name in ["concurrency", "prompt", "output"] {
            needed(name)?;
        }
    }
    workload
        .validate(&architecture)
        .map_err(|error| match error.field_error() {
            Some(at) => Error::field(place, &at.field, &at.value, &at.allowed),
            None => Error::bad_input(format!("{place}: {error}")),
        })?;
    let gpu = Cow::Owned(gpu.clone());
    let usual = Run::measured(gpu, architecture, workload, Seconds::from_secs(line.seconds));
    Ok(Run {
        measure: line.measure,
        serving: is_served.then_some(Serving {
            concurrency,
            prompt,
            output,
        }),
        software: line.software.unwrap_or_default(),
        network: line.network_bytes_per_s.map(BytesPerSecond::from_bytes_per_sec),
        configuration: line.configuration.unwrap_or(usual.configuration),
        unfitted: line.unfitted,
        ..usual
    })
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
    let written: Vec<Map<String, Value>> = runs.iter().map(written).collect();
    let cell = |column: usize, row: usize| COLUMNS[column].get(&written[row]);
    let content = match is_csv(path) {
        true => encode_csv(runs.len(), cell).map_err(|error| error.to_string()),
        false => {
            let gpus = runs.iter().map(|run| &*run.gpu);
            let fields = COLUMNS.iter().map(|column| Field {
                name: &column.name,
                kind: column.kind,
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
