//! The fastest architecture for a number of parameters.

use super::plan::{USUAL_OUTPUT, limits};
use crate::arch::{Architecture, Dimension, MlpKind, Mode, Moe, Recipe, Stated, Workload, config_json};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::ops::{Dtype, Recurrence};
use crate::plan::{Limits, SERVING_MEMORY_SHARE};
use crate::request::workload::USUAL_SEQUENCE;
use crate::request::written::{
    Confidence, LinearShare, Milliseconds, TargetLoss, Tolerance, Top, Written, number_or_text_schema, written,
};
use crate::request::{
    ArchitectureRequest, Budget, GpuPrices, ServedTokens, Size, Sizes, Tokens, WorkloadRequest, number,
};
use crate::search::bounds::Quantity;
use crate::search::goal::{Goal, Objective};
use crate::search::shape::{Count, Fixed};
use crate::search::{self, Free, Life, Method, PARAMETERS, Request};
use crate::units::Seconds;
use utoipa::ToSchema;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};

/// Positions that an exported config allows at least.
pub const LEAST_POSITIONS: u64 = 2048;

/// The size that a search for a size starts from.
const FIRST_SIZE: u64 = 1_000_000_000;

/// The most shares of linear attention.
const MOST_SHARES: usize = 16;

/// The most shared experts of a layer.
const MOST_SHARED: u64 = 64;

