//! The description of a device without a datasheet in `data/gpus`, from its driver and its timings.

use super::device::DriverInfo;
use crate::dataset::Row;
use crate::error::Result;
use crate::gpu::{Figure, Gpu};
use crate::ops::{Dtype, Op};
use std::collections::BTreeMap;

const MIB: f64 = 1024.0 * 1024.0;

/// The built-in GPU of this name, else one described by these rows, of which there is at least one.
pub fn gpu_of(name: &str, driver: &DriverInfo, rows: &[Row]) -> Result<Gpu> {
    match Gpu::find(name) {
        Ok(gpu) => Ok(gpu.clone()),
        Err(_) => of_rows(name, driver, rows),
    }
}

/// Describes a device: peaks and bandwidth are the best of all rows, so that no row is faster than
/// its roofline; the source of a figure that neither driver nor rows give says that it is assumed.
fn of_rows(name: &str, driver: &DriverInfo, rows: &[Row]) -> Result<Gpu> {
    let mut figures = BTreeMap::new();
    let mut put = |key: &str, value: f64, source: &str| {
        let source = source.to_owned();
        figures.insert(key.to_owned(), Figure { value, source });
    };
    for (key, reported, assumed) in [
        ("sm_count", driver.processors.map(|count| count as f64), 64.0),
        ("sm_clock_hz", driver.clock_hz, 1.5e9),
        ("memory_bytes", driver.memory_bytes.map(f64::round), 8e9),
        ("l2_bytes", driver.cache_bytes.map(f64::round), 64.0 * MIB),
    ] {
        match reported {
            Some(value) => put(key, value, "reported by the driver"),
            None => put(key, assumed, "assumed: the driver does not report it"),
        }
    }
    put("alignment_bytes", 64.0, "assumed: a cache line");
    let count = rows.len();
    let bandwidth = best(rows, |row| Some((row.op.bytes() / row.time).bytes_per_sec()));
    let source = format!("measured: the most bytes a second of {count} timings");
    put("memory_bandwidth_bytes_per_s", bandwidth, &source);
    let source = "the bandwidth is a measured one";
    put("reachable_bandwidth_fraction", 1.0, source);
    let peak = |dtype: Dtype| {
        let peak = best(rows, |row| {
            let computes = matches!(row.op, Op::Gemm(_) | Op::Attention(_));
            let rate = (row.op.flops() / row.time).flops_per_sec();
            (computes && row.op.dtype() == Some(dtype)).then_some(rate)
        });
        (peak > 0.0).then_some(peak)
    };
    let peaks: Vec<(Dtype, f64)> = Dtype::ELEMENTS
        .into_iter()
        .filter_map(|dtype| Some((dtype, peak(dtype)?)))
        .collect();
    for (dtype, peak) in &peaks {
        let key = format!("peak_{}_flops_per_s", dtype.name());
        let source = format!("measured: the most FLOP/s of {count} timings");
        put(&key, *peak, &source);
    }
    // Every GPU has a 16-bit peak; without a measured one, that of another format is assumed.
    let substitute = peaks.iter().max_by_key(|(dtype, _)| {
        let is_half = matches!(dtype, Dtype::Fp16 | Dtype::Bf16);
        (is_half, *dtype)
    });
    let has_fp16 = peaks.iter().any(|(dtype, _)| *dtype == Dtype::Fp16);
    if let (Some((dtype, peak)), false) = (substitute, has_fp16) {
        let source = format!("assumed: that of {dtype}, as fp16 was not measured");
        put("peak_fp16_flops_per_s", *peak, &source);
    }
    Gpu::described(name, &driver.title, figures)
}

/// The largest rate of the rows; 0 where none has one.
fn best(rows: &[Row], rate: impl Fn(&Row) -> Option<f64>) -> f64 {
    rows.iter().filter_map(rate).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::SCRIPTED;
    use crate::ops::{Gemm, Layout};
    use crate::units::Seconds;

    fn row(size: u64, micros: f64, dtype: Dtype) -> Row {
        let op = Op::Gemm(Gemm::square(size, Layout::Tn, dtype));
        let time = Seconds::from_micros(micros);
        Row::new(op, "some-cpu-2-cores", "burn-flex 0.22.1", time)
    }

    #[test]
    fn rates_are_the_best_of_the_rows_and_sources_say_what_was_assumed() {
        let driver = DriverInfo {
            title: "Some CPU".to_owned(),
            processors: Some(2),
            ..DriverInfo::default()
        };
        let rows = [row(100, 40.0, Dtype::Fp32), row(1000, 20_000.0, Dtype::Fp32)];
        let gpu = gpu_of("some-cpu-2-cores", &driver, &rows).unwrap();
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
    fn built_in_devices_are_not_described() {
        let driver = DriverInfo::default();
        let rows = [row(100, 40.0, Dtype::Fp16)];
        assert_eq!(gpu_of("h200", &driver, &rows).unwrap(), *Gpu::find("h200").unwrap());
        assert_eq!(gpu_of(SCRIPTED, &driver, &rows).unwrap().name, SCRIPTED);
    }
}
