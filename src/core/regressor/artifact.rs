//! What training leaves behind and prediction loads: a card that explains, and the weights.
//!
//! A folder `models/NAME` holds `card.json` and `weights.safetensors`. One [`Submodel`] of the card answers for
//! one key (GPU, software stack, operator family, variant). Loading is strict: another schema, another feature
//! definition, a missing, extra or misshapen tensor, or a weight that is not a number is an error.

pub use crate::families::Coverage;

use crate::error::{Error, Result, read_bytes, read_text, write_atomically};
use crate::families::{Family, Variant};
use crate::gpu::Gpu;
use crate::ops::Dtype;
use crate::regressor::net::{Layer, Net, Output, Quantized};
use half::f16;
use safetensors::Dtype::{F16, F32, I8, I16};
use safetensors::tensor::{SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use serde_json::ser::PrettyFormatter;
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use utoipa::ToSchema;

/// Version of the card and tensor layout that this build reads and writes.
pub const SCHEMA: u32 = 3;

/// File of the card inside `models/NAME`.
pub const CARD_FILE: &str = "card.json";
/// File of the weights there.
pub const WEIGHTS_FILE: &str = "weights.safetensors";

/// The most bytes of weights that are read; shipped ones have some millions.
const MOST_BYTES: u64 = 1 << 30;

/// What a model is, what it was trained on and how good it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name of the folder.
    pub name: String,
    /// Model whose nets this one was fine-tuned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Keys that no sub-model was trained with, whatever table they are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_out: Option<KeptOut>,
    /// SHA-256 of the file of weights; written with it and, in a folder, held against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_sha256: Option<String>,
    /// The predictors, the preferred stack of a family first.
    pub submodels: Vec<Submodel>,
    /// Descriptions of those of their GPUs that `data/gpus` does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
}

impl Card {
    /// What the nets that answer for this GPU have not seen.
    pub fn kept_out_of(&self, gpu: &str) -> Option<KeptOut> {
        self.kept_out.filter(|_| self.knows(gpu))
    }

    /// Refuses weights that are not those the card was written with: another file, or bits that flipped.
    fn hold_against(&self, weights: &[u8], folder: &Path) -> Result<()> {
        let place = || folder.join(CARD_FILE).display().to_string();
        let field = "weights_sha256";
        let found = sha256(weights);
        let allowed = format!("{found}, that of {WEIGHTS_FILE} as it is, or train the model again");
        match &self.weights_sha256 {
            Some(digest) if *digest == found => Ok(()),
            Some(digest) => Err(Error::field(place(), field, digest, &allowed)),
            None => Err(Error::field(place(), field, "absent", &allowed)),
        }
    }

    /// Whether some sub-model was trained for this GPU, or for all.
    pub fn knows(&self, gpu: &str) -> bool {
        let mut keys = self.submodels.iter().map(|submodel| &submodel.key);
        keys.any(|key| key.gpu == gpu || key.gpu == ANY_GPU)
    }
}

/// Keys that a run kept for judging it: a share of all, by a hash that anyone can repeat.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptOut {
    /// Their share of all keys.
    pub fraction: f64,
    /// Seed of the hash.
    pub seed: u64,
}

/// Which question a sub-model answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "KeyFields", into = "KeyFields")]
pub struct Key {
    /// Name of the GPU in `data/gpus`, or [`ANY_GPU`].
    pub gpu: String,
    /// Software with its version (`trtllm 1.3.0rc20`).
    pub stack: String,
    /// Operator family.
    pub family: Family,
    /// What selects kernels besides the family.
    pub variant: Variant,
}

/// `h200 trtllm 1.3.0rc20 gemm bf16`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            gpu,
            stack,
            family,
            variant,
        } = self;
        write!(f, "{gpu} {stack} {family} {variant}")
    }
}

/// A key on disk: the variant is the kind of the kernel, its format, or both.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFields {
    gpu: String,
    stack: String,
    family: Family,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<Dtype>,
}

