//! Typed columns out of Parquet files, with errors that name the file, the column and the row.
//!
//! Every text column is read as a dictionary, so a value that repeats a million times is stored
//! and compared as a number.

use crate::error::{Error, Result};
use crate::units::Seconds;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

const ROWS_PER_BATCH: usize = 1 << 16;

/// An open Parquet file whose footer has been read.
pub(super) struct Parquet {
    place: String,
    file: File,
    metadata: ArrowReaderMetadata,
}

impl Parquet {
    /// Opens a file and reads its footer.
    pub fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        let about = file.metadata().map_err(|source| Error::io(path, source))?;
        if about.is_dir() {
            return Err(Error::bad_input(format!(
                "{place}: this is a folder; allowed: a Parquet file"
            )));
        }
        if about.len() == 0 {
            return Err(Error::bad_input(format!(
                "{place}: the file is empty; allowed: a Parquet file"
            )));
        }
        let plain = guard(&place, || {
            ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
        })?;
        let schema = Arc::new(texts_as_dictionaries(plain.schema()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        let metadata = guard(&place, || {
            ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options)
        })?;
        Ok(Self {
            place,
            file,
            metadata,
        })
    }

    /// The path, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The value of a key in the file's own metadata.
    pub fn property(&self, key: &str) -> Option<&str> {
        let file = self.metadata.metadata().file_metadata();
        let entries = file.key_value_metadata()?;
        let entry = entries.iter().find(|entry| entry.key == key)?;
        entry.value.as_deref()
    }

    /// The values of all keys of the file's own metadata that begin so.
    pub fn properties(&self, prefix: &str) -> impl Iterator<Item = &str> {
        let entries = self
            .metadata
            .metadata()
            .file_metadata()
            .key_value_metadata();
        let entries = entries.into_iter().flatten();
        entries
            .filter(move |entry| entry.key.starts_with(prefix))
            .filter_map(|entry| entry.value.as_deref())
    }

    /// Whether there is a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.metadata.schema().index_of(column).is_ok()
    }

    /// How many rows the footer promises.
    pub fn rows(&self) -> usize {
        usize::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Reads these columns of all rows, or of the rows in `ranges` (ascending), in batches.
    pub fn batches(
        &self,
        columns: &[&str],
        ranges: Option<&[Range<usize>]>,
    ) -> Result<impl Iterator<Item = Result<Batch<'_>>>> {
        if let Some(missing) = columns.iter().find(|column| !self.has(column)) {
            return Err(Error::bad_input(format!(
                "{}: the column `{missing}` is missing; allowed: a file with the columns {}",
                self.place,
                columns.join(", ")
            )));
        }
        let file = self.file.try_clone();
        let file = file.map_err(|source| Error::io(&self.place, source))?;
        let mask = ProjectionMask::columns(self.metadata.parquet_schema(), columns.iter().copied());
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(mask)
                .with_batch_size(ROWS_PER_BATCH);
        if let Some(ranges) = ranges {
            builder = builder.with_row_selection(RowSelection::from_consecutive_ranges(
                ranges.iter().cloned(),
                self.rows(),
            ));
        }
        let mut reader = guard(&self.place, || builder.build())?;
        let promised = ranges.map_or(self.rows(), |ranges| ranges.iter().map(Range::len).sum());
        let mut first_row = 0;
        Ok(std::iter::from_fn(move || {
            let next = guard(&self.place, || match reader.next().transpose() {
                Ok(None) if first_row < promised => {
                    Err(format!("it ends after {first_row} of {promised} rows"))
                }
                next => next.map_err(|error| error.to_string()),
            });
            let batch = next.transpose()?.map(|columns| Batch {
                place: &self.place,
                first_row,
                columns,
            });
            first_row += batch.as_ref().map_or(0, Batch::len);
            Some(batch)
        }))
    }
}

/// Runs a step of the Parquet reader, which answers some kinds of damage with a panic.
fn guard<T, E: fmt::Display>(
    place: &str,
    step: impl FnOnce() -> std::result::Result<T, E>,
) -> Result<T> {
    // Whatever the step has left half done is dropped with the error.
    let outcome = panic::catch_unwind(AssertUnwindSafe(step));
    let detail = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string().replace('\n', " "),
        Err(_) => "its pages contradict each other".to_owned(),
    };
    Err(Error::bad_input(format!(
        "{place}: this is not a whole Parquet file ({detail}); allowed: a complete Parquet file"
    )))
}

/// The same columns with every text column read as a dictionary.
fn texts_as_dictionaries(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let content = match field.data_type() {
            DataType::Dictionary(_, content) => content.as_ref(),
            content => content,
        };
        if !matches!(
            content,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        ) {
            return field.as_ref().clone();
        }
        let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
        Field::new(field.name(), dictionary, field.is_nullable())
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Consecutive rows of a file.
pub(super) struct Batch<'a> {
    place: &'a str,
    first_row: usize,
    columns: RecordBatch,
}

