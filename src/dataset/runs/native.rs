//! Our own schema of whole-model runs: one measured step a row, in Parquet or CSV.
//!
//! `docs/runs.md` holds its columns. Nothing is skipped: a column that is not known, or a cell that breaks a
//! rule, is an error that names its place.

use super::{Measure, Run, Serving};
use crate::arch::{
    Architecture, AttentionKernel, Dimension, KvCacheDtype, Mode, OptimizerStates, Preset, Recipe, Recompute, Workload,
    parse_config, read_config,
};
use crate::dataset::check_target;
use crate::dataset::column::{Cell, Kind};
use crate::dataset::columns::write::{self, Field};
use crate::dataset::columns::{Parquet, is_csv};
use crate::dataset::file::{described_in, descriptions};
use crate::error::{Error, Result, write_atomically};
use crate::gpu::{Gpu, GpuCatalog};
use crate::ops::{Dtype, LARGEST, RouterLoad};
use crate::units::{BytesPerSecond, Seconds};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// One column.
struct Column {
    name: &'static str,
    /// What a cell says, for `docs/runs.md`.
    meaning: &'static str,
    content: Content,
}

/// What the cells hold, and how a run gives and takes it.
enum Content {
    /// The architecture, which is read before all else.
    Model,
    /// The GPU, likewise.
    Gpu,
    /// A whole number of the workload.
    Dimension(Dimension),
    /// One of a few names; `set` returns `None` for any other.
    Name {
        names: &'static [&'static str],
        get: fn(&Run) -> &'static str,
        set: fn(&mut Run, &str) -> Option<()>,
    },
    Text {
        get: fn(&Run) -> Option<&str>,
        set: fn(&mut Run, &str),
    },
    /// True or false.
    Flag {
        get: fn(&Run) -> bool,
        set: fn(&mut Run, bool),
    },
    /// From 1 to [`LARGEST`].
    Whole {
        get: fn(&Run) -> Option<u64>,
        set: fn(&mut Run, u64),
    },
    /// More than 0.
    Real {
        get: fn(&Run) -> Option<f64>,
        set: fn(&mut Run, f64),
    },
}

/// The column of a flag of the workload, which has the name of its field.
macro_rules! flag {
    ($field:ident, $meaning:literal) => {
        Column {
            name: stringify!($field),
            meaning: $meaning,
            content: Content::Flag {
                get: |run| run.workload.$field,
                set: |run, flag| run.workload.$field = flag,
            },
        }
    };
}

/// The column of a name of the workload by its enum, which has the name of its field.
macro_rules! name_of {
    ($kind:ty, $field:ident, $meaning:literal) => {
        name_of!($kind, $field, $meaning, &<$kind>::NAMES)
    };
    ($kind:ty, $field:ident, $meaning:literal, $names:expr) => {
        Column {
            name: stringify!($field),
            meaning: $meaning,
            content: Content::Name {
                names: $names,
                get: |run| run.workload.$field.name(),
                set: |run, name| {
                    run.workload.$field = <$kind>::parse(name)?;
                    Some(())
                },
            },
        }
    };
}

macro_rules! dimension {
    ($name:literal, $dimension:ident, $meaning:literal) => {
        Column {
            name: $name,
            meaning: $meaning,
            content: Content::Dimension(Dimension::$dimension),
        }
    };
}

macro_rules! of_load {
    ($field:ident, $meaning:literal) => {
        Column {
            name: stringify!($field),
            meaning: $meaning,
            content: Content::Whole {
                get: |run| run.serving.map(|load| load.$field),
                set: |run, count| run.serving.get_or_insert(NO_LOAD).$field = count,
            },
        }
    };
}

/// A load of which no cell has been read.
const NO_LOAD: Serving = Serving {
    concurrency: 0,
    prompt: 0,
    output: 0,
};

/// Columns that every file has and every row fills.
const NEEDED: [&str; 5] = ["model", "gpu", "mode", "batch", "seconds"];

