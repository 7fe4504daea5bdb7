//! Reading GPU files: every figure in its range, every message with file, key and what is allowed.

use super::{Figure, Gpu, Vendor, quoted, spelling};
use crate::error::{Error, Result};
use crate::toml_text;
use serde::de::DeserializeOwned;
use shapewise_data::GPUS;
use std::collections::{BTreeMap, HashMap};

/// Every figure a GPU file may hold: key, least and greatest value, whether it must be there.
///
/// One table serves the loader, its messages and its tests.
pub(super) const FIGURES: &[(&str, f64, f64, bool)] = &[
    ("sm_count", 4.0, 1024.0, true),
    ("sm_clock_hz", 1e8, 5e9, true),
    ("memory_bandwidth_bytes_per_s", 5e10, 5e13, true),
    ("memory_bytes", 1e9, 2e12, true),
    ("visible_memory_bytes", 1e9, 2e12, false),
    ("l2_bytes", 1e5, 2e9, true),
    ("peak_fp32_flops_per_s", 1e12, 1e16, false),
    ("peak_tf32_flops_per_s", 1e12, 1e16, false),
    ("peak_fp16_flops_per_s", 1e13, 1e17, true),
    ("peak_bf16_flops_per_s", 1e13, 1e17, false),
    ("peak_fp8_flops_per_s", 1e13, 1e17, false),
    ("peak_int8_flops_per_s", 1e13, 1e17, false),
    ("peak_nvfp4_flops_per_s", 1e13, 1e17, false),
    ("reachable_bf16_flops_per_s", 1e12, 1e17, false),
    ("reachable_bandwidth_fraction", 0.3, 1.0, false),
    ("shared_memory_per_sm_bytes", 1e4, 1e7, false),
    ("link_bandwidth_bytes_per_s", 1e9, 1e13, false),
    ("gpus_per_node", 1.0, 256.0, false),
    ("network_bandwidth_bytes_per_s", 1e8, 1e12, false),
    ("host_bandwidth_bytes_per_s", 1e8, 1e13, false),
    ("host_memory_bandwidth_bytes_per_s", 1e8, 1e13, false),
    ("power_watts", 10.0, 5000.0, false),
    ("alignment_bytes", 2.0, 256.0, true),
    ("launch_floor_s", 1e-7, 1e-4, false),
];

/// The share of the least value of a figure that a device of another kind must have: a software renderer (Mesa's
/// lavapipe) on two busy cores was measured at 0.95 GFLOP/s, 1e-4 of the least of a GPU.
const OTHER_LEAST: f64 = 1e-6;

/// The keys of a GPU file, each with what it may hold; these texts end up in messages.
pub(super) const NAME: (&str, &str) = (
    "name",
    "lowercase letters, digits and single hyphens, such as `a100-pcie`",
);
const TITLE: (&str, &str) = ("title", "the full product name as text");
pub(super) const VENDOR: (&str, &str) = ("vendor", "nvidia, amd, intel, other");
pub(super) const GENERATION: (&str, &str) = (
    "generation",
    "volta, turing, ampere, ada, hopper, blackwell, cdna2, cdna3, cdna4, rdna3, rdna4, xe2, other",
);
const ALIASES: (&str, &str) = ("aliases", "a list of texts, none of them empty");
const LIKE: (&str, &str) = (
    "like",
    "the name of a built-in GPU whose file has no `like`, such as `a100`",
);
const TABLE: (&str, &str) = ("figures", "a table of figures");
const KEYS: [(&str, &str); 7] = [NAME, TITLE, LIKE, VENDOR, GENERATION, ALIASES, TABLE];

/// The value of a figure's key.
const FIGURE: &str = "{ value = a number, source = \"where it is from\" }";

impl Gpu {
    /// Reads and checks one GPU description; `place` names the file in messages.
    pub fn from_toml(text: &str, place: &str) -> Result<Self> {
        Self::from_table(parse(text, place)?, place)
    }

