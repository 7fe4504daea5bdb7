//! The cells of one row of a publisher's table; a missing or impossible one is a reason to leave the row out.

use super::Reason;
use crate::dataset::columns::{Batch, Parquet};
use crate::error::{Error, Result};
use std::cell::Cell;

/// One row of a batch.
#[derive(Clone, Copy)]
pub(in crate::dataset) struct Cells<'a> {
    batch: &'a Batch<'a>,
    row: usize,
    /// Why the file cannot be read: a column that it lacks, or one of another type.
    failed: &'a Cell<Option<Error>>,
}

impl<'a> Cells<'a> {
    /// Hands on every row of a table.
    pub fn each(file: &Parquet, mut read: impl FnMut(Cells<'_>)) -> Result<()> {
        let columns: Vec<&str> = file.columns().collect();
        let failed = &Cell::new(None);
        for batch in file.batches(&columns, None)? {
            let batch = &batch?;
            for row in 0..batch.len() {
                read(Cells { batch, row, failed });
                failed.take().map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// A column, or the reason that ends the reading of the file.
    fn of<T>(self, column: Result<T>) -> Result<T, Reason> {
        column.map_err(|error| {
            let reason = error.to_string();
            self.failed.set(Some(error));
            reason
        })
    }

    /// A text; nothing where the cell is null.
    pub fn text(self, column: &str) -> Result<Option<&'a str>, Reason> {
        let texts = self.of(self.batch.texts(column))?;
        Ok(texts.get(self.row))
    }

    /// A text, empty where the cell is null.
    pub fn text_or_empty(self, column: &str) -> Result<&'a str, Reason> {
        Ok(self.text(column)?.unwrap_or_default())
    }

    /// Whether a flag is set.
    pub fn flag(self, column: &str) -> Result<bool, Reason> {
        let flags = self.of(self.batch.flags(column))?;
        Ok(flags[self.row] == Some(true))
    }

    /// A number; nothing where the cell is null.
    pub fn number(self, column: &str) -> Result<Option<f64>, Reason> {
        if let Ok(counts) = self.batch.counts(column) {
            return Ok(counts[self.row].map(|count| count as f64));
        }
        Ok(self.of(self.batch.numbers(column))?[self.row])
    }

    /// A whole number from 0; nothing where the cell is null.
    pub fn whole(self, column: &str) -> Result<Option<u64>, Reason> {
        let counts = self.of(self.batch.counts(column))?;
        let Some(count) = counts[self.row] else {
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
