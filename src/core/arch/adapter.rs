//! Low-rank adapters (LoRA, arXiv 2106.09685) beside frozen weights, which may be stored in fewer bits (QLoRA, arXiv 2305.14314).
//!
//! An adapter of rank `r` beside a map from `m` to `n` has a map from `m` to `r` and one from `r` to `n`. Maps that this program
//! runs as one GEMM (queries, keys and values; gate and up) have an adapter each, as PEFT gives them.

use super::layer::{Linear, Shards, StageLayers};
use super::params::{rank_expert_parameters, rank_linears, rank_parameters};
use super::stored::{Packing, Stored};
use super::{Architecture, MlpKind, Role, Workload};
use crate::toml_text::built_in;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, schema::Type};
use utoipa::{PartialSchema, ToSchema};

named_enum! {
    /// How training stores weights that it does not change.
    #[derive(Default)]
    BaseDtype {
        /// As all others.
        #[default]
        Auto = "auto" or "none",
        /// Four bits, a scale a block of 64 (bitsandbytes).
        Nf4 = "nf4" or "4bit" or "bnb-4bit",
        /// The same, its scales in 8 bits (`bnb_4bit_use_double_quant`).
        Nf4Double = "nf4-double" or "nf4_double" or "nf4-dq",
        /// Four bits, a scale a group of 128 (GPTQ, AWQ).
        Int4 = "int4" or "gptq" or "awq",
        /// Eight bits, a scale a row (LLM.int8()).
        Int8 = "int8" or "8bit",
        /// Eight bits of floating point, a scale a row.
        Fp8 = "fp8",
    }
}

/// An entry of `data/adapters.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    packing: Packing,
    /// Bytes a weight and pass at the bandwidth of the memory.
    traffic: f64,
    #[serde(rename = "source")]
    _source: String,
}

static BASES: LazyLock<BTreeMap<BaseDtype, Base>> = LazyLock::new(|| built_in(&shapewise_data::ADAPTERS));

/// Which linear maps have adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Targets(u16);

const Q: u16 = 1 << 0;
const K: u16 = 1 << 1;
const V: u16 = 1 << 2;
const O: u16 = 1 << 3;
const GATE: u16 = 1 << 4;
const UP: u16 = 1 << 5;
const DOWN: u16 = 1 << 6;
const QKV: u16 = 1 << 7;
const GATE_UP: u16 = 1 << 8;
const ROUTER: u16 = 1 << 9;
const HEAD: u16 = 1 << 10;

impl Targets {
    /// All linear maps but the head.
    pub const ALL_LINEAR: Self = Self(Self::NAMES[0].1);

    /// Those of attention.
    pub const ATTENTION: Self = Self(Self::NAMES[1].1);

    /// Names as they are written, then as others write them; sets first.
    const NAMES: [(&'static [&'static str], u16); 14] = [
        (
            &["all-linear", "all", "all_linear"],
            Q | K | V | O | GATE | UP | DOWN | ROUTER,
        ),
        (&["attention", "attn"], Q | K | V | O),
        (&["mlp"], GATE | UP | DOWN),
        (&["q", "q_proj", "wq"], Q),
        (&["k", "k_proj", "wk"], K),
        (&["v", "v_proj", "wv"], V),
        (&["o", "o_proj", "output_proj", "wo"], O),
        (&["gate", "gate_proj", "w1"], GATE),
        (&["up", "up_proj", "w3"], UP),
        (&["down", "down_proj", "w2"], DOWN),
        // Stored as one map, with one adapter.
        (&["qkv", "qkv_proj", "query_key_value", "c_attn"], QKV),
        (&["gate_up", "gate_up_proj"], GATE_UP),
        (&["router"], ROUTER),
        (&["head", "lm_head", "output"], HEAD),
    ];

    const ALLOWED: &'static str =
        "all-linear, attention, mlp, or a list of q, k, v, o, gate, up, down, qkv, gate_up, router and head";

    /// The outputs of the adapters beside a linear map of one rank; empty if it has none.
    pub(super) fn outputs(self, arch: &Architecture, linear: &Linear) -> impl Iterator<Item = u64> {
        let all = linear.outputs;
        let gated = arch.mlp.kind == MlpKind::Swiglu;
        let has = move |of: u16| self.0 & if gated { of } else { of & !(GATE | GATE_UP) } != 0;
        let parts = match linear.role {
            Role::Qkv if self.0 & QKV == 0 => {
                let [keys, values] = linear.keys_values;
                [(Q, all - keys - values), (K, keys), (V, values)]
            }
            Role::MlpUp | Role::SharedUp | Role::ExpertsUp if gated && self.0 & GATE_UP == 0 => {
                [(GATE, all / 2), (UP, all / 2), (0, 0)]
            }
            role => [(Self::of(role), all), (0, 0), (0, 0)],
        };
        parts
            .into_iter()
            .filter(move |(of, outputs)| has(*of) && *outputs > 0)
            .map(|(_, outputs)| outputs)
    }

    /// The targets in a linear map.
    const fn of(role: Role) -> u16 {
        match role {
            Role::Qkv | Role::LinearInput | Role::LinearDecay | Role::LinearGate => Q | K | V | QKV,
            Role::QueryDown | Role::QueryUp | Role::AttentionGate => Q,
            Role::KeyValueDown | Role::KeyValueUp | Role::KeyCompression => K | V,
            Role::AttentionOutputDown | Role::AttentionProjection | Role::LinearOutput => O,
            Role::MlpUp | Role::SharedUp | Role::ExpertsUp => GATE | UP | GATE_UP,
            Role::MlpDown | Role::SharedDown | Role::ExpertsDown => DOWN,
            Role::Router | Role::ExpertsLatentDown | Role::ExpertsLatentUp => ROUTER,
            Role::Logits => HEAD,
            _ => 0,
        }
    }
}

