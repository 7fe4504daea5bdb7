//! Typed columns out of Parquet and CSV files, with errors that name the file, the column and the row.
//!
//! Every text is kept once a batch, so a value that repeats a million times is stored and compared as a number.

mod csv;

pub(super) use csv::is_csv;

use crate::dataset::column::{Cell, Kind};
use crate::dataset::formats;
use crate::error::{Error, Result, caught, read_bytes, read_start, require_regular};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// The most rows of one file: half as many again as the largest public table. A file of equal rows packs millions of
/// them into kilobytes, so its size says nothing.
const MOST_ROWS: usize = 4 << 20;

/// The most bytes of a table in CSV, which is held in memory.
const MOST_BYTES: u64 = 256 << 20;

const ROWS_PER_BATCH: usize = 1 << 16;

/// How a file begins whose content Git LFS keeps elsewhere.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// An open Parquet file whose footer has been read, or a CSV file as one of texts.
pub(super) struct Parquet {
    place: String,
    file: Box<dyn TableFile>,
    is_text: bool,
    supplied: Vec<(&'static str, Supplied)>,
}

/// What is asked of an open file.
pub(super) trait TableFile: Send + Sync {
    /// Keys and values of its own metadata.
    fn properties(&self) -> Vec<(&str, Option<&str>)>;

    /// The names of all columns, in the order of the file.
    fn columns(&self) -> Vec<&str>;

    /// The first leaf of the column of this name.
    fn leaf(&self, column: &str) -> Option<usize>;

    /// How many rows its footer promises.
    fn rows(&self) -> usize;

    /// The rows of each row group.
    fn groups(&self) -> Vec<usize>;

    /// These leaves of a row group, from its first row on.
    fn cursors(&self, group: usize, leaves: &[usize]) -> Result<Vec<Cursor>, String>;
}

/// Reads the rows in ranges, which rise and lie behind everything that was read before.
pub(super) type Cursor = Box<dyn FnMut(&[Range<usize>]) -> Result<Column, String>>;

/// What a column holds that a file lacks.
pub(super) enum Supplied {
    /// The same text in every row.
    Text(String),
    /// Null in every row.
    Null,
    /// What this column of the file holds.
    Same(&'static str),
}

impl Parquet {
    /// Opens a file and reads its footer.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_limited(path, MOST_ROWS)
    }

    /// A table in CSV that `place` names in messages.
    pub fn of_csv(content: &[u8], place: String) -> Result<Self> {
        formats::require()?;
        let content = csv::to_parquet(content, &place)?;
        let file = guard(&place, || formats::of_bytes(content))?;
        Self::of_file(file, place, true)
    }

    fn of_file(file: Box<dyn TableFile>, place: String, is_text: bool) -> Result<Self> {
        let file = Self {
            place,
            file,
            is_text,
            supplied: Vec::new(),
        };
        let mut known = HashSet::new();
        if let Some(name) = file.columns().find(|&name| !known.insert(name)) {
            return Err(Error::bad_input(format!(
                "{}: the column `{name}` occurs twice; allowed: once",
                file.place
            )));
        }
        Ok(file)
    }

    /// The same with another limit on its rows.
    pub fn open_limited(path: &Path, most_rows: usize) -> Result<Self> {
        let place = path.display().to_string();
        require_regular(path)?;
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        let about = file.metadata().map_err(|source| Error::io(path, source))?;
        if about.len() == 0 {
            return Err(Error::bad_input(format!(
                "{place}: the file is empty; allowed: a table in Parquet, or in CSV where its name ends in .csv or .txt"
            )));
        }
        if read_start(path, LFS_POINTER.len() as u64)? == LFS_POINTER {
            return Err(Error::bad_input(format!(
                "{place}: this is a pointer of Git LFS and not the table; allowed: the file that `git lfs pull` fetches"
            )));
        }
        let file = match is_csv(path) {
            true => Self::of_csv(&read_bytes(path, MOST_BYTES)?, place)?,
            false => {
                formats::require()?;
                let file = guard(&place, || formats::open(file))?;
                Self::of_file(file, place, false)?
            }
        };
        match file.rows() <= most_rows {
            true => Ok(file),
            false => Err(Error::bad_input(format!(
                "{}: the file has {} rows; allowed: at most {most_rows}, so several files",
                file.place,
                file.rows()
            ))),
        }
    }

