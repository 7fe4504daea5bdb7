//! The answer to `predict model`: every operator, then what the step adds up to.

mod text;

use crate::arch::{
    Architecture, AttentionKernel, Loss, MemoryVerdict, Offload, Peak, Phase, Recompute, Workload, host_traffic,
    parameters,
};
use crate::error::Result;
use crate::framework::{Fit, FitGroup, Framework, Gap, Subject};
use crate::named_enum;
use crate::ops::Op;
use crate::plan::Remedy;
use crate::predict::Predictor;
use crate::predict::estimate::{Caveat, Tier, TierShares};
use crate::predict::step::{Line, Rest, StepEstimate};
use crate::report::plan::{RunKeys, usd_per_million_tokens};
use crate::report::shape::Shape;
use crate::report::{Basis, NamedGpu, Warning, grouped, joined, percent, server_text};
use crate::units::{Bytes, BytesPerSecond, Flops, Seconds, significant};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// One predicted step of a model.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StepReport {
    pub(super) gpu: NamedGpu,
    pub(super) model: String,
    parameters: u64,
    /// Those that are trained, where adapters alone are.
    #[serde(skip_serializing_if = "Option::is_none")]
    trained_parameters: Option<u64>,
    pub(super) workload: Workload,
    framework: FrameworkKeys,
    basis: Vec<Basis>,
    time_us: Seconds,
    low_us: Seconds,
    high_us: Seconds,
    /// Those that a replica trains on, reads or, on average, makes.
    #[serde(serialize_with = "whole")]
    tokens: f64,
    /// What drafts bring, where a decoding step verifies any.
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation: Option<SpeculationKeys>,
    tokens_per_s: f64,
    tokens_per_s_low: f64,
    tokens_per_s_high: f64,
    tokens_per_s_per_gpu: f64,
    tokens_per_s_of_all_gpus: f64,
    model_flops: Flops,
    /// Share of the dense peak that the arithmetic of the model reaches: without what a causal mask leaves out, without
    /// recomputation.
    mfu: f64,
    /// The same with the whole square of attention, as PaLM and Megatron publish it; above 1 in long causal sequences.
    mfu_full_attention: f64,
    /// Share of the dense peak that executed FLOPs reach: causal attention without what it masks, recomputation counted.
    hfu: f64,
    gpus: u64,
    gpus_per_replica: u64,
    lanes: BTreeMap<Lane, LaneKeys>,
    /// What the whole run takes, where its tokens are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunKeys>,
    /// What a million tokens cost, where a price is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    usd_per_million_tokens: Option<f64>,
    memory: MemoryKeys,
    /// What is kept in host memory, where anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    offload: Option<OffloadKeys>,
    tier: Tier,
    tier_shares: TierShares,
    caveats: Vec<SharedWarning>,
    /// What the config says beyond the shape that was timed, and what the model that was asked does not know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    notes: Vec<Note>,
    pub(super) lines: Vec<StepLine>,
    /// The dense peak in TFLOP/s and the bandwidth of the memory in TB/s.
    #[serde(skip)]
    pub(super) roof: [f64; 2],
    /// What the time holds besides the lines: both together are `time_us`.
    rest: Vec<RestLine>,
}

/// A sentence on a step; the document has the text alone.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
struct Note {
    /// What it is about, as the line is named.
    #[serde(skip)]
    label: &'static str,
    text: String,
}

/// What drafts of tokens bring and take.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct SpeculationKeys {
    /// The share of drafted tokens that is kept, each given those before it.
    acceptance: f64,
    /// Whether that is what is usual and not what was asked.
    is_assumed: bool,
    /// Tokens that a step gives a sequence.
    tokens_per_step: f64,
    time_per_token_us: Seconds,
    /// The share of the time in which tokens are drafted.
    draft_share: f64,
}

/// A count as a whole number where it is one.
fn whole<S: serde::Serializer>(count: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match count.fract() == 0.0 {
        true => serializer.serialize_u64(*count as u64),
        false => serializer.serialize_f64(*count),
    }
}

named_enum! {
    /// Where the time of a step goes.
    Lane {
        /// Kernels.
        Kernels = "kernels",
        /// Traffic that no kernel hides.
        Exposed = "exposed_traffic",
        /// Idle while the pipeline fills and drains.
        Bubble = "bubble",
        /// Waiting for the host to launch kernels.
        Host = "host",
        /// Fixed times of layers, sequences and steps.
        Overhead = "overhead",
        /// Waiting for the link to the host and for Adam on the CPU.
        Offload = "offload",
    }
}

