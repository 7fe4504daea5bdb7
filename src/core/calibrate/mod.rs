//! Fits the constants of a framework to measured steps, and says how wrong it is on configurations kept out.
//!
//! The fit minimises Huber losses of `ln(predicted / measured)` and the squared distance of each constant from its prior,
//! in units of the prior's standard deviation, by Levenberg-Marquardt on logarithms (logits of shares). Constants whose
//! prior has no deviation stay. Runs of one configuration share their error, so each configuration counts with the square
//! root of its runs, errors are those of fits without the run's own configuration, and the half width of the interval is
//! the split-conformal quantile over configurations, each weighing alike. Of a time to the first token it is that of what is
//! waited for: what an error exceeds of the interval of the prompt's own pass, over the share of the rest.

use crate::framework::{Constant, Figure, Fit, FitGroup, Framework, Kind, Subject};
use crate::least_squares::least_squares;
use crate::predict::step::Timed;
use crate::stats::{quantile, rounded};
use crate::units::Seconds;
use std::collections::{BTreeMap, BTreeSet};

/// Standard deviation of `ln(predicted / measured)` that the fit takes for granted: releases of one framework differ by
/// 1 to 5 % on equal hardware, submitters by 2 %; what the model leaves out is of the same order.
const NOISE: f64 = 0.06;

/// The same of times to the first token: repeated measurements differ by up to a half (90th percentile), and tables mix
/// medians with means.
const FIRST_TOKEN_NOISE: f64 = 0.4;

/// Error beyond which a run pulls with constant force.
const HUBER: f64 = 0.2;

/// How the source of a fitted constant begins.
const FITTED: &str = "fitted; ";

/// Iterations of a fit; it stops where a step gains nothing.
const ITERATIONS: usize = 40;

/// Folds of whole configurations that errors are taken from.
const FOLDS: usize = 10;

/// Configurations from which the correction for few of them is left out.
const MANY: f64 = 15.0;

/// The least half width: repeated measurements of one configuration differ by as much.
const LEAST_HALF_WIDTH: f64 = 0.03;

/// The least share of waiting that a time to the first token counts with.
const LEAST_WAIT: f64 = 0.1;

/// One measured run with the terms of its prediction.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Terms of the prediction.
    pub timed: Timed,
    /// The measured time.
    pub measured: Seconds,
    /// What is held out together.
    pub configuration: String,
    /// The kind of step, which shares a half width.
    pub kind: Kind,
    /// What decides for which steps it speaks.
    pub subject: Subject,
    /// Whether constants may be fitted to it; else it is only judged.
    pub fitted: bool,
    /// Which of the framework's releases it ran.
    pub release: Option<usize>,
}

impl Sample {
    /// The predicted time.
    pub fn time(&self, framework: &Framework) -> Seconds {
        self.timed.time(&framework.released(self.release))
    }
}

/// `ln(predicted / measured)` of each sample.
fn errors(framework: &Framework, samples: &[&Sample]) -> Vec<f64> {
    let releases = 0..framework.releases.len();
    let releases: Vec<Framework> = releases.map(|release| framework.clone().at_release(release)).collect();
    let error = |sample: &&Sample| {
        let framework = sample.release.map_or(framework, |at| &releases[at]);
        (sample.timed.time(framework) / sample.measured).ln()
    };
    samples.iter().map(error).collect()
}

/// How far runs of one's own may depart from the framework they are said to run.
pub fn departures(base: &Framework) -> Framework {
    let mut framework = base.clone();
    framework.fits.clear();
    let with = |figure: &Figure, sd| Figure {
        sd,
        prior: None,
        ..figure.clone()
    };
    for constant in Constant::ALL {
        framework.set(constant, with(base.figure(constant), 0.0));
    }
    for release in &mut framework.releases {
        for factor in release.factors.values_mut() {
            *factor = with(factor, 0.0);
        }
    }
    for board in framework.boards.values_mut() {
        *board = with(board, 0.0);
    }
    for (constant, sd) in [
        (Constant::Gemm, 0.15),
        (Constant::GemmFp8, 0.15),
        (Constant::Attention, 0.3),
        (Constant::AttentionBackward, 0.3),
        (Constant::Memory, 0.3),
        (Constant::ExposedTp, 0.7),
        (Constant::ExposedDp, 0.7),
        (Constant::ExposedFsdp, 0.7),
        (Constant::HostUs, 0.7),
        (Constant::LayerUs, 0.5),
        (Constant::StepMs, 0.7),
    ] {
        if base.get(constant) > 0.0 {
            framework.set(constant, with(base.figure(constant), sd));
        }
    }
    framework
}

