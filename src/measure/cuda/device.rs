//! A CUDA device.

use super::algorithm::Algorithm;
use super::attention::FlashAttention;
use super::chain::CudaChain;
use super::clock::Stamps;
use super::compile::Source;
use super::cudnn;
use super::driver::{Driver, failed};
use super::fill::{self, Filled, Filler};
use super::gemm::{self, CublasLtGemm};
use super::guarded;
use super::identity::{bus, identity};
use super::launch::Argument::{Address, Count, Word};
use super::launch::{Kernels, Shape, launch};
use super::libraries::Library;
use super::memory::{self, Limits, MemoryBound};
use super::placement::{Arena, Placement, too_large};
use super::sensor::{Sampler, Sensor};
use crate::dataset::Kernel;
use crate::error::{Error, Result};
use crate::measure::choices::OpenChooser;
use crate::measure::cuda::check;
use crate::measure::device::{Chain, Checks, Device, Identity, Replay, Sensors};
use crate::measure::path::{KernelPath, Refusals};
use crate::ops::{Attention, Dtype, Gemm, Layout, Op, Pass};
use crate::units::Seconds;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Largest number of operand sets that calls rotate over; chains are no longer.
const MOST_SETS: u64 = 64;

/// Traffic between two uses of a cold operand, in multiples of the last-level cache.
const CACHES: u64 = 3;

/// Assumed size of the last-level cache where the driver does not report it.
const USUAL_CACHE_BYTES: u64 = 50 << 20;

/// Step by which the operands of a draw are shifted, in bytes: an odd number of 256.
const SHIFT_BYTES: u64 = 17 * 256;

/// Size of the square GEMM that warms the device up.
const SOAK_SIZE: u64 = 8192;