/// The time of one lane and its share of the step.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct LaneKeys {
    time_us: Seconds,
    pub share: f64,
}

/// The framework that runs the step.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct FrameworkKeys {
    pub name: String,
    title: String,
    /// Whether it was assumed because none was named.
    assumed: bool,
    /// Bandwidth between nodes of one GPU.
    network_bytes_per_s: BytesPerSecond,
    /// Its errors on runs kept out of the fit of its constants: those of this kind of step, on GPUs of this generation, of at
    /// least a quarter of the length; `None` if there are no such runs.
    fit: Option<Fit>,
    /// Compared runs that cover this step, or why none does; absent if the framework was compared with no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<String>,
}

/// What a GPU keeps in the memory of its host, and how fast it reaches that.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct OffloadKeys {
    kept_bytes: Bytes,
    /// Bandwidth of the link to the host, one direction.
    host_bandwidth_bytes_per_s: BytesPerSecond,
    /// Bandwidth of host memory for one GPU.
    host_memory_bandwidth_bytes_per_s: BytesPerSecond,
}

/// Memory of the fullest GPU.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct MemoryKeys {
    parts_bytes: BTreeMap<&'static str, Bytes>,
    memory_bytes: Bytes,
    capacity_bytes: Bytes,
    fits: bool,
    /// `fits`, `tight` or `does_not_fit`.
    verdict: MemoryVerdict,
    /// What training likely takes of the GPU: live bytes, and those that the allocator caches or cannot use.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_bytes: Option<Bytes>,
    /// When training takes most.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<Peak>,
    /// How the loss is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<Loss>,
    /// Bytes of an accumulated gradient.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_gradient: Option<f64>,
    /// The nearest workload that fits, where this one does not and there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<RemedyKeys>,
    /// The longest context or prompts that fit, where these do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    shorter: Option<RemedyKeys>,
}

/// A workload that fits.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RemedyKeys {
    workload: Workload,
    gpus: u64,
    memory_bytes: Bytes,
}

/// A warning and how much of the time it touches.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct SharedWarning {
    #[serde(flatten)]
    warning: Warning,
    time_share: f64,
}

impl SharedWarning {
    /// The warnings of these caveats, the one that touches most of the time first.
    pub(super) fn sorted(caveats: impl Iterator<Item = Caveat>, share: impl Fn(Caveat) -> f64) -> Vec<Self> {
        let all = caveats.map(|caveat| Self {
            warning: Warning::from(caveat),
            time_share: share(caveat),
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by(|a, b| b.time_share.total_cmp(&a.time_share));
        all
    }

    /// The warnings of a step.
    pub(super) fn of(step: &StepEstimate) -> Vec<Self> {
        let touched = |caveat: Caveat| {
            if caveat.is_of_step() {
                return 1.0;
            }
            if caveat == Caveat::Offload {
                return step.lanes.offload / step.time;
            }
            let lines = step.lines.iter().filter(|line| line.each.caveats.contains(caveat));
            let sum: f64 = lines.map(|line| line.time / step.time).sum();
            sum.min(1.0)
        };
        Self::sorted(step.caveats.iter(), touched)
    }

    /// The lines that people read, without those that would say 0.0 % of the time.
    pub(super) fn lines(all: &[Self]) -> impl Iterator<Item = (&'static str, String)> {
        let seen = all.iter().filter(|shared| shared.time_share >= 0.000_5);
        seen.map(|shared| {
            let share = percent(shared.time_share);
            let text = format!("{share} of the time: {}", shared.warning.text);
            ("caveat", text)
        })
    }
}

/// What the time of a step holds besides its operators.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
struct RestLine {
    role: Rest,
    count: u64,
    each_us: Seconds,
    /// Negative where time is saved.
    time_us: Seconds,
    share: f64,
}

/// One operator of the step.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct StepLine {
    label: String,
    pub role: &'static str,
    phase: Phase,
    op: Shape,
    count: u64,
    /// What one call takes in this step; of traffic the part that shows. Times `count` it is `time_us`.
    each_us: Seconds,
    each_low_us: Seconds,
    each_high_us: Seconds,
    /// Time of one call as the operator alone is predicted, without the constants of the framework.
    alone_us: Seconds,
    pub time_us: Seconds,
    pub share: f64,
    pub flops: Flops,
    /// Least traffic of the device memory.
    pub bytes: Bytes,
    pub tflops_per_s: f64,
    tier: Tier,
    caveats: Vec<Caveat>,
}

/// Distinguishes kernels of one role: windows of attention, patterns of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelKind {
    Product,
    Attention { window: u64 },
    Memory,
    Collective(&'static str),
}

impl StepLine {
    /// What lines of one role must share to be shown as one.
    fn kind(&self) -> KernelKind {
        KernelKind::of(&self.op.0)
    }
}

impl KernelKind {
    /// Whether a rate of arithmetic says anything: the others wait for memory or for links.
    const fn computes(self) -> bool {
        matches!(self, Self::Product | Self::Attention { .. })
    }

