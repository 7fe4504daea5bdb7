//! The layout of a step over a number of GPUs: every legal one that fits, ranked by throughput.
//!
//! [`train`] tries tensor, context, expert, pipeline and data parallelism, virtual stages, ZeRO stages, micro-batches and
//! recomputation, and predicts each layout that fits with the step model. Which of two layouts is faster is known less
//! surely than either time is shared: [`Order`] says how far apart two must be, by pairs of measured layouts.

mod layouts;

mod order;

mod remedy;

mod serve;

pub(crate) use layouts::interleaves;
pub use order::{Order, SERVING_MEMORY_SHARE, memory_share};
pub use remedy::{MOST_REMEDY_GPUS, Remedy, remedy, shorter};
pub use serve::{Engine, Engines, Limits, serve, split};

use crate::arch::{Architecture, Dimension, Loss, MemoryUse, Offload, Recompute, Workload, memory_use};
use crate::error::{Error, Result};
use crate::framework::Kind;
use crate::gpu::Gpu;
use crate::predict::Predictor;
use crate::predict::memo::Memo;
use crate::predict::step::{StepEstimate, estimate_step};
use crate::units::{Bytes, Seconds};
use rayon::prelude::*;

/// Only where nothing fits; optimizer states first, since they cross to the host once a step.
pub const OFFLOAD_LAST: [Offload; 3] = [Offload::None, Offload::Optimizer, Offload::All];

/// What a query may keep in host memory on this GPU, whose link to the host must be known for that.
fn offloads(gpu: &Gpu, query: &Query) -> impl Iterator<Item = Offload> {
    let linked = gpu.host_bandwidth().is_some();
    let offloads = query.offloads.iter().copied();
    offloads.filter(move |&offload| linked || offload == Offload::None)
}

/// The most GPUs that are planned for.
pub const MOST_GPUS: u64 = 1 << 17;

/// What a plan is asked for.
#[derive(Clone, Debug)]
pub struct Query {
    /// All GPUs.
    pub gpus: u64,
    /// Sequences of a step, over all replicas.
    pub global_batch: u64,
    /// Mode, sequence length, number format and attention; its ranks are planned.
    pub workload: Workload,
    /// Sizes that layouts must have.
    pub kept: Vec<(Dimension, u64)>,
    /// The ZeRO stage that layouts must have.
    pub zero: Option<u8>,
    /// What layouts must recompute.
    pub recompute: Option<Recompute>,
    /// What may be kept in host memory: the first is taken under which any layout fits.
    pub offloads: Vec<Offload>,
    /// The share of a GPU's memory that a layout takes at most; where none does, all but what is kept free.
    pub memory_share: f64,
    /// Layouts to return.
    pub top: usize,
}

impl Query {
    /// Training steps as long and in the format of this one; everything else is planned, and the best is returned.
    pub fn training(gpus: u64, global_batch: u64, like: &Workload) -> Self {
        Self {
            gpus,
            global_batch,
            workload: Workload {
                dtype: like.dtype,
                recipe: like.recipe,
                attention: like.attention,
                optimizer_states: like.optimizer_states,
                optimizer: like.optimizer,
                gradient_dtype: like.gradient_dtype,
                loss: like.loss,
                autocast: like.autocast,
                lora: like.lora,
                lora_targets: like.lora_targets,
                base_dtype: like.base_dtype,
                ..Workload::train(1, like.seq)
            },
            kept: Vec::new(),
            zero: None,
            recompute: None,
            offloads: vec![Offload::None],
            memory_share: memory_share(),
            top: 1,
        }
    }

    fn kept(&self, dimension: Dimension) -> Option<u64> {
        let mut kept = self.kept.iter();
        kept.find(|(of, _)| *of == dimension).map(|(_, value)| *value)
    }

    pub(crate) fn keeps(&self, dimension: Dimension, value: u64) -> bool {
        self.kept(dimension).is_none_or(|kept| kept == value)
    }

    /// Whether a layer may be split over so many GPUs: those of a node, or as many as are asked for.
    fn spreads(&self, tp: u64, node: u64) -> bool {
        self.kept(Dimension::Tp).map_or(tp <= node, |kept| kept == tp)
    }
}

