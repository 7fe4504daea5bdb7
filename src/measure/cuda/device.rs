//! A CUDA device as something that can be timed.

use crate::error::{Error, Result};
use crate::measure::cuda::algorithm::Algorithm;
use crate::measure::cuda::attention::FlashAttention;
use crate::measure::cuda::chain::CudaChain;
use crate::measure::cuda::check;
use crate::measure::cuda::clock::Stamps;
use crate::measure::cuda::compile::Source;
use crate::measure::cuda::cudnn;
use crate::measure::cuda::driver::Driver;
use crate::measure::cuda::fill;
use crate::measure::cuda::gemm::{self, Product};
use crate::measure::cuda::guarded;
use crate::measure::cuda::identity::{bus, identity};
use crate::measure::cuda::launch::Argument::{Address, Count, Word};
use crate::measure::cuda::launch::{Kernels, Shape, launch};
use crate::measure::cuda::libraries::Library;
use crate::measure::cuda::memory::{self, Limits, MemoryBound};
use crate::measure::cuda::placement::{Arena, Placement, too_large};
use crate::measure::cuda::sensor::Sensor;
use crate::measure::device::{Cache, Case, Chain, Checked, Device, Identity, Sensors};
use crate::ops::{Attention, Dtype, Gemm, Layout, Op, Pass};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The most operand sets that calls rotate over; chains are no longer than this.
const MOST_SETS: u64 = 64;

/// How many times the last-level cache is read between two uses of an operand that shall be cold.
const CACHES: u64 = 3;

/// Assumed where the driver does not tell the size of its last-level cache.
const USUAL_CACHE_BYTES: u64 = 50 << 20;

/// Rows and columns of the product that keeps the device busy.
const SOAK_SIZE: u64 = 8192;

/// A device that is open, with the libraries that it has.
pub struct CudaDevice {
    // What refers to the driver stands before it and is destroyed first.
    cublas: Rc<gemm::Handle>,
    /// Plans of cuDNN by operator and rank: one takes about a second to compile, and anchors come back every minute.
    plans: RefCell<HashMap<(Attention, u32), Rc<cudnn::Plan>>>,
    cudnn: std::result::Result<Rc<cudnn::Handle>, String>,
    stamps: Option<Stamps>,
    kernels: std::result::Result<Kernels, String>,
    sensor: Option<Sensor>,
    driver: Driver,
    identity: Identity,
    limits: Limits,
    capability: (i32, i32),
    cache_bytes: u64,
    /// Addresses of the parts of the pool that every case shares.
    one: u64,
    workspace: u64,
    sink: u64,
    flushed: u64,
    /// What is left of the pool for operands.
    arena: Arena,
    /// Paths that could not be set up when they were checked, with the reason.
    missing: BTreeMap<String, String>,
    opened: Instant,
}

/// A case with its operands.
pub(super) struct Prepared {
    pub(super) algorithm: Box<dyn Algorithm>,
    pub(super) operands: Placement,
}

