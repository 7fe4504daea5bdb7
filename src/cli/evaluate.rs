//! `shapewise evaluate`: the error table of any timing table.

use crate::cli::accuracy;
use crate::cli::args::EvaluateArgs;
use crate::cli::args::Format;
use crate::cli::import::filter;
use crate::cli::import::skipped;
use crate::cli::predictor;
use crate::cli::render;
use crate::dataset;
use crate::dataset::Filter;
use crate::dataset::Row;
use crate::dataset::Source;
use crate::dataset::Table;
use crate::error::Error;
use crate::error::Result;
use crate::evaluate::evaluate;
use crate::gpu::Gpu;
use crate::report::evaluation::EvaluationReport;

pub(super) fn run(args: &EvaluateArgs, format: Format) -> Result<String> {
    if let Some(out) = &args.accuracy {
        return accuracy::run(&args.data, &args.runs, out);
    }
    let filter = filter(&args.filter)?;
    let table = match Source::parse(&args.from) {
        Some(source) => dataset::import(source, &args.data, &filter)?,
        None => native(args, &filter)?,
    };
    if table.rows.is_empty() {
        return Err(Error::infeasible(format!(
            "no row is left to evaluate; {} rows were skipped",
            table.skipped.total()
        )));
    }
    let mut evaluation = evaluate(&table.rows, &|gpu| predictor(gpu, args.model.as_deref()))?;
    evaluation.skipped.merge(&table.skipped);
    let report = EvaluationReport::new(&evaluation, skipped(&evaluation.skipped));
    Ok(render(&report, format))
}

/// Our own tables, less the rows that the filter or physics rules out.
fn native(args: &EvaluateArgs, filter: &Filter) -> Result<Table> {
    let rows = dataset::read_many(&args.data)?;
    let all = rows.len();
    let wanted: Vec<Row> = rows.into_iter().filter(|row| keeps(filter, row)).collect();
    let filtered = (all - wanted.len()) as u64;
    let mut table = dataset::alarms::screen(wanted);
    table
        .skipped
        .add("not asked for with --gpu or --stack", filtered);
    Ok(table)
}

fn keeps(filter: &Filter, row: &Row) -> bool {
    let gpu = filter.gpus.as_ref().is_none_or(|names| {
        let known = |name| Gpu::find(name).is_ok_and(|gpu| *gpu.name == *row.gpu);
        names.iter().any(|name| known(name))
    });
    let stack = filter
        .stacks
        .as_ref()
        .is_none_or(|names| names.iter().any(|name| **name == *row.stack));
    gpu && stack
}
