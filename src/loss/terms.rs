//! What a shape costs in loss beside size, layers and width: `data/loss/terms.toml`.

use crate::loss::Profile;
use crate::named_enum;
use crate::ops::Dtype;
use crate::random::Random;
use crate::toml_text::built_in;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static TERMS: LazyLock<Terms> = LazyLock::new(|| built_in(&shapewise_data::LOSS_TERMS));

named_enum! {
    /// Parts of a difference.
    Part {
        /// Parameters, layers and width.
        SizeAndShape = "size_and_shape",
        /// Parameters of the MLP over those of attention.
        MlpShare = "mlp_share",
        /// Whether the MLP has a gate.
        Gate = "gate",
        /// Width of one head.
        HeadDim = "head_dim",
        /// Query heads per key/value head.
        KvGroup = "kv_group",
        /// Experts over those that a token visits, and their granularity.
        Experts = "experts",
        /// Latent attention.
        LatentAttention = "latent_attention",
        /// Layers that see a window of keys.
        Window = "window",
        /// Layers with linear attention.
        LinearAttention = "linear_attention",
        /// Number format of training.
        Format = "format",
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
    no_gate: Curve,
    head_dim: Curve,
    kv_group: Curve,
    experts: Experts,
    latent: Curve,
    window: Windows,
    linear: Curve,
    format: BTreeMap<Dtype, Curve>,
    scale: Scale,
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

/// Standard deviations in 10^-3 nats.
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

/// A quantity by the place of a shape: place, least, mode, most.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    rows: Vec<[f64; 4]>,
    large: Option<Vec<[f64; 4]>>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Windows {
    keys: [f64; 2],
    curve: Curve,
}

/// Parameters of the blocks up to which the rows of a curve hold, and from which those of large models do.
const MIXED: [f64; 2] = [1e9, 4e9];

impl Curve {
    /// The quantile `chance` at a place, in a model of so many parameters.
    fn at(&self, place: f64, blocks: f64, chance: f64) -> f64 {
        let of = |rows| triangular(row_at(rows, place), chance);
        let Some(large) = &self.large else {
            return of(&self.rows);
        };
        let part = part_between(MIXED, blocks);
        between([of(&self.rows), of(large)], part)
    }

    /// Whether a place is between the ends of the rows that count in a model of so many parameters.
    fn reaches(&self, place: f64, blocks: f64) -> bool {
        let holds = |rows: &[[f64; 4]]| within([rows[0][0], rows[rows.len() - 1][0]], place);
        let large = self.large.iter().filter(|_| blocks > MIXED[0]);
        [&self.rows].into_iter().chain(large).all(|rows| holds(rows))
    }
}

/// Least, mode and most at a place.
fn row_at(rows: &[[f64; 4]], place: f64) -> [f64; 3] {
    let after = rows.partition_point(|row| row[0] < place);
    let [below, above] = [after.max(1) - 1, after.min(rows.len() - 1)].map(|index| rows[index]);
    let part = part_between([below[0], above[0]], place);
    std::array::from_fn(|i| between([below[i + 1], above[i + 1]], part))
}

/// How far a value is from the one to the other, by the logarithm.
fn part_between([low, high]: [f64; 2], value: f64) -> f64 {
    if low >= high {
        return 0.0;
    }
    ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Experts {
    e1: f64,
    e2: f64,
    v: Curve,
    inside: [f64; 2],
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    loss_nats: f64,
}

/// Head sizes that have a random number of their own: multiples of 8 up to 256.
const HEAD_SIZES: usize = 33;

/// The random numbers of one draw, uniform between 0 and 1, which all shapes share.
#[derive(Clone, Debug)]
pub struct Chance {
    parts: [f64; Part::ALL.len()],
    head_dim: [f64; HEAD_SIZES],
}

impl Chance {
    /// The median of everything.
    pub const MIDDLE: Self = Self {
        parts: [0.5; Part::ALL.len()],
        head_dim: [0.5; HEAD_SIZES],
    };

    /// The next one.
    pub fn draw(random: &mut Random) -> Self {
        Self {
            parts: std::array::from_fn(|_| random.uniform()),
            head_dim: std::array::from_fn(|_| random.uniform()),
        }
    }
}

impl Terms {
    /// Those of the file.
    pub fn get() -> &'static Self {
        &TERMS
    }

    /// What a part other than size and shape costs in one draw, nats per token: against the best share of a gated MLP, heads of
    /// 128, as many key/value heads as query heads, no experts, 16 bits.
    pub fn cost(&self, part: Part, profile: &Profile, chance: &Chance) -> f64 {
        let of_part = chance.parts[part as usize];
        let at = |curve: &Curve, place: f64, chance: f64| curve.at(place, profile.size.blocks, chance);
        match part {
            Part::SizeAndShape => 0.0,
            Part::MlpShare => {
                let v = between(self.mlp_share.v, of_part);
                v * self.share_penalty(profile.mlp_share) * self.scale.loss_nats
            }
            Part::HeadDim => {
                let place = (profile.head_dim / 8.0).round() as usize;
                let chance = chance.head_dim[place.min(HEAD_SIZES - 1)];
                at(&self.head_dim, profile.head_dim, chance) / 1e3
            }
            Part::KvGroup => at(&self.kv_group, sharing(profile), of_part) / 1e3,
            Part::Experts if profile.sparsity == 1.0 => 0.0,
            Part::Experts => {
                let v = at(&self.experts.v, profile.granularity, of_part);
                v * self.expert_gain(profile) * self.scale.loss_nats
            }
            Part::Gate | Part::LatentAttention | Part::Window | Part::LinearAttention | Part::Format => {
                let known = self.kind(part, profile).filter(|_| self.knows(part, profile));
                known.map_or(0.0, |(curve, place)| at(curve, place, of_part)) / 1e3
            }
        }
    }

    /// The curve of a kind that is not the usual one, and the place of the profile; `None` if it is the usual one.
    fn kind(&self, part: Part, profile: &Profile) -> Option<(&Curve, f64)> {
        match part {
            Part::Gate => (!profile.gated).then_some((&self.no_gate, 1.0)),
            Part::LatentAttention => profile.latent.map(|rank| (&self.latent, rank)),
            Part::Window if profile.linear.is_none() => {
                let window = profile.window.is_some();
                window.then(|| (&self.window.curve, profile.full_share()))
            }
            Part::LinearAttention => {
                let linear = profile.linear.is_some();
                linear.then(|| (&self.linear, profile.full_share().max(1e-3)))
            }
            Part::Format => self.format.get(&profile.format).map(|curve| (curve, 1.0)),
            _ => None,
        }
    }

    /// Whether what a kind costs was measured.
    pub fn knows(&self, part: Part, profile: &Profile) -> bool {
        let convolves = profile.linear.is_some_and(|(kind, _)| kind.is_none());
        if convolves && part == Part::LinearAttention {
            return false;
        }
        let keys = profile.window.filter(|_| part == Part::Window);
        self.kind(part, profile).is_none_or(|(curve, place)| {
            curve.reaches(place, profile.size.blocks)
                && keys.is_none_or(|(keys, _)| within(self.window.keys, keys as f64))
        })
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

    /// Change of `ln` of the loss by experts, at most 0.
    fn expert_gain(&self, profile: &Profile) -> f64 {
        let slope = self.experts.e1 + self.experts.e2 * (profile.size.blocks / 1e8).ln();
        (slope * profile.sparsity.ln()).min(0.0)
    }
}

/// Query heads per key/value head, stretched from 4 on so that one key/value head is at 16.
fn sharing(profile: &Profile) -> f64 {
    let all = profile.heads.max(16.0);
    match profile.kv_group <= 4.0 {
        true => profile.kv_group,
        false => 4.0 * f64::powf(4.0, part_between([4.0, all], profile.kv_group)),
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
