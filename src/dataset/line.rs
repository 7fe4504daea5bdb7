//! One row as one JSON object, for journals: the names and units of the columns are those of our Parquet tables.
//!
//! GPU, stack and origin are equal for all rows of a journal and stand in its header.

use super::cells::{self, CAUSAL, COUNTS, Cells, NAMES, Problem};
use super::measured::{self, REALS, REMEASURED, Readings, TEXTS, WHOLES};
use super::{Origin, Row};
use crate::error::Result;
use crate::units::{Hertz, Seconds};
use serde_json::{Map, Value};
use std::sync::Arc;

const SAMPLES: &str = "samples";
const GROUP: &str = "group";

/// What all rows of a journal share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Our name of the GPU.
    pub gpu: Arc<str>,
    /// The software that ran the operators.
    pub stack: Arc<str>,
    /// Where the rows are from.
    pub origin: Arc<Origin>,
}

/// The row as an object of the columns that are not null; a row that could not be read back is refused.
pub fn to_object(row: &Row) -> Result<Map<String, Value>> {
    cells::check_row(row).map_err(|problem| problem.at("measured row"))?;
    let mut object = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            object.insert(name.to_owned(), value);
        }
    };
    for name in NAMES {
        put(name, cells::name(&row.op, name).map(Value::from));
    }
    for name in COUNTS {
        put(name, cells::count(&row.op, name).map(Value::from));
    }
    put(CAUSAL, cells::causal(&row.op).map(Value::from));
    put("time_us", Some(cells::micros(row.time).into()));
    put("p10_us", row.p10.map(|time| cells::micros(time).into()));
    put("p90_us", row.p90.map(|time| cells::micros(time).into()));
    put(SAMPLES, row.samples.map(Value::from));
    put("clock_hz", row.clock.map(|clock| clock.hertz().into()));
    put(GROUP, row.group.map(Value::from));
    if let Some(about) = &row.measured {
        for name in TEXTS {
            put(name, measured::text(about, name).map(Value::from));
        }
        for name in REALS {
            put(name, measured::real(about, name).map(Value::from));
        }
        for name in WHOLES {
            put(name, measured::whole(about, name).map(Value::from));
        }
        put(REMEASURED, Some(about.remeasured.into()));
    }
    Ok(object)
}

/// The row of an object; `place` names the file and the line in messages.
pub fn from_object(object: &Map<String, Value>, shared: &Shared, place: &str) -> Result<Row> {
    row(object, shared).map_err(|problem| problem.at(place))
}

fn row(object: &Map<String, Value>, shared: &Shared) -> std::result::Result<Row, Problem> {
    let cells = Object(object);
    let seconds = |name| cells.real(name).map(Seconds::from_micros);
    let samples = cells.whole(SAMPLES).map(|samples| {
        u32::try_from(samples).map_err(|_| Problem::new(SAMPLES, samples, "0 to 2^32 - 1"))
    });
    let group = cells
        .whole(GROUP)
        .map(|group| u64::try_from(group).map_err(|_| Problem::new(GROUP, group, "0 to 2^53")));
    let row = Row {
        op: cells::op(&cells)?,
        gpu: Arc::clone(&shared.gpu),
        stack: Arc::clone(&shared.stack),
        time: seconds("time_us").unwrap_or(Seconds::ZERO),
        p10: seconds("p10_us"),
        p90: seconds("p90_us"),
        samples: samples.transpose()?,
        clock: cells.real("clock_hz").map(Hertz::from_hertz),
        group: group.transpose()?,
        origin: Arc::clone(&shared.origin),
        measured: measured::read(&cells)?,
    };
    cells::check_row(&row).map(|()| row)
}

/// The cells of an object.
struct Object<'a>(&'a Map<String, Value>);

impl Cells for Object<'_> {
    fn count(&self, column: &str) -> Option<i64> {
        self.0.get(column)?.as_i64()
    }

    fn name(&self, column: &str) -> Option<&str> {
        self.0.get(column)?.as_str()
    }

    fn causal(&self) -> Option<bool> {
        self.0.get(CAUSAL)?.as_bool()
    }
}

impl Readings for Object<'_> {
    fn text(&self, column: &str) -> Option<&str> {
        self.0.get(column)?.as_str()
    }

    fn real(&self, column: &str) -> Option<f64> {
        self.0.get(column)?.as_f64()
    }

    fn whole(&self, column: &str) -> Option<i64> {
        self.0.get(column)?.as_i64()
    }

    fn remeasured(&self) -> Option<bool> {
        self.0.get(REMEASURED)?.as_bool()
    }
}
