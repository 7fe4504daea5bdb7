//! A crash-safe journal: rows are appended as JSON lines, one write each, and become Parquet at the
//! end.
//!
//! `FILE.parquet.journal` begins with a header that identifies the run. A kill tears at most the
//! last line, which the next run drops. The Parquet file is written atomically, and the journal is
//! removed only after it.

mod header;

pub use header::{Header, RunKey};

use super::device::canonical;
use crate::dataset::steps::{MeasuredStep, read_steps, steps_path, write_steps};
use crate::dataset::{self, Row, SCRIPTED, line};
use crate::error::{Error, Result, require_regular};
use crate::gpu::{Gpu, GpuCatalog};
use crate::measure::plan::Set;
use crate::ops::Op;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The key of the header in the metadata of the Parquet file.
const RUN_KEY: &str = "shapewise.measure";

/// Rows between two calls of fsync: a power cut, unlike a kill, can lose as many.
const ROWS_PER_SYNC: usize = 256;

/// What to do with a file or journal of an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse it.
    Refuse,
    /// Continue it.
    Resume,
    /// Replace it.
    Replace,
}

/// A line of the journal that is not the header.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// A row.
    Row(Map<String, Value>),
    /// A whole step.
    Step(Box<MeasuredStep>),
    /// A case that failed, as the object of its columns, and why; a resumed run skips it.
    Failed { case: Value, reason: String },
}

/// An open journal, locked against other runs until it is dropped.
#[derive(Debug)]
pub struct Journal {
    target: PathBuf,
    path: PathBuf,
    file: File,
    unsynced: usize,
    /// Length of the header and of all whole lines.
    whole: u64,
}

