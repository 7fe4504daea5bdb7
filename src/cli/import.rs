//! `shapewise import`: public timing tables to our own schema.

use crate::cli::args::Format;
use crate::cli::args::ImportArgs;
use crate::cli::render;
use crate::cli::rows;
use crate::dataset;
use crate::dataset::Row;
use crate::error::Error;
use crate::error::Result;
use crate::evaluate::family;
use crate::report::import::ImportReport;
use crate::report::import::KeptRows;
use std::collections::BTreeMap;

pub(super) fn run(args: &ImportArgs, format: Format) -> Result<String> {
    dataset::check_target(&args.out)?;
    if args.out.exists() && !args.force {
        return Err(Error::bad_input(format!(
            "--out {} exists already; allowed: a new file, or --force to replace it",
            args.out.display()
        )));
    }
    let table = rows::read(&args.source, &args.paths, &args.filter)?;
    dataset::write(&args.out, &table.rows)?;
    let report = ImportReport {
        out: args.out.display().to_string(),
        kept_rows: table.rows.len() as u64,
        kept: kept(&table.rows),
        skipped: rows::skipped(&table.skipped),
    };
    Ok(render(&report, format))
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
