//! `data/hf-types.toml`: what each model type has; the file says what its keys mean.

use super::super::{MlpKind, NormKind, NormPlacement, QkNorm};
use super::fields::Fields;
use super::further::Further;
use super::linear::Hybrid;
use super::moe::Experts;
use super::varied::Varied;
use super::window::Slides;
use crate::error::Result;
use crate::toml_text::built_in;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| built_in(&shapewise_data::HF_TYPES));

/// What is known of all types.
pub(super) fn table() -> &'static Table {
    &TABLE
}

/// The document, with every row filled in from the row that it is built on.
#[derive(Deserialize)]
#[serde(try_from = "Document")]
pub(super) struct Table {
    pub lists: Document,
    pub types: BTreeMap<String, Row>,
    bases: BTreeMap<String, Row>,
}

/// Types that cannot be timed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refused {
    pub reason: String,
    pub types: Vec<String>,
}

/// A type that is written: its class and its fields, with spaces between.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(rename = "type")]
    pub model_type: String,
    pub class: String,
    pub fields: String,
}

/// The document as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub irrelevant: Vec<String>,
    pub off: Vec<String>,
    pub activations: Vec<String>,
    pub harmless_words: Vec<String>,
    pub shaping_words: Vec<String>,
    pub text_parts: Vec<String>,
    pub beside_text: Vec<String>,
    pub further_tokens: BTreeMap<String, String>,
    /// The type of the text model of each wrapper.
    pub text_config: BTreeMap<String, String>,
    pub refused: Vec<Refused>,
    pub writes: Vec<Written>,
    /// Fields of files that are written, which no architecture holds.
    pub usual: Map<String, Value>,
    pub kept: Vec<String>,
    types: Map<String, Value>,
    bases: Map<String, Value>,
    experts: Map<String, Value>,
}

/// What a type has.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub hidden: Vec<String>,
    pub heads: Vec<String>,
    pub kv_heads: Vec<String>,
    pub head_dim: Vec<String>,
    pub layers: Vec<String>,
    #[serde(default = "Row::one")]
    pub layers_each: u64,
    pub d_ff: Vec<String>,
    pub vocab: Vec<String>,
    pub sizes: Vec<u64>,
    pub kv_heads_default: u64,
    pub head_dim_default: u64,
    pub one_kv_head: Given<bool>,
    pub d_ff_per_hidden: Given<u64>,
    pub activations: Vec<String>,
    pub tied: bool,
    pub mlp: MlpKind,
    pub positions: Position,
    pub norm: NormKind,
    pub norm_bias: bool,
    pub placement: NormPlacement,
    pub qk: (QkNorm, Given<bool>),
    pub qkv_bias: Given<bool>,
    pub output_bias: Given<bool>,
    pub mlp_bias: Given<bool>,
    pub head_bias: Given<bool>,
    pub parallel: Given<bool>,
    pub parallel_norms: Given<u64>,
    pub window: Slides,
    pub window_field: String,
    pub linear: Hybrid,
    pub kinds: Varied,
    pub experts: Option<Experts>,
    pub latent: Latent,
    #[serde(default)]
    pub index: Indexed,
    /// Whether keys are compressed behind a window.
    #[serde(default)]
    pub compressed: bool,
    #[serde(default)]
    pub further: Vec<Further>,
    /// Of fields that `further` names, what they are where they are left out.
    #[serde(default)]
    pub usual: BTreeMap<String, u64>,
    pub sinks: bool,
    pub xielu: bool,
    pub output_gate: Given<bool>,
    #[serde(default)]
    pub head_gate: Given<bool>,
    pub value_head_dim: Option<String>,
    #[serde(default)]
    pub parts: Vec<String>,
    #[serde(default, rename = "where")]
    variants: BTreeMap<String, String>,
    #[serde(default)]
    pub skips: Vec<String>,
    #[serde(default)]
    pub off: Vec<String>,
    #[serde(default)]
    pub only: BTreeMap<String, Vec<Value>>,
    #[serde(default)]
    pub same: BTreeMap<String, String>,
    #[serde(default)]
    pub left_out: BTreeMap<String, String>,
}

impl Row {
    const fn one() -> u64 {
        1
    }
}

/// Positions of a type.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Position {
    Rotary,
    Alibi,
    None,
    /// The field with their number, and how many rows more the table has.
    Learned(String, u64),
    /// ALiBi where this is on, else rotary.
    AlibiWhere(Given<bool>),
}

