//! What the shape of a transformer costs in loss: differences with a band, and where there is no evidence.
//!
//! Losses are nats per token, differences 10^-3 nats. The laws (`data/loss/law.toml`) are our fits to public runs, the other terms
//! (`data/loss/terms.toml`) have a source each. A difference is computed in [`DRAWS`] joint draws, one law and one set of
//! random numbers each, which all shapes share: so differences between any two shapes are drawn together.

pub mod law;

mod terms;

pub use terms::Part;

use crate::arch::Architecture;
use crate::arch::{attention_weights, parameters};
use crate::error::Error;
use crate::loss::law::{Form, Law, Member, Schedule, Size, Source, with_penalties};
use crate::loss::terms::{Chance, Terms};
use crate::named_enum;
use crate::ops::{Dtype, Recurrence};
use crate::random::Random;
use crate::stats::{median, quantile};
use std::sync::LazyLock;

/// Joint draws: each law is drawn five times.
pub const DRAWS: usize = 1000;

/// Differences below this are ties, 10^-3 nats: seeds move a loss by one to three, and no recipe of two runs is the same.
pub const TIED: f64 = 5.0;

/// Share of the layers that see all keys below which tests of recall fail (Mamba-2 without any, arXiv 2405.21060).
const LEAST_FULL: f64 = 0.05;

/// The 5th and 95th percentile are a band.
const BAND: [f64; 2] = [0.05, 0.95];

named_enum! {
    /// How much is known of a difference, the best first.
    Evidence {
        /// Runs of such shapes were fitted.
        Inside = "inside",
        /// The laws are carried beyond the fitted runs.
        Extrapolated = "extrapolated",
        /// A part that differs has never been measured and is not in the figure.
        None = "none",
        /// No figure is given.
        Refused = "refused",
    }
}

named_enum! {
    /// Why a difference is not simply inside the data.
    Reason {
        /// More than two billion parameters in the blocks.
        BeyondSizes = "beyond_2b",
        /// Fewer than fifty million.
        BelowSizes = "below_50m",
        /// More than 200 tokens a parameter.
        OverTrained = "beyond_200_tokens_a_parameter",
        /// Hidden width over layers below 10.
        Deep = "aspect_below_10",
        /// The laws for experts hold between 1 and 512 of them.
        ManyExperts = "experts_beyond_512",
        /// Nothing is known of the shape inside a mixture of experts.
        InsideExperts = "shape_inside_experts",
        /// The two have other latents of attention.
        LatentAttention = "latent_attention",
        /// The two have other layers with linear attention.
        LinearAttention = "linear_attention",
        /// The two have other windows of attention.
        Window = "window",
        /// Of one of their kinds of attention no figure is known.
        UnmeasuredAttention = "unmeasured_attention",
        /// Hidden width over layers above 320.
        AspectRatio = "aspect_ratio",
        /// Parameters of the MLP over those of attention outside 0.5 to 6.
        MlpShare = "mlp_share",
        /// Width of a head outside 32 to 256.
        HeadDim = "head_dim",
        /// Losses of different tokenizers cannot be compared.
        Vocabulary = "vocabulary",
    }
}

impl Reason {
    /// How much is known where it applies.
    pub const fn evidence(self) -> Evidence {
        match self {
            Self::BeyondSizes
            | Self::BelowSizes
            | Self::OverTrained
            | Self::Deep
            | Self::ManyExperts
            | Self::AspectRatio
            | Self::MlpShare
            | Self::HeadDim
            | Self::LatentAttention
            | Self::LinearAttention
            | Self::Window => Evidence::Extrapolated,
            Self::InsideExperts | Self::UnmeasuredAttention => Evidence::None,
            Self::Vocabulary => Evidence::Refused,
        }
    }

    /// The reason as people say it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::BeyondSizes => "more than 2 billion parameters in the layers",
            Self::BelowSizes => "fewer than 50 million parameters in the layers",
            Self::OverTrained => {
                "more than 200 tokens a parameter, where laws that add a term of size and one of tokens err"
            }
            Self::Deep => "hidden size over layers below 10",
            Self::ManyExperts => "more than 512 experts for one that a token visits",
            Self::InsideExperts => "the shape inside an MoE",
            Self::LatentAttention => "another latent attention",
            Self::LinearAttention => "another linear attention",
            Self::Window => "another sliding window",
            Self::UnmeasuredAttention => "a kind of attention of which no pair was published",
            Self::AspectRatio => "hidden size over layers above 320",
            Self::MlpShare => "MLP parameters outside 0.5 to 6 times those of attention",
            Self::HeadDim => "head size outside 32 to 256",
            Self::Vocabulary => "losses of different tokenizers do not compare",
        }
    }
}