/// An open device and its libraries.
pub struct CudaDevice {
    // Fields are dropped in order: what refers to the driver before it.
    cublas: Rc<gemm::Handle>,
    /// Where there is cuDNN.
    plans: Option<cudnn::Plans>,
    cudnn: std::result::Result<Rc<cudnn::Handle>, String>,
    stamps: Option<Stamps>,
    kernels: std::result::Result<Kernels, String>,
    sensor: Option<Sampler>,
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
    /// What of it holds normals.
    filled: RefCell<Filled>,
    /// Draw of the operands.
    draw: u64,
    /// Paths that are wrong or missing.
    refusals: Refusals,
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
        let reported = |attribute| driver.attribute(attribute);
        let capability = (
            reported(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).unwrap_or(0) as i32,
            reported(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).unwrap_or(0) as i32,
        );
        let processors = reported(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        let cache = reported(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
        let shared = reported(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        let limits = Limits {
            processors: processors.unwrap_or(1),
            // A kilobyte is left for the static shared memory of kernels.
            shared_bytes: shared.unwrap_or(48 << 10).saturating_sub(1 << 10),
        };
        let cache_bytes = cache.unwrap_or(USUAL_CACHE_BYTES);
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
        // A compiler that is there but does not work costs our kernels, not the library's GEMMs.
        let compiled = guarded(|| {
            let kernels = Kernels::new(capability.0, capability.1)?;
            let stamps = Stamps::new(&driver, &kernels, stamp)?;
            let filler = Filler {
                driver: &driver,
                kernels: &kernels,
                processors: limits.processors,
            };
            filler.normals((Dtype::Fp32, 0), (flushed, CACHES * cache_bytes), false)?;
            driver.wait()?;
            Ok((kernels, stamps))
        });
        let (kernels, stamps) = match compiled {
            Ok((kernels, stamps)) => (Ok(kernels), Some(stamps)),
            Err(error) => (Err(error.to_string()), None),
        };
        let sensor = bus(&driver).and_then(|bus| Sensor::open(&bus));
        let identity = identity(&driver, sensor.as_ref(), cudnn.is_ok())?;
        let mut device = Self {
            cublas,
            plans: cudnn.is_ok().then(|| cudnn::Plans::new(driver.context())),
            cudnn,
            stamps,
            kernels,
            sensor: sensor.map(Sampler::of),
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
            filled: RefCell::default(),
            draw: 0,
            refusals: Refusals::default(),
            opened: Instant::now(),
        };
        // Compiles the kernel now, not before the first timed call.
        if let Err(error) = device.flush() {
            device.kernels = Err(error.to_string());
            device.stamps = None;
            device.flush()?;
        }
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

    /// Sets up an operator with as many operand sets as `wanted` says for their size, one behind
    /// the other.
    pub(super) fn prepare(&self, op: &Op, wanted: impl Fn(u64) -> u64) -> Result<Prepared> {
        // The caller may overwrite inputs of cases.
        self.filled.borrow_mut().clear();
        let mut arena = self.arena.clone();
        Ok(Prepared {
            algorithm: self.algorithm(op, &mut arena)?,
            operands: Placement::new(op, &mut arena, wanted)?,
        })
    }

    /// Sets up an operator with filled operands; it shares what it only reads with others.
    fn arrange(&self, op: &Op) -> Result<Prepared> {
        let mut arena = self.arena.clone();
        let draw = (fill::format_of(op), self.draw);
        let home = self.home(draw.0);
        // Another draw lies elsewhere, which changes its channels of memory and sets of the cache.
        let shift = match self.draw {
            0 => 0,
            draw => (1 + draw % 61) * SHIFT_BYTES,
        };
        arena.take(shift)?;
        let algorithm = self.algorithm(op, &mut arena)?;
        // Enough sets to outgrow the cache, and one more.
        let bytes = CACHES * self.cache_bytes;
        let wanted = |set_bytes| (bytes.div_ceil(set_bytes) + 1).min(MOST_SETS);
        let operands = Placement::sharing(op, &mut arena, home + shift, wanted)?;
        let (own, shared) = (operands.region(), operands.shared());
        let mut filled = self.filled.borrow_mut();
        // Scratch memory of the algorithm lies before the operands.
        filled.forget(&(self.arena.start()..own.0 + own.1));
        let missing = filled.claim(draw, shared);
        let done = self.fill(op, &operands, draw, (missing.start, missing.end - missing.start));
        if done.is_err() {
            filled.clear();
        }
        done.map(|()| Prepared { algorithm, operands })
    }

    /// Where the shared inputs of a format begin: apart, so that formats by turns find theirs.
    fn home(&self, dtype: Dtype) -> u64 {
        let place = match dtype {
            Dtype::Bf16 => 0,
            Dtype::Fp8 => 1,
            Dtype::Fp16 => 2,
            _ => 3,
        };
        self.arena.start() + self.arena.left() / 16 * (4 + 3 * place)
    }

    /// Fills what is missing of the shared inputs, and what the operator has of its own.
    fn fill(&self, op: &Op, operands: &Placement, draw: fill::Draw, missing: (u64, u64)) -> Result<()> {
        let Ok(kernels) = &self.kernels else {
            return fill::from_host(&self.driver, draw, missing);
        };
        let filler = Filler {
            driver: &self.driver,
            kernels,
            processors: self.limits.processors,
        };
        if missing.1 > 0 {
            filler.normals(draw, missing, false)?;
        }
        filler.fill_own(op, operands, draw.1)
    }

    /// The library or kernel for an operator, with its scratch memory.
    fn algorithm(&self, op: &Op, arena: &mut Arena) -> Result<Box<dyn Algorithm>> {
        Ok(match op {
            Op::Gemm(op) => Box::new(CublasLtGemm::new(&self.cublas, op, self.workspace, self.one)?),
            Op::Attention(op) => {
                let handle = self.cudnn.as_ref();
                let handle = handle.map_err(|reason| Error::infeasible(reason.clone()))?;
                let plan = match &self.plans {
                    Some(plans) => plans.plan(handle, op)?,
                    None => Rc::new(cudnn::Plan::new(op, handle)?),
                };
                Box::new(FlashAttention::new(handle, plan, arena)?)
            }
            Op::Memory(op) => {
                let kernels = self.kernels.as_ref();
                let kernels = kernels.map_err(|reason| Error::infeasible(reason.clone()))?;
                let (driver, limits) = (&self.driver, self.limits);
                Box::new(MemoryBound::new(op, driver, kernels, limits, arena)?)
            }
            op => return Err(Error::infeasible(refusal(op))),
        })
    }

    /// Poisons the scratch memory of the algorithm, so that it relies on no earlier content.
    pub(super) fn poison_scratch(&self, operands: &Placement) -> Result<()> {
        let start = self.arena.start();
        let bytes = operands.region().0 - start;
        self.driver.set(start, bytes as usize, check::POISON)
    }

    /// Sets up an operator and runs it once, so that all modules are loaded before a capture.
    fn set_up(&self, op: &Op) -> Result<Box<dyn Chain + '_>> {
        let run = || {
            let prepared = self.arrange(op)?;
            let (driver, operands) = (&self.driver, &prepared.operands);
            prepared.algorithm.enqueue(driver, operands, 0)?;
            driver.wait()?;
            Ok(prepared)
        };
        let mut prepared = run();
        if let (Err(_), Some(plans), Ok(handle), Some(key)) = (&prepared, &self.plans, &self.cudnn, plan_of(op))
            && plans.renew(handle, &key).is_ok()
        {
            prepared = run();
        }
        Ok(Box::new(CudaChain::new(self, prepared?)))
    }

    /// Multiplies large matrices for this long.
    fn keep_busy(&self, duration: Duration) -> Result<()> {
        if duration.is_zero() {
            return Ok(());
        }
        let dtype = match self.capability {
            (major, _) if major >= 8 => Dtype::Bf16,
            _ => Dtype::Fp16,
        };
        let square = |size| Op::Gemm(Gemm::square(size, Layout::Tn, dtype));
        let mut op = square(SOAK_SIZE);
        if self.refuses_op(&op).is_some() {
            op = square(SOAK_SIZE / 4);
        }
        let prepared = self.arrange(&op)?;
        let begin = Instant::now();
        while begin.elapsed() < duration {
            for _ in 0..20 {
                prepared.algorithm.enqueue(&self.driver, &prepared.operands, 0)?;
            }
            self.driver.wait()?;
        }
        Ok(())
    }

    /// Why an operator cannot run here, if it cannot.
    pub(super) fn refuses_op(&self, op: &Op) -> Option<String> {
        let refused = match op {
            Op::Gemm(op) => gemm::refuses(op, self.capability),
            Op::Attention(op) => match (&self.cudnn, &self.kernels) {
                (Err(reason), _) | (_, Err(reason)) => Some(reason.clone()),
                _ => cudnn::refuses(op).or_else(|| cudnn::refuses_release(op)),
            },
            Op::Memory(op) => match &self.kernels {
                Err(reason) => Some(reason.clone()),
                Ok(_) => memory::refuses(op, self.limits),
            },
            _ => Some(refusal(op)),
        };
        refused.or_else(|| self.refusals.reason(op)).or_else(|| {
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
fn refusal(op: &Op) -> String {
    match op {
        Op::Collective(_) => "a collective needs more than one GPU".to_owned(),
        other => format!("no kernel of ours times {}", other.kind()),
    }
}

/// Key of the plan of an operator, if it is attention.
fn plan_of(op: &Op) -> Option<Attention> {
    match *op {
        Op::Attention(op) => Some(op),
        _ => None,
    }
}

/// A chain whose calls turn a panic of the bindings into an error.
struct Guarded<'a>(Box<dyn Chain + 'a>);

impl Chain for Guarded<'_> {
    fn trial(&mut self) -> Result<Seconds> {
        guarded(|| self.0.trial())
    }

    fn record(&mut self, calls: u32) -> Result<()> {
        guarded(|| self.0.record(calls))
    }

    fn replay(&mut self) -> Result<Replay> {
        guarded(|| self.0.replay())
    }

    fn kernel(&self) -> Option<Kernel> {
        self.0.kernel()
    }
}

impl Device for CudaDevice {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn refuses(&self, op: &Op) -> Option<String> {
        self.refuses_op(op)
    }

    fn open(&mut self, op: &Op) -> Result<Box<dyn Chain + '_>> {
        let chain = guarded(|| self.set_up(op))?;
        Ok(Box::new(Guarded(chain)))
    }

    fn chooser(&self) -> Result<OpenChooser> {
        let context = Arc::clone(self.driver.context());
        let (capability, workspace, one) = (self.capability, self.workspace, self.one);
        Ok(Box::new(move || {
            context.bind_to_thread().map_err(failed("bind its context"))?;
            let handle = gemm::Handle::new()?;
            Ok(Box::new(move |op: &Gemm| {
                if let Some(reason) = gemm::refuses(op, capability) {
                    return Err(Error::infeasible(reason));
                }
                let chosen = guarded(|| CublasLtGemm::new(&handle, op, workspace, one))?;
                chosen
                    .kernel()
                    .ok_or_else(|| Error::infeasible("cuBLASLt names no kernel"))
            }))
        }))
    }

    fn check(&mut self, formats: &[Dtype]) -> Result<Checks> {
        check::run(self, formats)
    }

    fn refuse(&mut self, path: KernelPath, reason: String) {
        self.refusals.add(path, reason);
    }

    /// Runs something harmless: after an error that the driver keeps, no call succeeds.
    fn lost(&mut self) -> Option<String> {
        let harmless = || {
            guarded(|| {
                self.driver.set(self.sink, 4, 0)?;
                self.driver.wait()
            })
        };
        // The first answer may be the error of an earlier call.
        harmless().or_else(|_| harmless()).err().map(|error| {
            let title = &self.identity.driver.title;
            format!("the device ({title}) is lost: {error}")
        })
    }

    fn soak(&mut self, duration: Duration) -> Result<()> {
        guarded(|| self.keep_busy(duration))
    }

    fn look_ahead(&mut self, ops: &mut dyn Iterator<Item = &Op>) {
        if let Some(plans) = &self.plans {
            plans.look_ahead(ops.filter_map(plan_of));
        }
    }

    fn is_ready(&self, op: &Op) -> bool {
        let plan = self.plans.as_ref().zip(plan_of(op));
        plan.is_none_or(|(plans, key)| plans.is_ready(&key))
    }

    fn redraw(&mut self, draw: u64) {
        self.draw = draw;
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn sensors(&self) -> Sensors {
        self.sensor.as_ref().map(Sampler::latest).unwrap_or_default()
    }
}
