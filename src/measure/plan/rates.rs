//! Rates of a device from a short probe: a plan asks for times, and the rates turn them into sizes.

use super::Supported;
use crate::dataset::Skipped;
use crate::error::{Error, Result};
use crate::measure::device::Device;
use crate::measure::protocol::chain_length;
use crate::measure::stopping::Limits;
use crate::ops::{Attention, Dtype, Gemm, Layout, Memory, MemoryKind, Op, Pass};
use crate::units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rates that the probe reached, rounded to powers of two, so that equal devices make equal plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRates {
    /// Time of the shortest GEMM, in microseconds.
    pub floor_us: f64,
    /// Rate of GEMMs by format, in FLOP/s.
    pub gemm_flops_per_s: BTreeMap<Dtype, f64>,
    /// Rate of attention by format, in FLOP/s.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attention_flops_per_s: BTreeMap<Dtype, f64>,
    /// Rate of memory-bound kernels, in bytes/s; `None` if the device runs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_s: Option<f64>,
}

/// Sizes in a row that fail before the probe tries no larger one.
const FAILURES: usize = 3;

/// Time of one call beyond which the probe tries no larger size.
const ENOUGH: Seconds = Seconds::from_secs(3e-3);

impl DeviceRates {
    /// Time of the shortest GEMM.
    pub fn floor(&self) -> Seconds {
        Seconds::from_micros(self.floor_us)
    }

    /// Rate of an operator's arithmetic; `None` if the probe found none.
    pub fn rate(&self, op: &Op) -> Option<FlopsPerSecond> {
        let rates = match op {
            Op::Gemm(_) => &self.gemm_flops_per_s,
            Op::Attention(_) => &self.attention_flops_per_s,
            _ => return None,
        };
        let rate = rates.get(&op.dtype()?)?;
        Some(FlopsPerSecond::from_flops_per_sec(*rate))
    }

    /// Bandwidth of memory-bound kernels.
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        self.memory_bytes_per_s.map(BytesPerSecond::from_bytes_per_sec)
    }

    /// Roofline estimate of an operator's time, for the choice of sizes only.
    pub fn roofline(&self, op: &Op) -> Seconds {
        let arithmetic = self.rate(op).map(|rate| op.flops() / rate);
        let traffic = self.bandwidth().map(|rate| op.bytes() / rate);
        let [arithmetic, traffic] = [arithmetic, traffic].map(|time| time.unwrap_or(Seconds::ZERO));
        self.floor() + arithmetic.max(traffic)
    }

    /// Measures the rates with growing sizes until a call is long enough; operands hold at most
    /// `max_bytes`. Sizes that fail are counted with their reason in `skipped`.
    ///
    /// # Errors
    ///
    /// Fails where the device is lost, and where no size of any operator runs.
    pub fn probe(
        device: &mut dyn Device,
        supported: &Supported,
        max_bytes: Bytes,
        skipped: &mut Skipped,
    ) -> Result<Self> {
        let (mut floor, mut least) = (f64::INFINITY, f64::INFINITY);
        let mut gemm_flops_per_s = BTreeMap::new();
        let mut attention_flops_per_s = BTreeMap::new();
        let mut memory_bytes_per_s = None;
        let flops = |op: &Op, time: Seconds| (op.flops() / time).flops_per_sec();
        let bytes = |op: &Op, time: Seconds| (op.bytes() / time).bytes_per_sec();
        for &(dtype, _) in &supported.dtypes {
            // A wrong path has its share of the plan and is refused: the rate is that of another layout.
            let runs = |layout: &Layout| {
                let op = Op::Gemm(Gemm::square(512, *layout, dtype));
                device.refuses(&op).is_none()
            };
            let mut layouts = supported.layouts(dtype).iter().map(|(layout, _)| *layout);
            let layout = layouts.find(runs).unwrap_or(supported.layout(dtype));
            let square = |power| Op::Gemm(Gemm::square(1u64 << power, layout, dtype));
            let sizes = (5..=13).map(square);
            let found = probe_rate(device, sizes, max_bytes, flops, skipped)?;
            if let Some((rate, shortest)) = found {
                floor = floor.min(shortest.micros());
                gemm_flops_per_s.insert(dtype, power_of_two(rate));
            }
            // Steps of four, since a library may take a second to compile each.
            let attention = |power| self_attention(1u64 << power, dtype);
            let sizes = (8..=14).step_by(2).map(attention);
            let found = probe_rate(device, sizes, max_bytes, flops, skipped)?;
            if let Some((rate, shortest)) = found {
                least = least.min(shortest.micros());
                attention_flops_per_s.insert(dtype, power_of_two(rate));
            }
        }
        for kind in [MemoryKind::Copy, MemoryKind::Add, MemoryKind::Softmax] {
            let dtype = supported.dtypes.first().map_or(Dtype::Fp32, |first| first.0);
            let rows = |power| rows_of_1024(1u64 << power, (kind, Pass::Forward), dtype);
            let sizes = (6..=18).step_by(2).map(rows);
            let found = probe_rate(device, sizes, max_bytes, bytes, skipped)?;
            if let Some((rate, shortest)) = found {
                least = least.min(shortest.micros());
                memory_bytes_per_s = Some(power_of_two(rate));
                break;
            }
        }
        // Without GEMMs, the shortest call of the others.
        let floor = if floor.is_finite() { floor } else { least };
        if !floor.is_finite() {
            let reasons: Vec<_> = skipped.iter().map(|(reason, _)| reason).collect();
            return Err(Error::infeasible(format!(
                "the probe could time no operator ({})",
                reasons.join("; ")
            )));
        }
        Ok(Self {
            floor_us: power_of_two(floor),
            gemm_flops_per_s,
            attention_flops_per_s,
            memory_bytes_per_s,
        })
    }
}

