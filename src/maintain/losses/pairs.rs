//! Predicted against measured differences of loss: pairs of shapes after equal tokens, of nearly equal parameters.
//!
//! The built-in laws are judged on shapes that they were fitted to and, apart, on others. Laws fitted anew to the table are
//! judged by cross-validation: no pair by a fit that saw a run of either shape's fold.

use crate::losses::fit::{Observation, fit};
use crate::losses::runs::{LossRun, LossRuns, LossSet};
use rayon::prelude::*;
use shapewise::dataset::Skipped;
use shapewise::error::Result;
use shapewise::loss::law::{Form, Member, Schedule, Size};
use shapewise::loss::{Ensemble, Model, Profile};
use shapewise::ops::Dtype;
use shapewise::random::Random;
use shapewise::stats::median;
use std::collections::{BTreeMap, BTreeSet};

/// Largest ratio of the parameters of a pair.
const NEARLY_EQUAL: f64 = 1.12;

/// Difference from which its sign is judged, nats per token.
const VISIBLE: f64 = 0.01;

/// Folds of whole shapes.
const FOLDS: usize = 6;

/// Shapes from which laws are fitted anew.
const ENOUGH_SHAPES: usize = 10;

/// Token counts of a set that laws are fitted to: points of one curve say nearly the same.
const FITTED_TOKENS: usize = 8;

/// Bootstrap draws over shapes of each refitted law.
const BOOTSTRAPS: usize = 12;

/// The refitted forms, whose median counts.
const FORMS: [Form; 2] = [Form::Aspect, Form::WidthDepth];

shapewise::named_enum! {
    /// Which laws judge which pairs.
    Judge {
        /// The built-in ones, both shapes in their fit: no figure of predictions.
        BuiltInFitted = "built in, fitted to these shapes",
        /// The built-in ones, neither shape in their fit.
        BuiltIn = "built in, shapes held back",
        /// Laws fitted to the table without the folds of both shapes.
        Refitted = "refitted without the shapes",
        /// The same without a term of the shape.
        WithoutShape = "refitted without a shape term",
    }
}

/// The pairs of one set by one judge.
#[derive(Clone, Debug)]
pub struct PairErrors {
    /// Which losses; none for all together.
    pub set: Option<LossSet>,
    /// Who predicted.
    pub judge: Judge,
    /// Shapes.
    pub shapes: usize,
    /// Pairs of shapes.
    pub pairs: usize,
    /// Root mean square of the measured differences, nats per token.
    pub measured_rms: f64,
    /// Median of the absolute errors.
    pub median_error: f64,
    /// Root mean square of the errors.
    pub rms_error: f64,
    /// Share of pairs with a visible difference whose sign is right.
    pub sign_right: Option<f64>,
    /// Share of pairs whose measured difference lies in the 90 % band.
    pub coverage_90: Option<f64>,
}

/// The pair test of a table.
#[derive(Clone, Debug, Default)]
pub struct PairTest {
    /// Every set by every judge, then all sets together.
    pub errors: Vec<PairErrors>,
    /// Rows without a pair.
    pub skipped: Skipped,
    /// Pairs without a prediction of some laws.
    pub unjudged: Skipped,
}

/// One pair with what is predicted of it.
struct Pair<'a> {
    a: &'a LossRun,
    b: &'a LossRun,
}

/// A predicted difference, nats per token.
struct Predicted {
    measured: f64,
    central: f64,
    band: Option<[f64; 2]>,
}

