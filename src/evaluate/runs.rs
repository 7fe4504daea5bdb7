//! Predicted against measured whole models: training steps, prompt passes, time to the first token and per token.

use super::layouts::{self, PairErrors};
use crate::arch::{GradientDtype, KvCacheDtype, Recompute, Workload, memory_use};
use crate::calibrate::Sample;
use crate::dataset::Skipped;
use crate::dataset::runs::Measure;
use crate::dataset::runs::Publisher;
use crate::dataset::runs::Run;
use crate::dataset::runs::Runs;
use crate::error::Result;
use crate::evaluate::Errors;
use crate::evaluate::Score;
use crate::framework::{Framework, Kind, Subject};
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::predict::estimate::Caveats;
use crate::predict::estimate::Estimate;
use crate::predict::estimate::Tier;
use crate::predict::step::{Load, Timed, half_width};
use crate::units::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// Whole-model predictions against measurements.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// All runs together.
    pub overall: RunErrors,
    /// Groups in the order of their keys.
    pub groups: Vec<RunGroup>,
    /// Rows without a prediction.
    pub skipped: Skipped,
    /// How surely the order of measured layouts is predicted.
    pub order: Vec<PairErrors>,
}

/// Runs that are reported together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RunKey {
    /// What was timed.
    pub measure: Measure,
    /// The kind of step.
    pub kind: Kind,
    /// The framework that they were predicted with.
    pub framework: String,
    /// Our name of the GPU.
    pub gpu: String,
    /// Number format, or the recipe of fp8.
    pub dtype: &'static str,
    /// Whose measurements.
    pub publisher: Publisher,
}

/// The errors of one group.
#[derive(Clone, Debug)]
pub struct RunGroup {
    /// Which runs.
    pub key: RunKey,
    /// How far off they are.
    pub errors: RunErrors,
    /// The run that is furthest off.
    pub worst: String,
    /// Runs whose predicted memory does not fit the GPU that they ran on, whatever is recomputed where the source does not
    /// say.
    pub misfits: usize,
}

/// Errors of predicted steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunErrors {
    /// The usual table.
    pub errors: Errors,
    /// Geometric mean of predicted over measured, less 1: negative is too fast.
    pub bias: f64,
}

/// Which framework a run is predicted with.
pub enum Choice<'a> {
    /// The one that its software names; [`Framework::UNKNOWN`] where none is recognised.
    Auto,
    /// This one, where it runs the mode.
    Given(&'a Framework),
    /// This one, with the kernels of the engine that the software of the run names where it states no engine itself: how
    /// constants are fitted that several frameworks share.
    Shared(&'a Framework),
}

impl Choice<'_> {
    fn of(&self, run: &Run) -> Result<Framework> {
        let (mode, generation) = (run.workload.mode, run.gpu.generation);
        let recognised = || Framework::recognise(&run.software, mode, generation);
        Ok(match self {
            Self::Given(framework) if framework.runs(mode, generation) => (*framework).clone(),
            Self::Given(framework) => Framework::find(&framework.name, mode, generation)?.clone(),
            Self::Shared(framework) => {
                let mut shared = Self::Given(framework).of(run)?;
                let engine = recognised().and_then(|known| known.kernels.engine);
                shared.kernels.engine = shared.kernels.engine.or(engine);
                shared
            }
            Self::Auto => match recognised() {
                Some(framework) => framework.clone(),
                None => Framework::find(Framework::UNKNOWN, mode, generation)?.clone(),
            },
        })
    }
}

/// A run with the terms of its prediction and the framework that it is predicted with.
pub struct Judged<'a> {
    /// The run.
    pub run: &'a Run,
    /// The framework.
    pub framework: Framework,
    /// The terms.
    pub sample: Sample,
    /// Whether the predicted memory fits the GPU; every run did run.
    pub fits: bool,
}

impl Judged<'_> {
    /// The predicted time.
    pub fn time(&self) -> Seconds {
        self.sample.time(&self.framework)
    }

    /// The kind of step.
    pub fn kind(&self) -> Kind {
        self.sample.kind
    }

    /// Half width of the 90 % interval of the logarithm of the time; `None` if the framework has none of such steps.
    pub fn half_width(&self) -> Option<f64> {
        let subject = Subject {
            kind: self.sample.kind,
            ..self.sample.subject.clone()
        };
        half_width(&self.framework, &subject).map(|(half_width, _)| half_width)
    }

    fn key(&self) -> RunKey {
        RunKey {
            measure: self.run.measure,
            kind: self.sample.kind,
            framework: self.framework.name.clone(),
            gpu: self.run.gpu.name.clone(),
            dtype: self.run.workload.format_name(),
            publisher: self.run.publisher,
        }
    }

    /// Measured and predicted time.
    pub fn score(&self) -> Score {
        let half_width = self.half_width().unwrap_or(0.0);
        Score {
            measured: self.run.time,
            estimate: Estimate {
                time: self.time(),
                half_width,
                shared: 0.0,
                least: Seconds::ZERO,
                tier: Tier::Learned,
                caveats: Caveats::default(),
            },
        }
    }
}

