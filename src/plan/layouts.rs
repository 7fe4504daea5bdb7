//! Every legal layout of a training step over a number of GPUs.
//!
//! Degrees of parallelism divide the GPUs, and what the model must divide by is checked by [`Workload::validate`]. Tensor
//! parallelism stays inside a node (Megatron-LM, arXiv 2104.04473, takeaway 1), interleaving needs micro-batches in
//! multiples of the stages (section 2.2.2 there).

use super::Query;
use super::remedy::largest_that;
use crate::arch::{Architecture, Dimension, Recompute, Workload};
use crate::framework::Framework;
use crate::gpu::Gpu;
use crate::predict::Predictor;

/// The most tensor-parallel ranks: heads and MLP are cut too thin beyond.
const MOST_TP: u64 = 16;

/// Cards of a server whose number is not known: as many as the usual servers of PCIe cards hold.
const USUAL_NODE: u64 = 8;

/// The most GPUs that split a layer, which are those of a node.
pub(super) fn node(gpu: &Gpu) -> u64 {
    gpu.gpus_per_node().unwrap_or(USUAL_NODE)
}

/// The fewest tokens of a sequence on one context-parallel rank.
const LEAST_CONTEXT_TOKENS: u64 = 1024;

/// The most sequences of a micro-batch, and the most tokens of one on a GPU.
const MOST_SEQUENCES: u64 = 16;
const MOST_TOKENS: u64 = 1 << 16;

/// The most expert-parallel ranks: those of published training runs (DeepSeek-V3, arXiv 2412.19437, section 3.2).
pub(super) const MOST_EP: u64 = 64;

/// How much longer the longest stage may be than the mean one.
const UNEVEN: f64 = 1.1;

/// What is recomputed, from nothing to everything.
pub(super) const RECOMPUTED: [Recompute; 5] = [
    Recompute::None,
    Recompute::LatentUp,
    Recompute::Pointwise,
    Recompute::Mlp,
    Recompute::Full,
];

/// The layouts of a query before memory rules any out, without recomputation.
pub(super) fn layouts(arch: &Architecture, gpu: &Gpu, query: &Query, framework: &Framework) -> Vec<Workload> {
    let mut layouts = Vec::new();
    for work in ranks(arch, gpu, query) {
        let work = &work;
        for sharded in experts(arch, query, work) {
            for zero in zero_stages_of(query, &sharded, framework) {
                let sharded = Workload { zero, ..sharded };
                if framework.check_layout(&sharded).is_err() {
                    continue;
                }
                for batched in batches(query, &sharded) {
                    for interleaved in interleavings(arch, query, &batched) {
                        let runs = framework.splits(Dimension::Vp, interleaved.vp);
                        if runs && interleaved.validate(arch).is_ok() {
                            layouts.push(interleaved);
                        }
                    }
                }
            }
        }
    }
    layouts
}

/// Whether so many GPUs can share steps of so many sequences at all.
pub(super) fn divides(predictor: &Predictor, arch: &Architecture, query: &Query, gpus: u64, global_batch: u64) -> bool {
    let query = Query {
        gpus,
        global_batch,
        ..query.clone()
    };
    let Ok(framework) = predictor.framework(query.workload.mode) else {
        return false;
    };
    ranks(arch, predictor.gpu(), &query).iter().any(|work| {
        let work = Workload { batch: 1, ..*work };
        framework.check_layout(&work).is_ok() && work.validate(arch).is_ok()
    })
}

/// Tensor, context, pipeline and data-parallel ranks.
fn ranks(arch: &Architecture, gpu: &Gpu, query: &Query) -> Vec<Workload> {
    let base = query.workload;
    let node = node(gpu).min(MOST_TP);
    let mut all = Vec::new();
    for tp in divisors(query.gpus) {
        if !query.spreads(tp, node) {
            continue;
        }
        for cp in divisors(query.gpus / tp) {
            let whole = cp == 1 || base.seq.is_multiple_of(2 * cp);
            let long = cp == 1 || base.seq / cp >= LEAST_CONTEXT_TOKENS;
            if !cp.is_power_of_two() || !whole || !long || !query.keeps(Dimension::Cp, cp) {
                continue;
            }
            for pp in divisors(query.gpus / (tp * cp)) {
                let dp = query.gpus / (tp * cp * pp);
                let divides = query.global_batch.is_multiple_of(dp);
                if divides && is_even(arch.layers, pp) && query.keeps(Dimension::Pp, pp) {
                    all.push(Workload {
                        tp,
                        cp,
                        pp,
                        dp,
                        sequence_parallel: tp > 1,
                        ..base
                    });
                }
            }
        }
    }
    all
}

