//! GPUs as data: what a datasheet says about each, every figure with its source.
//!
//! `data/gpus/*.toml` is embedded at build time and checked on load: a figure outside its range
//! (a clock in MHz where hertz is due) does not load. Peaks are dense, without sparsity.
//! `data/README.md` describes the format and how to add a GPU.

mod catalog;
mod described;
mod figures;
mod read;

pub use catalog::GpuCatalog;

use crate::error::{Error, Result};
use crate::ops::Dtype;
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Hertz, Seconds};
use figures::Figures;
use serde::Deserialize;
use serde::Serialize;
use std::sync::OnceLock;

/// One figure and where it was published or measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The value in the unit that the key names.
    pub value: f64,
    /// Document, page or measurement the value is taken from.
    pub source: String,
}

named_enum! {
    /// The maker of a GPU.
    Vendor {
        /// NVIDIA.
        Nvidia = "nvidia",
        /// AMD.
        Amd = "amd",
        /// Intel.
        Intel = "intel",
        /// Of a GPU that was described by measuring it.
        Other = "other",
    }
}

named_enum! {
    /// A GPU generation; kernels (and so predictions) carry over within one sooner than across.
    Generation {
        /// NVIDIA V100.
        Volta = "volta",
        /// NVIDIA T4.
        Turing = "turing",
        /// NVIDIA A100, A30, A40, RTX 3090.
        Ampere = "ampere",
        /// NVIDIA L4, L40S, RTX 4090.
        Ada = "ada",
        /// NVIDIA H100, H200, GH200, H20.
        Hopper = "hopper",
        /// NVIDIA B200, B300, RTX PRO 6000, RTX 5090.
        Blackwell = "blackwell",
        /// AMD MI210, MI250X.
        Cdna2 = "cdna2",
        /// AMD MI300X, MI325X.
        Cdna3 = "cdna3",
        /// AMD MI350X, MI355X.
        Cdna4 = "cdna4",
        /// AMD RX 7900 XTX, W7900, Ryzen AI Max.
        Rdna3 = "rdna3",
        /// AMD RX 9070 XT, R9700.
        Rdna4 = "rdna4",
        /// Intel B60.
        Xe2 = "xe2",
        /// Of a GPU that was described by measuring it; nothing carries over to it or from it.
        Other = "other",
    }
}

/// Arithmetic units that skip zeros among weights do twice the dense rate, zeros counted (NVIDIA A100 and H100
/// architecture whitepapers, AMD CDNA 3 whitepaper).
const SPARSE_OVER_DENSE: f64 = 2.0;

impl Generation {
    /// Whether its units skip the zeros where two of four neighbouring weights are zero.
    pub const fn skips_zeros(self) -> bool {
        matches!(
            self,
            Self::Ampere | Self::Ada | Self::Hopper | Self::Blackwell | Self::Cdna3 | Self::Cdna4 | Self::Rdna4
        )
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
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
    pub aliases: Vec<String>,
    /// Key to figure; see the range table in `read.rs`.
    figures: Figures,
    /// The format that is meant where none is named; `None` for the usual one of its units.
    meant: Option<Dtype>,
}

/// By how much GPUs of half-rate units clock higher than they are rated: an RTX 5090 reaches 240.05 TFLOP/s in bf16, 1.146 times its
/// rated peak (zzc0721/torch-performance-test-data, issue 96).
const OVER_RATED_CLOCK: f64 = 1.15;

impl Gpu {
    /// All GPUs this build knows, by name.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Gpu>> = OnceLock::new();
        ALL.get_or_init(|| read::load(read::embedded()).expect("a test loads every embedded GPU file"))
    }

