//! `shapewise check`: the sizing rules on one shape, the price of each broken one, and what mends it.

use crate::arch::Architecture;
use crate::cli::Answer;
use crate::cli::DONE;
use crate::cli::FAILED;
use crate::cli::args::Format;
use crate::cli::args::check::CheckArgs;
use crate::cli::render;
use crate::cli::target::answering;
use crate::error::Result;
use crate::query::model;

pub(super) fn run(args: &CheckArgs, format: Format) -> Result<Answer> {
    let architecture = Architecture::find(&args.architecture)?;
    let workload = args.workload.query().described(&architecture)?;
    let predictor = answering(&args.target)?;
    let report = model::check(&predictor, &architecture, &workload)?;
    Ok(Answer {
        text: render(&report, format),
        code: if args.strict && report.is_broken() {
            FAILED
        } else {
            DONE
        },
    })
}
