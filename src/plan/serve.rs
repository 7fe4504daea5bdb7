//! How many GPUs an engine takes and how many requests it serves at once, for the most tokens within limits of latency.

use super::layouts::{MOST_EP, divisors, node};
use super::remedy::largest_that;
use super::{MOST_GPUS, Order, Query};
use crate::arch::{Architecture, Dimension, MemoryUse, Mode, Practice, Workload, memory_use};
use crate::error::{Error, Result};
use crate::framework::{Constant, Framework, Kind, Subject};
use crate::predict::Predictor;
use crate::predict::memo::{Cost, Memo};
use crate::predict::step::{Load, half_width};
use crate::stats::{NORMAL_90, normal_cdf, quadrature};
use crate::units::{Bytes, Seconds};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// The most requests in flight on one engine that are tried where no number is asked for.
const MOST_CONCURRENT: u64 = 1 << 10;

/// Requests in flight are tried in doublings; above the largest that keeps the limits in steps of this share of it.
const FINEST: u64 = 16;

/// What requests look like and how long they may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Those of them whose keys and values are cached from earlier requests; fewer than all.
    pub cached: u64,
    /// Tokens that a request generates; 0 where engines do nothing but prompts.
    pub output: u64,
    /// Requests sent to all engines together, of which those wait that engines have no place for; `None` if engines get as many
    /// as they run at once.
    pub concurrency: Option<u64>,
    /// The longest time to the first token.
    pub first_token: Option<Seconds>,
    /// The longest time per further token.
    pub token: Option<Seconds>,
    /// The least probability with which each time keeps its limit.
    pub confidence: f64,
}

impl Limits {
    /// The probability that is asked for where none is named: the expected time keeps the limit.
    pub const USUAL_CONFIDENCE: f64 = 0.5;

    /// Requests sent to one of so many engines, the fullest one where they do not divide.
    fn each(&self, engines: u64) -> Option<u64> {
        self.concurrency.map(|all| all.div_ceil(engines))
    }

    /// The pass over what is not cached of so many prompts.
    fn prompts(&self, work: &Workload, batch: u64) -> Workload {
        Workload {
            context: self.cached,
            ..work.prompts(batch, (self.prompt - self.cached).max(1))
        }
    }

    /// Tokens of a sequence whose cache is full.
    fn longest(&self) -> u64 {
        self.prompt + self.output
    }
}

/// An engine, and what all engines together give.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The step of the engine: a decode step of all requests in flight, or one prompt pass.
    pub workload: Workload,
    /// Requests that run at once on one of them.
    pub requests: u64,
    /// Requests of all engines together that wait for a place; 0 where as many are sent as run.
    pub waiting: u64,
    /// Time to the first token of a request beside the others, the wait for a place included.
    pub first_token: Seconds,
    /// Time per further token; `None` if engines do nothing but prompts.
    pub token: Option<Seconds>,
    /// The ends of the 90 % intervals of both times; `None` if the framework has none.
    pub ends: [Option<[Seconds; 2]>; 2],
    /// The probabilities that both times keep their limits; `None` if there is no limit.
    pub kept: [Option<f64>; 2],
    /// Tokens a second of all engines: generated ones, or those of prompts.
    pub tokens_per_s: f64,
    /// The ends of its 90 % interval; `None` if the framework has none.
    pub tokens_per_s_ends: Option<[f64; 2]>,
    /// Whether it is the best of its split and tied with the fastest: measured engines this close were too often in the other
    /// order.
    pub tied: bool,
    /// Memory of the fullest GPU with every cache full.
    pub memory: Bytes,
}

impl Engine {
    /// The probability of the limit that is the less likely kept.
    fn likelihood(&self) -> f64 {
        self.kept.into_iter().flatten().fold(1.0, f64::min)
    }

    fn ranks(&self) -> [u64; 3] {
        [self.workload.tp, self.workload.pp, self.workload.ep]
    }
}

/// Engines that keep the limits, the most tokens a second first; of those that are tied with the fastest, the fewest GPUs an
/// engine.
#[derive(Clone, Debug)]
pub struct Engines {
    /// At least one.
    pub engines: Vec<Engine>,
    /// How far apart engines must be that are not tied; `None` if no pairs were measured.
    pub order: Option<&'static Order>,
    /// Ways to split the GPUs into engines.
    pub legal: usize,
    /// Those of them that fit with one request in flight, or with as many as an engine was asked to run.
    pub fitting: usize,
    /// The share of a GPU's memory that they take at most.
    pub memory_share: f64,
}

