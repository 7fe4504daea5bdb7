//! The nearest workload under which a step fits: as few further GPUs as possible, then as few changes.

use super::SERVING_MEMORY_SHARE;
use super::layouts::{RECOMPUTED, node};
use crate::arch::{
    Architecture, BaseDtype, Loss, MemoryUse, Mode, Offload, Optimizer, Recipe, Recompute, Workload, memory_use,
};
use crate::error::Result;
use crate::framework::Framework;
use crate::gpu::Gpu;
use crate::ops::Dtype;
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
/// In order, what changes no number first: on as many GPUs a loss that stores no logits, a higher ZeRO stage, smaller
/// micro-batches (when serving the largest batch that fits), recomputation, updates during the backward pass, frozen weights
/// in four bits, another format (when serving), 8-bit Adam and offloading, then two and more of them; then the same on two, four, eight times as many GPUs, as tensor-parallel ranks inside a node, replicas that shard,
/// and pipeline stages.
pub fn remedy(predictor: &Predictor, arch: &Architecture, work: &Workload) -> Result<Option<Remedy>> {
    let framework = predictor.framework(work.mode)?;
    let gpu = predictor.gpu();
    let fits = |work: &Workload| {
        let memory = memory_use(arch, work, &framework.practice).ok()?;
        memory.fits(gpu).then_some(memory)
    };
    let node = node(gpu);
    let factors = std::iter::successors(Some(1), |factor| Some(factor * 2));
    let mut factors = factors.take_while(|factor| *factor == 1 || factor * work.gpus() <= MOST_REMEDY_GPUS);
    Ok(factors.find_map(|factor| {
        let runs = |spread: &Workload| framework.check_layout(spread).is_ok();
        let mut spread = spread(work, factor, node).into_iter().filter(runs);
        spread.find_map(|spread| {
            let is_enough = |work: &Workload| fits(work).is_some();
            let kinds = kinds(gpu, arch, &spread, framework, &is_enough);
            let is_legal = |work: &Workload| work.validate(arch).is_ok() && runs(work);
            let mut near = near(spread, kinds, &is_legal, &is_enough);
            near.find_map(|workload| fits(&workload).map(|memory| Remedy { workload, memory }))
        })
    }))
}

/// The same requests with the longest context that fits the share of the memory that engines take, or prompts; none in
/// training, or where nothing shorter fits.
pub fn shorter(predictor: &Predictor, arch: &Architecture, work: &Workload) -> Result<Option<Remedy>> {
    let framework = predictor.framework(work.mode)?;
    let room = MemoryUse::room(predictor.gpu(), SERVING_MEMORY_SHARE, false);
    let with = |tokens: u64| {
        let workload = match work.mode {
            Mode::Train => return None,
            Mode::Prefill => Workload { seq: tokens, ..*work },
            Mode::Decode => Workload {
                context: tokens,
                ..*work
            },
        };
        let memory = memory_use(arch, &workload, &framework.practice).ok()?;
        (memory.total() <= room).then_some(Remedy { workload, memory })
    };
    let most = work.seq.max(work.context);
    Ok(largest_that(most, |tokens| with(tokens).is_some()).and_then(with))
}

