//! The answer to `plan` and `compare`: ranked layouts for each number of GPUs, what decides between them, what a run costs.

mod text;

pub(super) use text::{layout_text, recompute_text};

use crate::arch::{Architecture, Mode, Offload, Workload, host_traffic, parameters};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::plan::{Engine, Engines, Layout, Limits, Order, Plan, is_asked};
use crate::predict::Predictor;
use crate::predict::estimate::{Caveat, TierShares};
use crate::report::step::{FrameworkKeys, Lane, LaneKeys};
use crate::report::{NamedGpu, grouped};
use crate::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The most points of the plane of throughput and memory that a document holds.
const MOST_POINTS: usize = 200;

/// The best layouts of a model for each number of GPUs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PlanReport {
    gpu: NamedGpu,
    #[serde(flatten)]
    asked: AskedKeys,
    framework: FrameworkKeys,
    /// Capacity of one GPU.
    capacity_bytes: Bytes,
    /// How surely the order of layouts is known; absent where no pairs of layouts were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<Order>,
    /// What is taken of what the config says, or not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    plans: Vec<PlanKeys>,
}

/// What is planned.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct AskedKeys {
    model: String,
    parameters: u64,
    mode: Mode,
    /// Tokens of a sequence, or of a prompt.
    seq: u64,
    /// Tokens that a request generates.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    /// What latencies are held against; absent where there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitKeys>,
    /// Sequences of a training step over all GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    global_batch: Option<u64>,
    format: &'static str,
    /// What is trained in place of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    adapters: Option<String>,
    /// Tokens of a prompt that are cached from earlier requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    /// What a decoding step verifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    drafts: Option<String>,
}

/// Limits of latency, and how likely each has to be kept.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct LimitKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_us: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tpot_us: Option<Seconds>,
    confidence: f64,
}

impl LimitKeys {
    pub(super) fn of(limits: &Limits) -> Option<Self> {
        limits.first_token.or(limits.token)?;
        Some(Self {
            ttft_us: limits.first_token,
            tpot_us: limits.token,
            confidence: limits.confidence,
        })
    }
}

/// The best layouts for one number of GPUs.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct PlanKeys {
    gpus: u64,
    /// Why there is no layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// Legal layouts, and those of them that fit; when serving, ways to split the GPUs into engines.
    legal: usize,
    fitting: usize,
    /// Layouts that were predicted: those that fit, with each kind of recomputation under which they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<usize>,
    /// The share of a GPU's memory that they take at most.
    memory_share: f64,
    layouts: Vec<LayoutKeys>,
    /// Why the first layout is faster than the second: the difference of each lane, over the time of the first.
    decided_by: BTreeMap<Lane, f64>,
    /// Layouts that fit in the plane of memory and throughput: those with the most tokens per second.
    tried: Vec<TriedKeys>,
    /// What the whole run takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunKeys>,
}

/// One layout that fits.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct TriedKeys {
    memory_bytes: Bytes,
    tokens_per_s_per_gpu: f64,
}

/// A layout with its prediction.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct LayoutKeys {
    rank: usize,
    /// Whether it is tied with the first.
    tied: bool,
    /// The step, as requests write it; when serving, `dp` copies of the engine.
    pub workload: Workload,
    /// The training step; absent when serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<TrainingStepKeys>,
    /// Latencies of a request; absent in training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<LatencyKeys>,
    tokens_per_s_of_all_gpus: f64,
    pub tokens_per_s_per_gpu: f64,
    /// The ends of its 90 % interval; absent where the framework has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_s_per_gpu_low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_s_per_gpu_high: Option<f64>,
    memory_bytes: Bytes,
    /// Price of a million tokens in US dollars, where the price of a GPU is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_million_tokens: Option<f64>,
}

/// A training step.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct TrainingStepKeys {
    time_us: Seconds,
    low_us: Seconds,
    high_us: Seconds,
    mfu: f64,
    lanes: BTreeMap<Lane, LaneKeys>,
    tier_shares: TierShares,
}

/// Latencies of a request beside the others, with the ends of their 90 % intervals where the framework has one.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct LatencyKeys {
    /// Requests that run at once on an engine.
    pub in_flight: u64,
    /// Requests that wait for a place, as all engines are full; absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    /// Time to the first token, the wait for a place included.
    pub ttft_us: Seconds,
    ttft_low_us: Option<Seconds>,
    ttft_high_us: Option<Seconds>,
    pub tpot_us: Option<Seconds>,
    tpot_low_us: Option<Seconds>,
    tpot_high_us: Option<Seconds>,
    /// The probability that the time to the first token keeps its limit; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_kept_probability: Option<f64>,
    /// The same of the time per further token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot_kept_probability: Option<f64>,
}

