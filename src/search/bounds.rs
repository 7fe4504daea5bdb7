//! Bounds that keep searched shapes near those that are known to train well: `data/search-bounds.toml`.

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::MlpKind;
use crate::arch::{attention_weights, parameters};
use crate::named_enum;
use crate::toml_text::built_in;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    bound: Vec<Bound>,
    grid: Vec<Grid>,
}

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| built_in(&shapewise_data::SEARCH_BOUNDS));

/// One bounded quantity.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Name for `--relax`.
    pub name: Quantity,
    /// The quantity in words.
    pub means: String,
    /// What a search stays within.
    pub usual: [f64; 2],
    /// What a relaxed search stays within.
    pub widest: [f64; 2],
    /// Where models are built today.
    pub centre: f64,
    /// What a search chooses from; anything where there are none.
    #[serde(default)]
    values: Vec<f64>,
    /// Smallest budget that the bound holds for.
    #[serde(default)]
    from_parameters: Option<f64>,
    /// Budget from which it no longer holds.
    #[serde(default)]
    below_parameters: Option<f64>,
    /// Whether it holds for mixtures of experts alone, or for dense models alone.
    #[serde(default)]
    experts: Option<bool>,
    /// Fewest experts that it holds for.
    #[serde(default)]
    from_experts: Option<u64>,
    /// Number of experts from which it no longer holds.
    #[serde(default)]
    below_experts: Option<u64>,
    /// Evidence.
    pub source: String,
}

named_enum! {
    /// What a bound is about; `means` in the data file describes each.
    Quantity {
        /// Hidden width over layers that mix tokens.
        AspectRatio = "aspect_ratio",
        /// Layers that mix tokens.
        Layers = "layers",
        /// MLP width that a token meets over hidden width, without a gate.
        FfnRatioPlain = "ffn_ratio_plain",
        /// The same with a gate.
        FfnRatioGated = "ffn_ratio_gated",
        /// Parameters of the MLP that a token meets over those of attention.
        MlpAttentionRatio = "mlp_attention_ratio",
        /// Hidden width over the square root of the parameters.
        WidthRatio = "width_ratio",
        /// Width of one head, with latent attention of its values.
        HeadDim = "head_dim",
        /// Largest power of two, up to [`WHOLE_HEADS`], that divides the query heads.
        Heads = "heads",
        /// Width of all heads over hidden width, without latent attention.
        HeadWidth = "head_width",
        /// Query heads per key/value head, without latent attention.
        KvGroup = "kv_group",
        /// Width of all value heads over hidden width, with latent attention.
        LatentHeadWidth = "latent_head_width",
        /// Width of the key/value latent.
        LatentRank = "latent_rank",
        /// Padded vocabulary over the tokens asked for.
        VocabPadding = "vocab_padding",
        /// Routed experts of a layer.
        Experts = "experts",
        /// Share of the routed experts that a token visits.
        ExpertShare = "expert_share",
        /// Inner width of one routed expert over hidden width.
        ExpertWidth = "expert_width",
    }
}

/// `ln` of the distance from a limit below which a shape lies at it: about a step of the lattice.
const AT_LIMIT: f64 = 0.005;

/// Query heads that divide by this can be spread over the GPUs of a usual node.
pub const WHOLE_HEADS: u64 = 8;

impl Quantity {
    /// Whether it is a proportion of the model, not what kernels and ranks ask of sizes.
    fn is_proportion(self) -> bool {
        ![Self::Heads, Self::HeadDim, Self::VocabPadding].contains(&self)
    }

