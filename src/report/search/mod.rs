//! The answer to `search`: ranked shapes, the baseline, what won the time, the Pareto front.

mod order;

pub mod shard;

mod text;

use crate::arch::{Dimension, Workload};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::loss::{Comparison, Evidence, Part, Reason};
use crate::ops::Dtype;
use crate::predict::Predictor;
use crate::predict::estimate::{Tier, TierShares};
use crate::predict::step::StepEstimate;
use crate::report::architecture::ArchitectureShape;
use crate::report::plan::{LayoutKeys, LimitKeys};
use crate::report::search::order::OrderKeys;
use crate::report::{Basis, NamedGpu, joined};
use crate::search::bounds::Quantity;
use crate::search::goal::{Objective, Outcome};
use crate::search::shape::Count;
use crate::search::{
    ComputeOptimal, Found, Free, FrontPoint, GAP, Life, Method, Recommendation, Request, Served, Service, Sizes,
    StopReason,
};
use crate::units::{Bytes, Seconds};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

fn hours(time: Seconds) -> f64 {
    time.secs() / 3600.0
}

/// Roles that are named as having won or lost time.
const ROLES: usize = 3;

/// Recommended shapes.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SearchReport {
    gpu: NamedGpu,
    capacity_bytes: Bytes,
    request: RequestKeys,
    /// What is run; where layouts are planned, under that of the baseline.
    workload: Workload,
    /// Whether each shape, and the baseline, has a layout of its own, from a plan.
    sharded: bool,
    /// Name of the framework that runs the steps.
    framework: String,
    basis: Vec<Basis>,
    baseline: BaselineKeys,
    /// What the server takes at least for a decode step, where that decides the time of the baseline and of every shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_least_us: Option<Seconds>,
    /// What the number format of training costs in loss against 16 bits, in no other difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    format_loss: Option<LossKeys>,
    shapes: Vec<ShapeKeys>,
    /// Whether no shape was found that costs no loss, though the objective wants such ones.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    costs_loss: bool,
    /// The fastest shape by throughput alone, whatever it costs in loss.
    fastest: PointKeys,
    pareto_front: Vec<PointKeys>,
    search: MethodKeys,
    /// What the order of the shapes hangs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<OrderKeys>,
    /// The best of the same search on other GPUs and in other number formats, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<ElsewhereKeys>,
    /// The sizes that were tried, where the objective finds the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    sizes: Option<SizesKeys>,
    /// The config.json of each shape, in the order of rank, where they were asked for; null where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    configs: Vec<Value>,
    /// Why a shape has no config.json, by its rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    no_config: BTreeMap<usize, String>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RequestKeys {
    parameters: u64,
    count: Count,
    tolerance: f64,
    /// Parameters that a token meets, where they were asked for too.
    #[serde(skip_serializing_if = "Option::is_none")]
    active_parameters: Option<u64>,
    vocab: u64,
    tied_embeddings: bool,
    /// Tokens that losses are compared after.
    tokens: f64,
    objective: Objective,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_gpu_hours: Option<f64>,
    /// The budget as it was asked for, where that was in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_usd: Option<f64>,
    /// What is served after the training, at the cost of the same budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    serve: Option<LifeKeys>,
    /// The loss to reach, on the scale of the law gemstones-annealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_loss_nats: Option<f64>,
    relaxed: Vec<Quantity>,
    /// What else of the workload varied, with what there was to choose from.
    free: BTreeMap<Dimension, Vec<u64>>,
    /// What else of attention varied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    free_attention: Vec<Free>,
    /// Shares of the layers with linear attention to choose from, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    linear_shares: Vec<f64>,
    /// Query heads per key head, where only one can be written as a config.
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_group: Option<u64>,
}

/// What is served after the training.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ServedLife)]
struct LifeKeys {
    gpu: String,
    /// Tokens generated over the whole life.
    tokens: f64,
    /// Tokens of a prompt.
    prompt: u64,
    /// Tokens that a request generates.
    output: u64,
    format: &'static str,
    /// What latencies are held against; absent where there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitKeys>,
    /// Prices of a GPU of the training and of serving; without them an hour of each costs the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    usd_per_gpu_hour: Option<[f64; 2]>,
}

