//! The terms of a step before any framework: how long which kind of kernel and traffic takes.
//!
//! A [`Ledger`] is linear in the constants of a framework but for the few maxima of [`super::lanes`], so a fit evaluates
//! a thousand sets of constants without asking a predictor again.

use crate::arch::{Architecture, Item, Mode, Offload, Phase, Recipe, Role, Step, Workload, host_traffic};
use crate::error::{Error, Result};
use crate::framework::{Constant, Framework, Kind, Provider};
use crate::gpu::Gpu;
use crate::ops::{Collective, Gemm, Memory, MemoryKind, Op};
use crate::predict::Predictor;
use crate::predict::assume;
use crate::predict::collective::Traffic;
use crate::predict::estimate::Estimate;
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// Bytes an element that the fp8 tables' cast of the left operand moves.
const CAST_BYTES: f64 = 6.0;

/// The least share of its tabled time that an fp8 GEMM takes without its cast.
const LEAST_WITHOUT_CAST: f64 = 0.35;

/// Kernels and traffic whose times a framework scales alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Gemm,
    GemmFp8,
    Experts,
    ExpertsFp8,
    Attention,
    AttentionBackward,
    LinearAttention,
    /// Kernels that no framework has a constant for.
    Other,
    Memory,
    Permute,
    BiasedActivation,
    Launch,
    Quantize,
    Accumulate,
    TensorParallel,
    ContextParallel,
    PipelineParallel,
    DataParallel,
    ShardedData,
    ExpertParallel,
    ExpertNetwork,
}

impl Term {
    pub(super) const COUNT: usize = Self::ExpertNetwork as usize + 1;
}

/// Where in a step a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The layers of a stage, once a micro-batch.
    Layers,
    /// Embedding, head and loss, once a micro-batch.
    Head,
    /// Once a step.
    Update,
}

impl Section {
    pub(super) const COUNT: usize = Self::Update as usize + 1;

    fn of(item: &Item) -> Self {
        match (item.phase, item.role) {
            (Phase::Update, _) => Self::Update,
            (
                _,
                Role::Embedding
                | Role::EmbeddingZero
                | Role::PositionEmbedding
                | Role::EmbeddingNorm
                | Role::EmbeddingDropout
                | Role::FinalNorm
                | Role::Logits
                | Role::HeadAccumulation
                | Role::HeadAutocast
                | Role::Loss,
            ) => Self::Head,
            _ => Self::Layers,
        }
    }
}

/// Seconds of one term in one section, and how often collectives of it start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Entry {
    pub time: f64,
    /// What its arithmetic takes at [`Gpu::greatest_peak`].
    pub compute: f64,
    /// What the weights, caches and states that it reads take at the bandwidth of the memory.
    pub streamed: f64,
    pub calls: f64,
    /// Doublings of the ranks beyond two, summed over the calls.
    pub rank_doublings: f64,
    /// Doublings of the nodes, summed over the calls.
    pub node_doublings: f64,
}

impl Entry {
    /// What no kernels of it are faster than, where this share of what they read comes from memory.
    pub fn least(&self, cold_share: f64) -> f64 {
        self.compute.max(cold_share * self.streamed)
    }
}

/// The terms of a step, per micro-batch and per update.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// Kernels that arithmetic or what they read bounds, each by itself.
    pub(super) kernels: Vec<(Section, Term, Entry)>,
    /// The sums of all others.
    pub(super) entries: [[Entry; Term::COUNT]; Section::COUNT],
    /// What the second-level cache holds, in seconds of the memory's bandwidth.
    l2: f64,
    /// Kernel launches per micro-batch.
    pub(super) launches: f64,
    /// What a launch takes the host at least.
    pub(super) least_launch: f64,
    pub(super) mode: Mode,
    pub(super) kind: Kind,
    /// Keys that the last token of a sequence sees.
    pub(super) tokens: f64,
    pub(super) recipe: Recipe,
    /// The name of the GPU.
    pub(super) gpu: String,
    pub(super) microbatches: f64,
    /// Micro-batches of idle time while the pipeline fills and drains.
    pub(super) bubble: f64,
    pub(super) layers: f64,
    pub(super) head_is_a_layer: bool,
    pub(super) moe_layers: f64,
    /// Routed experts on this GPU.
    pub(super) experts: f64,
    pub(super) gpus: f64,
    pub(super) sequences: f64,
    pub(super) host: HostLink,
}

/// Seconds of what offloading moves and computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct HostLink {
    /// Activations of one micro-batch, in each direction.
    pub activations: f64,
    /// Gradients of one micro-batch, to the host.
    pub gradients: f64,
    /// Updated weights, from the host, once a step.
    pub weights: f64,
    /// Adam on the CPU, once a step, by the bandwidth of host memory.
    pub adam: f64,
}