    /// Its value; `vocab` is the vocabulary asked for, before padding. `None` if the architecture has no such part.
    fn of(self, arch: &Architecture, vocab: u64) -> Option<f64> {
        let (hidden, kind) = (arch.hidden as f64, arch.mlp.kind);
        let d_ff = arch.moe.map_or(arch.mlp.d_ff, |moe| moe.active_width());
        let is_latent = arch.mla.is_some();
        let widths = (arch.heads * arch.value_dim()) as f64 / hidden;
        Some(match self {
            Self::AspectRatio => hidden / arch.mixing_layers() as f64,
            Self::Layers => arch.mixing_layers() as f64,
            Self::FfnRatioPlain | Self::FfnRatioGated => d_ff as f64 / hidden,
            Self::MlpAttentionRatio => {
                let mlp = ((kind.up_factor() + 1) * d_ff) as f64;
                let attention = match is_latent {
                    true => attention_weights(arch) as f64 / (hidden * arch.layers as f64),
                    false => (2 * (arch.heads + arch.kv_heads) * arch.head_dim) as f64,
                };
                mlp / attention
            }
            Self::WidthRatio => hidden / (parameters(arch).non_embedding as f64).sqrt(),
            Self::HeadDim => arch.value_dim() as f64,
            Self::Heads => (1 << arch.heads.trailing_zeros()).min(WHOLE_HEADS) as f64,
            Self::HeadWidth if is_latent => return None,
            Self::LatentHeadWidth if !is_latent => return None,
            Self::HeadWidth | Self::LatentHeadWidth => widths,
            Self::KvGroup if is_latent => return None,
            Self::KvGroup => (arch.heads / arch.kv_heads) as f64,
            Self::LatentRank => arch.mla?.kv_lora_rank as f64,
            Self::VocabPadding => arch.vocab as f64 / vocab as f64,
            Self::Experts => arch.moe?.experts as f64,
            Self::ExpertShare => {
                let moe = arch.moe?;
                moe.top_k as f64 / moe.experts as f64
            }
            Self::ExpertWidth => arch.moe?.d_ff as f64 / hidden,
        })
    }
}

impl Bound {
    fn offers(&self, value: f64) -> bool {
        self.values.is_empty() || self.values.contains(&value)
    }
}

/// The step of the lattice up to a size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grid {
    dimension: Dimension,
    until: u64,
    step: u64,
}

/// A bound of one search.
#[derive(Clone, Debug)]
struct Held {
    bound: &'static Bound,
    relaxed: bool,
    /// What the model has that the search is like.
    own: Option<f64>,
}

impl Held {
    fn limits(&self) -> [f64; 2] {
        let [low, high] = match self.relaxed {
            true => self.bound.widest,
            false => self.bound.usual,
        };
        self.own.map_or([low, high], |own| [low.min(own), high.max(own)])
    }
}

/// The bounds of one search.
#[derive(Clone, Debug)]
pub struct Bounds {
    bounds: Vec<Held>,
    /// Whose values are not chosen from the list.
    given: Vec<Quantity>,
    grid: &'static [Grid],
    vocab: u64,
}

impl Bounds {
    /// The bounds for a budget of this many parameters, models built like `base` and a vocabulary, with some of them
    /// relaxed.
    pub fn new(budget: f64, base: &Architecture, vocab: u64, relaxed: &[Quantity]) -> Self {
        let unused = match base.mlp.kind {
            MlpKind::Gelu => Quantity::FfnRatioGated,
            MlpKind::Swiglu => Quantity::FfnRatioPlain,
        };
        let experts = base.moe.map_or(0, |moe| moe.experts);
        let holds = |bound: &&Bound| {
            bound.name != unused
                && bound.experts.is_none_or(|experts| experts == base.moe.is_some())
                && bound.from_experts.is_none_or(|from| experts >= from)
                && bound.below_experts.is_none_or(|below| experts < below)
                && bound.from_parameters.is_none_or(|from| budget >= from)
                && bound.below_parameters.is_none_or(|below| budget < below)
        };
        let bounds = DOCUMENT.bound.iter().filter(holds);
        Self {
            bounds: bounds
                .map(|bound| Held {
                    bound,
                    relaxed: relaxed.contains(&bound.name),
                    own: None,
                })
                .collect(),
            given: Vec::new(),
            grid: &DOCUMENT.grid,
            vocab,
        }
    }

    /// Relaxes one more bound.
    pub fn relax(&mut self, name: Quantity) {
        for held in &mut self.bounds {
            held.relaxed |= held.bound.name == name;
        }
    }

    /// Lets the proportions reach those of the model that the search is like; not what kernels and ranks ask of sizes.
    pub fn reach(&mut self, model: &Architecture) {
        for held in &mut self.bounds {
            let name = held.bound.name;
            held.own = name.of(model, self.vocab).filter(|_| name.is_proportion());
        }
    }

    /// Takes any value inside the limits, because the user gives it.
    pub fn give(&mut self, name: Quantity) {
        self.given.push(name);
    }

