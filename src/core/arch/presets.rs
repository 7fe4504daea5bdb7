//! Published architectures, as data: `data/architectures/*.toml`, embedded at build time.

use super::config::refused;
use super::{Architecture, Stated};
use crate::error::{Error, Result};
use crate::names;
use crate::names::key;
use crate::toml_text;
use serde::Deserialize;
use serde_json::Value;
use shapewise_data::ARCHITECTURES;
use std::sync::{LazyLock, OnceLock};

/// What the names of checkpoints add.
static NAMES: LazyLock<Names> = LazyLock::new(|| toml_text::built_in(&shapewise_data::CHECKPOINT_NAMES));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    /// Words about training, which changes no shape.
    tuning: Vec<String>,
    dates: Vec<String>,
    /// Longer words before those that end them.
    formats: Vec<FormatWord>,
}

/// A word about the format of the weights.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormatWord {
    word: String,
    /// The start of the names of models that it has this meaning for; of all others if it has none.
    #[serde(default)]
    of: Option<String>,
    /// What it means, if not weights in 16 bits.
    #[serde(default)]
    quantization_config: Option<Value>,
}

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
    /// Checkpoints of the same shape that differ otherwise.
    #[serde(default)]
    checkpoints: Vec<Checkpoint>,
    /// Whether it was published with layers that predict tokens after the next.
    #[serde(default)]
    predicts_further: bool,
    /// Whether searches compare shapes with it and plans of measurements take its widths.
    #[serde(default = "Preset::is_typical")]
    typical: bool,
    /// The shape.
    pub architecture: Architecture,
}

/// Checkpoints whose weights are stored otherwise, or that see or hear.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    #[serde(default)]
    names: Vec<String>,
    /// Names of those whose text part alone has the shape.
    #[serde(default)]
    text_of: Vec<String>,
    /// Format of the weights, if they are not in 16 bits.
    #[serde(default)]
    quantization_config: Option<Value>,
}

impl Checkpoint {
    fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(&self.text_of)
    }
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
            let mut presets: Vec<Self> = ARCHITECTURES
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

    const fn is_typical() -> bool {
        true
    }

    /// The presets that others are compared with.
    pub fn typical() -> impl Iterator<Item = &'static Self> {
        Self::all().iter().filter(|preset| preset.typical)
    }

    /// The preset with this name or alias; case, `-`, `_`, `:`, a leading `owner/` and words of `data/checkpoint-names.toml`
    /// do not matter.
    pub fn find(name: &str) -> Result<&'static Self> {
        Ok(Found::of(name)?.preset)
    }

    /// The architecture that a preset or a checkpoint of its shape has, its weights as they were published or as the name
    /// says.
    pub fn published(name: &str) -> Result<Architecture> {
        Found::of(name).map(Found::architecture)
    }

    /// The known names with the fewest edits to this one, those that begin with the same word first.
    pub fn nearest(name: &str) -> Vec<&'static str> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let all = || Self::all().iter().flat_map(Self::names);
        let first = |name: &str| name.split('-').next().map(str::to_lowercase);
        let is_alike = |known: &&str| first(known) == first(name);
        let mut near = names::nearest(name, all().filter(is_alike));
        let others = names::nearest(name, all());
        let most = others.len();
        near.extend(others.into_iter().filter(|known| !is_alike(known)));
        near.truncate(most);
        near
    }

    /// Its other names and those of the checkpoints of its shape.
    pub fn aliases(&self) -> impl Iterator<Item = &String> {
        self.aliases
            .iter()
            .chain(self.checkpoints.iter().flat_map(Checkpoint::names))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.architecture.name)
            .chain(self.aliases())
            .map(String::as_str)
    }
}

/// Whether a name is a number of parameters: `6.7B`.
fn is_count(name: &str) -> bool {
    let digits = name.strip_suffix(['B', 'b', 'M', 'm', 'T', 't']);
    digits.is_some_and(|digits| digits.parse::<f64>().is_ok_and(|count| count > 0.0))
}

/// The format of what Ollama serves where a tag names none.
const USUAL_OF_TAGS: &str = "q4-k-m";

/// What a name means.
struct Found {
    preset: &'static Preset,
    checkpoint: Option<&'static Checkpoint>,
    is_text_part: bool,
    format: Option<&'static FormatWord>,
}

impl Found {
    fn of(name: &str) -> Result<Self> {
        Self::known(name).ok_or_else(|| {
            let nearest = Preset::nearest(name).join(", ");
            let mut allowed = format!("a preset, nearest {nearest}, or the path of a config.json or of its folder");
            if name.contains('/') {
                allowed += "; no file or folder has this name";
            }
            if is_count(name) {
                allowed += &format!("; `search --params {name}` finds a shape of that size");
            }
            let last = name.rsplit('/').next().unwrap_or(name).to_lowercase();
            let family = last.split(['-', '_', ':']).next().unwrap_or(&last);
            if let Some(reason) = refused(family) {
                allowed = format!("a decoder of attention and MLP layers; {family} {reason}");
            }
            Error::field("request", "architecture", format!("`{name}`"), &allowed)
        })
    }

    /// The name as it is, without its format, without words about training, without its date.
    fn known(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let is_tag = name.contains(':');
        let mut name = format!("-{}-", name.replace(['_', ' ', ':'], "-"));
        let mut found = Self::exactly(&name, None);
        let mut formats = NAMES.formats.iter();
        let format = formats.find(|format| {
            let of = format.of.as_ref();
            of.is_none_or(|of| name.starts_with(&format!("-{of}"))) && without(&mut name, &format.word)
        });
        for words in [&[][..], &NAMES.tuning, &NAMES.dates] {
            for word in words {
                while without(&mut name, word) {}
            }
            found = found.or_else(|| Self::exactly(&name, format));
        }
        let mut found = found?;
        if is_tag && format.is_none() && found.own().is_none() {
            found.format = NAMES.formats.iter().find(|format| format.word == USUAL_OF_TAGS);
        }
        Some(found)
    }

