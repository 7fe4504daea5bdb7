//! Importing public timing tables: a map of `data/imports` for each source, one loop for all.
//!
//! A map says what a file of its source holds, judged by the file's columns: which of them name the GPU and the stack, and how
//! one row becomes operators and times. The loop reads those columns first, so that rows the caller did not ask for are never
//! decoded.

mod cookbook;
mod map;

use super::alarms::objection;
use super::column::Cell;
use super::columns::{Parquet, Supplied, Texts};
use super::schema;
use super::{Origin, Row, Skipped, Table};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::ops::{Experts, Op};
use crate::units::Seconds;
use map::{MAPS, Map, Untuned};
use rayon::prelude::*;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A publisher of timing tables whose files can be imported: a file of `data/imports`.
#[derive(Clone, Copy)]
pub struct Source(&'static Map);

impl Source {
    /// All of them, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        MAPS.values().map(Self)
    }

    /// The source of this name.
    pub fn find(name: &str) -> Option<Self> {
        MAPS.get(name).map(Self)
    }

    /// The name of its file, used on the command line.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// The source whose tables have the columns of this file; `None` if none has.
    pub fn recognise(path: &Path, filter: &Filter) -> Result<Option<Self>> {
        let mut file = open(path)?;
        let known = |source: &Self| source.table(&mut file, path, filter).is_some();
        Ok(Self::all().find(known))
    }

    /// How to read this file, whose missing columns are supplied; `None` if it is not of this source.
    fn table(self, file: &mut Parquet, path: &Path, filter: &Filter) -> Option<&'static map::Table> {
        file.supply(self.0.supplied(path, filter));
        self.0.table(file)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Opens a table, or a log of cookbook as one.
fn open(path: &Path) -> Result<Parquet> {
    match cookbook::is_log(path) {
        true => cookbook::open_log(path),
        false => Parquet::open(path),
    }
}

/// Which rows to import, and what the caller knows of files that do not say it; the default is all rows and nothing.
///
/// One GPU, one stack, the source and the licence hold for all rows of files that name none.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only these GPUs, by name or alias.
    pub gpus: Option<Vec<String>>,
    /// Only these stacks, as in [`Row::stack`] (`trtllm 1.3.0rc20`).
    pub stacks: Option<Vec<String>>,
    /// What rows are that do not say it.
    pub stated: Stated,
}

/// What rows of a file are that has no such columns.
#[derive(Clone, Debug, Default)]
pub struct Stated {
    /// The GPU, where [`Filter::gpus`] has more than one or none.
    pub gpu: Option<String>,
    /// [`Row::stack`], where [`Filter::stacks`] has more than one or none.
    pub stack: Option<String>,
    /// [`Origin::source`].
    pub source: Option<String>,
    /// [`Origin::licence`].
    pub licence: Option<String>,
}

impl Stated {
    /// What rows are that are read and not kept, so that it need not be known.
    pub fn unknown() -> Self {
        let unknown = || Some("unknown".to_owned());
        Self {
            gpu: None,
            stack: unknown(),
            source: unknown(),
            licence: unknown(),
        }
    }
}

/// Imports files of one source; what is not kept is counted with its reason.
pub fn import<P: AsRef<Path> + Sync>(source: Source, paths: &[P], filter: &Filter) -> Result<Table> {
    let wanted = filter.resolved(|name| Gpu::find(name).map(|gpu| gpu.name.clone()))?;
    let tables: Vec<Table> = paths
        .par_iter()
        .map(|path| import_file(source, path.as_ref(), &wanted))
        .collect::<Result<_>>()?;
    let mut all = Table::default();
    for mut table in tables {
        all.skipped.merge(&table.skipped);
        all.rows.append(&mut table.rows);
    }
    Ok(all)
}

/// Why a row is not kept.
type Reason = String;

/// Why a row with this text in a column is not kept.
fn unknown(column: &str, value: Option<&str>) -> Reason {
    format!(
        "`{column}` is {}, which is no operator, format or pattern of ours",
        value.filter(|text| !text.is_empty()).unwrap_or("null")
    )
}

/// What a row says besides GPU and stack.
struct Reading<'a> {
    op: Op,
    time: Seconds,
    group: Option<u64>,
    libraries: Option<&'a str>,
}

/// A GPU and a stack.
struct Place {
    gpu: &'static Gpu,
    name: Arc<str>,
    stack: Arc<str>,
}

/// Consecutive rows of one GPU and stack.
type Run = (Range<usize>, Arc<Place>);