    /// The path, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Columns that hold something where the file lacks them.
    pub fn supply(&mut self, columns: impl IntoIterator<Item = (&'static str, Supplied)>) {
        let lacking = columns.into_iter().filter(|(name, supplied)| {
            let source = match supplied {
                Supplied::Same(source) => self.file.leaf(source).is_some(),
                Supplied::Text(_) | Supplied::Null => true,
            };
            source && self.file.leaf(name).is_none()
        });
        self.supplied = lacking.collect();
    }

    fn supplied(&self, column: &str) -> Option<&Supplied> {
        let mut supplied = self.supplied.iter();
        supplied.find(|(name, _)| *name == column).map(|(_, supplied)| supplied)
    }

    /// Row `row` of the file, for messages; the first is row 1.
    pub fn position(&self, row: usize) -> String {
        format!("{}: row {}", self.place, row + 1)
    }

    /// Whether it is CSV: the file states neither types nor metadata.
    pub const fn is_text(&self) -> bool {
        self.is_text
    }

    /// The value of a key in the file's own metadata.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties().find(|(name, _)| *name == key)?.1
    }

    /// The values of all keys of the file's own metadata that begin so.
    pub fn properties_of(&self, prefix: &str) -> impl Iterator<Item = &str> {
        self.properties()
            .filter(move |(name, _)| name.starts_with(prefix))
            .filter_map(|(_, value)| value)
    }

    fn properties(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.file.properties().into_iter()
    }

    /// Whether there is a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.file.leaf(column).is_some() || self.supplied(column).is_some()
    }

