//! `shapewise evaluate`: the error table of any timing table.

use crate::answer::calibrate::framework;
use crate::answer::predictors::{artifact, described_by};
use crate::cli::args::{AUTO, EvaluateArgs, View};
use crate::cli::{output, render, rows};
use crate::dataset::runs::read_runs;
use crate::error::Result;
use crate::evaluate::evaluate;
use crate::evaluate::runs::{Choice, compared, judge};
use crate::gpu::{Gpu, GpuCatalog};
use crate::predict::Predictor;
use crate::predict::scope::Scope;
use crate::report::tables::evaluation::{EvaluationReport, rows_csv};
use crate::report::tables::runs::{RunsReport, runs_csv};

pub(super) fn run(args: &EvaluateArgs, view: View) -> Result<String> {
    if !args.runs.is_empty() {
        return runs(args, view);
    }
    let mut gpus = GpuCatalog::default();
    let mut table = rows::read(&args.from, &args.data, &rows::filter(&args.filter), &mut gpus)?;
    let model = args.model.as_deref().map(artifact).transpose()?;
    gpus.extend(described_by(model.as_deref()));
    if let Some(model) = model.as_deref().filter(|_| args.kept_out) {
        rows::retain_kept_out(&mut table, model)?;
    }
    let scope = Scope::of(args.any_stack);
    let answer = |gpu: &Gpu| Ok(Predictor::new(gpu, model.as_deref())?.with_scope(scope));
    let mut evaluation = evaluate(&table.rows, &gpus, &answer)?;
    write(args, || rows_csv(&table.rows, &evaluation))?;
    evaluation.skipped.merge(&table.skipped);
    let report = EvaluationReport::new(&evaluation, rows::skipped(&evaluation.skipped));
    Ok(render(&report, view))
}

/// Writes the table of every timing or run, where one was asked for.
fn write(args: &EvaluateArgs, table: impl FnOnce() -> Vec<u8>) -> Result<()> {
    match &args.csv {
        Some(path) => output::write(path, &table()),
        None => Ok(()),
    }
}

/// Whole models instead of operators.
fn runs(args: &EvaluateArgs, view: View) -> Result<String> {
    let model = args.model.as_deref().map(artifact).transpose()?;
    let gpus = GpuCatalog::from_iter(described_by(model.as_deref()));
    let mut runs = read_runs(&args.runs, &gpus)?;
    let known = |name: &str| gpus.find(name).map(|gpu| gpu.name.clone());
    runs.retain(&rows::filter(&args.filter).resolved(known)?);
    if runs.runs.is_empty() {
        let files = rows::named(&args.runs);
        return Err(rows::nothing_left(&files, "run", &runs.skipped));
    }
    let answer = |gpu: &Gpu| Predictor::new(gpu, model.as_deref());
    let given = match args.framework.as_str() {
        AUTO => None,
        name => Some(framework(name, &runs)?),
    };
    let choice = given.as_ref().map_or(Choice::Auto, Choice::Given);
    let judged = judge(&runs, &choice, &answer)?;
    write(args, || runs_csv(&judged))?;
    let comparison = compared(&runs, &judged);
    let report = RunsReport::new(&comparison, rows::skipped(&comparison.skipped));
    Ok(render(&report, view))
}
