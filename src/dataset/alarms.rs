//! Times that physics rules out: a timing that beats its GPU's peak is a measuring error.
//!
//! Public tables hold such rows (a kernel that did not run, a cache of the wrong type); a
//! predictor that learns from them learns nonsense. The bounds are generous, so that an alarm
//! is never a matter of opinion.

use super::Row;
use crate::gpu::{Gpu, GpuCatalog};
use crate::ops::Op;
use crate::units::Seconds;

/// Peaks are stated at a nominal clock; parts boost above it (H200: 1.98 GHz against 1.83 GHz).
const BOOST: f64 = 1.09;

/// What a timer may be off by.
const TOLERANCE: f64 = 0.02;

/// Traffic is only certain for operands that a cache cannot keep between repetitions.
const CACHES_EXCEEDED: f64 = 2.0;

/// How often faster than a bound no measurement is, so that the unit must be wrong.
const UNLIKELY: f64 = 20.0;

/// The bound that this time breaks, if any: the peak of its GPU at the highest clock, or what its memory delivers.
fn alarm(op: &Op, time: Seconds, gpu: &Gpu) -> Option<&'static str> {
    if let Op::Collective(_) = op {
        return None;
    }
    let time = time * (1.0 + TOLERANCE);
    let peak = op.dtype().and_then(|dtype| gpu.peak(dtype));
    if let Some(peak) = peak
        && time < op.flops() / (peak * BOOST)
    {
        return Some("peak arithmetic");
    }
    // Whatever the cache keeps from the previous repetition need not be moved again.
    let bytes = op.bytes();
    let certain = bytes - gpu.l2();
    if bytes > gpu.l2() * CACHES_EXCEEDED && time < certain / gpu.bandwidth() {
        return Some("memory");
    }
    None
}

/// Why physics rules a row out; nothing for rows of a GPU that is not in the catalogue.
pub fn ruled_out(row: &Row, gpus: &GpuCatalog) -> Option<String> {
    objection(row, gpus.find(&row.gpu).ok()?)
}

/// The reason to leave a row out, if its time raises an alarm.
pub(super) fn objection(row: &Row, gpu: &Gpu) -> Option<String> {
    let bound = alarm(&row.op, row.time, gpu)?;
    let dtype = row.op.dtype().map_or("", |dtype| dtype.name());
    let unit = match alarm(&row.op, row.time * UNLIKELY, gpu) {
        Some(_) => "; the time may be in milliseconds, not in microseconds",
        None => "",
    };
    Some(format!(
        "faster than the {bound} of its GPU ({}, {}, {dtype} {}){unit}",
        row.gpu,
        row.stack,
        row.op.kind()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::gemm_row;

    /// A row on an H200 that takes this share of the time its peak allows.
    fn at(m: u64, n: u64, k: u64, share: f64) -> Row {
        let mut row = gemm_row(m, n, k);
        let gpu = Gpu::find("h200").unwrap();
        let arithmetic = row.op.flops() / gpu.peak(row.op.dtype().unwrap()).unwrap();
        let traffic = row.op.bytes() / gpu.bandwidth();
        row.time = arithmetic.max(traffic) * share;
        row
    }

    #[test]
    fn only_times_beyond_boost_and_cache_raise_an_alarm() {
        let gpu = Gpu::find("h200").unwrap();
        let raised = |row: &Row| alarm(&row.op, row.time, gpu);
        // Bound by arithmetic: 8 % above nominal is a boost clock, 20 % is not possible.
        assert_eq!(raised(&at(8192, 8192, 8192, 1.0 / 1.08)), None);
        let impossible = at(8192, 8192, 8192, 1.0 / 1.2);
        assert_eq!(raised(&impossible), Some("peak arithmetic"));
        // Bound by traffic: 512 MiB of weights do not fit the cache, 2 MiB do.
        assert_eq!(raised(&at(1, 16384, 16384, 0.95)), None);
        let impossible = at(1, 16384, 16384, 0.8);
        assert_eq!(raised(&impossible), Some("memory"));
        assert_eq!(raised(&at(1, 1024, 1024, 0.5)), None);
    }

    #[test]
    fn screening_counts_what_it_drops_and_trusts_unknown_gpus() {
        let mut foreign = at(8192, 8192, 8192, 0.5);
        foreign.gpu = "an unknown gpu".into();
        let rows = [at(8192, 8192, 8192, 0.5), at(8192, 8192, 8192, 1.5), foreign];
        let gpus = GpuCatalog::default();
        let reasons: Vec<_> = rows.iter().map(|row| ruled_out(row, &gpus)).collect();
        let reason = "faster than the peak arithmetic of its GPU (h200, stack 1.0, bf16 gemm)";
        let ruled_out: Vec<_> = reasons.iter().flatten().collect();
        assert_eq!(ruled_out, [reason]);
        let gpu = Gpu::find("h200").unwrap();
        let reason = objection(&at(8192, 8192, 8192, 1.2e-3), gpu).unwrap();
        assert!(reason.contains("in milliseconds"), "{reason}");
    }
}
