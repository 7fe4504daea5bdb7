//! What to measure: sets of cases whose sizes follow from the times that a plan asks for and the
//! rates of the device.
//!
//! Plans are deterministic: equal plans, seeds, rates and devices give equal cases in equal order.
//! The order interleaves the sets in proportion, so that every prefix of it is a balanced sample.

mod anchors;
mod attention;
pub mod file;
mod gemms;
mod memory;
pub mod rates;
mod shares;
pub mod sobol;
mod steps;

pub use file::find;
pub use rates::DeviceRates;
pub use shares::{AttentionShares, MemoryShares};
pub use steps::PlannedStep;

use super::stopping::Limits;
use crate::dataset::{Row, is_own_kernel};
use crate::error::{Error, Result};
use crate::named_enum;
use crate::ops::{Attention, Dtype, Gemm, Layout, MemoryKind, Op, Pass};
use crate::random::{Random, fnv1a};
use crate::units::{Bytes, Seconds, duration};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use shares::{LAYOUTS, weighted};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

named_enum! {
    /// A family of cases that a plan has a number of.
    Set {
        /// GEMMs of real transformers: widths, tensor-parallel degrees, tokens, forward and both
        /// gradients.
        Transformer = "transformer",
        /// Sobol points over the logarithms of FLOPs, m/n and k/sqrt(mn).
        Sobol = "sobol",
        /// Every power of two in the contiguous dimensions, by layout.
        Alignment = "alignment",
        /// One dimension in steps of one and of eight: edges of tiles and waves.
        Sweeps = "sweeps",
        /// Independent GEMMs in one call.
        Batched = "batched",
        /// Fused attention: forward and backward, causal or not, grouped heads, decoding.
        Attention = "attention",
        /// Memory-bound kernels.
        Memory = "memory",
        /// Operators of small transformers, drawn like those of the whole steps, of which none is among them.
        StepOperators = "step_operators",
        /// Whole steps of small transformers: training, prefill, decode.
        Steps = "steps",
    }
}

/// A plan as its file describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name.
    pub name: String,
    /// Time that the run may take on the device's clock.
    #[serde(deserialize_with = "span")]
    pub budget: Duration,
    /// Warm-up of the device before the first timing.
    #[serde(deserialize_with = "span")]
    pub soak: Duration,
    /// Largest number of anchors: cases timed again and again to measure the drift.
    pub anchors: usize,
    /// Time between two visits of the anchors.
    #[serde(deserialize_with = "span")]
    pub anchor_period: Duration,
    /// Least time of a call at full rate; a tenth of the device's floor, if that is more.
    #[serde(rename = "shortest_us", with = "micros")]
    pub shortest: Seconds,
    /// Longest time of a call.
    #[serde(rename = "longest_us", with = "micros")]
    pub longest: Seconds,
    /// Target device time of one replay of a chain.
    #[serde(rename = "chain_us", with = "micros", default = "usual_chain")]
    pub chain: Seconds,
    /// Least number of replays of a call over 1 ms.
    #[serde(default = "usual_fewest")]
    pub fewest: usize,
    /// How much oftener GEMMs of 17 to 512 rows are drawn than others.
    #[serde(default = "once")]
    pub few_rows: f64,
    /// Number formats with their shares of the cases.
    #[serde(deserialize_with = "pairs")]
    pub dtypes: Shares<Dtype>,
    /// Layouts of GEMMs with their shares of the cases.
    #[serde(deserialize_with = "pairs", default = "usual_layouts")]
    pub layouts: Shares<Layout>,
    /// What the attention set consists of.
    #[serde(default)]
    pub attention: AttentionShares,
    /// What the set of memory-bound kernels consists of.
    #[serde(default)]
    pub memory: MemoryShares,
    /// Whether kernels are timed that no framework runs ([`is_own_kernel`]).
    #[serde(default)]
    pub own_kernels: bool,
    /// Number of cases wanted of each set.
    #[serde(deserialize_with = "pairs")]
    pub sets: Vec<(Set, usize)>,
    /// Rates to use instead of a probe.
    #[serde(rename = "scale")]
    pub rates: Option<DeviceRates>,
}

fn once() -> f64 {
    1.0
}

fn usual_chain() -> Seconds {
    Limits::default().chain
}

fn usual_fewest() -> usize {
    Limits::default().fewest
}

fn usual_layouts() -> Shares<Layout> {
    BTreeMap::from(LAYOUTS).into_iter().collect()
}

/// A table as pairs in the order of its keys.
fn pairs<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Vec<(K, V)>, D::Error> {
    Ok(BTreeMap::deserialize(from)?.into_iter().collect())
}

fn span<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    duration(&text).map_err(|needed| D::Error::custom(format!("`{text}` is no duration: {needed}")))
}

/// Times as microseconds.
mod micros {
    use super::{Deserialize, Deserializer, Seconds};
    use serde::Serializer;

