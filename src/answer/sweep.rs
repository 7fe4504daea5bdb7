//! One GEMM, one attention or a step of a whole model along one of its sizes.

use crate::answer::{bases, step_bases};
use crate::arch::Architecture;
use crate::error::{Error, Result};
use crate::ops::Op;
use crate::predict::Predictor;
use crate::predict::step::estimate_step;
use crate::report::sweep::{Measured, SweepReport, Swept};
use crate::request::{ModelRequest, OperatorRequest, Sizes};
use crate::sweep;
use crate::sweep::{Range, Subject};
use crate::units::Seconds;
use std::sync::Arc;

/// A timing that a curve may be compared with.
pub struct Timing {
    /// What was measured.
    pub op: Op,
    /// How long it took.
    pub time: Seconds,
    /// The software that ran it.
    pub stack: Arc<str>,
}

/// The curve of a step of a model; `base` is its architecture as it is named.
pub fn model(predictor: &Predictor, base: &Architecture, request: &ModelRequest) -> Result<SweepReport> {
    let (dimension, range) = Sizes::swept(predictor.gpu(), |sizes| request.described(base, sizes))?;
    let at = |value| {
        let (architecture, workload) = request.step(base, &mut Sizes::at(predictor.gpu(), value))?;
        let workload = architecture.on(predictor.gpu(), &workload);
        Ok((architecture, workload))
    };
    let sweep = sweep::models(predictor, range, at)?;
    let [first, last] = [sweep.points.first(), sweep.points.last()];
    let end = |point: Option<&sweep::Point>| at(point.map_or(range.start(), |point| point.value));
    let ends = [end(first)?, end(last)?];
    predictor.gpu().require(ends[0].1.dtypes())?;
    let step = estimate_step(predictor, &ends[0].0, &ends[0].1)?;
    let swept = Swept {
        gpu: predictor.gpu(),
        dtype: ends[0].1.dtype,
        dimension: dimension.to_owned(),
        range,
        basis: step_bases(predictor, ends[0].1.mode, &step)?,
        framework: Some(step.framework),
    };
    Ok(SweepReport::models(swept, &sweep, &ends))
}

/// The curve of an operator, with the timings that lie on it; there must be one where any are given.
pub fn operator(
    predictor: &Predictor,
    request: &impl OperatorRequest,
    timings: Option<&[Timing]>,
) -> Result<SweepReport> {
    let (dimension, range) = Sizes::swept(predictor.gpu(), |sizes| request.op(sizes))?;
    let at = |value| request.op(&mut Sizes::at(predictor.gpu(), value));
    predictor.gpu().require(at(range.start())?.dtype())?;
    let measured = along(timings.unwrap_or_default(), dimension, range, at);
    if timings.is_some() && measured.is_empty() {
        return Err(Error::infeasible(format!(
            "timings: no row of {} lies on the sweep; all but {dimension} must be equal, layout and format too",
            predictor.gpu().name
        )));
    }
    let sweep = sweep::operators(predictor, range, at)?;
    let ops: Vec<_> = sweep
        .points
        .iter()
        .filter_map(|point| match point.subject {
            Subject::Operator(op) => Some((op, point.caveats)),
            Subject::Model(_) => None,
        })
        .collect();
    let swept = Swept {
        gpu: predictor.gpu(),
        dtype: ops[0].0.dtype().expect("GEMMs and attention have a format"),
        dimension: dimension.to_owned(),
        range,
        framework: None,
        basis: bases(predictor, predictor.kernels(), ops.into_iter()),
    };
    Ok(SweepReport::operators(swept, &sweep, &measured))
}

/// The timings that lie on the curve of this dimension, by rising value.
fn along(timings: &[Timing], dimension: &str, range: Range, at: impl Fn(u64) -> Result<Op>) -> Vec<Measured> {
    let on_curve = timings.iter().filter_map(|timing| {
        let value = timing.op.dimension(dimension)?.get(&timing.op)?.count()?;
        let lies_on = range.contains(value) && at(value).is_ok_and(|op| op == timing.op);
        lies_on.then(|| Measured {
            value,
            op: timing.op,
            time: timing.time,
            stack: timing.stack.to_string(),
        })
    });
    let mut measured: Vec<_> = on_curve.collect();
    measured.sort_by_key(|point| point.value);
    measured
}
