//! `shapewise check`: the sizing rules on one shape, the price of each broken one, and what mends it.

use crate::arch::Architecture;
use crate::check::check;
use crate::cli::Answer;
use crate::cli::DONE;
use crate::cli::FAILED;
use crate::cli::args::Format;
use crate::cli::args::check::CheckArgs;
use crate::cli::render;
use crate::cli::target::answering;
use crate::cli::workload::described;
use crate::error::Result;
use crate::report::check::CheckReport;

pub(super) fn run(args: &CheckArgs, format: Format) -> Result<Answer> {
    let architecture = Architecture::find(&args.architecture)?;
    let workload = described(&args.workload, &architecture)?;
    let predictor = answering(&args.target)?;
    let check = check(&predictor, &architecture, &workload)?;
    let report = CheckReport::new(predictor.gpu(), &architecture, &workload, &check);
    Ok(Answer {
        text: render(&report, format),
        code: if args.strict && check.is_broken() {
            FAILED
        } else {
            DONE
        },
    })
}