/// Judges every pair of a table.
pub fn pair_test(losses: &LossRuns) -> Result<PairTest> {
    let mut sets: BTreeMap<&LossSet, Vec<&LossRun>> = BTreeMap::new();
    for run in &losses.runs {
        sets.entry(&run.set).or_default().push(run);
    }
    let mut test = PairTest {
        skipped: losses.skipped.clone(),
        ..PairTest::default()
    };
    let mut all: BTreeMap<Judge, (BTreeSet<&str>, Vec<Predicted>)> = BTreeMap::new();
    for (set, runs) in sets {
        let pairs = pairs(&runs, &mut test.skipped);
        if pairs.is_empty() {
            continue;
        }
        for judge in Judge::ALL {
            let (shapes, predicted) = match judge {
                Judge::BuiltInFitted => built_in(&pairs, true, &mut test.unjudged),
                Judge::BuiltIn => built_in(&pairs, false, &mut test.unjudged),
                Judge::Refitted => refitted(&runs, &pairs, &FORMS, &mut test.unjudged)?,
                Judge::WithoutShape => refitted(&runs, &pairs, &[Form::Total], &mut Skipped::default())?,
            };
            test.errors
                .extend(PairErrors::of(Some(set), judge, &shapes, &predicted));
            let (every, together) = all.entry(judge).or_default();
            every.extend(shapes);
            together.extend(predicted);
        }
    }
    for (judge, (shapes, predicted)) in all {
        test.errors.extend(PairErrors::of(None, judge, &shapes, &predicted));
    }
    Ok(test)
}

/// Pairs of different layers or widths after equal tokens.
fn pairs<'a>(runs: &[&'a LossRun], skipped: &mut Skipped) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let mut paired = vec![false; runs.len()];
    for (i, a) in runs.iter().enumerate() {
        for (j, b) in runs.iter().enumerate().skip(i + 1) {
            let ratio = a.parameters() / b.parameters();
            let alike = ratio.ln().abs() <= NEARLY_EQUAL.ln() && a.vocab == b.vocab;
            if a.shape != b.shape && a.tokens == b.tokens && alike {
                pairs.push(Pair { a, b });
                (paired[i], paired[j]) = (true, true);
            }
        }
    }
    let alone = paired.iter().filter(|paired| !**paired).count() as u64;
    let reason = "no other shape has as many tokens and parameters within 12 %";
    skipped.add(reason, alone);
    pairs
}

fn size(run: &LossRun) -> Size {
    Size {
        layers: run.layers,
        width: run.width,
        blocks: run.attention + run.mlp,
        embeddings: run.embeddings(),
    }
}

fn profile(run: &LossRun) -> Profile {
    Profile {
        size: size(run),
        mlp_share: run.mlp / run.attention,
        // Both shapes of a pair are alike in this.
        gated: true,
        head_dim: run.head_dim,
        heads: run.heads,
        kv_group: run.heads / run.kv_heads,
        sparsity: 1.0,
        granularity: 1.0,
        format: Dtype::Bf16,
        latent: None,
        linear: None,
        window: None,
        vocab: run.vocab as u64,
    }
}

fn predict(model: &Model, pair: &Pair<'_>) -> std::result::Result<Predicted, String> {
    let [a, b] = [pair.a, pair.b].map(profile);
    let found = model.compare(&a, &b, pair.a.tokens);
    let Some(difference) = found.difference else {
        let reasons = found.reasons.iter().map(|reason| reason.name());
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        return Err(format!("outside the data of the laws: {reasons}"));
    };
    Ok(Predicted {
        measured: pair.a.loss - pair.b.loss,
        central: difference.mnat / 1e3,
        band: Some([difference.low_mnat, difference.high_mnat].map(|mnat| mnat / 1e3)),
    })
}

type Found<'a> = (BTreeSet<&'a str>, Vec<Predicted>);

/// By the built-in laws: pairs of which both shapes, or neither, were in their fit.
fn built_in<'a>(pairs: &[Pair<'a>], fitted: bool, skipped: &mut Skipped) -> Found<'a> {
    let model = Model::get();
    let of_fit: BTreeSet<&str> = model
        .sources
        .iter()
        .flat_map(|source| source.shapes.iter().map(String::as_str))
        .collect();
    let wanted: Vec<&Pair<'a>> = pairs
        .iter()
        .filter(|pair| {
            [pair.a, pair.b]
                .iter()
                .all(|run| of_fit.contains(run.shape.as_str()) == fitted)
        })
        .collect();
    let predicted: Vec<_> = wanted.par_iter().map(|pair| predict(model, pair)).collect();
    kept(&wanted, predicted, skipped)
}

