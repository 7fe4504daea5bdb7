//! `shapewise sweep`: one GEMM, one attention or a step of a whole model along one of its sizes.

use crate::answer::{question, sweep};
use crate::cli::args::{Sweep, Targeted, View};
use crate::cli::rows::timings;
use crate::cli::target::{answer, predicting};
use crate::cli::{output, render};
use crate::error::Result;
use crate::report::Report;
use crate::report::sweep::SweepReport;
use crate::request::OperatorRequest;
use clap::Args;

pub(super) fn run(command: &Sweep, view: View) -> Result<String> {
    let (report, files) = match command {
        Sweep::Gemm(args) => (operator(&args.subject)?, &args.files),
        Sweep::Attention(args) => (operator(&args.subject)?, &args.files),
        Sweep::Model(args) => (answer(question::sweep_model, &args.subject)?, &args.files),
    };
    output::draw(report.drawn(), files.plot.as_deref())?;
    Ok(render(&report, view))
}

/// The curve of a predictor that does not know the user's timings, with those beside it.
fn operator<R: OperatorRequest + Args>(args: &Targeted<R>) -> Result<SweepReport> {
    let predictor = predicting(&args.target)?;
    let own = timings(&args.target, predictor.gpu())?;
    let own = args.target.data.is_some().then_some(&*own);
    sweep::operator(&predictor, &args.request, own)
}
