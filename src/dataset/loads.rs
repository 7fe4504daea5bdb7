//! Sustained loads: operators, or lists of them, that a device ran for seconds, as a table of its
//! own beside the timings.
//!
//! A load has windows, in each of which its list ran so many times, and parts, the operators of the
//! list with their time in it and alone. The clock falls under a load that lasts, so none of its
//! times is the time of a shape: a table of loads is no table of timings, and no model is fitted to it.

use super::Row;
use super::column::{Cell, Column, Kind};
use super::columns::write::{self, Field, Values};
use super::columns::{Numbers, Parquet};
use super::file::{Cells, check_target};
use super::line::{self, Shared};
use super::schema::columns_of_operator;
use crate::error::{Error, Result, write_atomically};
use crate::ops::Op;
use crate::stats::median;
use crate::units::Seconds;
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

named_enum! {
    /// What a load consists of.
    LoadKind {
        /// One operator, again and again.
        Operator = "operator",
        /// One layer of a transformer, forward and backward, again and again.
        Layer = "layer",
    }
}

/// A load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// What ran, unique in its table.
    pub name: String,
    /// What it consists of.
    pub kind: LoadKind,
    /// Stretches of some 20 ms, in order.
    pub windows: Vec<Window>,
    /// Operators of the list, in order.
    pub parts: Vec<Part>,
}

/// A stretch of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Start, in seconds of load since the first window began.
    pub at_s: f64,
    /// Passes over the list.
    pub passes: u32,
    /// Time of one pass, in microseconds.
    pub time_us: f64,
    /// Processor clock in the window, where the device tells.
    pub clock_hz: Option<f64>,
    /// Board power during the window, where the device tells.
    pub power_watts: Option<f64>,
    /// Temperature during the window, where the device tells.
    pub temperature_celsius: Option<f64>,
}

/// An operator of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is for in its layer (`qkv.grad_weight`); nothing in a load of one operator.
    pub role: Option<String>,
    /// The operator.
    pub op: Op,
    /// Median over the settled windows of its time inside the list.
    pub time: Seconds,
    /// Time alone with cold operands, just before the load; none where that failed.
    pub cold: Option<Seconds>,
}

impl Load {
    /// Median time of a pass over the settled windows, the last third of the load.
    pub fn settled(&self) -> Option<Seconds> {
        let settled = &self.windows[self.windows.len() * 2 / 3..];
        let times = settled.iter().map(|window| window.time_us).collect();
        median(times).map(Seconds::from_micros)
    }

    /// Sum of the times that the operators take alone; none where one is missing.
    pub fn cold(&self) -> Option<Seconds> {
        let mut parts = self.parts.iter();
        parts.try_fold(Seconds::ZERO, |sum, part| Some(sum + part.cold?))
    }
}

/// Median over loads of the settled time of a pass over the sum of its operators' times alone.
pub fn settled_over_cold<'a>(loads: impl Iterator<Item = &'a Load>) -> Option<f64> {
    let ratios = loads.filter_map(|load| Some(load.settled()? / load.cold()?));
    median(ratios.collect())
}

/// The table of loads beside a table of timings: `mine.loads.parquet` beside `mine.parquet`.
pub fn loads_path(timings: &Path) -> PathBuf {
    timings.with_extension("loads.parquet")
}

const SCHEMA_KEY: &str = "shapewise.loads";
const SCHEMA: &str = "2";

/// Columns before those of the operator.
const BEFORE: [(&str, Kind); 6] = [
    ("name", Kind::Text),
    ("load_kind", Kind::Text),
    ("row_kind", Kind::Text),
    ("place", Kind::Whole),
    ("role", Kind::Text),
    ("passes", Kind::Whole),
];

/// Columns behind those of the operator.
const BEHIND: [(&str, Kind); 10] = [
    ("at_s", Kind::Real),
    ("time_us", Kind::Real),
    ("cold_us", Kind::Real),
    ("clock_hz", Kind::Real),
    ("power_watts", Kind::Real),
    ("temperature_celsius", Kind::Real),
    ("gpu", Kind::Text),
    ("stack", Kind::Text),
    ("source", Kind::Text),
    ("libraries", Kind::Text),
];

/// Number of columns that every row has: name, both kinds and the place.
const ALWAYS: usize = 4;

/// One row: a window or an operator of a load.
struct Line<'a> {
    load: &'a Load,
    place: usize,
    window: Option<&'a Window>,
    part: Option<(&'a Part, Row)>,
}

