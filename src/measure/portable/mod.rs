//! burn's own kernels as a device: on the CPU, and with the feature `wgpu` on any Vulkan, Metal or
//! DX12 GPU.
//!
//! The CPU is timed with the wall clock, a GPU with timestamp queries around the whole chain, which
//! exclude the time of launches on the host. burn chooses the kernel itself and does not report it.

mod chain;
mod check;
mod host;
mod memory;
mod operands;
mod transformer;
#[cfg_attr(not(feature = "wgpu"), path = "absent.rs")]
pub mod wgpu;

use crate::arch::{Architecture, Workload};
use crate::error::Result;
use crate::measure::device::{Chain, Checks, Device, Identity, NotRun, Sensors, Step};
use crate::measure::path::{KernelPath, Refusals};
use crate::ops::{Dtype, Gemm, Layout, Op};
use chain::PortableChain;
use operands::Pool;
use std::time::{Duration, Instant};

/// Version of burn in every row; a test compares it with `Cargo.toml`.
const BURN: &str = "0.22.1";

/// Least size in bytes of the pool that operands are slices of; a larger cache needs more.
const LEAST_POOL: f64 = 64.0 * 1024.0 * 1024.0;

/// Largest size in bytes of the pool: what every adapter binds as one buffer.
const MOST_POOL: f64 = 128.0 * 1024.0 * 1024.0;

/// Largest size in bytes of all operand sets of one case.
const MOST_BYTES: f64 = 1024.0 * 1024.0 * 1024.0;

/// A device of burn.
pub struct Portable {
    device: burn::tensor::Device,
    identity: Identity,
    clock: Clock,
    gemms: SupportedGemms,
    pool: Pool,
    refusals: Refusals,
    opened: Instant,
}

/// GEMMs that are timed.
struct SupportedGemms {
    dtypes: Vec<Dtype>,
    layouts: Vec<Layout>,
    /// Divisor of `n` and `k`, along which operands are stored.
    multiple: u64,
}

impl SupportedGemms {
    /// Why a GEMM in a supported format is not timed.
    fn refuses(&self, op: &Gemm) -> Option<String> {
        let &Self { multiple, .. } = self;
        if !self.layouts.contains(&op.layout) {
            return Some(format!("layout {} is not timed on this backend", op.layout));
        }
        let is_whole = op.n.is_multiple_of(multiple) && op.k.is_multiple_of(multiple);
        (!is_whole).then(|| format!("n and k other than multiples of {multiple} are not timed on this backend"))
    }
}

/// Calls of a chain, to be timed.
type Calls<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Source of the time of a chain.
#[derive(Clone, Copy)]
struct Clock {
    /// Seconds that calls take.
    timed: fn(&burn::tensor::Device, Calls<'_>) -> Result<f64>,
    /// Whether a call returns after it has run.
    waits: bool,
    /// Largest number of operand sets: on the CPU they are views without cost, on a GPU copies, of which a chain of 64 calls
    /// uses 64.
    most_sets: f64,
}

/// The wall clock from call to return.
const WALL: Clock = Clock {
    timed: |_, calls| {
        let begin = Instant::now();
        calls();
        Ok(begin.elapsed().as_secs_f64())
    },
    waits: true,
    most_sets: 4096.0,
};

/// The device of this kind: the CPU, or the GPU of this number through wgpu.
pub fn device(kind: &str, number: u32) -> Result<Box<dyn Device>> {
    match kind {
        "cpu" => Ok(Box::new(cpu())),
        _ => wgpu::device(kind, number),
    }
}

/// The CPU of this machine with burn's CPU backend.
pub fn cpu() -> Portable {
    let gemms = SupportedGemms {
        dtypes: vec![Dtype::Fp32],
        layouts: Layout::ALL.to_vec(),
        multiple: 1,
    };
    host::keep_freed_memory();
    let identity = host::identity(format!("burn-flex {BURN}"));
    Portable::new(burn::tensor::Device::flex(), identity, WALL, gemms)
}

impl Portable {
    fn new(device: burn::tensor::Device, identity: Identity, clock: Clock, gemms: SupportedGemms) -> Self {
        let bytes = cold_bytes(&identity).clamp(LEAST_POOL, MOST_POOL);
        let pool = Pool::new(&device, bytes as usize / size_of::<f32>(), &gemms.dtypes);
        Self {
            device,
            identity,
            clock,
            gemms,
            pool,
            refusals: Refusals::default(),
            opened: Instant::now(),
        }
    }
}

/// Total size in bytes of the operand sets of a cold chain: three times the last-level cache.
fn cold_bytes(identity: &Identity) -> f64 {
    3.0 * identity.driver.cache_bytes.unwrap_or(0.0)
}

impl Device for Portable {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn refuses(&self, op: &Op) -> Option<String> {
        let Some(dtype) = op.dtype() else {
            return Some("collectives need several devices".to_owned());
        };
        if !self.gemms.dtypes.contains(&dtype) {
            return Some(format!("{dtype} is not timed on this backend"));
        }
        if let Op::Gemm(op) = op
            && let Some(reason) = self.gemms.refuses(op)
        {
            return Some(reason);
        }
        let refused = operands::refuses(op).or_else(|| self.refusals.reason(op));
        refused.or_else(|| {
            let is_large = op.bytes().bytes() > MOST_BYTES;
            is_large.then(|| "the operands are larger than 1 GiB".to_owned())
        })
    }