    /// The limits in force; everything where no bound of this name holds.
    pub fn limits(&self, quantity: Quantity) -> [f64; 2] {
        let held = self.bounds.iter().find(|held| held.bound.name == quantity);
        held.map_or([0.0, f64::INFINITY], Held::limits)
    }

    /// Whether a search may choose this value, which is inside the limits.
    pub fn offers(&self, quantity: Quantity, value: f64) -> bool {
        let mut held = self.bounds.iter();
        let held = held.find(|held| held.bound.name == quantity && !held.relaxed);
        held.is_none_or(|held| held.bound.offers(value)) || self.given.contains(&quantity)
    }

    /// The limits that relaxing allows.
    pub fn widest(&self, quantity: Quantity) -> [f64; 2] {
        let mut relaxed = self.clone();
        relaxed.relax(quantity);
        relaxed.limits(quantity)
    }

    /// Every bound that holds for this budget.
    pub fn all(&self) -> impl Iterator<Item = &'static Bound> {
        self.bounds.iter().map(|held| held.bound)
    }

    /// Whether every limit in force is kept.
    pub fn admit(&self, arch: &Architecture) -> bool {
        self.bounds.iter().all(|held| {
            let bound = held.bound;
            let value = bound.name.of(arch, self.vocab);
            let is_offered = |value| held.relaxed || bound.offers(value) || self.given.contains(&bound.name);
            value.is_none_or(|value| inside(held.limits(), value) && is_offered(value))
        })
    }

    /// Bounds whose usual limits this shape leaves, with its value.
    pub fn outside(&self, arch: &Architecture) -> Vec<(&'static Bound, f64)> {
        self.all()
            .filter_map(|bound| Some((bound, bound.name.of(arch, self.vocab)?)))
            .filter(|(bound, value)| !inside(bound.usual, *value) || !bound.offers(*value))
            .collect()
    }

    /// Proportions that a limit in force stops where relaxing would go further, with that limit.
    pub fn stopping(&self, arch: &Architecture) -> Vec<(Quantity, f64)> {
        let stops = |held: &Held| {
            let bound = held.bound;
            let value = bound.name.of(arch, self.vocab).filter(|_| bound.name.is_proportion())?;
            let ends = held.limits().into_iter().zip(bound.widest);
            let is_passable = |(limit, widest): &(f64, f64)| limit != widest && *limit != bound.centre;
            let mut passable = ends.filter(is_passable);
            let (limit, _) = passable.find(|(limit, _)| (value / limit).ln().abs() < AT_LIMIT)?;
            Some((bound.name, limit))
        };
        self.bounds.iter().filter_map(stops).collect()
    }

    /// How far a shape is from where models are built today: root mean square over the bounds of the logarithmic
    /// distance from the centre, in units of the way to the usual limit on that side; where that is the centre itself, the
    /// plain logarithm.
    pub fn distance(&self, arch: &Architecture) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        for bound in self.all() {
            let Some(value) = bound.name.of(arch, self.vocab) else {
                continue;
            };
            let [low, high] = bound.usual;
            let away = (value / bound.centre).ln();
            let room = (if away < 0.0 { low } else { high } / bound.centre).ln();
            // A limit at the centre itself allows no way in that direction.
            let way = if room.abs() < 1e-9 { away } else { away / room };
            sum += way * way;
            count += 1;
        }
        (sum / f64::from(count.max(1))).sqrt()
    }

    /// Every hidden size of the lattice.
    pub fn hidden_sizes(&self) -> Vec<u64> {
        let mut sizes = Vec::new();
        let mut size = 0;
        for grid in self.grids(Dimension::Hidden) {
            while size + grid.step <= grid.until {
                size = (size + grid.step) / grid.step * grid.step;
                sizes.push(size);
            }
        }
        sizes
    }

    /// The step of MLP widths near `width` over `tp` ranks: each rank's share stays a multiple of 64.
    pub fn d_ff_step(&self, width: f64, tp: u64) -> u64 {
        let grid = self.grids(Dimension::DFf).find(|grid| width <= grid.until as f64);
        let step = grid.map_or(64, |grid| grid.step);
        lcm(step, 64 * tp)
    }

    fn grids(&self, dimension: Dimension) -> impl Iterator<Item = &Grid> {
        self.grid.iter().filter(move |grid| grid.dimension == dimension)
    }
}

