//! `shapewise predict`: one product, one attention, or a step of a whole model.

use crate::arch::Architecture;
use crate::cli::args::Format;
use crate::cli::args::TargetArgs;
use crate::cli::args::predict::ModelArgs;
use crate::cli::args::predict::Predict;
use crate::cli::render;
use crate::cli::target::answering;
use crate::error::Result;
use crate::ops::Op;
use crate::query::model;
use crate::query::operator;

pub(super) fn run(command: &Predict, format: Format) -> Result<String> {
    match command {
        Predict::Gemm(args) => one(&args.query().op(), &args.target, format),
        Predict::Attention(args) => one(&args.query().op()?, &args.target, format),
        Predict::Model(args) => step(args, format),
    }
}

fn one(op: &Op, target: &TargetArgs, format: Format) -> Result<String> {
    let predictor = answering(target)?;
    let reports = operator::predict(&predictor, std::slice::from_ref(op));
    Ok(render(&reports[0], format))
}

fn step(args: &ModelArgs, format: Format) -> Result<String> {
    let architecture = Architecture::find(&args.architecture)?;
    let workload = args.workload.query().on(&architecture)?;
    let predictor = answering(&args.target)?;
    let report = model::predict(&predictor, &architecture, &workload)?;
    Ok(render(&report, format))
}