fn import_file(source: Source, path: &Path, wanted: &Filter) -> Result<Table> {
    let mut file = open(path)?;
    let about = source.table(&mut file, path, wanted).ok_or_else(|| {
        Error::bad_input(format!(
            "{}: no table of {} has these columns; allowed: {}",
            file.place(),
            source.name(),
            source.0.holds
        ))
    })?;
    let (runs, skipped) = locate(&file, about, wanted)?;
    let ranges: Vec<Range<usize>> = runs.iter().map(|(range, _)| range.clone()).collect();
    let mut places = runs
        .iter()
        .flat_map(|(range, place)| range.clone().map(move |row| (row, place)));
    let mut origins = Vec::new();
    let mut table = Table {
        rows: Vec::with_capacity(ranges.iter().map(Range::len).sum()),
        skipped,
    };
    let mut numbers = Vec::new();
    let columns = &about.columns.0;
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    for batch in file.batches(&names, Some(&ranges))? {
        let batch = batch?;
        let cells = batch.cells(columns.iter().copied())?;
        for (row, (number, place)) in (0..batch.len()).zip(&mut places) {
            about.read(&|column| cells[column].get(row), |reading| {
                let kept = reading.and_then(|reading| {
                    let origin = origin(&mut origins, source, reading.libraries);
                    keep(reading, place, origin)
                });
                match kept {
                    Ok(row) => {
                        table.rows.push(row);
                        numbers.extend(about.untuned.map(|_| number));
                    }
                    Err(reason) => table.skipped.add_at(&reason, 1, || Some(file.position(number))),
                }
            });
        }
    }
    if let Some(untuned) = about.untuned {
        leave_out_untuned(&mut table, untuned, |kept| file.position(numbers[kept]));
    }
    table.rows.shrink_to_fit();
    Ok(table)
}

/// Leaves out MoE layers that take longer, by a factor, than one of the same size and load with at least as many tokens on no
/// more ranks; `position` says where a row was.
fn leave_out_untuned(table: &mut Table, untuned: &Untuned, position: impl Fn(usize) -> String) {
    let Untuned { stack, factor } = untuned;
    let layer = |row: &Row| match row.op {
        Op::Experts(op) if row.stack.starts_with(stack) => {
            let alike = Experts {
                tokens: 1,
                width_shards: 1,
                expert_shards: 1,
                ..op
            };
            Some(((Arc::clone(&row.gpu), Arc::clone(&row.stack), alike), op))
        }
        _ => None,
    };
    let mut timed: HashMap<_, Vec<(Experts, Seconds)>> = HashMap::new();
    for row in &table.rows {
        if let Some((key, op)) = layer(row) {
            timed.entry(key).or_default().push((op, row.time));
        }
    }
    let is_tuned = |row: &Row| {
        layer(row).is_none_or(|(key, op)| {
            timed[&key].iter().all(|(other, time)| {
                *time * *factor >= row.time
                    || other.tokens < op.tokens
                    || other.width_shards > op.width_shards
                    || other.expert_shards > op.expert_shards
            })
        })
    };
    let reason = format!("over {factor} times as slow as an MoE layer with more work, as if its kernel was not tuned");
    let mut kept = 0..;
    table.rows.retain(|row| {
        let (tuned, at) = (is_tuned(row), kept.next());
        table.skipped.add_at(&reason, u64::from(!tuned), || at.map(&position));
        tuned
    });
}

/// Checks a reading and makes it a row.
fn keep(reading: Reading<'_>, place: &Place, origin: Arc<Origin>) -> Result<Row, Reason> {
    let (gpu, stack) = (Arc::clone(&place.name), Arc::clone(&place.stack));
    let row = Row {
        group: reading.group,
        origin,
        ..Row::new(reading.op, gpu, stack, reading.time)
    };
    schema::check(&row).map_err(|problem| format!("`{}` is not {}", problem.column, problem.allowed))?;
    objection(&row, place.gpu).map_or(Ok(row), Err)
}

