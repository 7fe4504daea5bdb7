//! One row as one JSON object, for journals: the names and units of the columns are those of our Parquet tables.
//!
//! GPU, stack and origin are in the header of a journal.

use super::column::{Cell, Column, Kind};
use super::draft::Draft;
use super::schema::{self, columns_of_line, columns_of_operator};
use super::{OWN_KERNELS, Origin, Row, is_own_kernel};
use crate::error::Result;
use crate::ops::Op;
use crate::units::Seconds;
use serde_json::{Map, Value};
use std::sync::Arc;

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

impl Shared {
    /// The stack of an operator: that of the libraries, or our own kernels.
    pub fn stack_of(&self, op: &Op) -> Arc<str> {
        match is_own_kernel(&self.stack, op) {
            true => OWN_KERNELS.into(),
            false => Arc::clone(&self.stack),
        }
    }
}

/// The columns of an operator that are not null.
pub fn operator(op: &Op) -> Map<String, Value> {
    object(columns_of_operator(), &Row::new(*op, "", "", Seconds::ZERO))
}

/// The row as an object of the columns that are not null; a row that could not be read back is refused.
pub fn to_object(row: &Row) -> Result<Map<String, Value>> {
    schema::check(row).map_err(|problem| problem.at("measured row"))?;
    Ok(object(columns_of_line(), row))
}

fn object(columns: impl Iterator<Item = &'static Column>, row: &Row) -> Map<String, Value> {
    let cells = columns.filter_map(|column| Some((column.name, column.get(row)?)));
    let entry = |(name, cell): (&str, Cell<'_>)| (name.to_owned(), value(cell));
    cells.map(entry).collect()
}

/// The cell as JSON.
pub(super) fn value(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Text(text) => text.into(),
        Cell::Whole(value) => value.into(),
        Cell::Real(_) | Cell::Micros(_) => cell.real().into(),
        Cell::Flag(flag) => flag.into(),
    }
}

/// The row of an object; `place` names the file and the line in messages.
pub fn from_object(object: &Map<String, Value>, shared: &Shared, place: &str) -> Result<Row> {
    let cell = |_, column: &Column| {
        let value = object.get(column.name)?;
        match column.kind() {
            Kind::Text => value.as_str().map(Cell::Text),
            Kind::Whole => value.as_i64().map(Cell::Whole),
            Kind::Real => value.as_f64().map(Cell::Real),
            Kind::Flag => value.as_bool().map(Cell::Flag),
        }
    };
    let Shared { gpu, stack, origin } = shared.clone();
    let row = Draft::new(gpu, stack, origin).read(columns_of_line(), cell);
    let row = row.map_err(|problem| problem.at(place))?;
    Ok(Row {
        stack: shared.stack_of(&row.op),
        ..row
    })
}
