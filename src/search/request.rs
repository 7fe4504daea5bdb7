//! What may be asked of a search, and its defaults.

use crate::arch::Architecture;
use crate::arch::Biases;
use crate::arch::Dimension;
use crate::arch::LinearLayers;
use crate::arch::Mla;
use crate::arch::Mlp;
use crate::arch::MlpKind;
use crate::arch::Moe;
use crate::arch::Norm;
use crate::arch::NormKind;
use crate::arch::Positions;
use crate::arch::Preset;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::error::Result;
use crate::loss::{Model, Profile};
use crate::ops::{Dtype, Recurrence};
use crate::search::bounds::Quantity;
use crate::search::free::Free;
use crate::search::goal::Goal;
use crate::search::rank;
use crate::search::seen::Seen;
use crate::search::serving::Service;
use crate::search::shape::Count;
use crate::search::shape::Fixed;

/// Smallest and largest number of parameters that can be asked for.
pub const PARAMETERS: (u64, u64) = (10_000_000, 10_000_000_000_000);

/// What is known of the layout that all shapes of a training search share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// All GPUs; where none are given, the fewest that hold the training states.
    pub gpus: Option<u64>,
    /// Tokens of a step over all GPUs; 4M where none are given.
    pub global_batch: Option<f64>,
    /// Sizes that the layout must have.
    pub kept: Vec<(Dimension, u64)>,
}

/// What to search.
#[derive(Clone, Debug)]
pub struct Request {
    /// Parameters wanted.
    pub parameters: u64,
    /// What they count.
    pub count: Count,
    /// Largest relative miss of [`Request::parameters`].
    pub tolerance: f64,
    /// Parameters that a token meets, in a mixture of experts.
    pub active: Option<u64>,
    /// What is not varied: norms, positions, biases, kind of MLP.
    pub base: Architecture,
    /// Whether the head is the embedding, where that was asked for.
    pub tied_embeddings: Option<bool>,
    /// The published or given model that gains are reported against.
    pub baseline: Architecture,
    /// Whether that model was asked for; else it is like what the search varies.
    pub named: bool,
    /// Whether no published model is near: then the shape at the centre of the bounds replaces it.
    pub stands_in: bool,
    /// Whether shapes that cost loss against the baseline come after all others.
    pub equal_loss: bool,
    /// Tokens that losses are compared after; 20 a parameter where none.
    pub tokens: Option<f64>,
    /// What to reach instead of throughput.
    pub goal: Option<Goal>,
    /// What is served after the training, at the cost of the same budget.
    pub service: Option<Service>,
    /// Whether a number of parameters was asked for; else a goal finds it.
    pub sized: bool,
    /// Tokens of the vocabulary; a search pads it.
    pub vocab: u64,
    /// Keys that a windowed layer sees.
    pub window_size: u64,
    /// What one step does.
    pub workload: Workload,
    /// Whether training states that do not fit are sharded over replicas.
    pub shard: bool,
    /// What is known of the layout of training states that are spread over GPUs.
    pub layout: Layout,
    /// What else varies.
    pub free: Vec<Free>,
    /// Shares of the mixing layers with linear attention, rising; that of the base where there are none.
    pub linear_shares: Vec<f64>,
    /// Dimensions that stay.
    pub fixed: Fixed,
    /// Bounds that are relaxed.
    pub relaxed: Vec<Quantity>,
    /// How.
    pub method: Method,
    /// Shapes to report.
    pub top: usize,
    /// What all shards of the lattice have seen, where nothing is to be looked at any more.
    pub seen: Vec<Seen>,
}

/// Query heads per key/value head of a baseline for a search that may share keys.
const USUAL_GROUPS: std::ops::RangeInclusive<u64> = 2..=8;

/// What a model with another kind of MLP, of keys or of proportions may be nearer in size, as a logarithm: half as large
/// again.
const OTHER_PARTS: f64 = 0.4;

/// How far an unnamed baseline may be from the parameters asked for, all and active ones, as a factor.
const NEAR: f64 = 1.25;

/// And its vocabulary, whose parameters would else decide a gain.
const NEAR_VOCABULARY: std::ops::Range<f64> = 0.6..1.7;

/// Tokens of the vocabulary where nothing names one: those of Llama 3.
pub const USUAL_VOCABULARY: u64 = 128_256;

