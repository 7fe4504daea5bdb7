//! Rows of a stack that does not exist, for tests that need timings of any kind.

use shapewise::dataset::{Origin, Row};
use shapewise::gpu::Gpu;
use shapewise::ops::{Dtype, Gemm, Layout, Op};
use shapewise::units::Seconds;
use std::sync::Arc;

/// Products on this GPU: two thirds of the peak, 0.8 of the bandwidth, five microseconds of launch.
pub fn rows(name: &'static str) -> Vec<Row> {
    let gpu = Gpu::find(name).unwrap();
    let origin = Arc::new(Origin {
        source: "test".into(),
        licence: "MIT".into(),
        libraries: None,
    });
    let mut rows = Vec::new();
    for m in [1, 16, 100, 128, 512, 2048, 4096] {
        for n in [256, 512, 1024, 4096, 8192, 12288] {
            for k in [256, 1024, 2048, 4096] {
                let op = Op::Gemm(Gemm {
                    m,
                    n,
                    k,
                    batch: 1,
                    layout: Layout::Tn,
                    dtype: Dtype::Bf16,
                });
                let compute = op.flops() / (gpu.peak(Dtype::Bf16).unwrap() * 0.66);
                let memory = op.bytes() / (gpu.bandwidth() * 0.8);
                let time = Seconds::from_micros(5.0) + compute.max(memory);
                rows.push(Row {
                    origin: origin.clone(),
                    ..Row::new(op, name, "made-up 1", time)
                });
            }
        }
    }
    rows
}
