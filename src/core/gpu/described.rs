//! Descriptions of GPUs that `data/gpus` does not know, as tables and model cards carry them.

use super::Figure;
use super::Generation;
use super::Gpu;
use super::Vendor;
use crate::error::Error;
use crate::error::Result;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de::Error as _;
use std::collections::BTreeMap;

impl Gpu {
    /// A GPU of no known vendor or generation with these figures, checked like those of a file.
    pub fn described(name: &str, title: &str, figures: BTreeMap<String, Figure>) -> Result<Self> {
        let title = if title.trim().is_empty() { name } else { title };
        let gpu = Self {
            name: name.to_owned(),
            title: title.to_owned(),
            vendor: Vendor::Other,
            generation: Generation::Other,
            aliases: Vec::new(),
            figures: figures.into(),
            meant: None,
        };
        let text = serde_json::to_string(&gpu).expect("a description has only plain fields");
        Self::from_json(&text, name)
    }

    /// Whether `data/gpus` has no GPU of this name.
    pub fn is_described(&self) -> bool {
        Self::all().iter().all(|known| known.name != self.name)
    }

    /// Reads a description as a file carries it; `place` names the file in messages.
    pub fn from_json(text: &str, place: &str) -> Result<Self> {
        let table = serde_json::from_str(text)
            .map_err(|error| Error::bad_input(format!("{place}: the description of its GPU: {error}")))?;
        Self::from_table(table, place)
    }
}

impl Serialize for Gpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Description<'a> {
            name: &'a str,
            title: &'a str,
            vendor: Vendor,
            generation: Generation,
            aliases: &'a [String],
            figures: &'a BTreeMap<String, Figure>,
        }
        let description = Description {
            name: &self.name,
            title: &self.title,
            vendor: self.vendor,
            generation: self.generation,
            aliases: &self.aliases,
            figures: &self.figures,
        };
        description.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Gpu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let table = toml::Table::deserialize(deserializer)?;
        Self::from_table(table, "gpus").map_err(D::Error::custom)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn cpu(name: &str, bandwidth: f64) -> Gpu {
        let figure = |value: f64| format!("{{ \"value\": {value:?}, \"source\": \"measured\" }}");
        let figures = [
            ("sm_count", 2.0),
            ("sm_clock_hz", 2.25e9),
            ("memory_bandwidth_bytes_per_s", bandwidth),
            ("memory_bytes", 2.4e10),
            ("l2_bytes", 33_554_432.0),
            ("peak_fp16_flops_per_s", 1.3e11),
            ("alignment_bytes", 64.0),
        ];
        let figures = figures.map(|(key, value)| format!("\"{key}\": {}", figure(value)));
        let text = format!(
            "{{ \"name\": \"{name}\", \"title\": \"A CPU\", \"vendor\": \"other\", \
             \"generation\": \"other\", \"figures\": {{ {} }} }}",
            figures.join(", ")
        );
        Gpu::from_json(&text, "a table").unwrap()
    }

    #[test]
    fn a_description_reads_back_as_it_was_written() {
        let gpu = cpu("described-gpu-2", 1.5e10);
        let text = serde_json::to_string(&gpu).unwrap();
        assert_eq!(Gpu::from_json(&text, "here").unwrap(), gpu);
        assert_eq!(serde_json::from_str::<Gpu>(&text).unwrap(), gpu);
    }

    #[test]
    fn a_description_is_as_strict_as_a_file() {
        let gpu = cpu("described-gpu-3", 1e10);
        let text = serde_json::to_string(&gpu).unwrap();
        let sentence = |text: &str| Gpu::from_json(text, "x.parquet").unwrap_err().to_string();
        let wrong = text.replace("10000000000.0", "-1.0");
        assert!(
            sentence(&wrong).contains("`memory_bandwidth_bytes_per_s` is -1"),
            "{}",
            sentence(&wrong)
        );
        assert!(sentence("{").starts_with("x.parquet: "));
        let wrong = text.replace("l2_bytes", "l3_bytes");
        assert!(sentence(&wrong).contains("l3_bytes"));
    }
}
