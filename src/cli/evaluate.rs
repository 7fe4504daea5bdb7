//! `shapewise evaluate`: the error table of any timing table.

use crate::cli::accuracy;
use crate::cli::args::EvaluateArgs;
use crate::cli::args::Format;
use crate::cli::artifact;
use crate::cli::render;
use crate::cli::rows;
use crate::error::Result;
use crate::evaluate::evaluate;
use crate::predict::Predictor;
use crate::report::evaluation::EvaluationReport;

pub(super) fn run(args: &EvaluateArgs, format: Format) -> Result<String> {
    if let Some(out) = &args.accuracy {
        return accuracy::run(&args.data, &args.runs, out);
    }
    let mut table = rows::read(&args.from, &args.data, &args.filter)?;
    let model = args.model.as_deref().map(artifact).transpose()?;
    if let Some(model) = model.as_deref().filter(|_| args.kept_out) {
        rows::retain_kept_out(&mut table, model)?;
    }
    let mut evaluation = evaluate(&table.rows, &|gpu| Predictor::new(gpu, model.as_deref()))?;
    evaluation.skipped.merge(&table.skipped);
    let report = EvaluationReport::new(&evaluation, rows::skipped(&evaluation.skipped));
    Ok(render(&report, format))
}