/// Highest rate and least time over growing sizes; `None` if the device runs none of them.
fn probe_rate(
    device: &mut dyn Device,
    sizes: impl Iterator<Item = Op>,
    max_bytes: Bytes,
    rate: impl Fn(&Op, Seconds) -> f64,
    skipped: &mut Skipped,
) -> Result<Option<(f64, Seconds)>> {
    let mut best: Option<(f64, Seconds)> = None;
    let mut failures = 0;
    for op in sizes {
        if op.bytes() > max_bytes || device.refuses(&op).is_some() {
            break;
        }
        let call = match call_of(device, &op) {
            Ok(call) => call,
            Err(error) => {
                if let Some(lost) = device.lost() {
                    return Err(Error::infeasible(format!(
                        "the probe of {op} ended with: {error}; {lost}"
                    )));
                }
                skipped.add(&format!("failed in the probe: {error}"), 1);
                failures += 1;
                if failures == FAILURES {
                    break;
                }
                continue;
            }
        };
        failures = 0;
        if call.secs() <= 0.0 || !call.secs().is_finite() {
            break;
        }
        let (highest, least) = best.unwrap_or((0.0, call));
        best = Some((highest.max(rate(&op, call)), least.min(call)));
        if call > ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// Time of one call in a chain, after a warm replay.
fn call_of(device: &mut dyn Device, op: &Op) -> Result<Seconds> {
    let mut chain = device.open(op)?;
    chain.trial()?;
    let calls = chain_length(Limits::default().chain, chain.trial()?);
    chain.record(calls)?;
    chain.replay()?;
    Ok(chain.replay()?.elapsed / f64::from(calls))
}

/// Rounds to the nearest power of two.
fn power_of_two(value: f64) -> f64 {
    value.log2().round().exp2()
}

/// A memory-bound kernel over rows of 1024.
pub(super) fn rows_of_1024(rows: u64, (kind, pass): (MemoryKind, Pass), dtype: Dtype) -> Op {
    Op::Memory(Memory {
        kind,
        rows,
        cols: 1024,
        pass,
        dtype,
    })
}

/// Causal self-attention of eight heads of 64 over this many tokens.
pub(super) fn self_attention(seq: u64, dtype: Dtype) -> Op {
    Op::Attention(Attention {
        dtype,
        ..Attention::new(1, 8, seq, 64)
    })
}

/// FLOPs of this time at this rate.
pub(super) fn flops_in(time: Seconds, rate: FlopsPerSecond) -> Flops {
    Flops::from_flops(time.secs() * rate.flops_per_sec())
}
