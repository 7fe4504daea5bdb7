//! Quantized checkpoints: which linear maps a config says are packed, and how.
//!
//! Read are the `quantization_config` of fp8, compressed-tensors, modelopt, mxfp4, GPTQ, AWQ, AutoRound, bitsandbytes, torchao,
//! HQQ, Quark and EETQ, the `hf_quant_config.json` of modelopt, and the `quantization` of MLX.

use super::super::Architecture;
use super::super::layer::{Shards, StageLayers};
use super::super::params::rank_linears;
use super::super::step::Role;
use super::super::stored::{Packing, Part, Stored};
use crate::ops::Dtype;
use crate::toml_text::built_in;
use regex_lite::Regex;
use rustc_hash::FxHashSet;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One way in which a weight is packed, and the format in which it is timed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Format {
    packing: Packing,
    dtype: Dtype,
    is_exact: bool,
}

impl Format {
    const fn new(dtype: Dtype, bits: u64, group: u64, group_bits: u64) -> Self {
        Self {
            packing: Packing {
                bits,
                group,
                group_bits,
            },
            dtype,
            is_exact: true,
        }
    }

    /// Timed in a format that is like it.
    const fn like(mut self) -> Self {
        self.is_exact = false;
        self
    }

    /// Weights of so many bits, inputs of 16.
    const fn weights_alone(bits: u64, group: u64, group_bits: u64) -> Self {
        let dtype = if bits > 4 { Dtype::W8a16 } else { Dtype::W4a16 };
        let format = Self::new(dtype, bits, group, group_bits);
        if matches!(bits, 4 | 8) { format } else { format.like() }
    }
}

const FP8: Format = Format::new(Dtype::Fp8, 8, 0, 0);
const FP8_ROWS: Format = Format::new(Dtype::Fp8, 8, 0, 32);
const FP8_BLOCKS: Format = Format::new(Dtype::Fp8Block, 8, 128 * 128, 32);
const NVFP4: Format = Format::new(Dtype::Nvfp4, 4, 16, 8);
const MXFP4: Format = Format::new(Dtype::W4a16, 4, 32, 8).like();
const MXFP8: Format = Format::new(Dtype::Fp8, 8, 32, 8).like();
const INT8: Format = Format::new(Dtype::Int8, 8, 0, 32);
const INT8_ROWS: Format = Format::new(Dtype::W8a16, 8, 0, 16);

/// The field with the format of routed experts alone, beside the quantization or in it.
pub(super) const EXPERT_DTYPE: &str = "expert_dtype";

/// Modules of each linear map as checkpoints name them, the layer being left out: alternatives of each.
static MODULES: LazyLock<BTreeMap<String, Vec<Vec<String>>>> = LazyLock::new(|| built_in(&shapewise_data::HF_MODULES));

/// Where the packed parts of this architecture are, as a `quantization_config` says; `None` if it says nothing that is known.
pub(super) fn read(config: &Value, arch: &Architecture) -> Option<Stored> {
    let quantization = Quantization::read(config.as_object()?)?;
    // Layers and weights of each role.
    let mut roles: Vec<(Role, u64, u64)> = Vec::new();
    for (linear, layers) in rank_linears(arch, Shards::WHOLE, StageLayers::new(arch, 1, 1), true) {
        let weights = linear.members * linear.inputs * linear.outputs * layers;
        match roles.iter_mut().find(|(role, ..)| *role == linear.role) {
            Some(known) => (known.1, known.2) = (known.1 + layers, known.2 + weights),
            None => roles.push((linear.role, layers, weights)),
        }
    }
    let mut parts = Vec::new();
    // Bytes in each format, of which the largest decides how the model is timed.
    let mut formats: Vec<(Format, u64)> = Vec::new();
    for (role, layers, weights) in roles {
        let Some(modules) = MODULES.get(role.name()) else {
            continue;
        };
        let of = layers * modules.len() as u64;
        let mut packed = 0;
        for (format, count) in quantization.packed(arch, role, layers, modules) {
            packed += count;
            let weights = (u128::from(weights) * u128::from(count) / u128::from(of)) as u64;
            parts.push(Part {
                role,
                packing: format.packing,
                count,
                of,
            });
            match formats.iter_mut().find(|(known, _)| *known == format) {
                Some((_, sum)) => *sum += weights,
                None => formats.push((format, weights)),
            }
        }
        if packed == 0 && !matches!(role, Role::Router | Role::Logits) {
            let packing = FP8.packing;
            parts.push(Part {
                role,
                packing,
                count: 0,
                of,
            });
        }
    }
    let (most, _) = formats.iter().max_by_key(|(_, weights)| *weights)?;
    Some(Stored {
        dtype: most.dtype,
        is_exact: most.is_exact && formats.len() == 1,
        embedding: quantization
            .default
            .filter(|_| quantization.packs_edges)
            .map(|format| format.packing),
        parts,
        fp8_cache: quantization.fp8_cache,
    })
}

