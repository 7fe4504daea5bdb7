//! Predicted against measured whole models: training iterations, prefills, decode steps.
//!
//! The prediction is the plain sum of [`estimate_step`]: every kernel after the other, collectives
//! included. Real training hides part of the data-parallel traffic behind the backward pass, so a
//! second number counts what is left when all of it is hidden; the truth lies between the two.

use crate::arch::Role;
use crate::dataset::Skipped;
use crate::dataset::runs::Publisher;
use crate::dataset::runs::Run;
use crate::dataset::runs::Runs;
use crate::error::Result;
use crate::evaluate::Errors;
use crate::evaluate::Score;
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::predict::estimate::Estimate;
use crate::predict::estimate::Tier;
use crate::predict::step::Line;
use crate::predict::step::StepEstimate;
use crate::predict::step::estimate_step;
use crate::units::Seconds;
use std::collections::BTreeMap;

/// Whole-model predictions against measurements.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Groups in the order of publisher and name.
    pub groups: Vec<RunGroup>,
    /// Rows without a prediction.
    pub skipped: Skipped,
}

/// Runs that are reported together.
#[derive(Clone, Debug)]
pub struct RunGroup {
    /// Whose measurements.
    pub publisher: Publisher,
    /// Which of them.
    pub name: String,
    /// Everything after the other.
    pub serial: RunErrors,
    /// Data-parallel traffic hidden behind everything else; none where there is no such traffic.
    pub overlapped: Option<RunErrors>,
    /// Mean share of the predicted time that nothing was learned for.
    pub roofline_share: f64,
    /// The run that is furthest off (serial).
    pub worst: String,
}

/// Errors of one way to add up a step.
#[derive(Clone, Copy, Debug)]
pub struct RunErrors {
    /// The usual table.
    pub errors: Errors,
    /// Geometric mean of predicted over measured, less 1: negative is too fast.
    pub bias: f64,
}

/// Predicts every run; `answer` gives the predictor of a GPU.
pub fn compare(runs: &Runs, answer: &dyn Fn(&Gpu) -> Result<Predictor>) -> Result<Comparison> {
    let mut predictors: BTreeMap<&str, Predictor> = BTreeMap::new();
    let mut groups: BTreeMap<(Publisher, &str), Vec<Outcome<'_>>> = BTreeMap::new();
    for run in &runs.runs {
        if !predictors.contains_key(run.gpu.name.as_str()) {
            predictors.insert(&run.gpu.name, answer(run.gpu)?);
        }
        let step = estimate_step(
            &predictors[run.gpu.name.as_str()],
            &run.architecture,
            &run.workload,
        )?;
        groups
            .entry((run.publisher, &run.group))
            .or_default()
            .push(Outcome::new(run, &step));
    }
    let group = |((publisher, name), outcomes): (_, Vec<Outcome<'_>>)| {
        RunGroup::new(publisher, name, &outcomes)
    };
    Ok(Comparison {
        groups: groups.into_iter().map(group).collect(),
        skipped: runs.skipped.clone(),
    })
}

/// One run and what was predicted for it.
struct Outcome<'a> {
    run: &'a Run,
    serial: Score,
    overlapped: Option<Score>,
    roofline_share: f64,
}

impl<'a> Outcome<'a> {
    fn new(run: &'a Run, step: &StepEstimate) -> Self {
        let tier = step.worst_tier();
        let estimate = |time: Seconds| Estimate {
            time,
            half_width: (step.high / step.time).ln(),
            shared: 0.0,
            tier,
            caveats: step.caveats,
        };
        let score = |time| Score {
            measured: run.time,
            estimate: estimate(time),
        };
        let traffic = |line: &&Line| line.item.role == Role::DataParallel;
        let hidden: Seconds = step
            .lines
            .iter()
            .filter(traffic)
            .map(|line| line.time)
            .sum();
        Self {
            run,
            serial: score(step.time),
            overlapped: (hidden > Seconds::ZERO).then(|| score((step.time - hidden).max(hidden))),
            roofline_share: step.tier_shares[Tier::Roofline as usize],
        }
    }
}

impl RunGroup {
    fn new(publisher: Publisher, name: &str, outcomes: &[Outcome<'_>]) -> Self {
        let serial: Vec<Score> = outcomes.iter().map(|outcome| outcome.serial).collect();
        let any_hidden = outcomes.iter().any(|outcome| outcome.overlapped.is_some());
        let overlapped: Vec<Score> = outcomes
            .iter()
            .map(|outcome| outcome.overlapped.unwrap_or(outcome.serial))
            .collect();
        let distance = |score: &Score| (score.estimate.time / score.measured).ln().abs();
        let worst = outcomes
            .iter()
            .max_by(|a, b| distance(&a.serial).total_cmp(&distance(&b.serial)));
        let shares: f64 = outcomes.iter().map(|outcome| outcome.roofline_share).sum();
        Self {
            publisher,
            name: name.to_owned(),
            serial: RunErrors::of(&serial),
            overlapped: any_hidden.then(|| RunErrors::of(&overlapped)),
            roofline_share: shares / outcomes.len() as f64,
            worst: worst.map_or_else(String::new, |outcome| outcome.run.label.clone()),
        }
    }
}

impl RunErrors {
    fn of(scores: &[Score]) -> Self {
        let logs = scores
            .iter()
            .map(|score| (score.estimate.time / score.measured).ln());
        Self {
            errors: Errors::of(scores),
            bias: (logs.sum::<f64>() / scores.len() as f64).exp_m1(),
        }
    }
}