/// What to search: a number of parameters, a model whose parts are kept, or both.
#[derive(Clone, Debug, serde::Deserialize, ToSchema, clap::Args)]
#[command(group(
    clap::ArgGroup::new("subject").required(true).multiple(true).args(["params", "like", "budget", "target_loss"])
))]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// Parameters wanted, such as 6.7B, 350M, 6.7e9 or 6700000000 [default: as many as like has].
    #[arg(long, value_name = "COUNT")]
    pub params: Option<Parameters>,
    /// What to look for: the most tokens per second that cost no loss against the baseline, the most whatever they cost, the
    /// lowest loss for a budget or a number of tokens, or the shortest time to a loss. Without params the last two find the
    /// size, too [default: loss with budget, train-time with target_loss, else equal-loss].
    #[arg(long)]
    pub objective: Option<Objective>,
    /// GPU time of one training run, with serve of training and serving, such as `1000 gpu-hours` or `512 gpus 30 days`, or its price,
    /// such as `2M usd`, for the objective loss.
    #[arg(long, value_name = "TIME|USD")]
    pub budget: Option<Budget>,
    /// Tokens that losses are compared after; for the objective train-time those after which the baseline has the loss
    /// to reach [default: 20 a parameter].
    #[arg(long, value_name = "COUNT")]
    pub tokens: Option<Tokens>,
    /// Loss to reach for the objective train-time, in nats per token on the scale of the law gemstones-annealed; other
    /// laws take what they say of the usual model that has it after 20 tokens a parameter.
    #[arg(long, value_name = "NATS")]
    pub target_loss: Option<TargetLoss>,
    /// Tokens that the model generates after its training, such as `2T tokens/year for 2 years`: budget and time are then those of
    /// training and serving together.
    #[arg(long, value_name = "TOKENS")]
    pub serve: Option<ServedTokens>,
    /// The GPU that serves [default: that of the training].
    #[arg(long, value_name = "GPU")]
    pub serve_gpu: Option<String>,
    /// Number format of serving [default: that of the training].
    #[arg(long, value_name = "FORMAT")]
    pub serve_dtype: Option<Dtype>,
    /// Tokens of a served prompt [default: 4096].
    #[arg(long, value_name = "S", visible_alias = "isl")]
    pub prompt: Option<Size>,
    /// Tokens that a request generates [default: 512].
    #[arg(long, value_name = "T", visible_alias = "osl")]
    pub output: Option<Size>,
    /// The longest time to the first token of a request, in ms.
    #[arg(long, value_name = "MS")]
    pub ttft_ms: Option<Milliseconds>,
    /// The longest time per further token of a request, in ms.
    #[arg(long, value_name = "MS")]
    pub tpot_ms: Option<Milliseconds>,
    /// The least probability with which the times keep their limits [default: 0.5: the expected times keep them].
    #[arg(long, value_name = "FRACTION")]
    pub confidence: Option<Confidence>,
    /// Price of one GPU for an hour, in US dollars: one for training and serving, or one for each such as h100=2.5,h200=3.5.
    #[arg(long, value_name = "USD|GPU=USD,…")]
    pub usd_per_gpu_hour: Option<GpuPrices>,
    /// What params counts: all parameters, those of the layers and the final norm, or those that a token meets.
    #[arg(long, default_value_t)]
    #[serde(default)]
    #[schema(default = "total")]
    pub count: Count,
    /// Largest miss of params, as a fraction.
    #[arg(long, default_value_t, value_name = "FRACTION")]
    #[serde(default)]
    #[schema(default = 0.01)]
    pub tolerance: Tolerance,
    /// Start from this model, a preset or a config.json: its norms, positions, biases, kind of MLP and vocabulary
    /// stay, and gains are reported against it [default: the published model of this kind within a quarter of the size, if there
    /// is one].
    #[arg(long, value_name = "MODEL")]
    pub like: Option<ArchitectureRequest>,
    /// Plain (gelu) or gated (swiglu) MLP [default: as in like, else swiglu].
    #[arg(long)]
    pub mlp: Option<MlpKind>,
    /// Tokens of the vocabulary, which the search pads [default: as in like or the model that is compared with, else 128256, or 49152 below 300M parameters].
    #[arg(long, value_name = "V")]
    pub vocab: Option<Size>,
    /// Whether head and embedding are one matrix [default: as in like, else true below 4.2B parameters].
    #[arg(long, value_name = "BOOL", visible_alias = "tie-word-embeddings")]
    pub tied_embeddings: Option<bool>,
    /// Vary these too: micro-batches in powers of two, tensor-parallel ranks and pipeline stages up to 8, the share of
    /// layers with a sliding window or with linear attention, latent attention; the fastest of each kind of attention is in the
    /// answer.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "NAME")]
    #[serde(default)]
    pub free: Vec<Free>,
    /// Search on these GPUs, too, in every format that is asked for: the best shape of each is listed.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "GPU")]
    #[serde(default)]
    #[schema(max_items = 16)]
    pub also_gpus: Vec<String>,
    /// Search in these number formats, too.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "FORMAT")]
    #[serde(default)]
    pub also_dtypes: Vec<Dtype>,
    /// Shares of the layers with linear attention to choose from, such as 0.75 or 0,0.5,0.75: the fastest of each is in the answer
    /// [default: as in like, else 0; with linear in free 0,0.5,0.75,0.875].
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "FRACTION")]
    #[serde(default)]
    #[schema(max_items = 16)]
    pub linear_share: Vec<LinearShare>,
    /// Kind of linear attention [default: as in like, else gated_delta_net].
    #[arg(long)]
    pub linear: Option<Recurrence>,
    /// Let shapes leave the usual limits of these bounds, as far as the widest ones in data/search-bounds.toml.
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "BOUND")]
    #[serde(default)]
    pub relax: Vec<Quantity>,
    /// Fix the number of layers.
    #[arg(long, value_name = "L")]
    pub layers: Option<Size>,
    /// Keep this hidden size.
    #[arg(long, value_name = "H")]
    pub hidden: Option<Size>,
    /// Fix the number of query heads, also one that 4 does not divide.
    #[arg(long, value_name = "A")]
    pub heads: Option<Size>,
    /// Fix the number of key/value heads.
    #[arg(long, value_name = "G")]
    pub kv_heads: Option<Size>,
    /// Keep this head size, also one that is not usual.
    #[arg(long, value_name = "D")]
    pub head_dim: Option<Size>,
    /// Keep this MLP width; in a mixture of experts the width of one expert.
    #[arg(long, value_name = "F")]
    pub d_ff: Option<Size>,
    /// Search mixtures of experts in which a token meets this many parameters, such as 3B; missed by at most five times
    /// the tolerance [default: the same share as in like].
    #[arg(long, value_name = "COUNT")]
    pub active_params: Option<Parameters>,
    /// Search mixtures of experts with this many routed experts a layer.
    #[arg(long, value_name = "E")]
    pub experts: Option<Size>,
    /// Search mixtures of experts in which a token visits this many routed experts.
    #[arg(long, value_name = "K")]
    pub top_k: Option<Size>,
    /// Search mixtures of experts with this many shared experts a layer, each as wide as a routed one [default: as in
    /// like, else 0].
    #[arg(long, value_name = "S")]
    pub shared_experts: Option<Size>,
    /// Search mixtures of experts with this many leading layers without experts [default: as in like, else 0].
    #[arg(long, value_name = "N")]
    pub dense_layers: Option<Size>,
    /// Keep this many layers with a sliding window; 0 has none [default: the same share as in like, else 0].
    #[arg(long, value_name = "N")]
    pub window_layers: Option<Size<0>>,
    /// Keys that a query of those layers sees, itself included [default: as in like, else 1024].
    #[arg(long, value_name = "KEYS")]
    pub window: Option<Size>,
    /// Keep latent attention of this rank; 0 has none. Query latent and head sizes keep their proportions to it [default: as in
    /// like, else 0].
    #[arg(long, value_name = "R")]
    pub kv_lora_rank: Option<Size<0>>,
    /// Shapes to report.
    #[arg(long, default_value_t, value_name = "N")]
    #[serde(default)]
    #[schema(default = 10)]
    pub top: Top,
    /// Look at every shape of the lattice instead of annealing.
    #[arg(long)]
    #[serde(default)]
    pub exhaustive: bool,
    /// Equal seeds give equal reports.
    #[arg(long, default_value_t = 0)]
    #[serde(default)]
    #[schema(format = "uint64")]
    pub seed: u64,
    /// All GPUs of a training run: the layout is that of a plan over them [default: the fewest that hold the training
    /// states where they do not fit one].
    #[arg(long, value_name = "N")]
    pub gpus: Option<Size>,
    /// Tokens of a training step over all GPUs of the plan, such as 4M [default: 4M].
    #[arg(long, value_name = "TOKENS")]
    pub global_batch: Option<Tokens>,
    /// Take dp, zero and recompute as they are, even if no training state fits; otherwise states that do not
    /// fit one GPU are spread by a plan, and the report says how.
    #[arg(long)]
    #[serde(default)]
    pub no_sharding: bool,
    /// Answer with the config.json of each shape too; then every shape can be written as one.
    #[arg(skip)]
    #[serde(default)]
    pub export: bool,
    /// What one step does and how it is spread over GPUs.
    #[command(flatten)]
    #[serde(default)]
    pub workload: WorkloadRequest,
}