/// What the loss of a shape is computed from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Parameters, layers and width.
    pub size: Size,
    /// Parameters of the MLP that a token visits over those of attention.
    pub mlp_share: f64,
    /// Whether the MLP has a gate.
    pub gated: bool,
    /// Width of a head.
    pub head_dim: f64,
    /// Query heads.
    pub heads: f64,
    /// Query heads per key/value head.
    pub kv_group: f64,
    /// Experts over those that a token visits, shared ones in both; 1 without experts.
    pub sparsity: f64,
    /// Parameters of a usual MLP, 8 times the square of the width, over those of an expert; 1 without experts.
    pub granularity: f64,
    /// Format of the linear maps in training.
    pub format: Dtype,
    /// Width of the key/value latent; `None` if attention is not latent.
    pub latent: Option<f64>,
    /// Kind of linear attention and its share of the layers; none without.
    pub linear: Option<(Option<Recurrence>, f64)>,
    /// Keys that a windowed layer sees, and [`crate::arch::Window::pattern`]; none without windows.
    pub window: Option<(u64, Option<u64>)>,
    /// Tokens of the vocabulary, without padding.
    pub vocab: u64,
}

impl Profile {
    /// That of an architecture whose tokenizer has so many tokens, trained in this format.
    pub fn of(arch: &Architecture, vocab: u64, format: Dtype) -> Self {
        let count = parameters(arch);
        let tables = if arch.tied_embeddings { 1 } else { 2 };
        let gate = arch.mlp.kind.up_factor() + 1;
        // A token meets the mean of dense and expert layers.
        let moe_layers = arch.moe_layers();
        let of_experts = arch.moe.map_or(0, |moe| moe_layers * moe.active_width());
        let dense = |part: &Architecture| (part.layers_with_mlp() - part.moe_layers()) * part.mlp.d_ff;
        let inner = arch.parts().map(|part| dense(&part)).sum::<u64>() + of_experts;
        let attention = attention_weights(arch) / arch.hidden;
        // Layers that mix tokens: all, but where a layer is one block.
        let mixers = arch.attention_layers() + arch.linear_layers();
        Self {
            size: Size {
                layers: arch.layers as f64,
                width: arch.hidden as f64,
                blocks: (count.active - count.embedding) as f64,
                embeddings: (tables * vocab * arch.hidden) as f64,
            },
            mlp_share: (gate * inner) as f64 / attention as f64,
            gated: arch.mlp.kind.up_factor() > 1,
            head_dim: arch.head_dim as f64,
            heads: arch.heads as f64,
            kv_group: arch.heads as f64 / arch.kv_heads as f64,
            sparsity: arch.moe.map_or(1.0, |moe| {
                let shared = moe.shared_d_ff as f64 / moe.d_ff as f64;
                (moe.experts as f64 + shared) / (moe.top_k as f64 + shared)
            }),
            granularity: arch.moe.map_or(1.0, |moe| {
                let of_expert = gate * moe.d_ff * moe.routed_width(arch.hidden);
                (8 * arch.hidden * arch.hidden) as f64 / of_expert as f64
            }),
            format,
            latent: arch.mla.map(|mla| mla.kv_lora_rank as f64),
            linear: arch
                .linear
                .map(|linear| (linear.kind, linear.layers as f64 / mixers as f64)),
            window: arch.window.map(|window| (window.size, window.pattern(arch.layers))),
            vocab,
        }
    }

    /// Share of the layers in which a query sees all keys, with its keys themselves.
    pub fn full_share(&self) -> f64 {
        let softmax = 1.0 - self.linear.map_or(0.0, |(_, share)| share);
        let windowed = self
            .window
            .map(|(_, pattern)| pattern.map_or(0.0, |pattern| 1.0 / (1 + pattern) as f64));
        softmax * windowed.unwrap_or(1.0)
    }

    /// Whether it recalls worse from far back than its loss says: where windows or short convolutions have no state beside
    /// them, or next to no layer sees all keys.
    fn forgets(&self) -> bool {
        let keeps_state = self.linear.is_some_and(|(kind, _)| kind.is_some());
        let sees_little = self.window.is_some() || self.linear.is_some();
        self.full_share() < LEAST_FULL || (sees_little && !keeps_state)
    }