/// What a whole run takes, with the ends of its 90 % interval.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct RunKeys {
    tokens: f64,
    steps: f64,
    days: f64,
    days_low: f64,
    days_high: f64,
    gpu_hours: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
}

/// What a plan is described by, besides its layouts.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The model.
    pub architecture: &'a Architecture,
    /// Mode, length and format.
    pub workload: &'a Workload,
    /// Sequences of a training step.
    pub global_batch: u64,
    /// What requests look like, when serving.
    pub limits: Option<&'a Limits>,
    /// Tokens of the whole run.
    pub tokens: Option<f64>,
    /// Price of one GPU for an hour.
    pub usd_per_gpu_hour: Option<f64>,
}

impl PlanReport {
    /// A report without plans.
    pub fn new(predictor: &Predictor, subject: &Subject<'_>) -> Result<Self> {
        let Subject {
            architecture, workload, ..
        } = *subject;
        let gpu = predictor.gpu();
        Ok(Self {
            gpu: gpu.into(),
            asked: AskedKeys::of(subject),
            framework: FrameworkKeys::of(predictor, architecture, workload)?,
            capacity_bytes: gpu.memory(),
            order: None,
            notes: architecture
                .notes(workload)
                .into_iter()
                .chain(gpu.kernel_note(workload.linear_dtype()))
                .collect(),
            plans: Vec::new(),
        })
    }

    /// Says which tokens a step has where they are not those that were asked for.
    pub fn note_tokens(&mut self, asked: f64) {
        let tokens = self.asked.global_batch.map(|sequences| sequences * self.asked.seq);
        if let Some(tokens) = tokens.filter(|&tokens| !is_asked(asked, tokens as f64)) {
            let asked = grouped(asked.round() as u64);
            self.notes.push(format!(
                "a step of whole sequences that GPUs share has {} tokens; {asked} were asked for",
                grouped(tokens)
            ));
        }
    }

    /// Says that the number of GPUs is not one that was asked for.
    pub fn note_fewest(&mut self) {
        if let [plan] = &self.plans[..] {
            let gpus = match plan.gpus {
                1 => "1 GPU is the fewest that serves this".to_owned(),
                gpus => format!("{} GPUs are the fewest that serve this", grouped(gpus)),
            };
            self.notes.push(format!("{gpus}; `gpus` asks for others"));
        }
    }

    /// Says that requests are prompts alone, though they were to be decoded.
    pub fn note_prompts(&mut self) {
        let note = "the prompt pass makes the one token of a request; rates count the tokens of prompts";
        self.notes.push(note.to_owned());
    }

    /// Adds the layouts of a training step.
    pub fn push_plan(&mut self, subject: &Subject<'_>, gpus: u64, plan: &Plan) {
        self.order = plan.order.cloned();
        self.note(subject, plan.layouts.iter().map(|layout| &layout.workload));
        let all = plan.tried.layouts.iter();
        let points = all.take(MOST_POINTS).map(|tried| TriedKeys {
            memory_bytes: tried.memory,
            tokens_per_s_per_gpu: all_tokens(&tried.workload) / tried.time.secs() / gpus as f64,
        });
        let layouts = plan.layouts.iter().enumerate();
        self.plans.push(PlanKeys {
            legal: plan.tried.legal,
            fitting: plan.tried.fitting,
            predicted: Some(plan.tried.layouts.len()),
            memory_share: plan.tried.memory_share,
            layouts: layouts
                .map(|(index, layout)| LayoutKeys::of_layout(subject, gpus, index + 1, layout))
                .collect(),
            decided_by: decided_by(&plan.layouts),
            tried: points.collect(),
            run: subject.tokens.map(|tokens| {
                let Layout { workload, step, .. } = &plan.layouts[0];
                let times = [step.time, step.low, step.high];
                RunKeys::new(tokens, workload, times, subject.usd_per_gpu_hour)
            }),
            ..PlanKeys::refused(gpus, None)
        });
    }

    /// Adds the engines of a server.
    pub fn push_engines(&mut self, subject: &Subject<'_>, gpus: u64, engines: &Engines) {
        self.order = engines.order.cloned();
        self.note(subject, engines.engines.iter().map(|engine| &engine.workload));
        let layouts = engines.engines.iter().enumerate();
        self.plans.push(PlanKeys {
            legal: engines.legal,
            fitting: engines.fitting,
            memory_share: engines.memory_share,
            layouts: layouts
                .map(|(index, engine)| LayoutKeys::of_engine(subject.usd_per_gpu_hour, gpus, index + 1, engine))
                .collect(),
            ..PlanKeys::refused(gpus, None)
        });
    }