    fn of(op: &Op) -> Self {
        match op {
            Op::Attention(op) => Self::Attention { window: op.window },
            Op::Memory(_) => Self::Memory,
            Op::Collective(op) => Self::Collective(op.kind.name()),
            _ => Self::Product,
        }
    }
}

impl FrameworkKeys {
    /// The framework of a predictor for steps like this one.
    pub(super) fn of(predictor: &Predictor, architecture: &Architecture, workload: &Workload) -> Result<Self> {
        let framework = predictor.framework(workload.mode)?;
        let subject = Subject::of(predictor.gpu(), architecture, workload);
        let compared = framework.evidence(&subject);
        let evidence = compared.as_ref();
        let evidence = evidence.map(|(group, gaps)| evidence_text(framework, &subject, *group, gaps));
        Ok(Self {
            name: framework.name.clone(),
            title: framework.title.clone(),
            assumed: predictor.assumes_framework(workload.mode),
            network_bytes_per_s: predictor.gpu().network_bandwidth(),
            fit: compared.and_then(|(group, _)| Some(framework.fits[&subject.kind].of_group(group?))),
            evidence,
        })
    }

    /// `megatron (assumed): NVIDIA Megatron-LM with Transformer Engine`.
    pub(super) fn short(&self) -> String {
        let title = self.title.split([':', ';']).next().unwrap_or_default();
        let assumed = if self.assumed { " (assumed)" } else { "" };
        match title.eq_ignore_ascii_case(&self.name) {
            true => format!("{}{assumed}", self.name),
            false => format!("{}{assumed}: {title}", self.name),
        }
    }

    /// `framework megatron (assumed; …): …; 400 Gb/s between nodes a GPU`, the network where
    /// there is one.
    pub(super) fn text(&self, network: bool) -> String {
        let assumed = if self.assumed { " (assumed)" } else { "" };
        let network = if network {
            let gigabits = self.network_bytes_per_s.bytes_per_sec() * 8e-9;
            format!("; {} Gb/s between nodes a GPU", significant(gigabits))
        } else {
            String::new()
        };
        format!("{}{assumed}: {}{network}", self.name, self.title)
    }
}

/// `41 of training_steps on h100, h200, up to 8,192 tokens: median 2.1 % off, …`, or why no run covers the step.
fn evidence_text(framework: &Framework, subject: &Subject, group: Option<&FitGroup>, gaps: &[Gap]) -> String {
    let list = |names: &BTreeSet<String>| joined(", ", names);
    let all = &framework.fits[&subject.kind];
    if let Some(group) = group {
        return format!(
            "{} of {} on {}, up to {} tokens: median {} off, mean {}, on configurations kept out of the fit of its constants",
            grouped(group.runs),
            all.runs_from,
            list(&group.gpus),
            grouped(group.longest_tokens),
            percent(group.median_ape),
            percent(group.mean_ape)
        );
    }
    for (gap, does) in [
        (Gap::Adapters, "trains adapters"),
        (Gap::Drafts, "verifies draft tokens"),
    ] {
        if gaps.contains(&gap) {
            return format!("none of the {} runs that were compared {does}", grouped(all.runs));
        }
    }
    if gaps.contains(&Gap::Length) {
        let alike = all.groups.iter().filter(|group| group.generation == subject.generation);
        let longest = alike.map(|group| group.longest_tokens).max().unwrap_or(0);
        return format!(
            "no run of such a length was compared: the longest has {} tokens",
            grouped(longest)
        );
    }
    if all.groups.is_empty() {
        return "the framework does not say which GPUs its runs used".to_owned();
    }
    let of_generation = all.groups.iter().any(|group| group.generation == subject.generation);
    let elsewhere: BTreeSet<String> = all.groups.iter().flat_map(|group| group.gpus.clone()).collect();
    match of_generation {
        true => "no run of a model with such layers was compared on GPUs of this generation".to_owned(),
        false => format!(
            "no run on this GPU was compared, nor on one of its generation; the {} compared ran on {}",
            grouped(all.runs),
            list(&elsewhere)
        ),
    }
}

impl LaneKeys {
    /// Every lane of a step.
    pub(super) fn of(step: &StepEstimate) -> BTreeMap<Lane, Self> {
        let shares = Lane::ALL.into_iter().zip(step.lane_shares());
        let keys = shares.map(|(lane, share)| {
            let time_us = step.time * share;
            (lane, Self { time_us, share })
        });
        keys.collect()
    }
}

impl StepReport {
    /// The same with what a run of so many tokens takes, at this price of a GPU for an hour.
    #[must_use]
    pub fn with_cost(mut self, tokens: Option<f64>, usd_per_gpu_hour: Option<f64>) -> Self {
        let times = [self.time_us, self.low_us, self.high_us];
        self.run = tokens.map(|tokens| RunKeys::new(tokens, &self.workload, times, usd_per_gpu_hour));
        let rate = self.tokens_per_s_of_all_gpus;
        self.usd_per_million_tokens = usd_per_million_tokens(usd_per_gpu_hour, self.gpus, rate);
        self
    }