/// What the host takes for a kernel of an eager step with adapters, of those that are lowered: steps of 8 x 256 tokens take 1.0,
/// 1.2 and 1.6 s where Qwen-1.8B, 7B and 14B get LoRA on an A100, of 8 x 512 tokens 1.0, 1.5 and 2.4 s (QwenLM/Qwen, README:
/// transformers, peft, PyTorch 2.0).
const ADAPTED_LAUNCH: Seconds = Seconds::from_micros(38.0);

/// What Adam of several ranks together moves on the CPU of their host: 10 s a step for 18.2 billion parameters of 28 bytes on a
/// host of 8 A100 (DeepSpeed 0.14.5, issue 6834). Others are 33 (2 A100, pull request 7474) and 77 GB/s (8 H100, THUDM/slime, issue
/// 1139); one is 10 (8 A800, public gist d4cd6a20).
const SHARED_CPU_ADAM: BytesPerSecond = BytesPerSecond::from_bytes_per_sec(51e9);

impl HostLink {
    fn of(context: &Context<'_>) -> Self {
        let Context {
            gpu,
            architecture,
            workload,
            ..
        } = *context;
        let Some(link) = gpu.host_bandwidth() else {
            return Self::default();
        };
        let traffic = host_traffic(architecture, workload);
        Self {
            activations: (traffic.activations / link).secs(),
            gradients: (traffic.gradients / link).secs(),
            weights: (traffic.weights / link).secs(),
            adam: {
                let alone = (traffic.adam / gpu.host_memory_bandwidth()).secs();
                let ranks = workload.gpus().min(gpu.gpus_per_node().unwrap_or(1));
                match ranks {
                    0 | 1 => alone,
                    // Ranks of one host update in turns, however fast its memory is.
                    _ => alone.max((traffic.adam / SHARED_CPU_ADAM).secs() * ranks as f64),
                }
            },
        }
    }
}

/// What one repetition of an item adds to a ledger: at most two terms.
pub(super) struct Parts {
    pub section: Section,
    pub terms: [Option<(Term, Entry)>; 2],
    /// Whether the host launches a kernel for it.
    pub launches: bool,
}

impl Parts {
    /// What one call of a matrix kernel is never faster than, where this share of what belongs to one layer comes from memory;
    /// zero of all else.
    pub fn least(&self, each: &Estimate, cold_share: f64) -> f64 {
        let kernels = self.terms.iter().flatten().filter(|(_, entry)| entry.least(1.0) > 0.0);
        let least = kernels.map(|(_, entry)| entry.least(cold_share).max(each.least.secs()));
        least.sum()
    }
}

impl Ledger {
    pub(super) fn new(step: &Step, context: &Context<'_>) -> Self {
        let workload = context.workload;
        let experts = context.architecture.moe.map_or(0, |moe| moe.experts / workload.ep);
        Self {
            kernels: Vec::with_capacity(step.items.len()),
            entries: Default::default(),
            l2: (context.gpu.l2() / context.gpu.bandwidth()).secs(),
            launches: 0.0,
            least_launch: match workload.has_adapters() && context.framework.kernels.memory == Provider::Eager {
                true => ADAPTED_LAUNCH.secs(),
                false => 0.0,
            },
            mode: workload.mode,
            kind: Kind::of(context.architecture, workload),
            tokens: workload.keys() as f64,
            recipe: workload.recipe,
            gpu: context.gpu.name.clone(),
            microbatches: step.microbatches as f64,
            bubble: step.bubble(workload.mode),
            layers: step.layers as f64,
            head_is_a_layer: step.head_is_a_layer,
            moe_layers: step.moe_layers as f64,
            experts: experts as f64,
            gpus: workload.gpus() as f64,
            sequences: workload.batch as f64,
            host: HostLink::of(context),
        }
    }

    /// Share of the weights, caches and states of a micro-batch that the second-level cache cannot keep until the next one
    /// reads them.
    pub(super) fn cold_share(&self) -> f64 {
        let of_micro_batch = self.kernels.iter();
        let of_micro_batch = of_micro_batch.filter(|(section, ..)| *section != Section::Update);
        let streamed = of_micro_batch.map(|(.., entry)| entry.streamed);
        match streamed.sum::<f64>() {
            0.0 => 0.0,
            all => (1.0 - self.l2 / all).max(0.0),
        }
    }