static COLUMNS: [Column; 34] = [
    Column {
        name: "model",
        meaning: "a preset, a `config.json` (its path relative to the file, or its object), or the architecture as JSON with the keys of `data/architectures`",
        content: Content::Model,
    },
    Column {
        name: "gpu",
        meaning: "a GPU of `data/gpus`, or one that the file or `--model` describes",
        content: Content::Gpu,
    },
    name_of!(Mode, mode, "what the step does"),
    dimension!("batch", Batch, "sequences of a micro-batch of one replica"),
    dimension!("seq", Seq, "new tokens a sequence"),
    dimension!("context", Context, "cached tokens a sequence"),
    dimension!("microbatches", Microbatches, "micro-batches of one replica a step"),
    dimension!("tp", Tp, "tensor-parallel ranks"),
    dimension!("cp", Cp, "context-parallel ranks"),
    dimension!("ep", Ep, "expert-parallel ranks"),
    dimension!(
        "expert_tp",
        ExpertTp,
        "tensor-parallel ranks of one routed expert; 0 means `tp`"
    ),
    dimension!("pp", Pp, "pipeline stages"),
    dimension!("vp", Vp, "virtual pipeline stages a GPU"),
    dimension!("dp", Dp, "data-parallel replicas"),
    dimension!("zero", Zero, "ZeRO stage; FSDP is 3"),
    name_of!(Recompute, recompute, "what the backward pass recomputes"),
    dimension!(
        "recompute_layers",
        RecomputeLayers,
        "layers of a stage that recompute; 0 means all"
    ),
    flag!(
        sequence_parallel,
        "whether norms and residual adds are cut over the tensor-parallel ranks"
    ),
    name_of!(
        Dtype,
        dtype,
        "format of the linear maps' operands",
        &Dtype::ELEMENT_NAMES
    ),
    name_of!(Recipe, recipe, "how linear maps are quantized beyond dtype"),
    name_of!(
        OptimizerStates,
        optimizer_states,
        "format of what Adam keeps besides the weights"
    ),
    flag!(
        autocast,
        "whether weights are fp32 and cast where linear maps use them (`torch.autocast`)"
    ),
    name_of!(KvCacheDtype, kv_cache_dtype, "format of cached keys and values"),
    name_of!(
        RouterLoad,
        router_load,
        "how unevenly the router of a server spreads tokens over the experts"
    ),
    name_of!(AttentionKernel, attention, "how attention is executed"),
    Column {
        name: "seconds",
        meaning: "wall time of the step, or of the measure",
        content: Content::Real {
            get: |run| Some(run.time.secs()),
            set: |run, value| run.time = Seconds::from_secs(value),
        },
    },
    Column {
        name: "measure",
        meaning: "what was timed: a step, the time to a first token or per further token of a request, a static batch from its prompts to its last token",
        content: Content::Name {
            names: &Measure::NAMES,
            get: |run| run.measure.name(),
            set: |run, name| {
                run.measure = Measure::parse(name)?;
                Some(())
            },
        },
    },
    of_load!(
        concurrency,
        "requests in flight on all data-parallel ranks, where a server was measured"
    ),
    of_load!(prompt, "tokens of a prompt, where a server was measured"),
    of_load!(output, "tokens that a request generates, where a server was measured"),
    Column {
        name: "software",
        meaning: "name and version of trainer or server",
        content: Content::Text {
            get: |run| Some(&run.software),
            set: |run, text| run.software = text.to_owned(),
        },
    },
    Column {
        name: "configuration",
        meaning: "runs of one configuration are held out together; model, GPU and format where empty",
        content: Content::Text {
            get: |run| Some(&run.configuration),
            set: |run, text| run.configuration = text.to_owned(),
        },
    },
    Column {
        name: "network_bytes_per_s",
        meaning: "bandwidth between nodes of one GPU in one direction",
        content: Content::Real {
            get: |run| run.network.map(BytesPerSecond::bytes_per_sec),
            set: |run, value| run.network = Some(BytesPerSecond::from_bytes_per_sec(value)),
        },
    },
    Column {
        name: "unfitted",
        meaning: "reason why fits leave the run out; empty if they do not",
        content: Content::Text {
            get: |run| run.unfitted.as_deref(),
            set: |run, text| run.unfitted = Some(text.to_owned()),
        },
    },
];

impl Column {
    const fn kind(&self) -> Kind {
        match self.content {
            Content::Model | Content::Gpu | Content::Name { .. } | Content::Text { .. } => Kind::Text,
            Content::Flag { .. } => Kind::Flag,
            Content::Dimension(_) | Content::Whole { .. } => Kind::Whole,
            Content::Real { .. } => Kind::Real,
        }
    }

    /// What a run holds, whose architecture is written as `model`.
    fn get<'a>(&self, run: &'a Run, model: &'a str) -> Option<Cell<'a>> {
        Some(match &self.content {
            Content::Model => Cell::Text(model),
            Content::Gpu => Cell::Text(&run.gpu.name),
            Content::Dimension(dimension) => Cell::Whole(dimension.get(&run.architecture, &run.workload) as i64),
            Content::Name { get, .. } => Cell::Text(get(run)),
            Content::Text { get, .. } => Cell::Text(get(run).filter(|text| !text.is_empty())?),
            Content::Flag { get, .. } => Cell::Flag(get(run)),
            Content::Whole { get, .. } => Cell::Whole(get(run)? as i64),
            Content::Real { get, .. } => Cell::Real(get(run)?),
        })
    }