impl SearchRequest {
    fn objective(&self) -> Objective {
        self.objective.unwrap_or(match (self.budget, self.target_loss) {
            (Some(_), _) => Objective::Loss,
            (None, Some(_)) => Objective::TrainTime,
            (None, None) => Objective::EqualLoss,
        })
    }

    /// What to reach instead of throughput; fails where a size or a budget is missing or has no meaning.
    fn goal(&self, gpu: &Gpu) -> Result<Option<Goal>> {
        let objective = self.objective();
        let of_service = [
            ("serve_gpu", self.serve_gpu.is_some()),
            ("serve_dtype", self.serve_dtype.is_some()),
            ("prompt", self.prompt.is_some()),
            ("output", self.output.is_some()),
            ("ttft_ms", self.ttft_ms.is_some()),
            ("tpot_ms", self.tpot_ms.is_some()),
            ("confidence", self.confidence.is_some()),
            ("usd_per_gpu_hour", self.usd_per_gpu_hour.is_some()),
        ];
        let given = |of: &[(&'static str, bool)]| of.iter().find(|(_, given)| *given).map(|(field, _)| *field);
        let unused = |field: &&str| self.serve.is_none() && !(self.priced() && *field == "usd_per_gpu_hour");
        if let Some(field) = given(&of_service).filter(unused) {
            return Err(Error::field("search", field, "given", "nothing without serve"));
        }
        if matches!(objective, Objective::EqualLoss | Objective::Throughput) {
            let of_goal = [
                ("budget", self.budget.is_some()),
                ("target_loss", self.target_loss.is_some()),
                ("serve", self.serve.is_some()),
            ];
            if let Some(field) = given(&of_goal) {
                let allowed = format!("nothing for the objective {objective}; loss and train-time take it");
                return Err(Error::field("search", field, "given", &allowed));
            }
            return Ok(None);
        }
        let usd = match self.budget {
            Some(Budget::Usd(usd)) => Some(usd),
            _ => None,
        };
        Ok(Some(Goal {
            objective,
            usd,
            gpu_time: match self.budget {
                Some(Budget::GpuTime(time, _)) => Some(time),
                Some(Budget::Usd(usd)) => Some(Seconds::from_secs(3600.0 * usd / self.price(gpu)?)),
                None => None,
            },
            tokens: self.tokens.map(|tokens| tokens.0),
            target_loss: self.target_loss.map(|loss| loss.0),
        }))
    }

    /// Whether the budget is one of money.
    fn priced(&self) -> bool {
        matches!(self.budget, Some(Budget::Usd(_)))
    }

    /// The price of a GPU-hour that a budget of money is spent at.
    fn price(&self, gpu: &Gpu) -> Result<f64> {
        if !self.also_gpus.is_empty() {
            let allowed = "nothing beside a budget in US dollars; one in GPU-hours holds on every GPU";
            return Err(Error::field("search", "also_gpus", "given", allowed));
        }
        let of = |gpu: &Gpu| self.usd_per_gpu_hour.as_ref().and_then(|prices| prices.of(gpu));
        // Those of a service are checked beside its GPU.
        if let (Some(prices), None) = (&self.usd_per_gpu_hour, self.serve) {
            prices.check("search", &[gpu])?;
        }
        of(gpu).ok_or_else(|| {
            let allowed = format!("the price of {}, which a budget in US dollars is spent at", gpu.name);
            Error::field("search", "usd_per_gpu_hour", "absent", &allowed)
        })
    }

    /// What is served after the training; `None` if nothing is.
    pub fn life(&self, searched: &Request, gpu: &Gpu) -> Result<Option<Life>> {
        let Some(ServedTokens(tokens)) = self.serve else {
            return Ok(None);
        };
        if !self.also_gpus.is_empty() {
            return Err(Error::field("search", "also_gpus", "given", "nothing beside serve"));
        }
        if !self.also_dtypes.is_empty() {
            return Err(Error::field("search", "also_dtypes", "given", "nothing beside serve"));
        }
        let room = searched.base.positions.longest();
        let (prompt, output) = Sizes::fixed(gpu, |sizes| {
            let output = sizes
                .option("output", self.output)
                .unwrap_or(USUAL_OUTPUT.min(room / 2));
            let prompt = sizes.option("prompt", self.prompt);
            if output >= room {
                let allowed = format!("less than the {room} positions of the model");
                return Err(Error::field("search", "output", output, &allowed));
            }
            Ok((prompt.unwrap_or(USUAL_SEQUENCE.min(room - output)), output))
        })?;
        let trained = &searched.workload;
        let dtype = self.serve_dtype.unwrap_or(trained.dtype);
        Ok(Some(Life {
            tokens,
            limits: Limits {
                prompt,
                output,
                ..limits(self.ttft_ms, self.tpot_ms, self.confidence)
            },
            workload: Workload {
                dtype,
                recipe: if dtype == trained.dtype {
                    trained.recipe
                } else {
                    Recipe::default()
                },
                ..Workload::decode(1, prompt + output / 2)
            },
            memory_share: SERVING_MEMORY_SHARE,
        }))
    }

    /// The search with everything filled in; what is left out comes from `like`, else is as usual.
    pub fn request(&self, like: Option<&Architecture>, gpu: &Gpu) -> Result<Request> {
        self.refuse_fixed_and_free()?;
        let mut request = Sizes::fixed(gpu, |sizes| self.base(like, gpu, sizes))?;
        if let Some(kind) = self.mlp {
            request.base.mlp.kind = kind;
        }
        if let Some(tied) = self.tied_embeddings {
            request.base.tied_embeddings = tied;
            request.tied_embeddings = Some(tied);
        }
        let whole_groups = self.export && !groups_can_be_written(&request.base)?;
        request.fixed.kv_group = whole_groups.then_some(1);
        request.equal_loss = self.objective() == Objective::EqualLoss;
        if !self.linear_share.is_empty() || self.free.contains(&Free::Linear) {
            let shares = Vec::from_iter(self.linear_share.iter().map(|share| share.0));
            if shares.len() > MOST_SHARES {
                let allowed = format!("at most {MOST_SHARES} shares");
                return Err(Error::field("search", "linear_share", shares.len(), &allowed));
            }
            request = request.with_linear(self.linear, &shares);
            let most = request.linear_shares.last().copied().unwrap_or_default();
            let refuse = |why: &str| Err(Error::field("search", "linear_share", most, &format!("0, since {why}")));
            if request.free.contains(&Free::Window) && self.free.contains(&Free::Linear) {
                let allowed = "linear or window, not both: a model has windows or linear attention";
                return Err(Error::field("search", "free", "linear,window", allowed));
            }
            let windowed = request.base.window.is_some() || request.free.contains(&Free::Window);
            if request.base.linear.is_some() && windowed {
                return refuse("a model has windows or linear attention");
            }
            if let Err(error) = request.base.validate() {
                return refuse(&error.to_string());
            }
        } else if self.linear.is_some() {
            let allowed = "nothing without linear_share, or linear in free";
            return Err(Error::field("search", "linear", "given", allowed));
        }
        if like.is_some() {
            return Ok(request);
        }
        let mut request = request.against_usual();
        if self.vocab.is_none() && !request.stands_in {
            request.vocab = request.baseline.vocab;
        }
        Ok(request)
    }

    fn base(&self, like: Option<&Architecture>, gpu: &Gpu, sizes: &mut Sizes) -> Result<Request> {
        let vocab = sizes.option("vocab", self.vocab);
        let experts = self.experts_of(like, sizes)?;
        let width = match experts {
            Some(_) => Dimension::MoeDFf,
            None => Dimension::DFf,
        };
        let fixed = [
            (Dimension::Layers, "layers", self.layers),
            (Dimension::Hidden, "hidden", self.hidden),
            (Dimension::Heads, "heads", self.heads),
            (Dimension::KvHeads, "kv_heads", self.kv_heads),
            (Dimension::HeadDim, "head_dim", self.head_dim),
            (width, "d_ff", self.d_ff),
            (Dimension::Experts, "experts", self.experts),
            (Dimension::TopK, "top_k", self.top_k),
        ];
        let fixed = fixed.map(|(dimension, name, size)| (dimension, sizes.option(name, size)));
        let [_, _, (_, heads), (_, kv_heads), ..] = fixed;
        if let (Some(heads), Some(kv_heads)) = (heads, kv_heads)
            && !heads.is_multiple_of(kv_heads)
        {
            let allowed = format!("a divisor of heads = {heads}");
            return Err(Error::field("search", "kv_heads", kv_heads, &allowed));
        }
        let parts = [
            (Dimension::WindowLayers, self.window_layers),
            (Dimension::KvLoraRank, self.kv_lora_rank),
        ];
        let parts = parts.map(|(dimension, size)| (dimension, sizes.option(dimension.name(), size)));
        let window = sizes.option("window", self.window);
        let goal = self.goal(gpu)?;
        // A goal that sets the size itself starts from any.
        let free_size = goal.is_some_and(|goal| goal.gpu_time.is_some() || goal.target_loss.is_some());
        let sized = self.params.is_some() || !free_size;
        let params = self.params.map(|params| params.0);
        let params = params.or((free_size && like.is_none()).then_some(FIRST_SIZE));
        if let Some(window) = window
            && self.window_layers.is_none()
            && !self.free.contains(&Free::Window)
            && like.is_none_or(|model| model.window.is_none())
        {
            let allowed = "nothing without window_layers, window in free, or a like with windows";
            return Err(Error::field("search", "window", window, allowed));
        }
        let request = match (like, params) {
            (Some(model), params) => {
                // How one checkpoint is stored says nothing of shapes that were never trained.
                let model = &Architecture {
                    stated: Stated::default(),
                    ..model.clone()
                };
                let base = with_experts(model.clone(), experts);
                let parameters = params.unwrap_or_else(|| self.count.of(model));
                let share = Count::Active.of(model) as f64 / self.count.of(model) as f64;
                Request {
                    parameters,
                    active: model.moe.map(|_| (parameters as f64 * share) as u64),
                    base,
                    ..Request::like(model, self.workload.described(model, sizes)?)
                }
            }
            (None, Some(parameters)) => {
                let kind = self.mlp.unwrap_or(MlpKind::Swiglu);
                let base = with_experts(search::usual_architecture(kind, parameters), experts);
                let workload = self.workload.described(&base, sizes)?;
                let vocab = vocab.unwrap_or(search::usual_vocabulary(parameters));
                Request::of_base(base, parameters, vocab, workload)?
            }
            (None, None) => {
                let allowed = "a number of parameters, unless like names a model";
                return Err(Error::field("search", "params", "absent", allowed));
            }
        };
        request.workload.validate_mode(&request.base)?;
        if request.workload.has_adapters() {
            let allowed = "0 in a search: adapters are trained beside a model that exists";
            return Err(Error::field("search", "lora", request.workload.lora, allowed));
        }
        Ok(Request {
            vocab: vocab.unwrap_or(request.vocab),
            count: self.count,
            tolerance: self.tolerance.0,
            active: self.active_params.map_or(request.active, |active| Some(active.0)),
            tokens: self.tokens.map(|tokens| tokens.0),
            goal,
            sized,
            shard: !self.no_sharding,
            layout: self.layout(sizes)?,
            free: self.free.clone(),
            fixed: Fixed::from(fixed).with(parts),
            window_size: window.unwrap_or(request.window_size),
            relaxed: self.relax.clone(),
            method: match self.exhaustive {
                true => Method::Exhaustive,
                false => Method::Anneal { seed: self.seed },
            },
            top: self.top.0 as usize,
            ..request
        })
    }

    /// The experts of what is searched: those of `like`, or usual ones where any option asks for experts.
    fn experts_of(&self, like: Option<&Architecture>, sizes: &mut Sizes) -> Result<Option<Moe>> {
        let of_like = like.and_then(|model| model.moe);
        let [experts, top_k, shared, dense_layers] = [
            ("experts", self.experts),
            ("top_k", self.top_k),
            ("shared_experts", self.shared_experts),
            ("dense_layers", self.dense_layers),
        ]
        .map(|(name, size)| sizes.option(name, size));
        let given = [experts, top_k, shared, dense_layers].iter().any(Option::is_some);
        if !given && self.active_params.is_none() {
            return Ok(of_like);
        }
        let moe = of_like.unwrap_or(search::USUAL_EXPERTS);
        let moe = Moe {
            experts: experts.unwrap_or(moe.experts),
            top_k: top_k.unwrap_or(moe.top_k),
            shared_d_ff: shared.map_or(moe.shared_d_ff, |shared| shared.saturating_mul(moe.d_ff)),
            dense_layers: dense_layers.unwrap_or(moe.dense_layers),
            ..moe
        };
        // Configs with either hold a correction for each expert in the router, as DeepSeek-V3 has it.
        let moe = Moe {
            router_bias: moe.router_bias || moe.shared_d_ff > 0 || moe.dense_layers > 0,
            ..moe
        };
        let most = moe.experts;
        if let Some(top_k) = top_k.filter(|top_k| !(1..=most).contains(top_k)) {
            let allowed = format!("1 to experts = {most}");
            return Err(Error::field("search", "top_k", top_k, &allowed));
        }
        if let Some(shared) = shared.filter(|shared| *shared > MOST_SHARED) {
            let allowed = format!("0 to {MOST_SHARED}");
            return Err(Error::field("search", "shared_experts", shared, &allowed));
        }
        Ok(Some(moe))
    }

    /// What is given of the layout; several ranks that are asked for are kept.
    fn layout(&self, sizes: &mut Sizes) -> Result<search::Layout> {
        let gpus = sizes.option("gpus", self.gpus);
        let workload = &self.workload;
        if workload.mode != Mode::Train
            && let Some(gpus) = gpus
        {
            let allowed = "nothing outside training";
            return Err(Error::field("search", "gpus", gpus, allowed));
        }
        let ranks = [
            (Dimension::Tp, workload.tp),
            (Dimension::Cp, workload.cp),
            (Dimension::Pp, workload.pp),
            (Dimension::Vp, workload.vp),
        ];
        let several = ranks.map(|(dimension, size)| (dimension, sizes.number(dimension.name(), size)));
        let several = several.into_iter().filter(|(_, ranks)| *ranks > 1);
        let batch = sizes.option("batch", workload.batch);
        let of_budget = match self.budget {
            Some(Budget::GpuTime(_, gpus)) => gpus,
            _ => None,
        };
        if let (Some(gpus), Some(own)) = (gpus, of_budget)
            && gpus != own
        {
            let allowed = format!("{own}, those of `budget`");
            return Err(Error::field("search", "gpus", gpus, &allowed));
        }
        Ok(search::Layout {
            gpus: gpus.or(of_budget),
            global_batch: self.global_batch.map(|tokens| tokens.0),
            kept: several.chain(batch.map(|batch| (Dimension::Batch, batch))).collect(),
        })
    }

    /// A size cannot be both given and free.
    fn refuse_fixed_and_free(&self) -> Result<()> {
        let several = |size: Size| Some(size).filter(|size| *size != Size::default());
        for free in &self.free {
            let given = match free {
                Free::MicroBatch => self.workload.batch,
                Free::Tp => several(self.workload.tp),
                Free::Pp => several(self.workload.pp),
                Free::Window | Free::Linear | Free::Latent => None,
            };
            if let Some(value) = given {
                let field = free.dimension().name();
                let allowed = "no value while free varies it";
                return Err(Error::field("search", field, value, allowed));
            }
        }
        let parts = [(Free::Window, self.window_layers), (Free::Latent, self.kv_lora_rank)];
        for (free, given) in parts {
            if let Some(value) = given.filter(|_| self.free.contains(&free)) {
                let allowed = format!("no value while free varies {free}");
                let field = free.dimension().name();
                return Err(Error::field("search", field, value, &allowed));
            }
        }
        Ok(())
    }
}

/// The model with these experts.
fn with_experts(mut arch: Architecture, experts: Option<Moe>) -> Architecture {
    if let Some(moe) = experts.filter(|_| experts != arch.moe) {
        arch.moe = experts;
        arch.mlp.d_ff = moe.dense_width();
    }
    arch
}

/// Whether a config file can hold fewer key/value heads than query heads for models of this style; fails where it
/// cannot hold them at all.
fn groups_can_be_written(base: &Architecture) -> Result<bool> {
    // With latent attention every head has its own keys.
    let is_latent = base.mla.is_some();
    let with = |kv_heads| Architecture {
        hidden: 128,
        heads: 2,
        kv_heads: if is_latent { 2 } else { kv_heads },
        head_dim: if is_latent { base.head_dim } else { 64 },
        ..base.clone()
    };
    if let Err(error) = config_json(&with(2), LEAST_POSITIONS) {
        let allowed = format!("nothing for models of this style: {error}");
        return Err(Error::field("search", "export", "asked for", &allowed));
    }
    Ok(config_json(&with(1), LEAST_POSITIONS).is_ok())
}

/// A number of parameters, as a number or as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters(pub u64);

impl Written for Parameters {
    const ALLOWED: &'static str = "a number from 10M to 10T, such as 6.7B, 350M, 6.7e9 or 6700000000";

    /// Digits, an exponent, or a suffix K, M, B or T.
    fn read(text: &str) -> Option<Self> {
        let value = number::with_unit(text, &number::DECIMAL)?;
        // What is too large for a whole number is out of range too.
        let count = value.round() as u64;
        (PARAMETERS.0..=PARAMETERS.1).contains(&count).then_some(Self(count))
    }

    fn described() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .pattern(Some("^[0-9]+(,[0-9]{3})*(\\.[0-9]+)?([Ee][0-9]{1,2}| ?[KkMmBbTt])?$"))
            .description(Some(Self::ALLOWED))
            .examples(["6.7B"]);
        let ends = [PARAMETERS.0 as f64, PARAMETERS.1 as f64];
        number_or_text_schema(Type::Number, ends, text)
    }
}

written!(Parameters);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_people_write_them() {
        for (text, count) in [
            ("6.7B", 6_700_000_000),
            ("6.7e9", 6_700_000_000),
            ("6700000000", 6_700_000_000),
            ("6_700_000_000", 6_700_000_000),
            ("350M", 350_000_000),
            ("350m", 350_000_000),
            ("1T", 1_000_000_000_000),
        ] {
            assert_eq!(Parameters::read(text), Some(Parameters(count)), "{text}");
        }
        for text in ["", "B", "-1B", "6,7B", "six", "0", "1e99", "nan", "inf", "6.7 GB"] {
            assert!(Parameters::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn in_json_parameters_are_numbers_or_words() {
        let read = |text| serde_json::from_str::<Parameters>(text).map(|read| read.0);
        for text in ["6700000000", "6.7e9", "\"6.7B\"", "\"6700M\""] {
            assert_eq!(read(text).unwrap(), 6_700_000_000, "{text}");
        }
        for text in ["1", "-1", "1e99", "\"six\"", "null", "[]"] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains("such as 6.7B"), "{text}: {message}");
        }
    }
}