    /// The shape of these proportions that has as many parameters as `other`, embeddings included where `total`.
    #[must_use]
    pub fn as_large_as(&self, other: &Self, total: bool) -> Self {
        let count = |size: &Size| {
            let embeddings = if total { size.embeddings } else { 0.0 };
            size.blocks + embeddings
        };
        let wanted = count(&other.size);
        let (mut low, mut high) = (1e-3, 1e3);
        for _ in 0..100 {
            let middle = f64::sqrt(low * high);
            if count(&self.size.scaled(middle)) < wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        let factor = if count(&self.size) == wanted { 1.0 } else { low };
        Self {
            size: self.size.scaled(factor),
            ..*self
        }
    }
}

/// A difference of loss to a reference shape at equal tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Median of the laws' fits with the middle of the other terms, 10^-3 nats; positive is worse.
    pub mnat: f64,
    /// 5th percentile of the draws.
    pub low_mnat: f64,
    /// 95th percentile.
    pub high_mnat: f64,
    /// What each part adds, 10^-3 nats; parts that are equal in both are left out.
    pub parts: Vec<(Part, f64)>,
}

/// What is known of a shape's loss against a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// How much is known.
    pub evidence: Evidence,
    /// Why not more.
    pub reasons: Vec<Reason>,
    /// The difference; `None` if it is refused.
    pub difference: Option<Difference>,
    /// Whether fewer layers see all keys than in the reference, so that the shape may recall worse at equal loss.
    pub recalls_less: bool,
}

/// Laws that are drawn from, and which of them are fits.
#[derive(Clone, Debug)]
pub struct Ensemble {
    laws: Vec<Law>,
    /// The fit of each member with its name.
    pub fits: Vec<(String, Law)>,
}

impl Ensemble {
    /// Every draw of these members, each as likely.
    pub fn new(members: &[Member]) -> Self {
        Self {
            laws: members.iter().flat_map(|member| member.draws.clone()).collect(),
            fits: members
                .iter()
                .map(|member| (member.name.clone(), member.draws[0].clone()))
                .collect(),
        }
    }

    /// Every fit with its weight: each data set counts alike.
    pub fn weighted(&self) -> impl Iterator<Item = (&String, &Law, f64)> {
        let of = |name: &str| self.fits.iter().filter(|(other, _)| other == name).count() as f64;
        let sets: f64 = self.fits.iter().map(|(name, _)| 1.0 / of(name)).sum();
        let fits = self.fits.iter();
        fits.map(move |(name, law)| (name, law, 1.0 / of(name) / sets))
    }

    /// The law of a joint draw.
    pub fn law(&self, draw: usize) -> &Law {
        &self.laws[draw % self.laws.len()]
    }
}

/// The model of the loss.
#[derive(Debug)]
pub struct Model {
    terms: &'static Terms,
    chances: Vec<Chance>,
    /// Standard normals: for shapes wider than the reference, and for deeper ones.
    normals: Vec<[f64; 2]>,
    /// Whose runs it was fitted to.
    pub sources: Vec<Source>,
    /// Laws that differences between shapes are drawn from.
    pub shapes: Ensemble,
    /// Laws that say how size and tokens trade: annealed runs and the two fits of Chinchilla, each base law as likely.
    pub sizes: Ensemble,
}

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let (sources, members) = law::read().expect("data/loss/law.toml is checked by tests");
    Model::new(sources, members)
});

