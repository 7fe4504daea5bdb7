//! The compiled plans of a device: those of the cases that come next are compiled by threads with a
//! handle of cuDNN each, since one takes about a second.

use super::background::Background;
use super::{Handle, Plan};
use crate::error::Result;
use crate::measure::cuda::driver::failed;
use crate::ops::Attention;
use cudarc::driver::CudaContext;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Most threads that compile.
const MOST_WORKERS: usize = 12;

/// Processor cores that are left to the thread that times, to the driver and to the system.
const SPARED_CORES: usize = 4;

/// The plans of a device.
pub struct Plans {
    // Refers to the handles of the workers: destroyed first.
    known: RefCell<HashMap<Attention, Rc<Plan>>>,
    workers: Background<Attention, Plan>,
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
            workers: Background::new(threads, move || {
                context
                    .bind_to_thread()
                    .map_err(failed("bind its context to a worker"))?;
                // SAFETY: the default stream outlives everything, and no work is enqueued on it.
                let handle = unsafe { Handle::new(std::ptr::null_mut()) }?;
                Ok(move |op: &Attention| Plan::new(op, &handle))
            }),
        }
    }

    /// The plan of an operator: known, compiled by a worker, or compiled now.
    pub fn plan(&self, handle: &Handle, op: &Attention) -> Result<Rc<Plan>> {
        if let Some(plan) = self.known.borrow().get(op) {
            return Ok(Rc::clone(plan));
        }
        let worked = self.workers.take(op);
        let plan = Rc::new(worked.unwrap_or_else(|| Plan::new(op, handle))?);
        self.known.borrow_mut().insert(*op, Rc::clone(&plan));
        Ok(plan)
    }

    /// Has workers compile what is not known.
    pub fn look_ahead(&self, keys: impl Iterator<Item = Attention>) {
        let known = self.known.borrow();
        self.workers.ask(keys.filter(|key| !known.contains_key(key)));
    }

    /// Whether the plan of this key is ready, or no thread compiles it.
    pub fn is_ready(&self, key: &Attention) -> bool {
        self.known.borrow().contains_key(key) || !self.workers.is_pending(key)
    }

    /// Compiles the plan of an operator with the device's own handle: the documentation of cuDNN does not say that a handle
    /// runs the plans of another one.
    pub fn renew(&self, handle: &Handle, op: &Attention) -> Result<()> {
        let plan = Rc::new(Plan::new(op, handle)?);
        self.known.borrow_mut().insert(*op, plan);
        Ok(())
    }
}