/// The engines of a query with the most tokens a second within the limits.
pub fn serve(predictor: &Predictor, arch: &Architecture, query: &Query, limits: &Limits) -> Result<Engines> {
    if !(1..=MOST_GPUS).contains(&query.gpus) {
        let allowed = format!("1 to {MOST_GPUS}");
        return Err(Error::field("plan", "gpus", query.gpus, &allowed));
    }
    let gpu = predictor.gpu();
    let room = MemoryUse::room(gpu, query.memory_share, false);
    let framework = predictor.framework(query.workload.mode)?;
    let legal = splits(framework, arch, query, limits, node(gpu))?;
    let fitting: Vec<Workload> = legal
        .iter()
        .copied()
        .filter(|work| filled(arch, limits, work).is_some_and(|memory| memory.total() <= room))
        .collect();
    if fitting.is_empty() {
        return Err(too_large(predictor, arch, query, limits, &legal));
    }
    let tried = fitting
        .par_iter()
        .map(|work| tried(&mut Memo::new(predictor), arch, query, limits, work, room));
    let tried: Vec<Engine> = tried.collect::<Result<Vec<_>>>()?.concat();
    let is_kept = |engine: &&Engine| engine.likelihood() >= limits.confidence;
    let mut engines: Vec<Engine> = tried.iter().filter(is_kept).cloned().collect();
    if engines.is_empty() {
        return Err(too_slow(predictor, arch, query, limits, &tried));
    }
    engines.sort_by(|a, b| {
        b.tokens_per_s
            .total_cmp(&a.tokens_per_s)
            .then_with(|| a.ranks().cmp(&b.ranks()))
    });
    let order = Order::of_engines(Kind::of(arch, &query.workload), framework, gpu.generation);
    let (fastest, mut splits) = (engines[0].tokens_per_s, BTreeSet::new());
    for engine in &mut engines {
        let is_close = |order: &Order| (fastest / engine.tokens_per_s).ln() <= order.tie;
        engine.tied = splits.insert(engine.ranks()) && order.is_some_and(is_close);
    }
    engines.sort_by_key(|engine| match engine.tied {
        true => engine.workload.tp * engine.workload.pp,
        false => u64::MAX,
    });
    engines.truncate(query.top.max(1));
    Ok(Engines {
        engines,
        order,
        legal: legal.len(),
        fitting: fitting.len(),
        memory_share: query.memory_share,
    })
}

/// The engine with the most tokens a second within the limits, of a query that keeps how its GPUs are split; `None` if none keeps
/// them. It takes as many requests as its memory holds or, within limits, as keep them to a sixth.
pub fn split(memo: &mut Memo<'_>, arch: &Architecture, query: &Query, limits: &Limits) -> Option<Engine> {
    let gpu = memo.predictor().gpu();
    let room = MemoryUse::room(gpu, query.memory_share, false);
    let mut best: Option<Engine> = None;
    let framework = memo.predictor().framework(query.workload.mode).ok()?;
    for work in splits(framework, arch, query, limits, node(gpu)).ok()? {
        let with = |batch: u64| {
            let work = in_flight(&work, batch);
            let memory = filled(arch, limits, &work)?.total();
            (memory <= room).then_some((work, memory))
        };
        let fits = largest_that(MOST_CONCURRENT + 1, |batch| with(batch).is_some()).unwrap_or(0);
        let mut tried = |batch: u64| {
            let (work, memory) = with(batch)?;
            let engine = timed(memo, arch, limits, &work, batch, memory).ok()?;
            Some((engine.likelihood() >= limits.confidence, engine))
        };
        let mut batch = fits;
        while let Some((is_kept, engine)) = tried(batch) {
            if is_kept {
                let between = (batch < fits).then(|| tried(batch * 7 / 6)).flatten();
                let finer = between.filter(|(is_kept, _)| *is_kept).map(|(_, engine)| engine);
                let all = [best, Some(engine), finer].into_iter().flatten();
                best = all.max_by(|a, b| a.tokens_per_s.total_cmp(&b.tokens_per_s));
                break;
            }
            batch = batch * 3 / 4;
        }
    }
    best
}

/// Memory of an engine with every cache full; `None` if the engine is not legal.
fn filled(arch: &Architecture, limits: &Limits, work: &Workload) -> Option<MemoryUse> {
    memory_use(arch, &full(limits, work), &Practice::default()).ok()
}

