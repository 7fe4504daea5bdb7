//! A file that a kill does not hurt: rows are appended as JSON lines, one write each, and become Parquet at the end.
//!
//! `FILE.parquet.journal` begins with a header that says whose rows follow. At most the last line can be torn; it is
//! dropped when a run continues. The Parquet file is written whole or not at all, and the journal goes only after it.

mod header;

pub use header::{Header, Wanted};

use crate::dataset;
use crate::dataset::Row;
use crate::dataset::line;
use crate::error::Error;
use crate::error::Result;
use crate::gpu::GpuCatalog;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The key of the header in the metadata of the Parquet file.
const RUN_KEY: &str = "shapewise.measure";

/// Rows between two fsyncs: a power cut, unlike a kill, can lose as many.
const ROWS_PER_SYNC: usize = 256;

/// What to do with what is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse it.
    Refuse,
    /// Go on with it.
    Resume,
    /// Begin anew and replace it.
    Replace,
}

/// A line of the journal that is not the header.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// A row.
    Row(Map<String, Value>),
    /// A case that failed, and why: it is not tried again.
    Failed { case: String, reason: String },
}

/// An open journal; nobody else can open it until it is dropped.
#[derive(Debug)]
pub struct Journal {
    target: PathBuf,
    path: PathBuf,
    file: File,
    unsynced: usize,
    /// Length of the header and of all whole lines.
    whole: u64,
}

/// What an earlier run has left.
#[derive(Debug, Default)]
pub struct Left {
    /// The header; none where the run begins anew.
    pub header: Option<Header>,
    /// Rows of the journal and of the finished file that it continues.
    pub rows: Vec<Row>,
    /// Cases that failed, and why.
    pub failed: Vec<(String, String)>,
    /// Whether the last line was torn.
    pub torn: bool,
}

/// The journal of a target.
pub fn path_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".journal");
    target.with_file_name(name)
}

