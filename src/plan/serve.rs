//! How many GPUs an engine takes and how many requests it serves at once, for the most tokens within limits of latency.

use super::layouts::{MOST_EP, divisors};
use super::{MOST_GPUS, Query};
use crate::arch::{Architecture, Dimension, MemoryUse, Mode, Workload, memory_use};
use crate::error::{Error, Result};
use crate::framework::Kind;
use crate::predict::Predictor;
use crate::predict::step::{Load, Timed};
use crate::units::{Bytes, Seconds};
use rayon::prelude::*;

/// The most requests in flight on one engine.
const MOST_CONCURRENT: u64 = 1 << 10;

/// What requests look like and how long they may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens that a request generates; 0 where engines do nothing but prompts.
    pub output: u64,
    /// The longest time to the first token.
    pub first_token: Option<Seconds>,
    /// The longest time per further token.
    pub token: Option<Seconds>,
}

/// An engine, and what all engines together give.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The step of the engine: a decode step of all requests in flight, or one prompt pass.
    pub workload: Workload,
    /// Time to the first token of a request beside the others.
    pub first_token: Seconds,
    /// Time per further token; none where engines do nothing but prompts.
    pub token: Option<Seconds>,
    /// Half widths of the 90 % intervals of `ln` of both times; none where the framework has none.
    pub half_widths: [Option<f64>; 2],
    /// Tokens a second of all engines: generated ones, or those of prompts.
    pub tokens_per_s: f64,
    /// Memory of the fullest GPU with every cache full.
    pub memory: Bytes,
}

/// Engines that keep the limits, the most tokens a second first.
#[derive(Clone, Debug)]
pub struct Engines {
    /// At least one.
    pub engines: Vec<Engine>,
    /// Engines that fit, whether or not they keep the limits.
    pub fitting: usize,
    /// The share of a GPU's memory that they take at most.
    pub memory_share: f64,
}

/// The engines of a query with the most tokens a second within the limits.
pub fn serve(
    predictor: &Predictor,
    arch: &Architecture,
    query: &Query,
    limits: &Limits,
) -> Result<Engines> {
    if !(1..=MOST_GPUS).contains(&query.gpus) {
        let allowed = format!("1 to {MOST_GPUS}");
        return Err(Error::field("plan", "gpus", query.gpus, &allowed));
    }
    let gpu = predictor.gpu();
    let room = MemoryUse::room(gpu, query.memory_share);
    let possible = engines(arch, query, limits, gpu.gpus_per_node().unwrap_or(1));
    let fitting: Vec<(Workload, Bytes)> = possible
        .into_iter()
        .filter_map(|work| {
            let full = Workload {
                context: match work.mode {
                    Mode::Decode => limits.prompt + limits.output,
                    Mode::Train | Mode::Prefill => 0,
                },
                ..work
            };
            let memory = memory_use(arch, &full).ok()?.total();
            (memory <= room).then_some((work, memory))
        })
        .collect();
    if fitting.is_empty() {
        return Err(Error::infeasible(format!(
            "no engine of {} fits {} x {} with {:.0} % of its memory; more GPUs, a smaller format or a shorter prompt would",
            arch.name,
            query.gpus,
            gpu.title,
            100.0 * query.memory_share
        )));
    }
    let timed = fitting
        .par_iter()
        .map(|(work, memory)| timed(predictor, arch, limits, work, *memory));
    let timed = timed.collect::<Result<Vec<_>>>()?;
    let fitting = timed.len();
    let within = |time: Option<Seconds>, limit: Option<Seconds>| {
        limit.is_none_or(|limit| time.is_none_or(|time| time <= limit))
    };
    let quickest = |time: &dyn Fn(&Engine) -> Option<Seconds>| {
        timed
            .iter()
            .filter_map(time)
            .min_by(|a, b| a.secs().total_cmp(&b.secs()))
    };
    let best = [
        quickest(&|engine| Some(engine.first_token)),
        quickest(&|engine| engine.token),
    ];
    let mut engines: Vec<Engine> = timed
        .into_iter()
        .filter(|engine| {
            within(Some(engine.first_token), limits.first_token)
                && within(engine.token, limits.token)
        })
        .collect();
    if engines.is_empty() {
        let [first, token] = best.map(|time| time.map_or(0.0, Seconds::millis));
        return Err(Error::infeasible(format!(
            "no engine of {} keeps these limits on {} x {}: the least time to the first token is {first:.0} ms, the least \
             per further token {token:.1} ms",
            arch.name, query.gpus, gpu.title
        )));
    }
    engines.sort_by(|a, b| {
        let ranks = |engine: &Engine| (engine.workload.tp, engine.workload.pp, engine.workload.ep);
        b.tokens_per_s
            .total_cmp(&a.tokens_per_s)
            .then_with(|| ranks(a).cmp(&ranks(b)))
    });
    engines.truncate(query.top.max(1));
    Ok(Engines {
        engines,
        fitting,
        memory_share: query.memory_share,
    })
}