    pub(super) fn from_table(mut table: toml::Table, place: &str) -> Result<Self> {
        let name = take(&mut table, place, NAME)?;
        let title = take(&mut table, place, TITLE)?;
        let like = match table.contains_key(LIKE.0) {
            true => Some(Self::base(&take::<String>(&mut table, place, LIKE)?, place)?),
            false => None,
        };
        let own = |key: &(&str, &str)| like.is_none() || table.contains_key(key.0);
        let (own_vendor, own_generation) = (own(&VENDOR), own(&GENERATION));
        let vendor = match &like {
            Some(like) if !own_vendor => like.vendor,
            _ => take(&mut table, place, VENDOR)?,
        };
        let generation = match &like {
            Some(like) if !own_generation => like.generation,
            _ => take(&mut table, place, GENERATION)?,
        };
        let figures = take(&mut table, place, TABLE)?;
        let gpu = Self {
            name,
            title,
            vendor,
            generation,
            aliases: if table.contains_key(ALIASES.0) {
                take(&mut table, place, ALIASES)?
            } else {
                Vec::new()
            },
            figures: read_figures(figures, vendor, like.as_ref(), place)?.into(),
            meant: None,
        };
        if let Some(key) = table.keys().next() {
            return Err(unknown_key(place, "key", key, KEYS.map(|(key, _)| key)));
        }
        gpu.check(place)?;
        Ok(gpu)
    }

    /// The built-in GPU that a file takes its other figures from.
    fn base(name: &str, place: &str) -> Result<Self> {
        let file = GPUS.get_file(format!("{name}.toml"));
        let text = file.and_then(|file| file.contents_utf8());
        let table: Option<toml::Table> = text.map(|text| toml_text::parse(text, name)).transpose()?;
        match table {
            Some(table) if !table.contains_key(LIKE.0) => Self::from_table(table, name),
            _ => Err(Error::field(place, LIKE.0, quoted(name), LIKE.1)),
        }
    }

    /// Its figures for a part of the same units with other counts and clocks: peaks follow both, and what was measured of
    /// this GPU is left out where they differ.
    fn scaled(&self, own: &BTreeMap<String, Figure>) -> BTreeMap<String, Figure> {
        let ratio = |key: &str| {
            let asked = own.get(key).map_or(self.required(key), |own| own.value);
            asked / self.required(key)
        };
        let ratio = ratio("sm_count") * ratio("sm_clock_hz");
        let mut figures = (*self.figures).clone();
        figures.retain(|key, _| key != "visible_memory_bytes" || !own.contains_key("memory_bytes"));
        if ratio != 1.0 {
            figures.retain(|key, _| !key.starts_with("reachable_"));
            for (_, figure) in figures.iter_mut().filter(|(key, _)| key.starts_with("peak_")) {
                figure.value *= ratio;
                figure.source = format!("derived: units and clock against {}, {}", self.name, figure.source);
            }
        }
        figures
    }

    /// The rules that look at more than one figure, or at none.
    fn check(&self, place: &str) -> Result<()> {
        if !is_kebab_case(&self.name) {
            return Err(Error::field(place, NAME.0, quoted(&self.name), NAME.1));
        }
        if self.title.trim().is_empty() {
            return Err(Error::field(place, TITLE.0, "empty", TITLE.1));
        }
        if self.aliases.iter().any(|alias| alias.trim().is_empty()) {
            let listed = format!("{:?}", self.aliases);
            return Err(Error::field(place, ALIASES.0, listed, ALIASES.1));
        }
        for (part, whole) in [
            ("reachable_bf16_flops_per_s", "peak_bf16_flops_per_s"),
            ("visible_memory_bytes", "memory_bytes"),
        ] {
            if let (Some(value), Some(limit)) = (self.get(part), self.get(whole))
                && value > limit
            {
                let allowed = format!("at most `{whole}`, {}", number(limit));
                return Err(Error::field(place, part, number(value), &allowed));
            }
        }
        Ok(())
    }
}

/// The embedded files: path and text.
pub(super) fn embedded() -> impl Iterator<Item = (String, &'static str)> {
    GPUS.files().map(|file| {
        let text = file
            .contents_utf8()
            .expect("GPU files are UTF-8; a test loads them all");
        (file.path().display().to_string(), text)
    })
}

