//! What the order of an answer hangs on: the operators whose times are uncertain, and what of the workload would put another shape
//! first.

use crate::arch::{Dimension, Mode, Role};
use crate::ops::Op;
use crate::predict::Predictor;
use crate::predict::step::{StepEstimate, estimate_step};
use crate::search::{Found, Recommendation, rank};

/// Operators that are named.
const NAMED: usize = 3;

/// How far what may flip an order is looked for: so many doublings and halvings.
const FURTHEST: u32 = 3;

/// What the order of the first shapes hangs on.
#[derive(Clone, Debug)]
pub struct Order {
    /// `ln` of the GPU time per token of the second over that of the first, and the half width of its 90 % interval,
    /// which ties are found by.
    pub lead: [f64; 2],
    /// Operators with their share of the variance of the lead, the most first: timing them would narrow it.
    pub narrows: Vec<(Role, Op, f64)>,
    /// The first shape that does not tie with the first, if it is slower and the search has no goal but speed.
    pub rival: Option<Rival>,
}

/// A shape that is slower than the first by more than the uncertainty.
#[derive(Clone, Debug)]
pub struct Rival {
    /// Its place among the shapes.
    pub place: usize,
    /// The nearest values of dimensions of the workload with which it is the faster one.
    pub flips: Vec<(Dimension, u64)>,
    /// Dimensions in which no value from an eighth to eight times as large is one.
    pub stays: Vec<Dimension>,
}

impl Order {
    /// That of an answer; `None` if it has but one shape.
    pub fn of(predictor: &Predictor, found: &Found) -> Option<Self> {
        let shapes = &found.shapes[..];
        let [first, second, ..] = shapes else { return None };
        let narrows = narrows(&first.step, &second.step);
        let sensitivity = |one: &Recommendation| rank::sensitivity(predictor, &one.ranked.architecture, &one.workload);
        let sensitivities = [first, second].map(sensitivity);
        let half_width = rank::uncertainty(
            [&first.ranked.candidate, &second.ranked.candidate],
            sensitivities.each_ref().map(Option::as_ref),
        );
        let variance: f64 = narrows.iter().map(|(.., variance)| variance).sum();
        let mut named = narrows;
        named.sort_by(|a, b| b.2.total_cmp(&a.2));
        named.truncate(NAMED);
        let share = |(role, op, part)| (role, op, part / variance.max(f64::MIN_POSITIVE));
        let place = shapes.iter().position(|shape| shape.ranked.tie != first.ranked.tie);
        let by_speed = found.request.goal.is_none();
        let slower = place.filter(|place| by_speed && lead(&first.step, &shapes[*place].step) > 0.0);
        Some(Self {
            lead: [lead(&first.step, &second.step), half_width],
            narrows: named.into_iter().map(share).collect(),
            rival: slower.map(|place| Rival::of(predictor, found, place)),
        })
    }
}

impl Rival {
    fn of(predictor: &Predictor, found: &Found, place: usize) -> Self {
        let [first, rival] = [0, place].map(|place| &found.shapes[place]);
        let length = match first.workload.mode {
            Mode::Decode => Dimension::Context,
            Mode::Train | Mode::Prefill => Dimension::Seq,
        };
        // A planned layout has a batch of its own.
        let dimensions = [length].into_iter().chain((!found.sharded).then_some(Dimension::Batch));
        let (mut flips, mut stays) = (Vec::new(), Vec::new());
        for dimension in dimensions {
            let with = |shape: &Recommendation, value| {
                let mut arch = shape.ranked.architecture.clone();
                let mut work = shape.workload;
                dimension.set(&mut arch, &mut work, value).ok()?;
                let step = estimate_step(predictor, &arch, &work).ok()?;
                step.fits.then_some(step)
            };
            let now = dimension.get(&first.ranked.architecture, &first.workload);
            let near = (1..=FURTHEST).flat_map(|doubled| [now >> doubled, now << doubled]);
            let flipped = near.filter(|value| *value > 0).find(|value| {
                let both = with(first, *value).zip(with(rival, *value));
                both.is_some_and(|(first, rival)| lead(&first, &rival) < 0.0)
            });
            match flipped {
                Some(value) => flips.push((dimension, value)),
                None => stays.push(dimension),
            }
        }
        Self { place, flips, stays }
    }
}

/// `ln` of the GPU time per token of one step over that of the first.
fn lead(first: &StepEstimate, other: &StepEstimate) -> f64 {
    (other.gpu_time_per_token() / first.gpu_time_per_token()).ln()
}

/// What each operator adds to the variance of the logarithm of the ratio of two steps: an operator of both errs in both alike.
fn narrows(first: &StepEstimate, second: &StepEstimate) -> Vec<(Role, Op, f64)> {
    let mut parts: Vec<(Role, Op, f64, f64)> = Vec::new();
    for (step, sign) in [(first, 1.0), (second, -1.0)] {
        for line in &step.lines {
            let share = sign * (line.time / step.time);
            match parts.iter_mut().find(|(_, op, ..)| *op == line.item.op) {
                Some((.., known, _)) => *known += share,
                None => parts.push((line.item.role, line.item.op, share, line.each.own_variance())),
            }
        }
    }
    let parts = parts.into_iter();
    parts
        .map(|(role, op, share, own)| (role, op, share.powi(2) * own))
        .collect()
}