/// Puts every run into terms; `answer` gives the predictor of a GPU.
pub fn judge<'a>(
    runs: &'a Runs,
    choice: &Choice<'_>,
    answer: &dyn Fn(&Gpu) -> Result<Predictor>,
) -> Result<Vec<Judged<'a>>> {
    let mut predictors: BTreeMap<String, Predictor> = BTreeMap::new();
    let mut judged = Vec::with_capacity(runs.runs.len());
    for run in &runs.runs {
        let network = run.network.map(|network| network.bytes_per_sec().to_string());
        let framework = choice.of(run)?;
        // A trainer and a server may share a name, as those of unknown software do.
        let (gpu, mode) = (&run.gpu.name, run.workload.mode);
        let (name, kernels) = (&framework.name, framework.kernels);
        let key = format!("{gpu} {network:?} {name} {kernels:?} {mode}");
        if !predictors.contains_key(&key) {
            predictors.insert(key.clone(), answer(&placed(run))?.with_framework(framework.clone()));
        }
        let predictor = &predictors[&key];
        let timed = match (run.measure, run.serving) {
            (measure @ (Measure::Ttft | Measure::Tpot | Measure::Batch), Some(serving)) => {
                let load = Load {
                    concurrency: serving.per_rank(run.workload.dp),
                    sent: 1.0,
                    prompt: serving.prompt,
                    output: serving.output,
                    kept_tokens: run.workload.kept_tokens(),
                };
                let timed = match measure {
                    Measure::Batch => Timed::batch,
                    _ => Timed::served,
                };
                timed(predictor, &run.architecture, &run.workload, load)?
            }
            _ => Timed::step(predictor, &run.architecture, &run.workload)?,
        };
        let release = framework.release(&run.software);
        let own_pass = timed.own_pass(&framework.released(release));
        let sample = Sample {
            timed,
            measured: run.time,
            configuration: run.configuration.clone(),
            kind: match run.measure {
                Measure::Ttft => Kind::FirstToken,
                Measure::Step | Measure::Tpot | Measure::Batch => Kind::of(&run.architecture, &run.workload),
            },
            subject: Subject {
                own_pass,
                ..Subject::of(&run.gpu, &run.architecture, &run.workload)
            },
            fitted: run.unfitted.is_none(),
            release,
        };
        let fits = |work: &Workload| {
            memory_use(&run.architecture, work, &framework.practice).map(|memory| memory.fits(&run.gpu))
        };
        // What a source leaves open may have been recomputed, or cached in fp8.
        let mut most = run.workload;
        if !most.trains() {
            most.kv_cache_dtype = KvCacheDtype::Fp8;
        } else if !run.recompute_stated {
            (most.recompute, most.recompute_layers) = (Recompute::Full, 0);
        }
        // No source says in which format gradients are reduced, which recipes of Megatron choose.
        if most.trains() && most.trained_dtype().size() == 2 {
            most.gradient_dtype = GradientDtype::Bf16;
        }
        let fits = fits(&run.workload)? || fits(&most)?;
        judged.push(Judged {
            run,
            framework,
            sample,
            fits,
        });
    }
    Ok(judged)
}

/// The runs that constants of this framework are fitted to, predicted by the constants that its servers share.
pub fn fittable<'a>(
    runs: &'a Runs,
    base: &Framework,
    answer: &dyn Fn(&Gpu) -> Result<Predictor>,
) -> Result<Vec<Judged<'a>>> {
    let mut judged = judge(runs, &Choice::Shared(base), answer)?;
    judged.retain(|each| {
        let run = each.run;
        let known = Framework::recognise(&run.software, run.workload.mode, run.gpu.generation);
        let is_base = |known: &Framework| known.name == base.name && known.generations == base.generations;
        base.name == Framework::UNKNOWN || known.is_some_and(is_base)
    });
    Ok(judged)
}

/// The GPU of a run in its network.
pub fn placed(run: &Run) -> Gpu {
    let gpu = run.gpu.clone().into_owned();
    match run.network {
        Some(network) => gpu.with_network(network),
        None => gpu,
    }
}

