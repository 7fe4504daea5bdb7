//! The set of memory-bound kernels: shapes that training steps of the presets run, and shapes from
//! one kilobyte to the traffic of the longest call, columns also odd.

use super::sobol::{DIMENSIONS, Sobol, log_between};
use super::{Kernel, Sizing};
use crate::arch::{Preset, Workload, lower};
use crate::ops::{Dtype, Memory, MemoryKind, Op};
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Least traffic of a kernel.
const LEAST_BYTES: f64 = 1024.0;

/// Tokens of a micro-batch in steps of the presets, in sequences of 1024, which each of them takes.
const TOKENS: [u64; 3] = [1024, 4096, 16384];

/// Tensor-parallel ranks in steps of the presets.
const RANKS: [u64; 4] = [1, 2, 4, 8];

/// Cases of the set, kernels in turn: the plan's share of shapes from presets, the others Sobol
/// points over the logarithms of bytes and columns, of which a third is free, a third multiples of
/// 8, a third of 64.
pub fn cases(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let shares = &sizing.plan.memory;
    let kernels: Vec<Kernel> = shares.kernels().collect();
    let Some(bandwidth) = sizing.rates.bandwidth().filter(|_| wanted > 0) else {
        return Vec::new();
    };
    let most = (bandwidth.bytes_per_sec() * sizing.plan.longest.secs()).min(sizing.max_bytes.bytes());
    let mut random = Random::new(sizing.seed, "memory-bound kernels");
    let mut of_presets = of_presets(&mut random);
    // Every other point of a Sobol sequence lies in one half of the cube, so each kernel has a sequence of its own.
    let sequence = |(kind, pass): &Kernel| Sobol::new(sizing.seed, &format!("memory {kind} {pass}"));
    let mut sequences: Vec<Sobol> = kernels.iter().map(sequence).collect();
    let cases = (0..20 * wanted).filter_map(|index| {
        let kernel = kernels[index % kernels.len()];
        let point = sequences[index % kernels.len()].next()?;
        let dtype = sizing.supported.dtype_of(kernel, point[2]);
        let unit = [1, 8, 64][index / kernels.len() % 3];
        let is_preset = random.uniform() < shares.presets;
        let listed = of_presets.get_mut(&kernel).filter(|_| is_preset);
        let shape = listed.and_then(Vec::pop);
        let asked = shape.map(|shape| Op::Memory(Memory { dtype, ..shape }));
        asked.filter(|op| sizing.fits(op)).or_else(|| {
            let op = Op::Memory(drawn(kernel, dtype, &point, unit, most));
            sizing.fits(&op).then_some(op)
        })
    });
    cases.take(wanted).collect()
}

/// The kernel at a point of the unit cube.
fn drawn((kind, pass): Kernel, dtype: Dtype, point: &[f64; DIMENSIONS], unit: u64, most: f64) -> Memory {
    // Logits are as wide as vocabularies; an optimizer step has no rows.
    let range = match kind {
        MemoryKind::CrossEntropy => Some((1024.0, 262_144.0)),
        MemoryKind::Adam => None,
        _ => Some((64.0, 65536.0)),
    };
    let cols = range.map_or(1, |range| (log_between(range, point[1]) as u64).next_multiple_of(unit));
    let row = Memory {
        kind,
        rows: 1,
        cols,
        pass,
        dtype,
    };
    let bytes = log_between((LEAST_BYTES, most.max(2.0 * LEAST_BYTES)), point[0]);
    let rows = (bytes / row.bytes().bytes()).round() as u64;
    Memory {
        rows: rows.max(1),
        ..row
    }
}

/// The kernels that training steps of the presets run, each once, in random order.
fn of_presets(random: &mut Random) -> BTreeMap<Kernel, Vec<Memory>> {
    let mut known = BTreeSet::new();
    for preset in Preset::typical() {
        for (tp, tokens) in RANKS.iter().flat_map(|&tp| TOKENS.map(|tokens| (tp, tokens))) {
            // In fp8 all these kernels run in 16 bits, and casts are among them.
            let work = Workload {
                tp,
                dtype: Dtype::Fp8,
                ..Workload::train(tokens / 1024, 1024)
            };
            // Ranks that do not divide the heads of a preset have no step.
            let Ok(step) = lower(&preset.architecture, &work) else {
                continue;
            };
            known.extend(step.items.iter().filter_map(|item| match item.op {
                Op::Memory(op) => Some(op),
                _ => None,
            }));
        }
    }
    let mut kernels: BTreeMap<Kernel, Vec<Memory>> = BTreeMap::new();
    for op in known {
        kernels.entry((op.kind, op.pass)).or_default().push(op);
    }
    kernels.values_mut().for_each(|list| random.shuffle(list));
    kernels
}