fn kept<'a>(
    pairs: &[&Pair<'a>],
    predicted: Vec<std::result::Result<Predicted, String>>,
    skipped: &mut Skipped,
) -> Found<'a> {
    let mut found = Found::default();
    for (pair, predicted) in pairs.iter().zip(predicted) {
        match predicted {
            Ok(predicted) => {
                found.0.extend([pair.a.shape.as_str(), pair.b.shape.as_str()]);
                found.1.push(predicted);
            }
            Err(reason) => skipped.add(&reason, 1),
        }
    }
    found
}

/// By laws that saw no run of the folds of both shapes.
fn refitted<'a>(runs: &[&'a LossRun], pairs: &[Pair<'a>], forms: &[Form], skipped: &mut Skipped) -> Result<Found<'a>> {
    let shapes: BTreeSet<&str> = runs.iter().map(|run| run.shape.as_str()).collect();
    if shapes.len() < ENOUGH_SHAPES {
        let reason = format!("not refitted: a set of fewer than {ENOUGH_SHAPES} shapes");
        skipped.add(&reason, pairs.len() as u64);
        return Ok(Found::default());
    }
    let fold: BTreeMap<&str, usize> = shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| (*shape, index % FOLDS))
        .collect();
    let folds_of = |pair: &Pair<'_>| {
        let [a, b] = [pair.a, pair.b].map(|run| fold[run.shape.as_str()]);
        (a.min(b), a.max(b))
    };
    let mut groups: BTreeMap<(usize, usize), Vec<&Pair<'a>>> = BTreeMap::new();
    for pair in pairs {
        groups.entry(folds_of(pair)).or_default().push(pair);
    }
    let fitted = thinned(runs);
    let judged: Vec<_> = groups
        .into_par_iter()
        .map(|((one, other), pairs)| {
            let rest: Vec<&LossRun> = fitted
                .iter()
                .filter(|run| ![one, other].contains(&fold[run.shape.as_str()]))
                .copied()
                .collect();
            let model = model_of(&rest, forms)?;
            let predicted: Vec<_> = pairs.iter().map(|pair| predict(&model, pair)).collect();
            Ok((pairs, predicted))
        })
        .collect::<Result<_>>()?;
    let mut found = Found::default();
    for (pairs, predicted) in judged {
        let (shapes, more) = kept(&pairs, predicted, skipped);
        found.0.extend(shapes);
        found.1.extend(more);
    }
    Ok(found)
}

/// Runs at a few token counts of a set.
fn thinned<'a>(runs: &[&'a LossRun]) -> Vec<&'a LossRun> {
    let counts: BTreeSet<u64> = runs.iter().map(|run| run.tokens as u64).collect();
    let step = counts.len().div_ceil(FITTED_TOKENS).max(1);
    // From the end: the last point of a run says most.
    let counts: BTreeSet<u64> = counts.into_iter().rev().step_by(step).collect();
    let runs = runs.iter().copied();
    runs.filter(|run| counts.contains(&(run.tokens as u64))).collect()
}

/// A model of laws fitted to these runs, with bootstrap draws over shapes.
fn model_of(runs: &[&LossRun], forms: &[Form]) -> Result<Model> {
    let shapes: BTreeSet<&str> = runs.iter().map(|run| run.shape.as_str()).collect();
    let shapes: Vec<&str> = shapes.into_iter().collect();
    let observe = |weight: &dyn Fn(&str) -> f64| -> Vec<Observation> {
        let observation = |run: &&LossRun| Observation {
            size: size(run),
            tokens: run.tokens,
            loss: run.loss,
            weight: weight(&run.shape),
        };
        let all = runs.iter().map(observation);
        all.filter(|run| run.weight > 0.0).collect()
    };
    let mut random = Random::new(0, "pair test");
    let mut members = Vec::new();
    for &form in forms {
        let mut draws = vec![fit(form, &observe(&|_| 1.0))?];
        for _ in 0..BOOTSTRAPS {
            let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
            for _ in &shapes {
                *counts.entry(random.pick(&shapes)).or_default() += 1.0;
            }
            let weight = |shape: &str| counts.get(shape).copied().unwrap_or(0.0);
            draws.push(fit(form, &observe(&weight))?);
        }
        members.push(Member {
            name: form.name().to_owned(),
            form,
            schedule: Schedule::Constant,
            draws,
        });
    }
    let [shapes, sizes] = [(); 2].map(|()| Ensemble::new(&members));
    Ok(Model::with(Vec::new(), shapes, sizes))
}