/// The errors of runs that were judged.
pub fn compared(runs: &Runs, judged: &[Judged<'_>]) -> Comparison {
    let mut groups: BTreeMap<RunKey, Vec<&Judged<'_>>> = BTreeMap::new();
    for each in judged {
        groups.entry(each.key()).or_default().push(each);
    }
    let all: Vec<&Judged<'_>> = judged.iter().collect();
    Comparison {
        order: layouts::pairs(judged),
        overall: RunErrors::of(&all),
        groups: groups
            .into_iter()
            .map(|(key, group)| RunGroup::new(key, &group))
            .collect(),
        skipped: runs.skipped.clone(),
    }
}

impl RunGroup {
    fn new(key: RunKey, group: &[&Judged<'_>]) -> Self {
        let distance = |judged: &Judged<'_>| (judged.time() / judged.run.time).ln().abs();
        let worst = group.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
        Self {
            key,
            errors: RunErrors::of(group),
            worst: worst.map_or_else(String::new, |judged| judged.run.label.clone()),
            misfits: group.iter().filter(|judged| !judged.fits).count(),
        }
    }
}

impl RunErrors {
    fn of(judged: &[&Judged<'_>]) -> Self {
        if judged.is_empty() {
            return Self::default();
        }
        let scores: Vec<Score> = judged.iter().map(|judged| judged.score()).collect();
        let mut errors = Errors::of(&scores);
        // The plain sum has no interval of whole runs.
        if judged.iter().any(|judged| judged.half_width().is_none()) {
            errors.coverage_90 = None;
            errors.interval_half_width_median = None;
        }
        let logs = scores.iter().map(|score| (score.estimate.time / score.measured).ln());
        Self {
            errors,
            bias: (logs.sum::<f64>() / scores.len() as f64).exp_m1(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Architecture;
    use crate::dataset::runs::Serving;
    use std::borrow::Cow;

    #[test]
    fn data_parallel_ranks_share_the_requests_of_a_server() {
        let gpu = Gpu::find("h100").unwrap();
        let time = |dp, concurrency, measure, mode: Workload| {
            let work = Workload { dp, ..mode };
            let llama = Architecture::find("llama-3-8b").unwrap();
            let time = Seconds::from_secs(0.01);
            let run = Run {
                measure,
                serving: Some(Serving {
                    concurrency,
                    prompt: 1000,
                    output: 100,
                }),
                software: "vLLM 0.12.0".to_owned(),
                publisher: Publisher::InferenceRuns,
                ..Run::measured(Cow::Borrowed(gpu), llama, work, time)
            };
            let runs = Runs {
                runs: vec![run],
                skipped: Skipped::default(),
            };
            let answer = |gpu: &Gpu| Predictor::new(gpu, None);
            judge(&runs, &Choice::Auto, &answer).unwrap()[0].time()
        };
        let token = |dp, concurrency| time(dp, concurrency, Measure::Tpot, Workload::decode(8, 1050));
        let first = |dp, concurrency| time(dp, concurrency, Measure::Ttft, Workload::prefill(1, 1000));
        assert_eq!(token(4, 32), token(1, 8));
        assert_eq!(first(4, 32), first(1, 8));
        assert!(token(4, 64) > token(4, 32));
        assert!(first(4, 64) > first(4, 32));
    }

    #[test]
    fn constants_that_servers_share_are_judged_with_the_kernels_of_each_software() {
        let gpu = Gpu::find("a100").unwrap();
        let llama = Architecture::find("llama-3-8b").unwrap();
        let work = Workload::decode(8, 1050);
        let of = |software: &str| Run {
            software: software.to_owned(),
            publisher: Publisher::InferenceRuns,
            ..Run::measured(Cow::Borrowed(gpu), llama.clone(), work, Seconds::from_secs(0.01))
        };
        let runs = Runs {
            runs: ["vLLM 0.12.0", "LMDeploy 0.2.0"].map(of).to_vec(),
            skipped: Skipped::default(),
        };
        let server = Framework::find(Framework::UNKNOWN, work.mode, gpu.generation).unwrap();
        let vllm = Framework::find("vllm", work.mode, gpu.generation).unwrap();
        let answer = |gpu: &Gpu| Predictor::new(gpu, None);
        let times = |choice: &Choice<'_>| {
            let judged = judge(&runs, choice, &answer).unwrap();
            [judged[0].time(), judged[1].time()]
        };
        let [shared, unrecognised] = times(&Choice::Shared(server));
        let [given, same] = times(&Choice::Given(server));
        assert_eq!(shared, times(&Choice::Given(vllm))[0]);
        assert!(shared < given, "vLLM decodes faster on A100");
        assert_eq!([unrecognised, same], [given, given]);
    }
}
