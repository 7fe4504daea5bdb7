//! burn's own kernels as a device: on the CPU, and with the feature `wgpu` on any Vulkan, Metal or DX12 GPU.
//!
//! The CPU is timed with the wall clock, a GPU with timestamp queries around the whole chain, so that the time in which
//! the host prepares launches does not count. burn chooses the kernel itself and does not say which.

mod chain;

mod check;

mod host;

mod operands;

#[cfg(feature = "wgpu")]
mod wgpu;

#[cfg(feature = "wgpu")]
pub use wgpu::open as wgpu;

use crate::error::Result;
use crate::measure::device::Case;
use crate::measure::device::Chain;
use crate::measure::device::Checked;
use crate::measure::device::Device;
use crate::measure::device::Identity;
use crate::measure::device::Sensors;
use crate::measure::portable::chain::PortableChain;
use crate::measure::portable::operands::Pool;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::ops::Op;

use std::time::Duration;
use std::time::Instant;

/// The version of burn that every row names; a test holds it against `Cargo.toml`.
const BURN: &str = "0.22.1";

/// Bytes of the pool that operands are cut from, where the cache is not larger.
const LEAST_POOL: f64 = 64.0 * 1024.0 * 1024.0;

/// Most bytes of the pool: what every adapter binds as one buffer.
const MOST_POOL: f64 = 128.0 * 1024.0 * 1024.0;

/// Most bytes that the operand sets of one case take together.
const MOST_BYTES: f64 = 1024.0 * 1024.0 * 1024.0;

/// What a device computes with and how its time is taken.
pub struct Portable {
    device: burn::tensor::Device,
    identity: Identity,
    clock: Clock,
    forms: Forms,
    pool: Pool,
    opened: Instant,
}

/// The products that are timed.
struct Forms {
    dtypes: Vec<Dtype>,
    layouts: Vec<Layout>,
    /// What `n` and `k`, along which operands are stored, are multiples of.
    multiple: u64,
}

impl Forms {
    /// Why a product in one of the formats is not timed, in words for a count of skipped cases.
    fn refuses(&self, op: &Gemm) -> Option<String> {
        let &Self { multiple, .. } = self;
        if !self.layouts.contains(&op.layout) {
            return Some(format!(
                "layout {} is not timed on this backend",
                op.layout.name()
            ));
        }
        let is_whole = op.n.is_multiple_of(multiple) && op.k.is_multiple_of(multiple);
        (!is_whole).then(|| {
            format!("n and k other than multiples of {multiple} are not timed on this backend")
        })
    }
}

/// How the time of a chain is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// From call to return: everything has run when the last call returns.
    Wall,
    /// By timestamps that the device writes before the first call and after the last.
    #[cfg(feature = "wgpu")]
    Device,
}

/// The CPU of this machine with burn's CPU backend.
pub fn cpu() -> Portable {
    let stack = format!("burn-flex {BURN}");
    let identity = host::identity(stack);
    Portable::new(
        burn::tensor::Device::flex(),
        identity,
        Clock::Wall,
        Forms {
            dtypes: vec![Dtype::Fp32],
            layouts: Layout::ALL.to_vec(),
            multiple: 1,
        },
    )
}

impl Portable {
    fn new(device: burn::tensor::Device, identity: Identity, clock: Clock, forms: Forms) -> Self {
        let bytes = cold_bytes(&identity).clamp(LEAST_POOL, MOST_POOL);
        let pool = Pool::new(&device, bytes as usize / size_of::<f32>(), &forms.dtypes);
        Self {
            device,
            identity,
            clock,
            forms,
            pool,
            opened: Instant::now(),
        }
    }
}

/// Bytes of operands that a chain of cold calls rotates over: three times the last-level cache.
fn cold_bytes(identity: &Identity) -> f64 {
    3.0 * identity.facts.cache_bytes.unwrap_or(0.0)
}

impl Device for Portable {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn refuses(&self, case: &Case) -> Option<String> {
        if case.rank > 0 {
            return Some("burn chooses its algorithm itself".to_owned());
        }
        let Some(dtype) = case.op.dtype() else {
            return Some("collectives need several devices".to_owned());
        };
        if !self.forms.dtypes.contains(&dtype) {
            return Some(format!("{} is not timed on this backend", dtype.name()));
        }
        if let Op::Gemm(op) = &case.op
            && let Some(reason) = self.forms.refuses(op)
        {
            return Some(reason);
        }
        if let Some(reason) = operands::refuses(&case.op) {
            return Some(reason);
        }
        (case.op.bytes().bytes() > MOST_BYTES)
            .then(|| "the operands are larger than 1 GiB".to_owned())
    }