impl TryFrom<KeyFields> for Key {
    type Error = String;

    fn try_from(fields: KeyFields) -> std::result::Result<Self, String> {
        let KeyFields {
            gpu,
            stack,
            family,
            kind,
            dtype,
        } = fields;
        let variant = Variant::parse(family, kind.as_deref(), dtype)
            .map_err(|allowed| format!("key of {gpu} {stack} {family}; allowed: {allowed}"))?;
        Ok(Self {
            gpu,
            stack,
            family,
            variant,
        })
    }
}

impl From<Key> for KeyFields {
    fn from(key: Key) -> Self {
        Self {
            gpu: key.gpu,
            stack: key.stack,
            family: key.family,
            kind: key.variant.kind().map(str::to_owned),
            dtype: key.variant.dtype(),
        }
    }
}

/// The GPU of a sub-model that was trained over all GPUs, for unmeasured GPUs.
pub const ANY_GPU: &str = "any";

/// One predictor: an ensemble of nets, or one net distilled from it, with its provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submodel {
    /// What it answers.
    pub key: Key,
    /// Digest of the feature definition it was trained under.
    pub features: String,
    /// Additive launch term of the stack.
    pub launch_us: f64,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Nets that answer.
    pub members: usize,
    /// How it was trained, enough to do it again.
    pub training: Training,
    /// What it was trained on.
    pub data: Vec<DataSource>,
    /// Where in the space of shapes it was trained.
    pub coverage: Coverage,
    /// How its spread becomes a 90 % interval.
    pub calibration: Calibration,
    /// Errors on shapes that this recipe had not seen.
    pub held_out: Vec<GroupErrors>,
}

/// The settings of one training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Seed of everything random.
    pub seed: u64,
    /// Passes over the samples.
    pub epochs: usize,
    /// Rows in a step.
    pub batch: usize,
    /// Highest learning rate of the cycle.
    pub learning_rate: f64,
    /// Decoupled weight decay.
    pub weight_decay: f32,
    /// Residual where the loss turns from squared to absolute.
    pub huber: f32,
    /// Trees in the teacher that labels unmeasured shapes, the most that a trial may choose where there is a base; 0 = no teacher.
    pub teacher_trees: usize,
    /// Unlabelled shapes that the teacher gave pseudo-labels.
    pub pseudo_labels: usize,
    /// Shapes that a library was asked about, labelled by the kernels that it takes; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<usize>,
    /// Share of the keys held out for the error table and the calibration.
    pub held_out_fraction: f64,
    /// Backend that fitted the nets.
    pub backend: String,
    /// What the net that answers was distilled from; `None` if the members answer themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distilled: Option<Distilled>,
    /// Whether the teacher knew what neighbouring pairs `(n, k)` take.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kriged: bool,
    /// What the teacher knew of tiles beforehand; nothing for most sub-models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waves: Option<Waves>,
}

/// How one net took the place of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distilled {
    /// Nets that were fitted to rows and pseudo-labels.
    pub members: usize,
    /// Unlabelled shapes that they and the teacher labelled.
    pub labels: usize,
    /// Passes over rows and labels.
    pub epochs: usize,
}

/// What a teacher knows of a library's tiles before it sees a row, for tables too small to show it.
///
/// `share * ln(waste * idle)` of [`tiles::Waves`](crate::tiles::Waves) is taken out of the
/// targets before its trees are grown and put back into their labels. The trees see no tile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waves {
    /// The tile whose waves are felt, in rows and columns of the output.
    pub tile: (u64, u64),
    /// The part of the logarithm that shows in the time, 0 to 1; at 0 tiles cost nothing.
    pub share: f64,
}

