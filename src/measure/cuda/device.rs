//! A CUDA device.

use crate::error::{Error, Result};
use crate::measure::cuda::algorithm::Algorithm;
use crate::measure::cuda::attention::FlashAttention;
use crate::measure::cuda::chain::CudaChain;
use crate::measure::cuda::check;
use crate::measure::cuda::clock::Stamps;
use crate::measure::cuda::compile::Source;
use crate::measure::cuda::cudnn;
use crate::measure::cuda::driver::Driver;
use crate::measure::cuda::fill::{self, Filler};
use crate::measure::cuda::gemm::{self, CublasLtGemm};
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

/// Largest number of operand sets that calls rotate over; chains are no longer.
const MOST_SETS: u64 = 64;

/// Traffic between two uses of a cold operand, in multiples of the last-level cache.
const CACHES: u64 = 3;

/// Assumed size of the last-level cache where the driver does not report it.
const USUAL_CACHE_BYTES: u64 = 50 << 20;

/// Size of the square GEMM that warms the device up.
const SOAK_SIZE: u64 = 8192;

/// An open device and its libraries.
pub struct CudaDevice {
    // Fields are dropped in order: what refers to the driver before it.
    cublas: Rc<gemm::Handle>,
    /// Cache of cuDNN's plans by operator and rank: one takes about a second to compile, and
    /// anchors are timed every minute.
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
    /// Addresses in the pool that all cases share.
    one: u64,
    workspace: u64,
    sink: u64,
    flushed: u64,
    /// Rest of the pool, for operands.
    arena: Arena,
    /// Paths whose set-up failed in the checks, with the reason.
    missing: BTreeMap<String, String>,
    opened: Instant,
}

/// A case with its operands.
pub(super) struct Prepared {
    pub(super) algorithm: Box<dyn Algorithm>,
    pub(super) operands: Placement,
}