impl From<&Service> for LifeKeys {
    fn from(service: &Service) -> Self {
        let Life {
            tokens,
            limits,
            workload,
            ..
        } = &service.life;
        Self {
            gpu: service.predictor.gpu().name.clone(),
            tokens: *tokens,
            prompt: limits.prompt,
            output: limits.output,
            format: workload.format_name(),
            limits: LimitKeys::of(limits),
            usd_per_gpu_hour: service.usd_per_gpu_hour,
        }
    }
}

/// What serving a model over its life takes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ServingCost)]
struct ServingKeys {
    gpu_hours: f64,
    /// The ends of its 90 % interval.
    gpu_hours_low: f64,
    gpu_hours_high: f64,
    gpu_hours_per_million_tokens: f64,
    /// Prices of training and serving together, where GPUs have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    usd_with_training: Option<f64>,
    /// The engines.
    engine: LayoutKeys,
}

impl ServingKeys {
    fn new(service: &Service, served: &Served, training: Option<Seconds>) -> Self {
        let gpu_hours = hours(served.gpu_time);
        let factor = served.half_width.exp();
        let prices = service.usd_per_gpu_hour;
        let usd = prices
            .zip(training)
            .map(|([of_training, of_serving], training)| of_training * hours(training) + of_serving * gpu_hours);
        Self {
            gpu_hours,
            gpu_hours_low: gpu_hours / factor,
            gpu_hours_high: gpu_hours * factor,
            gpu_hours_per_million_tokens: gpu_hours / service.life.tokens * 1e6,
            usd_with_training: usd.filter(|usd| usd.is_finite()),
            engine: LayoutKeys::of_engine(prices.map(|[_, of_serving]| of_serving), served.gpus, 1, &served.engine),
        }
    }
}

/// The model that gains are reported against, under the same workload.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BaselineKeys {
    shape: ArchitectureShape,
    #[serde(flatten)]
    speed: SpeedKeys,
    fits: bool,
    /// Whether it is the shape nearest to the centre of the bounds, because no published model is near; then there are no gains.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stands_in: bool,
}

/// What a step of a shape gives, and the memory that it takes.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SpeedKeys {
    tokens_per_s: f64,
    tokens_per_s_low: f64,
    tokens_per_s_high: f64,
    tokens_per_s_per_gpu: f64,
    mfu: f64,
    memory_bytes: Bytes,
}

impl From<&StepEstimate> for SpeedKeys {
    fn from(step: &StepEstimate) -> Self {
        Self {
            tokens_per_s: step.tokens_per_s,
            tokens_per_s_low: step.tokens_per_s_low,
            tokens_per_s_high: step.tokens_per_s_high,
            tokens_per_s_per_gpu: step.tokens_per_s_per_gpu(),
            mfu: step.mfu,
            memory_bytes: step.memory.total(),
        }
    }
}

/// GPU time of training to the loss that the baseline's proportions have at equal parameters after the tokens of the request, over
/// the time that they take: absent outside training, where losses do not compare, and after more tokens a parameter than the laws hold
/// for.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = TimeToEqualLoss)]
struct EqualLossKeys {
    /// Absent where it is never reached, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_time_to_equal_loss: Option<f64>,
    /// The lower end of its 90 % interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_time_to_equal_loss_low: Option<f64>,
    /// The upper end; absent where the loss may never be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_time_to_equal_loss_high: Option<f64>,
    /// Whether the loss is never reached.
    #[serde(skip)]
    is_never: bool,
}

impl From<Option<[f64; 3]>> for EqualLossKeys {
    fn from(time: Option<[f64; 3]>) -> Self {
        let Some(times) = time else { return Self::default() };
        let [middle, low, high] = times.map(|time| Some(time).filter(|time| time.is_finite()));
        Self {
            gpu_time_to_equal_loss: middle,
            gpu_time_to_equal_loss_low: low,
            gpu_time_to_equal_loss_high: high,
            is_never: middle.is_none(),
        }
    }
}

