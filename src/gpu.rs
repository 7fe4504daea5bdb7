//! GPUs as data: what a datasheet says about each part, every figure with its source.
//!
//! `data/gpus/*.toml` is embedded at build time and checked on load: a figure outside its range
//! (a clock in MHz where hertz is due) does not load. Peaks are dense, without sparsity.

use crate::error::{Error, Result};
use crate::op::Dtype;
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Hertz, Seconds};
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/data/gpus");

/// Every figure a GPU file may hold: key, least and greatest value, whether it must be there.
///
/// One table serves the loader, its messages and its tests.
const FIGURES: &[(&str, f64, f64, bool)] = &[
    ("sm_count", 4.0, 1024.0, true),
    ("sm_clock_hz", 1e8, 5e9, true),
    ("memory_bandwidth_bytes_per_s", 5e10, 5e13, true),
    ("memory_bytes", 1e9, 2e12, true),
    ("l2_bytes", 1e5, 2e9, true),
    ("peak_fp32_flops_per_s", 1e12, 1e16, false),
    ("peak_tf32_flops_per_s", 1e12, 1e16, false),
    ("peak_fp16_flops_per_s", 1e13, 1e17, true),
    ("peak_bf16_flops_per_s", 1e13, 1e17, false),
    ("peak_fp8_flops_per_s", 1e13, 1e17, false),
    ("reachable_bf16_flops_per_s", 1e12, 1e17, false),
    ("reachable_bandwidth_fraction", 0.3, 1.0, false),
    ("shared_memory_per_sm_bytes", 1e4, 1e7, false),
    ("link_bandwidth_bytes_per_s", 1e9, 1e13, false),
    ("gpus_per_node", 1.0, 256.0, false),
    ("power_watts", 10.0, 5000.0, false),
    ("alignment_bytes", 2.0, 256.0, true),
    ("launch_floor_s", 1e-7, 1e-4, false),
];

/// One figure and where it was published or measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The value in the unit that the key names.
    pub value: f64,
    /// Document, page or measurement the value is taken from.
    pub source: String,
}

/// The maker of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Vendor {
    Nvidia,
    Amd,
    Intel,
}

/// A GPU generation; kernels (and so predictions) carry over within one sooner than across.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Generation {
    Volta,
    Turing,
    Ampere,
    Ada,
    Hopper,
    Blackwell,
    Cdna2,
    Cdna3,
    Cdna4,
    Xe2,
}

/// One GPU part.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Short name used with `--gpu`.
    pub name: String,
    /// Full product name.
    pub title: String,
    /// Maker.
    pub vendor: Vendor,
    /// Generation.
    pub generation: Generation,
    /// Other spellings: names drivers report, names public tables use.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Key to figure; see the range table in this file.
    figures: BTreeMap<String, Figure>,
}

impl Gpu {
    /// Reads and checks one GPU description; `place` names the file in messages.
    pub fn from_toml(text: &str, place: &str) -> Result<Self> {
        let gpu: Self = toml::from_str(text).map_err(|error| {
            Error::bad_input(format!(
                "{place}: {}",
                error.to_string().trim().replace('\n', " ")
            ))
        })?;
        for (key, figure) in &gpu.figures {
            let Some(&(_, least, greatest, _)) = FIGURES.iter().find(|(known, ..)| known == key)
            else {
                let known: Vec<_> = FIGURES.iter().map(|(known, ..)| *known).collect();
                return Err(Error::bad_input(format!(
                    "{place}: figure `{key}` is not known; allowed: {}",
                    known.join(", ")
                )));
            };
            if !(least..=greatest).contains(&figure.value) {
                return Err(Error::field(
                    place,
                    key,
                    figure.value,
                    &format!("{least:e} to {greatest:e}"),
                ));
            }
            if figure.source.trim().is_empty() {
                return Err(Error::field(
                    place,
                    &format!("{key}.source"),
                    "empty",
                    "where the figure is from",
                ));
            }
        }
        for (key, least, greatest, required) in FIGURES {
            if *required && !gpu.figures.contains_key(*key) {
                return Err(Error::field(
                    place,
                    key,
                    "missing",
                    &format!("{least:e} to {greatest:e}"),
                ));
            }
        }
        Ok(gpu)
    }