    /// Adds an item whose single repetition has these parts.
    pub(super) fn add(&mut self, item: &Item, parts: &Parts) {
        let times = match parts.section {
            Section::Update => item.count as f64,
            Section::Layers | Section::Head => item.count as f64 / self.microbatches,
        };
        if parts.launches {
            self.launches += times;
        }
        for &(term, entry) in parts.terms.iter().flatten() {
            if entry.least(1.0) > 0.0 {
                let all = Entry {
                    time: entry.time * times,
                    compute: entry.compute * times,
                    streamed: entry.streamed * times,
                    ..entry
                };
                self.kernels.push((parts.section, term, all));
                continue;
            }
            let sum = &mut self.entries[parts.section as usize][term as usize];
            sum.time += entry.time * times;
            sum.calls += entry.calls * times;
            sum.rank_doublings += entry.rank_doublings * times;
            sum.node_doublings += entry.node_doublings * times;
        }
    }
}

/// Whether an item is carried by another kernel: what it costs follows from its traffic alone.
pub(super) fn is_fused(op: &Op) -> bool {
    matches!(
        op,
        Op::Memory(Memory {
            kind: MemoryKind::Quantize | MemoryKind::AccumulateGradient,
            ..
        })
    )
}

/// What the terms of a step depend on besides its operators.
#[derive(Clone, Copy)]
pub(in crate::predict) struct Context<'a> {
    pub predictor: &'a Predictor,
    pub gpu: &'a Gpu,
    pub framework: &'a Framework,
    pub architecture: &'a Architecture,
    pub workload: &'a Workload,
}

impl<'a> Context<'a> {
    /// A step under the framework of the predictor; fails where that does not run its mode, or where it offloads over a
    /// link that is not known.
    pub fn of(predictor: &'a Predictor, architecture: &'a Architecture, workload: &'a Workload) -> Result<Self> {
        if workload.offload != Offload::None && predictor.gpu().host_bandwidth().is_none() {
            let allowed = "`none`: no link to the host is known; host_gbyte_per_s sets it";
            return Err(Error::field("workload", "offload", workload.offload, allowed));
        }
        Ok(Self {
            predictor,
            gpu: predictor.gpu(),
            framework: predictor.framework(workload.mode)?,
            architecture,
            workload,
        })
    }

    /// The part of a collective whose time the nets predict: that inside a node, where a framework of training calls NCCL.
    ///
    /// Kernels of serving engines are up to five times as fast for small messages; the constants of servers hold them.
    fn learned_part(&self, op: &Collective) -> Option<Collective> {
        learns_collectives(self.workload.mode)
            .then(|| Traffic::in_node(self.gpu, op))
            .flatten()
    }

    /// The operator that a predictor is asked for in place of one; `None` if the time follows from traffic alone.
    pub fn asked(&self, op: &Op) -> Option<Op> {
        match op {
            Op::Collective(op) => self.learned_part(op).map(Op::Collective),
            op => (!is_fused(op)).then_some(*op),
        }
    }

    /// The estimate of an operator, given that of what was asked in its place.
    pub fn estimate(&self, op: &Op, asked: Option<Estimate>) -> Estimate {
        let Some(asked) = asked else {
            return assume::roofline(self.gpu, op);
        };
        match op {
            // What crosses nodes is not learned.
            Op::Collective(op) if self.learned_part(op).is_some_and(|part| part.ranks < op.ranks) => Estimate {
                time: asked.time,
                ..assume::roofline(self.gpu, &Op::Collective(*op))
            },
            _ => asked,
        }
    }

