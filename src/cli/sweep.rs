//! `shapewise sweep`: one GEMM, one attention or a step of a whole model along one of its sizes.

use crate::answer::{question, sweep};
use crate::cli::args::{FileArgs, Sweep, Targeted, View};
use crate::cli::rows::timings;
use crate::cli::target::{answer, predicting};
use crate::cli::{csv, output, render};
use crate::error::Result;
use crate::report::plot;
use crate::report::sweep::SweepReport;
use crate::request::OperatorRequest;
use clap::Args;

pub(super) fn run(command: &Sweep, view: View) -> Result<String> {
    let (report, files) = match command {
        Sweep::Gemm(args) => (operator(&args.subject)?, &args.files),
        Sweep::Attention(args) => (operator(&args.subject)?, &args.files),
        Sweep::Model(args) => (answer(question::sweep_model, &args.subject)?, &args.files),
    };
    write(&report, files)?;
    Ok(render(&report, view))
}

/// The curve of a predictor that does not know the user's timings, with those beside it.
fn operator<R: OperatorRequest + Args>(args: &Targeted<R>) -> Result<SweepReport> {
    let predictor = predicting(&args.target)?;
    let own = timings(&args.target, predictor.gpu())?;
    let own = args.target.data.is_some().then_some(&*own);
    sweep::operator(&predictor, &args.request, own)
}

/// Writes the files that were asked for.
fn write(report: &SweepReport, files: &FileArgs) -> Result<()> {
    let mut contents = Vec::new();
    if let Some(path) = &files.csv {
        contents.push((path, csv::table([(None, report)]).into_bytes()));
    }
    if let Some(path) = &files.plot {
        let picture = plot::render(&report.chart(), plot::Format::of(path)?)?;
        contents.push((path, picture));
    }
    for (path, content) in contents {
        output::write(path, &content)?;
    }
    Ok(())
}
