//! From predicted operators to a training step, a prefill or a decode step of a whole transformer.

mod lanes;
mod ledger;
mod sensitivity;
mod timed;

pub use lanes::Lanes;
pub use ledger::{Ledger, learns_collectives};
pub use sensitivity::Sensitivity;
pub use timed::{Load, Timed};

use crate::arch::{Architecture, Item, MemoryUse, Phase, Step, Workload, lower, memory_use};
use crate::error::Result;
use crate::framework::{Constant, Framework, Gap, Kernels, Subject};
use crate::gpu::Generation;
use crate::ops::{MemoryKind, Op};
use crate::predict::Predictor;
use crate::predict::assume;
use crate::predict::estimate::{Caveat, Caveats, Estimate, Tier, TierShares};
use crate::stats::quadrature;
use crate::units::Flops;
use crate::units::Seconds;
use lanes::Factors;
pub(in crate::predict) use ledger::Context;
use ledger::{Parts, Term};
use rustc_hash::FxHashMap;

/// One line of a step: an operator, how often it runs, what one call takes.
#[derive(Clone, Debug)]
pub struct Line {
    /// Role, phase, operator and count.
    pub item: Item,
    /// One call.
    pub each: Estimate,
    /// What all calls of the step add to its time; of traffic the part that shows.
    pub time: Seconds,
    /// What all calls take as kernels of their own on the stage that runs them: no kernel less than its launch.
    pub own: Seconds,
    /// The part of [`Line::own`] that the slowest stage runs.
    pub stage_share: f64,
}