    /// The built-in GPU with this name or alias, as [`GpuCatalog::find`] looks it up.
    pub fn find(name: &str) -> Result<&'static Self> {
        static BUILT_IN: GpuCatalog = GpuCatalog::built_in();
        BUILT_IN.find(name)
    }

    /// The built-in GPUs of these names, each once, in their order.
    pub fn find_each<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<&'static Self>> {
        let mut gpus: Vec<&'static Self> = Vec::new();
        for name in names {
            let gpu = Self::find(name.trim())?;
            if gpus.iter().all(|known| known.name != gpu.name) {
                gpus.push(gpu);
            }
        }
        Ok(gpus)
    }

    /// The name, then the aliases.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// All figures with their sources, by key.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.figures.iter().map(|(key, figure)| (key.as_str(), figure))
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
        let known = self.figures.bandwidth;
        BytesPerSecond::from_bytes_per_sec(known.expect("the range table requires it"))
    }

    /// Share of [`Gpu::bandwidth`] that a streaming kernel reaches; 0.85 if unmeasured.
    pub fn reachable_bandwidth(&self) -> BytesPerSecond {
        self.bandwidth() * self.figures.reachable.unwrap_or(0.85)
    }

    /// The best sustained bf16 rate that was published; `None` if unmeasured.
    pub fn reachable_peak(&self) -> Option<FlopsPerSecond> {
        let best = self.get("reachable_bf16_flops_per_s");
        best.map(FlopsPerSecond::from_flops_per_sec)
    }

    /// Whether matrix units of this format that sum in 32 bits run at half their rate, 1,024 bytes of an operand a multiprocessor and
    /// clock, as those of GeForce, L40 and L20 do.
    pub fn has_half_units(&self, dtype: Dtype) -> bool {
        let sums_wide = matches!(
            dtype,
            Dtype::Tf32 | Dtype::Bf16 | Dtype::Fp16 | Dtype::W8a16 | Dtype::W4a16 | Dtype::Fp8 | Dtype::Fp8Block
        );
        sums_wide && self.is_of_graphics_die(600.0)
    }

    /// Whether its memory is GDDR: its units are half as wide as those of the HBM parts of its generation, or less.
    pub fn has_graphics_memory(&self) -> bool {
        self.is_of_graphics_die(1200.0)
    }

    /// Whether a multiprocessor does fewer 16-bit FLOPs than these a clock, in a generation whose HBM parts do 2,048 and more.
    fn is_of_graphics_die(&self, most: f64) -> bool {
        let is_known = matches!(
            self.generation,
            Generation::Ampere | Generation::Ada | Generation::Blackwell
        );
        let cycles = self.sm_count() as f64 * self.clock().hertz();
        is_known && self.nearest_peak(Dtype::Fp16).flops_per_sec() < most * cycles
    }

    /// Capacity of the device memory: what CUDA reports of it, where that is known.
    pub fn memory(&self) -> Bytes {
        let visible = self.visible_memory();
        visible.unwrap_or_else(|| Bytes::from_bytes(self.required("memory_bytes")))
    }

    /// What CUDA reports of the memory, without the driver's share.
    pub fn visible_memory(&self) -> Option<Bytes> {
        self.get("visible_memory_bytes").map(Bytes::from_bytes)
    }

    /// Last-level cache.
    pub fn l2(&self) -> Bytes {
        Bytes::from_bytes(self.required("l2_bytes"))
    }

    /// Dense peak in this format; `None` if it has no such units or none is published. Where weights alone are quantized,
    /// the arithmetic is that of 16 bits; where two of four weights are zero, twice the dense peak with the zeros counted.
    pub fn peak(&self, dtype: Dtype) -> Option<FlopsPerSecond> {
        let figure = |dtype: Dtype| self.figures.peaks[dtype as usize];
        let peak = match dtype {
            Dtype::W8a16 | Dtype::W4a16 => figure(Dtype::Bf16).or_else(|| figure(Dtype::Fp16)),
            Dtype::Fp8Block => figure(Dtype::Fp8),
            dtype => match dtype.dense() {
                Some(dense) => figure(dense)
                    .filter(|_| self.generation.skips_zeros())
                    .map(|peak| SPARSE_OVER_DENSE * peak),
                None => figure(dtype),
            },
        };
        peak.map(FlopsPerSecond::from_flops_per_sec)
    }

    /// The format that is meant where none is named: that of [`Gpu::with_usual_dtype`], else bf16, or fp16 where the GPU has
    /// no units for that.
    pub fn usual_dtype(&self) -> Dtype {
        let mut usual = self.meant.into_iter().chain([Dtype::Bf16, Dtype::Fp16]);
        usual.find(|&dtype| self.peak(dtype).is_some()).unwrap_or_default()
    }

    /// This GPU as one on which another format is meant where none is named.
    #[must_use]
    pub fn with_usual_dtype(self, dtype: Dtype) -> Self {
        Self {
            meant: Some(dtype),
            ..self
        }
    }

    /// Fails for the first of these formats that the GPU has no units for, with those that it has.
    pub fn require(&self, dtypes: impl IntoIterator<Item = Dtype>) -> Result<()> {
        let mut dtypes = dtypes.into_iter();
        let Some(dtype) = dtypes.find(|&dtype| self.peak(dtype).is_none()) else {
            return Ok(());
        };
        let alike = |known: &Dtype| known.is_element() || !dtype.is_element();
        let known = Dtype::ALL.into_iter().filter(alike);
        let known = known.filter(|&dtype| self.peak(dtype).is_some());
        let names: Vec<_> = known.map(Dtype::name).collect();
        // Engines that meet such a checkpoint here quantize the weights alone.
        let weights_alone = match dtype {
            Dtype::Fp8 | Dtype::Fp8Block if !names.contains(&Dtype::W8a16.name()) => {
                "; in serving the weights alone: w8a16"
            }
            _ => "",
        };
        let allowed = format!("what {} has units for: {}{weights_alone}", self.name, names.join(", "));
        Err(Error::field("workload", "dtype", format!("`{dtype}`"), &allowed))
    }

    /// What to say of a format whose timed kernels do not run on this GPU.
    pub fn kernel_note(&self, dtype: Dtype) -> Option<String> {
        let is_old = matches!(self.generation, Generation::Volta | Generation::Turing);
        (is_old && dtype == Dtype::W4a16).then(|| {
            "kernels of 4-bit weights were timed on Ampere and newer (Marlin); on Volta, and on Turing in releases before 2026, \
             those of AWQ and GPTQ run, which take longer"
                .to_owned()
        })
    }

    /// [`Gpu::peak`], or that of the format such work is run in instead: 4 bits in 8, 8 bits and bf16 in 16, tf32 in fp32.
    pub fn nearest_peak(&self, dtype: Dtype) -> FlopsPerSecond {
        let wider: &[Dtype] = match dtype {
            Dtype::Nvfp4 | Dtype::Int8 => &[Dtype::Fp8, Dtype::Bf16, Dtype::Fp16],
            Dtype::Fp8 | Dtype::Fp8Block => &[Dtype::Bf16, Dtype::Fp16],
            Dtype::SparseFp8 => &[Dtype::Fp8, Dtype::Bf16, Dtype::Fp16],
            Dtype::SparseBf16 => &[Dtype::Bf16, Dtype::Fp16],
            Dtype::Bf16 | Dtype::W8a16 | Dtype::W4a16 => &[Dtype::Fp16],
            Dtype::Tf32 => &[Dtype::Fp32, Dtype::Fp16],
            Dtype::Fp32 | Dtype::Fp16 => &[Dtype::Fp16],
        };
        std::iter::once(&dtype)
            .chain(wider)
            .find_map(|&dtype| self.peak(dtype))
            .expect("the range table requires the fp16 peak")
    }

    /// The arithmetic in this format that no kernel exceeds: [`Gpu::nearest_peak`] at the clock that the GPU reaches.
    pub fn greatest_peak(&self, dtype: Dtype) -> FlopsPerSecond {
        self.nearest_peak(dtype)
            * if self.has_half_units(Dtype::Fp16) {
                OVER_RATED_CLOCK
            } else {
                1.0
            }
    }

    /// Bandwidth to the other GPUs of a node, one direction.
    pub fn link_bandwidth(&self) -> Option<BytesPerSecond> {
        self.get("link_bandwidth_bytes_per_s")
            .map(BytesPerSecond::from_bytes_per_sec)
    }

    /// Whether GPUs of this kind are linked faster than PCIe 5.0 links them.
    pub fn is_linked(&self) -> bool {
        let link = self.link_bandwidth();
        link.is_some_and(|link| link.bytes_per_sec() > 64e9)
    }

    /// Bandwidth between nodes of one GPU, one direction; 400 Gb/s, as in a DGX H100, where nothing is known.
    pub fn network_bandwidth(&self) -> BytesPerSecond {
        let known = self.get("network_bandwidth_bytes_per_s");
        BytesPerSecond::from_bytes_per_sec(known.unwrap_or(50e9))
    }

    /// Bandwidth to the memory of the host, one direction; `None` if nothing is known.
    pub fn host_bandwidth(&self) -> Option<BytesPerSecond> {
        self.get("host_bandwidth_bytes_per_s")
            .map(BytesPerSecond::from_bytes_per_sec)
    }

    /// Bandwidth of host memory for each GPU; 50 GB/s, two sockets of DDR4-3200 for eight GPUs, where nothing is known.
    pub fn host_memory_bandwidth(&self) -> BytesPerSecond {
        let known = self.get("host_memory_bandwidth_bytes_per_s");
        BytesPerSecond::from_bytes_per_sec(known.unwrap_or(50e9))
    }

    /// This GPU in a cluster with another network.
    #[must_use]
    pub fn with_network(self, bandwidth: BytesPerSecond) -> Self {
        self.with("network_bandwidth_bytes_per_s", bandwidth)
    }

    /// This GPU with another link to the others of its node.
    #[must_use]
    pub fn with_link(self, bandwidth: BytesPerSecond) -> Self {
        self.with("link_bandwidth_bytes_per_s", bandwidth)
    }

    /// This GPU on a host with another link.
    #[must_use]
    pub fn with_host_link(self, bandwidth: BytesPerSecond) -> Self {
        self.with("host_bandwidth_bytes_per_s", bandwidth)
    }

    fn with(mut self, key: &str, bandwidth: BytesPerSecond) -> Self {
        let figure = Figure {
            value: bandwidth.bytes_per_sec(),
            source: "asked for".to_owned(),
        };
        self.figures.insert(key.to_owned(), figure);
        self
    }

    /// Power that the board may take.
    pub fn power_watts(&self) -> Option<f64> {
        self.get("power_watts")
    }

    /// GPUs that reach each other over the link.
    pub fn gpus_per_node(&self) -> Option<u64> {
        self.get("gpus_per_node").map(|gpus| gpus as u64)
    }

    /// Elements a dimension should be a multiple of to keep the matrix units full.
    pub fn alignment(&self, dtype: Dtype) -> u64 {
        (self.required("alignment_bytes") as u64 / dtype.size()).max(1)
    }

    /// The least time one kernel takes inside a stream of kernels; 2.5 us if unmeasured.
    pub fn launch_floor(&self) -> Seconds {
        Seconds::from_secs(self.figures.launch.unwrap_or(2.5e-6))
    }
}