impl Line<'_> {
    fn before(&self, column: usize) -> Option<Cell<'_>> {
        let row_kind = if self.window.is_some() {
            "window"
        } else {
            "operator"
        };
        Some(match column {
            0 => Cell::Text(&self.load.name),
            1 => Cell::Text(self.load.kind.name()),
            2 => Cell::Text(row_kind),
            3 => Cell::Whole(self.place as i64),
            4 => Cell::Text(self.part.as_ref()?.0.role.as_deref()?),
            _ => Cell::Whole(self.window?.passes.into()),
        })
    }

    fn behind<'b>(&'b self, column: usize, shared: &'b Shared) -> Option<Cell<'b>> {
        let part = self.part.as_ref().map(|(part, _)| part);
        Some(match column {
            0 => Cell::Real(self.window?.at_s),
            1 => Cell::Micros(match (self.window, part) {
                (Some(window), _) => window.time_us,
                (None, part) => part?.time.micros(),
            }),
            2 => Cell::Micros(part?.cold?.micros()),
            3 => Cell::Real(self.window?.clock_hz?),
            4 => Cell::Real(self.window?.power_watts?),
            5 => Cell::Real(self.window?.temperature_celsius?),
            6 => Cell::Text(&shared.gpu),
            7 => Cell::Text(&shared.stack),
            8 => Cell::Text(&shared.origin.source),
            _ => Cell::Text(shared.origin.libraries.as_deref()?),
        })
    }
}

/// Writes loads of one run to a file, replacing it; the folder must exist.
pub fn write_loads(path: &Path, loads: &[Load], shared: &Shared) -> Result<()> {
    check_target(path)?;
    let lines: Vec<Line<'_>> = loads.iter().flat_map(lines).collect();
    let operator: Vec<&Column> = columns_of_operator().collect();
    let field = |(place, (name, kind)): (usize, (&'static str, Kind))| Field {
        name,
        kind,
        may_be_null: place >= ALWAYS,
    };
    let of_operator = operator.iter().map(|column| (column.name, column.kind()));
    let all = BEFORE.into_iter().chain(of_operator).chain(BEHIND);
    let fields: Vec<Field<'_>> = all.enumerate().map(field).collect();
    let properties = vec![KeyValue::new(SCHEMA_KEY.to_owned(), SCHEMA.to_owned())];
    let end = BEFORE.len() + operator.len();
    let content = write::encode(&fields, properties, lines.len(), |place, rows| {
        let cells = lines[rows].iter().map(|line| match place {
            place if place < BEFORE.len() => line.before(place),
            place if place < end => {
                let (_, row) = line.part.as_ref()?;
                operator[place - BEFORE.len()].get(row)
            }
            place => line.behind(place - end, shared),
        });
        match fields[place].kind {
            Kind::Text => Values::Texts(cells.map(|cell| cell?.text()).collect()),
            Kind::Whole => Values::Wholes(cells.map(|cell| cell?.whole()).collect()),
            Kind::Real => Values::Reals(cells.map(|cell| cell?.real()).collect()),
            Kind::Flag => Values::Flags(cells.map(|cell| cell?.flag()).collect()),
        }
    })
    .map_err(|error| Error::bad_input(format!("{}: cannot encode: {error}", path.display())))?;
    write_atomically(path, &content)
}

fn lines(load: &Load) -> impl Iterator<Item = Line<'_>> {
    let windows = load.windows.iter().enumerate();
    let windows = windows.map(move |(place, window)| Line {
        load,
        place,
        window: Some(window),
        part: None,
    });
    let parts = load.parts.iter().enumerate();
    let parts = parts.map(move |(place, part)| Line {
        load,
        place,
        window: None,
        part: Some((part, Row::new(part.op, "", "", part.time))),
    });
    windows.chain(parts)
}