/// One recommended shape.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ShapeKeys {
    rank: usize,
    /// Shapes of one group are as fast as its fastest within the error of the predictor and within 3 %.
    tie_group: u64,
    shape: ArchitectureShape,
    /// What the budget counts, and by how much it is missed.
    counted_parameters: u64,
    parameters_miss: f64,
    /// The dimensions of the workload that a search may vary.
    #[serde(flatten)]
    #[schema(value_type = HashMap<String, serde_json::Value>)]
    workload: BTreeMap<Dimension, u64>,
    /// The layout that it is predicted under, where layouts are planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<Workload>,
    #[serde(flatten)]
    speed: SpeedKeys,
    /// Tokens per second and GPU, times parameters, over the baseline's, minus 1; in mixtures of experts the parameters that
    /// a token meets. Absent where no published model is near.
    #[serde(skip_serializing_if = "Option::is_none")]
    gain: Option<f64>,
    #[serde(flatten)]
    to_equal_loss: EqualLossKeys,
    /// `ln` of GPU time per token over the baseline's: what was minimised.
    cost: f64,
    /// Half width of the 90 % interval of the cost, without what all shapes share.
    cost_half_width: f64,
    nearest_model: String,
    nearest_distance: f64,
    centre_distance: f64,
    rules_met: Vec<&'static str>,
    rules_broken: Vec<&'static str>,
    outside_usual: Vec<OutsideKeys>,
    /// Bounds that stop it where relaxing would go further, with the limit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    at_limit: BTreeMap<Quantity, f64>,
    won: Vec<RoleGain>,
    loss: LossKeys,
    /// What it reaches, where the objective is a loss or a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeKeys>,
    tier: Tier,
    tier_shares: TierShares,
}

/// A bound that a relaxed search let a shape leave.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OutsideKeys {
    bound: Quantity,
    value: f64,
    usual: [f64; 2],
}

/// How the share of one role changed against the baseline, at equal parameters.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RoleGain {
    role: &'static str,
    /// Change of GPU time per token at equal parameters, as a share of the baseline's whole; negative is faster.
    time_change: f64,
}

/// A shape in the plane of throughput, memory and habit.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = FrontPoint)]
struct PointKeys {
    shape: ArchitectureShape,
    /// The dimensions of the workload that a search may vary.
    #[serde(flatten)]
    #[schema(value_type = HashMap<String, serde_json::Value>)]
    workload: BTreeMap<Dimension, u64>,
    /// The layout that it is predicted under, where layouts are planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<Workload>,
    tokens_per_s_per_gpu: f64,
    memory_bytes: Bytes,
    /// As in the shapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    gain: Option<f64>,
    #[serde(flatten)]
    to_equal_loss: EqualLossKeys,
    centre_distance: f64,
    loss: LossKeys,
}

/// What a shape costs in loss against the baseline's proportions at equal parameters and tokens, in 0.001 nat per token;
/// positive is worse. The figures are absent where they are refused.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LossDifference)]
struct LossKeys {
    evidence: Evidence,
    /// Why the evidence is not `inside`.
    reasons: Vec<Reason>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    caveat: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference_mnat: Option<f64>,
    /// 5th percentile of the draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    low_mnat: Option<f64>,
    /// 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    high_mnat: Option<f64>,
    /// Whether fewer layers see all keys than in the baseline: it may recall worse from far back, which a loss does not show.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    recalls_less: bool,
    /// What each part adds; parts that are alike in both are left out.
    parts_mnat: BTreeMap<Part, f64>,
}

