//! A search as JSON.

use super::Architecture;
use super::Workload;
use super::size::{Int, Parameters, Tolerance, Whole};
use super::usual_gpu;
use crate::arch::MlpKind;
use crate::query;
use crate::query::search::Free;
use crate::search::Method;
use crate::search::bounds::Quantity;
use crate::search::shape::Count;
use crate::search::shape::Fixed;
use crate::serve::problem::Problem;
use serde::Deserialize;
use utoipa::ToSchema;

/// Shapes, MLP widths apart, of one search at most: 100 MB, and several run at once.
const MOST_FRAMES: usize = 1_000_000;

/// What to search: a number of parameters, a model whose parts are kept, or both.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Parameters wanted; as many as `like` has where left out.
    #[schema(examples("6.7B"))]
    pub params: Option<Parameters>,
    /// What `params` counts: all parameters, or those of the layers and the final norm.
    #[serde(default = "total")]
    #[schema(default = "total")]
    pub count: Count,
    /// Largest miss of `params`, as a fraction.
    #[serde(default = "percent")]
    #[schema(default = 0.01)]
    pub tolerance: Tolerance,
    /// Start from this model: its norms, positions, biases, kind of MLP and vocabulary stay, and gains are reported
    /// against it; the published model nearest in size, gains only, where left out.
    pub like: Option<Architecture>,
    /// Plain (gelu) or gated (swiglu) MLP; as in `like`, else swiglu, where left out.
    pub mlp: Option<MlpKind>,
    /// Tokens of the vocabulary, which the search pads; as in `like`, else 50257, where left out.
    pub vocab: Option<Whole>,
    /// Vary these too: micro-batches in powers of two, tensor-parallel degrees up to 8.
    #[serde(default)]
    pub free: Vec<Free>,
    /// Let shapes leave the usual limits of these bounds, as far as the widest ones.
    #[serde(default)]
    pub relax: Vec<Quantity>,
    /// Keep this number of layers.
    pub layers: Option<Whole>,
    /// Keep this hidden size.
    pub hidden: Option<Whole>,
    /// Keep this number of query heads.
    pub heads: Option<Whole>,
    /// Keep this number of key/value heads.
    pub kv_heads: Option<Whole>,
    /// Keep this head size.
    pub head_dim: Option<Whole>,
    /// Keep this MLP width.
    pub d_ff: Option<Whole>,
    /// Shapes to report.
    #[serde(default = "ten")]
    #[schema(default = 10)]
    pub top: Int<1, 1000>,
    /// Look at every shape of the lattice instead of annealing.
    #[serde(default)]
    pub exhaustive: bool,
    /// Equal seeds give equal answers.
    #[serde(default)]
    #[schema(format = "uint64")]
    pub seed: u64,
    /// Take `dp`, `zero` and `recompute` as they are, even if no training state fits; otherwise states that do not fit
    /// one GPU are sharded over replicas, and the answer says how.
    #[serde(default)]
    pub no_sharding: bool,
    /// Answer with the config.json of each shape too.
    #[serde(default)]
    pub export: bool,
    /// What one step does.
    #[serde(default)]
    pub workload: Workload,
    /// The GPU; `/v1/gpus` lists them.
    #[serde(default = "usual_gpu")]
    #[schema(default = "h200")]
    pub gpu: String,
    /// A built-in model by name; by default the model of the GPU.
    pub model: Option<String>,
}

impl Search {
    /// The question; fails where `like` is no architecture.
    pub fn query(&self) -> Result<query::search::Search, Problem> {
        let like = self.like.as_ref().map(|model| model.resolve("like"));
        let size = |number: Option<Whole>| number.map(|number| number.0);
        Ok(query::search::Search {
            params: self.params.map(|params| params.0),
            count: self.count,
            tolerance: self.tolerance.0,
            like: like.transpose()?,
            mlp: self.mlp,
            vocab: size(self.vocab),
            free: self.free.clone(),
            relax: self.relax.clone(),
            fixed: Fixed {
                layers: size(self.layers),
                hidden: size(self.hidden),
                heads: size(self.heads),
                kv_heads: size(self.kv_heads),
                head_dim: size(self.head_dim),
                d_ff: size(self.d_ff),
                kv_group: None,
            },
            top: self.top.0 as usize,
            method: match self.exhaustive {
                true => Method::Exhaustive,
                false => Method::Anneal { seed: self.seed },
            },
            shard: !self.no_sharding,
            export: self.export,
            most_frames: Some(MOST_FRAMES),
            workload: (&self.workload).into(),
        })
    }
}

const fn total() -> Count {
    Count::Total
}

const fn percent() -> Tolerance {
    Tolerance(0.01)
}

const fn ten() -> Int<1, 1000> {
    Int(10)
}