/// Reads the loads of a file that [`write_loads`] has written for a run.
pub fn read_loads(path: &Path, shared: &Shared) -> Result<Vec<Load>> {
    let file = Parquet::open(path)?;
    if file.property(SCHEMA_KEY) != Some(SCHEMA) {
        let allowed = format!("`{SCHEMA}`, as `shapewise measure` writes it");
        let found = file.property(SCHEMA_KEY).unwrap_or("missing");
        return Err(Error::field(
            file.place(),
            SCHEMA_KEY,
            format!("`{found}`"),
            &allowed,
        ));
    }
    let operator: Vec<&Column> = columns_of_operator().collect();
    let of_operator = operator.iter().map(|column| column.name);
    let names = BEFORE.iter().chain(&BEHIND).map(|(name, _)| *name);
    let names: Vec<&str> = names.chain(of_operator).collect();
    let mut loads: Vec<Load> = Vec::new();
    for batch in file.batches(&names, None)? {
        let batch = batch?;
        let texts = |name| batch.texts(name);
        let (load, load_kind, role) = (texts("name")?, texts("load_kind")?, texts("role")?);
        let (row_kind, passes) = (texts("row_kind")?, batch.counts("passes")?);
        let reals = [
            "at_s",
            "time_us",
            "cold_us",
            "clock_hz",
            "power_watts",
            "temperature_celsius",
        ];
        let reals: Vec<Numbers<'_>> = reals
            .iter()
            .map(|name| batch.numbers(name))
            .collect::<Result<_>>()?;
        let cells = operator.iter().map(|column| Cells::new(&batch, column));
        let cells: Vec<Cells<'_>> = cells.collect::<Result<_>>()?;
        for row in 0..batch.len() {
            let refuse = |column: &str, allowed: &str| {
                Error::field(
                    batch.position(row),
                    column,
                    "missing or another value",
                    allowed,
                )
            };
            let real = |at: usize| reals[at].get(row);
            let name = load.get(row).ok_or_else(|| refuse("name", "a text"))?;
            let kind = load_kind.get(row).and_then(LoadKind::parse);
            let kind = kind.ok_or_else(|| refuse("load_kind", &LoadKind::NAMES.join(", ")))?;
            if loads.last().is_none_or(|last| last.name != name) {
                loads.push(Load {
                    name: name.to_owned(),
                    kind,
                    windows: Vec::new(),
                    parts: Vec::new(),
                });
            }
            let last = loads.len() - 1;
            let time_us = real(1).filter(|time| *time > 0.0 && time.is_finite());
            let time_us = time_us.ok_or_else(|| refuse("time_us", "a number above 0"))?;
            match row_kind.get(row) {
                Some("window") => loads[last].windows.push(Window {
                    at_s: real(0).ok_or_else(|| refuse("at_s", "a number"))?,
                    passes: passes.get(row).unwrap_or(0).clamp(0, u32::MAX.into()) as u32,
                    time_us,
                    clock_hz: real(3),
                    power_watts: real(4),
                    temperature_celsius: real(5),
                }),
                Some("operator") => {
                    let columns = operator.iter().zip(&cells);
                    let known = columns.filter_map(|(column, cells)| {
                        Some((column.name.to_owned(), line::value(cells.get(row)?)))
                    });
                    let mut object: Map<String, Value> = known.collect();
                    object.insert("time_us".to_owned(), time_us.into());
                    let read = line::from_object(&object, shared, &batch.position(row))?;
                    loads[last].parts.push(Part {
                        role: role.get(row).map(str::to_owned),
                        op: read.op,
                        time: read.time,
                        cold: real(2).map(Seconds::from_micros),
                    });
                }
                _ => return Err(refuse("row_kind", "window, operator")),
            }
        }
    }
    Ok(loads)
}

/// A load as an object of a journal.
pub fn load_to_object(load: &Load) -> Value {
    let parts = load.parts.iter().map(|part| {
        let mut operator = line::operator(&part.op);
        let time = line::value(Cell::Micros(part.time.micros()));
        operator.insert("time_us".to_owned(), time);
        Entry {
            role: part.role.clone(),
            cold_us: part
                .cold
                .and_then(|cold| Cell::Micros(cold.micros()).real()),
            operator,
        }
    });
    let object = Object {
        name: load.name.clone(),
        kind: load.kind,
        windows: load.windows.clone(),
        parts: parts.collect(),
    };
    serde_json::to_value(object).expect("a load has only plain fields")
}