fn quoted(text: &str) -> String {
    format!("`{text}`")
}

/// What two spellings of one GPU share.
fn spelling(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', ' '], "-")
}

#[cfg(test)]
mod tests {
    use super::read::{FIGURES, NAME, embedded, load, number};
    use super::*;

    /// The H200 file, to be broken in one place.
    fn h200() -> &'static str {
        shapewise_data::GPUS
            .get_file("h200.toml")
            .unwrap()
            .contents_utf8()
            .unwrap()
    }

    /// The message for the H200 file with one text replaced.
    fn message(from: &str, to: &str) -> String {
        assert!(h200().contains(from), "the H200 file has no {from}");
        let error = Gpu::from_toml(&h200().replacen(from, to, 1), "my.toml").unwrap_err();
        assert!(error.is_bad_input());
        let message = error.to_string();
        assert!(message.starts_with("my.toml: "), "{message}");
        assert!(!message.contains('\n'), "{message}");
        message
    }

    #[test]
    fn every_embedded_file_loads_and_every_gpu_is_there() {
        let gpus = load(embedded()).unwrap();
        assert_eq!(gpus.len(), shapewise_data::GPUS.files().count());
        assert_eq!(Gpu::all().len(), gpus.len());
    }

    #[test]
    fn a_clock_in_megahertz_does_not_load() {
        assert_eq!(
            message("sm_clock_hz = { value = 1.83e9", "sm_clock_hz = { value = 1830"),
            "my.toml: `sm_clock_hz` is 1830; allowed: 1e8 to 5e9"
        );
    }

    #[test]
    fn numbers_that_are_none_and_fractions_of_a_thing_do_not_load() {
        assert_eq!(
            message("sm_count = { value = 132", "sm_count = { value = nan"),
            "my.toml: `sm_count` is NaN; allowed: whole numbers, 4 to 1024"
        );
        assert!(message("value = 1.83e9", "value = inf").contains("`sm_clock_hz` is inf"));
        assert!(message("value = 132", "value = 131.5").contains("`sm_count` is 131.5"));
    }

    #[test]
    fn unknown_missing_and_mistyped_keys_are_named() {
        assert!(message("sm_count", "sms").contains("figure `sms` is not known; allowed: sm_count"));
        assert!(message("title =", "label = 1\ntitle =").contains("key `label` is not known"));
        assert!(message("name = \"h200\"", "").contains("`name` is missing"));
        assert!(message("[figures]", "[numbers]").contains("`figures` is missing"));
        assert_eq!(
            message("name = \"h200\"", "name = 200"),
            format!("my.toml: `name` is 200; allowed: {}", NAME.1)
        );
        assert_eq!(
            message("\"nvidia\"", "\"nvida\""),
            "my.toml: `vendor` is \"nvida\"; allowed: nvidia, amd, intel, other"
        );
        assert!(message("value = 132", "value = \"132\"").contains("`sm_count` is { "));
        assert!(message("value = 132", "valeu = 132").contains("allowed: { value = a number"));
        let without_count: Vec<_> = h200().lines().filter(|line| !line.starts_with("sm_count")).collect();
        assert_eq!(
            Gpu::from_toml(&without_count.join("\n"), "my.toml")
                .unwrap_err()
                .to_string(),
            "my.toml: `sm_count` is missing; allowed: whole numbers, 4 to 1024"
        );
    }

    #[test]
    fn empty_files_and_other_formats_are_refused_in_one_sentence() {
        for empty in ["", " \n\n"] {
            let error = Gpu::from_toml(empty, "my.toml").unwrap_err().to_string();
            assert!(
                error.starts_with("my.toml: the file is empty; a GPU file holds name, title"),
                "{error}"
            );
        }
        let error = Gpu::from_toml("name = \"x\"\n{ \"gpu\": 1 }\n", "my.toml")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("my.toml: line 2: "), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn messages_allow_every_vendor_and_generation() {
        assert_eq!(read::VENDOR.1, Vendor::NAMES.join(", "));
        assert_eq!(read::GENERATION.1, Generation::NAMES.join(", "));
    }

    #[test]
    fn a_figure_needs_a_source_and_a_name_is_kebab_case() {
        let clock = h200().lines().find(|line| line.starts_with("sm_clock_hz")).unwrap();
        assert_eq!(
            message(clock, "sm_clock_hz = { value = 1.83e9, source = \" \" }"),
            "my.toml: `sm_clock_hz.source` is empty; allowed: where the figure is from"
        );
        for name in ["H200", "h_200", "h--200", "-h200", "h 200", ""] {
            let named = format!("name = \"{name}\"");
            assert!(message("name = \"h200\"", &named).contains("`name` is `"));
        }
        assert!(message("\"h200_sxm\"", "\" \"").contains("`aliases` is "));
    }

    #[test]
    fn formats_without_units_are_refused_with_those_that_have_some() {
        let refused = |gpu: &str, dtype| {
            let refused = Gpu::find(gpu).unwrap().require([dtype]).unwrap_err();
            assert!(refused.is_bad_input());
            refused.to_string()
        };
        assert_eq!(
            refused("v100", Dtype::Bf16),
            "workload: `dtype` is `bf16`; allowed: what v100 has units for: fp32, fp16"
        );
        assert!(refused("a100", Dtype::Fp8).ends_with("fp32, tf32, fp16, bf16; in serving the weights alone: w8a16"));
        assert!(refused("a100", Dtype::Nvfp4).ends_with("bf16, int8, w8a16, w4a16, sparse_bf16"));
        let a100 = Gpu::find("a100").unwrap();
        assert_eq!(a100.peak(Dtype::W4a16), a100.peak(Dtype::Bf16));
        assert!(a100.require([Dtype::Bf16, Dtype::W4a16]).is_ok());
        let h200 = Gpu::find("h200").unwrap();
        assert!(h200.require([Dtype::Fp8]).is_ok());
        let [dense, sparse] = [Dtype::Fp8, Dtype::SparseFp8].map(|dtype| h200.peak(dtype).unwrap());
        assert_eq!(sparse / dense, 2.0);
        assert!(refused("v100", Dtype::SparseBf16).contains("`sparse_bf16`"));
        assert!(refused("a100", Dtype::SparseFp8).ends_with("w4a16, sparse_bf16"));
    }

    #[test]
    fn a_measured_rate_above_the_peak_does_not_load() {
        assert_eq!(
            message("value = 794.5e12", "value = 1979e12"),
            "my.toml: `reachable_bf16_flops_per_s` is 1.979e15; \
             allowed: at most `peak_bf16_flops_per_s`, 9.894e14"
        );
    }

    #[test]
    fn a_spelling_stands_for_one_part_and_a_file_is_called_like_its_part() {
        let twin = h200().replacen("name = \"h200\"", "name = \"twin\"", 1);
        let files = [
            ("h200.toml".to_owned(), h200()),
            ("twin.toml".to_owned(), twin.as_str()),
        ];
        let error = load(files.into_iter()).unwrap_err().to_string();
        assert!(
            error.starts_with("twin.toml: `aliases` is `h200_sxm`; allowed: a spelling used once; h200.toml has it"),
            "{error}"
        );
        let misplaced = [("other.toml".to_owned(), h200())];
        assert_eq!(
            load(misplaced.into_iter()).unwrap_err().to_string(),
            "other.toml: `name` is `h200`; allowed: the name of the file, `other`"
        );
    }

    #[test]
    fn the_readme_states_the_range_of_every_figure() {
        let readme = include_str!("../../../data/README.md");
        for (key, least, greatest, _) in FIGURES {
            let named = quoted(key);
            let range = format!("| {} to {} |", number(*least), number(*greatest));
            assert!(
                readme
                    .lines()
                    .any(|line| line.starts_with('|') && line.contains(&named) && line.contains(&range)),
                "data/README.md has no row for {key} with {range}"
            );
        }
    }

    #[test]
    fn parts_are_found_by_name_and_alias_in_any_case() {
        for (spelling, name) in [
            ("h200", "h200"),
            ("H200", "h200"),
            ("h200_sxm", "h200"),
            ("NVIDIA H200", "h200"),
            ("nvidia a100-sxm4-80gb", "a100"),
            ("a100_pcie", "a100-pcie"),
            ("NVIDIA_A100-PCIE-40GB", "a100-40gb-pcie"),
            ("a100_40gb", "a100-40gb"),
            ("Tesla V100-SXM2-32GB", "v100"),
            ("b200_sxm", "b200"),
            ("NVIDIA B300 SXM6 AC", "b300"),
            ("rtx_pro_6000_server", "rtx-pro-6000"),
            ("Intel(R) Graphics [0xe211]", "b60"),
            ("a800", "a800"),
            ("NVIDIA A800-SXM4-80GB", "a800"),
            ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
            ("RTX 4070 Ti SUPER", "rtx4070-ti-super"),
            ("rtx4080", "rtx4080"),
            ("NVIDIA GeForce RTX 3060", "rtx3060"),
            ("rtx3090ti", "rtx3090-ti"),
            ("gb10", "gb10"),
            ("DGX Spark", "gb10"),
            ("RTX 2080 Ti", "rtx2080-ti"),
            ("7900 XTX", "rx7900-xtx"),
            ("AMD Radeon RX 9070 XT", "rx9070-xt"),
            ("Ryzen AI Max+ 395", "strix-halo"),
            ("a100-40g", "a100-40gb"),
            ("A100 80GB", "a100"),
            ("Tesla V100-SXM2-16GB", "v100-16gb"),
            ("H100 SXM5 80GB", "h100"),
            ("NVIDIA L40S-48GB", "l40s"),
            ("NVIDIA H200 SXM", "h200"),
            ("AMD Instinct MI300X OAM", "mi300x"),
        ] {
            assert_eq!(Gpu::find(spelling).unwrap().name, name, "{spelling}");
        }
        for (unknown, allowed) in [
            ("h2000", "nearest h200, "),
            ("h1oo", "nearest h100;"),
            (
                "4xh200",
                "one name without a number of GPUs, here h200; `plan` and `compare` take that number",
            ),
            (
                "8 x NVIDIA H100",
                "one name without a number of GPUs, here h100; `plan` and `compare` take that number",
            ),
            (
                "h100:8",
                "one name without a number of GPUs, here h100; `plan` and `compare` take that number",
            ),
            ("gaudi2", "no known GPU is near"),
            ("m3 ultra", "no known GPU is near"),
            (
                "p40",
                "no known GPU is near; `shapewise gpus` lists all, `--gpu FILE.toml` describes another",
            ),
        ] {
            let error = Gpu::find(unknown).unwrap_err();
            assert!(error.is_bad_input());
            let message = error.to_string();
            assert!(
                message.contains(&format!("`{unknown}`; allowed: {allowed}")),
                "{message}"
            );
        }
    }

    #[test]
    fn peaks_follow_from_units_and_clock() {
        // Dense fp16 FLOP per clock and unit, products summed in fp32.
        for (name, per_clock) in [
            ("v100", 1024.0),
            ("t4", 1024.0),
            ("a100", 2048.0),
            ("a100-40gb", 2048.0),
            ("a100-40gb-pcie", 2048.0),
            ("a100-pcie", 2048.0),
            ("a30", 2048.0),
            ("l4", 1024.0),
            ("l40s", 1024.0),
            ("rtx4090", 512.0),
            ("h100", 4096.0),
            ("h100-hbm2e", 4096.0),
            ("h100-pcie", 4096.0),
            ("h200", 4096.0),
            ("gh200", 4096.0),
            ("b200", 8192.0),
            ("b300", 8192.0),
            ("gb200", 8192.0),
            ("gb300", 8192.0),
            ("rtx-pro-6000", 1024.0),
            ("mi250x", 1024.0),
            ("mi300x", 2048.0),
            ("mi355x", 4096.0),
            ("b60", 2048.0),
            ("v100-pcie", 1024.0),
            ("a10", 1024.0),
            ("a10g", 512.0),
            ("a40", 1024.0),
            ("rtx-a6000", 1024.0),
            ("rtx3090", 512.0),
            ("l40", 512.0),
            ("h100-nvl", 4096.0),
            ("h200-nvl", 4096.0),
            ("h800", 4096.0),
            ("rtx5090", 512.0),
            ("mi210", 1024.0),
            ("mi325x", 2048.0),
            ("mi350x", 4096.0),
            // Not H20, whose matrix units are held below what its clock gives.
        ] {
            let gpu = Gpu::find(name).unwrap();
            let derived = gpu.sm_count() as f64 * gpu.clock().hertz() * per_clock;
            let stated = gpu.peak(Dtype::Fp16).unwrap().flops_per_sec();
            assert!(
                (stated / derived - 1.0).abs() < 0.03,
                "{name}: {stated:e} stated, {derived:e} derived"
            );
            if let Some(bf16) = gpu.peak(Dtype::Bf16) {
                assert_eq!(bf16.flops_per_sec(), stated, "{name}");
            }
        }
    }

    #[test]
    fn older_parts_have_no_bf16_or_fp8_units() {
        for name in ["v100", "t4"] {
            assert!(Gpu::find(name).unwrap().peak(Dtype::Bf16).is_none());
        }
        for name in ["a100", "mi250x", "b60"] {
            assert!(Gpu::find(name).unwrap().peak(Dtype::Fp8).is_none());
        }
    }

    #[test]
    fn a_part_of_ones_own_takes_what_it_does_not_state_from_another() {
        let text = "name = \"mine\"\ntitle = \"Mine\"\nlike = \"h100\"\n[figures]\n\
                    sm_count = { value = 66, source = \"here\" }\n";
        let (mine, h100) = (Gpu::from_toml(text, "mine.toml").unwrap(), Gpu::find("h100").unwrap());
        assert_eq!((mine.generation, mine.l2()), (h100.generation, h100.l2()));
        assert_eq!(h100.nearest_peak(Dtype::Bf16) / mine.nearest_peak(Dtype::Bf16), 2.0);
        assert!(mine.reachable_peak().is_none());
        for base in ["h1000", "a800"] {
            let error = Gpu::from_toml(&text.replace("h100", base), "mine.toml").unwrap_err();
            let message = error.to_string();
            assert!(
                message.starts_with(&format!("mine.toml: `like` is `{base}`")),
                "{message}"
            );
        }
    }

    #[test]
    fn alignment_is_counted_in_elements() {
        let alignment = |name, dtype| Gpu::find(name).unwrap().alignment(dtype);
        assert_eq!(alignment("v100", Dtype::Fp16), 8);
        assert_eq!(alignment("a100", Dtype::Fp16), 64);
        assert_eq!(alignment("a100", Dtype::Tf32), 32);
        assert_eq!(alignment("h200", Dtype::Fp8), 128);
        assert_eq!(alignment("mi250x", Dtype::Fp16), 1);
        assert_eq!(alignment("mi250x", Dtype::Fp32), 1);
    }
}