impl Default for Targets {
    fn default() -> Self {
        Self::ALL_LINEAR
    }
}

impl FromStr for Targets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let of = |name: &str| Self::NAMES.iter().find(|(names, _)| names.contains(&name));
        let mut parts = text.split(',').map(|part| of(part.trim()).map(|(_, targets)| targets));
        let all = parts.try_fold(0, |all, targets| Some(all | targets?));
        all.map(Self).ok_or_else(|| format!("allowed: {}", Self::ALLOWED))
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut names) = (self.0, Vec::new());
        for (known, targets) in Self::NAMES {
            if rest & targets == targets {
                names.push(known[0]);
                rest &= !targets;
            }
        }
        f.pad(&names.join(","))
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A text with commas, or a list as PEFT's `target_modules`.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            List(Vec<String>),
        }
        let text = match Written::deserialize(deserializer) {
            Ok(Written::Text(text)) => text,
            Ok(Written::List(names)) => names.join(","),
            Err(_) => String::new(),
        };
        text.parse()
            .map_err(|_| D::Error::custom(format!("expected {}", Self::ALLOWED)))
    }
}

impl PartialSchema for Targets {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(Self::ALLOWED));
        text.pattern(Some("^[a-zA-Z0-9_-]+(, ?[a-zA-Z0-9_-]+)*$"))
            .examples(["q,v"])
            .into()
    }
}

impl ToSchema for Targets {}

impl Architecture {
    /// The format of the weights below adapters of a rank: the one that is asked for, else the nearest to a checkpoint that is stored
    /// in integers.
    pub fn base_dtype(&self, lora: Option<u64>, asked: BaseDtype) -> BaseDtype {
        let stored = self.stated.stored().and_then(Stored::integers);
        let Some(packing) = stored.filter(|_| asked == BaseDtype::Auto && lora.is_some_and(|rank| rank > 0)) else {
            return asked;
        };
        let apart = |base: &Base| (base.packing.bytes(self.hidden) - packing.bytes(self.hidden)).abs();
        let nearest = BASES.iter().min_by(|(_, a), (_, b)| apart(a).total_cmp(&apart(b)));
        nearest.map_or(asked, |(dtype, _)| *dtype)
    }
}

impl Workload {
    /// Whether adapters alone are trained.
    pub const fn has_adapters(&self) -> bool {
        self.lora > 0
    }

    /// `LoRA 16 of all-linear, nf4 base`; `None` without adapters.
    pub fn adapters_text(&self) -> Option<String> {
        let base = match self.base_dtype {
            BaseDtype::Auto => String::new(),
            packed => format!(", {packed} base"),
        };
        self.has_adapters()
            .then(|| format!("LoRA {} of {}{base}", self.lora, self.lora_targets))
    }

    /// The outputs of the adapters beside a linear map; none without adapters.
    pub(super) fn adapters(&self, arch: &Architecture, linear: &Linear) -> impl Iterator<Item = u64> {
        let targets = if self.has_adapters() {
            self.lora_targets
        } else {
            Targets(0)
        };
        targets.outputs(arch, linear)
    }

    /// Whether training keeps the inputs of linear maps of this role: for the gradients of their weights or of adapters.
    pub(super) const fn keeps_inputs(&self, role: Role) -> bool {
        !self.has_adapters() || self.lora_targets.0 & Targets::of(role) != 0
    }

