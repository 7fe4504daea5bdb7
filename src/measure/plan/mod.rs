//! What to measure: sets of cases whose sizes follow from the times that a plan asks for and the
//! rates of the device.
//!
//! Plans are deterministic: equal plans, seeds, rates and devices give equal cases in equal order.
//! The order interleaves the sets in proportion, so that every prefix of it is a balanced sample.

mod attention;
pub mod file;
mod gemms;
mod memory;
pub mod rates;
pub mod sobol;

pub use file::find;
pub use rates::DeviceRates;

use super::device::{Cache, Case};
use crate::dataset::Row;
use crate::error::{Error, Result};
use crate::ops::{Dtype, Gemm, Layout, MemoryKind, Op};
use crate::random::{Random, fnv1a};
use crate::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt;
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
        /// Shapes with the first eight algorithms of the library each.
        BestOf = "best_of",
        /// Fused attention: forward and backward, causal or not, grouped heads, decoding.
        Attention = "attention",
        /// Memory-bound kernels.
        Memory = "memory",
        /// Cases of the other sets once more with operands in the cache.
        Hot = "hot",
        /// Cases that active learning chooses during the run.
        Active = "active",
    }
}

/// A plan as its file describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Name.
    pub name: String,
    /// Time that the run may take on the device's clock.
    pub budget: Duration,
    /// Warm-up of the device before the first timing.
    pub soak: Duration,
    /// Largest number of anchors: cases timed again and again to measure the drift.
    pub anchors: usize,
    /// Time between two visits of the anchors.
    pub anchor_period: Duration,
    /// Least time of a call at full rate; a tenth of the device's floor, if that is more.
    #[serde(rename = "shortest_us", serialize_with = "micros")]
    pub shortest: Seconds,
    /// Longest time of a call.
    #[serde(rename = "longest_us", serialize_with = "micros")]
    pub longest: Seconds,
    /// Rounds of active learning.
    pub active_rounds: usize,
    /// Number formats with their shares of the cases.
    pub dtypes: Vec<(Dtype, f64)>,
    /// Number of cases wanted of each set.
    pub sets: Vec<(Set, usize)>,
    /// Rates to use instead of a probe.
    pub rates: Option<DeviceRates>,
}

impl Plan {
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

fn micros<S: serde::Serializer>(
    time: &Seconds,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.micros())
}

/// A case and the set it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planned {
    /// The case.
    pub case: Case,
    /// Its set.
    pub set: Set,
}

impl Planned {
    /// The case that a row of `measure` is the time of.
    pub fn of(row: &Row) -> Self {
        let set = row
            .measured
            .as_ref()
            .and_then(|about| Set::parse(&about.set));
        Self {
            case: Case::of(row),
            set: set.unwrap_or(Set::Active),
        }
    }
}

/// Formats and layouts of GEMMs that a plan asks for and a device supports.
#[derive(Clone, Debug)]
pub struct Supported {
    /// Formats with their shares.
    pub dtypes: Vec<(Dtype, f64)>,
    /// Layouts by format.
    layouts: Vec<(Dtype, Vec<Layout>)>,
}

impl Supported {
    /// Asks the device for each format and layout of the plan, with a small GEMM.
    pub fn new(plan: &Plan, refuses: &dyn Fn(&Case) -> Option<String>) -> Result<Self> {
        let mut supported = Self {
            dtypes: Vec::new(),
            layouts: Vec::new(),
        };
        let mut reasons = Vec::new();
        for &(dtype, weight) in &plan.dtypes {
            let allowed: Vec<Layout> = Layout::ALL
                .into_iter()
                .filter(|&layout| {
                    let refusal = refuses(&Case::cold(Op::Gemm(Gemm::square(512, layout, dtype))));
                    reasons.extend(refusal.clone());
                    refusal.is_none()
                })
                .collect();
            if !allowed.is_empty() {
                supported.dtypes.push((dtype, weight));
                supported.layouts.push((dtype, allowed));
            }
        }
        if supported.dtypes.is_empty() {
            let names: Vec<_> = plan.dtypes.iter().map(|(dtype, _)| dtype.name()).collect();
            return Err(Error::infeasible(format!(
                "the device runs GEMMs in none of the plan's formats {}: {}",
                names.join(", "),
                reasons.first().map_or("it refuses them", String::as_str)
            )));
        }
        Ok(supported)
    }

    /// Layouts of this format.
    pub fn layouts(&self, dtype: Dtype) -> &[Layout] {
        let found = self.layouts.iter().find(|(name, _)| *name == dtype);
        found.map_or(&[], |(_, layouts)| layouts)
    }

    /// The layout of a linear layer's forward pass, else the first supported one.
    pub fn layout(&self, dtype: Dtype) -> Layout {
        self.layouts(dtype).first().copied().unwrap_or(Layout::Tn)
    }

    /// A format with the probability of its share; `at` is uniform from 0 to 1.
    fn dtype(&self, at: f64) -> Dtype {
        let total: f64 = self.dtypes.iter().map(|(_, weight)| weight).sum();
        let mut left = at * total;
        for &(dtype, weight) in &self.dtypes {
            left -= weight;
            if left < 0.0 {
                return dtype;
            }
        }
        self.dtypes[self.dtypes.len() - 1].0
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
                Set::BestOf => gemms::best_of(self, wanted),
                Set::Attention => attention::cases(self, wanted),
                Set::Memory => memory::cases(self, wanted),
                Set::Hot => hot(&sets, wanted),
                // Chosen during the run.
                Set::Active => Vec::new(),
            };
            let fresh = cases.into_iter().filter(|case| known.insert(*case));
            let mut cases: Vec<Planned> = fresh.map(|case| Planned { case, set }).collect();
            Random::new(self.seed, set.name()).shuffle(&mut cases);
            sets.push(cases);
        }
        interleave(sets, self.seed)
    }

    /// Candidates of a round of active learning: GEMMs at further space-filling points.
    pub fn candidates(&self, round: usize, wanted: usize) -> Vec<Case> {
        gemms::candidates(self, round, wanted)
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
    memory_bytes.map_or(limit / 2.0, |memory| {
        limit.min(Bytes::from_bytes(memory / 8.0))
    })
}

/// Cases of other sets, spread evenly over them, with operands in the cache.
fn hot(sets: &[Vec<Planned>], wanted: usize) -> Vec<Case> {
    let plain = sets
        .iter()
        .flatten()
        .filter(|planned| planned.case.rank == 0);
    let plain: Vec<&Case> = plain.map(|planned| &planned.case).collect();
    let wanted = wanted.min(plain.len());
    let spread = (0..wanted).map(|index| plain[index * plain.len() / wanted]);
    let warmed = spread.map(|case| Case {
        cache: Cache::Hot,
        ..*case
    });
    warmed.collect()
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

/// A shard of a plan that is split over GPUs or nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub index: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Whether this shard holds the case.
    ///
    /// It follows from the case alone, so shards cannot overlap even where the probes of two nodes
    /// have made plans of different sizes.
    pub fn holds(self, case: &Case) -> bool {
        let digest = fnv1a(case.canonical().as_bytes());
        Random::new(digest, "shard").bits() % self.of == self.index - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.index, self.of))
    }
}

/// A small case of a set, for the reason why a device refuses all of it.
pub fn sample(set: Set, supported: &Supported) -> Option<Case> {
    let dtype = supported.dtypes.first()?.0;
    match set {
        Set::Attention => Some(Case::cold(rates::self_attention(64, dtype))),
        Set::Memory => Some(Case::cold(rates::rows_of_1024(64, MemoryKind::Copy, dtype))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
