//! What to measure: sets of cases whose sizes follow from the times that a plan asks for and the speed of the device.
//!
//! A plan is deterministic: equal plans, seeds, rates and offers give equal cases in equal order. The order interleaves
//! the sets in proportion, so wherever a run is cut, what was measured is a balanced sample.

mod attention;
pub mod file;
mod memory;
mod products;
pub mod scale;
pub mod sobol;

pub use file::find;
pub use scale::Scale;

use super::device::{Cache, Case};
use crate::error::Error;
use crate::error::Result;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::ops::MemoryKind;
use crate::ops::Op;
use crate::random::{Random, fnv1a};
use crate::units::Bytes;
use crate::units::Seconds;
use serde::Deserialize;
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// A family of cases that a plan has a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// Products of real transformers: widths, parallel degrees, tokens, forward and both gradients.
    Transformer,
    /// Sobol points over the logarithms of FLOPs, m/n and k/sqrt(mn).
    Sobol,
    /// Every power of two in the contiguous dimensions, by layout.
    Alignment,
    /// One dimension in steps of one and of eight: edges of tiles and waves.
    Sweeps,
    /// Independent products in one call.
    Batched,
    /// Shapes with the first eight algorithms of the library each.
    BestOf,
    /// Fused attention: forward and backward, causal or not, grouped heads, decoding.
    Attention,
    /// Kernels bound by memory traffic.
    Memory,
    /// Cases of the other sets once more with operands in the cache.
    Hot,
    /// Asked for during the run.
    Active,
}

impl Set {
    /// Every set.
    pub const ALL: [Self; 10] = [
        Self::Transformer,
        Self::Sobol,
        Self::Alignment,
        Self::Sweeps,
        Self::Batched,
        Self::BestOf,
        Self::Attention,
        Self::Memory,
        Self::Hot,
        Self::Active,
    ];

    /// The name used in plan files and on disk.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Sobol => "sobol",
            Self::Alignment => "alignment",
            Self::Sweeps => "sweeps",
            Self::Batched => "batched",
            Self::BestOf => "best_of",
            Self::Attention => "attention",
            Self::Memory => "memory",
            Self::Hot => "hot",
            Self::Active => "active",
        }
    }
}

/// A plan as its file says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// How long the run may take, on the device's clock.
    pub budget: Duration,
    /// How long the device is kept busy before the first timing.
    pub soak: Duration,
    /// Most cases that are timed again and again.
    pub anchors: usize,
    /// How often.
    pub anchor_period: Duration,
    /// Least time of a call at full rate; a tenth of the device's floor, if that is more.
    pub shortest: Seconds,
    /// Longest time of a call.
    pub longest: Seconds,
    /// Rounds in which cases are asked for during the run.
    pub active_rounds: usize,
    /// Number formats with their shares of the cases.
    pub dtypes: Vec<(Dtype, f64)>,
    /// Cases of each set, as far as the set has as many.
    pub sets: Vec<(Set, usize)>,
    /// Rates to use instead of a probe.
    pub scale: Option<Scale>,
}

impl Plan {
    /// Cases wanted of a set.
    pub fn cases_of(&self, set: Set) -> usize {
        let found = self.sets.iter().find(|(name, _)| *name == set);
        found.map_or(0, |(_, cases)| *cases)
    }

    /// A fingerprint of everything that the plan says.
    pub fn digest(&self) -> String {
        format!("{:016x}", fnv1a(format!("{self:?}").as_bytes()))
    }
}

/// A case and the set it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Planned {
    /// The case.
    pub case: Case,
    /// Its set.
    pub set: Set,
}

/// What a device lets through of what a plan may ask.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Formats of products, with their shares.
    pub dtypes: Vec<(Dtype, f64)>,
    /// Layouts by format.
    layouts: Vec<(Dtype, Vec<Layout>)>,
}