/// What a config says.
#[derive(Default)]
struct Quantization {
    /// Of every linear map that is not named.
    default: Option<Format>,
    /// Of those that are named.
    named: Vec<(Names, Format)>,
    /// Of routed experts, where it is not that of the others (DeepSeek-V4).
    experts: Option<Format>,
    excluded: Names,
    /// Whether experts alone are packed.
    experts_alone: bool,
    /// Whether the head is packed unless it is excluded.
    packs_head: bool,
    /// Whether head and embedding are.
    packs_edges: bool,
    /// Whether keys and values are cached in fp8.
    fp8_cache: bool,
}

impl Quantization {
    fn read(config: &Map<String, Value>) -> Option<Self> {
        let word = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
        let method = word("quant_method");
        let algorithm = word("quant_algo");
        let mut read = Self {
            experts: (word(EXPERT_DTYPE) == "fp4").then_some(MXFP4),
            fp8_cache: word("kv_cache_quant_algo").eq_ignore_ascii_case("fp8") || is_fp8(config.get("kv_cache_scheme")),
            ..Self::default()
        };
        for key in [
            "modules_to_not_convert",
            "ignore",
            "ignored_layers",
            "exclude_modules",
            "exclude",
            "llm_int8_skip_modules",
            "skip_modules",
        ] {
            read.excluded.add_all(config.get(key));
        }
        read.packs_head = config.get("lm_head") == Some(&Value::Bool(true));
        if let Some(layers) = config.get("quantized_layers").and_then(Value::as_object) {
            for (name, layer) in layers {
                let layer = layer.as_object()?;
                let algorithm = layer.get("quant_algo").and_then(Value::as_str)?;
                read.name(name, of_algorithm(algorithm, layer)?);
            }
        }
        if !read.named.is_empty() {
            return Some(read);
        }
        if !algorithm.is_empty() {
            read.default = Some(of_algorithm(algorithm, config)?);
            return Some(read);
        }
        read.default = match method {
            "fp8" | "fbgemm_fp8" => Some(fp8(config)),
            "mxfp4" => {
                read.experts_alone = true;
                Some(MXFP4)
            }
            "gptq" | "awq" | "auto-round" | "intel/auto-round" | "gptqmodel" => {
                read.tuned(config);
                Some(integers(config, 4 + 16)?)
            }
            "bitsandbytes" => Some(bitsandbytes(config)),
            "hqq" => Some(integers(config, 32)?),
            "eetq" => Some(INT8_ROWS),
            "torchao" => Some(torchao(config)?),
            "quark" => Some(quark(config)?),
            "compressed-tensors" => return read.compressed(config),
            "" | "gguf" | "mlx" if config.contains_key("bits") => {
                read.packs_edges = true;
                read.packs_head = true;
                Some(integers(config, 32)?)
            }
            _ => return None,
        };
        Some(read)
    }

    fn name(&mut self, name: &str, format: Format) {
        match self.named.iter_mut().find(|(_, known)| *known == format) {
            Some((names, _)) => names.add(name),
            None => {
                let mut names = Names::default();
                names.add(name);
                self.named.push((names, format));
            }
        }
    }

    /// Modules with settings of their own in GPTQ and AutoRound.
    fn tuned(&mut self, config: &Map<String, Value>) {
        for key in ["dynamic", "extra_config"] {
            for (name, own) in config.get(key).and_then(Value::as_object).into_iter().flatten() {
                let pattern = match name.split_once(':') {
                    Some(("-", pattern)) => {
                        self.excluded.add(&format!("re:{pattern}"));
                        continue;
                    }
                    Some(("+", pattern)) => format!("re:{pattern}"),
                    _ => name.clone(),
                };
                let Some(own) = own.as_object() else { continue };
                let mut merged = config.clone();
                merged.extend(own.clone());
                match number(&Value::Object(merged.clone()), &["bits"]) {
                    Some(16..) => self.excluded.add(&pattern),
                    _ => {
                        if let Some(format) = integers(&merged, 4 + 16) {
                            self.name(&pattern, format);
                        }
                    }
                }
            }
        }
    }