impl Model {
    /// The model that is built in.
    pub fn get() -> &'static Self {
        &MODEL
    }

    fn new(sources: Vec<Source>, members: Vec<Member>) -> Self {
        let (totals, shaped): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| member.form == Form::Total);
        let annealed: Vec<Member> = shaped
            .iter()
            .filter(|member| member.schedule == Schedule::Annealed)
            .cloned()
            .collect();
        let penalties: Vec<Law> = annealed
            .iter()
            .filter(|member| member.form == Form::Aspect)
            .flat_map(|member| member.draws.clone())
            .collect();
        // Both forms of a data set and the penalties of both data sets: fifty draws a base law.
        let bases = totals.into_iter().map(|member| Member {
            draws: with_penalties(&member.draws[0], &penalties),
            ..member
        });
        let sizes = bases.chain(annealed).collect::<Vec<_>>();
        Self::with(sources, Ensemble::new(&shaped), Ensemble::new(&sizes))
    }

    /// A model of these laws, for a cross-validation that fits them itself.
    pub fn with(sources: Vec<Source>, shapes: Ensemble, sizes: Ensemble) -> Self {
        let mut random = Random::new(0, "loss");
        let chances = (0..DRAWS).map(|_| Chance::draw(&mut random)).collect();
        let normals = (0..DRAWS).map(|_| [random.normal(), random.normal()]);
        Self {
            terms: Terms::get(),
            chances,
            normals: normals.collect(),
            sources,
            shapes,
            sizes,
        }
    }

    /// Whether the proportions of a shape are inside what was measured.
    pub fn knows_proportions(&self, profile: &Profile) -> bool {
        let limits = &self.terms.limits;
        limits.aspect_ratio.is_inside(profile.size.aspect_ratio())
            && limits.mlp_share.is_inside(profile.mlp_share)
            && limits.head_dim.is_inside(profile.head_dim)
    }

    /// Whether so many tokens are few enough for so many parameters that the laws say what a difference of loss is worth in tokens.
    pub fn knows_tokens(&self, parameters: f64, tokens: f64) -> bool {
        self.terms.limits.tokens_a_parameter.is_inside(tokens / parameters)
    }

    /// How much is known of a difference after so many tokens, and why not more.
    pub fn evidence(&self, shape: &Profile, reference: &Profile, tokens: f64) -> (Evidence, Vec<Reason>) {
        let limits = &self.terms.limits;
        let either = |test: &dyn Fn(&Profile) -> bool| test(shape) || test(reference);
        let ratio = |profile: &Profile| profile.size.aspect_ratio();
        let blocks = |profile: &Profile| profile.size.blocks;
        let unfitted = |profile: &Profile| !limits.parameters.is_inside(blocks(profile));
        let outside = |profile: &Profile| !limits.aspect_ratio.is_inside(ratio(profile));
        let experts = |profile: &Profile| profile.sparsity != 1.0;
        let applies = |reason: &Reason| match reason {
            Reason::BeyondSizes => either(&|p| unfitted(p) && blocks(p) > 1e9),
            Reason::BelowSizes => either(&|p| unfitted(p) && blocks(p) < 1e9),
            Reason::OverTrained => !self.knows_tokens(shape.size.parameters(), tokens),
            Reason::Deep => either(&|p| outside(p) && ratio(p) < 100.0),
            Reason::ManyExperts => either(&|p| !self.terms.experts_inside(p.sparsity)),
            Reason::InsideExperts => either(&experts),
            Reason::LatentAttention => shape.latent != reference.latent,
            Reason::LinearAttention => shape.linear != reference.linear,
            Reason::Window => shape.window != reference.window,
            Reason::UnmeasuredAttention => {
                let kinds = [
                    (Part::LatentAttention, shape.latent != reference.latent),
                    (Part::LinearAttention, shape.linear != reference.linear),
                    (Part::Window, shape.window != reference.window),
                ];
                kinds
                    .iter()
                    .any(|(part, differ)| *differ && either(&|p| !self.terms.knows(*part, p)))
            }
            Reason::AspectRatio => either(&|p| outside(p) && ratio(p) > 100.0),
            Reason::MlpShare => {
                let moved = shape.mlp_share != reference.mlp_share;
                moved && either(&|p| !limits.mlp_share.is_inside(p.mlp_share))
            }
            Reason::HeadDim => {
                let moved = shape.head_dim != reference.head_dim;
                moved && either(&|p| !limits.head_dim.is_inside(p.head_dim))
            }
            Reason::Vocabulary => shape.vocab != reference.vocab,
        };
        let reasons: Vec<Reason> = Reason::ALL.into_iter().filter(applies).collect();
        let worst = reasons.iter().map(|reason| reason.evidence()).max();
        (worst.unwrap_or(Evidence::Inside), reasons)
    }

    /// The difference of a shape to a reference, both after so many tokens, with what is known of it.
    pub fn compare(&self, shape: &Profile, reference: &Profile, tokens: f64) -> Comparison {
        let (evidence, reasons) = self.evidence(shape, reference, tokens);
        let answered = evidence != Evidence::Refused;
        Comparison {
            evidence,
            reasons,
            difference: answered.then(|| self.difference(shape, reference, tokens)),
            recalls_less: shape.forgets() && shape.full_share() < reference.full_share(),
        }
    }

    /// The middle of the difference of a shape to a reference, both after so many tokens, 10^-3 nats; whatever is known of it.
    pub fn middle_difference(&self, shape: &Profile, reference: &Profile, tokens: f64) -> f64 {
        let law = |law: &Law| 1e3 * (law.loss(&shape.size, tokens) - law.loss(&reference.size, tokens));
        let fits = self.shapes.fits.iter().map(|(_, fit)| law(fit)).collect();
        let [a, b] = [shape, reference].map(|one| self.middle_cost(one));
        median(fits).unwrap_or(0.0) + 1e3 * (a - b)
    }

    fn difference(&self, shape: &Profile, reference: &Profile, tokens: f64) -> Difference {
        let mnat = self.middle_difference(shape, reference, tokens);
        let terms = Part::ALL.into_iter().skip(1).map(|part| {
            let [a, b] = [shape, reference].map(|one| self.terms.cost(part, one, &Chance::MIDDLE));
            (part, 1e3 * (a - b))
        });
        let terms: Vec<(Part, f64)> = terms.collect();
        let of_terms: f64 = terms.iter().map(|(_, mnat)| mnat).sum();
        let mut parts = vec![(Part::SizeAndShape, mnat - of_terms)];
        parts.extend(terms);
        parts.retain(|(_, mnat)| mnat.abs() > 1e-9);
        let [of_shape, of_reference] = [shape, reference].map(|one| self.losses(&self.shapes, one, tokens));
        let unexplained = self.unexplained(shape, reference);
        let draws = of_shape.iter().zip(&of_reference).zip(unexplained);
        let mut draws: Vec<f64> = draws.map(|((a, b), more)| 1e3 * (a - b + more)).collect();
        draws.sort_by(f64::total_cmp);
        let [low, high] = BAND.map(|share| quantile(&draws, share));
        Difference {
            mnat,
            low_mnat: low.min(mnat),
            high_mnat: high.max(mnat),
            parts,
        }
    }

    /// The loss of a shape after so many tokens in every joint draw, nats per token, without what the laws leave out.
    pub fn losses(&self, ensemble: &Ensemble, profile: &Profile, tokens: f64) -> Vec<f64> {
        let laws = ensemble.laws.iter();
        let of_laws: Vec<f64> = laws.map(|law| law.loss(&profile.size, tokens)).collect();
        let costs = self.costs(profile).into_iter().enumerate();
        costs.map(|(draw, cost)| of_laws[draw % of_laws.len()] + cost).collect()
    }

    /// The first of these draws, for differences between shapes.
    pub fn first_losses(&self, profile: &Profile, tokens: f64, draws: usize) -> Vec<f64> {
        let chances = self.chances.iter().take(draws).enumerate();
        let loss = |(draw, chance)| self.shapes.law(draw).loss(&profile.size, tokens) + self.cost(profile, chance);
        chances.map(loss).collect()
    }

    /// What all parts but size and shape cost in every joint draw, nats per token.
    pub fn costs(&self, profile: &Profile) -> Vec<f64> {
        let chances = self.chances.iter();
        chances.map(|chance| self.cost(profile, chance)).collect()
    }

    /// What they cost in the middle of every distribution, nats per token.
    pub fn middle_cost(&self, profile: &Profile) -> f64 {
        self.cost(profile, &Chance::MIDDLE)
    }

    fn cost(&self, profile: &Profile, chance: &Chance) -> f64 {
        let parts = Part::ALL.into_iter().skip(1);
        parts.map(|part| self.terms.cost(part, profile, chance)).sum()
    }

    /// What the laws leave out of a difference in every joint draw, nats per token.
    pub fn unexplained(&self, shape: &Profile, reference: &Profile) -> Vec<f64> {
        let figures = &self.terms.unexplained;
        let largest = shape.size.blocks.max(reference.size.blocks);
        let inside = self.terms.limits.parameters.is_inside(largest) || largest < 1e9;
        let (_, reasons) = self.evidence(shape, reference, 0.0);
        let ratio = shape.size.aspect_ratio() / reference.size.aspect_ratio();
        let beyond = reasons.iter().any(|reason| match reason {
            Reason::AspectRatio => ratio != 1.0,
            other => matches!(other, Reason::MlpShare | Reason::HeadDim),
        });
        let mnat = match inside && !beyond {
            true => figures.inside_mnat,
            false => figures.extrapolated_mnat,
        };
        let away = match beyond {
            true => 1.0,
            false => (ratio.ln().abs() / figures.full_at.ln()).min(1.0).sqrt(),
        };
        let deeper = usize::from(ratio < 1.0);
        let normals = self.normals.iter();
        normals.map(|pair| pair[deeper] * mnat * away / 1e3).collect()
    }

    /// Fails where two shapes have different tokenizers.
    pub fn same_tokenizer(place: &str, vocab: u64, reference: u64) -> Result<(), Error> {
        if vocab == reference {
            return Ok(());
        }
        let allowed = format!(
            "the {reference} tokens of the model it is compared with: losses of different tokenizers cannot be compared"
        );
        Err(Error::field(place, "vocab", vocab, &allowed))
    }
}

#[cfg(test)]
mod tests;