/// One table that a sub-model was trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSource {
    /// Repository and commit, or the tool that measured.
    pub source: String,
    /// SPDX name of the licence.
    pub licence: String,
    /// GPU of the rows.
    pub gpu: String,
    /// Stack of the rows.
    pub stack: String,
    /// How many rows.
    pub rows: usize,
    /// SHA-256 of the rows in canonical form.
    pub sha256: String,
}

/// Split-conformal calibration (Papadopoulos et al. 2002; Lei et al., arXiv 1604.04173) of normalised residuals:
/// `half width of ln(time) = factor(reference time) · factor(size) · ... · (spread + floor)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Added to the spread of the members, so that agreement is not taken for certainty.
    pub floor: f64,
    /// Upper ends of the groups by reference time but the last, in microseconds.
    pub bounds_us: Vec<f64>,
    /// One factor a group.
    pub factors: Vec<f64>,
    /// Held-out rows behind each factor.
    pub rows: Vec<usize>,
    /// What multiplies it by the sizes of [`Family::groupings`], in their order; nothing in cards of older nets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<SizeFactors>,
}

/// Factors by one size of an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeFactors {
    /// The size.
    pub by: String,
    /// Least size of each group but the first.
    pub bounds: Vec<u64>,
    /// One factor a group; 1 where rows are few.
    pub factors: Vec<f64>,
    /// Held-out rows behind each factor.
    pub rows: Vec<usize>,
}

/// The group of a value: how many of the rising bounds it reaches.
pub fn group_of<T: PartialOrd>(bounds: &[T], value: T) -> usize {
    bounds.iter().filter(|&bound| value >= *bound).count()
}

impl Calibration {
    /// What the half width is multiplied by for the sizes of an operator, those of [`grouped_sizes`](crate::families::grouped_sizes).
    pub fn size_factor(&self, sizes: impl Iterator<Item = u64>) -> f64 {
        let groupings = self.sizes.iter().zip(sizes);
        let factor = |(by, size): (&SizeFactors, u64)| by.factors[group_of(&by.bounds, size)];
        groupings.map(factor).product()
    }

    /// Half width of the 90 % interval of `ln(time)`, where sizes multiply it by `size_factor`.
    pub fn half_width(&self, reference_us: f64, size_factor: f64, spread: f64) -> f64 {
        self.factors[group_of(&self.bounds_us, reference_us)] * size_factor * (spread + self.floor)
    }
}

/// Errors of one group of held-out rows, as fractions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupErrors {
    /// `all`, a range of reference times, or of a size of [`Family::groupings`].
    pub group: String,
    /// Rows.
    pub n: usize,
    /// Median of `|predicted / measured - 1|`.
    pub median_ape: f64,
    /// Mean of the same.
    pub mean_ape: f64,
    /// 90th percentile of the same.
    pub p90_ape: f64,
    /// Share of the rows inside the 90 % interval, which was calibrated on them.
    pub coverage_90: f64,
    /// Median half width of the interval, of `ln(time)`.
    pub interval_half_width_median: f64,
}

/// The numbers of one sub-model.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// `[inputs]`: subtracted from each feature.
    pub mean: Vec<f32>,
    /// `[inputs]`: multiplied after that; 0 switches a constant feature off.
    pub scale: Vec<f32>,
    /// From normalised features to `ln(time / reference)`: an ensemble, or one net with a spread of its own.
    pub nets: Vec<Net>,
}

/// Normalised features beyond this many deviations are clipped, so that a net never extrapolates wildly.
pub const CLIP: f32 = 6.0;

/// A feature as nets see it.
#[inline]
pub const fn normalised(value: f32, mean: f32, scale: f32) -> f32 {
    ((value - mean) * scale).clamp(-CLIP, CLIP)
}

impl Weights {
    /// Normalises rows of features in place.
    pub fn normalise(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.mean.len()) {
            for ((value, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
                *value = normalised(*value, *mean, *scale);
            }
        }
    }

    /// Whether one net that knows its spread took the place of an ensemble.
    pub fn is_distilled(&self) -> bool {
        self.nets[0].outputs() == Output::WIDTH
    }

