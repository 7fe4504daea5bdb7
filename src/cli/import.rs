//! `shapewise import`: public timing tables to our own schema.

use crate::cli::args::FilterArgs;
use crate::cli::args::Format;
use crate::cli::args::ImportArgs;
use crate::cli::render;
use crate::dataset;
use crate::dataset::Filter;
use crate::dataset::Row;
use crate::dataset::Skipped;
use crate::dataset::Source;
use crate::error::Error;
use crate::error::Result;
use crate::evaluate::family;
use crate::gpu::Gpu;
use crate::report::SkippedRows;
use crate::report::import::ImportReport;
use crate::report::import::KeptRows;
use std::collections::BTreeMap;

pub(super) fn run(args: &ImportArgs, format: Format) -> Result<String> {
    let filter = filter(&args.filter)?;
    dataset::check_target(&args.out)?;
    if args.out.exists() && !args.force {
        return Err(Error::bad_input(format!(
            "--out {} exists already; allowed: a new file, or --force to replace it",
            args.out.display()
        )));
    }
    let source = Source::parse(&args.source).expect("a test holds names and importers equal");
    let table = dataset::import(source, &args.paths, &filter)?;
    if table.rows.is_empty() {
        return Err(Error::infeasible(format!(
            "no row is left to write to {}: {} rows skipped ({})",
            args.out.display(),
            table.skipped.total(),
            reasons(&table.skipped)
        )));
    }
    dataset::write(&args.out, &table.rows)?;
    let report = ImportReport {
        out: args.out.display().to_string(),
        kept_rows: table.rows.len() as u64,
        kept: kept(&table.rows),
        skipped: skipped(&table.skipped),
    };
    Ok(render(&report, format))
}

/// Checks the names of the GPUs and builds the filter; no names mean no restriction.
pub(super) fn filter(args: &FilterArgs) -> Result<Filter> {
    let some = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    for name in &args.gpu {
        Gpu::find(name)?;
    }
    Ok(Filter {
        gpus: some(&args.gpu),
        stacks: some(&args.stack),
    })
}

/// The account of left-out rows as the report wants it.
pub(super) fn skipped(skipped: &Skipped) -> Vec<SkippedRows> {
    let rows = |(reason, rows): (&str, u64)| SkippedRows {
        reason: reason.to_owned(),
        rows,
    };
    skipped.iter().map(rows).collect()
}

fn reasons(skipped: &Skipped) -> String {
    let reasons: Vec<_> = skipped.iter().map(|(reason, _)| reason).collect();
    reasons.join("; ")
}

fn kept(rows: &[Row]) -> Vec<KeptRows> {
    let mut groups = BTreeMap::new();
    for row in rows {
        let key = (&row.gpu, &row.stack, family(&row.op), row.op.dtype());
        *groups.entry(key).or_default() += 1;
    }
    groups
        .into_iter()
        .map(|((gpu, stack, op, dtype), rows)| KeptRows {
            gpu: gpu.to_string(),
            stack: stack.to_string(),
            op: op.to_owned(),
            dtype: dtype.map(|dtype| dtype.name()),
            rows,
        })
        .collect()
}