/// The same for a number of parameters: below 300 million those of SmolLM2, for Llama's would be most of the model.
pub const fn usual_vocabulary(parameters: u64) -> u64 {
    if parameters < 300_000_000 {
        49_152
    } else {
        USUAL_VOCABULARY
    }
}

/// Models of fewer parameters tie head and embedding: Llama 3.2, Qwen2.5 and Qwen3 do, up to 4 billion.
const UNTIED_FROM: u64 = 4_200_000_000;

/// Widths of experts are so coarse that the parameters a token meets may miss by this many times the tolerance.
const ACTIVE_SLACK: f64 = 5.0;

impl Request {
    /// A search that names no model: parts as they are usual today, against the published model like it.
    pub fn usual(parameters: u64, kind: MlpKind, vocab: u64, workload: Workload) -> Result<Self> {
        Self::of_base(usual_architecture(kind, parameters), parameters, vocab, workload)
    }

    /// The same from these parts.
    pub fn of_base(base: Architecture, parameters: u64, vocab: u64, workload: Workload) -> Result<Self> {
        let request = Self {
            vocab,
            parameters,
            named: false,
            ..Self::like(&base, workload)
        };
        Ok(request.against_usual())
    }

    /// The same against the published model like it, where there is one.
    #[must_use]
    pub fn against_usual(self) -> Self {
        let preset = self.usual_baseline();
        let baseline = preset.map_or(&self.base, |preset| &preset.architecture);
        Self {
            baseline: baseline.clone(),
            stands_in: preset.is_none(),
            ..self
        }
    }

    /// The published model nearest in size that the workload can run on, whatever the GPU: dense or a mixture as the search
    /// is, with its kind of attention, all and active parameters within a factor of [`NEAR`], and a vocabulary of the same
    /// order. One with the same kind of MLP, with shared keys where the search may share them, and with proportions whose loss
    /// is known, is as if nearer.
    fn usual_baseline(&self) -> Option<&'static Preset> {
        let may_share = self.fixed[Dimension::KvHeads].is_none() && self.fixed.kv_group != Some(1);
        let away = |of: u64, wanted: u64| (of as f64 / wanted as f64).ln().abs();
        let size = |arch: &Architecture| away(self.count.of(arch), self.parameters);
        let active = |arch: &Architecture| {
            let active = self.active.map(|active| away(parameters(arch).active, active));
            active.unwrap_or(0.0)
        };
        let badness = |arch: &Architecture| {
            let group = arch.heads / arch.kv_heads;
            let flaws = [
                may_share && !USUAL_GROUPS.contains(&group),
                !Model::get().knows_proportions(&Profile::of(arch, arch.vocab, Dtype::Bf16)),
                arch.mlp.kind != self.base.mlp.kind,
            ];
            let flaws = flaws.into_iter().filter(|has| *has).count();
            size(arch) + active(arch) + OTHER_PARTS * flaws as f64
        };
        let is_near = |preset: &&Preset| {
            let arch = &preset.architecture;
            rank::is_alike(arch, &self.base)
                && arch.window == self.base.window
                && size(arch).max(active(arch)) <= NEAR.ln()
                && NEAR_VOCABULARY.contains(&(arch.vocab as f64 / self.vocab as f64))
                && self.workload.validate(arch).is_ok()
                && arch.layers.is_multiple_of(self.workload.pp)
        };
        let presets = Preset::typical().filter(is_near);
        presets.min_by(|a, b| badness(&a.architecture).total_cmp(&badness(&b.architecture)))
    }

    /// The same with linear attention in any of these shares of the layers that mix tokens, of this kind or that of the base; shares that are usual
    /// where none is given.
    #[must_use]
    pub fn with_linear(&self, kind: Option<Recurrence>, shares: &[f64]) -> Self {
        let mut shares = if shares.is_empty() { &LINEAR_SHARES } else { shares }.to_vec();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        let most = shares.last().copied().unwrap_or_default();
        let mut request = self.clone();
        let base = &mut request.base;
        let layers = (most * base.mixing_layers() as f64).round() as u64;
        let own = base.linear.filter(|linear| kind.is_none() || linear.kind == kind);
        let linear = own.unwrap_or_else(|| usual_linear(kind.unwrap_or(Recurrence::GatedDeltaNet), base.hidden));
        base.linear = (layers > 0).then_some(LinearLayers { layers, ..linear });
        request.free.retain(|free| *free != Free::Linear);
        request.free.extend((shares.len() > 1).then_some(Free::Linear));
        request.linear_shares = shares;
        request
    }

    /// Largest relative miss of [`Request::active`].
    pub fn active_tolerance(&self) -> f64 {
        ACTIVE_SLACK * self.tolerance
    }

    /// What gains are held to: parameters counted as the budget is, of a mixture of experts those that a token meets.
    pub fn compared(&self, arch: &Architecture) -> u64 {
        match self.base.moe {
            Some(_) => Count::Active.of(arch),
            None => self.count.of(arch),
        }
    }

    /// A search for as many parameters as a model has, built from its parts and against it.
    pub fn like(model: &Architecture, workload: Workload) -> Self {
        Self {
            parameters: parameters(model).total,
            count: Count::Total,
            tolerance: 0.01,
            active: None,
            base: model.clone(),
            tied_embeddings: None,
            baseline: model.clone(),
            named: true,
            stands_in: false,
            equal_loss: true,
            tokens: None,
            goal: None,
            service: None,
            sized: true,
            vocab: model.vocab,
            window_size: model.window.map_or(USUAL_WINDOW, |window| window.size),
            workload,
            shard: true,
            layout: Layout::default(),
            free: Vec::new(),
            linear_shares: Vec::new(),
            fixed: Fixed::default(),
            relaxed: Vec::new(),
            method: Method::Anneal { seed: 0 },
            top: 10,
            seen: Vec::new(),
        }
    }
}