    /// How the frozen weights of a linear map are packed; `None` if they are not.
    fn base(&self, linear: &Linear) -> Option<&'static Base> {
        let packed = !matches!(linear.role, Role::Logits | Role::Router);
        BASES.get(&self.base_dtype).filter(|_| packed && self.has_adapters())
    }

    /// What unpacking the weights of a linear map costs in each pass over them, in bytes.
    pub(super) fn unpacked_bytes(&self, linear: &Linear) -> Option<f64> {
        let weights = (linear.inputs * linear.outputs) as f64;
        self.base(linear).map(|base| weights * base.traffic)
    }

    /// Bytes of the frozen weights of a stage on one rank, and those of them in routed experts; 0 without adapters.
    pub(super) fn frozen_bytes(&self, arch: &Architecture, stage: StageLayers, first: bool, last: bool) -> [f64; 2] {
        if !self.has_adapters() {
            return [0.0; 2];
        }
        let (shards, wide) = (Shards::of(self), self.activation_dtype().size() as f64);
        let all = rank_parameters(arch, shards, stage, first, last);
        let mut bytes = [all, rank_expert_parameters(arch, shards, stage)].map(|count| count as f64 * wide);
        for (linear, layers) in rank_linears(arch, shards, stage, false) {
            let Some(base) = self.base(&linear) else { continue };
            let weights = (layers * linear.members * linear.inputs * linear.outputs) as f64;
            let saved = weights * (wide - base.packing.bytes(linear.inputs));
            bytes[0] -= saved;
            bytes[1] -= if linear.role.is_of_experts() { saved } else { 0.0 };
        }
        bytes
    }

    /// Parameters of a stage on one rank that are trained, and those of them in routed experts.
    pub(super) fn trained(&self, arch: &Architecture, stage: StageLayers, first: bool, last: bool) -> [u64; 2] {
        let shards = Shards::of(self);
        if !self.has_adapters() {
            let experts = rank_expert_parameters(arch, shards, stage);
            return [rank_parameters(arch, shards, stage, first, last), experts];
        }
        let mut trained = [0; 2];
        for (linear, layers) in rank_linears(arch, shards, stage, last) {
            let adapters = self.adapters(arch, &linear).map(|outputs| linear.inputs + outputs);
            let count = layers * linear.members * self.lora * adapters.sum::<u64>();
            trained[0] += count;
            trained[1] += if linear.role.is_of_experts() { count } else { 0 };
        }
        trained
    }

    /// Parameters of a whole model that a step changes, where adapters alone are trained.
    pub fn adapter_parameters(&self, arch: &Architecture) -> Option<u64> {
        let whole = Self {
            lora: self.lora,
            lora_targets: self.lora_targets,
            ..Self::train(1, 1)
        };
        self.has_adapters()
            .then(|| whole.trained(arch, StageLayers::new(arch, 1, 1), true, true)[0])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    /// What PEFT's `print_trainable_parameters` prints: its README and documentation; arXiv 2305.14314.
    #[test]
    fn adapters_have_as_many_parameters_as_peft_counts() {
        for (model, lora, targets, published) in [
            ("llama-2-7b", 8, "q,v", 4_194_304),
            ("llama-2-7b", 64, "all-linear", 159_907_840),
            ("llama-3-8b", 16, "all-linear", 41_943_040),
            ("llama-3-8b", 16, "q_proj,k_proj,v_proj,o_proj", 13_631_488),
            ("mistral-7b-v0.1", 8, "q,v", 3_407_872),
            ("gpt2", 8, "c_attn", 294_912),
        ] {
            let work = Workload {
                lora,
                lora_targets: targets.parse().unwrap(),
                ..Workload::train(1, 128)
            };
            let arch = &Preset::find(model).unwrap().architecture;
            assert_eq!(work.adapter_parameters(arch), Some(published), "{model} {targets}");
            let halves = Workload { tp: 2, ..work };
            let rank = halves.trained(arch, StageLayers::new(arch, 1, 1), true, true)[0];
            assert!(
                rank > published / 2 && rank < published,
                "one map of each adapter is whole on every rank"
            );
        }
    }

    #[test]
    fn targets_are_written_as_briefly_as_they_can_be() {
        for (asked, written) in [
            ("q_proj, k_proj,v_proj,o_proj", "attention"),
            ("down,gate,up", "mlp"),
            ("all,lm_head", "all-linear,head"),
            ("v,q", "q,v"),
        ] {
            assert_eq!(asked.parse::<Targets>().unwrap().to_string(), written);
        }
        assert!("q,x".parse::<Targets>().unwrap_err().contains("gate_up"));
        assert!(BaseDtype::ALL.iter().skip(1).all(|dtype| BASES.contains_key(dtype)));
    }
}