    fn open(&mut self, op: &Op) -> Result<Box<dyn Chain + '_>> {
        Ok(Box::new(PortableChain::open(self, op)?))
    }

    fn open_step(&mut self, architecture: &Architecture, workload: &Workload) -> Result<Box<Step<'_>>> {
        transformer::open(&self.device, architecture, workload)
    }

    fn check(&mut self, formats: &[Dtype]) -> Result<Checks> {
        let mut checks = Checks::default();
        for op in check::ops(&self.gemms, formats) {
            match check::check(&self.device, &op) {
                Ok(checked) => checks.compared.push(checked),
                Err(error) => checks.not_run.push(NotRun {
                    path: KernelPath::of(&op),
                    name: op.to_string(),
                    reason: error.to_string(),
                }),
            }
        }
        Ok(checks)
    }

    fn refuse(&mut self, path: KernelPath, reason: String) {
        self.refusals.add(path, reason);
    }

    fn soak(&mut self, duration: Duration) -> Result<()> {
        let begin = Instant::now();
        let (layout, dtype) = (self.gemms.layouts[0], self.gemms.dtypes[0]);
        let busy = Op::Gemm(Gemm::square(768, layout, dtype));
        let mut chain = PortableChain::open(self, &busy)?;
        while begin.elapsed() < duration {
            chain.trial()?;
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn sensors(&self) -> Sensors {
        // No portable interface reports power or temperature.
        Sensors::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attention, Memory, MemoryKind, Pass};

    fn square(size: u64, dtype: Dtype) -> Op {
        Op::Gemm(Gemm::square(size, Layout::Tn, dtype))
    }

    #[test]
    fn the_version_of_burn_is_the_one_that_is_built_in() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("burn = {{ version = \"={BURN}\"")));
    }

    #[test]
    fn every_path_of_the_cpu_agrees_with_the_reference() {
        let mut device = cpu();
        let checks = device.check(&Dtype::ELEMENTS).unwrap();
        let paths = &checks.compared;
        assert!(paths.len() > 30 && checks.not_run.is_empty(), "{checks:?}");
        assert!(paths.iter().all(|path| !path.is_wrong()), "{paths:?}");
        // What is offered is what is compared.
        for layout in ["tn", "nn", "nt", "tt"] {
            let name = format!("gemm {layout}");
            assert!(paths.iter().any(|path| path.name.contains(layout)), "{name}");
        }
    }

    #[test]
    fn what_burn_does_not_run_is_refused_with_a_reason() {
        let mut device = cpu();
        assert_eq!(device.refuses(&square(63, Dtype::Fp32)), None);
        device.gemms.multiple = 8;
        let refusal = |op: &Op| device.refuses(op).unwrap();
        assert!(refusal(&square(63, Dtype::Fp32)).contains("multiples of 8"));
        assert_eq!(device.refuses(&square(64, Dtype::Fp32)), None);
        assert!(refusal(&square(64, Dtype::Bf16)).contains("bf16"));
        assert!(refusal(&square(1 << 15, Dtype::Fp32)).contains("1 GiB"));
        let attention = Attention {
            kv_heads: 2,
            dtype: Dtype::Fp32,
            ..Attention::new(1, 8, 64, 64)
        };
        assert!(refusal(&Op::Attention(attention)).contains("heads"));
        let masked = Attention {
            kv_heads: 8,
            window: 16,
            ..attention
        };
        assert!(refusal(&Op::Attention(masked)).contains("masks"));
        let dropout = Memory {
            kind: MemoryKind::Dropout,
            rows: 8,
            cols: 8,
            pass: Pass::Backward,
            dtype: Dtype::Fp32,
        };
        assert!(refusal(&Op::Memory(dropout)).contains("dropout backward"));
    }

    #[test]
    fn a_backward_call_counts_what_it_takes_beside_the_forward_one() {
        let mut device = cpu();
        let norm = |pass| Memory {
            kind: MemoryKind::LayerNorm,
            rows: 512,
            cols: 512,
            pass,
            dtype: Dtype::Fp32,
        };
        let mut least = |pass| {
            let mut chain = device.open(&Op::Memory(norm(pass))).unwrap();
            let trials = (0..9).map(|_| chain.trial().unwrap().secs());
            trials.fold(f64::INFINITY, f64::min)
        };
        let (forward, backward) = (least(Pass::Forward), least(Pass::Backward));
        assert!(forward > 0.0 && backward > forward, "{forward} {backward}");
    }

    #[test]
    fn a_chain_takes_longer_the_more_calls_it_has() {
        let mut device = cpu();
        let mut chain = device.open(&square(96, Dtype::Fp32)).unwrap();
        chain.trial().unwrap();
        let mut least = |calls| {
            chain.record(calls).unwrap();
            let replays = (0..9).map(|_| chain.replay().unwrap().elapsed.secs());
            replays.fold(f64::INFINITY, f64::min)
        };
        let (one, many) = (least(1), least(32));
        assert!(one > 0.0 && many > 4.0 * one, "{one} {many}");
    }
}