/// Fits the constants of `prior` to samples and judges them by cross-validation over configurations.
pub fn calibrate(prior: &Framework, samples: &[Sample]) -> Framework {
    let held_out = held_out_errors(prior, samples);
    let mut framework = fit(prior, &samples.iter().collect::<Vec<_>>());
    for kind in Kind::ALL {
        let of_kind = samples.iter().zip(&held_out).filter(|(sample, _)| sample.kind == kind);
        let pass = framework.half_width(Kind::Prefill);
        let beyond_pass = |sample: &Sample, error: f64| match (pass, sample.subject.own_pass) {
            (Some(pass), own_pass) if own_pass > 0.0 => {
                ((error.abs() - own_pass * pass) / (1.0 - own_pass).max(LEAST_WAIT)).max(0.0)
            }
            _ => error.abs(),
        };
        let errors: Vec<(&str, f64)> = of_kind
            .clone()
            .map(|(sample, error)| (sample.configuration.as_str(), beyond_pass(sample, *error)))
            .collect();
        if errors.is_empty() {
            continue;
        }
        let half_width = conformal(&errors);
        framework.set_half_width(kind, half_width);
        let judged: Vec<(&Sample, f64)> = of_kind.map(|(sample, error)| (sample, *error)).collect();
        let mut groups: BTreeMap<_, Vec<(&Sample, f64)>> = BTreeMap::new();
        for &(sample, error) in &judged {
            let subject = &sample.subject;
            let beside = (subject.adapters, subject.drafts);
            let group = groups.entry((subject.generation.name(), subject.hybrid, beside));
            group.or_default().push((sample, error));
        }
        let all = group(&judged, &framework);
        framework.fits.insert(
            kind,
            Fit {
                runs_from: String::new(),
                runs: all.runs,
                configurations: all.configurations,
                median_ape: all.median_ape,
                mean_ape: all.mean_ape,
                p90_ape: all.p90_ape,
                coverage_90: all.coverage_90,
                groups: groups.values().map(|runs| group(runs, &framework)).collect(),
            },
        );
    }
    framework
}

/// What runs and the errors of fits without their configurations say; there is at least one.
fn group(judged: &[(&Sample, f64)], framework: &Framework) -> FitGroup {
    let mut apes: Vec<f64> = judged.iter().map(|(_, error)| error.exp_m1().abs()).collect();
    apes.sort_by(f64::total_cmp);
    let is_inside = |(sample, error): &&(&Sample, f64)| {
        let half_width = framework.half_width_with(sample.kind, sample.subject.own_pass);
        half_width.is_some_and(|half_width| error.abs() <= half_width)
    };
    let inside = judged.iter().filter(is_inside);
    let subjects = || judged.iter().map(|(sample, _)| &sample.subject);
    let configurations = judged.iter().map(|(sample, _)| sample.configuration.as_str());
    let first = &judged[0].0.subject;
    FitGroup {
        generation: first.generation,
        hybrid: first.hybrid,
        adapters: first.adapters,
        drafts: first.drafts,
        gpus: subjects().map(|subject| subject.gpu.clone()).collect(),
        formats: subjects().map(|subject| subject.format.to_owned()).collect(),
        longest_tokens: subjects().map(|subject| subject.tokens).max().unwrap_or(0),
        nodes: subjects().map(|subject| subject.nodes).max().unwrap_or(1),
        runs: judged.len() as u64,
        configurations: configurations.collect::<BTreeSet<_>>().len() as u64,
        median_ape: round(quantile(&apes, 0.5)),
        mean_ape: round(apes.iter().sum::<f64>() / apes.len() as f64),
        p90_ape: round(quantile(&apes, 0.9)),
        coverage_90: round(inside.count() as f64 / judged.len() as f64),
    }
}

/// The error of each sample by a fit to the other folds; configurations are dealt to folds in order of their names.
fn held_out_errors(prior: &Framework, samples: &[Sample]) -> Vec<f64> {
    let configurations: BTreeSet<&str> = samples.iter().map(|sample| sample.configuration.as_str()).collect();
    let folds = FOLDS.min(configurations.len());
    let fold: BTreeMap<&str, usize> = configurations
        .iter()
        .enumerate()
        .map(|(index, name)| (*name, index % folds))
        .collect();
    let fold_of = |sample: &Sample| fold[sample.configuration.as_str()];
    let mut found = vec![0.0; samples.len()];
    for out in 0..folds {
        let (held_out, rest): (Vec<usize>, Vec<usize>) =
            (0..samples.len()).partition(|&sample| fold_of(&samples[sample]) == out);
        let these = |places: &[usize]| -> Vec<&Sample> { places.iter().map(|&place| &samples[place]).collect() };
        let fitted = fit(prior, &these(&rest));
        let errors = errors(&fitted, &these(&held_out));
        for (place, error) in held_out.into_iter().zip(errors) {
            found[place] = error;
        }
    }
    found
}