/// What a shape reaches under an objective that is a loss or a time.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SearchOutcome)]
struct OutcomeKeys {
    /// Tokens that it is trained on; absent where no number of them reaches the target, or serving leaves none.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_hours: Option<f64>,
    /// Behind the best of the answer: 0.001 nat of loss, or `ln` of the time; mean of the joint draws.
    behind: f64,
    /// 5th percentile.
    behind_low: f64,
    /// 95th percentile.
    behind_high: f64,
    /// Share of the joint draws in which it is the best of the answer.
    wins: f64,
    /// Share in which it is better than the best.
    beats_best: f64,
    /// Whether it ties with the best: it is better in a fifth of the draws, or less than 0.005 nat behind.
    ties: bool,
    /// Loss by law, each on the scale of its own data and tokenizer.
    loss_nats: BTreeMap<String, f64>,
    evidence: Evidence,
    reasons: Vec<Reason>,
    /// What serving it takes, where it is served after the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    serving: Option<ServingKeys>,
}

impl OutcomeKeys {
    fn new(request: &Request, outcome: &Outcome, shape: &Recommendation) -> Self {
        let served = request.service.as_ref().zip(shape.served.as_ref());
        let [behind, behind_low, behind_high] = outcome.behind;
        Self {
            tokens: Some(outcome.tokens).filter(|tokens| tokens.is_finite() && !outcome.is_unaffordable()),
            gpu_hours: outcome.gpu_time.map(hours).filter(|hours| hours.is_finite()),
            behind,
            behind_low,
            behind_high,
            wins: outcome.wins,
            beats_best: outcome.beats_best,
            ties: outcome.ties,
            loss_nats: outcome.losses.clone(),
            evidence: outcome.evidence,
            reasons: outcome.reasons.clone(),
            serving: served.map(|(service, served)| ServingKeys::new(service, served, outcome.gpu_time)),
        }
    }
}

/// Sizes under one objective.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SizesKeys {
    /// Parameters that the best size has at least in five of six joint draws.
    parameters_low: f64,
    /// And at most.
    parameters_high: f64,
    /// The best shape of each size that was tried, by rising parameters.
    points: Vec<SizeKeys>,
    /// The size that reaches the loss of the first shape with the least training by Chinchilla's law (Hoffmann et al.), where models
    /// are served after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_optimal: Option<ComputeOptimalKeys>,
}

/// The size that is best for the training alone.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ComputeOptimal)]
struct ComputeOptimalKeys {
    parameters: u64,
    shape: ArchitectureShape,
    /// Tokens until it has the loss of the first shape.
    tokens: f64,
    /// GPU-hours of its training.
    gpu_hours: f64,
    serving: ServingKeys,
    /// Its cost of training and serving over that of the first shape.
    cost_over_best: f64,
    /// Tokens served from which on the first shape, which costs more to train, costs less; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    even_at_tokens: Option<f64>,
}

impl ComputeOptimalKeys {
    fn new(found: &Found, sizes: &Sizes, optimal: &ComputeOptimal) -> Option<Self> {
        let point = &sizes.points[optimal.point];
        let (best, service) = (&found.shapes[0], found.request.service.as_ref()?);
        let cost = |gpu_time: Seconds, shape: &Recommendation| Some(gpu_time + shape.served.as_ref()?.cost);
        let of_best = cost(best.outcome.as_ref()?.gpu_time?, best)?;
        Some(Self {
            parameters: point.parameters,
            shape: (&point.best.ranked.architecture).into(),
            tokens: optimal.tokens,
            gpu_hours: hours(optimal.gpu_time),
            serving: ServingKeys::new(service, point.best.served.as_ref()?, Some(optimal.gpu_time)),
            cost_over_best: cost(optimal.gpu_time, &point.best)? / of_best,
            even_at_tokens: optimal.even_at_tokens,
        })
    }
}

/// The best shape of one size.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct SizeKeys {
    parameters: u64,
    shape: ArchitectureShape,
    tokens_per_s_per_gpu: f64,
    outcome: OutcomeKeys,
}

impl SizesKeys {
    fn new(found: &Found, sizes: &Sizes) -> Self {
        let points = sizes.points.iter().map(|point| SizeKeys {
            parameters: point.parameters,
            shape: (&point.best.ranked.architecture).into(),
            tokens_per_s_per_gpu: point.best.step.tokens_per_s_per_gpu(),
            outcome: OutcomeKeys::new(&found.request, &point.outcome, &point.best),
        });
        Self {
            parameters_low: sizes.range[0],
            parameters_high: sizes.range[1],
            points: points.collect(),
            compute_optimal: sizes
                .compute_optimal
                .and_then(|optimal| ComputeOptimalKeys::new(found, sizes, &optimal)),
        }
    }
}