/// Refuses, before a device is opened, a target that cannot be written or must not be.
pub fn check_target(target: &Path, existing: Existing) -> Result<()> {
    dataset::check_target(target)?;
    if existing == Existing::Refuse {
        for path in [target.to_owned(), path_of(target)] {
            if path.exists() {
                return Err(Error::bad_input(format!(
                    "--out {}: {} exists already; allowed: --resume to go on with it, --force to replace it, or a new file",
                    target.display(),
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

impl Journal {
    /// Opens the journal of a target, locks it, and reads what an earlier run has left.
    pub fn open(target: &Path, existing: Existing, wanted: &Wanted<'_>) -> Result<(Self, Left)> {
        check_target(target, existing)?;
        let path = path_of(target);
        let fail = |source| Error::io(&path, source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::bad_input(format!(
                    "{}: another run is writing to it; allowed: waiting for it, or another --out",
                    path.display()
                )));
            }
            // Some network file systems know no locks; the run is no less safe from kills there.
            Err(TryLockError::Error(_)) => {}
        }
        let mut journal = Self {
            target: target.to_owned(),
            path: path.clone(),
            file,
            unsynced: 0,
            whole: 0,
        };
        if existing == Existing::Replace {
            journal.truncate()?;
        }
        sweep(target);
        let left = match journal.read(existing, wanted) {
            Ok(left) => left,
            Err(error) => {
                // An empty journal was made just now, and says nothing.
                if journal.file.metadata().is_ok_and(|about| about.len() == 0) {
                    journal.discard();
                }
                return Err(error);
            }
        };
        journal.truncate()?;
        Ok((journal, left))
    }

    /// Cuts off everything behind the last whole line.
    fn truncate(&mut self) -> Result<()> {
        let fail = |source| Error::io(&self.path, source);
        self.file.set_len(self.whole).map_err(fail)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.whole)).map_err(fail)?;
        Ok(())
    }

    fn read(&mut self, existing: Existing, wanted: &Wanted<'_>) -> Result<Left> {
        let text = fs::read(&self.path).map_err(|source| Error::io(&self.path, source))?;
        let mut left = Left::default();
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').enumerate();
        let place = |number: usize| format!("{}: line {}", self.path.display(), number + 1);
        let broken = |number: usize, error: serde_json::Error| {
            let error = error.to_string().replace('\n', " ");
            Error::bad_input(format!(
                "{}: not a line of a journal ({error}); allowed: a journal of `shapewise measure`, or --force to begin anew",
                place(number)
            ))
        };
        // A header without its line break was never finished, so there are no rows behind it.
        if let Some((number, first)) = lines.next().filter(|(_, line)| line.ends_with(b"\n")) {
            let header: Header =
                serde_json::from_slice(first).map_err(|error| broken(number, error))?;
            header.check(wanted, &self.path)?;
            let shared = header.shared();
            self.whole = first.len() as u64;
            for (number, line) in lines {
                if !line.ends_with(b"\n") {
                    left.torn = true;
                    break;
                }
                match serde_json::from_slice(line).map_err(|error| broken(number, error))? {
                    Line::Row(row) => {
                        left.rows
                            .push(line::from_object(&row, &shared, &place(number))?)
                    }
                    Line::Failed { case, reason } => left.failed.push((case, reason)),
                }
                self.whole += line.len() as u64;
            }
            left.header = Some(header);
        }
        let continues = left.header.as_ref().is_none_or(|header| header.continues);
        if continues && self.target.exists() && existing == Existing::Resume {
            let (header, rows) = finished(&self.target, wanted)?;
            // The journal may hold rows that the file has already: killed between the two.
            let known: HashSet<String> = rows.iter().map(fingerprint).collect();
            left.rows.retain(|row| !known.contains(&fingerprint(row)));
            left.rows.splice(0..0, rows);
            left.header.get_or_insert(Header {
                continues: true,
                ..header
            });
        }
        Ok(left)
    }

    /// Writes the header of a run that begins; one that continues a journal has it already.
    pub fn begin(&mut self, header: &Header) -> Result<()> {
        if self.whole > 0 {
            return Ok(());
        }
        let text = serde_json::to_string(header).expect("a header has only plain fields");
        self.append(&text)?;
        self.sync()
    }

    /// Appends a row.
    pub fn row(&mut self, row: &Row) -> Result<()> {
        self.line(&Line::Row(line::to_object(row)?))
    }

    /// Appends a case that failed.
    pub fn failed(&mut self, case: &str, reason: &str) -> Result<()> {
        self.line(&Line::Failed {
            case: case.to_owned(),
            reason: reason.to_owned(),
        })
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line).expect("a line has only plain fields");
        self.append(&text)?;
        self.unsynced += 1;
        match self.unsynced >= ROWS_PER_SYNC {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// One write, so that a kill leaves a whole line or a torn last one.
    fn append(&mut self, text: &str) -> Result<()> {
        let line = format!("{text}\n");
        self.file.write_all(line.as_bytes()).map_err(|source| {
            Error::bad_input(format!(
                "{}: {source}; the rows before this one are safe: make room and go on with --resume",
                self.path.display()
            ))
        })?;
        self.whole += line.len() as u64;
        Ok(())
    }

    /// Makes sure that what was appended survives a power cut.
    pub fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        self.file
            .sync_data()
            .map_err(|source| Error::io(&self.path, source))
    }

    /// Makes sure, before any time is spent, that there is room for this many bytes.
    pub fn reserve(&self, bytes: usize) -> Result<()> {
        let path = sibling(&self.target, "room");
        let written = (|| {
            let mut file = File::create(&path)?;
            let block = vec![b' '; 1 << 16];
            for _ in 0..bytes.div_ceil(block.len()) {
                file.write_all(&block)?;
            }
            file.sync_all()
        })();
        let _ = fs::remove_file(&path);
        written.map_err(|source| {
            Error::bad_input(format!(
                "--out {}: no room for the {} MB that this run may write ({source}); allowed: a file on a disk with room",
                self.target.display(),
                bytes.div_ceil(1_000_000)
            ))
        })
    }

    /// Writes the Parquet file with all rows and the description of their GPU, then removes the journal.
    pub fn finish(mut self, header: &Header, rows: &[Row], gpus: &GpuCatalog) -> Result<()> {
        self.sync()?;
        let text = serde_json::to_string(header).expect("a header has only plain fields");
        dataset::write_with(&self.target, rows, gpus, &[(RUN_KEY, text)])?;
        // The new name must be on disk before the old one goes.
        if let Some(folder) = self
            .target
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        fs::remove_file(&self.path).map_err(|source| Error::io(&self.path, source))
    }

    /// Removes the journal of a run that has measured nothing and began nothing.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A hidden file beside the target.
fn sibling(target: &Path, suffix: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{suffix}"))
}

/// Removes what killed runs have left half written; the lock says that nobody is writing now.
fn sweep(target: &Path) {
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let prefix = format!(
        ".{}.",
        target.file_name().unwrap_or_default().to_string_lossy()
    );
    let entries = fs::read_dir(folder.unwrap_or(Path::new(".")))
        .into_iter()
        .flatten()
        .flatten();
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && (name.ends_with(".partial") || name.ends_with(".room")) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The header and the rows of a finished file.
fn finished(target: &Path, wanted: &Wanted<'_>) -> Result<(Header, Vec<Row>)> {
    let text = dataset::property(target, RUN_KEY)?.ok_or_else(|| {
        Error::bad_input(format!(
            "{}: this table is not of a run of `shapewise measure`, so there is nothing to go on with; allowed: --force to replace it",
            target.display()
        ))
    })?;
    let header: Header = serde_json::from_str(&text).map_err(|error| {
        Error::bad_input(format!(
            "{}: `{RUN_KEY}` in its metadata cannot be read ({error}); allowed: --force to replace it",
            target.display()
        ))
    })?;
    header.check(wanted, target)?;
    Ok((header, dataset::read(target)?))
}

/// Equal for the same measurement only: no two begin at the same time.
fn fingerprint(row: &Row) -> String {
    line::to_object(row).map_or_else(
        |_| String::new(),
        |object| Value::Object(object).to_string(),
    )
}