/// A layout with its predicted step.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The layout.
    pub workload: Workload,
    /// Its step.
    pub step: StepEstimate,
    /// Whether it is tied with the best: measured layouts this close were too often in the other order.
    pub tied: bool,
}

/// A layout that fits: its time and the memory of the fullest GPU.
#[derive(Clone, Copy, Debug)]
pub struct Tried {
    /// The layout.
    pub workload: Workload,
    /// Wall time of a step.
    pub time: Seconds,
    /// Memory of the fullest GPU.
    pub memory: Bytes,
}

/// Every layout that fits.
#[derive(Clone, Debug)]
pub struct AllTried {
    /// With each kind of recomputation under which it fits, fastest first; at least one.
    pub layouts: Vec<Tried>,
    /// Legal layouts, those that do not fit included.
    pub legal: usize,
    /// Legal layouts that fit, each counted once however much is recomputed.
    pub fitting: usize,
    /// The share of a GPU's memory that they take at most.
    pub memory_share: f64,
}

/// The layouts of a step over a number of GPUs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The best layouts, fastest first; at least one.
    pub layouts: Vec<Layout>,
    /// Every layout that fits.
    pub tried: AllTried,
    /// Least difference of two layouts that are not tied; `None` if no pairs were measured.
    pub order: Option<&'static Order>,
}

/// The fastest layouts of a training step.
pub fn train(predictor: &Predictor, arch: &Architecture, query: &Query) -> Result<Plan> {
    let tried = tried(predictor, arch, query)?;
    let order = Order::of(Kind::of(arch, &query.workload));
    let best = tried.layouts[0].time;
    let layouts = tried.layouts.iter().take(query.top.max(1)).map(|layout| {
        let apart = (layout.time / best).ln();
        Ok(Layout {
            workload: layout.workload,
            step: estimate_step(predictor, arch, &layout.workload)?,
            tied: order.is_some_and(|order| apart <= order.tie),
        })
    });
    Ok(Plan {
        layouts: layouts.collect::<Result<_>>()?,
        order,
        tried,
    })
}

/// Every layout that fits; fails where none does.
pub fn tried(predictor: &Predictor, arch: &Architecture, query: &Query) -> Result<AllTried> {
    let gpu = predictor.gpu();
    check(arch, query)?;
    let framework = predictor.framework(query.workload.mode)?;
    framework.check_ranks("plan", &query.kept)?;
    let legal = layouts::layouts(arch, gpu, query, framework);
    let memory = |work: &Workload| memory_use(arch, work, &framework.practice).map_or(MOST, |memory| memory.total());
    let fitting = |share: f64, offload: Offload| -> (usize, Vec<Workload>) {
        let room = MemoryUse::room(gpu, share, true);
        let fits = |work: &Workload| memory(work) <= room;
        let layouts = legal.par_iter();
        let layouts = layouts.map(|work| Workload { offload, ..*work });
        let fitting = layouts
            .map(|work| layouts::recomputing(arch, query, &work, fits))
            .filter(|with_recomputation| !with_recomputation.is_empty());
        let fitting: Vec<Vec<Workload>> = fitting.collect();
        (fitting.len(), fitting.concat())
    };
    let attempts = offloads(gpu, query).flat_map(|offload| [query.memory_share, 1.0].map(|share| (share, offload)));
    let mut filled = attempts.map(|(share, offload)| (share, fitting(share, offload)));
    let Some((memory_share, (fit, fitting))) = filled.find(|(_, (fit, _))| *fit > 0) else {
        return Err(refusal(predictor, arch, query, &legal));
    };
    let cost = |memo: &mut Memo<'_>, work: &Workload| -> Result<Tried> {
        Ok(Tried {
            workload: *work,
            time: memo.cost(arch, work)?.time,
            memory: memory(work),
        })
    };
    // Neighbours share their operators, and a memo belongs to one thread.
    let blocks = fitting.par_chunks(fitting.len().div_ceil(rayon::current_num_threads()));
    let costs = blocks.flat_map_iter(|layouts| {
        let mut memo = Memo::new(predictor);
        layouts.iter().map(move |work| cost(&mut memo, work))
    });
    let mut layouts = costs.collect::<Result<Vec<_>>>()?;
    // Of equal times the one with fewer ranks: the order does not depend on threads.
    layouts.sort_by_cached_key(|tried| {
        let work = &tried.workload;
        let ranks = [work.pp, work.tp, work.cp, work.ep, work.vp, work.batch];
        (tried.time.secs().to_bits(), ranks, work.zero)
    });
    Ok(AllTried {
        layouts,
        legal: legal.len(),
        fitting: fit,
        memory_share,
    })
}