    fn open(&mut self, case: &Case) -> Result<Box<dyn Chain + '_>> {
        Ok(Box::new(PortableChain::open(self, case)?))
    }

    fn check(&mut self) -> Result<Vec<Checked>> {
        let ops = check::ops(&self.forms);
        ops.iter()
            .map(|op| check::check(&self.device, op))
            .collect()
    }

    fn soak(&mut self, duration: Duration) -> Result<()> {
        let begin = Instant::now();
        let busy = Case {
            op: Op::Gemm(Gemm::square(
                768,
                self.forms.layouts[0],
                self.forms.dtypes[0],
            )),
            cache: crate::measure::device::Cache::Hot,
            rank: 0,
        };
        let mut chain = PortableChain::open(self, &busy)?;
        while begin.elapsed() < duration {
            chain.trial()?;
        }
        Ok(())
    }

    fn rest(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn sensors(&self) -> Sensors {
        // No portable interface tells power or temperature.
        Sensors::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::device::Cache;
    use crate::ops::Attention;
    use crate::ops::Memory;
    use crate::ops::MemoryKind;
    use crate::ops::Pass;

    fn product(size: u64, dtype: Dtype) -> Case {
        Case {
            op: Op::Gemm(Gemm::square(size, Layout::Tn, dtype)),
            cache: Cache::Cold,
            rank: 0,
        }
    }

    #[test]
    fn the_version_of_burn_is_the_one_that_is_built_in() {
        let manifest = include_str!("../../../Cargo.toml");
        assert!(manifest.contains(&format!("burn = {{ version = \"={BURN}\"")));
    }

    #[test]
    fn every_path_of_the_cpu_agrees_with_the_reference() {
        let mut device = cpu();
        let paths = device.check().unwrap();
        assert!(paths.len() > 10, "{paths:?}");
        for path in &paths {
            assert!(path.error <= path.allowed, "{path:?}");
        }
        // What is offered is what is compared.
        for layout in ["tn", "nn", "nt", "tt"] {
            let name = format!("gemm {layout}");
            assert!(
                paths.iter().any(|path| path.path.contains(layout)),
                "{name}"
            );
        }
    }

    #[test]
    fn what_burn_does_not_run_is_refused_with_a_reason() {
        let mut device = cpu();
        assert_eq!(device.refuses(&product(63, Dtype::Fp32)), None);
        device.forms.multiple = 8;
        let refusal = |case: &Case| device.refuses(case).unwrap();
        assert!(refusal(&product(63, Dtype::Fp32)).contains("multiples of 8"));
        assert_eq!(device.refuses(&product(64, Dtype::Fp32)), None);
        assert!(refusal(&product(64, Dtype::Bf16)).contains("bf16"));
        assert!(refusal(&product(1 << 15, Dtype::Fp32)).contains("1 GiB"));
        let second = Case {
            rank: 1,
            ..product(64, Dtype::Fp32)
        };
        assert!(refusal(&second).contains("algorithm"));
        let attention = Attention {
            batch: 1,
            heads: 8,
            kv_heads: 2,
            seq_q: 64,
            seq_kv: 64,
            head_dim: 64,
            value_dim: 64,
            causal: true,
            window: 0,
            pass: Pass::Forward,
            dtype: Dtype::Fp32,
        };
        let of = |op| Case {
            op,
            cache: Cache::Cold,
            rank: 0,
        };
        assert!(refusal(&of(Op::Attention(attention))).contains("heads"));
        let backward = Attention {
            kv_heads: 8,
            pass: Pass::Backward,
            ..attention
        };
        assert!(refusal(&of(Op::Attention(backward))).contains("backward"));
        let adam = Memory {
            kind: MemoryKind::Adam,
            rows: 8,
            cols: 8,
            pass: Pass::Forward,
            dtype: Dtype::Fp32,
        };
        assert!(refusal(&of(Op::Memory(adam))).contains("adam"));
    }

    #[test]
    fn a_chain_takes_longer_the_more_calls_it_has() {
        let mut device = cpu();
        let mut chain = device.open(&product(96, Dtype::Fp32)).unwrap();
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