/// Finds the rows of wanted GPUs and stacks from the identifying columns alone.
fn locate(file: &Parquet, table: &map::Table, wanted: &Filter) -> Result<(Vec<Run>, Skipped)> {
    let mut runs: Vec<Run> = Vec::new();
    let mut skipped = Skipped::default();
    let mut known: HashMap<Vec<String>, Result<Arc<Place>, Reason>> = HashMap::new();
    let mut next_row = 0;
    for batch in file.batches(&table.identity, None)? {
        let batch = batch?;
        let columns = table.identity.iter().map(|column| batch.texts(column));
        let columns: Vec<Texts<'_>> = columns.collect::<Result<_>>()?;
        let same = |a: usize, b: usize| columns.iter().all(|texts| texts.key(a) == texts.key(b));
        let mut start = 0;
        while start < batch.len() {
            let end = (start + 1..batch.len())
                .find(|&row| !same(start, row))
                .unwrap_or(batch.len());
            let texts = columns.iter().map(|texts| texts.get(start).unwrap_or(""));
            let texts: Vec<&str> = texts.collect();
            let decided = known
                .entry(texts.iter().map(|&text| text.to_owned()).collect())
                .or_insert_with(|| wanted.place(table.identify(&|column| Some(Cell::Text(texts[column])))));
            match decided {
                Ok(place) => runs.push((next_row + start..next_row + end, Arc::clone(place))),
                Err(reason) => {
                    let first = || Some(file.position(next_row + start));
                    skipped.add_at(reason, (end - start) as u64, first);
                }
            }
            start = end;
        }
        next_row += batch.len();
    }
    Ok((runs, skipped))
}

impl Filter {
    /// The filter with the names of GPUs as rows have them, which `resolve` answers.
    pub fn resolved(&self, resolve: impl Fn(&str) -> Result<String>) -> Result<Self> {
        let resolve_all = |names: &Vec<String>| names.iter().map(|name| resolve(name)).collect();
        Ok(Self {
            gpus: self.gpus.as_ref().map(resolve_all).transpose()?,
            ..self.clone()
        })
    }

    /// The one stack that the caller names.
    pub(super) fn only_stack(&self) -> Option<&str> {
        match self.stacks.as_deref() {
            Some([stack]) => Some(stack),
            _ => None,
        }
    }

    /// The one GPU that the caller names.
    pub(super) fn only_gpu(&self) -> Option<&str> {
        match self.gpus.as_deref() {
            Some([gpu]) => Some(gpu),
            _ => None,
        }
    }

    /// What holds for all rows of a file without such columns.
    pub(super) fn supplied(&self) -> impl Iterator<Item = (&'static str, Supplied)> {
        let stated = &self.stated;
        let columns = [
            ("gpu", self.only_gpu().or(stated.gpu.as_deref())),
            ("stack", self.only_stack().or(stated.stack.as_deref())),
            ("source", stated.source.as_deref()),
            ("licence", stated.licence.as_deref()),
        ];
        let columns = columns.into_iter();
        columns.filter_map(|(name, text)| Some((name, Supplied::Text(text?.to_owned()))))
    }

    /// Why rows of this GPU, by its name, and this stack are not wanted; `None` if they are.
    pub fn objection(&self, gpu: &str, stack: &str) -> Option<String> {
        let lacks = |names: &Option<Vec<String>>, wanted: &str| {
            let names = names.as_ref();
            names.is_some_and(|names| !names.iter().any(|name| name.eq_ignore_ascii_case(wanted)))
        };
        if lacks(&self.gpus, gpu) {
            return Some(format!("GPU `{gpu}` was not asked for"));
        }
        lacks(&self.stacks, stack).then(|| format!("stack `{stack}` was not asked for"))
    }

    /// The table for this GPU and stack, or the reason why it is skipped.
    fn place(&self, (gpu, stack): (String, String)) -> Result<Arc<Place>, Reason> {
        let known = Gpu::find(&gpu).map_err(|_| format!("GPU `{gpu}` is not in data/gpus"))?;
        let place = || Place {
            gpu: known,
            name: known.name.as_str().into(),
            stack: stack.as_str().into(),
        };
        let objection = self.objection(&known.name, &stack);
        objection.map_or_else(|| Ok(Arc::new(place())), Err)
    }
}

/// The origin of rows with these libraries, which is made once a file.
fn origin(known: &mut Vec<Arc<Origin>>, source: Source, libraries: Option<&str>) -> Arc<Origin> {
    let mut origins = known.iter();
    if let Some(origin) = origins.find(|origin| origin.libraries.as_deref() == libraries) {
        return Arc::clone(origin);
    }
    let origin = Arc::new(Origin {
        source: source.0.repository.to_owned(),
        licence: source.0.licence.to_owned(),
        libraries: libraries.map(str::to_owned),
    });
    known.push(Arc::clone(&origin));
    origin
}