/// Ranks of an engine, copies of it, and requests in flight.
fn engines(arch: &Architecture, query: &Query, limits: &Limits, node: u64) -> Vec<Workload> {
    let mut all = Vec::new();
    let decodes = query.workload.mode == Mode::Decode;
    for tp in divisors(query.gpus).filter(|&tp| tp <= node && query.keeps(Dimension::Tp, tp)) {
        for pp in divisors(query.gpus / tp)
            .filter(|&pp| pp <= arch.layers && query.keeps(Dimension::Pp, pp))
        {
            let dp = query.gpus / (tp * pp);
            let experts = arch.moe.map_or(1, |moe| moe.experts);
            let spread = divisors(experts).filter(|&ep| {
                ep <= MOST_EP && (tp * dp).is_multiple_of(ep) && query.keeps(Dimension::Ep, ep)
            });
            for ep in spread {
                for batch in (0..)
                    .map(|power| 1 << power)
                    .take_while(|&batch| batch <= MOST_CONCURRENT)
                {
                    let work = Workload {
                        tp,
                        pp,
                        dp,
                        ep,
                        expert_tp: u64::from(ep > 1),
                        batch,
                        seq: if decodes { 1 } else { limits.prompt },
                        context: if decodes {
                            limits.prompt + limits.output / 2
                        } else {
                            0
                        },
                        // The requests in flight are spread over the stages of the pipeline.
                        microbatches: 1,
                        ..query.workload
                    };
                    if query.keeps(Dimension::Batch, batch) && work.validate(arch).is_ok() {
                        all.push(work);
                    }
                }
            }
        }
    }
    all
}

fn timed(
    predictor: &Predictor,
    arch: &Architecture,
    limits: &Limits,
    work: &Workload,
    memory: Bytes,
) -> Result<Engine> {
    let framework = predictor.framework(work.mode)?;
    let width = |kind| framework.half_width(kind);
    let decodes = work.mode == Mode::Decode;
    if !decodes {
        let time = Timed::step(predictor, arch, work)?.time(framework);
        let tokens = (work.tokens() * work.dp) as f64;
        return Ok(Engine {
            workload: *work,
            first_token: time,
            token: None,
            half_widths: [width(Kind::Prefill), None],
            tokens_per_s: tokens / time.secs(),
            memory,
        });
    }
    let load = Load {
        concurrency: work.batch,
        prompt: limits.prompt,
        output: limits.output,
    };
    let of = |work: &Workload| {
        Timed::served(predictor, arch, work, load).map(|timed| timed.time(framework))
    };
    let token = of(work)?;
    let prompt = Workload {
        mode: Mode::Prefill,
        batch: 1,
        seq: limits.prompt,
        context: 0,
        ..*work
    };
    let first_token = of(&prompt)?;
    // A request holds its place for its first token and all further ones.
    let held = first_token + token * limits.output as f64;
    let in_flight = (work.batch * work.dp) as f64;
    Ok(Engine {
        workload: *work,
        first_token,
        token: Some(token),
        half_widths: [width(Kind::FirstToken), width(Kind::of(arch, work))],
        tokens_per_s: in_flight * limits.output as f64 / held.secs(),
        memory,
    })
}
