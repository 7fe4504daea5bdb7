//! What can be timed, and what times it: one small trait for CUDA, wgpu and the CPU.
//!
//! A device sets up operators and runs chains of calls; statistics, order and repetition are those
//! of [`protocol`](crate::measure::protocol), which is the same for all devices.

use super::choices::OpenChooser;
use super::path::KernelPath;
use crate::arch::{Architecture, Workload};
use crate::dataset::{Cache, Kernel, line};
use crate::error::{Error, Result};
use crate::ops::{Dtype, Op};
use crate::units::{Hertz, Seconds};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Canonical text of an operator that is timed: a JSON object of its columns in our tables, sorted by name.
///
/// Shards and journals identify a case by it, so it must not change between versions.
pub fn canonical(op: &Op) -> String {
    let mut columns: BTreeMap<String, Value> = line::operator(op).into_iter().collect();
    // Every case has cold operands and takes the library's first algorithm.
    columns.insert("cache".to_owned(), Cache::Cold.name().into());
    columns.insert("rank".to_owned(), 0.into());
    serde_json::to_string(&columns).expect("names and numbers are JSON")
}

/// The device and the software that are measured; equal for all rows of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Name of the device in `data/gpus`, or one derived from the name that the driver reports.
    pub gpu: String,
    /// Software that runs the operators, with its version (`cublaslt 13.1.0 cudnn 9.14.0`).
    pub stack: String,
    /// Versions below the stack: driver, cuDNN, NVRTC, adapter.
    pub libraries: String,
    /// Files of these libraries; two runs of one version may have them in different places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Properties that the driver reports.
    pub driver: DriverInfo,
}

/// Properties that a driver reports of its device; absent where it does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverInfo {
    /// Product name as the driver spells it.
    pub title: String,
    /// Streaming multiprocessors, compute units or cores.
    pub processors: Option<u64>,
    /// Maximum clock of a processor.
    pub clock_hz: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: Option<f64>,
    /// Last-level cache in bytes.
    pub cache_bytes: Option<f64>,
}

/// Time of one replay of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replay {
    /// From the start of the first call to the end of the last.
    pub elapsed: Seconds,
    /// Processor clock during the replay, where the device reports it.
    pub clock: Option<Hertz>,
}

/// Readings of the device's sensors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sensors {
    /// Board power in watts.
    pub power_watts: Option<f64>,
    /// Temperature of the chip in degrees Celsius.
    pub temperature_celsius: Option<f64>,
    /// What holds the clock back.
    pub clock_reasons: Option<ClockReasons>,
}

/// What holds the clock of a device back: the bits of NVML's `nvmlClocksEventReasons`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReasons(pub u64);

impl fmt::Display for ClockReasons {
    /// The names of the bits, joined by `+`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 9] = [
            "idle",
            "application_clocks",
            "sw_power_cap",
            "hw_slowdown",
            "sync_boost",
            "sw_thermal_slowdown",
            "hw_thermal_slowdown",
            "hw_power_brake",
            "display_clocks",
        ];
        let set = (0..64).filter(|bit| self.0 >> bit & 1 == 1);
        let names: Vec<_> = set
            .map(|bit| match NAMES.get(bit) {
                Some(name) => (*name).to_owned(),
                None => format!("bit_{bit}"),
            })
            .collect();
        f.pad(&match names.is_empty() {
            true => "none".to_owned(),
            false => names.join("+"),
        })
    }
}

/// One output of an operator compared with the reference on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Kernel or library path.
    pub path: KernelPath,
    /// Path, shape and output (`rms_norm forward bf16 7x129 y`).
    pub name: String,
    /// Relative error: norm of the difference over norm of the reference.
    pub error: f64,
    /// Largest error that passes.
    pub allowed: f64,
}

impl Checked {
    /// Whether the result disagrees with the reference.
    pub fn is_wrong(&self) -> bool {
        self.error.is_nan() || self.error > self.allowed
    }
}

/// An operator of the checks that a library did not set up or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRun {
    /// Kernel or library path.
    pub path: KernelPath,
    /// Path and shape.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Outcome of the checks of a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    /// Outputs that were compared.
    pub compared: Vec<Checked>,
    /// Operators that did not run.
    pub not_run: Vec<NotRun>,
}

/// A device that runs operators and reports their time.
pub trait Device {
    /// The device and its software.
    fn identity(&self) -> &Identity;

    /// Why this operator cannot run here (format, size, missing library), as a reason for the count of
    /// skipped cases.
    fn refuses(&self, op: &Op) -> Option<String>;

    /// Sets up the operands, finds the algorithm and runs the operator once; the chain owns all of it.
    fn open(&mut self, op: &Op) -> Result<Box<dyn Chain + '_>>;

