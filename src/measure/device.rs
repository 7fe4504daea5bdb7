//! What can be timed, and what times it: one small trait for CUDA, wgpu, the CPU and a script.
//!
//! A device sets up operators and runs chains of calls; statistics, order and repetition are those
//! of [`protocol`](crate::measure::protocol), which is the same for all devices.

pub use crate::dataset::Cache;
use crate::dataset::{Kernel, Row, line};
use crate::error::Result;
use crate::ops::Op;
use crate::units::{Hertz, Seconds};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// An operator to time, and the conditions of its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Operator.
    pub op: Op,
    /// State of the last-level cache before a call.
    pub cache: Cache,
    /// Rank of the algorithm in the library's heuristic: 0 is its first choice.
    pub rank: u32,
}

impl Case {
    /// The operator with cold operands and the library's first algorithm.
    pub const fn cold(op: Op) -> Self {
        Self {
            op,
            cache: Cache::Cold,
            rank: 0,
        }
    }

    /// The case that a row of `measure` is the time of.
    pub fn of(row: &Row) -> Self {
        let about = row.measured.as_ref();
        Self {
            cache: about.map_or(Cache::Cold, |about| about.cache),
            rank: about.map_or(0, |about| about.rank),
            ..Self::cold(row.op)
        }
    }

    /// Canonical text of the case: a JSON object of its columns in our tables, sorted by name.
    ///
    /// Shards and journals identify a case by it, so it must not change between versions.
    pub fn canonical(&self) -> String {
        let mut columns: BTreeMap<String, Value> = line::operator(&self.op).into_iter().collect();
        columns.insert("cache".to_owned(), self.cache.name().into());
        columns.insert("rank".to_owned(), self.rank.into());
        serde_json::to_string(&columns).expect("names and numbers are JSON")
    }
}

/// The device and the software that are measured; equal for all rows of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Name of the device in `data/gpus`, or one derived from the name that the driver reports.
    pub gpu: String,
    /// Software that runs the operators, with its version (`cublaslt 13.1.0`).
    pub stack: String,
    /// Versions below the stack: driver, cuDNN, NVRTC, adapter.
    pub libraries: String,
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
}

/// A kernel or library path compared with the reference on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Kernel or library path and shape (`rms_norm forward bf16 7x129`).
    pub path: String,
    /// Relative error: norm of the difference over norm of the reference.
    pub error: f64,
    /// Largest error that passes.
    pub allowed: f64,
}

/// A device that runs operators and reports their time.
pub trait Device {
    /// The device and its software.
    fn identity(&self) -> &Identity;

    /// Why this case cannot run here (format, size, missing library), as a reason for the count of
    /// skipped cases.
    fn refuses(&self, case: &Case) -> Option<String>;

    /// Sets up the operands, finds the algorithm and runs the case once; the chain owns all of it.
    fn open(&mut self, case: &Case) -> Result<Box<dyn Chain + '_>>;

    /// Compares every kernel and library path with the reference on the CPU, on small random shapes
    /// with poisoned outputs; the error of a wrong path exceeds what is allowed.
    fn check(&mut self) -> Result<Vec<Checked>>;

    /// Keeps the device busy for this long, so that clocks and temperature settle.
    fn soak(&mut self, duration: Duration) -> Result<()>;

    /// Leaves the device idle for this long.
    fn rest(&mut self, duration: Duration);

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
    use crate::measure::plan::Shard;
    use crate::ops::{Attention, Gemm};

    /// Journals and shards of earlier runs rely on these texts.
    #[test]
    fn the_canonical_text_of_a_case_names_its_columns_in_order() {
        let gemm = Case::cold(Op::Gemm(Gemm::new(7, 8, 9)));
        assert_eq!(
            gemm.canonical(),
            r#"{"batch":1,"cache":"cold","dtype":"bf16","family":"gemm","k":9,"layout":"tn","m":7,"n":8,"rank":0}"#
        );
        let attention = Case {
            cache: Cache::Hot,
            rank: 2,
            ..Case::cold(Op::Attention(Attention::new(1, 8, 128, 64)))
        };
        assert_eq!(
            attention.canonical(),
            r#"{"batch":1,"cache":"hot","causal":true,"dtype":"bf16","family":"attention","head_dim":64,"heads":8,"kv_heads":8,"pass":"forward","rank":2,"seq_kv":128,"seq_q":128,"value_dim":64,"window":0}"#
        );
        let shard = |case: &Case| (1..=8).find(|&index| Shard { index, of: 8 }.holds(case));
        assert_eq!((shard(&gemm), shard(&attention)), (Some(1), Some(5)));
    }

    #[test]
    fn product_names_become_device_names() {
        for (title, name) in [
            (
                "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz",
                "intel-xeon-platinum-8480-cpu",
            ),
            (
                "llvmpipe (LLVM 15.0.6, 256 bits)",
                "llvmpipe-llvm-15-0-6-256-bits",
            ),
            ("NVIDIA RTX(TM) 6000  Ada", "nvidia-rtx-6000-ada"),
            ("  ", "unnamed"),
        ] {
            assert_eq!(device_name(title), name);
        }
    }
}