/// Rows and failures of the run that is continued.
#[derive(Debug, Default)]
pub struct Earlier {
    /// The header; none in a new run.
    pub header: Option<Header>,
    /// Rows of the journal and of the finished file that it continues.
    pub rows: Vec<Row>,
    /// Whole steps, of both likewise.
    pub steps: Vec<MeasuredStep>,
    /// Canonical text of the cases that failed, and why.
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

/// Refuses a target that cannot or must not be written, before a device is opened.
pub fn check_target(target: &Path, existing: Existing) -> Result<()> {
    dataset::check_target(target)?;
    if fs::metadata(target).is_ok_and(|about| !about.is_file()) {
        return Err(Error::bad_input(format!(
            "--out {} is a pipe or a device; allowed: a file, as a run writes more beside it",
            target.display()
        )));
    }
    if existing == Existing::Refuse {
        for path in [target.to_owned(), steps_path(target), path_of(target)] {
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
    /// Opens and locks the journal of a target, and reads the rows of the run that is continued.
    pub fn open(target: &Path, existing: Existing, wanted: &RunKey) -> Result<(Self, Earlier)> {
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
            // Some network file systems have no locks; the journal is crash-safe without.
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
        let earlier = journal.read(existing, wanted)?;
        journal.truncate()?;
        Ok((journal, earlier))
    }

    /// Cuts off everything behind the last whole line.
    fn truncate(&mut self) -> Result<()> {
        let fail = |source| Error::io(&self.path, source);
        self.file.set_len(self.whole).map_err(fail)?;
        io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.whole)).map_err(fail)?;
        Ok(())
    }

    fn read(&mut self, existing: Existing, wanted: &RunKey) -> Result<Earlier> {
        require_regular(&self.path)?;
        let text = fs::read(&self.path).map_err(|source| Error::io(&self.path, source))?;
        let mut earlier = Earlier::default();
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').enumerate();
        let place = |number: usize| format!("{}: line {}", self.path.display(), number + 1);
        let broken = |number: usize, line: &[u8], error: serde_json::Error| {
            let error = error.to_string().replace('\n', " ");
            let (problem, allowed) = match of_another_version(line) {
                Some(what) => (
                    format!("{what}, which this version does not measure"),
                    "the version that began the run (`source` in line 1), with --resume, to end it",
                ),
                None => (
                    format!("not a line of a journal ({error})"),
                    "a journal of `shapewise measure`",
                ),
            };
            Error::bad_input(format!(
                "{}: {problem}; allowed: {allowed}, or --force to begin anew",
                place(number)
            ))
        };
        // A header without its line break was never finished, so there are no rows behind it.
        if let Some((number, first)) = lines.next().filter(|(_, line)| line.ends_with(b"\n")) {
            let header: Header = serde_json::from_slice(first).map_err(|error| broken(number, first, error))?;
            header.check(wanted, &self.path)?;
            let shared = header.shared();
            self.whole = first.len() as u64;
            for (number, line) in lines {
                if !line.ends_with(b"\n") {
                    earlier.torn = true;
                    break;
                }
                match serde_json::from_slice(line).map_err(|error| broken(number, line, error))? {
                    Line::Row(row) => {
                        let row = line::from_object(&row, &shared, &place(number))?;
                        earlier.rows.push(row);
                    }
                    Line::Step(step) => earlier.steps.push(*step),
                    Line::Failed { case, reason } => earlier.failed.push((case.to_string(), reason)),
                }
                self.whole += line.len() as u64;
            }
            earlier.header = Some(header);
        }
        let continues = earlier.header.as_ref().is_none_or(|header| header.continues);
        if continues && self.target.exists() && existing == Existing::Resume {
            let (header, rows) = finished(&self.target, wanted)?;
            // The journal may hold rows that the file has already: killed between the two.
            let known: HashSet<String> = rows.iter().map(fingerprint).collect();
            earlier.rows.retain(|row| !known.contains(&fingerprint(row)));
            earlier.rows.splice(0..0, rows);
            let beside = steps_path(&self.target);
            if beside.exists() {
                let steps = read_steps(&beside)?;
                earlier.steps.retain(|step| !steps.contains(step));
                earlier.steps.splice(0..0, steps);
            }
            earlier.header.get_or_insert(Header {
                continues: true,
                ..header
            });
        }
        Ok(earlier)
    }

    /// Writes the header of a new run; a continued journal has one already.
    pub fn begin(&mut self, header: &Header) -> Result<()> {
        if self.whole > 0 {
            return Ok(());
        }
        self.append(header)?;
        self.sync()
    }

    /// Appends a row.
    pub fn row(&mut self, row: &Row) -> Result<()> {
        self.line(&Line::Row(line::to_object(row)?))
    }

    /// Appends a whole step.
    pub fn step(&mut self, step: &MeasuredStep) -> Result<()> {
        self.line(&Line::Step(Box::new(step.clone())))
    }

    /// Appends a case that failed.
    pub fn failed(&mut self, op: &Op, reason: &str) -> Result<()> {
        self.line(&Line::Failed {
            case: serde_json::from_str(&canonical(op)).expect("the canonical text is JSON"),
            reason: reason.to_owned(),
        })
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        self.append(line)?;
        self.unsynced += 1;
        match self.unsynced >= ROWS_PER_SYNC {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// One write, so that a kill leaves a whole line or a torn last one.
    fn append(&mut self, line: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(line).expect("a line has only plain fields");
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

    /// Flushes the journal to the disk, so that its lines survive a power cut.
    pub fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        self.file.sync_data().map_err(|source| Error::io(&self.path, source))
    }

    /// Checks that the disk has room for this many bytes, before any case is timed.
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

    /// Writes the Parquet file with all rows and the description of their GPU, beside it that of the
    /// whole steps if there are any, then removes the journal.
    pub fn finish(mut self, header: &Header, rows: &[Row], steps: &[MeasuredStep], gpu: &Gpu) -> Result<()> {
        self.sync()?;
        let beside = steps_path(&self.target);
        match steps.is_empty() {
            false => write_steps(&beside, steps, gpu, &header.run.identity.stack)?,
            true => remove(&beside)?,
        }
        let gpus: GpuCatalog = Some(gpu.clone())
            .into_iter()
            .filter(|gpu| gpu.name != SCRIPTED)
            .collect();
        let text = serde_json::to_string(header).expect("a header has only plain fields");
        dataset::write_with(&self.target, rows, &gpus, &[(RUN_KEY, text)])?;
        // The new name must be on disk before the old one goes.
        if let Some(folder) = self.target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        fs::remove_file(&self.path).map_err(|source| Error::io(&self.path, source))
    }

    /// Removes the journal of a run without rows.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A run that ends before it has a header leaves no journal.
impl Drop for Journal {
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|about| about.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a whole line of another version holds: a case of a set that no plan has now, or a kind of line that is gone.
fn of_another_version(line: &[u8]) -> Option<String> {
    let line: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let (kind, content) = line.iter().next().filter(|_| line.len() == 1)?;
    let set = content.get("set").or_else(|| content.get("case")?.get("set"));
    match set.and_then(Value::as_str) {
        Some(set) if Set::parse(set).is_none() => Some(format!("`{kind}` of the set `{set}`")),
        // A sustained load.
        _ => (kind == "load").then(|| format!("`{kind}`")),
    }
}

/// Removes a file, if there is one: a run that begins anew leaves nothing of the one that it replaces.
fn remove(path: &Path) -> Result<()> {
    match path.exists() {
        true => fs::remove_file(path).map_err(|source| Error::io(path, source)),
        false => Ok(()),
    }
}

/// A hidden file beside the target.
fn sibling(target: &Path, suffix: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{suffix}"))
}

/// Removes partial files of killed runs; the lock excludes a live writer.
fn sweep(target: &Path) {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let prefix = format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy());
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
fn finished(target: &Path, wanted: &RunKey) -> Result<(Header, Vec<Row>)> {
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

/// Text that identifies a measurement: no two have the same start time.
fn fingerprint(row: &Row) -> String {
    line::to_object(row).map_or_else(|_| String::new(), |object| Value::Object(object).to_string())
}
