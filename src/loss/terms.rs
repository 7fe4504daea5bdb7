//! What a shape costs in loss beside size, layers and width: `data/loss/terms.toml`.

use crate::loss::Profile;
use crate::random::Random;
use serde::Deserialize;
use std::sync::LazyLock;

static TERMS: LazyLock<Terms> = built_in!("data/loss/terms.toml");

named_enum! {
    /// Parts of a difference.
    Part {
        /// Parameters, layers and width.
        SizeAndShape = "size_and_shape",
        /// Parameters of the MLP over those of attention.
        MlpShare = "mlp_share",
        /// Width of one head.
        HeadDim = "head_dim",
        /// Query heads per key/value head.
        KvGroup = "kv_group",
        /// Routed experts over those that a token visits.
        Experts = "experts",
    }
}

/// Every figure of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Where differences are extrapolated.
    pub limits: Limits,
    /// What the laws leave out.
    pub unexplained: Unexplained,
    mlp_share: MlpShare,
    head_dim: Vec<HeadDim>,
    kv_group: KvGroup,
    experts: Experts,
    scale: Scale,
    vocabulary: Vocabulary,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub tokens_a_parameter: Limit,
    pub aspect_ratio: Limit,
    pub parameters: Limit,
    pub mlp_share: Limit,
    pub head_dim: Limit,
}

/// A quantity's range with evidence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    inside: [f64; 2],
    #[serde(rename = "source")]
    _source: String,
}

impl Limit {
    /// Whether the fitted shapes reach this value.
    pub fn is_inside(&self, value: f64) -> bool {
        within(self.inside, value)
    }
}

fn within([least, most]: [f64; 2], value: f64) -> bool {
    (least * (1.0 - 1e-9)..=most * (1.0 + 1e-9)).contains(&value)
}