impl PairErrors {
    /// The statistics of these pairs; none of no pairs.
    fn of(set: Option<&LossSet>, judge: Judge, shapes: &BTreeSet<&str>, predicted: &[Predicted]) -> Option<Self> {
        let error = |pair: &Predicted| (pair.central - pair.measured).abs();
        let rms = |values: &dyn Fn(&Predicted) -> f64| {
            let squares = predicted.iter().map(|pair| values(pair).powi(2));
            (squares.sum::<f64>() / predicted.len() as f64).sqrt()
        };
        let share = |right: Vec<bool>| {
            let count = right.iter().filter(|right| **right).count();
            (!right.is_empty()).then(|| count as f64 / right.len() as f64)
        };
        let visible = predicted.iter().filter(|pair| pair.measured.abs() > VISIBLE);
        let signs = visible.map(|pair| (pair.measured > 0.0) == (pair.central > 0.0));
        let inside = predicted.iter().filter_map(|pair| {
            let [low, high] = pair.band?;
            Some((low..=high).contains(&pair.measured))
        });
        Some(Self {
            set: set.cloned(),
            judge,
            shapes: shapes.len(),
            pairs: predicted.len(),
            measured_rms: rms(&|pair| pair.measured),
            median_error: median(predicted.iter().map(error).collect())?,
            rms_error: rms(&error),
            sign_right: share(signs.collect()),
            coverage_90: share(inside.collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shapewise::loss::law::Law;

    /// Runs of a law at three sizes, with layers and width swapped within a size where `shuffled`.
    fn runs(shuffled: bool) -> LossRuns {
        let law = Law::new(Form::Aspect, vec![1.9, -0.1, 0.23, -0.8, 0.45, 0.0, 3.8, 0.1, 0.05]).unwrap();
        let mut random = Random::new(7, "shapes");
        let mut all = LossRuns::default();
        for blocks in [1e8, 3e8, 9e8] {
            let ratios = [8.0, 16.0, 32.0, 64.0, 120.0, 200.0, 300.0];
            let mut others = ratios;
            if shuffled {
                random.shuffle(&mut others);
            }
            for (ratio, other) in ratios.into_iter().zip(others) {
                let shape = |ratio: f64| {
                    let width = f64::cbrt(blocks * ratio / 12.0);
                    Size {
                        layers: width / ratio,
                        width,
                        blocks,
                        embeddings: 0.0,
                    }
                };
                for tokens in [5e9, 2e10, 8e10] {
                    let Size { layers, width, .. } = shape(other);
                    all.runs.push(LossRun {
                        set: LossSet {
                            source: "law".to_owned(),
                            split: String::new(),
                            loss_on: String::new(),
                        },
                        shape: format!("{layers:.1}x{width:.1}"),
                        layers,
                        width,
                        heads: 8.0,
                        head_dim: 64.0,
                        kv_heads: 8.0,
                        attention: blocks / 3.0,
                        mlp: blocks * 2.0 / 3.0,
                        vocab: 1.0,
                        tokens,
                        loss: law.loss(&shape(ratio), tokens),
                    });
                }
            }
        }
        all
    }

    fn errors(test: &PairTest, judge: Judge) -> &PairErrors {
        let mut all = test.errors.iter();
        all.find(|errors| errors.set.is_none() && errors.judge == judge)
            .unwrap()
    }

    #[test]
    fn a_term_of_the_shape_is_found_where_there_is_one_and_nowhere_else() {
        let test = pair_test(&runs(false)).unwrap();
        let [with, without] = [Judge::Refitted, Judge::WithoutShape].map(|judge| errors(&test, judge));
        assert!(with.median_error < 0.25 * without.median_error, "{with:?} {without:?}");
        assert!(with.sign_right.unwrap() > 0.95);
        let shuffled = pair_test(&runs(true)).unwrap();
        let [with, without] = [Judge::Refitted, Judge::WithoutShape].map(|judge| errors(&shuffled, judge));
        assert!(with.median_error > 0.8 * without.median_error, "{with:?} {without:?}");
    }
}