impl Offer {
    /// Asks the device for each format and layout of the plan, by a small product.
    pub fn new(plan: &Plan, refuses: &dyn Fn(&Case) -> Option<String>) -> Result<Self> {
        let mut offer = Self {
            dtypes: Vec::new(),
            layouts: Vec::new(),
        };
        let mut reasons = Vec::new();
        for &(dtype, weight) in &plan.dtypes {
            let allowed: Vec<Layout> = Layout::ALL
                .into_iter()
                .filter(|&layout| {
                    let refusal = refuses(&cold(Op::Gemm(Gemm::square(512, layout, dtype))));
                    reasons.extend(refusal.clone());
                    refusal.is_none()
                })
                .collect();
            if !allowed.is_empty() {
                offer.dtypes.push((dtype, weight));
                offer.layouts.push((dtype, allowed));
            }
        }
        if offer.dtypes.is_empty() {
            let names: Vec<_> = plan.dtypes.iter().map(|(dtype, _)| dtype.name()).collect();
            return Err(Error::infeasible(format!(
                "the device runs products in none of the plan's formats {}: {}",
                names.join(", "),
                reasons.first().map_or("it refuses them", String::as_str)
            )));
        }
        Ok(offer)
    }

    /// Layouts of this format.
    pub fn layouts(&self, dtype: Dtype) -> &[Layout] {
        let found = self.layouts.iter().find(|(name, _)| *name == dtype);
        found.map_or(&[], |(_, layouts)| layouts)
    }

    /// The layout of a linear layer's forward pass, else the first that there is.
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
#[derive(Clone, Copy, Debug)]
pub struct Sizing<'a> {
    /// How many cases of which sets.
    pub plan: &'a Plan,
    /// How fast the device is.
    pub scale: &'a Scale,
    /// What it lets through.
    pub offer: &'a Offer,
    /// Most bytes of one operator's operands.
    pub most: Bytes,
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
                Set::Transformer => products::transformer(self, wanted),
                Set::Sobol => products::space_filling(self, wanted),
                Set::Alignment => products::alignment(self, wanted),
                Set::Sweeps => products::sweeps(self, wanted),
                Set::Batched => products::batched(self, wanted),
                Set::BestOf => products::best_of(self, wanted),
                Set::Attention => attention::cases(self, wanted),
                Set::Memory => memory::cases(self, wanted),
                Set::Hot => hot(&sets, wanted),
                // They are chosen while the run goes on.
                Set::Active => Vec::new(),
            };
            let fresh = cases.into_iter().filter(|case| known.insert(case.clone()));
            let mut cases: Vec<Planned> = fresh.map(|case| Planned { case, set }).collect();
            Random::new(self.seed, set.name()).shuffle(&mut cases);
            sets.push(cases);
        }
        interleave(sets, self.seed)
    }

    /// Products to choose from in an active round: more points of the space-filling set, of a sequence of their own.
    pub fn candidates(&self, round: usize, wanted: usize) -> Vec<Case> {
        products::candidates(self, round, wanted)
    }

    /// Whether an operator is short and small enough.
    fn fits(&self, op: &Op) -> bool {
        op.bytes() <= self.most && self.scale.guess(op) <= self.plan.longest
    }

    /// Least time of a call at full rate: what is far below the floor of the device only measures the floor.
    fn shortest(&self) -> Seconds {
        let shortest = self.plan.shortest.max(self.scale.floor() / 10.0);
        shortest.min(self.plan.longest / 2.0)
    }
}

/// Most bytes of one operator: an eighth of the memory, and never more than 2 GiB (set-up would outlast the timing).
pub fn most_bytes(memory_bytes: Option<f64>) -> Bytes {
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
        ..case.clone()
    });
    warmed.collect()
}

/// One order in which every beginning holds each set in proportion.
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

/// One part of a plan that is split over GPUs or nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Whether this part holds the case. It follows from the case alone, so parts cannot overlap, even
    /// where the probes of two nodes have made plans of different sizes.
    pub fn holds(self, case: &Case) -> bool {
        let text = format!("{case:?}");
        Random::new(fnv1a(text.as_bytes()), "shard").bits() % self.of == self.index - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.index, self.of))
    }
}

/// A small case that stands for a set, to ask why a device has nothing of it.
pub fn sample(set: Set, offer: &Offer) -> Option<Case> {
    let dtype = offer.dtypes.first()?.0;
    match set {
        Set::Attention => Some(cold(Op::Attention(scale::self_attention(64, dtype)))),
        Set::Memory => Some(cold(Op::Memory(scale::copy(64, MemoryKind::Copy, dtype)))),
        _ => None,
    }
}

/// A cold case with the library's first algorithm.
pub fn cold(op: Op) -> Case {
    Case {
        op,
        cache: Cache::Cold,
        rank: 0,
    }
}

/// A product as a cold case.
fn product(gemm: Gemm) -> Case {
    cold(Op::Gemm(gemm))
}

#[cfg(test)]
mod tests;
