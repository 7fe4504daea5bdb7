//! `shapewise check`: the sizing rules on one shape, the predicted cost of each broken one, and what fixes it.

use crate::answer;
use crate::cli::Answer;
use crate::cli::DONE;
use crate::cli::FAILED;
use crate::cli::args::CheckArgs;
use crate::cli::args::Format;
use crate::cli::render;
use crate::cli::target::answering;
use crate::error::Result;
use crate::request::Sizes;

pub(super) fn run(args: &CheckArgs, format: Format) -> Result<Answer> {
    let request = &args.subject.request;
    let base = request.architecture.find()?;
    let (architecture, workload) = Sizes::fixed(|sizes| request.described(&base, sizes))?;
    let predictor = answering(&args.subject.target)?;
    let report = answer::check(&predictor, &architecture, &workload)?;
    Ok(Answer {
        text: render(&report, format),
        code: if args.strict && report.is_broken() {
            FAILED
        } else {
            DONE
        },
    })
}
