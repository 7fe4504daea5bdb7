//! `shapewise plan` and `shapewise compare`: the best layout over GPUs, and GPUs beside each other.

use crate::answer;
use crate::cli::args::{CompareArgs, PlanArgs, TargetArgs, View};
use crate::cli::target::answering;
use crate::cli::{output::write, render};
use crate::error::Result;
use crate::report::plot;

pub(super) fn plan(args: &PlanArgs, view: View) -> Result<String> {
    let request = &args.subject.request;
    let architecture = request.architecture.find()?;
    let predictor = answering(&args.subject.target)?;
    let report = answer::plan::plan(&predictor, &architecture, request)?;
    if let Some(path) = &args.plot {
        let picture = plot::render(&report.chart(), plot::Format::of(path)?)?;
        write(path, &picture)?;
    }
    Ok(render(&report, view))
}

pub(super) fn compare(args: &CompareArgs, view: View) -> Result<String> {
    let request = &args.subject.request;
    let architecture = request.architecture.find()?;
    let TargetArgs { request: target, data } = &args.subject.target;
    let report = answer::plan::compare(&architecture, request, target, |target| {
        answering(&TargetArgs {
            request: target.clone(),
            data: data.clone(),
        })
    })?;
    Ok(render(&report, view))
}
