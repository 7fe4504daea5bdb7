//! Answers to requests: what the pipeline says about them, as documents.
//!
//! The command line and the HTTP service ask here, so equal requests get equal documents.

pub mod calibrate;

pub mod catalog;

pub mod graph;

pub mod predictors;

pub mod question;

pub mod plan;

pub mod prune;

pub mod schema;

pub mod search;

pub mod sweep;

use crate::arch::{Architecture, Mode, Workload};
use crate::check;
use crate::error::Result;
use crate::families::{Caveat, Caveats, Family, Variant};
use crate::framework::Kernels;
use crate::ops::Op;
use crate::plan::{remedy, shorter};
use crate::predict::Predictor;
use crate::predict::estimate::Tier;
use crate::predict::step::{StepEstimate, estimate_step, learns_collectives};
use crate::report::Basis;
use crate::report::check::CheckReport;
use crate::report::operator::OperatorReport;
use crate::report::operator_check::OperatorCheckReport;
use crate::report::step::StepReport;
use crate::request::RunRequest;

/// The time of each operator, in the order of the request.
pub fn operators(predictor: &Predictor, ops: &[Op]) -> Result<Vec<OperatorReport>> {
    predictor.gpu().require(ops.iter().filter_map(Op::dtype))?;
    let estimates = predictor.predict(ops);
    let answered = ops.iter().zip(&estimates);
    let reports = answered.map(|(op, estimate)| {
        let note = op.dtype().and_then(|dtype| predictor.format_note(dtype));
        let mut basis = basis(predictor, predictor.kernels(), &answered_as(op, estimate.caveats));
        if let Some(basis) = &mut basis
            && estimate.tier == Tier::Measured
        {
            basis.stack = Some("the timings given".to_owned());
        }
        let report = OperatorReport::new(predictor.gpu(), op, estimate, basis);
        report.with_note(note).with_note(check::refusal(op, predictor.gpu()))
    });
    Ok(reports.collect())
}

/// The time of one operator, what bounds it and the nearest size that is faster.
pub fn operator(predictor: &Predictor, op: &Op) -> Result<OperatorReport> {
    limited(predictor, op).map(|(report, _)| report)
}

/// The sizing rules on one operator, and what a better size saves.
pub fn check_operator(predictor: &Predictor, op: &Op) -> Result<OperatorCheckReport> {
    let (report, limits) = limited(predictor, op)?;
    let diagnoses = check::check_operator(predictor.gpu(), op, &limits);
    Ok(OperatorCheckReport::new(report, diagnoses))
}

fn limited(predictor: &Predictor, op: &Op) -> Result<(OperatorReport, check::Limits)> {
    let report = operators(predictor, &[*op])?.remove(0);
    let limits = check::limits(predictor, op);
    Ok((report.with_limits(&limits), limits))
}

/// The time of a step, operator by operator, and what the run takes that is asked about.
pub fn step(
    predictor: &Predictor,
    architecture: &Architecture,
    workload: &Workload,
    run: &RunRequest,
) -> Result<StepReport> {
    run.validate(workload)?;
    let workload = &runnable(predictor, architecture, workload)?;
    let step = estimate_step(predictor, architecture, workload)?;
    let bases = step_bases(predictor, workload.mode, &step)?;
    let report = StepReport::new(predictor, architecture, workload, &step, bases)?;
    let tokens = run.tokens.map(|tokens| tokens.0);
    let report = report.with_cost(tokens, run.usd_per_gpu_hour.map(|price| price.0));
    Ok(match step.fits {
        true => report,
        false => report.with_remedies(
            remedy(predictor, architecture, workload)?,
            shorter(predictor, architecture, workload)?,
        ),
    })
}

/// The workload as the GPU runs it; fails where GPU or framework do not run it.
fn runnable(predictor: &Predictor, architecture: &Architecture, workload: &Workload) -> Result<Workload> {
    let workload = architecture.on(predictor.gpu(), workload);
    predictor.gpu().require(workload.dtypes())?;
    predictor.framework(workload.mode)?.check_layout(&workload)?;
    Ok(workload)
}

/// The sizing rules on a shape, the predicted cost of each broken one, and what fixes it.
pub fn check(predictor: &Predictor, architecture: &Architecture, workload: &Workload) -> Result<CheckReport> {
    let workload = &runnable(predictor, architecture, workload)?;
    let check = check::check(predictor, architecture, workload)?;
    Ok(CheckReport::new(predictor, architecture, workload, &check))
}

/// The operator that answers for one: a decoding step for queries against a longer cache, where that was the faster.
fn answered_as(op: &Op, caveats: Caveats) -> Op {
    match op {
        Op::Attention(op) if caveats.contains(Caveat::FewQueries) => {
            Op::Attention(op.folded().map_or(*op, |(folded, _)| folded))
        }
        _ => *op,
    }
}

/// What the estimate of `op` by these kernels is based on, where its family is learned.
fn basis(predictor: &Predictor, kernels: Kernels, op: &Op) -> Option<Basis> {
    let (family, variant) = (Family::of(op), Variant::of(op));
    let stack = predictor.basis(kernels, family, variant);
    // Every model learns GEMM and attention; the other families are named where one does.
    (stack.is_some() || variant.kind().is_none()).then(|| Basis {
        family: predictor.answering(kernels, family, variant).name(),
        dtype: variant.to_string(),
        stack,
        interval: predictor.scope(),
    })
}

/// What the estimates of the operators of a step are based on, each basis once; of collectives where nets are asked for them.
fn step_bases(predictor: &Predictor, mode: Mode, step: &StepEstimate) -> Result<Vec<Basis>> {
    let kernels = predictor.framework(mode)?.kernels;
    let answers = step.lines.iter().map(|line| (line.item.op, line.each.caveats));
    let is_asked = |(op, _): &(Op, Caveats)| learns_collectives(mode) || !matches!(op, Op::Collective(_));
    Ok(bases(predictor, kernels, answers.filter(is_asked)))
}

/// What the estimates of these operators, given with their caveats, are based on, each basis once.
fn bases(predictor: &Predictor, kernels: Kernels, answers: impl Iterator<Item = (Op, Caveats)>) -> Vec<Basis> {
    let (mut bases, mut seen) = (Vec::new(), Vec::new());
    for (op, caveats) in answers {
        let op = &answered_as(&op, caveats);
        let kind = (Family::of(op), Variant::of(op));
        if seen.contains(&kind) {
            continue;
        }
        seen.push(kind);
        if let Some(basis) = basis(predictor, kernels, op)
            && !bases.contains(&basis)
        {
            bases.push(basis);
        }
    }
    bases
}