/// `extrapolated: more than 2 billion parameters in the layers`.
fn caveat(comparison: &Comparison) -> Option<String> {
    let what = match comparison.evidence {
        Evidence::Inside => return None,
        Evidence::Extrapolated => "extrapolated",
        Evidence::None => "without what was never measured",
        Evidence::Refused => "none",
    };
    let why = comparison.reasons.iter().map(|one| one.words());
    Some(format!("{what}: {}", joined(", ", why)))
}

impl From<&Comparison> for LossKeys {
    fn from(comparison: &Comparison) -> Self {
        let difference = comparison.difference.as_ref();
        let parts = difference.into_iter().flat_map(|difference| &difference.parts);
        Self {
            evidence: comparison.evidence,
            reasons: comparison.reasons.clone(),
            caveat: caveat(comparison),
            difference_mnat: difference.map(|difference| difference.mnat),
            low_mnat: difference.map(|difference| difference.low_mnat),
            high_mnat: difference.map(|difference| difference.high_mnat),
            recalls_less: comparison.recalls_less,
            parts_mnat: parts.copied().collect(),
        }
    }
}

/// The same search on another GPU or in another number format.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ElsewhereKeys {
    /// The GPU.
    gpu: String,
    /// Format of the linear maps' operands.
    dtype: Dtype,
    /// The shape of rank 1, if any shape was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<BestKeys>,
    /// Why no shape was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// The shape of rank 1.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct BestKeys {
    shape: ArchitectureShape,
    /// What it is predicted under.
    workload: Workload,
    tokens_per_s_per_gpu: f64,
    mfu: f64,
    memory_bytes: Bytes,
    /// Over the baseline on the same GPU in the same format.
    #[serde(skip_serializing_if = "Option::is_none")]
    gain: Option<f64>,
    #[serde(flatten)]
    to_equal_loss: EqualLossKeys,
    loss: LossKeys,
    /// What this format costs in loss against 16 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    format_loss: Option<LossKeys>,
}

impl ElsewhereKeys {
    /// What a search on this GPU in this format has found.
    pub fn new(gpu: &Gpu, dtype: Dtype, found: Result<Found>) -> Self {
        let best = found.as_ref().ok().map(|found| {
            let Recommendation {
                ranked,
                workload,
                step,
                gain,
                time_to_equal_loss,
                loss,
                ..
            } = &found.shapes[0];
            BestKeys {
                shape: (&ranked.architecture).into(),
                workload: *workload,
                tokens_per_s_per_gpu: step.tokens_per_s_per_gpu(),
                mfu: step.mfu,
                memory_bytes: step.memory.total(),
                gain: (!found.request.stands_in).then_some(*gain),
                to_equal_loss: EqualLossKeys::from(*time_to_equal_loss),
                loss: LossKeys::from(loss),
                format_loss: found.format_loss.as_ref().map(LossKeys::from),
            }
        });
        Self {
            gpu: gpu.name.clone(),
            dtype,
            best,
            refused: found.err().map(|error| error.to_string()),
        }
    }
}

/// How it was found.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct MethodKeys {
    method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// How much slower than the fastest of all an annealed answer was at most, in random questions that were asked both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<f64>,
    lattice_shapes: u64,
    evaluations: u64,
    refused: u64,
    stopped: StopReason,
}