    /// The groups of compressed-tensors: of all linear maps, or of those that they name.
    fn compressed(mut self, config: &Map<String, Value>) -> Option<Self> {
        self.packs_head = true;
        for group in config.get("config_groups")?.as_object()?.values() {
            let format = group_format(group.as_object()?, config)?;
            let targets = group.get("targets").and_then(Value::as_array);
            let names = targets.into_iter().flatten().filter_map(Value::as_str);
            let mut is_named = false;
            for name in names.filter(|name| !matches!(*name, "Linear" | "FusedMoE")) {
                self.name(name, format);
                is_named = true;
            }
            if !is_named {
                self.default = Some(format);
            }
        }
        Some(self)
    }

    /// How many of the modules of a linear map in so many layers have each format.
    fn packed(&self, arch: &Architecture, role: Role, layers: u64, modules: &[Vec<String>]) -> Vec<(Format, u64)> {
        let total = layers * modules.len() as u64;
        let mut default = total;
        let mut named = vec![0; self.named.len()];
        let all = if role == Role::Logits { 1 } else { arch.layers };
        for layer in (0..all).filter(|layer| has(arch, role, *layer)) {
            for alternatives in modules {
                let paths = alternatives.iter().map(|module| match role {
                    Role::Logits => module.clone(),
                    _ => format!("layers.{layer}.{module}"),
                });
                let paths: Vec<String> = paths.collect();
                let holds = |names: &Names| paths.iter().any(|path| names.hold(path));
                if self.excluded.hold_any(&paths) {
                    default = default.saturating_sub(1);
                } else if let Some(at) = self.named.iter().position(|(names, _)| holds(names)) {
                    named[at] += 1;
                    default = default.saturating_sub(1);
                }
            }
        }
        let by_default = match role {
            Role::Router => false,
            Role::Logits => self.packs_head,
            role => !self.experts_alone || role.is_of_experts(),
        };
        let named = self
            .named
            .iter()
            .zip(named)
            .map(|((_, format), count)| (*format, count.min(total)));
        let format = match role.is_of_experts() {
            true => self.experts.or(self.default),
            false => self.default,
        };
        let default = format.filter(|_| by_default).map(|format| (format, default));
        named.chain(default).filter(|(_, count)| *count > 0).collect()
    }
}

/// Whether keys and values have a scheme of 8-bit floats.
fn is_fp8(scheme: Option<&Value>) -> bool {
    let says = |key: &str| scheme.and_then(|scheme| scheme.get(key));
    says("num_bits").and_then(Value::as_u64) == Some(8) && says("type").is_some_and(|kind| kind == "float")
}

/// Whether a layer may have linear maps of a role: experts and the MLPs beside them are in known ones.
fn has(arch: &Architecture, role: Role, layer: u64) -> bool {
    let Some(moe) = arch.moe.filter(|_| arch.kinds.is_empty()) else {
        return true;
    };
    match role {
        Role::MlpUp | Role::MlpDown => !moe.is_in(layer),
        Role::ExpertsUp | Role::ExpertsDown | Role::SharedUp | Role::SharedDown => moe.is_in(layer),
        _ => true,
    }
}

fn fp8(config: &Map<String, Value>) -> Format {
    let block = config.get("weight_block_size").and_then(Value::as_array);
    let sides: Option<Vec<u64>> = block.and_then(|block| block.iter().map(Value::as_u64).collect());
    match sides.as_deref() {
        Some([128, 128]) => FP8_BLOCKS,
        Some([rows, cols]) if rows * cols > 0 => Format::new(Dtype::Fp8Block, 8, rows * cols, 32).like(),
        _ if config.get("quant_method").is_some_and(|method| method == "fbgemm_fp8") => FP8_ROWS,
        _ => FP8,
    }
}

