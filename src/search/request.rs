//! What may be asked of a search, and what stands in where nothing is said.

use crate::arch::Architecture;
use crate::arch::Biases;
use crate::arch::Mlp;
use crate::arch::MlpKind;
use crate::arch::Norm;
use crate::arch::NormKind;
use crate::arch::NormPlacement;
use crate::arch::Positions;
use crate::arch::Preset;
use crate::arch::QkNorm;
use crate::arch::Stated;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::error::Error;
use crate::error::Result;
use crate::search::bounds::Quantity;
use crate::search::free::Free;
use crate::search::rank;
use crate::search::shape::Count;
use crate::search::shape::Fixed;
use crate::search::space::MOST_FAMILIES;

/// Smallest and largest number of parameters that can be asked for.
pub const PARAMETERS: (u64, u64) = (10_000_000, 10_000_000_000_000);

/// What to search.
#[derive(Clone, Debug)]
pub struct Request {
    /// Parameters wanted.
    pub parameters: u64,
    /// What they count.
    pub count: Count,
    /// Largest relative miss of [`Request::parameters`].
    pub tolerance: f64,
    /// What is not varied: norms, positions, biases, kind of MLP.
    pub base: Architecture,
    /// The published or given model that gains are reported against.
    pub baseline: Architecture,
    /// Tokens of the vocabulary; a search pads it.
    pub vocab: u64,
    /// What one step does.
    pub workload: Workload,
    /// Whether training states that do not fit are sharded over replicas.
    pub shard: bool,
    /// Dimensions of the workload that vary too.
    pub free: Vec<Free>,
    /// Dimensions that stay.
    pub fixed: Fixed,
    /// Bounds that are relaxed.
    pub relaxed: Vec<Quantity>,
    /// How.
    pub method: Method,
    /// Shapes to report.
    pub top: usize,
    /// Shapes, MLP widths apart, that are held in memory at most: about 100 bytes each.
    pub most_families: usize,
}

/// Tokens of GPT-2's vocabulary, which the models of the co-design paper share.
pub const USUAL_VOCABULARY: u64 = 50257;

impl Request {
    /// A search that names no model: parts as they are usual today, against the published model nearest in size.
    pub fn usual(parameters: u64, kind: MlpKind, vocab: u64, workload: Workload) -> Result<Self> {
        let baseline = usual_baseline(parameters, vocab, &workload).ok_or_else(|| {
            Error::infeasible(
                "search: no published model can run this workload; name one with --like",
            )
        })?;
        Ok(Self {
            parameters,
            base: usual_architecture(kind, parameters),
            vocab,
            ..Self::like(&baseline.architecture, workload)
        })
    }

    /// A search for as many parameters as a model has, built from its parts and against it.
    pub fn like(model: &Architecture, workload: Workload) -> Self {
        Self {
            parameters: parameters(model).total,
            count: Count::Total,
            tolerance: 0.01,
            base: model.clone(),
            baseline: model.clone(),
            vocab: model.vocab,
            workload,
            shard: true,
            free: Vec::new(),
            fixed: Fixed::default(),
            relaxed: Vec::new(),
            method: Method::Anneal { seed: 0 },
            top: 10,
            most_families: MOST_FAMILIES,
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
    /// As many random shapes as annealing has moves, nothing else: what annealing is measured against.
    Random {
        /// Equal seeds give equal results.
        seed: u64,
    },
}

/// What models are built like today, for a search that names none: Llama's parts with a gated MLP, GPT-NeoX's with
/// a plain one; head and embedding are tied below a billion parameters.
pub fn usual_architecture(kind: MlpKind, parameters: u64) -> Architecture {
    let plain = kind == MlpKind::Gelu;
    Architecture {
        name: "searched".to_owned(),
        layers: 32,
        hidden: 4096,
        heads: 32,
        kv_heads: 32,
        head_dim: 128,
        mlp: Mlp { kind, d_ff: 11008 },
        vocab: USUAL_VOCABULARY,
        tied_embeddings: parameters < 1_000_000_000,
        positions: Positions::Rotary,
        norm: Norm {
            kind: if plain {
                NormKind::LayerNorm
            } else {
                NormKind::RmsNorm
            },
            placement: NormPlacement::Pre,
            qk: QkNorm::None,
        },
        biases: if plain {
            Biases::ALL_BUT_HEAD
        } else {
            Biases::default()
        },
        parallel_layers: false,
        moe: None,
        mla: None,
        window: None,
        stated: Stated::default(),
    }
}

/// The dense published model nearest in size that the workload can run on, of those with a vocabulary of the same
/// order where there are any: otherwise a gain would be that of a smaller vocabulary.
fn usual_baseline(
    parameters_wanted: u64,
    vocab: u64,
    workload: &Workload,
) -> Option<&'static Preset> {
    let alike = |preset: &&Preset| {
        let ratio = preset.architecture.vocab as f64 / vocab as f64;
        (0.6..1.7).contains(&ratio)
    };
    let miss = |preset: &&Preset| {
        let total = parameters(&preset.architecture).total as f64;
        (total / parameters_wanted as f64).ln().abs()
    };
    let nearest = |presets: &mut dyn Iterator<Item = &'static Preset>| {
        presets.min_by(|a, b| miss(a).total_cmp(&miss(b)))
    };
    let runs = |preset: &&Preset| {
        let arch = &preset.architecture;
        rank::is_dense(arch)
            && workload.validate(arch).is_ok()
            && arch.layers.is_multiple_of(workload.pp)
    };
    let all = || Preset::all().iter().filter(runs);
    nearest(&mut all().filter(alike)).or_else(|| nearest(&mut all()))
}
