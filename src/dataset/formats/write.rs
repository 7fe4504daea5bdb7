//! Columns into the bytes of a Parquet file.

use crate::dataset::column::{Cell, Kind};
use crate::dataset::columns::Field;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::sync::Arc;

/// Rows of a group, and of a part of one that is handed over at once.
const ROWS_PER_GROUP: usize = 1 << 20;
const ROWS_PER_PART: usize = 1 << 13;

/// A whole file: `cell` answers what the field at a place holds in a row. Compressed with Zstandard.
pub fn encode<'a>(
    fields: &[Field<'_>],
    properties: &[(String, String)],
    rows: usize,
    cell: impl Fn(usize, usize) -> Option<Cell<'a>>,
) -> Result<Vec<u8>> {
    let columns = fields.iter().map(|field| Ok(Arc::new(layout(field)?)));
    let schema = Type::group_type_builder("schema")
        .with_fields(columns.collect::<Result<_>>()?)
        .build()?;
    let properties = properties.iter().cloned();
    let properties = properties.map(|(key, value)| KeyValue::new(key, value));
    let mut about = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(properties.collect()));
    // Times hardly repeat: a dictionary of them only adds indices, and bytes of equal weight compress together.
    for field in fields.iter().filter(|field| field.kind == Kind::Real) {
        let column = ColumnPath::from(field.name);
        about = about
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::BYTE_STREAM_SPLIT);
    }
    let about = Arc::new(about.build());
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), about)?;
    for start in (0..rows).step_by(ROWS_PER_GROUP) {
        let end = rows.min(start + ROWS_PER_GROUP);
        let mut group = file.next_row_group()?;
        for (place, field) in fields.iter().enumerate() {
            let mut column = group.next_column()?.expect("there is a column for each field");
            for start in (start..end).step_by(ROWS_PER_PART) {
                let part = start..end.min(start + ROWS_PER_PART);
                write(field, part.map(|row| cell(place, row)), &mut column)?;
            }
            column.close()?;
        }
        group.close()?;
    }
    file.into_inner()
}

/// The column as a schema has it.
fn layout(field: &Field<'_>) -> Result<Type> {
    let (physical, logical) = match field.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Real => (Physical::DOUBLE, None),
        Kind::Whole => (Physical::INT64, None),
        Kind::Flag => (Physical::BOOLEAN, None),
    };
    Type::primitive_type_builder(field.name, physical)
        .with_logical_type(logical)
        .with_repetition(match field.may_be_null {
            true => Repetition::OPTIONAL,
            false => Repetition::REQUIRED,
        })
        .build()
}

fn write<'a>(
    field: &Field<'_>,
    cells: impl Iterator<Item = Option<Cell<'a>>>,
    column: &mut SerializedColumnWriter<'_>,
) -> Result<()> {
    let may_be_null = field.may_be_null;
    match field.kind {
        Kind::Text => {
            // A text that is equal to the one before shares its bytes.
            let mut last: Option<(&str, ByteArray)> = None;
            let mut bytes = |text| match &last {
                Some((known, bytes)) if *known == text => bytes.clone(),
                _ => last.insert((text, ByteArray::from(text))).1.clone(),
            };
            let texts = cells.map(|cell| cell?.text().map(&mut bytes));
            put::<ByteArrayType>(column, texts.collect(), may_be_null)
        }
        Kind::Real => put::<DoubleType>(column, cells.map(|cell| cell?.real()).collect(), may_be_null),
        Kind::Whole => put::<Int64Type>(column, cells.map(|cell| cell?.whole()).collect(), may_be_null),
        Kind::Flag => put::<BoolType>(column, cells.map(|cell| cell?.flag()).collect(), may_be_null),
    }
}

/// Writes a level for each row, and the values that are there.
fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: Vec<Option<T::T>>,
    may_be_null: bool,
) -> Result<()> {
    let present = |value: &Option<T::T>| i16::from(value.is_some());
    let levels: Vec<i16> = values.iter().map(present).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    let levels = may_be_null.then_some(levels.as_slice());
    column.typed::<T>().write_batch(&values, levels, None)?;
    Ok(())
}
