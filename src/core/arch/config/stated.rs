//! What a config says beyond the shape: the number format of its weights, and parts that no answer counts.

use super::super::stored::Stored;
use super::super::{Architecture, BaseDtype, KvCacheDtype, Workload};
use super::fields::Fields;
use super::quantized::{self, EXPERT_DTYPE};
use super::table::table;
use super::text_part;
use crate::error::Result;
use crate::ops::Dtype;
use serde_json::{Map, Value};

/// Where it is said how stored weights are packed; the second is MLX's, the third what `quantization_config` once was, the
/// last a file of modelopt beside the config.
const QUANTIZATION: [&str; 4] = ["quantization_config", "quantization", "compression_config", HF_QUANT];

/// Where it is said how they are not packed.
const DTYPE: [&str; 2] = ["torch_dtype", "dtype"];

/// The file of modelopt.
pub(super) const HF_QUANT: &str = "hf_quant_config.json";

/// What a config says beyond the shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stated {
    /// The number format of the weights.
    format: Option<Format>,
    /// How they are packed, where that is known.
    stored: Option<Stored>,
    /// What is not counted or counted as something else, one sentence each.
    left_out: Vec<String>,
    /// Fields that change no shape and that a model derived from this one keeps, as a JSON object; empty where no file was read.
    unshaped: String,
    /// Whether it has layers that predict tokens after the next, which can draft.
    pub predicts_further: bool,
}

/// A number format as the config calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Format {
    /// The field of the config, or the word in the name of a checkpoint.
    field: &'static str,
    name: String,
}

impl Format {
    /// The format of an answer that this is.
    fn dtype(&self) -> Option<Dtype> {
        match self.name.as_str() {
            "float32" => Some(Dtype::Fp32),
            "float16" => Some(Dtype::Fp16),
            "bfloat16" => Some(Dtype::Bf16),
            _ => None,
        }
    }

    /// The format that a quantization says.
    fn packed(field: &'static str, config: &Map<String, Value>) -> Self {
        let word = |key: &str| config.get(key).and_then(Value::as_str);
        let algorithm = word("quant_algo");
        let unnamed = if algorithm.is_some() {
            "modelopt"
        } else {
            "an unnamed format"
        };
        let mut name = word("quant_method").unwrap_or(unnamed).to_owned();
        for part in [algorithm, word("format")].into_iter().flatten() {
            name = format!("{name} {part}");
        }
        if let Some(bits) = config.get("bits").and_then(Value::as_u64) {
            name = format!("{name} with {bits} bits");
        }
        if let Some(block) = config.get("weight_block_size").and_then(Value::as_array) {
            let sizes: Vec<_> = block.iter().map(ToString::to_string).collect();
            name = format!("{name} in blocks of {}", sizes.join(" x "));
        }
        if let Some(experts) = word(EXPERT_DTYPE) {
            name = format!("{name}, experts in {experts}");
        }
        Self { field, name }
    }
}

/// The quantization that an object holds, and where.
fn quantization(object: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    let mut fields = QUANTIZATION.into_iter();
    fields.find_map(|field| Some((field, object.get(field).filter(|value| !value.is_null())?)))
}

/// The quantization of a config, or of the text model inside it.
fn anywhere(object: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    quantization(object).or_else(|| quantization(text_part(object)?))
}

/// Puts what modelopt says in a file of its own into the config, unless that says something itself.
pub(super) fn add_hf_quant(config: &mut Value, file: &Value) {
    let Some(object) = config.as_object_mut().filter(|object| anywhere(object).is_none()) else {
        return;
    };
    if let Some(Value::Object(quantization)) = file.get("quantization") {
        let mut quantization = quantization.clone();
        let producer = file.pointer("/producer/name").and_then(Value::as_str);
        let method = quantization.entry("quant_method");
        method.or_insert_with(|| producer.unwrap_or("modelopt").into());
        object.insert(HF_QUANT.to_owned(), Value::Object(quantization));
    }
}

