//! Speculative decoding: a small part drafts tokens, and one step of the model verifies them all (arXiv 2211.17192).
//!
//! A step that verifies `k` draft tokens of a sequence runs the model on `k + 1` tokens, and the part that drafts `k` times: once
//! on the tokens that the last step kept, then on one token at a time.

use super::workload::fail;
use super::{Architecture, Mode, Recipe, Stated, Window, Workload};
use crate::error::Result;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};
use utoipa::{PartialSchema, ToSchema};

named_enum! {
    /// What drafts tokens.
    #[derive(Default)]
    Draft {
        /// A layer like the last one of the model, trained with it for this (multi-token prediction, arXiv 2412.19437, section 2.2).
        #[default]
        Mtp = "mtp" or "nextn" or "deepseek_mtp" or "qwen3_next_mtp",
        /// A dense layer in 16 bits, trained afterwards (EAGLE-3, arXiv 2503.01840).
        Eagle = "eagle" or "eagle3" or "eagle2",
        /// What follows an earlier copy of the last tokens, in the prompt or the output; takes no time of the GPU.
        Ngram = "ngram" or "prompt-lookup" or "suffix",
    }
}

impl Draft {
    /// The share of draft tokens that is kept where it is not known: of MTP layers 0.92, 0.74 and 0.56 one after the other
    /// (GLM-4.5-Air) and of EAGLE 2.25 tokens a step of three drafts (Qwen3-8B; both arXiv 2601.11580), of one MTP token 0.85 to 0.9
    /// (arXiv 2412.19437, section 5.4.3). How often a text repeats itself is a property of the text.
    const fn usual_acceptance(self) -> Option<f64> {
        match self {
            Self::Mtp => Some(0.8),
            Self::Eagle => Some(0.62),
            Self::Ngram => None,
        }
    }
}

/// Widths of the dense layer of EAGLE per width of the model, where that has no dense layer: those of published ones for
/// Qwen3-235B-A22B (24,576 of 4,096) and gpt-oss-120b (17,280 of 2,880).
const EAGLE_WIDTHS: u64 = 6;

/// How far from what is assumed the acceptance of a draft token may be.
const ACCEPTANCE_WIDTH: f64 = 0.1;

/// The share of draft tokens that is kept, given that those before them were; to a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Acceptance(Option<u16>);

impl Acceptance {
    /// What is usual of what drafts.
    pub const ASSUMED: Self = Self(None);

    /// This share, from 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0)
            .contains(&share)
            .then(|| Self(Some((share * 1000.0).round() as u16)))
    }

    fn share(self) -> Option<f64> {
        self.0.map(|thousandths| f64::from(thousandths) / 1000.0)
    }
}

impl FromStr for Acceptance {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let share = text.parse().ok().and_then(Self::new);
        share.ok_or_else(|| "allowed: a share from 0 to 1".to_owned())
    }
}

impl fmt::Display for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share() {
            Some(share) => write!(f, "{share}"),
            None => f.pad("assumed"),
        }
    }
}

impl Serialize for Acceptance {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.share().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Acceptance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let share = f64::deserialize(deserializer)?;
        Self::new(share).ok_or_else(|| D::Error::custom("expected a share from 0 to 1"))
    }
}

impl PartialSchema for Acceptance {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0.0))
            .maximum(Some(1.0))
            .into()
    }
}

impl ToSchema for Acceptance {}

impl Workload {
    /// The same in which one step makes one token.
    pub(crate) fn without_speculation(self) -> Self {
        Self {
            seq: if self.mode == Mode::Decode { 1 } else { self.seq },
            speculate: 0,
            draft: Draft::Mtp,
            acceptance: Acceptance::ASSUMED,
            ..self
        }
    }

    /// Prompts of so many tokens on the ranks of a step that decodes.
    pub fn prompts(self, batch: u64, seq: u64) -> Self {
        Self {
            mode: Mode::Prefill,
            batch,
            seq,
            context: 0,
            microbatches: 1,
            ..self.without_speculation()
        }
    }

    /// Sequences and their tokens where every token of a decoding step is a sequence of its own.
    pub(super) fn recurrent_tokens(&self) -> [u64; 2] {
        match self.mode {
            Mode::Decode => [self.tokens(), 1],
            Mode::Train | Mode::Prefill => [self.batch, self.seq],
        }
    }

    /// The share of draft tokens that is kept, and whether that is assumed; `None` without drafts.
    pub fn accepted(&self) -> Option<(f64, bool)> {
        let drafts = self.speculate > 0;
        let told = self.acceptance.share().map(|share| (share, false));
        told.or_else(|| self.draft.usual_acceptance().map(|share| (share, true)))
            .filter(|_| drafts)
    }

    /// Tokens that a step gives each sequence: in decode one, and the draft tokens before the first that is not kept, on average
    /// `(1 - p^(k + 1)) / (1 - p)` (arXiv 2211.17192, equation 1).
    pub fn kept_tokens(&self) -> f64 {
        match self.accepted() {
            Some((share, _)) => kept(share, self.speculate),
            None => self.seq as f64,
        }
    }

