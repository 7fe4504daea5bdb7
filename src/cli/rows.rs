//! Timing tables on behalf of commands: reading, filtering, and accounting for what is left out.

use crate::cli::args::FilterArgs;
use crate::dataset;
use crate::dataset::Filter;
use crate::dataset::Row;
use crate::dataset::Skipped;
use crate::dataset::Source;
use crate::dataset::Table;
use crate::error::Error;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::report::SkippedRows;
use std::path::PathBuf;

/// Reads tables of this publisher, or of our own schema; physically impossible rows are skipped.
pub(super) fn read(from: &str, paths: &[PathBuf], args: &FilterArgs) -> Result<Table> {
    let names = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    let filter = Filter {
        gpus: names(&args.gpu),
        stacks: names(&args.stack),
    };
    let table = match Source::parse(from) {
        Some(source) => dataset::import(source, paths, &filter)?,
        None => native(paths, &filter)?,
    };
    if table.rows.is_empty() {
        let reasons: Vec<_> = table.skipped.iter().map(|(reason, _)| reason).collect();
        return Err(Error::infeasible(format!(
            "no row is left: {} skipped ({})",
            table.skipped.total(),
            reasons.join("; ")
        )));
    }
    Ok(table)
}

/// The account of left-out rows as reports want it.
pub(super) fn skipped(skipped: &Skipped) -> Vec<SkippedRows> {
    let rows = |(reason, rows): (&str, u64)| SkippedRows {
        reason: reason.to_owned(),
        rows,
    };
    skipped.iter().map(rows).collect()
}

fn native(paths: &[PathBuf], filter: &Filter) -> Result<Table> {
    let gpus: Option<Vec<&str>> = match &filter.gpus {
        None => None,
        Some(names) => {
            let names = names.iter().map(|name| Gpu::find(name));
            let names = names.map(|gpu| gpu.map(|gpu| gpu.name.as_str()));
            Some(names.collect::<Result<_>>()?)
        }
    };
    let mut kept = Vec::new();
    let mut skipped = Skipped::default();
    for row in dataset::read_many(paths)? {
        match objection(&row, gpus.as_deref(), filter.stacks.as_deref()) {
            None => kept.push(row),
            Some(reason) => skipped.add(&reason, 1),
        }
    }
    let mut table = dataset::alarms::screen(kept);
    table.skipped.merge(&skipped);
    Ok(table)
}

/// Why nobody asked for this row, in the words of the importers.
fn objection(row: &Row, gpus: Option<&[&str]>, stacks: Option<&[String]>) -> Option<String> {
    if gpus.is_some_and(|names| !names.contains(&&*row.gpu)) {
        return Some(format!("GPU `{}` was not asked for", row.gpu));
    }
    let unwanted = |names: &[String]| names.iter().all(|name| **name != *row.stack);
    stacks
        .is_some_and(unwanted)
        .then(|| format!("stack `{}` was not asked for", row.stack))
}