impl CudaDevice {
    /// Opens the device with this index; the driver's library and cuBLASLt are loaded.
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
            // A kilobyte is left for the static shared memory of kernels.
            shared_bytes: shared.unwrap_or(48 << 10).saturating_sub(1 << 10),
        };
        let cache_bytes = cache.unwrap_or(USUAL_CACHE_BYTES);
        let kernels = Kernels::new(capability.0, capability.1).map_err(|error| error.to_string());
        let cublas = gemm::Handle::new()?;
        // SAFETY: the stream belongs to the driver, which is declared after the handle and so
        // destroyed after it.
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
            let filler = Filler {
                driver: &driver,
                kernels,
                processors: limits.processors,
            };
            filler.normals(Dtype::Fp32, (flushed, CACHES * cache_bytes), false)?;
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
        // Compiles the kernel now, not before the first timed call.
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

    /// Whether reading this many bytes evicts the first of them from the last-level cache.
    pub(super) fn outgrows_cache(&self, bytes: u64) -> bool {
        bytes >= CACHES * self.cache_bytes
    }

    /// Enqueues a flush of the last-level cache: a read of more than it holds, or a write without
    /// NVRTC.
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
        // SAFETY: the arguments are those of the kernel; it reads what was taken for it and may
        // write one number for each of its at most 512 threads to the sink, which has room for
        // 1024.
        unsafe { launch(&self.driver, &function, shape, &arguments) }
    }

    /// Sets up an operator with as many operand sets as `wanted` says for their size.
    pub(super) fn prepare(
        &self,
        op: &Op,
        rank: u32,
        wanted: impl Fn(u64) -> u64,
    ) -> Result<Prepared> {
        let mut arena = self.arena.clone();
        let algorithm: Box<dyn Algorithm> = match op {
            Op::Gemm(op) => {
                let (handle, workspace) = (&self.cublas, self.workspace);
                Box::new(CublasLtGemm::new(handle, op, rank, workspace, self.one)?)
            }
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
            Op::Collective(_) | Op::Experts(_) => {
                return Err(Error::infeasible(refusal(op)));
            }
        };
        let operands = Placement::new(op, &mut arena, wanted)?;
        Ok(Prepared {
            algorithm,
            operands,
        })
    }

    /// The compiled plan of an attention, cached.
    fn plan(&self, handle: &cudnn::Handle, op: &Attention, rank: u32) -> Result<Rc<cudnn::Plan>> {
        if let Some(plan) = self.plans.borrow().get(&(*op, rank)) {
            return Ok(Rc::clone(plan));
        }
        let plan = Rc::new(cudnn::Plan::new(op, handle, rank)?);
        let mut plans = self.plans.borrow_mut();
        plans.insert((*op, rank), Rc::clone(&plan));
        Ok(plan)
    }

    /// Number of operand sets for a state of the cache: enough to outgrow it, and one more.
    fn sets_for(&self, cache: Cache) -> impl Fn(u64) -> u64 + use<> {
        let bytes = CACHES * self.cache_bytes;
        move |set_bytes| match cache {
            Cache::Hot => 1,
            Cache::Cold => (bytes.div_ceil(set_bytes) + 1).min(MOST_SETS),
        }
    }

    /// Fills the operands with the values for timing.
    fn fill(&self, op: &Op, operands: &Placement) -> Result<()> {
        let driver = &self.driver;
        match &self.kernels {
            Ok(kernels) => Filler {
                driver,
                kernels,
                processors: self.limits.processors,
            }
            .fill(op, operands),
            Err(_) => fill::from_host(driver, op, operands),
        }
    }

    /// Poisons the scratch memory of the algorithm, so that it relies on no earlier content.
    pub(super) fn poison_scratch(&self, operands: &Placement) -> Result<()> {
        let start = self.arena.start();
        let bytes = operands.region().0 - start;
        self.driver.set(start, bytes as usize, check::POISON)
    }

    /// Records that a path cannot be set up, so that its cases are refused.
    pub(super) fn miss(&mut self, op: &Op, reason: String) {
        self.missing.insert(path(op), reason);
    }

    /// Sets up a case, fills its operands and runs it once, so that all modules are loaded before a
    /// capture.
    fn set_up(&self, case: &Case) -> Result<Box<dyn Chain + '_>> {
        let prepared = self.prepare(&case.op, case.rank, self.sets_for(case.cache))?;
        self.fill(&case.op, &prepared.operands)?;
        prepared
            .algorithm
            .enqueue(&self.driver, &prepared.operands, 0)?;
        self.driver.wait()?;
        Ok(Box::new(CudaChain::new(self, prepared, case.cache)))
    }

    /// Multiplies large matrices for this long.
    fn keep_busy(&self, duration: Duration) -> Result<()> {
        let dtype = match self.capability {
            (major, _) if major >= 8 => Dtype::Bf16,
            _ => Dtype::Fp16,
        };
        let square = |size| Op::Gemm(Gemm::square(size, Layout::Tn, dtype));
        let mut op = square(SOAK_SIZE);
        if self.refuses_op(&op, 0).is_some() {
            op = square(SOAK_SIZE / 4);
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

    /// Why an operator cannot run here, if it cannot.
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
            Op::Collective(_) | Op::Experts(_) => Some(refusal(op).to_owned()),
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

/// Size in bytes of the scratch memory known before set-up: backward attention sums the gradients
/// of queries in single precision, once in the graph and once in the plan's workspace.
fn scratch(op: &Op) -> u64 {
    match op {
        Op::Attention(op) if op.pass == Pass::Backward => {
            let queries = op.batch * op.heads * op.seq_q;
            2 * 4 * queries * (op.head_dim + 1)
        }
        _ => 0,
    }
}

/// Why an operator has no kernel of one GPU.
const fn refusal(op: &Op) -> &'static str {
    match op {
        Op::Experts(_) => "fused layers of experts are timed by no kernel of ours",
        _ => "a collective needs more than one GPU",
    }
}

/// Key of the cases that share a kernel or library path, and so run or fail together.
fn path(op: &Op) -> String {
    match op {
        Op::Gemm(op) => format!("gemm {} {}", op.layout, op.dtype),
        Op::Attention(op) => {
            let kind = if op.is_decode() {
                "decode"
            } else {
                "attention"
            };
            let mask = if op.causal { " causal" } else { "" };
            format!("{kind} {}{mask} {}", op.pass, op.dtype)
        }
        Op::Memory(op) => format!("{} {} {}", op.kind, op.pass, op.dtype),
        Op::Collective(op) => op.kind.name().to_owned(),
        Op::Experts(_) => op.kind().name().to_owned(),
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