/// Latent attention of a type, with what a file means that leaves it out: no rank for queries, 0; no value width, an error.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Latent {
    None,
    Of { query_rank: u64, value_dim: u64 },
}

/// Which keys an index chooses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Indexed {
    #[default]
    None,
    /// Single ones (DeepSeek-V3.2).
    Keys,
    /// Blocks of them (MiniMax-M3).
    Blocks,
}

/// What a type always has, or what a field says: its names, each with what its absence means.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Given<T> {
    Always(T),
    Field(BTreeMap<String, T>),
}

impl Default for Given<bool> {
    fn default() -> Self {
        Self::Always(false)
    }
}

impl<T: Copy> Given<T> {
    fn read_by(
        &'static self,
        fields: &mut Fields<'_>,
        read: impl Fn(&mut Fields<'_>, &'static str, T) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Always(value) => Ok(*value),
            Self::Field(names) => {
                let mut known = names.iter();
                let found = known.find(|(name, _)| fields.has(name)).or(names.first_key_value());
                let (name, default) = found.expect("a name, which a test of the table reads");
                read(fields, name, *default)
            }
        }
    }
}

impl Given<bool> {
    pub fn read(&'static self, fields: &mut Fields<'_>) -> Result<bool> {
        self.read_by(fields, |fields, name, default| fields.flag(name, default))
    }
}

impl Given<u64> {
    pub fn read(&'static self, fields: &mut Fields<'_>) -> Result<u64> {
        self.read_by(fields, |fields, name, default| fields.number_or(name, default))
    }

    /// The same of one layer, counted from 0, where the field may be a list with an item for each.
    pub fn read_of(&'static self, fields: &mut Fields<'_>, layer: u64) -> Result<u64> {
        self.read_by(fields, |fields, name, default| fields.number_of(name, layer, default))
    }
}

impl Table {
    /// The row of a type.
    pub fn find(&self, model_type: &str) -> Option<&Row> {
        self.types.get(model_type)
    }

    /// The row that is read for this one, given the flags of the file.
    pub fn variant(&'static self, row: &'static Row, fields: &mut Fields<'_>) -> &'static Row {
        let mut found = row;
        for (flag, variant) in &row.variants {
            if fields.is_on(flag) {
                found = &self.bases[variant];
            }
        }
        found
    }

    /// Why models of this type cannot be timed, if that is known.
    pub fn reason(&self, model_type: &str) -> Option<&str> {
        let of_type = |row: &&Refused| row.types.iter().any(|known| known == model_type);
        self.lists.refused.iter().find(of_type).map(|row| &*row.reason)
    }
}

impl TryFrom<Document> for Table {
    type Error = String;

    fn try_from(file: Document) -> std::result::Result<Self, String> {
        let mut all = file.bases.clone();
        all.extend(file.types.clone());
        let rows = |names: &Map<String, Value>| {
            let row = |name: &String| {
                let mut row = filled(name, &all)?;
                if let Some(Value::String(name)) = row.remove("experts")
                    && name != "none"
                {
                    row.insert("experts".to_owned(), filled(&name, &file.experts)?.into());
                }
                let row = Row::deserialize(Value::Object(row));
                Ok((name.clone(), row.map_err(|error| format!("{name}: {error}"))?))
            };
            names
                .keys()
                .map(row)
                .collect::<std::result::Result<BTreeMap<_, _>, String>>()
        };
        Ok(Self {
            types: rows(&file.types)?,
            bases: rows(&file.bases)?,
            lists: file,
        })
    }
}

/// A row over the one that it is built on; `skips` and `off` add up.
fn filled(name: &str, rows: &Map<String, Value>) -> std::result::Result<Map<String, Value>, String> {
    let unknown = || format!("no row is called `{name}`");
    let mut row = rows.get(name).and_then(Value::as_object).ok_or_else(unknown)?.clone();
    let Some(Value::String(like)) = row.remove("like") else {
        return Ok(row);
    };
    if like == name {
        return Err(format!("`{name}` is built on itself"));
    }
    let mut whole = filled(&like, rows)?;
    for (key, value) in row {
        match (whole.get_mut(&key), value) {
            (Some(Value::Array(known)), Value::Array(more)) if key == "skips" || key == "off" => known.extend(more),
            (_, value) => {
                whole.insert(key, value);
            }
        }
    }
    Ok(whole)
}
