//! A transformer as JSON: a name, or a Hugging Face config.json.

use crate::arch;
use crate::arch::Preset;
use crate::arch::read_object;
use crate::error::Result;
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;
use utoipa::ToSchema;

/// What the model of a config is called that came without a file.
const UNNAMED: &str = "config";

/// A preset's name, or the object of a Hugging Face config.json. No path: the service reads no files.
#[derive(Clone, Debug, ToSchema)]
#[serde(untagged)]
pub enum Architecture {
    /// One of `/v1/presets`.
    #[schema(examples("llama-3-8b"))]
    Preset(String),
    /// The object of a config.json.
    #[schema(value_type = Object)]
    Config(Value),
}

impl Architecture {
    /// The architecture; messages call it `place`.
    pub fn resolve(&self, place: &str) -> Result<arch::Architecture> {
        match self {
            Self::Preset(name) => Ok(Preset::find(name)?.architecture.clone()),
            Self::Config(config) => read_object(config, UNNAMED, place),
        }
    }
}

impl<'de> Deserialize<'de> for Architecture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::Preset(name)),
            config @ Value::Object(_) => Ok(Self::Config(config)),
            _ => Err(D::Error::custom(
                "invalid type, expected the name of a preset or the object of a config.json",
            )),
        }
    }
}