/// Loads a folder of GPU files and checks what only the whole folder shows: that a file is called
/// like its GPU, and that no spelling means two.
pub(super) fn load<'a>(files: impl Iterator<Item = (String, &'a str)>) -> Result<Vec<Gpu>> {
    let mut gpus = Vec::new();
    let mut owners: HashMap<String, String> = HashMap::new();
    for (place, text) in files {
        let gpu = Gpu::from_toml(text, &place)?;
        let expected = format!("{}.toml", gpu.name);
        if place != expected {
            let allowed = format!("the name of the file, `{}`", place.trim_end_matches(".toml"));
            return Err(Error::field(&place, NAME.0, quoted(&gpu.name), &allowed));
        }
        for (index, known) in gpu.names().enumerate() {
            if let Some(owner) = owners.insert(spelling(known), place.clone()) {
                let field = if index == 0 { NAME.0 } else { ALIASES.0 };
                let allowed =
                    format!("a spelling used once; {owner} has it already (case, `_`, `-` and space do not count)");
                return Err(Error::field(&place, field, quoted(known), &allowed));
            }
        }
        gpus.push(gpu);
    }
    gpus.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(gpus)
}

/// The text as a TOML table.
fn parse(text: &str, place: &str) -> Result<toml::Table> {
    if text.trim().is_empty() {
        let keys = KEYS.map(|(key, _)| key).join(", ");
        return Err(Error::bad_input(format!(
            "{place}: the file is empty; a GPU file holds {keys}"
        )));
    }
    toml_text::parse(text, place)
}

/// Removes one required key from the table and reads it.
fn take<T: DeserializeOwned>(table: &mut toml::Table, place: &str, (key, allowed): (&str, &str)) -> Result<T> {
    let value = table
        .remove(key)
        .ok_or_else(|| Error::field(place, key, "missing", allowed))?;
    read(value, place, key, allowed)
}

/// Reads one value; the message shows it as the file has it.
fn read<T: DeserializeOwned>(value: toml::Value, place: &str, key: &str, allowed: &str) -> Result<T> {
    T::deserialize(value.clone()).map_err(|_| {
        let shown = value.to_string().replace('\n', " ");
        Error::field(place, key, shown, allowed)
    })
}

/// Reads the figures and checks each against its row of [`FIGURES`].
fn read_figures(
    table: toml::Table,
    vendor: Vendor,
    like: Option<&Gpu>,
    place: &str,
) -> Result<BTreeMap<String, Figure>> {
    let mut figures = BTreeMap::new();
    for (key, value) in table {
        let Some(&(_, least, greatest, _)) = FIGURES.iter().find(|(known, ..)| *known == key) else {
            let known = FIGURES.iter().map(|(known, ..)| *known);
            return Err(unknown_key(place, "figure", &key, known));
        };
        // The ranges are those of datasheets; what was measured of another device may be far below.
        let least = if vendor == Vendor::Other {
            least * OTHER_LEAST
        } else {
            least
        };
        let figure: Figure = read(value, place, &key, FIGURE)?;
        let in_range = (least..=greatest).contains(&figure.value);
        if !in_range || (is_whole(&key) && figure.value.fract() != 0.0) {
            let allowed = range(&key, least, greatest);
            return Err(Error::field(place, &key, number(figure.value), &allowed));
        }
        if figure.source.trim().is_empty() {
            let field = format!("{key}.source");
            return Err(Error::field(place, &field, "empty", "where the figure is from"));
        }
        figures.insert(key, figure);
    }
    if let Some(like) = like {
        let mut inherited = like.scaled(&figures);
        inherited.append(&mut figures);
        figures = inherited;
    }
    for (key, least, greatest, required) in FIGURES {
        if *required && !figures.contains_key(*key) {
            let allowed = range(key, *least, *greatest);
            return Err(Error::field(place, key, "missing", &allowed));
        }
    }
    Ok(figures)
}

fn unknown_key<'a>(place: &str, kind: &str, key: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<_> = known.into_iter().collect();
    Error::bad_input(format!(
        "{place}: {kind} `{key}` is not known; allowed: {}",
        known.join(", ")
    ))
}

/// Whether the figure is a count of things or bytes; rates may have a fraction.
fn is_whole(key: &str) -> bool {
    key.ends_with("_count") || key.ends_with("_bytes") || key == "gpus_per_node"
}

fn range(key: &str, least: f64, greatest: f64) -> String {
    let kind = if is_whole(key) { "whole numbers, " } else { "" };
    format!("{kind}{} to {}", number(least), number(greatest))
}

/// A number as people write it: `132`, `0.85`, `1.83e9`.
pub(super) fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e5).contains(&value.abs()) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

fn is_kebab_case(name: &str) -> bool {
    name.split('-').all(|word| {
        let mut chars = word.chars();
        !word.is_empty() && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    })
}