    /// `3 drafts by mtp, 0.8 of them kept (assumed)`; `None` without drafts.
    pub fn drafts_text(&self) -> Option<String> {
        let (share, is_assumed) = self.accepted()?;
        let assumed = if is_assumed { " (assumed)" } else { "" };
        Some(format!(
            "{} drafts by {}, {share} of them kept{assumed}",
            self.speculate, self.draft
        ))
    }

    /// Half width of the 90 % interval of the logarithm of [`Workload::kept_tokens`]: 0 unless the acceptance is assumed.
    pub fn kept_half_width(&self) -> f64 {
        match self.accepted() {
            Some((share, true)) => {
                let at = |share: f64| kept(share.min(1.0), self.speculate);
                (at(share + ACCEPTANCE_WIDTH) / at(share - ACCEPTANCE_WIDTH)).ln() / 2.0
            }
            _ => 0.0,
        }
    }

    /// The model of one layer that drafts, beside this one, and its first and each further pass; `None` where none does.
    pub(super) fn drafter(&self, arch: &Architecture) -> Option<(Architecture, [Self; 2])> {
        if self.speculate == 0 || self.draft == Draft::Ngram {
            return None;
        }
        let mut drafter = Architecture {
            layers: 1,
            window: None,
            linear: None,
            mlp_layers: None,
            further: Vec::new(),
            kinds: Vec::new(),
            ..arch.clone()
        };
        if let Some(compressed) = &mut drafter.compressed {
            compressed.stride = 0;
            drafter.index = None;
            drafter.window = arch.window.map(|window| Window { layers: 1, ..window });
        }
        if let Some(index) = &mut drafter.index {
            index.layers = 1;
        }
        if let Some(moe) = &mut drafter.moe {
            let has_dense_layers = moe.dense_layers > 0 || moe.interval > 1;
            (moe.dense_layers, moe.interval) = (0, 1);
            drafter.mlp.d_ff = match self.draft {
                Draft::Eagle if has_dense_layers => drafter.mlp.d_ff,
                Draft::Eagle => EAGLE_WIDTHS * drafter.hidden,
                Draft::Mtp | Draft::Ngram => moe.d_ff,
            };
        }
        let mut each = self.without_speculation();
        if self.draft == Draft::Eagle {
            (drafter.moe, each.ep, each.expert_tp) = (None, 1, 0);
            (each.dtype, each.recipe) = (self.activation_dtype(), Recipe::default());
            drafter.stated = Stated::default();
        }
        // Nothing drafts for the part that drafts.
        let first = Self {
            seq: self.seq,
            speculate: self.speculate,
            draft: Draft::Ngram,
            acceptance: Acceptance(Some(0)),
            ..each
        };
        Some((drafter, [first, each]))
    }

    /// The same with so many draft tokens a step; fails where they cannot be, or what drafts is named and nothing is drafted.
    pub fn speculating(
        self,
        arch: &Architecture,
        tokens: Option<u64>,
        draft: Option<Draft>,
        acceptance: Option<Acceptance>,
    ) -> Result<Self> {
        let named = draft.map(|draft| ("draft", draft.to_string()));
        let named = named.or_else(|| Some(("acceptance", acceptance?.to_string())));
        match (tokens, named) {
            (None, Some((field, value))) => fail(field, value, "nothing without speculate, the draft tokens"),
            (None | Some(0), _) => Ok(self),
            (Some(tokens), _) if self.mode != Mode::Decode => fail("speculate", tokens, "0 but in decode"),
            (Some(tokens), _) => Ok(Self {
                seq: 1 + tokens,
                speculate: tokens,
                draft: draft.unwrap_or(match arch.moe.is_some() || arch.stated.predicts_further {
                    true => Draft::Mtp,
                    false => Draft::Eagle,
                }),
                acceptance: acceptance.unwrap_or_default(),
                ..self
            }),
        }
    }

    /// Refuses drafts that no server makes.
    pub(super) fn validate_speculation(&self) -> Result<()> {
        match self.speculate {
            0 => Ok(()),
            _ if self.mode != Mode::Decode => fail("speculate", self.speculate, "0 but in decode"),
            _ if self.speculate > MOST_DRAFTS => {
                fail("speculate", self.speculate, &format!("0 to {MOST_DRAFTS} draft tokens"))
            }
            _ if self.pp > 1 => fail("speculate", self.speculate, "0 with pipeline stages"),
            _ if self.accepted().is_none() => {
                let allowed = "a share from 0 to 1: how often a text repeats itself is a property of the text";
                fail("acceptance", self.acceptance, allowed)
            }
            _ => Ok(()),
        }
    }
}

/// The most draft tokens of a step: kernels that decode take as many queries of a sequence.
const MOST_DRAFTS: u64 = 15;

/// Tokens of a step on average that verifies so many drafts, each kept with this probability after those before it.
fn kept(share: f64, drafts: u64) -> f64 {
    (0..=drafts).map(|place| share.powi(place as i32)).sum()
}

#[cfg(test)]
mod tests {
    use super::super::{Phase, Practice, Preset, Role, lower, memory_use};
    use super::*;

