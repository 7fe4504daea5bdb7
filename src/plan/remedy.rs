//! The nearest workload under which a step fits: as few further GPUs as possible, then as few changes.

use super::layouts::{RECOMPUTED, node};
use crate::arch::{Architecture, MemoryUse, Recompute, Workload, memory_use};
use crate::error::Result;
use crate::predict::Predictor;

/// The most GPUs that a step is spread over to fit.
pub const MOST_REMEDY_GPUS: u64 = 1 << 13;

/// A workload that fits, with the memory of the fullest GPU.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// The workload.
    pub workload: Workload,
    /// What it takes.
    pub memory: MemoryUse,
}

/// The nearest workload to this one under which a step fits; none within [`MOST_REMEDY_GPUS`].
///
/// In order: on as many GPUs a higher ZeRO stage, smaller micro-batches (when serving the largest batch that fits) and
/// recomputation, then two and all three of them; then the same on two, four, eight times as many GPUs, as
/// tensor-parallel ranks inside a node, replicas that shard, and pipeline stages.
pub fn remedy(
    predictor: &Predictor,
    arch: &Architecture,
    work: &Workload,
) -> Result<Option<Remedy>> {
    let framework = predictor.framework(work.mode)?;
    let zero_stages = &framework.zero_stages;
    let gpu = predictor.gpu();
    let fits = |work: &Workload| {
        let memory = memory_use(arch, work).ok()?;
        memory.fits(gpu).then_some(memory)
    };
    let node = node(gpu);
    let factors = std::iter::successors(Some(1), |factor| Some(factor * 2));
    let mut factors =
        factors.take_while(|factor| *factor == 1 || factor * work.gpus() <= MOST_REMEDY_GPUS);
    Ok(factors.find_map(|factor| {
        let runs = |spread: &Workload| framework.check_layout(spread).is_ok();
        let mut spread = spread(work, factor, node).into_iter().filter(runs);
        spread.find_map(|spread| {
            let mut near = near(arch, &spread, zero_stages, &|work| fits(work).is_some());
            near.find_map(|workload| fits(&workload).map(|memory| Remedy { workload, memory }))
        })
    }))
}

/// The workload over `factor` times as many GPUs: as many of them tensor-parallel ranks as the node has, then replicas,
/// then pipeline stages.
fn spread(work: &Workload, factor: u64, node: u64) -> Vec<Workload> {
    let powers =
        |most: u64| std::iter::successors(Some(1), |p| Some(p * 2)).take_while(move |p| *p <= most);
    let mut all: Vec<_> = powers(factor)
        .flat_map(|tp| powers(factor / tp).map(move |dp| [tp, dp, factor / (tp * dp)]))
        .filter(|[tp, dp, _]| (*tp == 1 || work.tp * tp <= node) && (*dp == 1 || work.trains()))
        .collect();
    all.sort_by_key(|[_, dp, pp]| (*pp, *dp));
    let spread = all.into_iter().map(|[tp, dp, pp]| Workload {
        tp: work.tp * tp,
        dp: work.dp * dp,
        pp: work.pp * pp,
        sequence_parallel: work.sequence_parallel || tp > 1 && work.trains(),
        // As many sequences over all replicas, where they divide.
        microbatches: match work.microbatches.is_multiple_of(dp) {
            true => work.microbatches / dp,
            false => work.microbatches,
        },
        ..*work
    });
    spread.collect()
}