    /// Writes a cell to the run; `None` if the run may not hold its value.
    fn set(&self, run: &mut Run, text: &str) -> Option<()> {
        match &self.content {
            Content::Model | Content::Gpu => {}
            Content::Dimension(dimension) => {
                let count = text.parse().ok()?;
                let within = dimension.range().contains(&count);
                within.then(|| dimension.put(&mut run.architecture, &mut run.workload, count))?;
            }
            Content::Name { set, .. } => set(run, text)?,
            Content::Text { set, .. } => set(run, text),
            Content::Flag { set, .. } => set(run, text.to_lowercase().parse().ok()?),
            Content::Whole { set, .. } => {
                let count = text.parse().ok();
                set(run, count.filter(|count| (1..=LARGEST).contains(count))?);
            }
            Content::Real { set, .. } => {
                let value = text.parse().ok();
                set(run, value.filter(|&value: &f64| value > 0.0 && value.is_finite())?);
            }
        }
        Some(())
    }

    /// What a cell may hold.
    fn allowed(&self) -> String {
        match &self.content {
            Content::Model => "a preset, a config.json or an architecture as JSON".to_owned(),
            Content::Gpu => {
                let names: Vec<&str> = Gpu::all().iter().map(|gpu| &*gpu.name).collect();
                let described = "or one that the file or --model describes";
                format!("{}, {described}", names.join(", "))
            }
            Content::Dimension(dimension) => {
                let range = dimension.range();
                format!("a whole number from {} to {}", range.start(), range.end())
            }
            Content::Name { names, .. } => names.join(", "),
            Content::Text { .. } => "a text".to_owned(),
            Content::Flag { .. } => "true or false".to_owned(),
            Content::Whole { .. } => format!("a whole number from 1 to {LARGEST}"),
            Content::Real { .. } => "a number above 0".to_owned(),
        }
    }

    fn refuse(&self, place: &str, value: impl fmt::Display) -> Error {
        Error::field(place, self.name, value, &self.allowed())
    }
}

/// Every column as a Markdown table, as `docs/runs.md` holds it.
pub fn columns_markdown() -> String {
    let mut table = "| column | meaning | holds |\n| --- | --- | --- |\n".to_owned();
    for column in &COLUMNS {
        let holds = match column.content {
            Content::Model | Content::Gpu => "a text; in every row".to_owned(),
            _ if NEEDED.contains(&column.name) => format!("{}; in every row", column.allowed()),
            _ => column.allowed(),
        };
        table += &format!("| `{}` | {} | {holds} |\n", column.name, column.meaning);
    }
    table
}

/// The column of this name, or the names that are allowed.
fn known(name: &str) -> Result<&'static Column, String> {
    let found = COLUMNS.iter().find(|column| column.name == name);
    found.ok_or_else(|| COLUMNS.each_ref().map(|column| column.name).join(", "))
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
            return Err(refused(column.name, text));
        }
    }
    match run.workload.mode {
        Mode::Decode => needed("context")?,
        Mode::Train | Mode::Prefill => needed("seq")?,
    };
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
    check_target(path)?;
    let models: Vec<String> = runs.iter().map(|run| model_text(&run.architecture)).collect();
    let cell = |column: usize, row: usize| COLUMNS[column].get(&runs[row], &models[row]);
    let content = match is_csv(path) {
        true => encode_csv(runs.len(), cell).map_err(|error| error.to_string()),
        false => {
            let gpus = runs.iter().map(|run| &*run.gpu);
            let fields = COLUMNS.each_ref().map(|column| Field {
                name: column.name,
                kind: column.kind(),
                may_be_null: !NEEDED.contains(&column.name),
            });
            write::encode(&fields, descriptions(gpus), runs.len(), cell).map_err(|error| error.to_string())
        }
    };
    let content = content.map_err(|error| Error::bad_input(format!("{}: cannot encode: {error}", path.display())))?;
    write_atomically(path, &content)
}

fn encode_csv<'a>(rows: usize, cell: impl Fn(usize, usize) -> Option<Cell<'a>>) -> csv::Result<Vec<u8>> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(COLUMNS.iter().map(|column| column.name))?;
    for row in 0..rows {
        let cells = (0..COLUMNS.len()).map(|column| cell(column, row));
        table.write_record(cells.map(|cell| cell.map(|cell| cell.to_string()).unwrap_or_default()))?;
    }
    table.into_inner().map_err(|error| error.into_error().into())
}
