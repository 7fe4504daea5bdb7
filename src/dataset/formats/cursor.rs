//! One column of one row group, decoded a few ranges of rows at a time.

use crate::dataset::columns::{self, Column, TextColumn};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::RowGroupReader;
use parquet::schema::types::ColumnDescriptor;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::result::Result;

/// The column at `leaf` of the schema.
pub fn of(group: &dyn RowGroupReader, leaf: usize) -> Result<columns::Cursor, ParquetError> {
    let mut cursor = Cursor::new(group, leaf)?;
    Ok(Box::new(move |ranges: &[Range<usize>]| cursor.read(ranges)))
}

/// A column that is read from its first row on.
struct Cursor {
    reader: ColumnReader,
    may_be_null: bool,
    /// Why its values are none of ours.
    other: Option<String>,
    /// The next row.
    at: usize,
}

impl Cursor {
    fn new(group: &dyn RowGroupReader, leaf: usize) -> Result<Self, ParquetError> {
        let about = group.metadata().column(leaf).column_descr();
        Ok(Self {
            other: foreign(about),
            may_be_null: about.max_def_level() > 0,
            reader: group.get_column_reader(leaf)?,
            at: 0,
        })
    }

    /// The rows in `ranges`, which rise and lie behind everything that was read before.
    fn read(&mut self, ranges: &[Range<usize>]) -> Result<Column, String> {
        if let Some(kind) = &self.other {
            return Ok(Column::Other(kind.clone()));
        }
        let mut take = Take {
            ranges,
            may_be_null: self.may_be_null,
            at: &mut self.at,
        };
        Ok(match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => Column::Flags(take.values(reader)?),
            ColumnReader::Int64ColumnReader(reader) => Column::Counts(take.values(reader)?),
            ColumnReader::Int32ColumnReader(reader) => {
                let values = take.values(reader)?.into_iter();
                Column::Counts(values.map(|value| value.map(i64::from)).collect())
            }
            ColumnReader::DoubleColumnReader(reader) => Column::Numbers(take.values(reader)?),
            ColumnReader::FloatColumnReader(reader) => {
                let values = take.values(reader)?.into_iter();
                Column::Numbers(values.map(|value| value.map(f64::from)).collect())
            }
            ColumnReader::ByteArrayColumnReader(reader) => Column::Texts(texts(take.values(reader)?)?),
            _ => Column::Other("another type".to_owned()),
        })
    }
}

/// Every text once.
fn texts(values: Vec<Option<ByteArray>>) -> Result<TextColumn, String> {
    let mut column = TextColumn::default();
    let mut known: FxHashMap<&[u8], u32> = FxHashMap::default();
    column.keys.reserve(values.len());
    for value in &values {
        let key = match value {
            None => None,
            Some(value) => match known.get(value.data()) {
                Some(&key) => Some(key),
                None => {
                    let text = value.as_utf8().map_err(|error| error.to_string())?;
                    let key = column.texts.len() as u32;
                    column.texts.push(text.into());
                    known.insert(value.data(), key);
                    Some(key)
                }
            },
        };
        column.keys.push(key);
    }
    Ok(column)
}

/// What to take from a column.
struct Take<'a> {
    ranges: &'a [Range<usize>],
    may_be_null: bool,
    at: &'a mut usize,
}

impl Take<'_> {
    fn values<T: DataType>(&mut self, reader: &mut ColumnReaderImpl<T>) -> Result<Vec<Option<T::T>>, String> {
        let rows = self.ranges.iter().map(Range::len).sum();
        let mut values = Vec::with_capacity(rows);
        let (mut levels, mut found) = (Vec::new(), Vec::new());
        let failed = |error: ParquetError| error.to_string();
        let short = |rows: usize| format!("a column ends after {rows} rows");
        for range in self.ranges {
            let skipped = reader.skip_records(range.start - *self.at);
            let mut next = *self.at + skipped.map_err(failed)?;
            if next < range.start {
                return Err(short(next));
            }
            while next < range.end {
                levels.clear();
                let wanted = range.end - next;
                let read = reader.read_records(wanted, Some(&mut levels), None, &mut found);
                let (read, ..) = read.map_err(failed)?;
                if read == 0 {
                    return Err(short(next));
                }
                let mut present = found.drain(..);
                if self.may_be_null {
                    // Level 0 is a null, as no column of ours is nested.
                    let value = |&level: &i16| (level > 0).then(|| present.next()).flatten();
                    values.extend(levels.iter().map(value));
                } else {
                    values.extend(present.map(Some));
                }
                next += read;
            }
            *self.at = range.end;
        }
        match values.len() == rows {
            true => Ok(values),
            false => Err(format!("a column has {} values for {rows} rows", values.len())),
        }
    }
}

/// What a column holds that none of ours does; `None` if it is a plain one.
fn foreign(about: &ColumnDescriptor) -> Option<String> {
    if about.max_rep_level() > 0 || about.path().parts().len() > 1 {
        return Some("lists or structures".to_owned());
    }
    let (physical, logical) = (about.physical_type(), about.logical_type_ref());
    let plain = match (physical, logical) {
        (Type::BYTE_ARRAY, Some(LogicalType::String)) => true,
        (Type::BYTE_ARRAY, None) => about.converted_type() == ConvertedType::UTF8,
        (Type::INT64 | Type::INT32, Some(LogicalType::Integer(about))) => about.is_signed,
        (Type::INT64 | Type::INT32, None) => matches!(
            about.converted_type(),
            ConvertedType::NONE | ConvertedType::INT_64 | ConvertedType::INT_32
        ),
        (Type::BOOLEAN | Type::FLOAT | Type::DOUBLE, None) => true,
        _ => false,
    };
    let kind = || match logical {
        Some(logical) => format!("{physical} as {logical:?}"),
        None => physical.to_string(),
    };
    (!plain).then(kind)
}
