//! Typed access to a JSON object that remembers which fields were asked for and refuses the rest.

use crate::error::{Error, Result};
use serde_json::{Map, Value};

/// Fields that no supported model type derives a shape from.
const IRRELEVANT: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "dtype",
    "eos_token_id",
    "id2label",
    "initializer_range",
    "label2id",
    "max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "partial_rotary_factor",
    "pretraining_tp",
    "return_dict",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "torch_dtype",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

/// Elementwise functions; which one makes no difference to shapes.
const ACTIVATIONS: &[&str] = &[
    "silu",
    "swish",
    "gelu",
    "gelu_new",
    "gelu_fast",
    "gelu_pytorch_tanh",
    "relu",
];

/// The fields of one JSON object.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    place: &'a str,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    pub fn new(object: &'a Map<String, Value>, place: &'a str) -> Self {
        Self {
            object,
            place,
            known: IRRELEVANT.to_vec(),
        }
    }

    /// The value of a field; `null` counts as absent, as it does in `transformers`.
    fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// Whether the field stands in the file, `null` included.
    pub fn has(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// An error about a field of this file.
    pub fn refuse<T>(&self, key: &str, allowed: &str) -> Result<T> {
        let value = self
            .object
            .get(key)
            .map_or_else(|| "missing".to_owned(), Value::to_string);
        Err(Error::field(self.place, key, value, allowed))
    }

    /// A positive or zero integer, if there.
    pub fn optional(&mut self, key: &'static str) -> Result<Option<u64>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => self.refuse(key, "an integer of at least 0"),
            },
        }
    }

    /// A required integer.
    pub fn number(&mut self, key: &'static str) -> Result<u64> {
        match self.optional(key)? {
            Some(number) => Ok(number),
            None => self.refuse(key, "an integer of at least 1"),
        }
    }

    /// An integer with the default that `transformers` documents.
    pub fn number_or(&mut self, key: &'static str, default: u64) -> Result<u64> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    /// A flag with the default that `transformers` documents.
    pub fn flag(&mut self, key: &'static str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.refuse(key, "true or false"),
        }
    }

    /// One of a few strings.
    pub fn text(
        &mut self,
        key: &'static str,
        default: Option<&str>,
        allowed: &[&str],
    ) -> Result<String> {
        let text = match self.get(key) {
            None => default,
            Some(value) => value.as_str(),
        };
        match text.filter(|text| allowed.contains(text)) {
            Some(text) => Ok(text.to_owned()),
            None => self.refuse(key, &allowed.join(", ")),
        }
    }

    /// An elementwise function, whose choice changes no shape.
    pub fn activation(&mut self, key: &'static str, default: &str) -> Result<()> {
        self.text(key, Some(default), ACTIVATIONS).map(|_| ())
    }

    /// The head size that follows from the hidden size; `heads_key` is blamed if it is not whole.
    pub fn head_dim(&self, heads_key: &str, hidden: u64, heads: u64) -> Result<u64> {
        if heads > 0 && hidden.is_multiple_of(heads) {
            return Ok(hidden / heads);
        }
        self.refuse(heads_key, &format!("a divisor of the hidden size {hidden}"))
    }

    /// A list of strings, if there.
    pub fn texts(&mut self, key: &'static str) -> Result<Option<Vec<&'a str>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let texts = value
            .as_array()
            .and_then(|items| items.iter().map(Value::as_str).collect());
        match texts {
            Some(texts) => Ok(Some(texts)),
            None => self.refuse(key, "a list of strings"),
        }
    }

    /// A nested object, if there.
    pub fn object(&mut self, key: &'static str) -> Result<Option<Fields<'a>>> {
        let place = self.place;
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Fields::new(object, place))),
            Some(_) => self.refuse(key, "an object"),
        }
    }

    /// Fields that change nothing this crate computes.
    pub fn ignore(&mut self, keys: &[&'static str]) {
        self.known.extend_from_slice(keys);
    }

    /// Fields whose effect is not modelled: absent, null, false, 0 and empty are fine, all else is refused.
    pub fn unsupported(&mut self, keys: &[&'static str]) -> Result<()> {
        for key in keys {
            let off = match self.get(key) {
                None | Some(Value::Bool(false)) => true,
                Some(Value::Array(items)) => items.is_empty(),
                Some(Value::Number(number)) => number.as_f64() == Some(0.0),
                Some(_) => false,
            };
            if !off {
                return self.refuse(key, "absent or false; its effect is not modelled");
            }
        }
        Ok(())
    }

    /// A field that may only have one value, its default.
    pub fn only(&mut self, key: &'static str, value: u64) -> Result<()> {
        if self.number_or(key, value)? == value {
            return Ok(());
        }
        self.refuse(key, &format!("{value}; other values are not modelled"))
    }

    /// Stored fp8 weights have the shapes of the model; packed integer formats have not.
    pub fn quantization(&mut self) -> Result<()> {
        if let Some(mut nested) = self.object("quantization_config")? {
            nested.text("quant_method", None, &["fp8"])?;
        }
        Ok(())
    }

    /// Refuses every field that was never asked for.
    pub fn finish(&self, model_type: &str) -> Result<()> {
        match self.object.keys().find(|key| !self.known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => self.refuse(
                key,
                &format!(
                    "only fields known for model_type `{model_type}`; remove it if it changes no shape"
                ),
            ),
        }
    }
}
