//! Parts that `data/gpus` does not know: described by whoever measured them, known from the file that brings them on.
//!
//! A table or a model of such a part carries its description. Reading it makes [`Gpu::find`] know the part for as long
//! as the program runs; a built-in part of the same name stays as it is.

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
use std::sync::PoisonError;
use std::sync::RwLock;

/// Every part that was described to this program.
static DESCRIBED: RwLock<Vec<&'static Gpu>> = RwLock::new(Vec::new());

/// Figures that are measured from below: of two descriptions of one part the larger is nearer to the truth.
fn is_lower_bound(key: &str) -> bool {
    key.starts_with("peak_") || key == "memory_bandwidth_bytes_per_s"
}

/// The described part of this spelling.
pub(super) fn find(is_called: impl Fn(&Gpu) -> bool) -> Option<&'static Gpu> {
    let described = DESCRIBED.read().unwrap_or_else(PoisonError::into_inner);
    described.iter().copied().find(|gpu| is_called(gpu))
}

impl Gpu {
    /// Makes this part known; of two descriptions of one part, the larger of each measured rate counts.
    pub fn adopt(gpu: Self) -> &'static Self {
        if let Some(known) = Self::all().iter().find(|known| known.name == gpu.name) {
            return known;
        }
        let mut described = DESCRIBED.write().unwrap_or_else(PoisonError::into_inner);
        let place = described.iter().position(|known| known.name == gpu.name);
        let mut gpu = gpu;
        if let Some(place) = place {
            let known = described[place];
            for (key, figure) in known.figures() {
                let held = gpu.get(key);
                if is_lower_bound(key) && held.is_none_or(|held| held < figure.value) {
                    gpu.figures.insert(key.to_owned(), figure.clone());
                }
            }
            if gpu == *known {
                return known;
            }
        }
        // A part is some hundred bytes and a program meets a handful of them.
        let gpu: &'static Self = Box::leak(Box::new(gpu));
        match place {
            Some(place) => described[place] = gpu,
            None => described.push(gpu),
        }
        gpu
    }

    /// A part of a kind of its own with these figures, checked like those of a file.
    pub fn described(name: &str, title: &str, figures: BTreeMap<String, Figure>) -> Result<Self> {
        let title = if title.trim().is_empty() { name } else { title };
        let gpu = Self {
            name: name.to_owned(),
            title: title.to_owned(),
            vendor: Vendor::Other,
            generation: Generation::Other,
            aliases: Vec::new(),
            figures,
        };
        let text = serde_json::to_string(&gpu).expect("a description has only plain fields");
        Self::from_json(&text, name)
    }

    /// Whether this part is known from a description only, not from `data/gpus`.
    pub fn is_described(&self) -> bool {
        Self::all().iter().all(|known| known.name != self.name)
    }

    /// Reads the description of a part as a file carries it; `place` names the file in messages.
    pub fn from_json(text: &str, place: &str) -> Result<Self> {
        let table = serde_json::from_str(text).map_err(|error| {
            Error::bad_input(format!("{place}: the description of its GPU: {error}"))
        })?;
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
mod tests {
    use super::*;

    fn part(name: &str, bandwidth: f64) -> Gpu {
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
    fn a_described_part_is_found_and_its_rates_only_grow() {
        let name = "described-part-1";
        assert!(Gpu::find(name).is_err());
        let first = Gpu::adopt(part(name, 1e10));
        assert!(first.is_described());
        assert_eq!(Gpu::find("Described_Part 1").unwrap().name, name);
        Gpu::adopt(part(name, 3e10));
        assert_eq!(Gpu::find(name).unwrap().bandwidth().bytes_per_sec(), 3e10);
        let again = Gpu::adopt(part(name, 2e10));
        assert_eq!(again.bandwidth().bytes_per_sec(), 3e10);
        assert_eq!(first.bandwidth().bytes_per_sec(), 1e10);
    }

    #[test]
    fn a_built_in_part_is_not_described_anew() {
        let known = Gpu::adopt(part("h200", 1e10));
        assert!(!known.is_described());
        assert_eq!(known.bandwidth().bytes_per_sec(), 4.8e12);
    }

    #[test]
    fn a_description_reads_back_as_it_was_written() {
        let gpu = part("described-part-2", 1.5e10);
        let text = serde_json::to_string(&gpu).unwrap();
        assert_eq!(Gpu::from_json(&text, "here").unwrap(), gpu);
        assert_eq!(serde_json::from_str::<Gpu>(&text).unwrap(), gpu);
    }

    #[test]
    fn a_description_is_as_strict_as_a_file() {
        let gpu = part("described-part-3", 1e10);
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