    /// Sets up one transformer step of a framework on one GPU; each run of it returns its wall time.
    fn open_step(&mut self, _architecture: &Architecture, _workload: &Workload) -> Result<Box<Step<'_>>> {
        Err(Error::infeasible("no framework runs whole steps on this device"))
    }

    /// What answers on any thread which kernel the library puts first for a GEMM.
    fn chooser(&self) -> Result<OpenChooser> {
        Err(Error::infeasible(
            "the library of this device does not report which kernel it chooses",
        ))
    }

    /// Compares every kernel and library path in these formats with the reference on the CPU, on
    /// small random shapes with poisoned outputs; the error of a wrong path exceeds what is allowed.
    ///
    /// # Errors
    ///
    /// Fails only where the device is lost; what a library does not run is in [`Checks::not_run`].
    fn check(&mut self, formats: &[Dtype]) -> Result<Checks>;

    /// Refuses all cases of a path from now on, for this reason.
    fn refuse(&mut self, path: KernelPath, reason: String);

    /// Why the device is lost; `None` if only the last case failed. Called after a failure.
    fn lost(&mut self) -> Option<String> {
        None
    }

    /// Keeps the device busy for this long, so that clocks and temperature settle.
    fn soak(&mut self, duration: Duration) -> Result<()>;

    /// Announces what is opened next, so that what is slow to set up can be set up in the
    /// background.
    fn look_ahead(&mut self, _ops: &mut dyn Iterator<Item = &Op>) {}

    /// Whether opening this operator would not wait for work in the background.
    fn is_ready(&self, _op: &Op) -> bool {
        true
    }

    /// Has the cases that are opened from now on use the operands of this draw: other values at
    /// other addresses for another number.
    fn redraw(&mut self, _draw: u64) {}

    /// Time since the device was opened; a scripted device has a clock of its own.
    fn now(&self) -> Duration;

    /// Current readings of the sensors.
    fn sensors(&self) -> Sensors;
}

/// A case that is set up.
pub trait Chain {
    /// Time of one call on its own.
    fn trial(&mut self) -> Result<Seconds>;

    /// Records a chain of this many calls, at least one; it replaces an earlier chain.
    fn record(&mut self, calls: u32) -> Result<()>;

    /// Runs the chain once and waits for it.
    fn replay(&mut self) -> Result<Replay>;

    /// The algorithm that runs, where the library reports it.
    fn kernel(&self) -> Option<Kernel>;
}

/// Runs a whole step once and returns its wall time.
pub type Step<'a> = dyn FnMut() -> Result<Seconds> + 'a;

/// A device name in our spelling from a product name: `NVIDIA RTX 6000 Ada` becomes
/// `nvidia-rtx-6000-ada`; trademark signs and clocks (`@ 2.00GHz`) are dropped.
pub fn device_name(title: &str) -> String {
    let title = title.replace("(R)", " ").replace("(TM)", " ");
    let title = title.split('@').next().unwrap_or_default();
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => "unnamed".to_owned(),
        false => words.join("-").to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attention, Gemm};
    use crate::shard::Shard;

    /// Journals and shards of earlier runs rely on these texts.
    #[test]
    fn the_canonical_text_of_a_case_names_its_columns_in_order() {
        let gemm = Op::Gemm(Gemm::new(7, 8, 9));
        assert_eq!(
            canonical(&gemm),
            r#"{"batch":1,"cache":"cold","dtype":"bf16","family":"gemm","k":9,"layout":"tn","m":7,"n":8,"rank":0}"#
        );
        let attention = Op::Attention(Attention::new(1, 8, 128, 64));
        assert_eq!(
            canonical(&attention),
            r#"{"batch":1,"cache":"cold","causal":true,"dtype":"bf16","family":"attention","head_dim":64,"heads":8,"kv_heads":8,"pass":"forward","rank":0,"seq_kv":128,"seq_q":128,"value_dim":64,"window":0}"#
        );
        let shard = |op: &Op| (1..=8).find(|&index| Shard { index, of: 8 }.holds(&canonical(op)));
        assert_eq!((shard(&gemm), shard(&attention)), (Some(1), Some(1)));
    }

    #[test]
    fn reasons_of_clocks_are_named_as_in_nvml() {
        for (bits, text) in [
            (0, "none"),
            (4, "sw_power_cap"),
            (0x24, "sw_power_cap+sw_thermal_slowdown"),
            (1 << 40, "bit_40"),
        ] {
            assert_eq!(ClockReasons(bits).to_string(), text);
        }
    }

    #[test]
    fn product_names_become_device_names() {
        for (title, name) in [
            (
                "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz",
                "intel-xeon-platinum-8480-cpu",
            ),
            ("llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe-llvm-15-0-6-256-bits"),
            ("NVIDIA RTX(TM) 6000  Ada", "nvidia-rtx-6000-ada"),
            ("  ", "unnamed"),
        ] {
            assert_eq!(device_name(title), name);
        }
    }
}