    /// The same with the nearest workload that fits, and with the one that is only shorter.
    #[must_use]
    pub fn with_remedies(mut self, nearest: Option<Remedy>, shorter: Option<Remedy>) -> Self {
        let keys = |remedy: Remedy| RemedyKeys {
            workload: remedy.workload,
            gpus: remedy.workload.gpus(),
            memory_bytes: remedy.memory.total(),
        };
        self.memory.remedy = nearest.map(keys);
        self.memory.shorter = shorter.map(keys);
        self
    }

    /// Describes the estimate of one step of `architecture` under `workload` on `gpu`.
    pub fn new(
        predictor: &Predictor,
        architecture: &Architecture,
        workload: &Workload,
        step: &StepEstimate,
        basis: Vec<Basis>,
    ) -> Result<Self> {
        let gpu = predictor.gpu();
        let matrices = step.lines.iter();
        let matrices = matrices.filter(|line| KernelKind::of(&line.item.op).computes());
        let executed: f64 = matrices.map(|line| line.item.flops().flops()).sum();
        let peak = gpu.nearest_peak(workload.dtype);
        let practice = &predictor.framework(workload.mode)?.practice;
        let of_weights = architecture.stated.format_note(workload).iter().count();
        let others = architecture.notes(workload).into_iter().skip(of_weights);
        let others = others.chain(gpu.kernel_note(workload.linear_dtype()));
        let others = others.chain(recompute_hint(workload));
        Ok(Self {
            hfu: Flops::from_flops(executed) / step.time / peak,
            gpu: gpu.into(),
            model: architecture.name.clone(),
            parameters: parameters(architecture).total,
            trained_parameters: workload.adapter_parameters(architecture),
            workload: *workload,
            framework: FrameworkKeys::of(predictor, architecture, workload)?,
            basis,
            time_us: step.time,
            low_us: step.low,
            high_us: step.high,
            tokens: step.tokens,
            speculation: workload.accepted().map(|(acceptance, is_assumed)| SpeculationKeys {
                acceptance,
                is_assumed,
                tokens_per_step: workload.kept_tokens(),
                time_per_token_us: step.time / workload.kept_tokens(),
                draft_share: step.drafting() / step.time,
            }),
            tokens_per_s: step.tokens_per_s,
            tokens_per_s_low: step.tokens_per_s_low,
            tokens_per_s_high: step.tokens_per_s_high,
            tokens_per_s_per_gpu: step.tokens_per_s_per_gpu(),
            tokens_per_s_of_all_gpus: step.tokens_per_s * workload.dp as f64,
            model_flops: step.model_flops,
            mfu: step.mfu,
            mfu_full_attention: step.mfu_full_attention,
            gpus: workload.gpus(),
            lanes: LaneKeys::of(step),
            run: None,
            usd_per_million_tokens: None,
            gpus_per_replica: step.gpus_per_replica,
            memory: MemoryKeys {
                parts_bytes: step.memory.parts().into(),
                memory_bytes: step.memory.total(),
                capacity_bytes: gpu.memory(),
                fits: step.fits,
                verdict: step.memory.verdict(gpu),
                reserved_bytes: workload.trains().then(|| step.memory.reserved()),
                peak: workload.trains().then_some(step.memory.peak),
                loss: workload.trains().then(|| practice.loss(workload)),
                bytes_per_gradient: workload.trains().then(|| practice.gradient_bytes(workload)),
                remedy: None,
                shorter: None,
            },
            offload: (workload.offload != Offload::None).then(|| OffloadKeys {
                kept_bytes: host_traffic(architecture, workload).kept,
                host_bandwidth_bytes_per_s: gpu.host_bandwidth().unwrap_or_default(),
                host_memory_bandwidth_bytes_per_s: gpu.host_memory_bandwidth(),
            }),
            tier: step.main_tier(),
            tier_shares: step.tier_shares,
            caveats: SharedWarning::of(step),
            notes: [
                ("model", predictor.format_note(workload.linear_dtype())),
                ("idle", idle_hint(workload, step)),
                ("idle", server_hint(step)),
                ("weights", architecture.stated.format_note(workload)),
            ]
            .into_iter()
            .filter_map(|(label, text)| Some((label, text?)))
            .chain(others.map(|text| ("note", text)))
            .map(|(label, text)| Note { label, text })
            .collect(),
            lines: step.lines.iter().map(|line| StepLine::new(line, step.time)).collect(),
            rest: step
                .rest()
                .into_iter()
                .filter(|(_, time)| *time != Seconds::ZERO)
                .map(|(role, time)| RestLine {
                    role,
                    count: 1,
                    each_us: time,
                    time_us: time,
                    share: time / step.time,
                })
                .collect(),
            roof: [peak.flops_per_sec() / 1e12, gpu.bandwidth().bytes_per_sec() / 1e12],
        })
    }
}

/// Share of a step that may be bubble before it is worth a word.
const LARGE_BUBBLE: f64 = 0.25;

/// Micro-batches a stage that fill a pipeline: at most one in nine steps of a stage is idle.
const FILLING: u64 = 8;

/// What fills a pipeline that idles.
fn idle_hint(workload: &Workload, step: &StepEstimate) -> Option<String> {
    let bubble = step.lanes.bubble / step.time;
    (bubble > LARGE_BUBBLE).then(|| {
        let Workload { pp, microbatches, .. } = *workload;
        let filling = FILLING * pp;
        let option = match microbatches < filling {
            true => format!("`--microbatches {filling}` fills"),
            false => "more of them fill".to_owned(),
        };
        let idle = percent(bubble);
        format!("{pp} stages idle {idle} of the time with micro-batches {microbatches}: {option} the pipeline")
    })
}

/// What a decode step waits for where the server decides its time.
fn server_hint(step: &StepEstimate) -> Option<String> {
    let least = step.lanes.bound_by_server()?;
    let waiting = percent(step.lanes.waiting / step.time);
    let server = server_text(&step.framework, least);
    Some(format!("{server}: the GPU waits {waiting} of it"))
}

/// What recomputation does not bring.
fn recompute_hint(workload: &Workload) -> Option<String> {
    let is_vain = workload.recompute == Recompute::Selective && workload.attention == AttentionKernel::Flash;
    is_vain.then(|| {
        "selective recomputation drops the scores of attention, which flash attention never stores: it frees no memory"
            .to_owned()
    })
}

impl StepLine {
    fn new(line: &Line, step: Seconds) -> Self {
        let flops = line.item.flops();
        let each = line.own / line.item.count as f64;
        let scale = each / line.each.time;
        Self {
            label: line.item.label(),
            role: line.item.role.name(),
            phase: line.item.phase,
            op: Shape::from(&line.item.op),
            count: line.item.count,
            each_us: each,
            each_low_us: line.each.low() * scale,
            each_high_us: line.each.high() * scale,
            alone_us: line.each.time,
            time_us: line.own,
            share: line.own / step,
            flops,
            bytes: line.item.op.bytes() * line.item.count as f64,
            // Traffic that hides takes no time.
            tflops_per_s: match line.own > Seconds::ZERO {
                true => (flops / line.own).flops_per_sec() / 1e12,
                false => 0.0,
            },
            tier: line.each.tier,
            caveats: line.each.caveats.iter().collect(),
        }
    }
}

impl MemoryKeys {
    /// The parts that take any memory, largest first.
    fn largest(&self) -> Vec<(&'static str, Bytes)> {
        let parts = self.parts_bytes.iter().map(|(name, part)| (*name, *part));
        let mut parts: Vec<_> = parts.filter(|(_, bytes)| *bytes > Bytes::ZERO).collect();
        parts.sort_by(|a, b| b.1.bytes().total_cmp(&a.1.bytes()));
        parts
    }
}
