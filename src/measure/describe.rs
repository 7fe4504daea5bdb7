//! A part that `data/gpus` does not know, described by what its driver reports and what was measured on it.

use crate::dataset::REHEARSAL;
use crate::dataset::Row;
use crate::error::Result;
use crate::gpu::Figure;
use crate::gpu::Gpu;
use crate::measure::device::Facts;
use crate::ops::Dtype;
use crate::ops::Op;
use std::collections::BTreeMap;

/// Where a figure that a driver reports is from.
const REPORTED: &str = "reported by the driver";

/// Describes the part of these rows, unless it is built in or a rehearsal.
pub fn describe(name: &str, facts: &Facts, rows: &[Row]) -> Result<Option<Gpu>> {
    if Gpu::find(name).is_ok() || name == REHEARSAL || rows.is_empty() {
        return Ok(None);
    }
    of_rows(name, facts, rows).map(Some)
}

/// The part of these rows, of which there is one at least: the built-in one of this name, else as far as they show it.
pub fn part(name: &str, facts: &Facts, rows: &[Row]) -> Result<Gpu> {
    match Gpu::find(name) {
        Ok(gpu) => Ok(gpu.clone()),
        Err(_) => of_rows(name, facts, rows),
    }
}

/// Peaks and bandwidth are the best that any row reached, so that no row is faster than its roofline; what neither the
/// driver tells nor a row shows is assumed, and its source says so.
fn of_rows(name: &str, facts: &Facts, rows: &[Row]) -> Result<Gpu> {
    let mut figures = BTreeMap::new();
    let mut tell = |key: String, value: f64, source: String| {
        figures.insert(key, Figure { value, source });
    };
    let mut fact = |key: &str, reported: Option<f64>, assumed: f64, why: &str| {
        let (value, source) = match reported {
            Some(value) => (value, REPORTED.to_owned()),
            None => (assumed, format!("assumed: {why}")),
        };
        tell(key.to_owned(), value, source);
    };
    let silent = "the driver does not tell";
    let processors = facts.processors.map(|count| count as f64);
    fact("sm_count", processors, 64.0, silent);
    let clock = facts.clock.map(|clock| clock.hertz());
    fact("sm_clock_hz", clock, 1.5e9, silent);
    let whole = |bytes: Option<f64>| bytes.map(f64::round);
    fact("memory_bytes", whole(facts.memory_bytes), 8e9, silent);
    fact(
        "l2_bytes",
        whole(facts.cache_bytes),
        64.0 * 1024.0 * 1024.0,
        silent,
    );
    fact("alignment_bytes", None, 64.0, "a cache line");
    let count = rows.len();
    let bandwidth = best(rows, |row| {
        Some((row.op.bytes() / row.time).bytes_per_sec())
    });
    tell(
        "memory_bandwidth_bytes_per_s".to_owned(),
        bandwidth,
        format!("measured: the most bytes a second of {count} timings"),
    );
    tell(
        "reachable_bandwidth_fraction".to_owned(),
        1.0,
        "the bandwidth is a measured one".to_owned(),
    );
    let peak = |dtype: Dtype| {
        let peak = best(rows, |row| {
            let computes = matches!(row.op, Op::Gemm(_) | Op::Attention(_));
            let rate = (row.op.flops() / row.time).flops_per_sec();
            (computes && row.op.dtype() == Some(dtype)).then_some(rate)
        });
        (peak > 0.0).then_some(peak)
    };
    let peaks: Vec<(Dtype, f64)> = Dtype::ALL
        .into_iter()
        .filter_map(|dtype| Some((dtype, peak(dtype)?)))
        .collect();
    for (dtype, peak) in &peaks {
        tell(
            format!("peak_{}_flops_per_s", dtype.name()),
            *peak,
            format!("measured: the most FLOP/s of {count} timings"),
        );
    }
    // Every part has a 16-bit peak; where none was measured, that of another format stands in.
    let stand_in = peaks.iter().max_by_key(|(dtype, _)| {
        let is_half = matches!(dtype, Dtype::Fp16 | Dtype::Bf16);
        (is_half, *dtype)
    });
    let half = "peak_fp16_flops_per_s";
    if let (Some((dtype, peak)), None) = (
        stand_in,
        peaks.iter().find(|(dtype, _)| *dtype == Dtype::Fp16),
    ) {
        let source = format!(
            "assumed: that of {}, as fp16 was not measured",
            dtype.name()
        );
        tell(half.to_owned(), *peak, source);
    }
    Gpu::described(name, &facts.title, figures)
}

/// The greatest of the rates that rows have; 0 where none has one.
fn best(rows: &[Row], rate: impl Fn(&Row) -> Option<f64>) -> f64 {
    rows.iter().filter_map(rate).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Gemm;
    use crate::ops::Layout;
    use crate::units::Seconds;

    fn row(size: u64, micros: f64, dtype: Dtype) -> Row {
        let op = Op::Gemm(Gemm::square(size, Layout::Tn, dtype));
        let time = Seconds::from_micros(micros);
        Row::new(op, "some-cpu-2-cores", "burn-flex 0.22.1", time)
    }

    #[test]
    fn rates_are_the_best_of_the_rows_and_sources_say_what_was_assumed() {
        let facts = Facts {
            title: "Some CPU".to_owned(),
            processors: Some(2),
            ..Facts::default()
        };
        let rows = [
            row(100, 40.0, Dtype::Fp32),
            row(1000, 20_000.0, Dtype::Fp32),
        ];
        let gpu = describe("some-cpu-2-cores", &facts, &rows)
            .unwrap()
            .unwrap();
        // 2e9 FLOPs in 20 ms are twice 2e6 in 40 us; 120 kB in 40 us are more than 12 MB in 20 ms.
        let peak = gpu.peak(Dtype::Fp32).unwrap().flops_per_sec();
        assert!((peak / 1e11 - 1.0).abs() < 1e-12);
        assert!((gpu.bandwidth().bytes_per_sec() / 3e9 - 1.0).abs() < 1e-12);
        assert_eq!(gpu.sm_count(), 2);
        let source = |key: &str| {
            let found = gpu.figures().find(|(known, _)| *known == key);
            found.unwrap().1.source.clone()
        };
        assert_eq!(source("sm_count"), "reported by the driver");
        assert!(source("l2_bytes").starts_with("assumed"));
        assert!(source("peak_fp16_flops_per_s").contains("that of fp32"));
        assert!(source("memory_bandwidth_bytes_per_s").contains("2 timings"));
        // No row is faster than the roofline of the description.
        for row in &rows {
            let compute = row.op.flops() / gpu.nearest_peak(Dtype::Fp32);
            let memory = row.op.bytes() / gpu.bandwidth();
            assert!(compute.max(memory) <= row.time * (1.0 + 1e-12));
        }
    }

    #[test]
    fn known_parts_and_rehearsals_are_not_described() {
        let facts = Facts::default();
        let rows = [row(100, 40.0, Dtype::Fp16)];
        assert_eq!(describe("h200", &facts, &rows).unwrap(), None);
        assert_eq!(describe(REHEARSAL, &facts, &rows).unwrap(), None);
        // While a run goes on every part has figures, a rehearsal's too.
        assert_eq!(
            part("h200", &facts, &rows).unwrap(),
            *Gpu::find("h200").unwrap()
        );
        assert_eq!(part(REHEARSAL, &facts, &rows).unwrap().name, REHEARSAL);
    }
}