    pub fn serialize<S: Serializer>(time: &Seconds, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.micros())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Seconds, D::Error> {
        f64::deserialize(from).map(Seconds::from_micros)
    }
}

impl Plan {
    /// Why the plan leaves out an operator that the software runs.
    pub fn leaves_out(&self, stack: &str, op: &Op) -> Option<String> {
        let is_left_out = !self.own_kernels && is_own_kernel(stack, op);
        is_left_out.then(|| "no framework runs this kernel; a plan with own_kernels times it".to_owned())
    }

    /// Cases wanted of a set.
    pub fn cases_of(&self, set: Set) -> usize {
        let found = self.sets.iter().find(|(name, _)| *name == set);
        found.map_or(0, |(_, cases)| *cases)
    }

    /// Canonical text of the plan: the JSON object of all its fields.
    fn canonical(&self) -> String {
        serde_json::to_string(self).expect("names and numbers are JSON")
    }

    /// Digest of the canonical JSON, by which journals identify a plan.
    pub fn digest(&self) -> String {
        format!("{:016x}", fnv1a(self.canonical().as_bytes()))
    }
}

/// An operator to time and the set it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planned {
    /// The operator.
    pub op: Op,
    /// Its set.
    pub set: Set,
}

impl Planned {
    /// What a row of `measure` is the time of; `None` if its set is of no plan of today.
    pub fn of(row: &Row) -> Option<Self> {
        let set = Set::parse(&row.measured.as_ref()?.set)?;
        Some(Self { op: row.op, set })
    }
}

/// What is drawn from, with its shares.
pub type Shares<T> = Vec<(T, f64)>;

/// A memory-bound kernel and its pass.
type Kernel = (MemoryKind, Pass);

/// Formats, layouts and kernels that a plan asks for and a device supports.
#[derive(Clone, Debug)]
pub struct Supported {
    /// Formats with their shares.
    pub dtypes: Shares<Dtype>,
    /// Layouts with their shares, by format.
    layouts: Vec<(Dtype, Shares<Layout>)>,
    /// Formats of memory-bound kernels with their shares.
    kernels: Vec<(Kernel, Shares<Dtype>)>,
    /// Whether query heads may share a key head.
    grouped_heads: bool,
}

impl Supported {
    /// Asks the device for each format and layout of the plan with a small GEMM, and for each
    /// memory-bound kernel with a small tensor.
    pub fn new(plan: &Plan, refuses: &dyn Fn(&Op) -> Option<String>) -> Result<Self> {
        let mut supported = Self {
            dtypes: Vec::new(),
            layouts: Vec::new(),
            kernels: Vec::new(),
            grouped_heads: true,
        };
        let mut reasons = Vec::new();
        for &(dtype, weight) in &plan.dtypes {
            let mut allowed = plan.layouts.clone();
            allowed.retain(|&(layout, _)| {
                let refusal = refuses(&Op::Gemm(Gemm::square(512, layout, dtype)));
                reasons.extend(refusal.clone());
                refusal.is_none()
            });
            if !allowed.is_empty() {
                supported.dtypes.push((dtype, weight));
                supported.layouts.push((dtype, allowed));
            }
        }
        if supported.dtypes.is_empty() {
            let names: Vec<_> = plan.dtypes.iter().map(|(dtype, _)| dtype.name()).collect();
            let layouts: Vec<_> = plan.layouts.iter().map(|(layout, _)| layout.name()).collect();
            return Err(Error::infeasible(format!(
                "the device runs GEMMs in none of the plan's formats {} and layouts {}: {}",
                names.join(", "),
                layouts.join(", "),
                reasons.first().map_or("it refuses them", String::as_str)
            )));
        }
        let refuses_heads = |kv_heads| {
            let dtype = supported.dtypes[0].0;
            let op = Attention {
                kv_heads,
                dtype,
                ..Attention::new(1, 8, 128, 64)
            };
            refuses(&Op::Attention(op)).is_some()
        };
        // A device that refuses all attention says so case by case.
        supported.grouped_heads = refuses_heads(8) || !refuses_heads(2);
        for (kind, pass) in plan.memory.kernels() {
            let asked = match kind.own_format() {
                Some(own) => vec![(own, 1.0)],
                None => plan.dtypes.clone(),
            };
            let mut allowed = asked.clone();
            allowed.retain(|&(dtype, _)| {
                let op = rates::rows_of_1024(64, (kind, pass), dtype);
                refuses(&op).is_none()
            });
            // Cases of a kernel that the device lacks are refused one by one, with the reason.
            let formats = if allowed.is_empty() { asked } else { allowed };
            supported.kernels.push(((kind, pass), formats));
        }
        Ok(supported)
    }

    /// Layouts of this format with their shares.
    pub fn layouts(&self, dtype: Dtype) -> &[(Layout, f64)] {
        let found = self.layouts.iter().find(|(name, _)| *name == dtype);
        found.map_or(&[], |(_, layouts)| layouts)
    }