    /// What the nets answer for rows of raw features.
    pub fn predict(&self, rows: &[f32]) -> Vec<Output> {
        let mut rows = rows.to_vec();
        self.normalise(&mut rows);
        let answers: Vec<_> = self.nets.iter().map(|net| net.forward(&rows)).collect();
        if self.is_distilled() {
            let answers = answers[0].as_chunks().0.iter();
            return answers.copied().map(Output::of_distilled).collect();
        }
        let of_row = |row| Output::of_members(answers.iter().map(|answers| answers[row]));
        (0..answers[0].len()).map(of_row).collect()
    }
}

/// A card with the numbers of each of its sub-models.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    /// What the numbers mean.
    pub card: Card,
    /// One entry per sub-model; predictors share them.
    pub weights: Vec<Arc<Weights>>,
}

impl Artifact {
    /// Each sub-model with its numbers.
    pub fn submodels(&self) -> impl Iterator<Item = (&Submodel, &Arc<Weights>)> {
        self.card.submodels.iter().zip(&self.weights)
    }

    /// Reads both files of a folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let card = read_text(&folder.join(CARD_FILE))?;
        let path = folder.join(WEIGHTS_FILE);
        let weights = read_bytes(&path, MOST_BYTES)?;
        let artifact = Self::parse(&card, &weights, &folder.display().to_string())?;
        artifact.card.hold_against(&weights, folder)?;
        Ok(artifact)
    }

    /// Reads and checks both files; `place` names the folder in messages.
    pub fn parse(card: &str, weights: &[u8], place: &str) -> Result<Self> {
        let bad = |what: String| Error::bad_input(format!("{place}: {what}"));
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let version: Version =
            serde_json::from_str(card).map_err(|error| bad(format!("{CARD_FILE} is not a model card: {error}")))?;
        if version.schema != SCHEMA {
            let found = version.schema;
            return Err(Error::field(
                format!("{place}/{CARD_FILE}"),
                "schema",
                found,
                &SCHEMA.to_string(),
            ));
        }
        let card: Card = serde_json::from_str(card).map_err(|error| bad(format!("{CARD_FILE}: {error}")))?;
        let tensors =
            SafeTensors::deserialize(weights).map_err(|error| bad(format!("{WEIGHTS_FILE} is damaged: {error}")))?;
        let used = Cell::new(0);
        let loaded = card
            .submodels
            .iter()
            .enumerate()
            .map(|(index, submodel)| {
                load_submodel(&tensors, index, submodel, &used)
                    .map(Arc::new)
                    .map_err(bad)
            })
            .collect::<Result<Vec<_>>>()?;
        if used.get() != tensors.len() {
            let extra = tensors.len() - used.get();
            return Err(bad(format!(
                "{WEIGHTS_FILE} holds {extra} tensors that the card does not describe"
            )));
        }
        Ok(Self { card, weights: loaded })
    }

    /// Writes both files and gives the card the digest of the weights; the card goes last, so that a folder with a card is
    /// complete.
    pub fn save(&mut self, folder: &Path) -> Result<()> {
        let mut tensors = BTreeMap::new();
        for (index, weights) in self.weights.iter().enumerate() {
            store_submodel(&mut tensors, index, weights);
        }
        let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
            let view = TensorView::new(*dtype, shape.clone(), bytes).expect("shape and bytes were made together");
            (name.as_str(), view)
        });
        let bytes = safetensors::serialize(views, None)
            .map_err(|error| Error::bad_input(format!("{}: {error}", folder.display())))?;
        self.card.weights_sha256 = Some(sha256(&bytes));
        // Tabs: cards are built into the program, and a quarter of one that is indented by spaces would be spaces.
        let mut card = Vec::new();
        let tabs = PrettyFormatter::with_indent(b"\t");
        let mut writer = serde_json::Serializer::with_formatter(&mut card, tabs);
        let written = self.card.serialize(&mut writer);
        written.expect("a card has only plain fields");
        card.push(b'\n');
        write_atomically(&folder.join(WEIGHTS_FILE), &bytes)?;
        write_atomically(&folder.join(CARD_FILE), &card)
    }
}

