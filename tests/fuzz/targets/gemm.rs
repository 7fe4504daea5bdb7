//! The body of `/v1/predict/gemm`.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::gpu::Gpu;
use shapewise::request::{GemmRequest, OperatorRequest, Sizes};

fuzz_target!(|bytes: &[u8]| {
    if let Some(asked) = read::<GemmRequest>(bytes)
        && let Ok(op) = Sizes::fixed(Gpu::find("h100").unwrap(), |sizes| asked.op(sizes))
    {
        assert!(op.flops().flops().is_finite() && op.bytes().bytes() > 0.0);
    }
});
