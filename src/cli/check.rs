//! `shapewise check`: the sizing rules on shapes, the predicted cost of each broken one, and what fixes it.

use crate::answer::{self, question};
use crate::cli::args::{Check, CheckArgs, CheckOperator, CheckOperatorArgs, Format, View};
use crate::cli::target::{self, answering};
use crate::cli::{Answer, DONE, FAILED, csv, one_line, render, say};
use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::report::check::CheckReport;
use crate::report::{Report, sarif};
use crate::request::{ArchitectureRequest, ModelRequest, OperatorRequest, Sizes};
use clap::Args;
use std::path::Path;

pub(super) fn run(check: &Check, view: View) -> Result<Answer> {
    match check {
        Check::Models(args) => models(args, view),
        Check::Operator(CheckOperator::Gemm(args)) => operator(args, view),
        Check::Operator(CheckOperator::Attention(args)) => operator(args, view),
    }
}

fn operator<R: OperatorRequest + Args + Clone>(args: &CheckOperatorArgs<R>, view: View) -> Result<Answer> {
    if view.format == Format::Sarif {
        let allowed = "text, md, csv or json for one operator";
        return Err(Error::field("command line", "--format", "sarif", allowed));
    }
    let report = target::answer(question::check_operator, &args.subject)?;
    let limits = &args.limits;
    let failed = limits.counts() && report.fails(!limits.no_advice, limits.fail_above);
    Ok(Answer {
        text: render(&report, view),
        code: if failed { FAILED } else { DONE },
    })
}

fn models(args: &CheckArgs, view: View) -> Result<Answer> {
    let request = &args.subject.request;
    let mut reports = Vec::new();
    let mut failed = false;
    let predictor = answering(&args.subject.target)?;
    for architecture in std::iter::once(&request.architecture).chain(&args.others) {
        match one(&predictor, request, architecture) {
            Ok(report) => reports.push((subject(architecture), report)),
            Err(error) if args.others.is_empty() => return Err(error),
            Err(error) => {
                failed = true;
                say(&format!("error: {error}"));
            }
        }
    }
    let text = match (view.format, &reports[..]) {
        (Format::Sarif, all) => format!("{:#}\n", sarif::document(all)),
        (_, [(_, only)]) if args.others.is_empty() => render(only, view),
        (Format::Json, all) => all.iter().map(|(_, report)| one_line(&report.json())).collect(),
        (Format::Csv, all) => csv::table(all.iter().map(|(name, report)| (Some(name.as_str()), report))),
        (Format::Text | Format::Md, all) => {
            let texts: Vec<_> = all.iter().map(|(_, report)| render(report, view)).collect();
            texts.join("\n")
        }
    };
    let limits = &args.limits;
    let broken = |(_, report): &(String, CheckReport)| report.fails(!limits.no_advice, limits.fail_above);
    failed |= limits.counts() && reports.iter().any(broken);
    Ok(Answer {
        text,
        code: if failed { FAILED } else { DONE },
    })
}

fn one(predictor: &Predictor, request: &ModelRequest, architecture: &ArchitectureRequest) -> Result<CheckReport> {
    let base = architecture.find()?;
    let (architecture, workload) = Sizes::fixed(predictor.gpu(), |sizes| request.described(&base, sizes))?;
    answer::check(predictor, &architecture, &workload)
}

/// The file that was checked, or the name of the preset.
fn subject(architecture: &ArchitectureRequest) -> String {
    match architecture {
        ArchitectureRequest::Named(name) if Path::new(name).is_dir() => {
            Path::new(name).join("config.json").display().to_string()
        }
        ArchitectureRequest::Named(name) => name.clone(),
        ArchitectureRequest::Config(_) => "config".to_owned(),
    }
}
