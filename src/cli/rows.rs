//! Timing tables on behalf of commands: reading, filtering, and accounting for what is left out.

use crate::answer::sweep::Timing;
use crate::cli::args::{AUTO, FilterArgs, StatedArgs, TargetArgs};
use crate::dataset;
use crate::dataset::trace::Recorder;
use crate::dataset::{Filter, Row, Skipped, Source, Stated, Table};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuCatalog};
use crate::regressor::artifact::Artifact;
use crate::report::tables::SkippedRows;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Publishers whose tables can be imported.
pub(super) fn publishers() -> impl Iterator<Item = &'static str> {
    Source::all().map(Source::name)
}

/// What records traces that can be imported.
pub(super) fn recorders() -> impl Iterator<Item = &'static str> {
    Recorder::NAMES.into_iter()
}

/// The known GPUs and those that the user's own table describes.
pub(super) fn described(target: &TargetArgs) -> Result<GpuCatalog> {
    let mut gpus = GpuCatalog::default();
    if let Some(path) = &target.data {
        gpus.extend(dataset::described_gpus(path)?);
    }
    Ok(gpus)
}

/// The user's own timings on this GPU; empty if no table is named.
pub(super) fn timings(target: &TargetArgs, gpu: &Gpu) -> Result<Vec<Timing>> {
    let Some(path) = &target.data else {
        return Ok(Vec::new());
    };
    // A table that names no GPU is of the one that was asked for, not of the default.
    let is_named = target.request.gpu.is_some() || target.request.model.is_some();
    let known = Filter {
        gpus: is_named.then(|| vec![gpu.name.clone()]),
        ..filter(&FilterArgs::default())
    };
    let mut rows = dataset::timings(dataset::read_known(path, &known)?).rows;
    rows.retain(|row| *row.gpu == *gpu.name || Gpu::find(&row.gpu).is_ok_and(|spelled| spelled.name == gpu.name));
    if rows.is_empty() {
        return Err(Error::infeasible(format!(
            "--data {}: the table has no row of {}",
            path.display(),
            gpu.name
        )));
    }
    let timings = rows.into_iter().map(|row| Timing {
        op: row.op,
        time: row.time,
        stack: row.stack,
    });
    Ok(timings.collect())
}

/// Reads tables of this publisher, of our own schema or, with `auto`, of the one that their columns fit; physically
/// impossible rows are skipped, and those of our own rows that are not the time of their shape. The GPUs that the tables
/// describe are registered in `gpus`.
pub(super) fn read(from: &str, paths: &[PathBuf], filter: &Filter, gpus: &mut GpuCatalog) -> Result<Table> {
    let table = read_all(from, paths, filter, gpus)?;
    let mut timings = dataset::timings(table.rows);
    timings.skipped.merge(&table.skipped);
    filled(timings, &named(paths))
}