/// The workload over `factor` times as many GPUs: as many of them tensor-parallel ranks as the node has, then replicas,
/// then pipeline stages.
fn spread(work: &Workload, factor: u64, node: u64) -> Vec<Workload> {
    let powers = |most: u64| std::iter::successors(Some(1), |p| Some(p * 2)).take_while(move |p| *p <= most);
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

/// A change of a workload that costs no GPU.
#[derive(Clone, Copy)]
enum Change {
    Loss(Loss),
    Zero(u8),
    Batch(u64),
    Recompute(Recompute),
    InBackward,
    Base(BaseDtype),
    Format(Dtype, Recipe),
    Optimizer(Optimizer),
    Offload(Offload),
}

impl Change {
    /// Makes the change.
    fn make(self, work: &mut Workload) {
        match self {
            Self::Loss(loss) => work.loss = loss,
            Self::Zero(stage) => work.zero = stage,
            Self::Batch(batch) => {
                if work.trains() {
                    work.microbatches *= work.batch / batch;
                }
                work.batch = batch;
            }
            Self::Recompute(recompute) => (work.recompute, work.recompute_layers) = (recompute, 0),
            Self::InBackward => work.optimizer_in_backward = true,
            Self::Base(dtype) => work.base_dtype = dtype,
            Self::Format(dtype, recipe) => (work.dtype, work.recipe) = (dtype, recipe),
            Self::Optimizer(optimizer) => work.optimizer = optimizer,
            Self::Offload(offload) => work.offload = offload,
        }
    }

    /// Whether it may exclude a change of another kind: updates during the backward pass exclude accumulation and an
    /// offloaded optimizer.
    const fn excludes_others(self) -> bool {
        matches!(self, Self::Batch(_) | Self::InBackward | Self::Offload(_))
    }
}

/// Changes by kind, each kind with the cheapest first.
type Kinds = [Vec<Change>; 9];

/// How many of the changes of each kind are passed to reach the one that is made; 0 makes none.
type Places = [usize; 9];

/// Losses that keep few logits, the fewest last.
pub(super) const SMALLER_LOSSES: [Loss; 2] = [Loss::Chunked, Loss::Fused];

/// The changes that `work` may take.
fn kinds(
    gpu: &Gpu,
    arch: &Architecture,
    work: &Workload,
    framework: &Framework,
    fits: &dyn Fn(&Workload) -> bool,
) -> Kinds {
    let (mut losses, mut stages, mut batches, mut recomputed) = (vec![], vec![], vec![], vec![]);
    let (mut in_backward, mut bases, mut formats) = (vec![], vec![], vec![]);
    let (mut optimizers, mut offloads) = (vec![], vec![]);
    let practice = &framework.practice;
    if work.trains() {
        if work.has_adapters() && work.base_dtype == BaseDtype::Auto {
            bases.push(Change::Base(BaseDtype::Nf4));
        }
        // A trainer that composes its loss of operations takes another one.
        let composed = |loss| matches!(loss, Loss::Eager | Loss::Compiled);
        let is_open = composed(practice.loss);
        if composed(practice.loss(work)) {
            let [.., fewest] = SMALLER_LOSSES;
            losses.push(Change::Loss(fewest));
        }
        if work.dp * work.cp > 1 {
            let higher = framework.zero_stages_with(work.pp).filter(|stage| *stage > work.zero);
            stages.extend(higher.map(Change::Zero));
        }
        let halves = std::iter::successors(Some(work.batch), |batch| batch.is_multiple_of(2).then_some(batch / 2));
        batches.extend(halves.skip(1).map(Change::Batch));
        // What is recomputed today may be none of these, and less than the first of them.
        let at = RECOMPUTED.iter().position(|one| *one == work.recompute);
        let more = RECOMPUTED.into_iter().skip(at.unwrap_or(0) + 1);
        let more = more.filter(|one| *one != Recompute::LatentUp || arch.mla.is_some());
        recomputed.extend(more.map(Change::Recompute));
        if is_open && (work.optimizer, work.optimizer_states) == <(_, _)>::default() {
            optimizers.push(Change::Optimizer(Optimizer::AdamW8bit));
        }
        if is_open && !work.optimizer_in_backward {
            in_backward.push(Change::InBackward);
        }
        if work.offload == Offload::None && gpu.host_bandwidth().is_some() {
            let more = [Offload::Optimizer, Offload::Activations, Offload::All];
            offloads.extend(more.map(Change::Offload));
        }
    } else {
        let is_wide = work.recipe == Recipe::Tensorwise && work.dtype.size() == 2;
        if is_wide && arch.stated.stored().is_none() {
            let fp8 = Change::Format(Dtype::Fp8, Recipe::Tensorwise);
            formats.extend(gpu.peak(Dtype::Fp8).map(|_| fp8));
            formats.push(Change::Format(work.dtype, Recipe::W4a16));
        }
        let largest = largest_that(work.batch, |batch| fits(&Workload { batch, ..*work }));
        batches.extend(largest.map(Change::Batch));
    }
    [
        losses,
        stages,
        batches,
        recomputed,
        in_backward,
        bases,
        formats,
        optimizers,
        offloads,
    ]
}

/// The workload with the changes at these places.
fn changed(work: &Workload, kinds: &Kinds, places: Places) -> Workload {
    let mut changed = *work;
    for (kind, place) in kinds.iter().zip(places) {
        if place > 0 {
            kind[place - 1].make(&mut changed);
        }
    }
    changed
}

/// Workloads over as many GPUs that take less memory, the fewest changes first, of as many the cheapest; this one alone where
/// all changes do not make it fit.
fn near(
    work: Workload,
    kinds: Kinds,
    is_legal: &dyn Fn(&Workload) -> bool,
    fits: &dyn Fn(&Workload) -> bool,
) -> impl Iterator<Item = Workload> + use<> {
    // A change that is illegal alone is illegal with others.
    let is_legal = |at: usize, place: usize| {
        let mut places = Places::default();
        places[at] = place;
        place == 0 || is_legal(&changed(&work, &kinds, places))
    };
    let legal = |at: usize| (0..=kinds[at].len()).filter(|place| is_legal(at, *place)).collect();
    let mut legal: [Vec<usize>; 9] = std::array::from_fn(legal);
    // Nothing fits where no choice among changes that exclude each other does with all else changed.
    let mut least = legal.clone();
    for (places, kind) in least.iter_mut().zip(&kinds) {
        if !kind.iter().any(|change| change.excludes_others()) {
            places.drain(..places.len() - 1);
        }
    }
    if !product(&least)
        .iter()
        .any(|places| fits(&changed(&work, &kinds, *places)))
    {
        legal.iter_mut().for_each(|places| places.truncate(1));
    }
    let mut choices = product(&legal);
    choices.sort_by_key(|places| {
        let changed = places.map(|place| place > 0);
        (
            changed.iter().filter(|changed| **changed).count(),
            changed.map(|changed| !changed),
            *places,
        )
    });
    choices.into_iter().map(move |places| changed(&work, &kinds, places))
}

/// Every choice of one place a kind.
fn product(kinds: &[Vec<usize>; 9]) -> Vec<Places> {
    let mut all = vec![Places::default()];
    for (at, kind) in kinds.iter().enumerate() {
        let chosen = all.iter().flat_map(|places| {
            kind.iter().map(move |place| {
                let mut places = *places;
                places[at] = *place;
                places
            })
        });
        all = chosen.collect();
    }
    all
}

/// The largest of 1 to below `most` that `holds`, which every number below one that does does too.
pub(super) fn largest_that(most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
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
    use crate::arch::Dimension;
    use crate::plan::{Limits, Query, serve};

    /// What a remedy changes of a workload, in the order of its keys.
    fn changed(model: &str, gpu: &str, work: Workload) -> String {
        let predictor = Predictor::new(crate::gpu::Gpu::find(gpu).unwrap(), None).unwrap();
        let arch = Architecture::find(model).unwrap();
        assert!(
            !predictor.memory_use(&arch, &work).unwrap().fits(predictor.gpu()),
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

    /// The largest caches that vLLM has logged for Llama-3-8B at its usual share: pull request 10511 (H100) and issue 10517
    /// (RTX 3090). What it keeps for activations and graphs is not counted here.
    #[test]
    fn caches_are_little_larger_than_vllm_logs_them() {
        for (gpu, gib) in [("h100", 53.29), ("rtx3090", 5.8)] {
            let predictor = Predictor::new(crate::gpu::Gpu::find(gpu).unwrap(), None).unwrap();
            let arch = Architecture::find("llama-3-8b").unwrap();
            let asked = Workload::decode(1, 1 << 20);
            let cached = shorter(&predictor, &arch, &asked).unwrap().unwrap().workload.context;
            let cached = (cached * 131_072) as f64 / f64::from(1 << 30);
            assert!((1.0..1.09).contains(&(cached / gib)), "{gpu}: {cached}");
        }
    }

    #[test]
    fn the_longest_context_that_fits_is_found() {
        let predictor = Predictor::new(crate::gpu::Gpu::find("rtx4090").unwrap(), None).unwrap();
        let arch = Architecture::find("llama-3-8b").unwrap();
        let asked = Workload::decode(1, 131_072);
        let fits = |context| {
            let workload = Workload { context, ..asked };
            let memory = predictor.memory_use(&arch, &workload).unwrap();
            memory.total() <= MemoryUse::room(predictor.gpu(), SERVING_MEMORY_SHARE, false)
        };
        let longest = shorter(&predictor, &arch, &asked).unwrap().unwrap().workload.context;
        assert!(fits(longest) && !fits(longest + 1), "{longest}");
        // As many tokens as a plan says.
        let query = Query {
            kept: vec![(Dimension::Batch, 1)],
            memory_share: SERVING_MEMORY_SHARE,
            ..Query::training(1, 1, &asked)
        };
        let query = Query {
            workload: asked,
            ..query
        };
        let limits = Limits {
            prompt: 100_000,
            cached: 0,
            output: 0,
            concurrency: None,
            first_token: None,
            token: None,
            confidence: Limits::USUAL_CONFIDENCE,
        };
        let refused = serve(&predictor, &arch, &query, &limits).unwrap_err().to_string();
        assert!(refused.contains(&format!("1 of {longest} tokens fit")), "{refused}");
        assert!(
            shorter(&predictor, &arch, &Workload::train(64, 8192))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn the_nearest_workload_that_fits_is_found() {
        let train = |dp, batch| Workload {
            dp,
            ..Workload::train(batch, 2048)
        };
        let (mut found, mut all) = (Vec::new(), Vec::new());
        for (model, gpu, work, wanted) in [
            ("llama-3-8b", "h100", train(8, 1), "zero 1"),
            ("gpt3-1.3b", "h100", train(1, 64), "batch 8, microbatches 8"),
            (
                "llama-3-8b",
                "rtx-4500-ada",
                Workload {
                    lora: 16,
                    recompute: Recompute::Full,
                    ..Workload::train(2, 2048)
                },
                "batch 1, microbatches 2",
            ),
            (
                "llama-3-8b",
                "rtx-4500-ada",
                Workload {
                    recompute: Recompute::Full,
                    optimizer: Optimizer::PagedAdamW8bit,
                    optimizer_in_backward: true,
                    ..Workload::train(2, 2048)
                },
                "offload \"activations\"",
            ),
            ("llama-3-8b", "h100", Workload::decode(512, 4096), "batch 126"),
            ("llama-3-70b", "h100", Workload::decode(8, 4096), "dtype \"fp8\""),
            // Before a second GPU: what the update reads goes to the host.
            ("llama-3-8b", "h100", train(1, 4), "offload \"optimizer\""),
            ("llama-3-70b", "h200", Workload::decode(16, 4096), "batch 6"),
            ("deepseek-v3", "h100", Workload::decode(8, 2048), "tp 8, pp 4"),
            (
                "deepseek-v3",
                "l4",
                Workload::train(1, 4096),
                "tp 8, pp 16, sequence_parallel true, offload \"optimizer\"",
            ),
            (
                "llama-3-8b",
                "h100",
                Workload {
                    recompute: Recompute::Selective,
                    zero: 1,
                    ..train(8, 16)
                },
                "batch 1, microbatches 16",
            ),
        ] {
            found.push([model.to_owned(), changed(model, gpu, work)]);
            all.push([model, wanted]);
        }
        assert_eq!(found, all);
    }
}
