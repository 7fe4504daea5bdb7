//! Measured layouts against each other and against plans.
//!
//! Of pairs of measured layouts of one model, GPU, number of GPUs, format (that of weights and states too) and length: is
//! the faster one predicted to be faster? And of each published layout: how much faster is the best one that a plan finds
//! for the same GPUs and batch?

use super::runs::{Judged, placed};
use crate::arch::{OptimizerStates, Recompute, Workload};
use crate::error::Result;
use crate::framework::Kind;
use crate::gpu::Gpu;
use crate::plan::{self, Query};
use crate::predict::Predictor;
use crate::predict::memo::Memo;
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

/// How far published layouts may be behind the best of a plan: of dense models, of mixtures of experts.
pub const BEHIND: [(Kind, f64); 2] = [(Kind::TrainDense, 0.05), (Kind::TrainMoe, 0.10)];

/// A published layout beside the best of a plan for the same GPUs and batch.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Which run.
    pub label: String,
    /// The kind of step.
    pub kind: Kind,
    /// The model.
    pub model: String,
    /// The GPU.
    pub gpu: String,
    /// The published layout.
    pub published: Workload,
    /// The plan's best layout; `None` if no layout of the plan fits.
    pub best: Option<Workload>,
    /// Predicted time of the published layout over that of the best, less 1.
    pub behind: Option<f64>,
    /// Measured time a token over that of the fastest measured layout of the model on as many of these GPUs, format and
    /// length alike, less 1.
    pub slower: f64,
    /// Whether the published layout is among those of the plan, recomputation aside.
    pub listed: bool,
}

impl Planned {
    /// Whether it is further behind than [`BEHIND`] allows.
    pub fn is_far(&self) -> bool {
        let mut limits = BEHIND.iter().filter(|(kind, _)| *kind == self.kind);
        limits.any(|(_, most)| self.behind.is_none_or(|behind| behind > *most))
    }
}

/// Plans the GPUs and the batch of every published configuration once.
pub fn planned(judged: &[Judged<'_>], answer: &dyn Fn(&Gpu) -> Result<Predictor>) -> Result<Vec<Planned>> {
    let mut fastest: BTreeMap<Compared<'_>, f64> = BTreeMap::new();
    for each in judged.iter().filter(|judged| judged.run.workload.trains()) {
        let time = a_token(&each.run.workload, each.run.time);
        let least = fastest.entry(compared(each, false)).or_insert(time);
        *least = least.min(time);
    }
    let mut all: Vec<Planned> = Vec::new();
    for each in judged.iter().filter(|judged| judged.run.workload.trains()) {
        let (run, work) = (each.run, each.run.workload);
        if all
            .iter()
            .any(|other| other.label == run.label && other.published == work)
        {
            continue;
        }
        let predictor = answer(&placed(run))?.with_framework(each.framework.clone());
        let global_batch = work.batch * work.microbatches * work.dp;
        let query = Query::training(work.gpus(), global_batch, &work);
        let published = Memo::new(&predictor).cost(&run.architecture, &work)?.time;
        let tried = plan::tried(&predictor, &run.architecture, &query).ok();
        let is_published = |other: &Workload| {
            let aside = |work: &Workload| Workload {
                recompute: Recompute::None,
                recompute_layers: 0,
                sequence_parallel: false,
                ..*work
            };
            aside(other) == aside(&work)
        };
        let best = tried.as_ref().map(|tried| tried.layouts[0]);
        all.push(Planned {
            label: run.label.clone(),
            kind: each.kind(),
            model: run.architecture.name.clone(),
            gpu: run.gpu.name.clone(),
            published: work,
            slower: a_token(&work, run.time) / fastest[&compared(each, false)] - 1.0,
            behind: best.map(|best| published / best.time - 1.0),
            best: best.map(|best| best.workload),
            listed: tried.is_some_and(|tried| {
                let mut layouts = tried.layouts.iter();
                layouts.any(|tried| is_published(&tried.workload))
            }),
        });
    }
    Ok(all)
}