/// How a lattice is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Seeded annealing, then polishing.
    Anneal {
        /// Equal seeds give equal results.
        seed: u64,
    },
    /// Every shape.
    Exhaustive,
}

/// Experts for a search that names no mixture: none shared, in every layer; how many and how wide follows from the search.
pub const USUAL_EXPERTS: Moe = Moe {
    experts: 64,
    top_k: 8,
    d_ff: 1024,
    shared_d_ff: 0,
    dense_layers: 0,
    interval: 1,
    shared_gate: false,
    router_bias: false,
    latent: None,
    norms: 0,
};

/// The latent of a search that names none: that of DeepSeek-V2 and V3 (arXiv 2405.04434, 2412.19437); half of it in every
/// size but the rotary part's share is MiniCPM3's.
pub const USUAL_LATENT: Mla = Mla {
    q_lora_rank: Some(1536),
    kv_lora_rank: 512,
    qk_nope: 128,
    qk_rope: 64,
    v_head_dim: 128,
};

/// Linear attention of a width, in no layer: heads as in Qwen3-Next-80B-A3B, Kimi-Linear-48B-A3B and Nemotron-H-8B (their published
/// configs).
fn usual_linear(kind: Recurrence, hidden: u64) -> LinearLayers {
    let [key_heads, heads, head_dim, value_dim] = match kind {
        Recurrence::GatedDeltaNet => [hidden / 128, 2 * (hidden / 128), 128, 128],
        Recurrence::KimiDelta => [hidden / 72, hidden / 72, 128, 128],
        Recurrence::Mamba2 => [8, hidden / 32, 128, 64],
    };
    LinearLayers {
        kind: Some(kind),
        layers: 0,
        key_heads,
        heads,
        head_dim,
        value_dim,
        taps: 4,
        ..LinearLayers::default()
    }
}

/// Shares of the layers with linear attention: none, a half (arXiv 2510.04800), three quarters (Qwen3-Next, Kimi Linear), seven
/// eighths (Jamba, arXiv 2403.19887).
const LINEAR_SHARES: [f64; 4] = [0.0, 0.5, 0.75, 0.875];

/// Keys that a windowed layer sees in a search that names no model with windows: those of Gemma 3.
pub const USUAL_WINDOW: u64 = 1024;

/// What models are built like today, for a search that names none: Llama's parts with a gated MLP, GPT-NeoX's with
/// a plain one; head and embedding are tied up to four billion parameters.
pub fn usual_architecture(kind: MlpKind, parameters: u64) -> Architecture {
    let gpt = Architecture {
        name: "searched".to_owned(),
        mlp: Mlp { kind, d_ff: 11008 },
        vocab: USUAL_VOCABULARY,
        tied_embeddings: parameters < UNTIED_FROM,
        positions: Positions::Rotary,
        ..Architecture::gpt(4096, 32, 32)
    };
    match kind {
        MlpKind::Gelu => gpt,
        MlpKind::Swiglu => Architecture {
            norm: Norm {
                kind: NormKind::RmsNorm,
                ..gpt.norm
            },
            biases: Biases::default(),
            ..gpt
        },
    }
}