    /// The names of all columns, in the order of the file.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.file.columns().into_iter()
    }

    /// The first leaf of the column that holds this one's values.
    fn place_of(&self, column: &str) -> Option<usize> {
        match self.supplied(column) {
            Some(Supplied::Same(source)) => self.file.leaf(source),
            _ => self.file.leaf(column),
        }
    }

    /// How many rows the footer promises.
    pub fn rows(&self) -> usize {
        self.file.rows()
    }

    /// Reads these columns of all rows, or of the rows in `ranges` (ascending), in batches.
    pub fn batches(
        &self,
        columns: &[&str],
        ranges: Option<&[Range<usize>]>,
    ) -> Result<impl Iterator<Item = Result<Batch<'_>>>> {
        let missing = columns.iter().filter(|column| !self.has(column));
        let missing: Vec<_> = missing.map(|column| format!("`{column}`")).collect();
        if let [first, others @ ..] = &missing[..] {
            let others = match others {
                [] => String::new(),
                others => format!(", nor are there {}", others.join(", ")),
            };
            // What `Filter::supplied` can say.
            let known = match self.is_text && columns.contains(&"licence") {
                true => {
                    ", of which `--gpu`, `--stack`, `--source` and `--licence` may state theirs for all rows, and the family follows \
                     from columns of one family alone"
                }
                false => "",
            };
            return Err(Error::bad_input(format!(
                "{}: the column {first} is missing{others}; allowed: a file with the columns {}{known}",
                self.place,
                columns.join(", ")
            )));
        }
        let mut leaves: Vec<(String, usize)> = Vec::new();
        for (column, leaf) in columns
            .iter()
            .filter_map(|column| Some((column, self.place_of(column)?)))
        {
            if !leaves.iter().any(|(_, known)| *known == leaf) {
                leaves.push(((*column).to_owned(), leaf));
            }
        }
        let places: Vec<usize> = leaves.iter().map(|(_, leaf)| *leaf).collect();
        let constant = columns.iter().filter_map(|column| match self.supplied(column)? {
            Supplied::Text(text) => Some(((*column).to_owned(), Some(text.as_str()))),
            Supplied::Null => Some(((*column).to_owned(), None)),
            Supplied::Same(_) => None,
        });
        let constant: Vec<(String, Option<&str>)> = constant.collect();
        let promised = ranges.map_or(self.rows(), |ranges| ranges.iter().map(Range::len).sum());
        let mut pieces = self.pieces(ranges).into_iter();
        let mut group = None;
        let mut cursors: Vec<Cursor> = Vec::new();
        let mut first_row = 0;
        Ok(std::iter::from_fn(move || {
            let next = guard(&self.place, || {
                let Some(piece) = pieces.next() else {
                    let short = format!("it ends after {first_row} of {promised} rows");
                    return if first_row < promised { Err(short) } else { Ok(None) };
                };
                if group != Some(piece.group) {
                    cursors = self.file.cursors(piece.group, &places)?;
                    group = Some(piece.group);
                }
                let names = leaves.iter().map(|(name, _)| name.clone());
                let columns = names.zip(&mut cursors).map(|(name, cursor)| {
                    let column = cursor(&piece.ranges)?;
                    Ok((name, column))
                });
                let mut columns = columns.collect::<Result<Vec<_>, String>>()?;
                let rows = piece.ranges.iter().map(Range::len).sum();
                columns.extend(constant.iter().map(|(name, text)| {
                    let texts = TextColumn::constant(*text, rows);
                    (name.clone(), Column::Supplied(texts))
                }));
                Ok(Some(Batch {
                    place: &self.place,
                    is_text: self.is_text,
                    first_row,
                    rows,
                    columns,
                }))
            });
            let batch = next.transpose()?;
            match &batch {
                Ok(batch) => first_row += batch.len(),
                // Nothing follows damage.
                Err(_) => {
                    pieces = Vec::new().into_iter();
                    first_row = promised;
                }
            }
            Some(batch)
        }))
    }

    /// The rows in `ranges`, or all, cut where row groups end and so that no piece is too large.
    fn pieces(&self, ranges: Option<&[Range<usize>]>) -> Vec<Piece> {
        let all = 0..usize::MAX;
        let ranges = ranges.unwrap_or(std::slice::from_ref(&all));
        let mut pieces = Vec::new();
        let (mut start, mut at) = (0usize, 0);
        for (group, rows) in self.file.groups().into_iter().enumerate() {
            let end = start.saturating_add(rows);
            let mut piece = Piece {
                group,
                ranges: Vec::new(),
            };
            let mut held = 0;
            while let Some(range) = ranges.get(at) {
                let mut from = range.start.max(start);
                let to = range.end.min(end);
                while from < to {
                    let taken = (to - from).min(ROWS_PER_BATCH - held);
                    piece.ranges.push(from - start..from - start + taken);
                    from += taken;
                    held += taken;
                    if held == ROWS_PER_BATCH {
                        let ranges = std::mem::take(&mut piece.ranges);
                        pieces.push(Piece { group, ranges });
                        held = 0;
                    }
                }
                if range.end > end {
                    break;
                }
                at += 1;
            }
            if held > 0 {
                pieces.push(piece);
            }
            start = end;
        }
        pieces
    }
}

/// Rows of one row group, counted from its first.
struct Piece {
    group: usize,
    ranges: Vec<Range<usize>>,
}

/// Runs a step of the Parquet reader, which answers some kinds of damage with a panic.
fn guard<T, E: fmt::Display>(place: &str, step: impl FnOnce() -> Result<T, E>) -> Result<T> {
    let detail = match caught(step) {
        Some(Ok(value)) => return Ok(value),
        Some(Err(error)) => error.to_string().replace('\n', " "),
        None => "its pages contradict each other".to_owned(),
    };
    Err(Error::bad_input(format!(
        "{place}: this is not a whole Parquet file ({detail}); allowed: a complete Parquet file"
    )))
}