/// Default number of tokens of a training step: those of Llama 2 (arXiv 2307.09288, section 2.2).
const USUAL_BATCH_TOKENS: u64 = 4 << 20;

/// Sequences of a training step over all GPUs: those of so many tokens, else of 4M, rounded to as many on each GPU.
///
/// Tokens that are no such number are rounded by at most a sixteenth.
pub fn sequences(tokens: Option<f64>, seq: u64, gpus: u64) -> Result<u64> {
    let Some(tokens) = tokens else {
        let each = USUAL_BATCH_TOKENS as f64 / (seq * gpus) as f64;
        return Ok(gpus * each.round().max(1.0) as u64);
    };
    let sequences = tokens / seq as f64;
    // Replicas divide multiples of 8 or of the GPUs.
    let is_shared = |count: f64| count.fract() == 0.0 && (count % 8.0 == 0.0 || count % gpus as f64 == 0.0);
    let near = [
        sequences,
        binary(tokens) / seq as f64,
        (sequences / 8.0).round() * 8.0,
        sequences.round(),
    ];
    let is_near = |count: f64| count >= 1.0 && (count / sequences - 1.0).abs() <= 1.0 / 16.0;
    let shared = near.into_iter().find(|&count| is_shared(count) && is_near(count));
    // What is no round number is meant as it is.
    let exact = (sequences.fract() == 0.0 && tokens % 1e3 != 0.0).then_some(sequences);
    let chosen = exact
        .or(shared)
        .or_else(|| near.into_iter().find(|&count| count.fract() == 0.0 && is_near(count)));
    chosen.map(|count| count as u64).ok_or_else(|| {
        let least = sequences.floor().max(1.0) * seq as f64;
        let sequences_meant = match tokens < seq as f64 {
            true => format!("; {tokens} sequences of {seq} are {}", tokens * seq as f64),
            false => String::new(),
        };
        let allowed = format!(
            "a number of tokens near {least} or {}{sequences_meant}",
            least + seq as f64
        );
        Error::field("plan", "global_batch", tokens, &allowed)
    })
}

/// What a round number of tokens is to those who mean 4,194,304 by 4M; 4,000,000 to others.
fn binary(tokens: f64) -> f64 {
    match () {
        () if tokens % 1e6 == 0.0 => tokens * 1.048_576,
        () if tokens % 1e3 == 0.0 => tokens * 1.024,
        () => tokens,
    }
}

/// Whether so many tokens are those that were asked for, and not the nearest that whole sequences hold.
pub fn is_asked(asked: f64, tokens: f64) -> bool {
    tokens == asked || tokens == binary(asked)
}

/// More than any GPU has.
const MOST: Bytes = Bytes::from_bytes(f64::INFINITY);

