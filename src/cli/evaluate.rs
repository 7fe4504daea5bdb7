//! `shapewise evaluate`: the error table of any timing table.

use crate::cli::accuracy;
use crate::cli::args::EvaluateArgs;
use crate::cli::args::Format;
use crate::cli::artifact;
use crate::cli::render;
use crate::cli::rows;
use crate::error::Result;
use crate::evaluate::evaluate;
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::predict::Predictor;
use crate::report::evaluation::EvaluationReport;

pub(super) fn run(args: &EvaluateArgs, format: Format) -> Result<String> {
    if let Some(out) = &args.accuracy {
        return accuracy::run(&args.data, &args.runs, out);
    }
    let mut gpus = GpuCatalog::default();
    let mut table = rows::read(&args.from, &args.data, &args.filter, &mut gpus)?;
    let model = args.model.as_deref().map(artifact).transpose()?;
    gpus.extend(model.iter().flat_map(|model| model.card.gpus.clone()));
    if let Some(model) = model.as_deref().filter(|_| args.kept_out) {
        rows::retain_kept_out(&mut table, model)?;
    }
    let answer = |gpu: &Gpu| Predictor::new(gpu, model.as_deref());
    let mut evaluation = evaluate(&table.rows, &gpus, &answer)?;
    evaluation.skipped.merge(&table.skipped);
    let report = EvaluationReport::new(&evaluation, rows::skipped(&evaluation.skipped));
    Ok(render(&report, format))
}
