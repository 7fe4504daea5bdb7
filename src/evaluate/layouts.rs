//! Measured layouts against each other: of pairs of one model, GPU, number of GPUs, format (that of weights and states too)
//! and length, is the faster one predicted to be faster?

use super::runs::Judged;
use crate::arch::{OptimizerStates, Workload};
use crate::framework::Kind;
use crate::stats;
use crate::units::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// Two measured times closer than this, in `ln`, have no order worth predicting.
const APART: f64 = 0.05;

/// Errors of the predicted ratio of two layouts.
#[derive(Clone, Debug, Serialize)]
pub struct PairErrors {
    /// The kind of step.
    pub kind: Kind,
    /// Whether both layouts of a pair ran on the same release of the software.
    pub same_release: bool,
    /// Pairs.
    pub pairs: usize,
    /// Pairs whose measured times differ by more than 5 %.
    pub apart: usize,
    /// Of those, the share whose faster layout is predicted to be faster.
    pub order_right: Option<f64>,
    /// Quantile of 60 % of the absolute error of `ln` of the ratio.
    pub error_60: f64,
    /// That of 90 %.
    pub error_90: f64,
}

/// What is compared: model, GPU, number of GPUs, format and length, software where releases are kept apart.
type Compared<'a> = (
    Kind,
    &'a str,
    &'a str,
    u64,
    (&'static str, OptimizerStates, bool),
    u64,
    &'a str,
);

fn compared<'a>(judged: &'a Judged<'_>, same_release: bool) -> Compared<'a> {
    let (run, work) = (judged.run, &judged.run.workload);
    (
        judged.kind(),
        &run.architecture.name,
        &run.gpu.name,
        work.gpus(),
        (work.format_name(), work.optimizer_states, work.autocast),
        work.seq,
        if same_release { &run.software } else { "" },
    )
}

/// Seconds a token of all replicas.
fn a_token(work: &Workload, step: Seconds) -> f64 {
    step.secs() / (work.tokens() * work.microbatches * work.dp) as f64
}

/// `ln` of measured and predicted seconds a token of one layout, as often as it was measured.
struct Times {
    layout: Workload,
    all: Vec<[f64; 2]>,
}

/// Errors of predicted ratios between measured layouts, by kind of step.
pub fn pairs(judged: &[Judged<'_>]) -> Vec<PairErrors> {
    let trained = || judged.iter().filter(|judged| judged.run.workload.trains());
    let mut errors = Vec::new();
    for same_release in [true, false] {
        // A layout that was measured again counts once.
        let mut groups: BTreeMap<Compared<'_>, Vec<Times>> = BTreeMap::new();
        for each in trained() {
            let work = each.run.workload;
            let [measured, predicted] = [each.run.time, each.time()].map(|time| a_token(&work, time).ln());
            let group = groups.entry(compared(each, same_release)).or_default();
            match group.iter_mut().find(|times| times.layout == work) {
                Some(times) => times.all.push([measured, predicted]),
                None => group.push(Times {
                    layout: work,
                    all: vec![[measured, predicted]],
                }),
            }
        }
        let mut by_kind: BTreeMap<Kind, Vec<(f64, f64)>> = BTreeMap::new();
        for ((kind, ..), group) in groups {
            let layouts = group.into_iter().filter_map(|times| {
                let median = |of: usize| stats::median(times.all.iter().map(|pair| pair[of]).collect());
                Some((median(0)?, median(1)?))
            });
            let layouts: Vec<(f64, f64)> = layouts.collect();
            let ratios = by_kind.entry(kind).or_default();
            for (index, a) in layouts.iter().enumerate() {
                ratios.extend(layouts[..index].iter().map(|b| (a.0 - b.0, a.1 - b.1)));
            }
        }
        errors.extend(
            by_kind
                .into_iter()
                .filter_map(|(kind, ratios)| PairErrors::of(kind, same_release, &ratios)),
        );
    }
    errors
}

impl PairErrors {
    /// Of pairs of measured and predicted `ln` of a ratio; none without any.
    fn of(kind: Kind, same_release: bool, ratios: &[(f64, f64)]) -> Option<Self> {
        let mut off: Vec<f64> = ratios
            .iter()
            .map(|(measured, predicted)| (measured - predicted).abs())
            .collect();
        off.sort_by(f64::total_cmp);
        let apart: Vec<_> = ratios.iter().filter(|(measured, _)| measured.abs() > APART).collect();
        if off.is_empty() {
            return None;
        }
        let right = apart.iter().filter(|(measured, predicted)| measured * predicted > 0.0);
        Some(Self {
            kind,
            same_release,
            pairs: ratios.len(),
            apart: apart.len(),
            order_right: (!apart.is_empty()).then(|| right.count() as f64 / apart.len() as f64),
            error_60: stats::quantile(&off, 0.6),
            error_90: stats::quantile(&off, 0.9),
        })
    }
}
