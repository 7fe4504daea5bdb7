//! Tests of the dataset as its users see it: files, importers, the public tables themselves.

mod file;
mod import;
mod nsys;
mod own_runs;
mod public;
mod runs;
mod trace;

use super::{Cache, Kernel, Measured, Origin, Role, Row, Stop};
use crate::ops::{Dtype, Gemm, Layout, Op};
use crate::units::Seconds;
use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A bf16 product on an H200 that took 10 us.
pub(in crate::dataset) fn gemm_row(m: u64, n: u64, k: u64) -> Row {
    let op = Op::Gemm(Gemm {
        m,
        n,
        k,
        batch: 1,
        layout: Layout::Tn,
        dtype: Dtype::Bf16,
    });
    Row {
        origin: Arc::new(Origin {
            source: "a test".to_owned(),
            licence: "MIT".to_owned(),
            libraries: None,
        }),
        ..Row::new(op, "h200", "stack 1.0", Seconds::from_micros(10.0))
    }
}

/// The same as one of our own rows.
pub(in crate::dataset) fn measured_row(m: u64, n: u64, k: u64) -> Row {
    let micros = Seconds::from_micros;
    Row {
        samples: Some(7),
        measured: Some(Box::new(Measured {
            set: "sobol".to_owned(),
            role: Role::Plan,
            cache: Cache::Cold,
            rank: 0,
            at_s: 1.5,
            calls: 64,
            min: micros(9.9),
            quartiles: (micros(9.95), micros(10.05)),
            half_width: Some(0.004),
            stop: Stop::Precise,
            throttled: false,
            clock_reasons: Some("sw_power_cap".to_owned()),
            power_watts: Some(650.0),
            temperature_celsius: Some(61.0),
            kernel: Some(Kernel {
                name: Some("algorithm 66".to_owned()),
                tile: Some((128, 256)),
                stages: Some(4),
                split_k: None,
                cluster: Some((2, 1)),
                waves: Some(3.878),
                workspace_bytes: Some(0),
            }),
        })),
        ..gemm_row(m, n, k)
    }
}

/// Writes a Parquet file with these columns and nothing else.
fn write_columns(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}
