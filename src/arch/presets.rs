//! Published architectures, as data: `data/architectures/*.toml`, embedded at build time.

use super::{Architecture, Stated};
use crate::error::{Error, Result};
use crate::names;
use crate::names::key;
use crate::toml_text;
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde_json::Value;
use std::sync::OnceLock;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/architectures");

/// One published model.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Where the shape was published.
    pub source: String,
    /// Total parameters as published, where an exact figure is.
    #[serde(default)]
    pub published_parameters: Option<u64>,
    /// Other names of the same shape.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Format of the weights in the published config, if they are not in 16 bits.
    #[serde(default)]
    pub quantization_config: Option<Value>,
    /// The shape.
    pub architecture: Architecture,
}

impl Preset {
    /// Reads and checks one preset; `place` names the file in messages.
    pub fn from_toml(text: &str, place: &str) -> Result<Self> {
        let preset: Self = toml_text::parse(text, place)?;
        if preset.source.trim().is_empty() {
            let allowed = "where the shape was published";
            return Err(Error::field(place, "source", "empty", allowed));
        }
        preset.architecture.validate()?;
        Ok(preset)
    }

    /// All presets, by name.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Preset>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut presets: Vec<Self> = FILES
                .files()
                .map(|file| {
                    let place = file.path().display().to_string();
                    let text = file.contents_utf8().expect("presets are UTF-8; a test loads them all");
                    Self::from_toml(text, &place).expect("a test loads every embedded preset")
                })
                .collect();
            presets.sort_by(|a, b| a.architecture.name.cmp(&b.architecture.name));
            presets
        })
    }

    /// The preset with this name or alias; case, `-`, `_`, and a leading `owner/` do not matter.
    pub fn find(name: &str) -> Result<&'static Self> {
        let find = |wanted: String| {
            let mut all = Self::all().iter();
            all.find(|preset| preset.names().any(|known| key(known) == wanted))
        };
        find(key(name))
            .or_else(|| find(without_tuning(key(name))))
            .ok_or_else(|| {
                let nearest = Self::nearest(name).join(", ");
                let mut allowed = format!("a preset, nearest {nearest}, or the path of a config.json or of its folder");
                if is_count(name) {
                    allowed += &format!("; `search --params {name}` finds a shape of that size");
                }
                Error::field("request", "architecture", format!("`{name}`"), &allowed)
            })
    }

    /// The known names with the fewest edits to this one.
    pub fn nearest(name: &str) -> Vec<&'static str> {
        names::nearest(name, Self::all().iter().flat_map(Self::names))
    }

    /// The architecture with its weights as they were published.
    pub fn as_published(&self) -> Architecture {
        let mut arch = self.architecture.clone();
        if let Some(config) = &self.quantization_config {
            arch.stated = Stated::published(config, &arch);
        }
        arch
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.architecture.name)
            .chain(&self.aliases)
            .map(String::as_str)
    }
}

/// Whether a name is a number of parameters: `6.7B`.
fn is_count(name: &str) -> bool {
    let digits = name.strip_suffix(['B', 'b', 'M', 'm', 'T', 't']);
    digits.is_some_and(|digits| digits.parse::<f64>().is_ok_and(|count| count > 0.0))
}

/// A name without what says that a model was tuned, which changes no shape: `mistral7binstructv0.3`, `llama27bchathf`.
fn without_tuning(key: String) -> String {
    let key = key.replace("instruct", "");
    let ends = ["hf", "chat", "it", "base"];
    let plain = ends.iter().fold(&*key, |key, end| key.strip_suffix(end).unwrap_or(key));
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn every_preset_loads_and_has_its_published_number_of_parameters() {
        let mut wrong = Vec::new();
        for file in FILES.files() {
            let place = file.path().display().to_string();
            let preset = Preset::from_toml(file.contents_utf8().unwrap(), &place).unwrap();
            let arch = &preset.architecture;
            assert_eq!(format!("{}.toml", arch.name), place);
            let total = parameters(arch).total;
            if let Some(published) = preset.published_parameters
                && published != total
            {
                wrong.push(format!("{}: {total} is not the published {published}", arch.name));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn no_two_presets_share_a_name() {
        let mut keys: Vec<_> = Preset::all().iter().flat_map(Preset::names).map(key).collect();
        keys.sort();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
    }

    #[test]
    fn names_are_found_in_any_spelling_and_unknown_ones_get_neighbours() {
        for (given, found) in [
            ("llama-2-7b", "llama-2-7b"),
            ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
            ("GPT-3_2.7B", "gpt3-2.7b"),
            ("Llama3.1-8B", "llama-3-8b"),
            ("meta-llama/Llama-3.1-8B-Instruct", "llama-3-8b"),
            ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
            ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
            ("google/gemma-3-27b-it", "gemma-3-27b"),
        ] {
            assert_eq!(Preset::find(given).unwrap().architecture.name, found);
        }
        let message = Preset::find("lama-2-7b").unwrap_err().to_string();
        assert!(message.contains("llama-2-7b"), "{message}");
    }
}