/// The constants that the samples and the prior together make most likely.
fn fit(prior: &Framework, samples: &[&Sample]) -> Framework {
    let free: Vec<Constant> = Constant::ALL
        .into_iter()
        .filter(|&constant| prior.figure(constant).prior_sd() > 0.0)
        .collect();
    let fitted: Vec<&Sample> = samples.iter().filter(|sample| sample.fitted).copied().collect();
    let mut runs: BTreeMap<&str, f64> = BTreeMap::new();
    for sample in &fitted {
        *runs.entry(sample.configuration.as_str()).or_default() += 1.0;
    }
    let weights: Vec<f64> = fitted
        .iter()
        .map(|sample| {
            let noise = match sample.kind {
                Kind::FirstToken => FIRST_TOKEN_NOISE,
                _ => NOISE,
            };
            runs[sample.configuration.as_str()].powf(-0.25) / noise
        })
        .collect();
    let mut start: Vec<f64> = free
        .iter()
        .map(|&constant| constant.to_line(prior.figure(constant).prior_value()))
        .collect();
    let releases = || {
        let all = prior.releases.iter().enumerate();
        all.flat_map(|(at, release)| release.factors.iter().map(move |factor| (at, factor)))
            .filter(|(_, (_, factor))| factor.prior_sd() > 0.0)
    };
    let boards = || prior.boards.iter().filter(|(_, factor)| factor.prior_sd() > 0.0);
    let factors = || {
        releases()
            .map(|(_, (_, factor))| factor)
            .chain(boards().map(|(_, factor)| factor))
    };
    start.extend(factors().map(|factor| factor.prior_value().ln()));
    let mut deviations: Vec<f64> = free.iter().map(|&constant| prior.figure(constant).prior_sd()).collect();
    deviations.extend(factors().map(Figure::prior_sd));
    let with = |at: &[f64]| {
        let mut framework = prior.clone();
        let (of_constants, of_factors) = at.split_at(free.len());
        let (of_releases, of_boards) = of_factors.split_at(releases().count());
        for (&constant, &value) in free.iter().zip(of_constants) {
            framework.set_value(constant, constant.from_line(value));
        }
        for ((release, (constant, before)), value) in releases().zip(of_releases) {
            let factor = Figure {
                value: value.exp(),
                ..before.clone()
            };
            framework.releases[release].factors.insert(*constant, factor);
        }
        for ((gpu, before), value) in boards().zip(of_boards) {
            let factor = Figure {
                value: value.exp(),
                ..before.clone()
            };
            framework.boards.insert(gpu.clone(), factor);
        }
        framework
    };
    let residuals = |at: &[f64]| -> Vec<f64> {
        let framework = with(at);
        let of_runs = errors(&framework, &fitted).into_iter().zip(&weights);
        let of_runs = of_runs.map(|(error, weight)| weight * huber(error));
        let of_prior = at.iter().zip(&start).zip(&deviations);
        let of_prior = of_prior.map(|((value, start), sd)| (value - start) / sd);
        of_runs.chain(of_prior).collect()
    };
    let solution = least_squares(&residuals, &start, ITERATIONS);
    let mut framework = with(&solution.at);
    let fitted = |before: &Figure, value: f64, sd: f64| {
        let prior = [before.prior_value(), before.prior_sd()];
        let of_prior = match before.prior {
            Some(_) => before.source.trim_start_matches(FITTED),
            None => &before.source,
        };
        let found = [value, sd].map(round);
        // A constant that no run constrains is not fitted.
        let fitted = found != prior.map(round);
        let [value, sd] = if fitted { found } else { prior };
        let source = match fitted && !of_prior.starts_with(FITTED) {
            true => format!("{FITTED}{of_prior}"),
            false => of_prior.to_owned(),
        };
        Figure {
            value,
            sd,
            prior: fitted.then_some(prior),
            source,
        }
    };
    for (&constant, &sd) in free.iter().zip(&solution.deviations) {
        let figure = fitted(prior.figure(constant), framework.get(constant), sd);
        framework.set(constant, figure);
    }
    for ((release, (constant, before)), &sd) in releases().zip(&solution.deviations[free.len()..]) {
        let factors = &mut framework.releases[release].factors;
        let value = factors[constant].value;
        factors.insert(*constant, fitted(before, value, sd));
    }
    let of_boards = &solution.deviations[free.len() + releases().count()..];
    for ((gpu, before), &sd) in boards().zip(of_boards) {
        let value = framework.board(gpu);
        framework.boards.insert(gpu.clone(), fitted(before, value, sd));
    }
    framework
}