/// The SHA-256 of these bytes in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

type Stored = (safetensors::Dtype, Vec<usize>, Vec<u8>);

fn store_submodel(tensors: &mut BTreeMap<String, Stored>, index: usize, weights: &Weights) {
    let mut store = |name: String, dtype, shape: &[usize], bytes: Vec<u8>| {
        tensors.insert(name, (dtype, shape.to_vec(), bytes));
    };
    for (name, values) in [("mean", &weights.mean), ("scale", &weights.scale)] {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        store(format!("{index}.{name}"), F32, &[values.len()], bytes.collect());
    }
    for (member, net) in weights.nets.iter().enumerate() {
        for (depth, layer) in net.layers.iter().enumerate() {
            let named = |tensor: &str| format!("{index}.{member}.{depth}.{tensor}");
            let shape = [layer.inputs, layer.outputs];
            if depth + 1 == net.layers.len() {
                store(named("weight"), F16, &shape, halved(&layer.weight));
            } else {
                let quantized = Quantized::of(layer);
                let integers = quantized.integers.iter();
                let (dtype, bytes): (_, Vec<u8>) = match quantized.is_narrow() {
                    true => (I8, integers.map(|&integer| integer as u8).collect()),
                    false => (I16, integers.flat_map(|integer| integer.to_le_bytes()).collect()),
                };
                store(named("weight"), dtype, &shape, bytes);
                store(named("scale"), F16, &shape[1..], halved(&quantized.scales));
            }
            store(named("bias"), F16, &shape[1..], halved(&layer.bias));
        }
    }
}

/// Numbers in half precision, as bytes.
fn halved(values: &[f32]) -> Vec<u8> {
    let halves = values.iter().map(|&value| f16::from_f32(value));
    halves.flat_map(f16::to_le_bytes).collect()
}