/// Names that modelopt gives.
fn of_algorithm(algorithm: &str, config: &Map<String, Value>) -> Option<Format> {
    let name = algorithm.to_uppercase();
    let group = config.get("group_size").and_then(Value::as_u64);
    let is = |part: &str| name.contains(part);
    Some(match () {
        () if is("W4A16_NVFP4") => Format {
            dtype: Dtype::W4a16,
            ..NVFP4
        }
        .like(),
        () if is("NVFP4") => NVFP4,
        () if is("MXFP4") => MXFP4,
        () if is("MXFP8") => MXFP8,
        () if is("AWQ") || is("W4A16") || is("INT4") => Format::weights_alone(4, group.unwrap_or(128), 16),
        () if is("W8A16") => INT8_ROWS,
        () if is("INT8") || is("W8A8") => INT8,
        () if is("FP8_PB") || is("FP8_BLOCK") || is("BLOCK_SCALES") => FP8_BLOCKS,
        () if is("FP8_PER_CHANNEL") => FP8_ROWS,
        () if is("FP8") => FP8,
        () => return None,
    })
}

/// Integers of so many bits in groups with a scale and a zero.
fn integers(config: &Map<String, Value>, group_bits: u64) -> Option<Format> {
    let config = Value::Object(config.clone());
    let bits = number(&config, &["bits", "w_bit", "nbits"])?;
    let group = number(&config, &["group_size", "q_group_size"]).unwrap_or(0);
    (1..=8)
        .contains(&bits)
        .then(|| Format::weights_alone(bits, group, group_bits))
}

fn bitsandbytes(config: &Map<String, Value>) -> Format {
    let is = |keys: [&str; 2]| keys.iter().any(|key| config.get(*key) == Some(&Value::Bool(true)));
    let in_4_bits = is(["load_in_4bit", "_load_in_4bit"]);
    match (in_4_bits, is(["bnb_4bit_use_double_quant", "bnb_4bit_double_quant"])) {
        (false, _) => Format::new(Dtype::W8a16, 8, 0, 32),
        (true, false) => Format::weights_alone(4, 64, 32),
        // A scale of 8 bits a block of 64, and one of 32 for 256 of those.
        (true, true) => Format::weights_alone(4, 64 * 256, 8 * 256 + 32),
    }
}

fn torchao(config: &Map<String, Value>) -> Option<Format> {
    let kind = config.get("quant_type")?;
    let name = kind.to_string().to_lowercase();
    let group = number(kind, &["group_size"]);
    Some(match () {
        () if name.contains("int4") => Format::weights_alone(4, group.unwrap_or(128), 32),
        () if name.contains("int8dynamic") || name.contains("int8_dynamic") => INT8,
        () if name.contains("int8") => INT8_ROWS,
        () if name.contains("float8") || name.contains("fp8") => FP8_ROWS,
        () => return None,
    })
}

fn quark(config: &Map<String, Value>) -> Option<Format> {
    let weight = config.get("global_quant_config")?.get("weight")?;
    let weight = weight.as_array().map_or(Some(weight), |list| list.last())?;
    let dtype = weight.get("dtype").and_then(Value::as_str)?;
    let group = number(weight, &["group_size"]);
    Some(match dtype {
        "fp4" => MXFP4,
        "fp8_e4m3" => FP8,
        "int8" => INT8,
        "uint4" | "int4" => Format::weights_alone(4, group.unwrap_or(128), 16),
        _ => return None,
    })
}

/// The format of a group of compressed-tensors.
fn group_format(group: &Map<String, Value>, config: &Map<String, Value>) -> Option<Format> {
    let named = |object: &Map<String, Value>| object.get("format").and_then(Value::as_str).map(str::to_owned);
    let name = named(group).or_else(|| named(config)).unwrap_or_default();
    let weights = group.get("weights")?;
    let bits = number(weights, &["num_bits"])?;
    let size = number(weights, &["group_size"]);
    let is_float = weights.get("type").is_some_and(|kind| kind == "float");
    let inputs = group.get("input_activations").filter(|inputs| !inputs.is_null());
    let zero = match weights.get("symmetric") {
        Some(Value::Bool(false)) => bits,
        _ => 0,
    };
    let block = weights.get("block_structure").and_then(Value::as_array);
    let strategy = weights.get("strategy").and_then(Value::as_str).unwrap_or_default();
    Some(match (is_float, bits) {
        (true, 4) if name.contains("mxfp4") || size == Some(32) => MXFP4,
        (true, 4) if inputs.is_some() => NVFP4,
        (true, 4) => Format {
            dtype: Dtype::W4a16,
            ..NVFP4
        }
        .like(),
        (true, 8) if block.is_some() || strategy == "block" => FP8_BLOCKS,
        (true, 8) if size == Some(32) => MXFP8,
        (true, 8) if strategy == "channel" => FP8_ROWS,
        (true, 8) => FP8,
        (false, 8) if inputs.is_some() => INT8,
        (false, 1..=8) if inputs.is_some() => Format::weights_alone(bits, size.unwrap_or(0), 16 + zero).like(),
        (false, 1..=8) => Format::weights_alone(bits, size.unwrap_or(0), 16 + zero),
        _ => return None,
    })
}