/// A step of an engine whose caches are full.
fn full(limits: &Limits, work: &Workload) -> Workload {
    Workload {
        context: match work.mode {
            Mode::Decode => limits.longest(),
            Mode::Train | Mode::Prefill => work.context,
        },
        ..*work
    }
}

/// Why no engine fits: what the one that takes the least memory holds.
fn too_large(predictor: &Predictor, arch: &Architecture, query: &Query, limits: &Limits, legal: &[Workload]) -> Error {
    let gpu = predictor.gpu();
    let taken = legal
        .iter()
        .filter_map(|work| Some((filled(arch, limits, work)?, work)));
    let least = taken.min_by(|a, b| a.0.total().bytes().total_cmp(&b.0.total().bytes()));
    let Some((memory, work)) = least else {
        return Error::infeasible(format!("no engine of {} is legal", arch.name));
    };
    let asked = work.sequences();
    let requests = match asked {
        1 => format!("one request of {} tokens", limits.longest()),
        batch => format!("{batch} requests of {} tokens each", limits.longest()),
    };
    let room = MemoryUse::room(gpu, query.memory_share, false);
    let fits = |work: &Workload, limits: &Limits, batch: u64| {
        let memory = filled(arch, limits, &in_flight(work, batch));
        memory.is_some_and(|memory| memory.total() <= room)
    };
    let most = |work| largest_that(asked, |batch| fits(work, limits, batch));
    let fewer = legal.iter().filter_map(most).max();
    let fewer = fewer.map(|fit| format!("{fit} in flight on an engine"));
    let shorter = largest_that(limits.prompt, |prompt| fits(work, &Limits { prompt, ..*limits }, asked));
    let shorter = shorter.map(|prompt| format!("{asked} of {} tokens", prompt + limits.output));
    let held: String = [fewer, shorter]
        .into_iter()
        .flatten()
        .map(|fit| format!("; {fit} fit"))
        .collect();
    Error::infeasible(format!(
        "no engine of {} fits {} x {}: with tp {}, pp {} and {requests} in flight a GPU holds {}, of which weights {} and \
         cached keys and values {}; {:.0} % of its memory are {room}{held}; more GPUs, a smaller format or fewer or shorter \
         requests would",
        arch.name,
        query.gpus,
        gpu.title,
        work.tp,
        work.pp,
        memory.total(),
        memory.weights,
        memory.kv_cache,
        100.0 * query.memory_share,
    ))
}

/// Why no engine keeps the limits: the least times, and how likely the likeliest one keeps both limits.
fn too_slow(predictor: &Predictor, arch: &Architecture, query: &Query, limits: &Limits, tried: &[Engine]) -> Error {
    let least = |time: &dyn Fn(&Engine) -> Option<Seconds>| {
        let times = tried.iter().filter_map(time).map(Seconds::millis);
        times.min_by(f64::total_cmp)
    };
    let first = least(&|engine| Some(engine.first_token)).unwrap_or_default();
    let further = match least(&|engine| engine.token) {
        Some(token) => format!(", the least per further token {token:.1} ms"),
        None => String::new(),
    };
    let likeliest = tried.iter().map(Engine::likelihood).fold(0.0, f64::max);
    Error::infeasible(format!(
        "no engine of {} keeps these limits on {} x {} with a probability of {}: the likeliest one has {likeliest:.2}; \
         the least time to the first token is {first:.0} ms{further}",
        arch.name,
        query.gpus,
        predictor.gpu().title,
        limits.confidence,
    ))
}

