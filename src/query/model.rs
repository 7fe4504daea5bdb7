//! A step of a whole model: its time, and what the sizing rules say about it.

use crate::arch::Architecture;
use crate::arch::Workload;
use crate::check;
use crate::error::Result;
use crate::predict::Predictor;
use crate::predict::step::estimate_step;
use crate::query::bases;
use crate::report::check::CheckReport;
use crate::report::step::StepReport;

/// The time of a step, operator by operator.
pub fn predict(
    predictor: &Predictor,
    architecture: &Architecture,
    workload: &Workload,
) -> Result<StepReport> {
    let step = estimate_step(predictor, architecture, workload)?;
    let ops = step.lines.iter().map(|line| &line.item.op);
    let bases = bases(predictor, ops);
    let gpu = predictor.gpu();
    Ok(StepReport::new(gpu, architecture, workload, &step, bases))
}

/// The sizing rules on a shape, the price of each broken one, and what mends it.
pub fn check(
    predictor: &Predictor,
    architecture: &Architecture,
    workload: &Workload,
) -> Result<CheckReport> {
    let check = check::check(predictor, architecture, workload)?;
    let gpu = predictor.gpu();
    Ok(CheckReport::new(gpu, architecture, workload, &check))
}