impl SearchReport {
    /// Describes what was found, and on which basis.
    pub fn new(predictor: &Predictor, found: &Found, basis: Vec<Basis>) -> Self {
        let gpu = predictor.gpu();
        let request = &found.request;
        let shapes = found.shapes.iter().enumerate();
        Self {
            gpu: gpu.into(),
            capacity_bytes: gpu.memory(),
            request: RequestKeys {
                parameters: request.parameters,
                count: request.count,
                tolerance: request.tolerance,
                active_parameters: request.active,
                vocab: request.vocab,
                tied_embeddings: request.base.tied_embeddings,
                tokens: found.tokens,
                objective: match (request.goal, request.equal_loss) {
                    (Some(goal), _) => goal.objective,
                    (None, true) => Objective::EqualLoss,
                    (None, false) => Objective::Throughput,
                },
                // An hour of training and one of serving may have two prices.
                budget_gpu_hours: request
                    .goal
                    .filter(|goal| goal.usd.is_none() || request.service.is_none())
                    .and_then(|goal| goal.gpu_time)
                    .map(hours),
                budget_usd: request.goal.and_then(|goal| goal.usd),
                serve: request.service.as_ref().map(LifeKeys::from),
                target_loss_nats: request.goal.and_then(|goal| goal.target_loss),
                relaxed: request.relaxed.clone(),
                free: request
                    .free
                    .iter()
                    .filter_map(|free| Some((free.dimension(), free.powers()?)))
                    .collect(),
                free_attention: request
                    .free
                    .iter()
                    .copied()
                    .filter(|free| free.powers().is_none())
                    .collect(),
                linear_shares: request.linear_shares.clone(),
                kv_group: request.fixed.kv_group,
            },
            workload: request.workload,
            sharded: found.sharded,
            framework: found.baseline.framework.clone(),
            basis,
            baseline: BaselineKeys {
                shape: (&request.baseline).into(),
                speed: SpeedKeys::from(&found.baseline),
                fits: found.baseline.fits,
                stands_in: request.stands_in,
            },
            server_least_us: found.bound_by_server(),
            format_loss: found.format_loss.as_ref().map(LossKeys::from),
            costs_loss: found.costs_loss,
            shapes: shapes
                .map(|(index, shape)| ShapeKeys::new(found, index + 1, shape))
                .collect(),
            fastest: PointKeys::new(found, &found.fastest),
            pareto_front: found.front.iter().map(|point| PointKeys::new(found, point)).collect(),
            search: MethodKeys::new(found),
            order: found.order.as_ref().map(OrderKeys::new),
            elsewhere: Vec::new(),
            sizes: found.sizes.as_ref().map(|sizes| SizesKeys::new(found, sizes)),
            configs: Vec::new(),
            no_config: BTreeMap::new(),
        }
    }

    /// Whether the search was stopped before its end.
    pub fn is_interrupted(&self) -> bool {
        self.search.stopped == StopReason::Interrupted
    }

    /// Adds what the same search finds elsewhere.
    #[must_use]
    pub fn with_elsewhere(self, elsewhere: Vec<ElsewhereKeys>) -> Self {
        Self { elsewhere, ..self }
    }

    /// Adds the config.json of each shape, in the order of rank.
    #[must_use]
    pub fn with_configs(self, configs: Vec<Result<Value>>) -> Self {
        let refused = configs
            .iter()
            .zip(1..)
            .filter_map(|(config, rank)| Some((rank, config.as_ref().err()?.to_string())));
        Self {
            no_config: refused.collect(),
            configs: configs.into_iter().map(Result::unwrap_or_default).collect(),
            ..self
        }
    }

    /// The config.json of each shape that has one, with a name for its folder, in the order of rank.
    pub fn configs(&self) -> impl Iterator<Item = (String, &Value)> {
        let shapes = self.shapes.iter().zip(&self.configs);
        let shapes = shapes.filter(|(_, config)| !config.is_null());
        shapes.map(|(ShapeKeys { rank, shape, .. }, config)| {
            let name = format!(
                "{rank:02}-{}-layers-{}-hidden-{}-heads-{}-kv-{}-d_ff",
                shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.d_ff
            );
            (name, config)
        })
    }
}