/// Four significant digits: no fit is surer.
fn round(value: f64) -> f64 {
    rounded(value, 4)
}

/// A residual whose square is the Huber loss.
fn huber(error: f64) -> f64 {
    let size = error.abs();
    if size <= HUBER {
        error
    } else {
        error.signum() * (2.0 * HUBER * size - HUBER * HUBER).sqrt()
    }
}

/// The half width that holds 90 % of errors where each configuration weighs alike, of fewer than [`MANY`] configurations
/// the `0.9 (1 + 1/n)` quantile of split-conformal intervals, which then is nearly the largest error (arXiv 1903.10598).
fn conformal(errors: &[(&str, f64)]) -> f64 {
    let mut runs: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, _) in errors {
        *runs.entry(name).or_default() += 1.0;
    }
    let mut weighted: Vec<(f64, f64)> = errors.iter().map(|(name, error)| (*error, 1.0 / runs[name])).collect();
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let configurations = runs.len() as f64;
    let wanted = if configurations < MANY {
        0.9 * (configurations + 1.0)
    } else {
        0.9 * configurations
    };
    let mut sum = 0.0;
    for (error, weight) in &weighted {
        sum += weight;
        if sum >= wanted {
            return round(error.max(LEAST_HALF_WIDTH));
        }
    }
    // Too few configurations for the quantile: a tenth more than the largest error.
    let largest = weighted.last().map_or(LEAST_HALF_WIDTH, |(error, _)| *error);
    round((1.1 * largest).max(LEAST_HALF_WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Mode, Preset, Workload};
    use crate::gpu::{Generation, Gpu};
    use crate::predict::Predictor;
    use crate::predict::step::Load;

    /// Steps of four models as a framework would take them whose GEMMs and memory-bound kernels are slower.
    fn samples(slower: &Framework) -> Vec<Sample> {
        let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
        let sample = |(name, work): (&str, Workload)| {
            let arch = &Preset::find(name).unwrap().architecture;
            let timed = Timed::step(&predictor, arch, &work).unwrap();
            Sample {
                measured: timed.time(slower),
                timed,
                configuration: format!("{name} {}", work.seq),
                kind: Kind::of(arch, &work),
                subject: Subject::of(predictor.gpu(), arch, &work),
                fitted: true,
                release: None,
            }
        };
        let models = ["qwen2.5-1.5b", "llama-3.2-1b", "llama-3.2-3b", "qwen3-4b"];
        let works = [Workload::train(1, 2048), Workload::train(2, 8192)];
        let pairs = models.into_iter().flat_map(|name| works.map(|work| (name, work)));
        pairs.map(sample).collect()
    }

    #[test]
    fn a_server_that_is_slower_than_the_others_gets_a_factor_of_its_own() {
        let base = Framework::find("unknown", Mode::Prefill, Generation::Hopper).unwrap();
        let slow = base.release("SGLang 0.5").unwrap();
        let at = |framework: &Framework| framework.releases[slow].factors[&Constant::FirstToken].value;
        let mut slower = base.clone();
        let factor = slower.releases[slow].factors.get_mut(&Constant::FirstToken);
        factor.unwrap().value = 3.0;
        let predictor = Predictor::new(Gpu::find("h200").unwrap(), None).unwrap();
        let sample = |name: &str, release, concurrency| {
            let arch = &Preset::find(name).unwrap().architecture;
            let load = Load {
                concurrency,
                sent: 1.0,
                prompt: 1000,
                output: 200,
                kept_tokens: 1.0,
            };
            let timed = Timed::served(&predictor, arch, &Workload::prefill(1, 1000), load).unwrap();
            let mut sample = Sample {
                measured: Seconds::ZERO,
                timed,
                configuration: format!("{name} {release:?}"),
                kind: Kind::FirstToken,
                subject: Subject::of(predictor.gpu(), arch, &Workload::prefill(1, 1000)),
                fitted: true,
                release,
            };
            sample.measured = sample.time(&slower);
            sample
        };
        let models = ["llama-3.2-1b", "llama-3.2-3b", "qwen3-4b", "llama-3-8b"];
        let both = models.into_iter().flat_map(|name| [(name, None), (name, Some(slow))]);
        // At few requests the own prompt's pass, which has no factor, hides the wait.
        let loads = both.flat_map(|(name, release)| [32, 64, 128, 256, 512].map(|load| (name, release, load)));
        let samples: Vec<Sample> = loads.map(|(name, release, load)| sample(name, release, load)).collect();
        let fitted = calibrate(base, &samples);
        assert!((at(&fitted) / 3.0).ln().abs() < 0.2, "{}", at(&fitted));
        // The server's own file takes the factor from the one that it inherits from.
        let own = |name| Framework::find(name, Mode::Prefill, Generation::Hopper).unwrap();
        assert_eq!(own("sglang").get(Constant::FirstToken), at(base));
        assert_eq!(own("vllm").get(Constant::FirstToken), 1.0);
    }

    #[test]
    fn three_runs_of_ones_own_serve_the_others() {
        let base = Framework::find("megatron", Mode::Train, Generation::Hopper).unwrap();
        let mut slower = base.clone();
        slower.set_value(Constant::Gemm, 1.4 * base.get(Constant::Gemm));
        slower.set_value(Constant::Memory, 1.5 * base.get(Constant::Memory));
        let samples = samples(&slower);
        let (own, others) = samples.split_at(3);
        let fitted = calibrate(&departures(base), own);
        let mean = |framework: &Framework| {
            let errors = errors(framework, &others.iter().collect::<Vec<_>>());
            let apes = errors.iter().map(|error| error.exp_m1().abs());
            apes.sum::<f64>() / others.len() as f64
        };
        assert!(mean(base) > 0.15, "{}", mean(base));
        assert!(mean(&fitted) < mean(base) / 3.0, "{} of {}", mean(&fitted), mean(base));
        assert!(fitted.fits[&Kind::TrainDense].runs == 3);
        // What the runs say nothing of stays where it was.
        let exposed = Constant::ExposedTp;
        assert!((fitted.get(exposed) / base.get(exposed) - 1.0).abs() < 0.02);
        let experts = Constant::ExpertsFp8;
        assert_eq!(fitted.get(experts), base.get(experts));
        assert_eq!(
            fitted.releases[0].factors[&Constant::MoePath].value,
            base.releases[0].factors[&Constant::MoePath].value
        );
        assert!(!fitted.fits.contains_key(&Kind::TrainMoe));
    }

    #[test]
    fn runs_that_fit_move_nothing() {
        let base = Framework::find("megatron", Mode::Train, Generation::Hopper).unwrap();
        let fitted = calibrate(&departures(base), &samples(base));
        for constant in [Constant::Gemm, Constant::Memory, Constant::Attention] {
            let ratio = fitted.get(constant) / base.get(constant);
            assert!((ratio - 1.0).abs() < 0.01, "{constant}: {ratio}");
        }
    }

    #[test]
    fn what_no_run_tells_of_is_not_called_fitted() {
        let base = Framework::find("megatron", Mode::Train, Generation::Hopper).unwrap();
        let experts = base.figure(Constant::ExpertsFp8);
        assert!(experts.source.starts_with(FITTED) && experts.prior.is_some());
        // The runs are of dense models.
        let fitted = calibrate(base, &samples(base));
        let figure = fitted.figure(Constant::ExpertsFp8);
        assert!(!figure.source.starts_with(FITTED), "{}", figure.source);
        assert_eq!(
            (figure.value, figure.sd, figure.prior),
            (experts.prior_value(), experts.prior_sd(), None)
        );
        let gemm = fitted.figure(Constant::Gemm);
        assert!(gemm.source.starts_with(FITTED) && gemm.prior.is_some());
    }

    #[test]
    fn each_configuration_weighs_alike_in_the_quantile() {
        let many: Vec<(String, f64)> = (0..20).map(|i| (format!("c{i}"), 0.01 * f64::from(i))).collect();
        let mut errors: Vec<(&str, f64)> = many.iter().map(|(name, error)| (name.as_str(), *error)).collect();
        let alone = conformal(&errors);
        // A hundred more runs of the easiest configuration change nothing.
        errors.extend([("c0", 0.0); 100]);
        assert_eq!(conformal(&errors), alone);
        assert!((alone - 0.17).abs() < 1e-9, "{alone}");
        assert_eq!(conformal(&[("a", 0.2), ("b", 0.1)]), 0.22);
    }
}