    /// Adds what is to be said about layouts and was not.
    fn note<'a>(&mut self, subject: &Subject<'_>, layouts: impl Iterator<Item = &'a Workload> + Clone) {
        let offload = layouts
            .clone()
            .find_map(|workload| offload_note(subject.architecture, workload));
        let notes = layouts.flat_map(|workload| subject.architecture.notes(workload));
        for note in notes.chain(offload) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Whether any number of GPUs has a layout.
    pub fn has_layouts(&self) -> bool {
        self.plans.iter().any(|plan| !plan.layouts.is_empty())
    }

    /// Adds why a number of GPUs has no layout.
    pub fn push_refused(&mut self, gpus: u64, reason: String) {
        self.plans.push(PlanKeys::refused(gpus, Some(reason)));
    }
}

impl PlanKeys {
    fn refused(gpus: u64, refused: Option<String>) -> Self {
        Self {
            gpus,
            refused,
            legal: 0,
            fitting: 0,
            predicted: None,
            memory_share: 1.0,
            layouts: Vec::new(),
            decided_by: BTreeMap::new(),
            tried: Vec::new(),
            run: None,
        }
    }

    /// The best layout.
    fn best(&self) -> Option<&LayoutKeys> {
        self.layouts.first()
    }
}

impl AskedKeys {
    fn of(subject: &Subject<'_>) -> Self {
        let Subject {
            architecture,
            workload,
            limits,
            ..
        } = *subject;
        Self {
            model: architecture.name.clone(),
            parameters: parameters(architecture).total,
            mode: workload.mode,
            seq: limits.map_or(workload.seq, |limits| limits.prompt),
            output: limits.map(|limits| limits.output).filter(|&output| output > 0),
            limits: limits.and_then(LimitKeys::of),
            global_batch: workload.trains().then_some(subject.global_batch),
            format: workload.format_name(),
            adapters: workload.adapters_text(),
            cached_tokens: limits.map(|limits| limits.cached).filter(|&cached| cached > 0),
            drafts: workload.drafts_text(),
        }
    }
}

/// What a layout keeps in the memory of the host, if anything.
fn offload_note(architecture: &Architecture, workload: &Workload) -> Option<String> {
    let (offload, caveat) = (workload.offload, Caveat::Offload.text());
    (offload != Offload::None).then(|| {
        let kept = host_traffic(architecture, workload).kept;
        format!("offload {offload} keeps {kept} of host memory per GPU; {caveat}")
    })
}

/// Tokens of a step over all replicas.
fn all_tokens(work: &Workload) -> f64 {
    (work.tokens() * work.microbatches * work.dp) as f64
}

/// By how much each lane of the second layout is longer than that of the first, over the time of the first.
fn decided_by(layouts: &[Layout]) -> BTreeMap<Lane, f64> {
    let [first, second, ..] = layouts else {
        return BTreeMap::new();
    };
    let seconds = |layout: &Layout| {
        let shares = layout.step.lane_shares();
        shares.map(|share| share * layout.step.time.secs())
    };
    let both = seconds(first).into_iter().zip(seconds(second));
    let changes = both.map(|(first_lane, second_lane)| (second_lane - first_lane) / first.step.time.secs());
    Lane::ALL.into_iter().zip(changes).collect()
}

impl LayoutKeys {
    fn of_layout(subject: &Subject<'_>, gpus: u64, rank: usize, layout: &Layout) -> Self {
        let step = &layout.step;
        let rate = |time: Seconds| all_tokens(&layout.workload) / time.secs();
        let tokens_per_s = rate(step.time);
        Self {
            rank,
            tied: layout.tied,
            workload: layout.workload,
            step: Some(TrainingStepKeys {
                time_us: step.time,
                low_us: step.low,
                high_us: step.high,
                mfu: step.mfu,
                lanes: LaneKeys::of(step),
                tier_shares: step.tier_shares,
            }),
            request: None,
            tokens_per_s_of_all_gpus: tokens_per_s,
            tokens_per_s_per_gpu: tokens_per_s / gpus as f64,
            tokens_per_s_per_gpu_low: Some(rate(step.high) / gpus as f64),
            tokens_per_s_per_gpu_high: Some(rate(step.low) / gpus as f64),
            memory_bytes: step.memory.total(),
            usd_per_million_tokens: usd_per_million_tokens(subject.usd_per_gpu_hour, gpus, tokens_per_s),
        }
    }