impl Batch<'_> {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.columns.num_rows()
    }

    /// Where row `row` of this batch stands, for messages; the first row of the file is row 1.
    ///
    /// Only meaningful when all rows are read.
    pub fn position(&self, row: usize) -> String {
        format!("{}: row {}", self.place, self.first_row + row + 1)
    }

    /// A column of texts.
    pub fn texts(&self, column: &str) -> Result<Texts<'_>> {
        let array = self.column(column)?;
        let keys = array.as_dictionary_opt::<Int32Type>();
        let texts = keys.and_then(|keys| Some((keys, keys.values().as_string_opt::<i32>()?)));
        texts
            .map(|(keys, values)| Texts { keys, values })
            .ok_or_else(|| self.wrong_type(column, array, "text"))
    }

    /// A column of whole numbers.
    pub fn counts(&self, column: &str) -> Result<Counts<'_>> {
        let array = self.column(column)?;
        array
            .as_primitive_opt::<Int64Type>()
            .map(Counts)
            .ok_or_else(|| self.wrong_type(column, array, "64-bit integers"))
    }

    /// A column of real numbers.
    pub fn numbers(&self, column: &str) -> Result<Numbers<'_>> {
        let array = self.column(column)?;
        let single = array.as_primitive_opt::<Float32Type>();
        let double = array.as_primitive_opt::<Float64Type>();
        match (single, double) {
            (Some(single), _) => Ok(Numbers::Single(single)),
            (_, Some(double)) => Ok(Numbers::Double(double)),
            _ => Err(self.wrong_type(column, array, "floating-point numbers")),
        }
    }

    /// A column of true and false.
    pub fn flags(&self, column: &str) -> Result<Flags<'_>> {
        let array = self.column(column)?;
        array
            .as_boolean_opt()
            .map(Flags)
            .ok_or_else(|| self.wrong_type(column, array, "true or false"))
    }

    fn column(&self, column: &str) -> Result<&dyn Array> {
        self.columns
            .column_by_name(column)
            .map(AsRef::as_ref)
            .ok_or_else(|| {
                Error::bad_input(format!("{}: the column `{column}` is missing", self.place))
            })
    }

    fn wrong_type(&self, column: &str, array: &dyn Array, allowed: &str) -> Error {
        Error::bad_input(format!(
            "{}: the column `{column}` holds {}; allowed: {allowed}",
            self.place,
            array.data_type()
        ))
    }
}

/// A column of texts that repeat.
pub(super) struct Texts<'a> {
    keys: &'a DictionaryArray<Int32Type>,
    values: &'a StringArray,
}

impl<'a> Texts<'a> {
    /// The text of a row; nothing where it is null.
    pub fn get(&self, row: usize) -> Option<&'a str> {
        let key = self.keys.key(row)?;
        (!self.values.is_null(key)).then(|| self.values.value(key))
    }

    /// Rows of one batch with equal keys hold equal texts.
    pub fn key(&self, row: usize) -> Option<usize> {
        self.keys.key(row)
    }
}

/// A column of whole numbers.
pub(super) struct Counts<'a>(&'a PrimitiveArray<Int64Type>);

impl Counts<'_> {
    /// The number of a row; nothing where it is null.
    pub fn get(&self, row: usize) -> Option<i64> {
        (!self.0.is_null(row)).then(|| self.0.value(row))
    }

    /// The number of a row as a size; 0, which no size may be, where it is null or negative.
    pub fn size(&self, row: usize) -> u64 {
        let value = self.get(row);
        value.and_then(|value| value.try_into().ok()).unwrap_or(0)
    }
}

/// A column of real numbers in either width.
pub(super) enum Numbers<'a> {
    /// 32 bits.
    Single(&'a PrimitiveArray<Float32Type>),
    /// 64 bits.
    Double(&'a PrimitiveArray<Float64Type>),
}

impl Numbers<'_> {
    /// The number of a row; nothing where it is null.
    pub fn get(&self, row: usize) -> Option<f64> {
        match self {
            Self::Single(array) => (!array.is_null(row)).then(|| f64::from(array.value(row))),
            Self::Double(array) => (!array.is_null(row)).then(|| array.value(row)),
        }
    }

    /// The time of a row whose unit is this many seconds; zero, which no time may be, where it is null.
    pub fn time(&self, row: usize, unit: Seconds) -> Seconds {
        self.get(row).map_or(Seconds::ZERO, |value| unit * value)
    }
}

/// A column of true and false.
pub(super) struct Flags<'a>(&'a BooleanArray);

impl Flags<'_> {
    /// The flag of a row; nothing where it is null.
    pub fn get(&self, row: usize) -> Option<bool> {
        (!self.0.is_null(row)).then(|| self.0.value(row))
    }
}
