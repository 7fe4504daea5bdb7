//! Predictions along one dimension of an operator or a model.
//!
//! A sweep asks its caller for the operator or the model at each value, so it need not know which
//! dimension varies. Values that no operator or model can have are counted with the reason.

mod range;

pub use range::Range;

use crate::arch::Architecture;
use crate::arch::Mode;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::error::Error;
use crate::error::Result;
use crate::ops::Op;
use crate::predict::Predictor;
use crate::predict::estimate::{Caveats, Tier, TierShares};
use crate::predict::memo::Memo;
use crate::units::Bytes;
use crate::units::Flops;
use crate::units::FlopsPerSecond;
use crate::units::Seconds;
use serde::Serialize;
use utoipa::ToSchema;

/// A fall of the rate from one point to the next counts as a drop above this share. Ours: a
/// smaller one is hardly seen in a plot of the curve.
pub const DROP: f64 = 0.03;

/// A predicted curve.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The predictions, by rising value.
    pub points: Vec<Point>,
    /// Values without a prediction, by reason.
    pub skipped: Vec<Skipped>,
    /// Where the rate falls.
    pub drops: Vec<Drop>,
    /// Which rate that is.
    pub drops_of: Rate,
}

/// What drops are falls of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Arithmetic per time.
    Arithmetic,
    /// Traffic of the device memory per time, which bounds a decode step.
    Traffic,
}

/// The prediction at one value.
#[derive(Clone, Debug)]
pub struct Point {
    /// The value of the swept dimension.
    pub value: u64,
    /// Expected time.
    pub time: Seconds,
    /// Lower end of its 90 % interval.
    pub low: Seconds,
    /// Upper end of its 90 % interval.
    pub high: Seconds,
    /// The arithmetic of one GPU: of an operator as executed, of a model as the utilisation counts it.
    pub flops: Flops,
    /// The least traffic of the memory of one GPU.
    pub bytes: Bytes,
    /// The tier of most of the time.
    pub tier: Tier,
    /// Why it is less certain than usual.
    pub caveats: Caveats,
    /// What was timed.
    pub subject: Subject,
}

/// What one point is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    /// One operator.
    Operator(Op),
    /// A step of a model.
    Model(ModelPoint),
}

/// The model at one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelPoint {
    /// All parameters.
    pub parameters: u64,
    /// Width of a query and key head.
    pub head_dim: u64,
    /// Tokens per second of one replica, and the ends of the 90 % interval.
    pub tokens_per_s: [f64; 3],
    /// Model FLOPs utilisation.
    pub mfu: f64,
    /// Share of the bandwidth of the memory that [`Point::bytes`] take.
    pub bandwidth_fraction: f64,
    /// Memory of one GPU.
    pub memory: Bytes,
    /// Whether that fits.
    pub fits: bool,
    /// What the server takes at least for a step, where that decides its time.
    pub bound_by_server: Option<Seconds>,
    /// Share of the time by tier.
    pub tier_shares: TierShares,
}

impl Point {
    /// Arithmetic per time.
    pub fn rate(&self) -> FlopsPerSecond {
        self.flops / self.time
    }
}

/// Values without a prediction, all for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Why, in the words for the first value.
    pub reason: String,
    /// The values.
    pub values: Vec<u64>,
}

/// A fall of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Drop {
    /// The first value on the lower side.
    pub value: u64,
    /// Share of the rate that is lost since the value before.
    pub depth: f64,
}

/// Predicts the operator `at(value)` for each value.
pub fn operators(predictor: &Predictor, range: Range, at: impl Fn(u64) -> Result<Op>) -> Result<Sweep> {
    let mut skipped = Vec::new();
    let mut ops = Vec::new();
    for value in range.values() {
        match at(value) {
            Ok(op) => ops.push((value, op)),
            Err(error) => skip(&mut skipped, value, error)?,
        }
    }
    let shapes: Vec<_> = ops.iter().map(|(_, op)| *op).collect();
    let estimates = predictor.predict(&shapes);
    let points = ops.iter().zip(&estimates).map(|((value, op), estimate)| Point {
        value: *value,
        time: estimate.time,
        low: estimate.low(),
        high: estimate.high(),
        flops: op.flops(),
        bytes: op.bytes(),
        tier: estimate.tier,
        caveats: estimate.caveats,
        subject: Subject::Operator(*op),
    });
    Sweep::new(points.collect(), skipped, Rate::Arithmetic)
}

