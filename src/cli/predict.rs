//! `shapewise predict`: one GEMM, one attention, a step of a whole model, or the operators of a graph.

use crate::answer;
use crate::cli::args::GraphArgs;
use crate::cli::args::Predict;
use crate::cli::args::StepArgs;
use crate::cli::args::Targeted;
use crate::cli::args::View;
use crate::cli::output::write;
use crate::cli::render;
use crate::cli::target::answering;
use crate::error::Result;
use crate::graph;
use crate::report::plot;
use crate::request::OperatorRequest;
use crate::request::Sizes;
use clap::Args;

pub(super) fn run(command: &Predict, view: View) -> Result<String> {
    match command {
        Predict::Gemm(args) => one(args, view),
        Predict::Attention(args) => one(args, view),
        Predict::Model(args) => step(args, view),
        Predict::Graph(args) => listed(args, view),
        Predict::Batch(_) => unreachable!("it has an exit code of its own"),
    }
}

fn one<R: OperatorRequest + Args>(args: &Targeted<R>, view: View) -> Result<String> {
    let op = Sizes::fixed(|sizes| args.request.op(sizes))?;
    let predictor = answering(&args.target)?;
    let report = answer::operator(&predictor, &op)?;
    Ok(render(&report, view))
}

fn step(args: &StepArgs, view: View) -> Result<String> {
    let Targeted { request, target } = &args.subject;
    let base = request.model.architecture.find()?;
    let (architecture, workload) = Sizes::fixed(|sizes| request.model.step(&base, sizes))?;
    let predictor = answering(target)?;
    let report = answer::step(&predictor, &architecture, &workload, &request.run)?;
    if let Some(path) = &args.plot {
        let picture = plot::render(&report.roofline(), plot::Format::of(path)?)?;
        write(path, &picture)?;
    }
    Ok(render(&report, view))
}

fn listed(args: &GraphArgs, view: View) -> Result<String> {
    let listing = graph::read(&args.file, &answer::graph::options(&args.request)?)?;
    let predictor = answering(&args.target)?;
    let name = args.file.display().to_string();
    let report = answer::graph::report(&predictor, &listing, &name)?;
    Ok(render(&report, view))
}
