//! `shapewise predict`: one GEMM, one attention, a step of a whole model, or the operators of a graph.

use crate::answer::{graph, question};
use crate::cli::args::{GraphArgs, Predict, StepArgs, View};
use crate::cli::target::{answer, answering};
use crate::cli::{output, render};
use crate::error::Result;
use crate::report::Report;

pub(super) fn run(command: &Predict, view: View) -> Result<String> {
    match command {
        Predict::Gemm(args) => Ok(render(&answer(question::predict_operator, args)?, view)),
        Predict::Attention(args) => Ok(render(&answer(question::predict_operator, args)?, view)),
        Predict::Model(args) => step(args, view),
        Predict::Graph(args) => listed(args, view),
        Predict::Batch(_) => unreachable!("it has an exit code of its own"),
    }
}

fn step(args: &StepArgs, view: View) -> Result<String> {
    let report = answer(question::predict_model, &args.subject)?;
    output::draw(report.drawn(), args.plot.as_deref())?;
    Ok(render(&report, view))
}

fn listed(args: &GraphArgs, view: View) -> Result<String> {
    let listing = crate::graph::read(&args.file, &graph::options(&args.request)?)?;
    let predictor = answering(&args.target)?;
    let name = args.file.display().to_string();
    let report = graph::report(&predictor, &listing, &name)?;
    Ok(render(&report, view))
}