/// The cells of a column of a batch, as one of our types.
pub(super) enum Cells<'a> {
    Texts(Texts<'a>),
    Wholes(Values<'a, i64>),
    Reals(Values<'a, f64>),
    Flags(Values<'a, bool>),
}

impl<'a> Cells<'a> {
    pub fn get(&self, row: usize) -> Option<Cell<'a>> {
        match self {
            Self::Texts(texts) => texts.get(row).map(Cell::Text),
            Self::Wholes(wholes) => wholes[row].map(Cell::Whole),
            Self::Reals(reals) => reals[row].map(Cell::Real),
            Self::Flags(flags) => flags[row].map(Cell::Flag),
        }
    }
}

/// A column of the layout.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "nothing is decoded or written without `dataset`")]
pub(super) struct Field<'a> {
    pub name: &'a str,
    pub kind: Kind,
    pub may_be_null: bool,
}

/// Values by row; `None` if one is null.
#[allow(dead_code, reason = "nothing is decoded or written without `dataset`")]
pub(super) enum Column {
    /// Texts.
    Texts(TextColumn),
    /// 64-bit integers.
    Counts(Vec<Option<i64>>),
    /// Real numbers of either width.
    Numbers(Vec<Option<f64>>),
    /// True and false.
    Flags(Vec<Option<bool>>),
    /// What the file lacks and its reader supplies.
    Supplied(TextColumn),
    /// Something that none of our columns is, in the format's words.
    Other(String),
}

impl Column {
    /// What it holds, for messages.
    pub fn kind(&self) -> &str {
        match self {
            Self::Texts(_) | Self::Supplied(_) => "text",
            Self::Counts(_) => "64-bit integers",
            Self::Numbers(_) => "floating-point numbers",
            Self::Flags(_) => "true or false",
            Self::Other(kind) => kind,
        }
    }
}

/// Every text once, and which of them a row has.
#[derive(Default)]
pub(super) struct TextColumn {
    pub keys: Vec<Option<u32>>,
    pub texts: Vec<Box<str>>,
}

impl TextColumn {
    pub fn get(&self, row: usize) -> Option<&str> {
        self.keys[row].map(|key| &*self.texts[key as usize])
    }

    /// The same text, or null, in all of `rows` rows.
    pub fn constant(text: Option<&str>, rows: usize) -> Self {
        Self {
            keys: vec![text.map(|_| 0); rows],
            texts: text.into_iter().map(Into::into).collect(),
        }
    }
}

/// Consecutive rows of a file.
pub(super) struct Batch<'a> {
    place: &'a str,
    is_text: bool,
    first_row: usize,
    rows: usize,
    columns: Vec<(String, Column)>,
}