/// The names of files, for messages.
pub(super) fn named(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// The same with anchors, repeats, warm caches and other algorithms.
pub(super) fn read_all(from: &str, paths: &[PathBuf], filter: &Filter, gpus: &mut GpuCatalog) -> Result<Table> {
    let table = match Source::find(from) {
        Some(source) => dataset::import(source, paths, filter)?,
        None if from == AUTO => recognised(paths, filter, gpus)?,
        None => native(paths, filter, gpus)?,
    };
    filled(table, &named(paths))
}

/// Reads each table in the schema of its publisher, found by its columns.
pub fn recognised(paths: &[PathBuf], filter: &Filter, gpus: &mut GpuCatalog) -> Result<Table> {
    let mut all = Table::default();
    for path in paths {
        let mut table = match Source::recognise(path, filter)? {
            Some(source) => dataset::import(source, &[path], filter)?,
            None => native(std::slice::from_ref(path), filter, gpus)?,
        };
        all.rows.append(&mut table.rows);
        all.skipped.merge(&table.skipped);
    }
    Ok(all)
}

/// Which rows or runs are asked for.
pub(super) fn filter(args: &FilterArgs) -> Filter {
    let names = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    Filter {
        gpus: names(&args.gpu),
        stacks: names(&args.stack),
        stated: Stated::unknown(),
    }
}

/// What all rows share that are kept, of this GPU and stack.
pub(super) fn stated(args: &StatedArgs, gpu: Option<&String>, stack: Option<&String>) -> Stated {
    Stated {
        gpu: gpu.cloned(),
        stack: stack.cloned(),
        source: args.source.clone(),
        licence: args.licence.clone(),
    }
}

/// The table, unless nothing is left of these files.
pub(super) fn filled(table: Table, files: &str) -> Result<Table> {
    match table.rows.is_empty() {
        true => Err(nothing_left(files, "row", &table.skipped)),
        false => Ok(table),
    }
}

/// The message about files of which no row or run is left.
pub(super) fn nothing_left(files: &str, what: &str, skipped: &Skipped) -> Error {
    let reasons: Vec<_> = skipped.iter().map(|(reason, _)| reason).collect();
    Error::infeasible(format!(
        "{files}: no {what} is left: {} skipped ({})",
        skipped.total(),
        reasons.join("; ")
    ))
}

/// Whether the key of this row was kept out when `model` was trained for its GPU.
pub fn is_kept_out(row: &Row, model: &Artifact) -> bool {
    let kept = model.card.kept_out_of(&row.gpu);
    kept.is_some_and(|kept| dataset::is_held_out(dataset::key(row), kept.fraction, kept.seed))
}

/// Leaves only rows that `model` can be judged by.
pub(super) fn retain_kept_out(table: &mut Table, model: &Artifact) -> Result<()> {
    let name = &model.card.name;
    if model.card.kept_out.is_none() {
        return Err(Error::infeasible(format!(
            "`--kept-out`: model {name} was trained with every key; train one with `--keep-out`"
        )));
    }
    let all = table.rows.len();
    table.rows.retain(|row| is_kept_out(row, model));
    let seen = (all - table.rows.len()) as u64;
    if table.rows.is_empty() {
        return Err(Error::infeasible(format!(
            "`--kept-out`: none of the {all} rows was kept out of model {name}"
        )));
    }
    if seen > 0 {
        table.skipped.add(&format!("not kept out of model {name}"), seen);
    }
    Ok(())
}

/// The account of left-out rows as reports want it, the most frequent reason first.
pub fn skipped(skipped: &Skipped) -> Vec<SkippedRows> {
    let rows = |(reason, rows): (&str, u64)| SkippedRows {
        reason: reason.to_owned(),
        rows,
        first: skipped.first(reason).map(str::to_owned),
    };
    let mut skipped: Vec<SkippedRows> = skipped.iter().map(rows).collect();
    skipped.sort_by_key(|skip| Reverse(skip.rows));
    skipped
}

/// The rows of files of our own, which may be none: another file of a merge may have them.
pub(super) fn native(paths: &[PathBuf], filter: &Filter, catalog: &mut GpuCatalog) -> Result<Table> {
    for path in paths {
        catalog.extend(dataset::described_gpus(path)?);
    }
    let files = paths.iter().map(|path| dataset::read_known(path, filter));
    let mut files: Vec<Vec<Row>> = files.collect::<Result<_>>()?;
    // Files in CSV spell GPUs as drivers do; a file has few of them.
    let mut names: HashMap<Arc<str>, Arc<str>> = HashMap::new();
    for row in files.iter_mut().flatten() {
        let name = names.entry(Arc::clone(&row.gpu)).or_insert_with_key(|spelled| {
            let known = catalog.find(spelled);
            known.map_or_else(|_| Arc::clone(spelled), |gpu| gpu.name.as_str().into())
        });
        row.gpu = Arc::clone(name);
    }
    // Rows of a GPU that no file describes may still be asked for, under their own name.
    let filter = filter.resolved(|name| match catalog.find(name) {
        Ok(gpu) => Ok(gpu.name.clone()),
        Err(_) if files.iter().flatten().any(|row| *row.gpu == *name) => Ok(name.to_owned()),
        Err(error) => Err(error),
    })?;
    let mut table = Table::default();
    for (path, rows) in paths.iter().zip(files) {
        for (index, row) in rows.into_iter().enumerate() {
            let objection = filter.objection(&row.gpu, &row.stack);
            match objection.or_else(|| dataset::alarms::ruled_out(&row, catalog)) {
                None => table.rows.push(row),
                Some(reason) => {
                    let first = || Some(format!("{}: row {}", path.display(), index + 1));
                    table.skipped.add_at(&reason, 1, first);
                }
            }
        }
    }
    Ok(table)
}