    /// How the weights of what was published are packed.
    fn own(&self) -> Option<&'static Value> {
        let own = match self.checkpoint {
            Some(checkpoint) => &checkpoint.quantization_config,
            None => &self.preset.quantization_config,
        };
        own.as_ref()
    }

    fn exactly(name: &str, format: Option<&'static FormatWord>) -> Option<Self> {
        let wanted = key(name);
        let is_wanted = |known: &str| key(known) == wanted;
        let preset = Preset::all().iter().find(|preset| preset.names().any(is_wanted))?;
        let mut checkpoints = preset.checkpoints.iter();
        let checkpoint = checkpoints.find(|checkpoint| checkpoint.names().any(|known| is_wanted(known)));
        Some(Self {
            preset,
            checkpoint,
            is_text_part: checkpoint.is_some_and(|found| found.text_of.iter().any(|known| is_wanted(known))),
            format,
        })
    }

    fn architecture(self) -> Architecture {
        let mut arch = self.preset.architecture.clone();
        arch.stated.predicts_further = self.preset.predicts_further;
        let own = self.own();
        let method = |config: Option<&Value>| config.map(|config| config["quant_method"].clone());
        // What was published says more than the word for it.
        let format = self
            .format
            .filter(|format| method(format.quantization_config.as_ref()) != method(own));
        let stated = format.map_or(own, |format| format.quantization_config.as_ref());
        if let Some(config) = stated {
            arch.stated = Stated::published(config, &arch, format.map(|format| &format.word));
        }
        if self.is_text_part {
            arch.stated.leave_out_all_but_text();
        }
        arch
    }
}

/// Takes a word out of a name whose words have `-` around them, where it is there.
fn without(name: &mut String, word: &str) -> bool {
    let at = name.find(&format!("-{word}-"));
    if let Some(at) = at {
        name.replace_range(at..=at + word.len(), "");
    }
    at.is_some()
}

#[cfg(test)]
mod tests {
    use super::super::{Workload, parameters};
    use super::*;

    #[test]
    fn every_preset_loads_and_has_its_published_number_of_parameters() {
        let mut wrong = Vec::new();
        for file in ARCHITECTURES.files() {
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
    fn names_that_people_type_are_found_and_others_get_neighbours() {
        for line in include_str!("../../../tests/model-names.txt").lines() {
            let (preset, names) = line.split_once(": ").unwrap();
            for name in names.split(' ') {
                let found = Preset::find(name).ok().map(|found| &*found.architecture.name);
                assert_eq!(found, (preset != "refused").then_some(preset), "{name}");
            }
        }
        let message = Preset::find("lama-2-7b").unwrap_err().to_string();
        assert!(message.contains("llama-2-7b"), "{message}");
    }

    #[test]
    fn the_format_in_a_name_is_that_of_the_weights() {
        let work = Workload::decode(1, 1024);
        for (name, format) in [
            ("llama-3-8b", None),
            ("Llama-3.1-8B-Instruct-FP8", Some("the name says fp8 (`fp8`)")),
            (
                "Qwen/Qwen3-32B-FP8",
                Some("the name says fp8 in blocks of 128 x 128 (`fp8`)"),
            ),
            ("Qwen3-8B-AWQ", Some("the name says awq with 4 bits (`awq`)")),
            ("Qwen3-30B-A3B-NVFP4", Some("the name says modelopt NVFP4 (`nvfp4`)")),
            ("kimi-k2", Some("the config says fp8 in blocks of 128 x 128")),
            (
                "Kimi-K2-Instruct-FP8",
                Some("the config says fp8 in blocks of 128 x 128"),
            ),
            ("kimi-k2-bf16", None),
            ("kimi-k2.5", Some("the config says compressed-tensors pack-quantized")),
            ("kimi-k2.5-nvfp4", Some("the name says modelopt NVFP4 (`nvfp4`)")),
            ("gpt-oss-20b-mxfp4", Some("the config says mxfp4")),
            ("gpt-oss:20b", Some("the config says mxfp4")),
            ("qwen3:32b", Some("the name says gguf with 4 bits (`q4-k-m`)")),
            (
                "mistralai/Devstral-Small-2-24B-Instruct-2512",
                Some("the config says fp8"),
            ),
            ("mistralai/Ministral-3-14B-Instruct-2512", Some("the config says fp8")),
            ("mistralai/Ministral-3-14B-Instruct-2512-BF16", None),
            ("mistralai/Ministral-3-14B-Base-2512", None),
            (
                "nvidia/DeepSeek-R1-0528-NVFP4-v2",
                Some("the name says modelopt NVFP4 (`nvfp4-v2`)"),
            ),
            (
                "cyankiwi/GLM-4.7-AWQ-4bit",
                Some("the name says awq with 4 bits (`awq-4bit`)"),
            ),
        ] {
            let stated = Preset::published(name).unwrap().stated;
            let note = stated.format_note(&work);
            assert_eq!(note.is_some(), format.is_some(), "{name}: {note:?}");
            assert!(
                note.unwrap_or_default().starts_with(format.unwrap_or_default()),
                "{name}"
            );
            let stored = stated.stored().is_some();
            assert_eq!(stored, format.is_some(), "{name}");
        }
        let seeing = Preset::published("qwen3-vl-8b-instruct").unwrap().stated.notes(&work);
        assert!(
            seeing.len() == 1 && seeing[0].contains("the text model alone"),
            "{seeing:?}"
        );
    }
}