impl CudaDevice {
    /// Opens the device with this index; the driver's library and cuBLASLt are there.
    pub(super) fn open(index: usize) -> Result<Self> {
        let driver = Driver::open(index)?;
        let told = |attribute| driver.attribute(attribute);
        let capability = (
            told(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).unwrap_or(0) as i32,
            told(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).unwrap_or(0) as i32,
        );
        let processors = told(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        let cache = told(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
        let shared = told(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        let limits = Limits {
            processors: processors.unwrap_or(1),
            // A kilobyte is left for what kernels declare themselves.
            shared_bytes: shared.unwrap_or(48 << 10).saturating_sub(1 << 10),
        };
        let cache_bytes = cache.unwrap_or(USUAL_CACHE_BYTES);
        let kernels = Kernels::new(capability.0, capability.1).map_err(|error| error.to_string());
        let cublas = gemm::Handle::new()?;
        // SAFETY: the stream belongs to the driver, which is declared after the handle and so destroyed after it.
        let cudnn = Library::Cudnn
            .require()
            .and_then(|()| unsafe { cudnn::Handle::new(driver.stream().cu_stream()) })
            .map(Rc::new)
            .map_err(|error| error.to_string());
        let (address, bytes) = driver.pool();
        let mut arena = Arena::new(address, bytes);
        let stamp = arena.take(64)?;
        let (one, sink) = (arena.take(4)?, arena.take(4096)?);
        let workspace = arena.take(gemm::WORKSPACE_BYTES)?;
        let flushed = arena.take(CACHES * cache_bytes)?;
        driver.upload(one, &1f32.to_le_bytes())?;
        let stamps = kernels
            .as_ref()
            .ok()
            .map(|kernels| Stamps::new(&driver, kernels, stamp))
            .transpose()?;
        if let Ok(kernels) = &kernels {
            let region = (flushed, CACHES * cache_bytes);
            let processors = limits.processors;
            fill::normals(&driver, kernels, processors, Dtype::Fp32, region, false)?;
        }
        let sensor = bus(&driver).and_then(|bus| Sensor::open(&bus));
        let identity = identity(&driver, sensor.as_ref(), cudnn.is_ok())?;
        let device = Self {
            cublas,
            plans: RefCell::default(),
            cudnn,
            stamps,
            kernels,
            sensor,
            driver,
            identity,
            limits,
            capability,
            cache_bytes,
            one,
            workspace,
            sink,
            flushed,
            arena,
            missing: BTreeMap::new(),
            opened: Instant::now(),
        };
        // Its kernel is compiled now rather than in front of the first call that is timed.
        device.flush()?;
        device.driver.wait()?;
        Ok(device)
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(super) fn stamps(&self) -> Option<&Stamps> {
        self.stamps.as_ref()
    }

    /// The properties of this device as cuDNN describes it, to compile its plans elsewhere.
    pub fn properties_json(&self) -> Result<String> {
        match &self.cudnn {
            Ok(handle) => cudnn::DeviceProperties::json(handle),
            Err(reason) => Err(Error::infeasible(reason.clone())),
        }
    }

    /// Whether so many bytes, read one after the other, leave nothing of the first in the last-level cache.
    pub(super) fn outgrows_cache(&self, bytes: u64) -> bool {
        bytes >= CACHES * self.cache_bytes
    }

    /// Enqueues reading more than the last-level cache holds; writing, where there is no kernel to read.
    pub(super) fn flush(&self) -> Result<()> {
        let bytes = CACHES * self.cache_bytes;
        let Ok(kernels) = &self.kernels else {
            return self.driver.set(self.flushed, bytes as usize, 0x3c);
        };
        let variant = (Source::Copy, Dtype::Fp32, 4);
        let function = kernels.function(&self.driver, variant, "read")?;
        let shape = Shape::flat(bytes / 16, self.limits.processors);
        let arguments = [
            Address(self.flushed),
            Address(self.sink),
            Count(bytes / 16 * 4),
            Word(0x0bad_cafe),
        ];
        // SAFETY: the arguments are those of the kernel; it reads what was taken for it and may write one number for
        // each of its at most 512 threads to the sink, which has room for 1024.
        unsafe { launch(&self.driver, &function, shape, &arguments) }
    }

    /// Sets an operator up with so many operand sets as are wanted for their size.
    pub(super) fn prepare(
        &self,
        op: &Op,
        rank: u32,
        wanted: impl Fn(u64) -> u64,
    ) -> Result<Prepared> {
        let mut arena = self.arena.clone();
        let algorithm: Box<dyn Algorithm> = match op {
            Op::Gemm(op) => Box::new(Product::new(
                &self.cublas,
                op,
                rank,
                self.workspace,
                self.one,
            )?),
            Op::Attention(op) => {
                let handle = self.cudnn.as_ref();
                let handle = handle.map_err(|reason| Error::infeasible(reason.clone()))?;
                let plan = self.plan(handle, op, rank)?;
                Box::new(FlashAttention::new(handle, plan, &mut arena)?)
            }
            Op::Memory(op) => {
                let kernels = self.kernels.as_ref();
                let kernels = kernels.map_err(|reason| Error::infeasible(reason.clone()))?;
                let (driver, limits) = (&self.driver, self.limits);
                Box::new(MemoryBound::new(op, driver, kernels, limits, &mut arena)?)
            }
            Op::Collective(_) => {
                return Err(Error::infeasible("a collective needs more than one GPU"));
            }
        };
        let operands = Placement::new(op, &mut arena, wanted)?;
        Ok(Prepared {
            algorithm,
            operands,
        })
    }

    /// The compiled plan of an attention; compiles it when it is asked for the first time.
    fn plan(&self, handle: &cudnn::Handle, op: &Attention, rank: u32) -> Result<Rc<cudnn::Plan>> {
        if let Some(plan) = self.plans.borrow().get(&(*op, rank)) {
            return Ok(Rc::clone(plan));
        }
        let plan = Rc::new(cudnn::Plan::new(op, handle, rank)?);
        let mut plans = self.plans.borrow_mut();
        plans.insert((*op, rank), Rc::clone(&plan));
        Ok(plan)
    }

    /// How many operand sets a cache state wants: enough to outgrow the cache, and one more.
    fn sets_for(&self, cache: Cache) -> impl Fn(u64) -> u64 + use<> {
        let bytes = CACHES * self.cache_bytes;
        move |set_bytes| match cache {
            Cache::Hot => 1,
            Cache::Cold => (bytes.div_ceil(set_bytes) + 1).min(MOST_SETS),
        }
    }

    /// Fills the operands with what they hold while they are timed.
    fn fill(&self, op: &Op, operands: &Placement) -> Result<()> {
        match &self.kernels {
            Ok(kernels) => {
                let processors = self.limits.processors;
                fill::fill(&self.driver, kernels, processors, op, operands)
            }
            Err(_) => fill::from_host(&self.driver, op, operands),
        }
    }

    /// Sets every bit of what algorithms took from the pool for themselves, so that none relies on what is there.
    pub(super) fn poison_scratch(&self, operands: &Placement) -> Result<()> {
        let start = self.arena.start();
        let bytes = operands.region().0 - start;
        self.driver.set(start, bytes as usize, check::POISON)
    }

    /// Remembers that a path cannot be set up, so that its cases are refused.
    pub(super) fn miss(&mut self, op: &Op, reason: String) {
        self.missing.insert(path(op), reason);
    }

    /// Sets a case up, fills its operands and runs it once, so that everything is loaded before a capture.
    fn set_up(&self, case: &Case) -> Result<Box<dyn Chain + '_>> {
        let prepared = self.prepare(&case.op, case.rank, self.sets_for(case.cache))?;
        self.fill(&case.op, &prepared.operands)?;
        prepared
            .algorithm
            .enqueue(&self.driver, &prepared.operands, 0)?;
        self.driver.wait()?;
        Ok(Box::new(CudaChain::new(self, prepared, case.cache)))
    }

    /// Multiplies large matrices for so long.
    fn keep_busy(&self, duration: Duration) -> Result<()> {
        let dtype = match self.capability {
            (major, _) if major >= 8 => Dtype::Bf16,
            _ => Dtype::Fp16,
        };
        let product = |size| Op::Gemm(Gemm::square(size, Layout::Tn, dtype));
        let mut op = product(SOAK_SIZE);
        if self.refuses_op(&op, 0).is_some() {
            op = product(SOAK_SIZE / 4);
        }
        let prepared = self.prepare(&op, 0, |_| 1)?;
        self.fill(&op, &prepared.operands)?;
        let begin = Instant::now();
        while begin.elapsed() < duration {
            for _ in 0..20 {
                prepared
                    .algorithm
                    .enqueue(&self.driver, &prepared.operands, 0)?;
            }
            self.driver.wait()?;
        }
        Ok(())
    }

    /// Why an operator cannot run here, where it cannot.
    pub(super) fn refuses_op(&self, op: &Op, rank: u32) -> Option<String> {
        let refused = match op {
            Op::Gemm(op) => gemm::refuses(op, rank, self.capability),
            Op::Attention(op) => match (&self.cudnn, &self.kernels) {
                (Err(reason), _) | (_, Err(reason)) => Some(reason.clone()),
                _ => cudnn::refuses(op).or_else(|| cudnn::refuses_release(op)),
            },
            Op::Memory(op) => match &self.kernels {
                Err(reason) => Some(reason.clone()),
                Ok(_) if rank > 0 => Some("our kernels have one algorithm".to_owned()),
                Ok(_) => memory::refuses(op, self.limits),
            },
            Op::Collective(_) => Some("a collective needs more than one GPU".to_owned()),
        };
        refused
            .or_else(|| self.missing.get(&path(op)).cloned())
            .or_else(|| {
                let left = self.arena.left();
                let (_, bytes) = Placement::slots(op)?;
                let bytes = bytes.saturating_add(scratch(op));
                (bytes > left).then(|| too_large(bytes, left).to_string())
            })
    }
}

/// What an operator needs besides its operands, as far as that is known before it is set up: backward attention adds
/// up the gradients of queries in single precision, once in the graph and once in the plan's own memory.
fn scratch(op: &Op) -> u64 {
    match op {
        Op::Attention(op) if op.pass == Pass::Backward => {
            let queries = op.batch * op.heads * op.seq_q;
            2 * 4 * queries * (op.head_dim + 1)
        }
        _ => 0,
    }
}

/// What cases have in common that only run or fail together.
fn path(op: &Op) -> String {
    match op {
        Op::Gemm(op) => format!("gemm {} {}", op.layout.name(), op.dtype.name()),
        Op::Attention(op) => {
            let (pass, dtype) = (op.pass.name(), op.dtype.name());
            let kind = if op.is_decode() {
                "decode"
            } else {
                "attention"
            };
            let mask = if op.causal { " causal" } else { "" };
            format!("{kind} {pass}{mask} {dtype}")
        }
        Op::Memory(op) => {
            let (kind, pass, dtype) = (op.kind.name(), op.pass.name(), op.dtype.name());
            format!("{kind} {pass} {dtype}")
        }
        Op::Collective(op) => op.kind.name().to_owned(),
    }
}

impl Device for CudaDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn refuses(&self, case: &Case) -> Option<String> {
        self.refuses_op(&case.op, case.rank)
    }

    fn open(&mut self, case: &Case) -> Result<Box<dyn Chain + '_>> {
        guarded(|| self.set_up(case))
    }

    fn check(&mut self) -> Result<Vec<Checked>> {
        guarded(|| check::run(self))
    }

    fn soak(&mut self, duration: Duration) -> Result<()> {
        guarded(|| self.keep_busy(duration))
    }

    fn rest(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn sensors(&self) -> Sensors {
        self.sensor.as_ref().map(Sensor::read).unwrap_or_default()
    }
}
