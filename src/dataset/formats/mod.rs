//! Parquet, gzip and SQLite, which foreign crates read and write.

mod cursor;
pub mod nsys;
mod write;

pub use write::encode;

use super::columns::{Cursor, TableFile};
use crate::error::Result;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::errors::Result as Read;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use std::fs::File;
use std::io;

/// Fails in a program that reads and writes no tables.
pub fn require() -> Result<()> {
    Ok(())
}

/// The content of a file of gzip, of one or several members.
pub fn unpacked(file: impl io::BufRead + 'static) -> io::Result<Box<dyn io::Read>> {
    Ok(Box::new(MultiGzDecoder::new(file)))
}

/// Reads the footer of a Parquet file.
pub fn open(file: File) -> Read<Box<dyn TableFile>> {
    of_reader(file)
}

/// Reads the footer of a Parquet file in memory.
pub fn of_bytes(content: Vec<u8>) -> Read<Box<dyn TableFile>> {
    of_reader(Bytes::from(content))
}

fn of_reader(source: impl ChunkReader + 'static) -> Read<Box<dyn TableFile>> {
    let reader: Box<dyn FileReader> = Box::new(SerializedFileReader::new(source)?);
    Ok(Box::new(reader))
}

impl TableFile for Box<dyn FileReader> {
    fn properties(&self) -> Vec<(&str, Option<&str>)> {
        let file = self.metadata().file_metadata();
        let entries = file.key_value_metadata().into_iter().flatten();
        entries
            .map(|entry| (entry.key.as_str(), entry.value.as_deref()))
            .collect()
    }

    fn columns(&self) -> Vec<&str> {
        let fields = self.metadata().file_metadata().schema().get_fields();
        fields.iter().map(|field| field.name()).collect()
    }

    fn leaf(&self, column: &str) -> Option<usize> {
        let schema = self.metadata().file_metadata().schema_descr();
        let mut leaves = schema.columns().iter();
        leaves.position(|leaf| leaf.path().parts().first().is_some_and(|name| name == column))
    }

    fn rows(&self) -> usize {
        usize::try_from(self.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    fn groups(&self) -> Vec<usize> {
        let groups = self.metadata().row_groups().iter();
        groups
            .map(|group| usize::try_from(group.num_rows()).unwrap_or(0))
            .collect()
    }

    fn cursors(&self, group: usize, leaves: &[usize]) -> Result<Vec<Cursor>, String> {
        let rows = self.get_row_group(group).map_err(|error| error.to_string())?;
        let cursors = leaves.iter().map(|leaf| cursor::of(&*rows, *leaf));
        cursors.collect::<Read<_>>().map_err(|error| error.to_string())
    }
}