impl Batch<'_> {
    /// How many rows there are.
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// The place of row `row` of this batch, for messages; the first row of the file is row 1.
    ///
    /// Only meaningful when all rows are read.
    pub fn position(&self, row: usize) -> String {
        format!("{}: row {}", self.place, self.first_row + row + 1)
    }

    /// These columns, each read as its type.
    pub fn cells<'c>(&self, columns: impl Iterator<Item = (&'c str, Kind)>) -> Result<Vec<Cells<'_>>> {
        columns.map(|(column, kind)| self.cells_of(column, kind)).collect()
    }

    /// A column, read as this type.
    pub fn cells_of(&self, column: &str, kind: Kind) -> Result<Cells<'_>> {
        Ok(match kind {
            Kind::Text => Cells::Texts(self.texts(column)?),
            Kind::Whole => Cells::Wholes(self.counts(column)?),
            Kind::Real => Cells::Reals(self.numbers(column)?),
            Kind::Flag => Cells::Flags(self.flags(column)?),
        })
    }

    /// A column of texts.
    pub fn texts(&self, column: &str) -> Result<Texts<'_>> {
        match self.column(column)? {
            Column::Texts(texts) | Column::Supplied(texts) => Ok(Texts(texts)),
            other => Err(self.wrong_type(column, other.kind(), "text")),
        }
    }

    /// A column of whole numbers.
    fn counts(&self, column: &str) -> Result<Values<'_, i64>> {
        let allowed = "64-bit integers";
        match self.column(column)? {
            Column::Counts(counts) => Ok(counts.into()),
            other => Ok(self.parsed(column, other, allowed, csv::whole)?.into()),
        }
    }

    /// A column of real numbers.
    fn numbers(&self, column: &str) -> Result<Values<'_, f64>> {
        let allowed = "numbers";
        match self.column(column)? {
            Column::Numbers(numbers) => Ok(numbers.into()),
            Column::Counts(counts) => {
                let numbers = counts.iter().map(|count| count.map(|count| count as f64));
                Ok(numbers.collect())
            }
            other => Ok(self.parsed(column, other, allowed, |text| text.parse().ok())?.into()),
        }
    }

    /// A column of true and false.
    fn flags(&self, column: &str) -> Result<Values<'_, bool>> {
        let allowed = "true or false";
        match self.column(column)? {
            Column::Flags(flags) => Ok(flags.into()),
            other => Ok(self.parsed(column, other, allowed, csv::flag)?.into()),
        }
    }

    /// The values that the cells of a table in CSV, or a supplied column, spell.
    fn parsed<T>(
        &self,
        column: &str,
        content: &Column,
        allowed: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let texts = match content {
            Column::Texts(texts) if self.is_text => texts,
            Column::Supplied(texts) => texts,
            other => return Err(self.wrong_type(column, other.kind(), allowed)),
        };
        let cells = (0..self.rows).map(|row| match texts.get(row) {
            None => Ok(None),
            Some(text) => match parse(text) {
                Some(value) => Ok(Some(value)),
                None => Err(self.wrong_type(column, &format!("`{text}`"), allowed)),
            },
        });
        cells.collect()
    }

    /// A cell of any column as text; empty where it is null.
    pub fn written(&self, column: &str, row: usize) -> Result<String> {
        let text = match self.column(column)? {
            Column::Texts(texts) | Column::Supplied(texts) => texts.get(row).map(str::to_owned),
            Column::Counts(counts) => counts[row].map(|count| count.to_string()),
            Column::Numbers(numbers) => numbers[row].map(|number| number.to_string()),
            Column::Flags(flags) => flags[row].map(|flag| flag.to_string()),
            other @ Column::Other(_) => {
                let allowed = "texts, numbers, or true and false";
                return Err(self.wrong_type(column, other.kind(), allowed));
            }
        };
        Ok(text.unwrap_or_default())
    }

    fn column(&self, column: &str) -> Result<&Column> {
        let mut columns = self.columns.iter();
        let found = columns.find(|(name, _)| name == column);
        found
            .map(|(_, column)| column)
            .ok_or_else(|| Error::bad_input(format!("{}: the column `{column}` is missing", self.place)))
    }

    fn wrong_type(&self, column: &str, found: &str, allowed: &str) -> Error {
        Error::bad_input(format!(
            "{}: the column `{column}` holds {found}; allowed: {allowed}",
            self.place
        ))
    }
}

/// A column of other values by row, `None` where it is null.
pub(super) type Values<'a, T> = Cow<'a, [Option<T>]>;

/// A column of texts that repeat.
pub(super) struct Texts<'a>(&'a TextColumn);

impl<'a> Texts<'a> {
    /// The text of a row; `None` if it is null.
    pub fn get(&self, row: usize) -> Option<&'a str> {
        self.0.get(row)
    }

    /// Rows of one batch with equal keys hold equal texts.
    pub fn key(&self, row: usize) -> Option<u32> {
        self.0.keys[row]
    }
}