/// The first whole number under one of these keys, at any depth; -1 says that a row is a group.
fn number(value: &Value, keys: &[&str]) -> Option<u64> {
    match value {
        Value::Object(fields) => {
            let direct = keys.iter().find_map(|key| fields.get(*key));
            match direct.map(|value| (value.as_u64(), value.as_i64())) {
                Some((Some(number), _)) => Some(number),
                Some((None, Some(_))) => Some(0),
                _ => fields.values().find_map(|value| number(value, keys)),
            }
        }
        Value::Array(items) => items.iter().find_map(|value| number(value, keys)),
        _ => None,
    }
}

/// Names of modules: parts of their paths, patterns with `*`, regular expressions behind `re:`.
#[derive(Default)]
struct Names {
    plain: FxHashSet<String>,
    patterns: Vec<Regex>,
}

/// Prefixes of `layers.` in the path of a layer of the decoder.
const PREFIXES: &[&str] = &[
    "",
    "model",
    "language_model",
    "backbone",
    "transformer",
    "text_model",
    "decoder",
    "*",
];

impl Names {
    fn add_all(&mut self, list: Option<&Value>) {
        let items = list.and_then(Value::as_array).into_iter().flatten();
        for name in items.filter_map(Value::as_str) {
            self.add(name);
        }
    }

    fn add(&mut self, name: &str) {
        if let Some(expression) = name.strip_prefix("re:") {
            // As Python matches: from the start of the path, which begins with the name of the model.
            let free = expression.trim_start_matches('^');
            let words = |text: &str| {
                let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                words.all(|word| PREFIXES.contains(&word))
            };
            let free = match free.split_once("layers") {
                Some((before, after)) if words(before) => format!(".*layers{after}"),
                Some(_) => return,
                None => free.to_owned(),
            };
            self.patterns.extend(Regex::new(&format!("^(?:{free})")));
            return;
        }
        let relative = match name.split_once("layers.") {
            Some((before, _))
                if before
                    .trim_end_matches('.')
                    .split('.')
                    .all(|part| PREFIXES.contains(&part)) =>
            {
                &name[before.len()..]
            }
            // Layers of another part, as those that see or predict further tokens.
            Some(_) => return,
            None => name,
        };
        if relative.contains('*') {
            let parts: Vec<_> = relative.split('*').map(escaped).collect();
            let expression = format!("^{}(?:\\..*)?$", parts.join(".*"));
            self.patterns.extend(Regex::new(&expression));
        } else {
            let known = ["language_model.", "model."];
            let plain = known
                .iter()
                .fold(relative, |name, prefix| name.trim_start_matches(prefix));
            self.plain.insert(plain.to_owned());
        }
    }

    fn hold_any(&self, paths: &[String]) -> bool {
        paths.iter().any(|path| self.hold(path))
    }

    /// Whether a path has one of the names as some of its successive components, or matches a pattern.
    fn hold(&self, path: &str) -> bool {
        let starts = std::iter::once(0).chain(path.match_indices('.').map(|(at, _)| at + 1));
        let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
        let ends: Vec<_> = ends.collect();
        let is_named = !self.plain.is_empty()
            && starts.into_iter().any(|start| {
                let ends = ends.iter().filter(|end| **end > start);
                ends.into_iter().any(|end| self.plain.contains(&path[start..*end]))
            });
        is_named || self.patterns.iter().any(|pattern| pattern.is_match(path))
    }
}

/// A text as a regular expression that matches itself.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if !letter.is_alphanumeric() && letter != '_' {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