/// Whether the stages are about as long as each other, embedding and head counted as layers or not.
fn is_even(layers: u64, pp: u64) -> bool {
    let longest = layers.div_ceil(pp);
    let shares_head = (layers + 2).is_multiple_of(pp);
    pp <= layers && (longest * (pp - 1) < layers) && (shares_head || (longest * pp) as f64 <= UNEVEN * layers as f64)
}

/// Expert-parallel ranks, whose experts are whole or cut like a dense MLP.
fn experts(arch: &Architecture, query: &Query, work: &Workload) -> Vec<Workload> {
    let Some(moe) = arch.moe else {
        return vec![*work];
    };
    let sharing = work.tp * work.cp * work.dp;
    let mut all = Vec::new();
    for ep in divisors(moe.experts).filter(|&ep| ep <= MOST_EP && sharing.is_multiple_of(ep)) {
        // 0 means all tensor-parallel ranks.
        let cut: &[u64] = match (ep, work.tp) {
            (1, _) => &[0],
            (_, 1) => &[1],
            _ => &[1, 0],
        };
        if query.keeps(Dimension::Ep, ep) {
            all.extend(cut.iter().map(|&expert_tp| Workload { ep, expert_tp, ..*work }));
        }
    }
    all
}

fn zero_stages_of(query: &Query, work: &Workload, framework: &Framework) -> Vec<u8> {
    if let Some(stage) = query.zero {
        return vec![stage];
    }
    if work.dp * work.cp == 1 {
        return vec![0];
    }
    framework.zero_stages_with(work.pp).collect()
}

/// Sequences of a micro-batch in powers of two, and how many micro-batches fill the batch.
fn batches(query: &Query, work: &Workload) -> Vec<Workload> {
    let own = query.global_batch / work.dp;
    let sizes = (0..).map(|power| 1 << power);
    let sizes = sizes.take_while(|&batch: &u64| {
        let tokens = batch * work.seq / work.cp;
        batch <= MOST_SEQUENCES && (batch == 1 || tokens <= MOST_TOKENS)
    });
    let sizes: Vec<u64> = match query.kept(Dimension::Batch) {
        Some(batch) => vec![batch],
        None => sizes.collect(),
    };
    let fitting = sizes.into_iter().filter(|&batch| own.is_multiple_of(batch));
    let cut = fitting.map(|batch| Workload {
        batch,
        microbatches: own / batch,
        ..*work
    });
    cut.collect()
}

/// Whether a layout may have virtual stages.
pub(crate) fn interleaves(work: &Workload) -> bool {
    work.pp > 1 && work.microbatches.is_multiple_of(work.pp)
}

/// Virtual stages that divide the layers of a stage.
fn interleavings(arch: &Architecture, query: &Query, work: &Workload) -> Vec<Workload> {
    let pp = work.pp;
    // Embedding and head may take the place of a layer each; what is still uneven is one layer short.
    let stage = match (arch.layers + 2).is_multiple_of(pp) && !arch.layers.is_multiple_of(pp) {
        true => (arch.layers + 2) / pp,
        false => arch.layers.div_ceil(pp),
    };
    let possible = divisors(stage).filter(|&vp| vp == 1 || interleaves(work));
    let kept = possible.filter(|&vp| query.keeps(Dimension::Vp, vp));
    kept.map(|vp| Workload { vp, ..*work }).collect()
}

/// The recomputations under which a layout fits: empty if it fits without, else the least of each kind.
pub(super) fn recomputing(
    arch: &Architecture,
    query: &Query,
    work: &Workload,
    fits: impl Fn(&Workload) -> bool,
) -> Vec<Workload> {
    let with = |recompute, recompute_layers| Workload {
        recompute,
        recompute_layers,
        ..*work
    };
    let mut all = Vec::new();
    for recompute in RECOMPUTED {
        let possible = query.recompute.is_none_or(|kept| kept == recompute);
        let latent = recompute != Recompute::LatentUp || arch.mla.is_some();
        let whole = with(recompute, 0);
        if !possible || !latent || !fits(&whole) {
            continue;
        }
        if recompute == Recompute::Full {
            let layers = arch.layers.div_ceil(work.pp);
            let least = largest_that(layers, |some| !fits(&with(recompute, some))).unwrap_or(0) + 1;
            all.push(with(recompute, if least == layers { 0 } else { least }));
        } else {
            all.push(whole);
        }
        if recompute == Recompute::None {
            break;
        }
    }
    all
}

pub(super) fn divisors(number: u64) -> impl Iterator<Item = u64> {
    (1..=number).filter(move |divisor| number.is_multiple_of(*divisor))
}