impl ShapeKeys {
    fn new(found: &Found, rank: usize, shape: &Recommendation) -> Self {
        let Request { count, parameters, .. } = found.request;
        let architecture = &shape.ranked.architecture;
        let counted = count.of(architecture);
        let judged = |wanted| {
            let all = shape.findings.iter();
            all.filter(|finding| finding.verdict.is_met() == Some(wanted))
                .map(|finding| finding.rule.id)
                .collect()
        };
        let step = &shape.step;
        Self {
            rank,
            tie_group: shape.ranked.tie,
            shape: architecture.into(),
            counted_parameters: counted,
            parameters_miss: counted as f64 / parameters as f64 - 1.0,
            workload: shape.ranked.candidate.shape.of_workload().into(),
            layout: found.sharded.then_some(shape.workload),
            speed: SpeedKeys::from(step),
            gain: (!found.request.stands_in).then_some(shape.gain),
            to_equal_loss: EqualLossKeys::from(shape.time_to_equal_loss),
            cost: shape.ranked.candidate.cost,
            cost_half_width: shape.ranked.candidate.own_half_width,
            nearest_model: shape.ranked.nearest.preset.architecture.name.clone(),
            nearest_distance: shape.ranked.nearest.distance,
            centre_distance: shape.ranked.centre_distance,
            rules_met: judged(true),
            rules_broken: judged(false),
            outside_usual: shape
                .outside
                .iter()
                .map(|(bound, value, usual)| OutsideKeys {
                    bound: *bound,
                    value: *value,
                    usual: *usual,
                })
                .collect(),
            at_limit: shape.stopping.iter().copied().collect(),
            won: won(found, shape),
            loss: LossKeys::from(&shape.loss),
            outcome: shape
                .outcome
                .as_ref()
                .map(|outcome| OutcomeKeys::new(&found.request, outcome, shape)),
            tier: step.main_tier(),
            tier_shares: step.tier_shares,
        }
    }
}

/// The roles whose time changed most against the baseline, at equal parameters.
fn won(found: &Found, shape: &Recommendation) -> Vec<RoleGain> {
    let here = by_role(&shape.step);
    let there = by_role(&found.baseline);
    let whole: f64 = there.values().sum();
    let scale = shape.scaled_baseline;
    let mut roles: Vec<&'static str> = here.keys().chain(there.keys()).copied().collect();
    roles.sort_unstable();
    roles.dedup();
    let of = |times: &BTreeMap<&str, f64>, role| times.get(role).copied().unwrap_or(0.0);
    let mut gains: Vec<_> = roles
        .into_iter()
        .map(|role| RoleGain {
            role,
            time_change: (of(&here, role) / scale - of(&there, role)) / whole,
        })
        .collect();
    gains.sort_by(|a, b| b.time_change.abs().total_cmp(&a.time_change.abs()));
    gains.truncate(ROLES);
    gains
}

/// GPU seconds per token by role, all phases together.
fn by_role(step: &StepEstimate) -> BTreeMap<&'static str, f64> {
    let gpus = step.gpus_per_replica as f64 / step.tokens;
    let mut times = BTreeMap::new();
    for line in &step.lines {
        *times.entry(line.item.role.name()).or_insert(0.0) += line.time.secs() * gpus;
    }
    times
}

impl PointKeys {
    fn new(found: &Found, point: &FrontPoint) -> Self {
        Self {
            shape: (&point.architecture).into(),
            workload: point.candidate.shape.of_workload().into(),
            layout: found.sharded.then_some(point.workload),
            tokens_per_s_per_gpu: point.tokens_per_s_per_gpu,
            memory_bytes: point.candidate.memory,
            gain: (!found.request.stands_in).then_some(point.gain),
            to_equal_loss: EqualLossKeys::from(point.time_to_equal_loss),
            centre_distance: point.centre_distance,
            loss: LossKeys::from(&point.loss),
        }
    }
}

impl MethodKeys {
    fn new(found: &Found) -> Self {
        let (method, seed) = match found.request.method {
            Method::Anneal { seed } => ("annealing", Some(seed)),
            Method::Exhaustive => ("exhaustive", None),
        };
        let is_annealed = found.stopped == StopReason::Iterations && method == "annealing";
        Self {
            method,
            seed,
            gap: is_annealed.then_some(GAP),
            lattice_shapes: found.lattice,
            evaluations: found.evaluations,
            refused: found.refused,
            stopped: found.stopped,
        }
    }
}
