//! `shapewise sweep`: one product, one attention or a step of a whole model along one of its sizes.

use crate::arch::Architecture;
use crate::cli::args::Format;
use crate::cli::args::TargetArgs;
use crate::cli::args::sweep::FileArgs;
use crate::cli::args::sweep::SizedModelArgs;
use crate::cli::args::sweep::Sweep;
use crate::cli::render;
use crate::cli::say;
use crate::cli::target::answering;
use crate::cli::target::predicting;
use crate::cli::target::timings;
use crate::error::Result;
use crate::error::write_atomically;
use crate::predict::Predictor;
use crate::query::sweep;
use crate::query::sweep::Timing;
use crate::report::plot;
use crate::report::sweep::SweepReport;

pub(super) fn run(command: &Sweep, format: Format) -> Result<String> {
    let (report, files) = match command {
        Sweep::Gemm(args) => {
            let gemm = args.subject.query();
            let (predictor, own) = beside(&args.subject.target)?;
            (sweep::gemm(&predictor, &gemm, own.as_deref())?, &args.files)
        }
        Sweep::Attention(args) => {
            let attention = args.subject.query();
            let (predictor, own) = beside(&args.subject.target)?;
            let report = sweep::attention(&predictor, &attention, own.as_deref())?;
            (report, &args.files)
        }
        Sweep::Model(args) => (model(&args.subject)?, &args.files),
    };
    write(&report, files)?;
    Ok(render(&report, format))
}

/// A predictor that does not know the user's timings, and those.
fn beside(target: &TargetArgs) -> Result<(Predictor, Option<Vec<Timing>>)> {
    let predictor = predicting(target)?;
    let own = timings(target, predictor.gpu())?;
    Ok((predictor, target.data.is_some().then_some(own)))
}

fn model(args: &SizedModelArgs) -> Result<SweepReport> {
    let base = Architecture::find(&args.model.architecture)?;
    let predictor = answering(&args.model.target)?;
    let workload = args.model.workload.query();
    sweep::model(&predictor, &base, &args.sizes(), &workload)
}

/// Writes the files that were asked for.
fn write(report: &SweepReport, files: &FileArgs) -> Result<()> {
    let mut contents = Vec::new();
    if let Some(path) = &files.csv {
        contents.push((path, report.csv().into_bytes()));
    }
    if let Some(path) = &files.plot {
        let picture = plot::render(&report.chart(), plot::Format::of(path)?)?;
        contents.push((path, picture));
    }
    for (path, content) in contents {
        write_atomically(path, &content)?;
        say(&format!("wrote {}", path.display()));
    }
    Ok(())
}