impl Stated {
    /// Reads the format that a config states: `quantization_config` says more than `dtype`.
    pub(super) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let mut format = None;
        for field in DTYPE {
            let stated = fields.value(field).and_then(|value| value.as_str());
            if let Some(name) = stated {
                let name = name.trim_start_matches("torch.").to_owned();
                format = Some(Format { field, name });
            }
        }
        let found = fields.named(&QUANTIZATION);
        fields.ignore(&QUANTIZATION);
        match fields.value(found) {
            None => {}
            Some(Value::Object(config)) => format = Some(Format::packed(found, config)),
            Some(_) => return fields.refuse(found, "an object"),
        }
        Ok(Self {
            format,
            ..Self::default()
        })
    }

    /// Reads which weights of this architecture the whole config says are packed.
    pub(super) fn read_stored(object: &Map<String, Value>, arch: &Architecture) -> Option<Stored> {
        let (_, config) = anywhere(object)?;
        let mut config = config.clone();
        if let (Some(config), Some(dtype)) = (config.as_object_mut(), object.get(EXPERT_DTYPE)) {
            config.entry(EXPERT_DTYPE).or_insert_with(|| dtype.clone());
        }
        quantized::read(&config, arch)
    }

    /// What a published checkpoint of this architecture with this `quantization_config` says, or with this word in its
    /// name.
    pub(in super::super) fn published(config: &Value, arch: &Architecture, word: Option<&'static String>) -> Self {
        let field = word.map_or(QUANTIZATION[0], String::as_str);
        Self {
            format: config.as_object().map(|config| Format::packed(field, config)),
            stored: quantized::read(config, arch),
            ..arch.stated.clone()
        }
    }

    /// How the weights are packed, where they are.
    pub fn stored(&self) -> Option<&Stored> {
        self.stored.as_ref()
    }

    /// Sets how the weights are packed.
    pub(super) fn set_stored(&mut self, stored: Option<Stored>) {
        self.stored = stored;
    }

    /// Fills in what a part of the config says itself.
    pub(super) fn or(mut self, whole: Self) -> Self {
        let says_more = |format: &Format| QUANTIZATION.contains(&format.field);
        let packed = whole.format.clone().filter(says_more);
        self.format = packed.or(self.format).or(whole.format);
        self.left_out.extend(whole.left_out);
        self.predicts_further |= whole.predicts_further;
        self
    }

    /// Reads the fields that a model derived from this one keeps.
    pub(super) fn keep_unshaped(&mut self, object: &Map<String, Value>) {
        let whole = text_part(object).unwrap_or(object);
        let lists = &table().lists;
        let keys = lists.usual.keys().chain(&lists.kept);
        // Where `transformers` 5 has them.
        let moved = |key: &str| match key {
            "torch_dtype" => whole.get("dtype"),
            "rope_theta" => whole.get("rope_parameters")?.get(key),
            _ => None,
        };
        let kept = keys.filter_map(|key| Some((key.clone(), whole.get(key).or_else(|| moved(key))?.clone())));
        self.unshaped = Value::Object(kept.collect()).to_string();
    }

    /// Whether there are such fields.
    pub fn is_of_a_file(&self) -> bool {
        !self.unshaped.is_empty()
    }

    /// Those fields.
    pub(super) fn unshaped(&self) -> Map<String, Value> {
        serde_json::from_str(&self.unshaped).unwrap_or_default()
    }

    /// Adds what is not counted.
    pub(super) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    /// Adds that the parts of a multimodal model beside its text part are not counted.
    pub(in super::super) fn leave_out_all_but_text(&mut self) {
        self.leave_out("the text model alone is read: what sees or hears is not counted");
    }

    /// Adds the fields that were passed over.
    pub(super) fn pass_over(&mut self, fields: &[String]) {
        if let [_, others @ ..] = fields {
            let names = fields.join("`, `");
            let change = if others.is_empty() {
                "changes no shape and is"
            } else {
                "change no shape and are"
            };
            self.leave_out(format!("`{names}` of the config {change} passed over"));
        }
    }

    /// Which number format of the config an answer takes or contradicts.
    pub fn format_note(&self, work: &Workload) -> Option<String> {
        let format = self.format.as_ref()?;
        let Format { field, name } = format;
        let taken = work.format_name();
        let (place, others) = match DTYPE.contains(field) || QUANTIZATION.contains(field) {
            true => ("config", ""),
            false => ("name", "; `dtype` says it if the checkpoint has another"),
        };
        let contradiction = format!("the {place} says {name} (`{field}`); this answer takes {taken}");
        let Some(stored) = self.stored.as_ref() else {
            return (format.dtype() != Some(work.linear_dtype())).then_some(contradiction);
        };
        if work.trains() {
            let is_taken = work.linear_dtype() == stored.dtype || work.base_dtype != BaseDtype::Auto;
            return (!is_taken).then_some(contradiction);
        }
        if !stored.is_taken_by(work) {
            return Some(format!("{contradiction}, as was asked"));
        }
        let kept = stored.kept();
        let kept = match kept.is_empty() {
            true => String::new(),
            false => format!("; in 16 bits: {}", kept.join(", ")),
        };
        let timed = match stored.is_exact && work.linear_dtype() == stored.dtype {
            true => String::new(),
            false => format!("; timed as {}, the nearest", work.linear_dtype()),
        };
        let cache = match stored.fp8_cache && work.kv_cache_dtype != KvCacheDtype::Bf16 {
            true => "; keys and values in fp8",
            false => "",
        };
        Some(format!(
            "weights as stored, {name} (`{field}`), with their scales{kept}{timed}{cache}{others}"
        ))
    }

    /// Sentences about an answer, for its reader; that about the number format is the first.
    pub fn notes(&self, work: &Workload) -> Vec<String> {
        let left_out = self.left_out.iter().cloned();
        self.format_note(work).into_iter().chain(left_out).collect()
    }
}