    /// All GPUs this build knows, by name.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Gpu>> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut gpus: Vec<Self> = FILES
                .files()
                .map(|file| {
                    let place = file.path().display().to_string();
                    let text = file
                        .contents_utf8()
                        .expect("GPU files are UTF-8; a test loads them all");
                    Self::from_toml(text, &place).expect("a test loads every embedded GPU file")
                })
                .collect();
            gpus.sort_by(|a, b| a.name.cmp(&b.name));
            gpus
        })
    }

    /// The GPU with this name or alias, in any case.
    pub fn find(name: &str) -> Result<&'static Self> {
        let matches = |other: &str| other.eq_ignore_ascii_case(name);
        Self::all()
            .iter()
            .find(|gpu| matches(&gpu.name) || gpu.aliases.iter().any(|alias| matches(alias)))
            .ok_or_else(|| {
                let names: Vec<_> = Self::all().iter().map(|gpu| gpu.name.as_str()).collect();
                Error::field("--gpu", "gpu", format!("`{name}`"), &names.join(", "))
            })
    }

    /// All figures with their sources, by key.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.figures
            .iter()
            .map(|(key, figure)| (key.as_str(), figure))
    }

    fn get(&self, key: &str) -> Option<f64> {
        self.figures.get(key).map(|figure| figure.value)
    }

    /// A figure the range table marks as required, so loading has made sure of it.
    fn required(&self, key: &str) -> f64 {
        self.figures[key].value
    }

    /// Streaming multiprocessors, compute units or Xe cores that take blocks.
    pub fn sm_count(&self) -> u64 {
        self.required("sm_count") as u64
    }

    /// Boost clock that the peaks are computed with.
    pub fn clock(&self) -> Hertz {
        Hertz::from_hertz(self.required("sm_clock_hz"))
    }

    /// Datasheet bandwidth of the device memory.
    pub fn bandwidth(&self) -> BytesPerSecond {
        BytesPerSecond::from_bytes_per_sec(self.required("memory_bandwidth_bytes_per_s"))
    }

    /// Share of [`Gpu::bandwidth`] that a streaming kernel reaches; 0.85 where nobody measured it.
    pub fn reachable_bandwidth(&self) -> BytesPerSecond {
        self.bandwidth() * self.get("reachable_bandwidth_fraction").unwrap_or(0.85)
    }

    /// Capacity of the device memory.
    pub fn memory(&self) -> Bytes {
        Bytes::from_bytes(self.required("memory_bytes"))
    }

    /// Last-level cache.
    pub fn l2(&self) -> Bytes {
        Bytes::from_bytes(self.required("l2_bytes"))
    }

    /// Dense peak in this format, where the part has units for it.
    pub fn peak(&self, dtype: Dtype) -> Option<FlopsPerSecond> {
        self.get(&format!("peak_{}_flops_per_s", dtype.name()))
            .map(FlopsPerSecond::from_flops_per_sec)
    }

    /// [`Gpu::peak`], or that of the format such work is run in instead: fp8 and bf16 in 16 bits, tf32 in fp32.
    pub fn nearest_peak(&self, dtype: Dtype) -> FlopsPerSecond {
        let wider: &[Dtype] = match dtype {
            Dtype::Fp8 => &[Dtype::Bf16, Dtype::Fp16],
            Dtype::Bf16 => &[Dtype::Fp16],
            Dtype::Tf32 => &[Dtype::Fp32, Dtype::Fp16],
            Dtype::Fp32 | Dtype::Fp16 => &[Dtype::Fp16],
        };
        std::iter::once(&dtype)
            .chain(wider)
            .find_map(|&dtype| self.peak(dtype))
            .expect("the range table requires the fp16 peak")
    }

    /// The best dense bf16 rate anybody measured on this part, where published.
    pub fn reachable_bf16(&self) -> Option<FlopsPerSecond> {
        self.get("reachable_bf16_flops_per_s")
            .map(FlopsPerSecond::from_flops_per_sec)
    }

    /// Bandwidth to the other GPUs of a node, one direction.
    pub fn link_bandwidth(&self) -> Option<BytesPerSecond> {
        self.get("link_bandwidth_bytes_per_s")
            .map(BytesPerSecond::from_bytes_per_sec)
    }

    /// Elements a dimension should be a multiple of to keep the matrix units full.
    pub fn alignment(&self, dtype: Dtype) -> u64 {
        (self.required("alignment_bytes") as u64 / dtype.size()).max(1)
    }

    /// The least time one kernel takes inside a stream of kernels; 2.5 us where nobody measured it.
    pub fn launch_floor(&self) -> Seconds {
        Seconds::from_secs(self.get("launch_floor_s").unwrap_or(2.5e-6))
    }
}