/// Ranks of an engine and copies of it, with one request in flight or as many as it is asked to run; fails where none is legal.
fn splits(
    framework: &Framework,
    arch: &Architecture,
    query: &Query,
    limits: &Limits,
    node: u64,
) -> Result<Vec<Workload>> {
    let decodes = query.workload.mode == Mode::Decode;
    let asked = query.kept(Dimension::Batch);
    let step = match decodes {
        true => Workload {
            context: limits.prompt + limits.output / 2,
            ..query.workload
        },
        false => limits.prompts(&query.workload, 1),
    };
    let base = Workload {
        batch: 1,
        microbatches: 1,
        ..step
    };
    arch.validate()?;
    full(limits, &base).validate(arch)?;
    let mut all = Vec::new();
    let mut refused = None;
    let experts = arch.moe.map_or(1, |moe| moe.experts);
    for tp in divisors(query.gpus).filter(|&tp| query.spreads(tp, node)) {
        for pp in divisors(query.gpus / tp).filter(|&pp| pp <= arch.layers && query.keeps(Dimension::Pp, pp)) {
            let dp = query.gpus / (tp * pp);
            let spread = divisors(experts)
                .filter(|&ep| ep <= MOST_EP && (tp * dp).is_multiple_of(ep) && query.keeps(Dimension::Ep, ep));
            for ep in spread {
                let work = Workload {
                    tp,
                    pp,
                    dp,
                    ep,
                    expert_tp: u64::from(ep > 1),
                    ..base
                };
                let work = in_flight(&work, asked.filter(|_| limits.concurrency.is_none()).unwrap_or(1));
                match work.validate(arch).and_then(|()| framework.check_layout(&work)) {
                    Ok(()) => all.push(work),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
        }
    }
    match (all.is_empty(), refused) {
        (false, _) => Ok(all),
        (true, Some(error)) => Err(error),
        (true, None) => Err(Error::infeasible(format!(
            "no engine of {} over {} GPUs is legal: tp and pp must divide the GPUs, tp is at most the {node} GPUs of a node, pp \
             the {} layers, and ep divides experts and GPUs",
            arch.name, query.gpus, arch.layers
        ))),
    }
}

/// An engine with so many requests in flight: as many micro-batches as stages that decode, each the rest of a share.
fn in_flight(engine: &Workload, requests: u64) -> Workload {
    let microbatches = match engine.mode {
        Mode::Decode => engine.pp.min(requests).max(1),
        Mode::Train | Mode::Prefill => 1,
    };
    Workload {
        microbatches,
        batch: requests.div_ceil(microbatches),
        ..*engine
    }
}

/// An engine with each number of requests in flight that fits: doublings, and the largest one that keeps the limits to a
/// sixteenth; alone with those that run of as many as are sent, or as it is asked to run.
fn tried(
    memo: &mut Memo<'_>,
    arch: &Architecture,
    query: &Query,
    limits: &Limits,
    work: &Workload,
    room: Bytes,
) -> Result<Vec<Engine>> {
    let framework = memo.predictor().framework(work.mode)?;
    let with = |batch: u64| in_flight(work, batch);
    let held = |batch: u64| {
        let memory = filled(arch, limits, &with(batch)).map(|memory| memory.total());
        memory.filter(|memory| *memory <= room)
    };
    let asked = query.kept(Dimension::Batch);
    let of_sent = limits.each(work.dp).and_then(|each| {
        let most = asked.unwrap_or(framework.get(Constant::MostSequences) as u64);
        largest_that(each.min(most) + 1, |batch| held(batch).is_some())
    });
    let mut tried = |batch: u64| -> Result<Option<Engine>> {
        let engine = held(batch).map(|memory| timed(memo, arch, limits, &with(batch), batch, memory));
        engine.transpose()
    };
    if let Some(batch) = of_sent.or(asked) {
        return Ok(tried(batch)?.into_iter().collect());
    }
    let mut all = Vec::new();
    let doublings = std::iter::successors(Some(1), |batch| Some(batch * 2));
    for batch in doublings.take_while(|batch| *batch <= MOST_CONCURRENT) {
        let Some(engine) = tried(batch)? else { break };
        all.push(engine);
    }
    let keeps = |engine: &Engine| engine.likelihood() >= limits.confidence;
    let largest = all.iter().rev().find(|engine| keeps(engine));
    let Some(mut low) = largest.map(|engine| engine.requests) else {
        return Ok(all);
    };
    let (mut high, step) = (2 * low, low.div_ceil(FINEST));
    if low == MOST_CONCURRENT {
        return Ok(all);
    }
    let mut finest = None;
    while high - low > step {
        let middle = (low + high) / 2;
        match tried(middle)?.filter(keeps) {
            Some(engine) => {
                low = middle;
                finest = Some(engine);
            }
            None => high = middle,
        }
    }
    all.extend(finest);
    Ok(all)
}

fn timed(
    memo: &mut Memo<'_>,
    arch: &Architecture,
    limits: &Limits,
    work: &Workload,
    requests: u64,
    memory: Bytes,
) -> Result<Engine> {
    let framework = memo.predictor().framework(work.mode)?;
    let gpu = memo.predictor().gpu();
    let width = |kind, own_pass, work: &Workload, cost: Cost| {
        let subject = Subject {
            kind,
            own_pass,
            ..Subject::of(gpu, arch, work)
        };
        half_width(framework, &subject).map(|(whole, _)| whole.max(cost.half_width))
    };
    let places = requests * work.dp;
    let sent = limits.concurrency.unwrap_or(places);
    let (waiting, in_flight) = (sent.saturating_sub(places), sent.min(places) as f64);
    let load = Load {
        concurrency: requests,
        sent: sent as f64 / in_flight,
        prompt: limits.prompt,
        output: limits.output,
        kept_tokens: work.kept_tokens(),
    };
    let decodes = work.mode == Mode::Decode;
    if !decodes {
        let cost = memo.cost(arch, work)?;
        let pass = Latency {
            time: cost.time,
            half_width: width(Kind::Prefill, 0.0, work, cost),
            least: cost.least,
        };
        let rate = |time: Seconds| in_flight * limits.prompt as f64 / time.secs();
        let first = pass.map(|time| load.waited(time, Seconds::ZERO));
        return Ok(Engine {
            workload: *work,
            requests,
            waiting,
            first_token: first.time,
            token: None,
            ends: [first.ends(), None],
            kept: [first.kept(limits.first_token), None],
            tokens_per_s: rate(pass.time),
            tokens_per_s_ends: pass.ends().map(|[low, high]| [rate(high), rate(low)]),
            tied: false,
            memory,
        });
    }
    let prompt = limits.prompts(work, 1);
    let [decode, prefill] = [memo.cost(arch, work)?, memo.cost(arch, &prompt)?];
    let together = load.prompts_at_once(prompt.seq);
    let shared = match together {
        1 => prefill.time,
        _ => memo.cost(arch, &limits.prompts(work, together))?.time / together as f64,
    };
    let kept_width = work.kept_half_width();
    let token = Latency {
        // A stage is at one prompt while the others are at other micro-batches.
        time: load.token(framework, decode.time, shared / work.microbatches as f64),
        half_width: width(Kind::of(arch, work), 0.0, work, decode).map(|width| quadrature(width, kept_width)),
        least: decode.least / (load.kept_tokens * kept_width.exp()),
    };
    let expected = load.first_token(framework, decode.time, prefill.time);
    let own_pass = (prefill.time / expected).min(1.0);
    let placed = Latency {
        time: expected,
        half_width: width(Kind::FirstToken, own_pass, &prompt, prefill),
        least: prefill.least,
    };
    let first = Latency {
        time: load.waited(placed.time, token.time),
        least: load.waited(placed.least, token.least),
        ..placed
    };
    // A request holds its place for its first token and all further ones.
    let output = limits.output as f64;
    let rate = |first: Seconds, further: Seconds| in_flight * output / (first + further * output).secs();
    let ends = placed.ends().zip(token.ends());
    Ok(Engine {
        workload: *work,
        requests,
        waiting,
        first_token: first.time,
        token: Some(token.time),
        ends: [first.ends(), token.ends()],
        kept: [first.kept(limits.first_token), token.kept(limits.token)],
        tokens_per_s: rate(placed.time, token.time),
        tokens_per_s_ends: ends.map(|(first, further)| [rate(first[1], further[1]), rate(first[0], further[0])]),
        tied: false,
        memory,
    })
}

/// A time of a request.
#[derive(Clone, Copy)]
struct Latency {
    /// The expected one.
    time: Seconds,
    /// Half width of the 90 % interval of its logarithm; `None` if the framework has none.
    half_width: Option<f64>,
    /// What no engine is faster than.
    least: Seconds,
}

impl Latency {
    /// The same of a time that follows from this one.
    fn map(self, time: impl Fn(Seconds) -> Seconds) -> Self {
        Self {
            time: time(self.time),
            least: time(self.least),
            ..self
        }
    }

    /// The ends of its 90 % interval, the lower one no less than physics allows.
    fn ends(&self) -> Option<[Seconds; 2]> {
        let [low, high] = [-1.0, 1.0].map(|sign| Some(self.time * (sign * self.half_width?).exp()));
        Some([low?.max(self.least.min(self.time)), high?])
    }

    /// The probability that it keeps a limit, its logarithm being normal about the expected one and what is below
    /// [`Latency::least`] impossible; without an interval it keeps it or not. None without a limit.
    fn kept(&self, limit: Option<Seconds>) -> Option<f64> {
        let apart = (limit? / self.time).ln();
        Some(match self.half_width {
            Some(_) if limit? < self.least => 0.0,
            Some(half_width) => normal_cdf(apart / half_width * NORMAL_90),
            None => f64::from(u8::from(apart >= 0.0)),
        })
    }
}