    pub(super) fn of_engine(usd_per_gpu_hour: Option<f64>, gpus: u64, rank: usize, engine: &Engine) -> Self {
        let [first, further] = engine.ends;
        Self {
            rank,
            tied: engine.tied,
            workload: engine.workload,
            step: None,
            request: Some(LatencyKeys {
                in_flight: engine.requests,
                waiting: Some(engine.waiting).filter(|&waiting| waiting > 0),
                ttft_us: engine.first_token,
                ttft_low_us: first.map(|[low, _]| low),
                ttft_high_us: first.map(|[_, high]| high),
                tpot_us: engine.token,
                tpot_low_us: further.map(|[low, _]| low),
                tpot_high_us: further.map(|[_, high]| high),
                ttft_kept_probability: engine.kept[0],
                tpot_kept_probability: engine.kept[1],
            }),
            tokens_per_s_of_all_gpus: engine.tokens_per_s,
            tokens_per_s_per_gpu: engine.tokens_per_s / gpus as f64,
            tokens_per_s_per_gpu_low: engine.tokens_per_s_ends.map(|[low, _]| low / gpus as f64),
            tokens_per_s_per_gpu_high: engine.tokens_per_s_ends.map(|[_, high]| high / gpus as f64),
            memory_bytes: engine.memory,
            usd_per_million_tokens: usd_per_million_tokens(usd_per_gpu_hour, gpus, engine.tokens_per_s),
        }
    }
}

/// What a million tokens cost at this rate of all GPUs.
pub(super) fn usd_per_million_tokens(usd_per_gpu_hour: Option<f64>, gpus: u64, tokens_per_s: f64) -> Option<f64> {
    let usd_per_s = usd_per_gpu_hour? * gpus as f64 / 3600.0;
    Some(usd_per_s / tokens_per_s * 1e6)
}

impl RunKeys {
    /// A run of so many tokens, in steps of this workload that take `time`, with its interval.
    pub(super) fn new(
        tokens: f64,
        work: &Workload,
        [time, low, high]: [Seconds; 3],
        usd_per_gpu_hour: Option<f64>,
    ) -> Self {
        let steps = tokens / all_tokens(work);
        let days = |step: Seconds| step.secs() * steps / 86400.0;
        let gpu_hours = days(time) * 24.0 * work.gpus() as f64;
        Self {
            tokens,
            steps,
            days: days(time),
            days_low: days(low),
            days_high: days(high),
            gpu_hours,
            usd: usd_per_gpu_hour.map(|price| price * gpu_hours),
        }
    }
}

/// The best plan of each model on each GPU.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CompareReport {
    /// Of several models, the first.
    #[serde(flatten)]
    asked: AskedKeys,
    /// Absent where each model has the fewest that serve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus: Option<u64>,
    /// What the best layouts keep in the memory of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// The fewest USD per token first, then those without a price by most tokens per second and GPU, then those without a layout.
    compared: Vec<ComparedKeys>,
}

/// One model on one GPU with its best layout.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ComparedKeys {
    gpu: String,
    model: String,
    parameters: u64,
    /// That of the weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    framework: String,
    /// Why there is no layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<LayoutKeys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_s_per_node: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_s_per_watt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunKeys>,
}

impl CompareReport {
    /// A report without GPUs.
    pub fn new(subject: &Subject<'_>, gpus: Option<u64>) -> Self {
        Self {
            asked: AskedKeys::of(subject),
            gpus,
            notes: Vec::new(),
            compared: Vec::new(),
        }
    }

    /// Whether models are compared, too.
    fn has_models(&self) -> bool {
        self.compared.iter().any(|compared| compared.model != self.asked.model)
    }

    /// Adds a model on a GPU with its plan, or why it has none.
    pub fn push(&mut self, gpu: &Gpu, model: &Architecture, plan: std::result::Result<PlanReport, String>) {
        let (framework, format, plan, refused) = match plan {
            Ok(mut report) => {
                let plan = report.plans.pop();
                let refused = plan.as_ref().and_then(|plan| plan.refused.clone());
                (report.framework.name, Some(report.asked.format), plan, refused)
            }
            Err(reason) => (String::new(), None, None, Some(reason)),
        };
        let layout = plan.as_ref().and_then(|plan| plan.best().cloned());
        let offload = layout.as_ref().and_then(|layout| offload_note(model, &layout.workload));
        self.notes
            .extend(offload.map(|note| format!("{} on {}: {note}", model.name, gpu.name)));
        let rate = layout.as_ref().map(|layout| layout.tokens_per_s_per_gpu);
        let node = gpu.gpus_per_node().map(|gpus| gpus as f64);
        self.compared.push(ComparedKeys {
            gpu: gpu.name.clone(),
            model: model.name.clone(),
            parameters: parameters(model).total,
            format,
            framework,
            refused,
            tokens_per_s_per_node: rate.zip(node).map(|(rate, node)| rate * node),
            tokens_per_s_per_watt: rate.zip(gpu.power_watts()).map(|(rate, watts)| rate / watts),
            run: plan.and_then(|plan| plan.run),
            layout,
        });
        let order = |keys: &ComparedKeys| {
            let of = |layout: &LayoutKeys| {
                (
                    layout.usd_per_million_tokens.unwrap_or(f64::MAX),
                    -layout.tokens_per_s_per_gpu,
                )
            };
            keys.layout.as_ref().map_or((f64::INFINITY, 0.0), of)
        };
        self.compared.sort_by(|a, b| {
            let (a, b) = (order(a), order(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
    }
}