    fn speculating(name: &str, batch: u64, tokens: u64, draft: Draft) -> (Architecture, Workload) {
        let arch = Preset::find(name).unwrap().architecture.clone();
        let work = Workload::decode(batch, 4096).speculating(&arch, Some(tokens), Some(draft), None);
        (arch, work.unwrap())
    }

    #[test]
    fn a_step_gives_a_token_and_the_drafts_before_the_first_that_is_refused() {
        let (_, work) = speculating("deepseek-v3", 8, 3, Draft::Mtp);
        assert!((work.kept_tokens() - 2.952).abs() < 1e-9);
        let told = |share| Workload {
            acceptance: Acceptance::new(share).unwrap(),
            ..work
        };
        assert_eq!([0.0, 1.0].map(|share| told(share).kept_tokens()), [1.0, 4.0]);
        assert_eq!(told(0.8).kept_half_width(), 0.0);
        assert!(
            (0.14..0.17).contains(&work.kept_half_width()),
            "{}",
            work.kept_half_width()
        );
        assert_eq!(Workload::decode(8, 4096).kept_tokens(), 1.0);
        assert_eq!(work.without_speculation(), Workload::decode(8, 4096));
    }

    #[test]
    fn the_model_verifies_all_drafts_at_once_and_its_layer_drafts_one_after_the_other() {
        let (arch, work) = speculating("deepseek-v3", 8, 3, Draft::Mtp);
        let step = lower(&arch, &work).unwrap();
        let count = |phase, role| {
            let items = step
                .items
                .iter()
                .filter(move |item| (item.phase, item.role) == (phase, role));
            items.map(|item| item.count).sum::<u64>()
        };
        assert_eq!(count(Phase::Forward, Role::Attention), 61);
        for role in [Role::Attention, Role::Experts, Role::Logits, Role::DraftInput] {
            assert_eq!(count(Phase::Draft, role), 3, "{role}");
        }
        assert_eq!(step.tokens, 8.0 * work.kept_tokens());
        let memory = |work: &Workload| memory_use(&arch, work, &Practice::default()).unwrap();
        let more = memory(&work).weights - memory(&work.without_speculation()).weights;
        let kept = |name: &str| {
            let arch = &Preset::find(name).unwrap().architecture;
            let plain = Workload::decode(8, 64);
            let of = |work: Workload| memory_use(arch, &work, &Practice::default()).unwrap().kv_cache;
            of(plain.speculating(arch, Some(3), Some(Draft::Mtp), None).unwrap()) / of(plain)
        };
        // The states of its 36 recurrent layers after each of four tokens.
        assert!((3.3..4.1).contains(&kept("qwen3-next-80b-a3b")) && kept("llama-3-8b") < 1.1);
        // A layer of 11.5 billion parameters (arXiv 2412.19437 counts 14 with embedding and head, which are shared), in 16 bits.
        assert!((11.3e9..11.8e9).contains(&(more.bytes() / 2.0)), "{more}");
    }

    #[test]
    fn eagle_is_a_dense_layer_and_matches_in_the_text_are_free() {
        for (name, width) in [
            ("llama-3-8b", 14_336),
            ("qwen3-235b-a22b", 24_576),
            ("deepseek-v3", 18_432),
        ] {
            let (arch, work) = speculating(name, 1, 2, Draft::Eagle);
            let (drafter, _) = work.drafter(&arch).unwrap();
            assert_eq!((drafter.mlp.d_ff, drafter.moe), (width, None), "{name}");
            lower(&arch, &work).unwrap();
        }
        let arch = &Preset::find("llama-3-8b").unwrap().architecture;
        let plain = Workload::decode(1, 4096);
        let drafted = |acceptance| {
            plain
                .speculating(arch, Some(2), Some(Draft::Ngram), acceptance)
                .unwrap()
        };
        let refused = lower(arch, &drafted(None)).unwrap_err();
        assert!(refused.to_string().contains("property of the text"), "{refused}");
        let step = lower(arch, &drafted(Acceptance::new(0.5))).unwrap();
        assert!(step.items.iter().all(|item| item.phase != Phase::Draft));
        assert_eq!(step.tokens, 1.75);
    }

    #[test]
    fn drafts_are_refused_where_nothing_decodes() {
        let arch = &Preset::find("llama-3-8b").unwrap().architecture;
        let refused = |work: Workload| lower(arch, &work).unwrap_err().to_string();
        let drafted = Workload::decode(1, 4096)
            .speculating(arch, Some(2), None, None)
            .unwrap();
        assert!(
            refused(Workload {
                speculate: 2,
                ..Workload::prefill(1, 64)
            })
            .contains("0 but in decode")
        );
        assert!(refused(Workload { pp: 2, ..drafted }).contains("0 with pipeline stages"));
        assert!(refused(Workload { seq: 1, ..drafted }).contains("1 in decode beside speculate"));
        let many = Workload::decode(1, 4096)
            .speculating(arch, Some(16), None, None)
            .unwrap();
        assert!(refused(many).contains("0 to 15"));
        let named = Workload::decode(1, 4096).speculating(arch, None, Some(Draft::Eagle), None);
        assert!(named.unwrap_err().to_string().contains("nothing without speculate"));
    }
}