/// Predicts a step of the model `at(value)` for each value.
pub fn models(
    predictor: &Predictor,
    range: Range,
    at: impl Fn(u64) -> Result<(Architecture, Workload)>,
) -> Result<Sweep> {
    let mut skipped = Vec::new();
    let mut points = Vec::new();
    let mut drops_of = Rate::Arithmetic;
    let mut memo = Memo::new(predictor);
    for value in range.values() {
        let model = at(value).and_then(|(architecture, workload)| {
            if workload.mode == Mode::Decode {
                drops_of = Rate::Traffic;
            }
            model_point(&mut memo, value, &architecture, &workload)
        });
        match model {
            Ok(point) => points.push(point),
            Err(error) => skip(&mut skipped, value, error)?,
        }
    }
    Sweep::new(points, skipped, drops_of)
}

fn model_point(memo: &mut Memo<'_>, value: u64, architecture: &Architecture, workload: &Workload) -> Result<Point> {
    let step = memo.step(architecture, workload)?;
    let kernels = step.lines.iter().map(|line| &line.item);
    let kernels = kernels.filter(|item| !matches!(item.op, Op::Collective(_)));
    let bytes = kernels.map(|item| item.op.bytes().bytes() * item.count as f64);
    let bytes = Bytes::from_bytes(bytes.sum());
    Ok(Point {
        value,
        time: step.time,
        low: step.low,
        high: step.high,
        flops: step.model_flops / step.gpus_per_replica as f64,
        bytes,
        tier: step.main_tier(),
        caveats: step.caveats,
        subject: Subject::Model(ModelPoint {
            parameters: parameters(architecture).total,
            head_dim: architecture.head_dim,
            tokens_per_s: [step.tokens_per_s, step.tokens_per_s_low, step.tokens_per_s_high],
            mfu: step.mfu,
            bandwidth_fraction: bytes / step.time / memo.predictor().gpu().bandwidth(),
            memory: step.memory.total(),
            fits: step.fits,
            bound_by_server: step.lanes.bound_by_server(),
            tier_shares: step.tier_shares,
        }),
    })
}

impl Sweep {
    fn new(points: Vec<Point>, skipped: Vec<Skipped>, drops_of: Rate) -> Result<Self> {
        if points.is_empty() {
            let reasons: Vec<_> = skipped.iter().map(|skip| skip.reason.as_str()).collect();
            let reasons = reasons.join("; ");
            return Err(Error::infeasible(format!(
                "no value of the range is possible: {reasons}"
            )));
        }
        let rate = |point: &Point| match drops_of {
            Rate::Arithmetic => point.flops.flops() / point.time.secs(),
            Rate::Traffic => point.bytes.bytes() / point.time.secs(),
        };
        Ok(Self {
            drops: drops(points.iter().map(|point| (point.value, rate(point)))),
            drops_of,
            points,
            skipped,
        })
    }
}

/// Counts a value that is impossible; reasons that differ in numbers only are one. Other errors go on.
fn skip(skipped: &mut Vec<Skipped>, value: u64, error: Error) -> Result<()> {
    if !error.is_bad_input() && !error.is_infeasible() {
        return Err(error);
    }
    let reason = error.to_string();
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    let known = skipped.iter_mut().find(|skip| words(&skip.reason) == words(&reason));
    match known {
        Some(skip) => skip.values.push(value),
        None => skipped.push(Skipped {
            reason,
            values: vec![value],
        }),
    }
    Ok(())
}

/// Every fall of a curve, given as values with their rates, by more than [`DROP`].
pub fn drops(curve: impl Iterator<Item = (u64, f64)>) -> Vec<Drop> {
    let curve: Vec<_> = curve.collect();
    let pairs = curve.windows(2).map(|pair| Drop {
        value: pair[1].0,
        depth: 1.0 - pair[1].1 / pair[0].1,
    });
    pairs.filter(|drop| drop.depth > DROP).collect()
}

#[cfg(test)]
mod tests;
