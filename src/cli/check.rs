//! `shapewise check`: the sizing rules on shapes, the predicted cost of each broken one, and what fixes it.

use crate::answer;
use crate::cli::Answer;
use crate::cli::DONE;
use crate::cli::FAILED;
use crate::cli::args::CheckArgs;
use crate::cli::args::Format;
use crate::cli::one_line;
use crate::cli::render;
use crate::cli::say;
use crate::cli::target::answering;
use crate::error::Result;
use crate::predict::Predictor;
use crate::report::Report;
use crate::report::check::CheckReport;
use crate::report::sarif;
use crate::request::ArchitectureRequest;
use crate::request::ModelRequest;
use crate::request::Sizes;
use std::path::Path;

pub(super) fn run(args: &CheckArgs, format: Format) -> Result<Answer> {
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
    let text = match (format, &reports[..]) {
        (Format::Sarif, all) => format!("{:#}\n", sarif::document(all)),
        (_, [(_, only)]) if args.others.is_empty() => render(only, format),
        (Format::Json, all) => all
            .iter()
            .map(|(_, report)| one_line(&report.json()))
            .collect(),
        (Format::Text, all) => {
            let texts: Vec<_> = all.iter().map(|(_, report)| report.text()).collect();
            texts.join("\n")
        }
    };
    let counts = args.strict || args.fail_above.is_some();
    let broken =
        |(_, report): &(String, CheckReport)| report.fails(!args.no_advice, args.fail_above);
    failed |= counts && reports.iter().any(broken);
    Ok(Answer {
        text,
        code: if failed { FAILED } else { DONE },
    })
}

fn one(
    predictor: &Predictor,
    request: &ModelRequest,
    architecture: &ArchitectureRequest,
) -> Result<CheckReport> {
    let base = architecture.find()?;
    let (architecture, workload) = Sizes::fixed(|sizes| request.described(&base, sizes))?;
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
