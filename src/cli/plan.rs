//! `shapewise plan` and `shapewise compare`: the best layout over GPUs, and GPUs and models beside each other.

use crate::answer::question;
use crate::cli::args::{CompareArgs, PlanArgs, View};
use crate::cli::target::answer;
use crate::cli::{output::write, render};
use crate::error::Result;
use crate::report::plot;

pub(super) fn plan(args: &PlanArgs, view: View) -> Result<String> {
    let report = answer(question::plan, &args.subject)?;
    if let Some(path) = &args.plot {
        let picture = plot::render(&report.chart(), plot::Format::of(path)?)?;
        write(path, &picture)?;
    }
    Ok(render(&report, view))
}

pub(super) fn compare(args: &CompareArgs, view: View) -> Result<String> {
    Ok(render(&answer(question::compare, &args.subject)?, view))
}