/// Standard deviations in mnat.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unexplained {
    pub inside_mnat: f64,
    pub extrapolated_mnat: f64,
    pub full_at: f64,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MlpShare {
    b0: f64,
    b1: f64,
    b2: f64,
    v: [f64; 2],
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadDim {
    size: u64,
    mnat: [f64; 3],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KvGroup {
    of_four_mnat: [f64; 2],
    of_all_mnat: [f64; 2],
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Experts {
    e1: f64,
    e2: f64,
    v: [f64; 2],
    inside: [f64; 2],
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    loss_nats: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vocabulary {
    l0: f64,
    l1: f64,
    a: f64,
    l2: f64,
    e: f64,
    l3: f64,
    d: f64,
    #[serde(rename = "source")]
    _source: String,
}

/// Head sizes that have a random number of their own: multiples of 8 up to 256.
const HEAD_SIZES: usize = 33;

/// The random numbers of one draw, uniform between 0 and 1, which all shapes share.
#[derive(Clone, Debug)]
pub struct Chance {
    mlp_share: f64,
    head_dim: [f64; HEAD_SIZES],
    kv_group: f64,
    experts: f64,
}

impl Chance {
    /// The median of everything.
    pub const MIDDLE: Self = Self {
        mlp_share: 0.5,
        head_dim: [0.5; HEAD_SIZES],
        kv_group: 0.5,
        experts: 0.5,
    };

    /// The next one.
    pub fn draw(random: &mut Random) -> Self {
        Self {
            mlp_share: random.uniform(),
            head_dim: std::array::from_fn(|_| random.uniform()),
            kv_group: random.uniform(),
            experts: random.uniform(),
        }
    }
}

impl Terms {
    /// Those of the file.
    pub fn get() -> &'static Self {
        &TERMS
    }

    /// What a part other than size and shape costs in one draw, nats per token: against the best share of the MLP, heads of
    /// 128, as many key/value heads as query heads, no experts.
    pub fn cost(&self, part: Part, profile: &Profile, chance: &Chance) -> f64 {
        match part {
            Part::SizeAndShape => 0.0,
            Part::MlpShare => {
                let v = between(self.mlp_share.v, chance.mlp_share);
                v * self.share_penalty(profile.mlp_share) * self.scale.loss_nats
            }
            Part::HeadDim => {
                let place = (profile.head_dim / 8.0).round() as usize;
                let chance = chance.head_dim[place.min(HEAD_SIZES - 1)];
                triangular(self.head_costs(profile.head_dim), chance) / 1e3
            }
            Part::KvGroup => {
                let [low, high] = self.kv_costs(profile);
                between([low, high], chance.kv_group) / 1e3
            }
            Part::Experts => {
                let v = between(self.experts.v, chance.experts);
                v * self.expert_gain(profile) * self.scale.loss_nats
            }
        }
    }

    /// Whether experts were measured this sparse.
    pub fn experts_inside(&self, sparsity: f64) -> bool {
        within(self.experts.inside, sparsity)
    }

    /// `g` of the file: a share of the loss, 0 at the best.
    fn share_penalty(&self, share: f64) -> f64 {
        let MlpShare { b0, b1, b2, .. } = self.mlp_share;
        let curve = |r: f64| b0 + b1 * r.ln() + b2 / r;
        curve(share) / curve(b2 / b1) - 1.0
    }

    /// Least, mode and most of what heads of a size cost against 128, mnat.
    fn head_costs(&self, size: f64) -> [f64; 3] {
        if size == 128.0 {
            return [0.0; 3];
        }
        let after = self.head_dim.partition_point(|known| (known.size as f64) < size);
        let after = after.clamp(1, self.head_dim.len() - 1);
        let [below, above] = [&self.head_dim[after - 1], &self.head_dim[after]];
        let [low, high] = [below.size as f64, above.size as f64];
        let part = ((size / low).ln() / (high / low).ln()).clamp(0.0, 1.0);
        std::array::from_fn(|i| below.mnat[i] + part * (above.mnat[i] - below.mnat[i]))
    }

    /// Least and most of what sharing keys costs against a key/value head per query head, mnat.
    fn kv_costs(&self, profile: &Profile) -> [f64; 2] {
        let group = profile.kv_group.ln();
        let four = 4f64.ln();
        let all = profile.heads.ln().max(2.0 * four);
        let [of_four, of_all] = [self.kv_group.of_four_mnat, self.kv_group.of_all_mnat];
        std::array::from_fn(|i| {
            if group <= four {
                of_four[i] * group / four
            } else {
                let part = ((group - four) / (all - four)).min(1.0);
                of_four[i] + part * (of_all[i] - of_four[i])
            }
        })
    }

    /// Change of `ln` of the loss by experts, at most 0.
    fn expert_gain(&self, profile: &Profile) -> f64 {
        let slope = self.experts.e1 + self.experts.e2 * (profile.size.blocks / 1e8).ln();
        (slope * profile.sparsity.ln()).min(0.0)
    }

    /// Loss normalised by unigrams at this many FLOPs: only differences between vocabularies of one family of
    /// tokenizers mean something.
    pub fn vocabulary(&self, profile: &Profile, tokens: f64, vocab: u64) -> f64 {
        let Vocabulary {
            l0,
            l1,
            a,
            l2,
            e,
            l3,
            d,
            ..
        } = self.vocabulary;
        let (blocks, width) = (profile.size.blocks / 1e6, profile.size.width / 1e3);
        let vocab = vocab as f64 / 1e3;
        let flops = 6.0 * profile.size.blocks * tokens / 1e15;
        l0 + l1 * blocks.powf(-a)
            + l2 * (vocab * width).powf(-e)
            + l3 * (flops / 6.0 / (blocks + vocab * width)).powf(-d)
    }
}

fn between([low, high]: [f64; 2], share: f64) -> f64 {
    low + (high - low) * share
}

/// The quantile of a triangular distribution.
fn triangular([low, mode, high]: [f64; 3], share: f64) -> f64 {
    let width = high - low;
    if width <= 0.0 {
        return mode;
    }
    if share * width < mode - low {
        low + (share * width * (mode - low)).sqrt()
    } else {
        high - ((1.0 - share) * width * (high - mode)).sqrt()
    }
}