/// The load of an object of a journal; `place` names the file and the line in messages.
pub fn load_from_object(object: Value, shared: &Shared, place: &str) -> Result<Load> {
    let object: Object = serde_json::from_value(object).map_err(|error| {
        Error::bad_input(format!(
            "{place}: not a load ({error}); allowed: a line that `shapewise measure` wrote"
        ))
    })?;
    let parts = object.parts.into_iter().map(|entry| {
        let row = line::from_object(&entry.operator, shared, place)?;
        Ok(Part {
            role: entry.role,
            op: row.op,
            time: row.time,
            cold: entry.cold_us.map(Seconds::from_micros),
        })
    });
    Ok(Load {
        name: object.name,
        kind: object.kind,
        windows: object.windows,
        parts: parts.collect::<Result<_>>()?,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    name: String,
    kind: LoadKind,
    windows: Vec<Window>,
    parts: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    role: Option<String>,
    cold_us: Option<f64>,
    operator: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Origin;
    use crate::ops::{Attention, Gemm, Memory, MemoryKind, Pass};
    use std::sync::Arc;

    fn shared() -> Shared {
        Shared {
            gpu: "h200".into(),
            stack: "cublaslt 13.1.0".into(),
            origin: Arc::new(Origin {
                source: "shapewise 0".to_owned(),
                licence: "MIT".to_owned(),
                libraries: Some("driver 580".to_owned()),
            }),
        }
    }

    fn part(role: Option<&str>, op: Op, time_us: f64, cold_us: Option<f64>) -> Part {
        Part {
            role: role.map(str::to_owned),
            op,
            time: Seconds::from_micros(time_us),
            cold: cold_us.map(Seconds::from_micros),
        }
    }

    fn loads() -> Vec<Load> {
        let window = |place: u32| Window {
            at_s: 0.02 * f64::from(place),
            passes: 9,
            time_us: 100.0 + 10.0 * f64::from(place),
            clock_hz: (place > 0).then_some(1.7e9),
            power_watts: Some(690.5),
            temperature_celsius: None,
        };
        let add = Memory {
            kind: MemoryKind::Add,
            rows: 8,
            cols: 9,
            pass: Pass::Backward,
            dtype: crate::ops::Dtype::Bf16,
        };
        let attention = Op::Attention(Attention::new(2, 8, 128, 64));
        vec![
            Load {
                name: "gemm".to_owned(),
                kind: LoadKind::Operator,
                windows: (0..6).map(window).collect(),
                parts: vec![part(None, Op::Gemm(Gemm::new(7, 8, 9)), 140.0, Some(120.0))],
            },
            Load {
                name: "layer".to_owned(),
                kind: LoadKind::Layer,
                windows: (0..3).map(window).collect(),
                parts: vec![
                    part(Some("attention"), attention, 50.0, Some(40.0)),
                    part(Some("mlp_residual.backward"), Op::Memory(add), 70.0, None),
                ],
            },
        ]
    }

    #[test]
    fn a_table_of_loads_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = loads_path(&folder.path().join("mine.parquet"));
        assert!(path.ends_with("mine.loads.parquet"));
        write_loads(&path, &loads(), &shared()).unwrap();
        assert_eq!(read_loads(&path, &shared()).unwrap(), loads());
        // It is no table of timings, and a table of timings is none of loads.
        let error = crate::dataset::read(&path).unwrap_err().to_string();
        assert!(error.contains("is not a shapewise table"), "{error}");
        let rows = folder.path().join("mine.parquet");
        crate::dataset::write(&rows, &[]).unwrap();
        let error = read_loads(&rows, &shared()).unwrap_err().to_string();
        assert!(
            error.contains("`shapewise.loads` is `missing`; allowed: `2`"),
            "{error}"
        );
    }

    #[test]
    fn no_two_columns_have_one_name() {
        let own = BEFORE.iter().chain(&BEHIND).map(|(name, _)| *name);
        let mut names: Vec<_> = own
            .chain(columns_of_operator().map(|column| column.name))
            .collect();
        let columns = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), columns);
    }

    #[test]
    fn a_line_of_a_journal_is_read_as_it_was_written() {
        for load in loads() {
            let object = load_to_object(&load);
            assert_eq!(load_from_object(object, &shared(), "line 3").unwrap(), load);
        }
        let broken = serde_json::json!({"name": "x", "kind": "layers"});
        let error = load_from_object(broken, &shared(), "line 3")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 3") && error.contains("layers"),
            "{error}"
        );
    }

    #[test]
    fn the_last_third_of_the_windows_is_settled() {
        let [operator, layer] = loads().try_into().unwrap();
        assert_eq!(operator.settled(), Some(Seconds::from_micros(145.0)));
        assert_eq!(operator.cold(), Some(Seconds::from_micros(120.0)));
        assert_eq!(layer.cold(), None);
        let ratio = settled_over_cold([&operator, &layer].into_iter()).unwrap();
        assert!((ratio - 145.0 / 120.0).abs() < 1e-12, "{ratio}");
    }
}