fn load_submodel(
    tensors: &SafeTensors<'_>,
    index: usize,
    submodel: &Submodel,
    used: &Cell<usize>,
) -> std::result::Result<Weights, String> {
    let key = &submodel.key;
    let name = format!("sub-model {index} ({key})");
    let expected = &key.family.schema().digest;
    if &submodel.features != expected {
        let found = &submodel.features;
        return Err(format!(
            "{name} was trained under feature schema {found}, this build computes {expected}; train it again"
        ));
    }
    let calibration = &submodel.calibration;
    let by_time = (calibration.factors.len(), calibration.bounds_us.len());
    let by_sizes = calibration.sizes.iter();
    let by_sizes = by_sizes.map(|by| (by.factors.len(), by.bounds.len()));
    if let Some((groups, _)) = by_sizes.chain([by_time]).find(|(groups, bounds)| *groups != bounds + 1) {
        return Err(format!(
            "{name}: the calibration has {groups} factors, one more than its bounds is allowed"
        ));
    }
    let known = key.family.groupings();
    let known = known.into_iter().map(|(by, _)| by);
    if !calibration.sizes.is_empty() && !calibration.sizes.iter().map(|by| &*by.by).eq(known.clone()) {
        let found: Vec<_> = calibration.sizes.iter().map(|by| &*by.by).collect();
        return Err(format!(
            "{name}: the calibration goes by {}; allowed: {}",
            found.join(", "),
            known.collect::<Vec<_>>().join(", ")
        ));
    }
    let mut numbers = calibration
        .factors
        .iter()
        .chain(calibration.sizes.iter().flat_map(|by| &by.factors))
        .chain([&calibration.floor, &submodel.launch_us]);
    // Of the shipped models, factors by time are 1.5 to 24, floors 0.002 to 0.013 and launches 1.7 to 53 us.
    let sane = |number: f64| (1e-9..=1e6).contains(&number);
    if !numbers.all(|number| sane(*number)) {
        return Err(format!(
            "{name}: launch_us, floor and factors must be finite and from 1e-9 to 1e6"
        ));
    }
    if submodel.members > tensors.len() {
        return Err(format!(
            "{name} has {} members; allowed: at most as many as there are tensors, {}",
            submodel.members,
            tensors.len()
        ));
    }
    if submodel.hidden.contains(&0) {
        return Err(format!("{name} has a hidden layer of width 0; allowed: 1 or more"));
    }
    let is_distilled = submodel.training.distilled.is_some();
    if is_distilled && submodel.members != 1 {
        return Err(format!(
            "{name} has {} members and is distilled; allowed: one net",
            submodel.members
        ));
    }
    let take = |tensor: &str, allowed: &[safetensors::Dtype], shape: &[usize]| {
        used.set(used.get() + 1);
        let view = tensors
            .tensor(tensor)
            .map_err(|_| format!("{name}: tensor `{tensor}` is missing"))?;
        if view.shape() != shape {
            return Err(format!(
                "{name}: tensor `{tensor}` has shape {:?}, the card says {shape:?}",
                view.shape()
            ));
        }
        if !allowed.contains(&view.dtype()) {
            return Err(format!(
                "{name}: tensor `{tensor}` is {:?}; allowed: {allowed:?}",
                view.dtype()
            ));
        }
        Ok((view.dtype(), view.data()))
    };
    let numbers = |tensor: &str, dtype: safetensors::Dtype, shape: &[usize]| {
        let (_, bytes) = take(tensor, &[dtype], shape)?;
        let values: Vec<f32> = match dtype {
            F16 => {
                let halves = bytes.as_chunks().0.iter();
                halves.map(|&half| f16::from_le_bytes(half).to_f32()).collect()
            }
            _ => {
                let singles = bytes.as_chunks().0.iter();
                singles.copied().map(f32::from_le_bytes).collect()
            }
        };
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => Err(format!("{name}: tensor `{tensor}` holds a value that is not a number")),
        }
    };
    let inputs = key.family.width();
    let mean = numbers(&format!("{index}.mean"), F32, &[inputs])?;
    let scale = numbers(&format!("{index}.scale"), F32, &[inputs])?;
    let widths: Vec<usize> = std::iter::once(inputs)
        .chain(submodel.hidden.iter().copied())
        .chain([if is_distilled { Output::WIDTH } else { 1 }])
        .collect();
    let mut nets = Vec::with_capacity(submodel.members);
    for member in 0..submodel.members {
        let mut layers = Vec::with_capacity(widths.len() - 1);
        for (depth, pair) in widths.windows(2).enumerate() {
            let named = |tensor: &str| format!("{index}.{member}.{depth}.{tensor}");
            let weight = if depth == submodel.hidden.len() {
                numbers(&named("weight"), F16, pair)?
            } else {
                let (dtype, bytes) = take(&named("weight"), &[I8, I16], pair)?;
                let integers = match dtype {
                    I8 => bytes.iter().map(|&byte| byte.cast_signed().into()).collect(),
                    _ => bytes.as_chunks().0.iter().copied().map(i16::from_le_bytes).collect(),
                };
                let quantized = Quantized {
                    integers,
                    scales: numbers(&named("scale"), F16, &pair[1..])?,
                };
                quantized.weight()
            };
            layers.push(Layer {
                inputs: pair[0],
                outputs: pair[1],
                weight,
                bias: numbers(&named("bias"), F16, &pair[1..])?,
            });
        }
        nets.push(Net { layers });
    }
    if nets.is_empty() {
        return Err(format!("{name} has no members; allowed: 1 or more"));
    }
    Ok(Weights { mean, scale, nets })
}

#[cfg(test)]
mod tests;
