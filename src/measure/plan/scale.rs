//! How fast a device is, from a short probe: a plan asks for times, and these rates turn them into sizes.

use super::Offer;
use crate::error::Result;
use crate::measure::device::{Cache, Case, Device};
use crate::measure::protocol::chain_length;
use crate::ops::{Attention, Dtype, Gemm, Memory, MemoryKind, Op, Pass};
use crate::units::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rates that the probe reached, rounded to powers of two, so that equal parts make equal plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Time of the shortest product, in microseconds.
    pub floor_us: f64,
    /// Rate of products by format, in FLOP/s.
    pub gemm_flops_per_s: BTreeMap<Dtype, f64>,
    /// Rate of attention by format, in FLOP/s.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attention_flops_per_s: BTreeMap<Dtype, f64>,
    /// Rate of memory-bound kernels, in bytes/s; none where the device runs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_s: Option<f64>,
}

/// Time of one call at which the probe needs no larger size.
const ENOUGH: Seconds = Seconds::from_secs(3e-3);

impl Scale {
    /// Time of the shortest product.
    pub fn floor(&self) -> Seconds {
        Seconds::from_micros(self.floor_us)
    }

    /// The rate of an operator's arithmetic; none where the probe found none.
    pub fn rate(&self, op: &Op) -> Option<FlopsPerSecond> {
        let rates = match op {
            Op::Gemm(_) => &self.gemm_flops_per_s,
            Op::Attention(_) => &self.attention_flops_per_s,
            Op::Memory(_) | Op::Collective(_) => return None,
        };
        let rate = rates.get(&op.dtype()?)?;
        Some(FlopsPerSecond::from_flops_per_sec(*rate))
    }

    /// The bandwidth of memory-bound kernels.
    pub fn bandwidth(&self) -> Option<BytesPerSecond> {
        self.memory_bytes_per_s
            .map(BytesPerSecond::from_bytes_per_sec)
    }

    /// A rough time, for the choice of sizes only.
    pub fn guess(&self, op: &Op) -> Seconds {
        let arithmetic = self
            .rate(op)
            .map_or(Seconds::ZERO, |rate| op.flops() / rate);
        let traffic = self
            .bandwidth()
            .map_or(Seconds::ZERO, |rate| op.bytes() / rate);
        self.floor() + arithmetic.max(traffic)
    }

    /// Measures the rates, from small sizes up until a call is long enough; at most this many bytes an operator.
    pub fn probe(device: &mut dyn Device, offer: &Offer, most: Bytes) -> Result<Self> {
        let mut scale = Self {
            floor_us: f64::INFINITY,
            gemm_flops_per_s: BTreeMap::new(),
            attention_flops_per_s: BTreeMap::new(),
            memory_bytes_per_s: None,
        };
        for &(dtype, _) in &offer.dtypes {
            let layout = offer.layout(dtype);
            let product = |size: u64| Op::Gemm(Gemm::square(size, layout, dtype));
            let sizes = (5..=13).map(|power| product(1 << power));
            let found = climb(device, sizes, most, |op, time| {
                (op.flops() / time).flops_per_sec()
            })?;
            if let Some((rate, floor)) = found {
                scale.floor_us = scale.floor_us.min(floor.micros());
                scale.gemm_flops_per_s.insert(dtype, power_of_two(rate));
            }
            // Steps of four, since a library may take a second to compile each.
            let powers = (8..=14).step_by(2);
            let sizes = powers.map(|power| Op::Attention(self_attention(1 << power, dtype)));
            let found = climb(device, sizes, most, |op, time| {
                (op.flops() / time).flops_per_sec()
            })?;
            if let Some((rate, _)) = found {
                scale
                    .attention_flops_per_s
                    .insert(dtype, power_of_two(rate));
            }
        }
        for kind in [MemoryKind::Copy, MemoryKind::Add, MemoryKind::Softmax] {
            let dtype = offer.dtypes.first().map_or(Dtype::Fp32, |first| first.0);
            let sizes = (6..=18).step_by(2);
            let sizes = sizes.map(|power| Op::Memory(copy(1 << power, kind, dtype)));
            let found = climb(device, sizes, most, |op, time| {
                (op.bytes() / time).bytes_per_sec()
            })?;
            if let Some((rate, _)) = found {
                scale.memory_bytes_per_s = Some(power_of_two(rate));
                break;
            }
        }
        scale.floor_us = power_of_two(scale.floor_us);
        Ok(scale)
    }
}

/// The best rate and the least time over rising sizes; none where the device refuses the first.
fn climb(
    device: &mut dyn Device,
    sizes: impl Iterator<Item = Op>,
    most: Bytes,
    rate: impl Fn(&Op, Seconds) -> f64,
) -> Result<Option<(f64, Seconds)>> {
    let mut best: Option<(f64, Seconds)> = None;
    for op in sizes {
        let case = Case {
            op,
            cache: Cache::Cold,
            rank: 0,
        };
        if op.bytes() > most || device.refuses(&case).is_some() {
            break;
        }
        let mut chain = device.open(&case)?;
        chain.trial()?;
        let calls = chain_length(chain.trial()?);
        chain.record(calls)?;
        chain.replay()?;
        let call = chain.replay()?.elapsed / f64::from(calls);
        if call.secs() <= 0.0 || !call.secs().is_finite() {
            break;
        }
        let (before, floor) = best.unwrap_or((0.0, call));
        best = Some((before.max(rate(&op, call)), floor.min(call)));
        if call > ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// The nearest power of two.
fn power_of_two(value: f64) -> f64 {
    value.log2().round().exp2()
}

/// A memory-bound kernel over rows of 1024.
pub(super) fn copy(rows: u64, kind: MemoryKind, dtype: Dtype) -> Memory {
    Memory {
        kind,
        rows,
        cols: 1024,
        pass: Pass::Forward,
        dtype,
    }
}

/// Eight heads of 64 over this many tokens.
pub(super) fn self_attention(seq: u64, dtype: Dtype) -> Attention {
    Attention {
        batch: 1,
        heads: 8,
        kv_heads: 8,
        seq_q: seq,
        seq_kv: seq,
        head_dim: 64,
        value_dim: 64,
        causal: true,
        window: 0,
        pass: Pass::Forward,
        dtype,
    }
}

/// FLOPs that fit into this time at this rate.
pub(super) fn flops_in(time: Seconds, rate: FlopsPerSecond) -> Flops {
    Flops::from_flops(time.secs() * rate.flops_per_sec())
}