named_enum! {
    /// What the time of a step holds besides the sum of [`Line::own`].
    Rest {
        /// Launches and traffic that a framework saves where it fuses kernels into their neighbours; negative.
        Fused = "fused_into_neighbours",
        /// Kernels that another stage runs at the same time; negative.
        OtherStages = "on_other_stages",
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

/// A predicted step of one model on one GPU (or one rank of its parallel group).
#[derive(Clone, Debug)]
pub struct StepEstimate {
    /// Name of the framework that runs it.
    pub framework: String,
    /// Every operator of the step.
    pub lines: Vec<Line>,
    /// Where the time goes.
    pub lanes: Lanes,
    /// Its terms before the constants of the framework.
    pub ledger: Ledger,
    /// Wall time of the step, pipeline bubble included.
    pub time: Seconds,
    /// Lower end of the 90 % interval of [`StepEstimate::time`].
    pub low: Seconds,
    /// Upper end of the 90 % interval of [`StepEstimate::time`].
    pub high: Seconds,
    /// Tokens a step processes on this replica.
    pub tokens: f64,
    /// Tokens per second of one replica.
    pub tokens_per_s: f64,
    /// Lower end of the 90 % interval of [`StepEstimate::tokens_per_s`].
    pub tokens_per_s_low: f64,
    /// Upper end of the 90 % interval of [`StepEstimate::tokens_per_s`].
    pub tokens_per_s_high: f64,
    /// Arithmetic of the step on this replica, as [`StepEstimate::mfu`] counts it.
    pub model_flops: Flops,
    /// Model FLOPs utilisation per GPU, against the dense peak of the workload's format: without what a causal mask leaves
    /// out, without recomputation.
    pub mfu: f64,
    /// The same with the whole square of attention, as PaLM and Megatron publish it: above 1 where long causal sequences
    /// leave half of it out.
    pub mfu_full_attention: f64,
    /// GPUs of one replica: tensor, context and pipeline ranks.
    pub gpus_per_replica: u64,
    /// Memory of one GPU by part.
    pub memory: MemoryUse,
    /// Whether that fits.
    pub fits: bool,
    /// Share of the time by tier.
    pub tier_shares: TierShares,
    /// Everything any line warns of.
    pub caveats: Caveats,
}

impl StepEstimate {
    /// Time that all GPUs of a replica together spend on one token.
    pub fn gpu_time_per_token(&self) -> Seconds {
        self.time * (self.gpus_per_replica as f64 / self.tokens)
    }

    /// Share of the time of each lane, in the order in which [`Lanes`] has them.
    pub fn lane_shares(&self) -> [f64; 6] {
        let Lanes {
            kernels,
            exposed,
            bubble,
            host,
            overhead,
            offload,
            total,
            ..
        } = self.lanes;
        [kernels, exposed, bubble, host, overhead, offload].map(|lane| lane / total)
    }

    /// What drafting tokens takes.
    pub fn drafting(&self) -> Seconds {
        let drafts = self.lines.iter().filter(|line| line.item.phase == Phase::Draft);
        drafts.fold(Seconds::ZERO, |sum, line| sum + line.own)
    }

    /// Tokens per second of one GPU.
    pub fn tokens_per_s_per_gpu(&self) -> f64 {
        self.tokens_per_s / self.gpus_per_replica as f64
    }

    /// The tier of most of the time; of equal shares the worse.
    pub fn main_tier(&self) -> Tier {
        self.tier_shares.most()
    }

    /// What the time holds besides the lines: the sum of both is [`StepEstimate::time`].
    pub fn rest(&self) -> [(Rest, Seconds); Rest::ALL.len()] {
        let [mut fused, mut elsewhere] = [Seconds::ZERO; 2];
        for line in &self.lines {
            let run = line.own * line.stage_share;
            fused += line.time - run;
            elsewhere += run - line.own;
        }
        let lanes = &self.lanes;
        Rest::ALL.map(|rest| {
            let time = match rest {
                Rest::Fused => fused,
                Rest::OtherStages => elsewhere,
                Rest::Bubble => lanes.bubble,
                Rest::Host => lanes.host,
                Rest::Overhead => lanes.overhead,
                Rest::Offload => lanes.offload,
            };
            (rest, time)
        })
    }
}

/// Predicts one step of `architecture` under `workload` with the framework of the predictor.
pub fn estimate_step(predictor: &Predictor, architecture: &Architecture, workload: &Workload) -> Result<StepEstimate> {
    estimate(&Context::of(predictor, architecture, workload)?, None)
}

/// The same, of operators that are not known alone.
pub(super) fn estimate(context: &Context<'_>, known: Option<&mut Known>) -> Result<StepEstimate> {
    let Context {
        gpu,
        framework,
        architecture,
        workload,
        ..
    } = *context;
    let whole = Whole::of(context, known)?;
    let memory = memory_use(architecture, workload, &framework.practice)?;
    let step = &whole.step;
    let lines = step.items.iter().zip(&whole.estimates).zip(&whole.shown);
    let lines = lines.map(|((item, each), shown)| Line {
        item: *item,
        each: *each,
        time: shown.time,
        own: shown.own,
        stage_share: shown.stage_share,
    });
    let sum = &whole.sum;
    let time = whole.lanes.total;
    let subject = Subject::of(gpu, architecture, workload);
    let (half_width, unseen) = whole.half_width(framework, &subject);
    let rate = |time: Seconds| step.tokens / time.secs();
    let beside = quadrature(half_width, workload.kept_half_width()) - half_width;
    let low = (time * (-half_width).exp()).max(whole.least);
    let high = time * half_width.exp();
    let peak = gpu.nearest_peak(workload.dtype) * step.gpus_per_replica as f64;
    Ok(StepEstimate {
        framework: framework.name.clone(),
        lanes: whole.lanes,
        tokens: step.tokens,
        tokens_per_s: rate(time),
        tokens_per_s_low: rate(high * beside.exp()),
        tokens_per_s_high: rate(low * (-beside).exp()),
        model_flops: step.model_flops,
        mfu: step.model_flops / time / peak,
        mfu_full_attention: step.square_flops / time / peak,
        gpus_per_replica: step.gpus_per_replica,
        fits: memory.fits(gpu),
        memory,
        tier_shares: TierShares(sum.tiers.map(|part| part / sum.time)),
        caveats: sum.caveats.union(unseen),
        lines: lines.collect(),
        ledger: whole.ledger,
        time,
        low,
        high,
    })
}

/// The terms of a step, for fits of constants.
pub fn ledger(predictor: &Predictor, architecture: &Architecture, workload: &Workload) -> Result<Ledger> {
    let context = Context::of(predictor, architecture, workload)?;
    let step = lower(architecture, workload)?;
    let mut ledger = Ledger::new(&step, &context);
    for (item, each) in step.items.iter().zip(estimates(&context, &step, None)) {
        ledger.add(item, &context.parts(item, each.time));
    }
    Ok(ledger)
}

/// Leaves out what a framework counts inside other kernels.
fn retain_counted(step: &mut Step, framework: &Framework) {
    let counted = |kind| match kind {
        MemoryKind::Quantize => framework.get(Constant::Quantize) > 0.0,
        MemoryKind::AccumulateGradient => framework.get(Constant::Accumulate) > 0.0,
        _ => true,
    };
    step.items.retain(|item| match item.op {
        Op::Memory(op) => counted(op.kind),
        _ => true,
    });
}

/// Operators that were predicted before, with the kernels of one framework.
#[derive(Default)]
pub(super) struct Known {
    kernels: Kernels,
    estimates: FxHashMap<Op, Estimate>,
}

/// The estimate of every item of a step, in order; what is not known becomes so.
fn estimates(context: &Context<'_>, step: &Step, mut known: Option<&mut Known>) -> Vec<Estimate> {
    let kernels = context.framework.kernels;
    if let Some(known) = &mut known
        && known.kernels != kernels
    {
        known.kernels = kernels;
        known.estimates.clear();
    }
    let mut missing = Vec::with_capacity(step.items.len());
    let asked = step.items.iter().map(|item| {
        let op = context.asked(&item.op)?;
        let found = known.as_ref().and_then(|known| known.estimates.get(&op).copied());
        if found.is_none() {
            missing.push(op);
        }
        Some(found)
    });
    let asked: Vec<Option<Option<Estimate>>> = asked.collect();
    let predicted = context.predictor.predict_by(kernels, &missing);
    if let Some(known) = known {
        known
            .estimates
            .extend(missing.into_iter().zip(predicted.iter().copied()));
    }
    let mut predicted = predicted.into_iter();
    let each = step.items.iter().zip(asked).map(|(item, asked)| {
        let asked = asked.and_then(|found| found.or_else(|| predicted.next()));
        context.estimate(&item.op, asked)
    });
    each.collect()
}

/// A step put together: where its time goes, and how sure it is.
pub(super) struct Whole {
    pub(super) step: Step,
    estimates: Vec<Estimate>,
    pub(super) lanes: Lanes,
    ledger: Ledger,
    /// What each item takes.
    shown: Vec<Shown>,
    pub(super) sum: Sum,
    /// What no step is faster than: the sum of what none of its matrix kernels is. Kernels that may be fused into these, traffic
    /// between GPUs, the pipeline's bubble and constants of the framework do not count.
    pub(super) least: Seconds,
}

/// Least time of a kernel on a GPU, however small its traffic.
const LEAST_KERNEL: Seconds = Seconds::from_secs(1.5e-6);

/// The times of a [`Line`].
struct Shown {
    time: Seconds,
    own: Seconds,
    stage_share: f64,
}

impl Whole {
    /// Lowers a step, predicts its operators and puts it together.
    pub(super) fn of(context: &Context<'_>, known: Option<&mut Known>) -> Result<Self> {
        let framework = context.framework;
        let mut step = lower(context.architecture, context.workload)?;
        retain_counted(&mut step, framework);
        let estimates = estimates(context, &step, known);
        let mut ledger = Ledger::new(&step, context);
        let parts = step.items.iter().zip(&estimates).map(|(item, each)| {
            let parts = context.parts(item, each.time);
            ledger.add(item, &parts);
            parts
        });
        let parts: Vec<Parts> = parts.collect();
        let factors = Factors::of(framework, &ledger);
        let lanes = Lanes::with(&ledger, framework, &factors);
        let mut sum = Sum::default();
        let mut floor = 0.0;
        let items = step.items.iter().zip(&estimates).zip(&parts);
        let shown = items.map(|((item, each), parts)| {
            let stage_share = lanes.sections[parts.section as usize];
            let call = parts.terms.iter().flatten().map(|(term, entry)| {
                let share = match term {
                    Term::DataParallel => lanes.exposed_data,
                    Term::ShardedData => lanes.exposed_sharded,
                    _ => 1.0,
                };
                factors.seconds(*term, entry) * share
            });
            let call = call.sum::<f64>();
            floor += parts.least(each, factors.cold_share) * item.count as f64 * stage_share;
            let time = Seconds::from_secs(call * item.count as f64 * stage_share);
            sum.add(time, each);
            let least = match item.op {
                Op::Collective(_) => Seconds::ZERO,
                _ => context.gpu.launch_floor().min(each.time.max(LEAST_KERNEL)),
            };
            Shown {
                time,
                own: Seconds::from_secs(call).max(least) * item.count as f64,
                stage_share,
            }
        });
        let shown = shown.collect();
        if lanes.offload > Seconds::ZERO {
            sum.add(lanes.offload, &assume::offload(lanes.offload));
        }
        Ok(Self {
            least: Seconds::from_secs(floor).min(lanes.total),
            step,
            estimates,
            shown,
            lanes,
            ledger,
            sum,
        })
    }

    /// Half width of the 90 % interval of the logarithm of the step: that of the framework, wider by what none of its runs
    /// covers and by what is offloaded, or that of the operators where they are less sure.
    fn half_width(&self, framework: &Framework, subject: &Subject) -> (f64, Caveats) {
        let operators = self.sum.half_width();
        let Some((whole, unseen)) = half_width(framework, subject) else {
            return (operators, Caveats::default());
        };
        let offloaded = self.lanes.offload / self.lanes.total;
        let whole = quadrature(whole, offloaded * assume::half_width(Caveat::Offload));
        (whole.max(operators), unseen)
    }
}

/// Half width of the 90 % interval of `ln(time)` by the runs of a framework, wider for each gap that they leave; `None` if
/// no such step was compared.
pub fn half_width(framework: &Framework, subject: &Subject) -> Option<(f64, Caveats)> {
    let mut half_width = framework.half_width_with(subject.kind, subject.own_pass)?;
    let mut unseen = Caveats::default();
    let gaps = framework.evidence(subject).map(|(_, gaps)| gaps);
    for gap in gaps.unwrap_or_else(|| subject.beside()) {
        let caveat = match gap {
            Gap::Gpu => Caveat::UnseenGpu,
            Gap::Length => Caveat::UnseenLength,
            Gap::Format => Caveat::UnseenFormat,
            Gap::Nodes => Caveat::UnseenNodes,
            Gap::Adapters if subject.generation == Generation::Ada => Caveat::AdaptersOnAda,
            Gap::Adapters => Caveat::Adapters,
            Gap::Drafts => Caveat::Drafts,
        };
        unseen.insert(caveat);
        half_width = quadrature(half_width, assume::half_width(caveat));
    }
    Some((half_width, unseen))
}

/// Adds times whose errors are partly shared: the shared parts add up, the rest averages out.
///
/// Repetitions of one operator share their error wholly, so a line counts as one draw.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) time: Seconds,
    shared: f64,
    own_squared: f64,
    tiers: [Seconds; 4],
    caveats: Caveats,
}

impl Sum {
    fn add(&mut self, time: Seconds, each: &Estimate) {
        self.time += time;
        self.tiers[each.tier as usize] += time;
        self.caveats = self.caveats.union(each.caveats);
        self.shared += time.secs() * each.shared.min(each.half_width);
        self.own_squared += (time.secs()).powi(2) * each.own_variance();
    }

    /// Half width of the 90 % interval of the logarithm of the sum.
    pub(super) fn half_width(&self) -> f64 {
        if self.time == Seconds::ZERO {
            return 0.0;
        }
        (self.shared.powi(2) + self.own_squared).sqrt() / self.time.secs()
    }

    /// The part of [`Sum::half_width`] that another step on the same GPU and stack does not share.
    pub(super) fn own_half_width(&self) -> f64 {
        if self.time == Seconds::ZERO {
            return 0.0;
        }
        self.own_squared.sqrt() / self.time.secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Offload, Preset, Recipe, Recompute, Role};
    use crate::gpu::Gpu;
    use crate::ops::{Dtype, RouterLoad};
    use crate::units::BytesPerSecond;

    fn step(gpu: &Gpu, arch: &Architecture, offload: Offload) -> StepEstimate {
        let predictor = Predictor::new(gpu, None).unwrap();
        let work = Workload {
            dtype: Dtype::Fp16,
            recompute: Recompute::Full,
            microbatches: 4,
            offload,
            ..Workload::train(8, 1024)
        };
        estimate_step(&predictor, arch, &work).unwrap()
    }

    #[test]
    fn offloading_takes_the_time_of_the_link_and_is_said_to_be_assumed() {
        let arch = &Preset::find("gpt3-13b").unwrap().architecture;
        let h100 = Gpu::find("h100").unwrap();
        let plain = step(h100, arch, Offload::None);
        assert_eq!(plain.lanes.offload, Seconds::ZERO);
        for offload in [Offload::Optimizer, Offload::Activations, Offload::All] {
            let moved = step(h100, arch, offload);
            let lanes = moved.lane_shares().into_iter().sum::<f64>();
            assert!((lanes - 1.0).abs() < 1e-9, "{lanes}");
            assert!(moved.lanes.offload > Seconds::ZERO);
            assert!(moved.caveats.contains(crate::families::Caveat::Offload));
            assert!(moved.memory.total() < plain.memory.total());
            let slow = h100.clone().with_host_link(BytesPerSecond::from_bytes_per_sec(1e9));
            assert!(step(&slow, arch, offload).time > moved.time * 1.5);
        }
        // 28 bytes a parameter at 76.8 GB/s; the fused kernel of the GPU is gone.
        let adam = 28.0 * 12.85e9 / 76.8e9;
        let offload = step(h100, arch, Offload::Optimizer).lanes.offload.secs();
        assert!((adam..1.2 * adam).contains(&offload), "{offload} of {adam}");
    }

    #[test]
    fn an_even_router_load_spares_the_busiest_rank() {
        let arch = &Preset::find("deepseek-v3").unwrap().architecture;
        let predictor = Predictor::new(Gpu::find("h100").unwrap(), None).unwrap();
        let time = |router_load, ranks| {
            let work = Workload {
                dtype: Dtype::Fp8,
                recipe: Recipe::Fp8Block,
                ep: ranks,
                dp: ranks,
                router_load,
                ..Workload::decode(128, 2000)
            };
            let step = estimate_step(&predictor, arch, &work).unwrap();
            let experts = step.lines.iter().filter(|line| line.item.role == Role::Experts);
            experts.map(|line| line.time.secs()).sum::<f64>()
        };
        for (ranks, factor) in [(8, 1.0), (64, 1.1)] {
            let skewed = time(RouterLoad::PowerLaw101, ranks);
            let even = time(RouterLoad::Even, ranks);
            assert!(factor * even < skewed, "{ranks}: {even} {skewed}");
        }
    }

    /// Caches and weights are read at the bandwidth of the memory at most, whatever the constants of a framework make of the
    /// kernels; a model that the second-level cache holds is not.
    #[test]
    fn no_step_reads_faster_than_the_memory() {
        for (name, gpu, dtype, work) in [
            ("llama-2-7b", "h200", Dtype::Bf16, Workload::decode(60, 4000)),
            ("pythia-1.4b", "l4", Dtype::Fp8, Workload::decode(1, 128)),
            ("deepseek-v2-lite", "h20", Dtype::Bf16, Workload::decode(256, 3900)),
        ] {
            let arch = &Preset::find(name).unwrap().architecture;
            let gpu = Gpu::find(gpu).unwrap();
            let mut framework = Framework::find("vllm", work.mode, gpu.generation).unwrap().clone();
            for constant in [Constant::Attention, Constant::Gemm, Constant::GemmFp8] {
                framework.set_value(constant, 0.1);
            }
            let predictor = Predictor::new(gpu, None).unwrap().with_framework(framework);
            let step = estimate_step(&predictor, arch, &Workload { dtype, ..work }).unwrap();
            let memory = step.memory;
            let read = memory.weights + memory.kv_cache;
            // The table of the embedding, in 16 bits, is not read.
            let table = (arch.vocab * arch.hidden * 2) as f64;
            let least = (read.bytes() - table - gpu.l2().bytes()) / gpu.bandwidth().bytes_per_sec();
            assert!(step.time.secs() > least, "{name}: {} {least}", step.time);
            assert!(step.low.secs() > 0.95 * least, "{name}: {} {least}", step.low);
            let lines: Seconds = step.lines.iter().map(|line| line.time).sum();
            let lanes = step.lanes.kernels + step.lanes.exposed;
            assert!((lines / lanes - 1.0).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn casts_are_taken_from_gemms_whose_timings_hold_them() {
        let arch = &Preset::find("llama-3-8b").unwrap().architecture;
        let time = |recipe, gpu: &str, framework: &str, cast_us: f64| {
            let work = Workload {
                dtype: Dtype::Fp8,
                recipe,
                ..Workload::decode(4, 1024)
            };
            let gpu = Gpu::find(gpu).unwrap();
            let mut framework = Framework::find(framework, work.mode, gpu.generation).unwrap().clone();
            framework.set_value(Constant::CastUs, cast_us);
            let predictor = Predictor::new(gpu, None).unwrap().with_framework(framework);
            estimate_step(&predictor, arch, &work).unwrap().time
        };
        for (gpu, framework, held) in [
            ("h200", "tensorrt-llm", true),
            ("h200", "vllm", false),
            ("h200", "sglang", false),
            ("mi355x", "vllm", false),
            ("b200", "unknown", true),
            // Our own rows hold none.
            ("gh200", "unknown", false),
        ] {
            let of = |cast_us| time(Recipe::Tensorwise, gpu, framework, cast_us);
            assert_eq!(of(5.0) < of(0.0), held, "{gpu} {framework}");
        }
        // Nor do those with scales of blocks.
        let of = |cast_us| time(Recipe::Fp8Block, "h200", "tensorrt-llm", cast_us);
        assert_eq!(of(5.0), of(0.0));
    }

    /// 10 billion parameters on one V100: 40 TFLOP/s (arXiv 2101.06840, abstract), where a third of the FLOPs recompute.
    #[test]
    fn zero_offload_reaches_about_its_published_rate() {
        let base = &Preset::find("gpt3-13b").unwrap().architecture;
        let arch = Architecture {
            layers: 50,
            hidden: 4096,
            heads: 32,
            kv_heads: 32,
            mlp: crate::arch::Mlp {
                d_ff: 16_384,
                ..base.mlp
            },
            ..base.clone()
        };
        let v100 = Gpu::find("v100").unwrap();
        let moved = step(v100, &arch, Offload::Optimizer);
        let rate = moved.model_flops.flops() * 4.0 / 3.0 / moved.time.secs() / 1e12;
        assert!((25.0..64.0).contains(&rate), "{rate}");
    }

    /// Seconds that Adam on the CPU adds: Qwen-72B on 4 hosts of 8 A100 10 (DeepSpeed issue 6834), GLM-4.5-Air on 4 of 8 H100 up to 9.6
    /// (THUDM/slime issue 1139), Qwen2.5-3B on 2 A100 less than the 3.1 of the step (DeepSpeed pull request 7474).
    #[test]
    fn ranks_share_the_cpu_of_their_host() {
        for (model, gpu, dp, measured) in [
            ("qwen2.5-72b", "a100", 32, 10.0),
            ("glm-4.5-air", "h100", 32, 9.6),
            ("qwen2.5-3b", "a100-40gb", 2, 3.1),
        ] {
            let arch = &Preset::find(model).unwrap().architecture;
            let predictor = Predictor::new(Gpu::find(gpu).unwrap(), None).unwrap();
            let work = Workload {
                dp,
                zero: 3,
                recompute: Recompute::Full,
                offload: Offload::Optimizer,
                ..Workload::train(1, 2048)
            };
            let moved = estimate_step(&predictor, arch, &work).unwrap();
            let ratio = moved.lanes.offload.secs() / measured;
            assert!((0.5..1.6).contains(&ratio), "{model} {ratio}");
            assert!(moved.high > moved.time * 1.5, "{}", moved.high);
        }
    }

    fn estimate(half_width: f64, shared: f64) -> Estimate {
        let time = Seconds::from_secs(1.0);
        Estimate {
            time,
            half_width,
            shared,
            least: Seconds::ZERO,
            tier: Tier::Learned,
            caveats: Caveats::default(),
        }
    }

    #[test]
    fn independent_errors_average_out_and_shared_ones_do_not() {
        let sum_of = |shared: f64| {
            let mut sum = Sum::default();
            for _ in 0..100 {
                sum.add(Seconds::from_secs(1.0), &estimate(0.1, shared));
            }
            sum.half_width()
        };
        assert!((sum_of(0.0) - 0.01).abs() < 1e-9);
        assert!((sum_of(0.1) - 0.1).abs() < 1e-9);
        assert!(sum_of(0.05) > 0.05 && sum_of(0.05) < 0.052);
        assert_eq!(Sum::default().half_width(), 0.0);
    }
}
