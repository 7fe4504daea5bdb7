//! The sets of sustained loads: long operators one by one, and layers of the presets.

use super::shares::in_shares;
use super::{Set, Sizing, attention, gemms, memory};
use crate::arch::{Architecture, Phase, Preset, Workload, lower};
use crate::dataset::loads::LoadKind;
use crate::measure::device::Case;
use crate::ops::{Attention, MemoryKind, Op};
use crate::random::Random;
use crate::units::Seconds;
use std::collections::HashSet;

/// Least time of an operator that runs alone under sustained load: shorter ones draw less power.
const LONG: Seconds = Seconds::from_micros(50.0);

/// Tokens of a micro-batch of a layer, as sequences and tokens of each.
const TOKENS: [(u64, u64); 4] = [(2, 4096), (1, 4096), (2, 2048), (1, 1024)];

/// A load to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLoad {
    /// Unique in its plan.
    pub name: String,
    /// What it consists of.
    pub kind: LoadKind,
    /// The operators in order, with their place in a layer.
    pub items: Vec<(Option<String>, Op)>,
}

impl PlannedLoad {
    /// The set that it belongs to.
    pub const fn set(&self) -> Set {
        match self.kind {
            LoadKind::Operator => Set::Sustained,
            LoadKind::Layer => Set::Layers,
        }
    }
}

/// The loads of a plan in the order in which they are measured: both sets in proportion.
pub fn loads(sizing: &Sizing<'_>) -> Vec<PlannedLoad> {
    let wanted = |set: Set| sizing.plan.cases_of(set);
    let operators = operators(sizing, wanted(Set::Sustained));
    let layers = layers(sizing, wanted(Set::Layers));
    let lists = [operators, layers]
        .into_iter()
        .filter(|list| !list.is_empty());
    in_shares(lists.map(|list| (list.len() as f64, list)).collect()).collect()
}

/// Long operators of the other sets: GEMMs, attention over whole sequences, memory-bound kernels.
fn operators(sizing: &Sizing<'_>, wanted: usize) -> Vec<PlannedLoad> {
    let least = LONG.min(sizing.plan.longest / 8.0);
    let drawn = 20 * wanted;
    let is_long = |case: &Case| {
        let decodes = matches!(case.op, Op::Attention(op) if op.is_decode());
        !decodes && sizing.rates.roofline(&case.op) >= least
    };
    let long = |mut cases: Vec<Case>| {
        cases.retain(is_long);
        cases
    };
    let lists = vec![
        (4.0, long(gemms::transformer(sizing, drawn))),
        (1.0, long(attention::cases(sizing, drawn))),
        (1.0, long(memory::cases(sizing, drawn))),
    ];
    let mut known = HashSet::new();
    let fresh = in_shares(lists).filter(|case| known.insert(case.op));
    let load = |case: Case| PlannedLoad {
        name: named(&case.op),
        kind: LoadKind::Operator,
        items: vec![(None, case.op)],
    };
    fresh.take(wanted).map(load).collect()
}

/// The operator with its layout or pass, which its shape alone does not tell.
fn named(op: &Op) -> String {
    match op {
        Op::Gemm(_) => format!("gemm {op}"),
        Op::Attention(attention) => format!("attention {} {op}", attention.pass),
        Op::Memory(memory) => format!("{} {op}", memory.pass),
        other => other.to_string(),
    }
}

/// One layer of each preset in random order, forward and backward.
fn layers(sizing: &Sizing<'_>, wanted: usize) -> Vec<PlannedLoad> {
    let mut presets: Vec<&Preset> = Preset::all().iter().collect();
    Random::new(sizing.seed, "layers").shuffle(&mut presets);
    let loads = presets
        .into_iter()
        .filter_map(|preset| layer(sizing, &preset.architecture));
    loads.take(wanted).collect()
}

/// A layer under the fewest tensor-parallel ranks and the most tokens whose operands fit.
fn layer(sizing: &Sizing<'_>, arch: &Architecture) -> Option<PlannedLoad> {
    let dtype = gemms::most_wanted(sizing);
    let sizes = [1, 2, 4, 8]
        .into_iter()
        .flat_map(|tp| TOKENS.map(|tokens| (tp, tokens)));
    for (tp, (batch, seq)) in sizes {
        let work = Workload {
            tp,
            dtype,
            ..Workload::train(batch, seq)
        };
        let Some(items) = operators_of_layer(arch, &work) else {
            continue;
        };
        let bytes: f64 = items.iter().map(|(_, op)| op.bytes().bytes()).sum();
        // A quarter of the memory that may hold operands is left for scratch.
        let holds = bytes <= 3.0 * sizing.max_bytes.bytes();
        if holds && items.iter().all(|(_, op)| sizing.fits(op)) {
            return Some(PlannedLoad {
                name: format!("{}, {batch} x {seq} tokens, tp {tp}, {dtype}", arch.name),
                kind: LoadKind::Layer,
                items,
            });
        }
    }
    None
}

/// The operators of one layer forward and then backward, those of other GPUs and those fused into a
/// GEMM left out; where layers differ, what at least half of them have. None without such a step.
fn operators_of_layer(arch: &Architecture, work: &Workload) -> Option<Vec<(Option<String>, Op)>> {
    let step = lower(arch, work).ok()?;
    let runs_here = |op: &Op| match op {
        Op::Memory(memory) => memory.kind != MemoryKind::AccumulateGradient,
        Op::Attention(Attention { window, .. }) => *window == 0,
        Op::Gemm(_) => true,
        _ => false,
    };
    let mut items = step.items;
    items.retain(|item| item.role.is_of_layer() && runs_here(&item.op));
    let (forward, mut backward): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| item.phase == Phase::Forward);
    // The last operator of the forward pass comes first.
    backward.reverse();
    let all = forward.into_iter().chain(backward).flat_map(|item| {
        let times = (item.count as f64 / step.layers as f64).round() as usize;
        std::iter::repeat_n((Some(item.label()), item.op), times)
    });
    let all: Vec<_> = all.collect();
    // Most layers of some models attend within a window, which no device of ours runs.
    let attends = |(_, op): &(_, Op)| matches!(op, Op::Attention(_));
    all.iter().any(attends).then_some(all)
}
