//! A transformer as JSON: a name, or a Hugging Face config.json.

use crate::arch;
use crate::arch::Preset;
use crate::arch::read_object;
use crate::serve::problem::Problem;
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
    /// The architecture; `field` holds it.
    pub fn resolve(&self, field: &str) -> Result<arch::Architecture, Problem> {
        match self {
            Self::Preset(name) => match Preset::find(name) {
                Ok(preset) => Ok(preset.architecture.clone()),
                Err(_) => {
                    let nearest = Preset::nearest(name).join(", ");
                    let allowed =
                        format!("a preset, nearest {nearest}, or the object of a config.json");
                    Err(Problem::field(field, &format!("\"{name}\""), &allowed))
                }
            },
            Self::Config(config) => read_object(config, UNNAMED, field)
                .map_err(|error| Problem::from(error).within(field)),
        }
    }
}

impl<'de> Deserialize<'de> for Architecture {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(name) => Ok(Self::Preset(name)),
            config @ Value::Object(_) => Ok(Self::Config(config)),
            _ => Err(D::Error::custom(
                "invalid type, expected the name of a preset or the object of a config.json",
            )),
        }
    }
}