fn inside([low, high]: [f64; 2], value: f64) -> bool {
    (low - 1e-9..=high + 1e-9).contains(&value)
}

/// The least common multiple.
pub fn lcm(a: u64, b: u64) -> u64 {
    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    a / gcd(a, b) * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Preset;

    #[test]
    fn limits_are_ordered_and_every_line_has_a_source() {
        for budget in [1.25e8, 6.7e9, 1e12] {
            for base in ["gpt3-6.7b", "llama-3-8b", "mixtral-8x7b", "deepseek-v3"] {
                let base = &Preset::find(base).unwrap().architecture;
                let bounds = Bounds::new(budget, base, 50257, &[]);
                for bound in bounds.all() {
                    let ([low, high], [least, most]) = (bound.usual, bound.widest);
                    assert!(least <= low && low <= bound.centre, "{:?}", bound.name);
                    assert!(bound.centre <= high && high <= most, "{:?}", bound.name);
                    assert!(!bound.source.is_empty() && !bound.means.is_empty());
                }
                let names: Vec<_> = bounds.all().map(|bound| bound.name).collect();
                let mut once = names.clone();
                once.sort();
                once.dedup();
                assert_eq!(once.len(), names.len(), "two bounds of one name at {budget}");
            }
        }
    }

    #[test]
    fn what_is_built_today_lies_inside_the_widest_limits() {
        for name in [
            "gpt3-2.7b",
            "gpt3-6.7b",
            "gpt3-13b",
            "llama-2-7b",
            "llama-2-70b",
            "llama-3-8b",
            "llama-3-70b",
            "mistral-7b-v0.3",
            "pythia-1b",
            "qwen2.5-7b",
            "opt-66b",
            "mixtral-8x7b",
            "mixtral-8x22b",
            "olmoe-1b-7b",
            "qwen3-30b-a3b",
            "qwen3-235b-a22b",
            "gpt-oss-20b",
            "deepseek-v2",
            "deepseek-v2-lite",
            "deepseek-v3",
            "kimi-k2",
        ] {
            let arch = &Preset::find(name).unwrap().architecture;
            let budget = parameters(arch).total as f64;
            let all = Quantity::ALL;
            let bounds = Bounds::new(budget, arch, arch.vocab, &all);
            assert!(bounds.admit(arch), "{name}: {:?}", bounds.outside(arch));
        }
    }

    #[test]
    fn the_centre_is_nearer_than_a_limit() {
        let llama = &Preset::find("llama-2-7b").unwrap().architecture;
        let bounds = Bounds::new(6.7e9, llama, 32000, &[]);
        let thin = Architecture {
            layers: 64,
            ..llama.clone()
        };
        assert!(bounds.distance(llama) < bounds.distance(&thin));
        assert!(bounds.outside(llama).is_empty());
        assert!(!bounds.outside(&thin).is_empty());
    }

    #[test]
    fn a_limit_that_stops_a_shape_is_named() {
        let llama = &Preset::find("llama-2-7b").unwrap().architecture;
        let bounds = |relaxed: &[Quantity]| Bounds::new(6.7e9, llama, 32000, relaxed);
        assert_eq!(bounds(&[]).stopping(llama), []);
        let mut thin = llama.clone();
        thin.mlp.d_ff = llama.hidden * 5 / 2;
        assert_eq!(bounds(&[]).stopping(&thin), [(Quantity::FfnRatioGated, 2.5)]);
        assert_eq!(bounds(&[Quantity::FfnRatioGated]).stopping(&thin), []);
    }

    #[test]
    fn the_lattice_has_finer_steps_for_smaller_models() {
        let llama = &Preset::find("llama-2-7b").unwrap().architecture;
        let bounds = Bounds::new(6.7e9, llama, 32000, &[]);
        let sizes = bounds.hidden_sizes();
        assert!(sizes.is_sorted() && sizes[0] == 64);
        for size in [768, 2560, 4096, 5120, 8192, 12288, 16384] {
            assert!(sizes.contains(&size), "{size}");
        }
        assert!(!sizes.contains(&(8192 + 64)));
        assert_eq!((bounds.d_ff_step(11008.0, 1), bounds.d_ff_step(28672.0, 8)), (64, 512));
    }
}
