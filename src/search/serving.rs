//! What a model costs that is served after its training: the engines and the time of their GPUs over its life.

use crate::arch::{Architecture, Dimension, Workload};
use crate::error::Result;
use crate::plan::{self, Engine, Limits, Query};
use crate::predict::Predictor;
use crate::predict::memo::Memo;
use crate::units::Seconds;
use std::fmt;
use std::sync::Arc;

/// Nodes that are tried for one engine, in doublings.
const MOST_NODES: u64 = 8;

/// What a model serves after its training.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Tokens generated over the whole life.
    pub tokens: f64,
    /// Length and latency limits of the requests.
    pub limits: Limits,
    /// The decode step: number formats and context.
    pub workload: Workload,
    /// Share of a GPU's memory that an engine takes.
    pub memory_share: f64,
}

/// What a model serves, where, and for what prices.
#[derive(Clone)]
pub struct Service {
    /// What predicts the engines.
    pub predictor: Arc<Predictor>,
    /// What is served.
    pub life: Life,
    /// Prices of a GPU-hour of training and of serving, which cost the same where none are known.
    pub usd_per_gpu_hour: Option<[f64; 2]>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

/// The engines of a model, and what they take over its life.
#[derive(Clone, Debug)]
pub struct Served {
    /// Copies of one engine over [`Served::gpus`].
    pub engine: Engine,
    /// All its GPUs.
    pub gpus: u64,
    /// GPU time of the whole life.
    pub gpu_time: Seconds,
    /// GPU time of training that has the same price.
    pub cost: Seconds,
    /// Half width of the 90 % interval of `ln` of that time.
    pub half_width: f64,
}

impl Service {
    /// Price of a GPU-hour of serving over that of one of training.
    pub fn price_ratio(&self) -> f64 {
        self.usd_per_gpu_hour
            .map_or(1.0, |[training, serving]| serving / training)
    }

    fn query(&self, gpus: u64, kept: Vec<(Dimension, u64)>) -> Query {
        Query {
            gpus,
            global_batch: 1,
            workload: self.life.workload,
            kept,
            zero: None,
            recompute: None,
            offloads: Vec::new(),
            memory_share: self.life.memory_share,
            top: 1,
        }
    }

    fn served(&self, engine: Engine, gpus: u64) -> Served {
        let half_width = engine
            .tokens_per_s_ends
            .map_or(0.0, |[low, high]| (high / low).ln() / 2.0);
        let gpu_time = Seconds::from_secs(self.life.tokens * gpus as f64 / engine.tokens_per_s);
        Served {
            cost: gpu_time * self.price_ratio(),
            gpu_time,
            half_width,
            engine,
            gpus,
        }
    }

    /// The cheapest engines of an architecture within the limits, over the fewest nodes that have one.
    pub fn plan(&self, arch: &Architecture) -> Result<Served> {
        let node = self.predictor.gpu().gpus_per_node().unwrap_or(1);
        let serve = |gpus| plan::serve(&self.predictor, arch, &self.query(gpus, Vec::new()), &self.life.limits);
        let mut gpus = node;
        loop {
            match serve(gpus) {
                Ok(mut engines) => return Ok(self.served(engines.engines.swap_remove(0), gpus)),
                Err(error) if !error.is_infeasible() || gpus >= MOST_NODES * node => return Err(error),
                Err(_) => gpus *= 2,
            }
        }
    }

    /// The same where engines are split as this one is.
    pub fn like<'a>(&'a self, served: &Served) -> Counter<'a> {
        let work = &served.engine.workload;
        let kept = [
            (Dimension::Tp, work.tp),
            (Dimension::Pp, work.pp),
            (Dimension::Ep, work.ep),
        ];
        Counter {
            query: self.query(served.gpus, kept.to_vec()),
            memo: Memo::new(&self.predictor),
            service: self,
        }
    }
}

/// Counts what engines of one split cost, on one thread.
pub struct Counter<'a> {
    service: &'a Service,
    query: Query,
    memo: Memo<'a>,
}

impl Counter<'_> {
    /// GPU time over the life, in that of training; `None` if no engine keeps the limits.
    pub fn cost(&mut self, arch: &Architecture) -> Option<Seconds> {
        let engine = plan::split(&mut self.memo, arch, &self.query, &self.service.life.limits)?;
        Some(self.service.served(engine, self.query.gpus).cost)
    }
}
