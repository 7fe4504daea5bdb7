//! The cells of one row of a publisher's table; a missing or impossible one is a reason to leave the row out.

use super::Reason;
use crate::dataset::column::{self, Kind};
use crate::dataset::columns::{Batch, Parquet};
use crate::dataset::file::Cells as Values;
use crate::error::{Error, Result};
use std::cell::{Cell, RefCell};

/// One row of a batch.
#[derive(Clone, Copy)]
pub(in crate::dataset) struct Cells<'a> {
    batch: &'a Batch<'a>,
    row: usize,
    /// The columns of the batch that were asked for: cells of CSV are parsed once.
    read: &'a RefCell<Vec<(String, Kind, Values<'a>)>>,
    /// Why the file cannot be read: a column of another type.
    failed: &'a Cell<Option<Error>>,
}

impl<'a> Cells<'a> {
    /// Passes on these columns, all of which a table needs, of every row.
    pub fn each(file: &Parquet, columns: &[&str], mut read: impl FnMut(Cells<'_>)) -> Result<()> {
        let failed = Cell::new(None);
        for batch in file.batches(columns, None)? {
            let batch = batch?;
            let known = RefCell::default();
            for row in 0..batch.len() {
                read(Cells {
                    batch: &batch,
                    row,
                    read: &known,
                    failed: &failed,
                });
                failed.take().map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// A cell, or the reason that ends the reading of the file.
    fn cell(self, column: &str, kind: Kind) -> Result<Option<column::Cell<'a>>, Reason> {
        let mut read = self.read.borrow_mut();
        let known = read
            .iter()
            .position(|(name, known_kind, _)| name == column && *known_kind == kind);
        let place = match known {
            Some(place) => place,
            None => {
                let values = Values::new(self.batch, column, kind).map_err(|error| {
                    let reason = error.to_string();
                    self.failed.set(Some(error));
                    reason
                })?;
                read.push((column.to_owned(), kind, values));
                read.len() - 1
            }
        };
        Ok(read[place].2.get(self.row))
    }

    /// A text; `None` if the cell is null.
    pub fn text(self, column: &str) -> Result<Option<&'a str>, Reason> {
        Ok(self.cell(column, Kind::Text)?.and_then(column::Cell::text))
    }

    /// A text, empty where the cell is null.
    pub fn text_or_empty(self, column: &str) -> Result<&'a str, Reason> {
        Ok(self.text(column)?.unwrap_or_default())
    }

    /// Whether a flag is set.
    pub fn flag(self, column: &str) -> Result<bool, Reason> {
        Ok(self.cell(column, Kind::Flag)?.and_then(column::Cell::flag) == Some(true))
    }

    /// A number; `None` if the cell is null.
    pub fn number(self, column: &str) -> Result<Option<f64>, Reason> {
        Ok(self.cell(column, Kind::Real)?.and_then(column::Cell::real))
    }

    /// A whole number from 0; `None` if the cell is null.
    pub fn whole(self, column: &str) -> Result<Option<u64>, Reason> {
        let Some(count) = self.cell(column, Kind::Whole)?.and_then(column::Cell::whole) else {
            return Ok(None);
        };
        let count = u64::try_from(count).map_err(|_| format!("`{column}` is negative"))?;
        Ok(Some(count))
    }

    /// A whole number from 1 that the row must state.
    pub fn size(self, column: &str) -> Result<u64, Reason> {
        let size = self.whole(column)?.filter(|&size| size > 0);
        size.ok_or_else(|| format!("`{column}` is not stated"))
    }
}
