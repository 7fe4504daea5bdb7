//! The cells of one row of a publisher's table; a missing or impossible one is a reason to leave the row out.

use super::Reason;
use crate::dataset::columns::Batch;

/// One row of a batch.
#[derive(Clone, Copy)]
pub(super) struct Cells<'a> {
    batch: &'a Batch<'a>,
    row: usize,
}

impl<'a> Cells<'a> {
    /// All rows of a batch.
    pub fn of(batch: &'a Batch<'a>) -> impl Iterator<Item = Self> {
        (0..batch.len()).map(move |row| Self { batch, row })
    }

    /// A text; nothing where the cell is null.
    pub fn text(self, column: &str) -> Result<Option<&'a str>, Reason> {
        let texts = self.batch.texts(column).map_err(|error| error.to_string())?;
        Ok(texts.get(self.row))
    }

    /// A text, empty where the cell is null.
    pub fn text_or_empty(self, column: &str) -> Result<&'a str, Reason> {
        Ok(self.text(column)?.unwrap_or_default())
    }

    /// Whether a flag is set.
    pub fn flag(self, column: &str) -> Result<bool, Reason> {
        let flags = self.batch.flags(column).map_err(|error| error.to_string())?;
        Ok(flags.get(self.row) == Some(true))
    }

    /// A number; nothing where the cell is null.
    pub fn number(self, column: &str) -> Result<Option<f64>, Reason> {
        let numbers = self.batch.numbers(column).map_err(|error| error.to_string())?;
        Ok(numbers.get(self.row))
    }

    /// A whole number from 0; nothing where the cell is null.
    pub fn whole(self, column: &str) -> Result<Option<u64>, Reason> {
        let counts = self.batch.counts(column).map_err(|error| error.to_string())?;
        let Some(count) = counts.get(self.row) else {
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
