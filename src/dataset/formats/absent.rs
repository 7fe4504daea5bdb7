//! In the place of Parquet, gzip and SQLite where `dataset` was not compiled in.

use super::column::Cell;
use super::columns::{Field, TableFile};
use crate::error::{Error, Result};
use std::fs::File;
use std::io;

/// Names the feature.
fn absent<T>() -> Result<T> {
    Err(Error::feature_off("reading and writing tables", "dataset"))
}

pub fn require() -> Result<()> {
    absent()
}

pub fn unpacked(_: impl io::BufRead + 'static) -> io::Result<Box<dyn io::Read>> {
    absent().map_err(io::Error::other)
}

pub fn open(_: File) -> Result<Box<dyn TableFile>> {
    absent()
}

pub fn of_bytes(_: Vec<u8>) -> Result<Box<dyn TableFile>> {
    absent()
}

pub fn encode<'a>(
    _: &[Field<'_>],
    _: &[(String, String)],
    _: usize,
    _: impl Fn(usize, usize) -> Option<Cell<'a>>,
) -> Result<Vec<u8>> {
    absent()
}

pub mod nsys {
    use crate::dataset::trace::Events;
    use crate::error::Result;
    use std::path::Path;

    pub fn read(_: &Path) -> Result<Events> {
        super::absent()
    }
}