    /// What one repetition of an item adds, given the predicted time of its operator.
    pub(super) fn parts(&self, item: &Item, predicted: Seconds) -> Parts {
        let Self {
            predictor,
            gpu,
            framework,
            architecture,
            workload,
        } = *self;
        let plain = |time: f64| Entry {
            time,
            ..Entry::default()
        };
        let kernel = |time: Seconds| {
            let peak = item.op.dtype().map(|dtype| gpu.greatest_peak(dtype));
            Entry {
                time: time.secs(),
                compute: peak.map_or(0.0, |peak| (item.op.flops() / peak).secs()),
                streamed: (streamed(item) / gpu.bandwidth()).secs(),
                ..Entry::default()
            }
        };
        let mut launches = true;
        let terms = match &item.op {
            Op::Gemm(op) => {
                let fp8 = op.dtype.casts_inputs();
                let term = match (item.role.is_of_experts(), fp8) {
                    (false, false) => Term::Gemm,
                    (false, true) => Term::GemmFp8,
                    (true, false) => Term::Experts,
                    (true, true) => Term::ExpertsFp8,
                };
                let time = if fp8 && predictor.times_casts(framework.kernels, op.dtype) {
                    without_cast(gpu, framework, op, predicted)
                } else {
                    predicted
                };
                [Some((term, kernel(time))), None]
            }
            Op::Experts(op) => {
                let term = match op.dtype.casts_inputs() {
                    true => Term::ExpertsFp8,
                    false => Term::Experts,
                };
                [Some((term, kernel(predicted))), None]
            }
            Op::Attention(_) if item.phase == Phase::Backward => {
                [Some((Term::AttentionBackward, kernel(predicted))), None]
            }
            Op::Attention(_) => [Some((Term::Attention, kernel(predicted))), None],
            Op::LinearAttention(_) => [Some((Term::LinearAttention, kernel(predicted))), None],
            Op::IndexedAttention(_) => [Some((Term::Other, kernel(predicted))), None],
            Op::Memory(op) if is_fused(&item.op) => {
                launches = false;
                let term = match op.kind {
                    MemoryKind::Quantize => Term::Quantize,
                    _ => Term::Accumulate,
                };
                [Some((term, plain((op.bytes() / gpu.bandwidth()).secs()))), None]
            }
            Op::Memory(op) => {
                let term = match item.role {
                    Role::ExpertsActivation if architecture.biases.experts => Term::BiasedActivation,
                    Role::ExpertsDispatch | Role::ExpertsCombine | Role::ExpertsActivation => Term::Permute,
                    _ => Term::Memory,
                };
                // A law may lie below the launch floor; what it moves stays traffic.
                let traffic = op.bytes() / gpu.bandwidth();
                let launch = gpu.launch_floor().min(predicted - traffic.min(predicted));
                [
                    Some((Term::Launch, plain(launch.secs()))),
                    Some((term, plain((predicted - launch).secs()))),
                ]
            }
            Op::Collective(op) => {
                launches = false;
                let traffic = Traffic::of(gpu, op).map(|traffic| match self.learned_part(op) {
                    Some(part) => traffic.with_learned(gpu, &part, predicted),
                    None => traffic,
                });
                match traffic {
                    Some(traffic) => traffic_terms(workload, item.role, &traffic),
                    None => [None; 2],
                }
            }
        };
        Parts {
            section: Section::of(item),
            terms,
            launches,
        }
    }
}

/// What an item reads that belongs to one layer alone, so that no kernel before it has left it in the second-level cache:
/// weights, the caches of attention and the states of recurrences.
fn streamed(item: &Item) -> Bytes {
    match &item.op {
        // A batch of products multiplies activations, unless it is that of experts.
        Op::Gemm(op) if op.batch != 1 && !item.role.is_of_experts() => Bytes::ZERO,
        op => op.layer_bytes(),
    }
}

/// Whether nets are asked for the collectives of a step; those of a server follow from traffic and its constants.
pub fn learns_collectives(mode: Mode) -> bool {
    mode == Mode::Train
}

/// The terms of a collective: the transfer, and for experts what crosses the network beside it.
fn traffic_terms(workload: &Workload, role: Role, traffic: &Traffic) -> [Option<(Term, Entry)>; 2] {
    let started = |time: Seconds| Entry {
        time: time.secs(),
        calls: 1.0,
        rank_doublings: traffic.rank_doublings,
        node_doublings: traffic.node_doublings,
        ..Entry::default()
    };
    let term = match role {
        Role::ExpertParallel => {
            let crossing = Entry {
                time: traffic.network.secs(),
                ..Entry::default()
            };
            return [
                Some((Term::ExpertParallel, started(traffic.node))),
                Some((Term::ExpertNetwork, crossing)),
            ];
        }
        Role::ContextParallel => Term::ContextParallel,
        Role::PipelineParallel => Term::PipelineParallel,
        Role::DataParallel if workload.zero >= 2 => Term::ShardedData,
        Role::DataParallel => Term::DataParallel,
        _ => Term::TensorParallel,
    };
    [Some((term, started(traffic.transfer()))), None]
}

/// The time of an fp8 GEMM without the cast of its left operand that the tables contain and the framework does elsewhere.
fn without_cast(gpu: &Gpu, framework: &Framework, op: &Gemm, predicted: Seconds) -> Seconds {
    let launch = Seconds::from_micros(framework.get(Constant::CastUs));
    let traffic = if framework.get(Constant::Quantize) > 0.0 {
        let bytes = CAST_BYTES * op.batch as f64 * op.m as f64 * op.k as f64;
        Seconds::from_secs(bytes / gpu.bandwidth().bytes_per_sec())
    } else {
        Seconds::ZERO
    };
    let arithmetic = op.flops() / gpu.nearest_peak(op.dtype);
    (predicted - launch - traffic)
        .max(predicted * LEAST_WITHOUT_CAST)
        .max(arithmetic.min(predicted))
}