/// Workloads over as many GPUs that take less memory, the fewest changes first; none where the last does not fit.
fn near<'a>(
    arch: &'a Architecture,
    work: &'a Workload,
    zero_stages: &[u8],
    fits: &dyn Fn(&Workload) -> bool,
) -> impl Iterator<Item = Workload> + use<'a> {
    let zero = if work.trains() && work.dp * work.cp > 1 {
        let higher = zero_stages
            .iter()
            .copied()
            .filter(|stage| *stage > work.zero);
        let legal = higher.filter(|stage| *stage < 2 || work.pp == 1);
        [work.zero].into_iter().chain(legal).collect()
    } else {
        vec![work.zero]
    };
    let batches: Vec<u64> = match work.trains() {
        true => {
            let halves = std::iter::successors(Some(work.batch), |batch| {
                batch.is_multiple_of(2).then_some(batch / 2)
            });
            halves.collect()
        }
        false => {
            let with = |batch| Workload { batch, ..*work };
            let largest = largest_that(work.batch, |batch| fits(&with(batch)));
            [work.batch].into_iter().chain(largest).collect()
        }
    };
    // What is recomputed today may be none of these, and less than the first of them.
    let at = RECOMPUTED.iter().position(|one| *one == work.recompute);
    let more = RECOMPUTED.into_iter().skip(at.unwrap_or(0) + 1);
    let more =
        more.filter(|one| work.trains() && (*one != Recompute::LatentUp || arch.mla.is_some()));
    let recomputed: Vec<Recompute> = [work.recompute].into_iter().chain(more).collect();
    let sizes = [zero.len(), batches.len(), recomputed.len()];
    let mut changes: Vec<[usize; 3]> = (0..sizes[0])
        .flat_map(|zero| (0..sizes[1]).map(move |batch| [zero, batch]))
        .flat_map(|[zero, batch]| (0..sizes[2]).map(move |recompute| [zero, batch, recompute]))
        .collect();
    let with = move |[z, b, r]: [usize; 3]| Workload {
        zero: zero[z],
        batch: batches[b],
        microbatches: match work.trains() {
            true => work.microbatches * (work.batch / batches[b]),
            false => work.microbatches,
        },
        recompute: recomputed[r],
        recompute_layers: if r > 0 { 0 } else { work.recompute_layers },
        ..*work
    };
    if !fits(&with(sizes.map(|size| size - 1))) {
        changes.clear();
    }
    // The order of equal numbers of changes: a ZeRO stage, then micro-batches, then recomputation.
    changes.sort_by_key(|places| {
        let changed = places.map(|place| place > 0);
        (
            changed.iter().filter(|changed| **changed).count(),
            changed.map(|changed| !changed),
            *places,
        )
    });
    changes.into_iter().map(with)
}

/// The largest of 1 to below `most` that `holds`, which every number below one that does does too.
fn largest_that(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match holds(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    (low > 0).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a remedy changes of a workload, in the order of its keys.
    fn changed(model: &str, gpu: &str, work: Workload) -> String {
        let predictor = Predictor::new(crate::gpu::Gpu::find(gpu).unwrap(), None).unwrap();
        let arch = Architecture::find(model).unwrap();
        assert!(
            !memory_use(&arch, &work).unwrap().fits(predictor.gpu()),
            "{work:?}"
        );
        let Some(remedy) = remedy(&predictor, &arch, &work).unwrap() else {
            return "none".to_owned();
        };
        assert!(remedy.memory.fits(predictor.gpu()));
        let keys = |work: &Workload| serde_json::to_value(work).unwrap();
        let (before, after) = (keys(&work), keys(&remedy.workload));
        let after = after.as_object().unwrap().iter();
        let changed = after.filter(|(key, value)| before[key] != **value);
        changed
            .map(|(key, value)| format!("{key} {value}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[test]
    fn the_nearest_workload_that_fits_is_found() {
        let train = |dp, batch| Workload {
            dp,
            ..Workload::train(batch, 2048)
        };
        for (model, gpu, work, wanted) in [
            ("llama-3-8b", "h100", train(8, 1), "zero 1"),
            (
                "gpt3-1.3b",
                "h100",
                train(1, 64),
                "batch 16, microbatches 4",
            ),
            (
                "llama-3-8b",
                "h100",
                train(1, 4),
                "batch 2, tp 2, sequence_parallel true, microbatches 2",
            ),
            ("llama-3-70b", "h200", Workload::decode(16, 4096), "batch 6"),
            (
                "deepseek-v3",
                "h100",
                Workload::decode(8, 2048),
                "tp 8, pp 4",
            ),
            (
                "deepseek-v3",
                "l4",
                Workload::train(1, 4096),
                "tp 8, dp 128, zero 3, recompute \"full\", sequence_parallel true",
            ),
            (
                "llama-3-8b",
                "h100",
                Workload {
                    recompute: Recompute::Selective,
                    zero: 1,
                    ..train(8, 16)
                },
                "batch 2, microbatches 8",
            ),
        ] {
            assert_eq!(changed(model, gpu, work), wanted, "{model}");
        }
    }
}