    /// The layout of a linear layer's forward pass, else the first supported one.
    pub fn layout(&self, dtype: Dtype) -> Layout {
        let first = self.layouts(dtype).first();
        first.map_or(Layout::Tn, |(layout, _)| *layout)
    }

    /// A layout with the probability of its share; `at` is uniform from 0 to 1.
    fn layout_at(&self, dtype: Dtype, at: f64) -> Layout {
        match self.layouts(dtype) {
            [] => Layout::Tn,
            layouts => weighted(layouts, at),
        }
    }

    /// A format with the probability of its share; `at` is uniform from 0 to 1.
    fn dtype(&self, at: f64) -> Dtype {
        weighted(&self.dtypes, at)
    }

    /// A format of a memory-bound kernel with the probability of its share.
    fn dtype_of(&self, kernel: Kernel, at: f64) -> Dtype {
        let known = self.kernels.iter().find(|(known, _)| *known == kernel);
        known.map_or_else(|| self.dtype(at), |(_, formats)| weighted(formats, at))
    }
}

/// Everything that the sizes of cases follow from.
#[derive(Clone, Debug)]
pub struct Sizing<'a> {
    /// Number of cases by set.
    pub plan: &'a Plan,
    /// Rates of the device.
    pub rates: DeviceRates,
    /// Formats and layouts of the device.
    pub supported: Supported,
    /// Largest size of one operator's operands.
    pub max_bytes: Bytes,
    /// Seed of shapes and order.
    pub seed: u64,
}

impl Sizing<'_> {
    /// The cases of the plan in the order in which they are measured.
    pub fn cases(&self) -> Vec<Planned> {
        let mut known = HashSet::new();
        let mut sets: Vec<Vec<Planned>> = Vec::new();
        for set in Set::ALL {
            let wanted = self.plan.cases_of(set);
            let cases = match set {
                Set::Transformer => gemms::transformer(self, wanted),
                Set::Sobol => gemms::space_filling(self, wanted),
                Set::Alignment => gemms::alignment(self, wanted),
                Set::Sweeps => gemms::sweeps(self, wanted),
                Set::Batched => gemms::batched(self, wanted),
                Set::Attention => attention::cases(self, wanted),
                Set::Memory => memory::cases(self, wanted),
                Set::StepOperators => steps::operators(self, wanted),
                Set::Steps => Vec::new(),
            };
            let fresh = cases.into_iter().filter(|op| known.insert(*op));
            let mut cases: Vec<Planned> = fresh.map(|op| Planned { op, set }).collect();
            Random::new(self.seed, set.name()).shuffle(&mut cases);
            sets.push(cases);
        }
        interleave(sets, self.seed)
    }

    /// Anchors that runs of all plans on a device have in common.
    pub fn anchors(&self, refuses: &dyn Fn(&Op) -> Option<String>) -> Vec<Planned> {
        anchors::anchors(self, refuses)
    }

    /// The whole steps of the plan in the order in which they are measured, each shape twice.
    pub fn steps(&self) -> Vec<PlannedStep> {
        steps::steps(self)
    }

    /// Whether an operator is short and small enough.
    fn fits(&self, op: &Op) -> bool {
        op.bytes() <= self.max_bytes && self.rates.roofline(op) <= self.plan.longest
    }

    /// Least time of a call at full rate; calls far below the floor of the device would time the
    /// floor.
    fn shortest(&self) -> Seconds {
        let shortest = self.plan.shortest.max(self.rates.floor() / 10.0);
        shortest.min(self.plan.longest / 2.0)
    }
}

/// Largest size of one operator's operands: an eighth of the memory and at most 2 GiB, whose set-up
/// would outlast the timing.
pub fn max_bytes(memory_bytes: Option<f64>) -> Bytes {
    let limit = Bytes::from_bytes(2f64.powi(31));
    memory_bytes.map_or(limit / 2.0, |memory| limit.min(Bytes::from_bytes(memory / 8.0)))
}

/// Merges the sets into one order of which every prefix holds each set in proportion.
fn interleave(sets: Vec<Vec<Planned>>, seed: u64) -> Vec<Planned> {
    let mut random = Random::new(seed, "order");
    let mut placed: Vec<(f64, Planned)> = Vec::new();
    for set in sets {
        let size = set.len() as f64;
        for (index, planned) in set.into_iter().enumerate() {
            placed.push(((index as f64 + random.uniform()) / size, planned));
        }
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    placed.into_iter().map(|(_, planned)| planned).collect()
}

/// A small case of a set, for the reason why a device refuses all of it.
pub fn sample(set: Set, supported: &Supported) -> Option<Op> {
    let dtype = supported.dtypes.first()?.0;
    match set {
        Set::Attention => Some(rates::self_attention(64, dtype)),
        Set::Memory => {
            let copy = (MemoryKind::Copy, Pass::Forward);
            Some(rates::rows_of_1024(64, copy, dtype))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