fn check(arch: &Architecture, query: &Query) -> Result<()> {
    let refuse = |field, value, allowed: &str| Err(Error::field("plan", field, value, allowed));
    if !(1..=MOST_GPUS).contains(&query.gpus) {
        return refuse("gpus", query.gpus, &format!("1 to {MOST_GPUS}"));
    }
    if query.global_batch == 0 {
        return refuse("global_batch", 0, "at least 1 sequence");
    }
    // A single rank says whether model and sequence are possible at all.
    let alone = Workload {
        batch: 1,
        ..query.workload
    };
    arch.validate()?;
    alone.validate(arch)?;
    // So does each degree that is given.
    let degrees = |wanted: &'static [Dimension]| query.kept.iter().filter(|(dimension, _)| wanted.contains(dimension));
    for &(dimension, size) in degrees(&[Dimension::Tp, Dimension::Cp, Dimension::Pp, Dimension::Ep]) {
        let dp = if dimension == Dimension::Ep { size } else { 1 };
        let mut work = Workload { dp, ..alone };
        dimension.set(&mut arch.clone(), &mut work, size)?;
        work.validate(arch)?;
    }
    let split: u64 = degrees(&[Dimension::Tp, Dimension::Cp, Dimension::Pp])
        .map(|(_, size)| size)
        .product();
    if !query.gpus.is_multiple_of(split) {
        return refuse("gpus", query.gpus, &format!("a multiple of tp x cp x pp = {split}"));
    }
    Ok(())
}

/// How far from a number of GPUs or sequences a refusal looks for one that would do.
const NEAR: u64 = 1024;

/// Why no layout is left: none is legal, or the one with the least memory still has too much.
fn refusal(predictor: &Predictor, arch: &Architecture, query: &Query, legal: &[Workload]) -> Error {
    let gpu = predictor.gpu();
    let Query { gpus, global_batch, .. } = query;
    let recompute = query.recompute.unwrap_or(Recompute::Full);
    let offload = offloads(gpu, query).last().unwrap_or_default();
    let least = |loss| {
        let taken = legal.iter().filter_map(|work| {
            let work = Workload {
                recompute,
                offload,
                loss,
                ..*work
            };
            let memory = predictor.memory_use(arch, &work).ok()?;
            Some((memory.total(), work))
        });
        taken.min_by(|a, b| a.0.bytes().total_cmp(&b.0.bytes()))
    };
    Error::infeasible(match least(query.workload.loss) {
        None => {
            let divides = |gpus, batch| layouts::divides(predictor, arch, query, gpus, batch);
            // The nearest first.
            let near = |count: u64| {
                (1..=NEAR).flat_map(move |apart| [count.saturating_sub(apart).max(1), (count + apart).min(MOST_GPUS)])
            };
            // As many sequences on each GPU leave any layout open; those within a tenth come first.
            let tenth = near(*global_batch).take(*global_batch as usize / 5);
            let even = tenth.filter(|batch| batch.is_multiple_of(*gpus));
            let batch = even.chain(near(*global_batch)).find(|&batch| divides(*gpus, batch));
            let batch = batch.map(|batch| {
                let tokens = batch * query.workload.seq;
                format!("a `global_batch` of {batch} sequences ({tokens} tokens)")
            });
            let others = near(*gpus).find(|&gpus| divides(gpus, *global_batch));
            let ways: Vec<String> = [batch, others.map(|gpus| format!("{gpus} GPUs"))]
                .into_iter()
                .flatten()
                .collect();
            let would = match ways.is_empty() {
                true => String::new(),
                false => format!("; {} would", ways.join(" or ")),
            };
            format!(
                "no layout of {} over {gpus} GPUs is legal: a step of {global_batch} sequences must divide by the \
                 replicas, and tp, cp, ep and pp by heads, sequence, experts and layers{would}",
                arch.name
            )
        }
        Some((memory, work)) => {
            let room = MemoryUse::room(gpu, 1.0, true);
            let fits = |loss: &Loss| least(*loss).is_some_and(|(memory, _)| memory <= room);
            let losses: Vec<&str> = remedy::SMALLER_LOSSES
                .iter()
                .filter(|loss| fits(loss))
                .map(|loss| loss.name())
                .collect();
            let losses = match losses.is_empty() {
                true => String::new(),
                false => format!("`loss` {}, ", losses.join(" or ")),
            };
            format!(
                "no layout of {} fits {gpus} x {}: the least takes {memory} of {}, of which {} stay free ({work}); \
                 {losses}more GPUs, a smaller format or shorter sequences would",
                arch.name,
                gpu.title,
                gpu.memory(),
                MemoryUse::kept_free(gpu),
            )
        }
    })
}

#[cfg(test)]
mod tests;
