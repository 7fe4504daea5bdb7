//! The compiled plans of a device: those of the cases that come next are compiled by threads with a
//! handle of cuDNN each, since one takes about a second.

use super::background::Background;
use super::{Handle, Plan};
use crate::error::Result;
use crate::measure::cuda::driver::failed;
use crate::ops::Attention;
use cudarc::driver::CudaContext;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Most threads that compile.
const MOST_WORKERS: usize = 12;

/// Processor cores that are left to the thread that times, to the driver and to the system.
const SPARED_CORES: usize = 4;

/// What is known of running plans of another handle than that which compiled them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Untried,
    Works,
    Fails,
}

/// The plans of a device.
pub struct Plans {
    // Refers to the handles of the workers: destroyed first.
    known: RefCell<HashMap<Attention, Rc<Plan>>>,
    /// Those of them that workers compiled.
    foreign: RefCell<HashSet<Attention>>,
    workers: Background<Attention, Plan>,
    trust: Cell<Trust>,
}

// SAFETY: a plan consists of descriptors of the library, which are memory that no thread owns and
// that no two threads use at once: a worker hands the plan over and keeps nothing of it.
unsafe impl Send for Plan {}

impl Plans {
    /// Starts the workers of a device.
    pub fn new(context: &Arc<CudaContext>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.saturating_sub(SPARED_CORES).clamp(1, MOST_WORKERS);
        let context = Arc::clone(context);
        Self {
            known: RefCell::default(),
            foreign: RefCell::default(),
            workers: Background::new(threads, move || {
                context
                    .bind_to_thread()
                    .map_err(failed("bind its context to a worker"))?;
                // SAFETY: the default stream outlives everything, and no work is enqueued on it.
                let handle = unsafe { Handle::new(std::ptr::null_mut()) }?;
                Ok(move |op: &Attention| Plan::new(op, &handle))
            }),
            trust: Cell::new(Trust::Untried),
        }
    }

    /// The plan of an operator: known, compiled by a worker, or compiled now.
    pub fn plan(&self, handle: &Handle, op: &Attention) -> Result<Rc<Plan>> {
        if let Some(plan) = self.known.borrow().get(op) {
            return Ok(Rc::clone(plan));
        }
        let worked = match self.trust.get() {
            Trust::Fails => None,
            _ => self.workers.take(op),
        };
        if worked.is_some() {
            self.foreign.borrow_mut().insert(*op);
        }
        let plan = worked.unwrap_or_else(|| Plan::new(op, handle))?;
        let plan = Rc::new(plan);
        self.known.borrow_mut().insert(*op, Rc::clone(&plan));
        Ok(plan)
    }

    /// Has workers compile what is not known.
    pub fn look_ahead(&self, keys: impl Iterator<Item = Attention>) {
        if self.trust.get() != Trust::Fails {
            let known = self.known.borrow();
            self.workers.ask(keys.filter(|key| !known.contains_key(key)));
        }
    }

    /// Whether the plan of this key is ready, or no thread compiles it.
    pub fn is_ready(&self, key: &Attention) -> bool {
        self.known.borrow().contains_key(key) || self.trust.get() == Trust::Fails || !self.workers.is_pending(key)
    }

    /// What to report where workers are of no use.
    pub fn note(&self) -> Option<String> {
        (self.trust.get() == Trust::Fails).then(|| {
            "cuDNN does not run plans that were compiled with another handle, so those of attention were \
             compiled between the timings, about a second each"
                .to_owned()
        })
    }

    /// Notes whether a plan ran; returns whether it is worth another attempt, with plans of the
    /// device's own handle.
    ///
    /// The documentation of cuDNN does not say that a handle runs the plans of another one. If none
    /// of a worker's ever ran, none is used from then on.
    pub fn ran(&self, key: &Attention, succeeded: bool) -> bool {
        if !self.foreign.borrow().contains(key) {
            return false;
        }
        match (self.trust.get(), succeeded) {
            (Trust::Untried, true) => self.trust.set(Trust::Works),
            (Trust::Untried, false) => {
                self.trust.set(Trust::Fails);
                let foreign = self.foreign.take();
                let mut known = self.known.borrow_mut();
                known.retain(|key, _| !foreign.contains(key));
                return true;
            }
            _ => {}
        }
        false
    }
}
