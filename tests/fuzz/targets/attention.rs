//! The body of `/v1/predict/attention`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::gpu::Gpu;
use shapewise::request::{AttentionRequest, OperatorRequest, Sizes};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(asked) = body::read::<AttentionRequest>(bytes)
        && let Ok(op) = Sizes::fixed(Gpu::find("h100").unwrap(), |sizes| asked.request.op(sizes))
    {
        assert!(op.flops().flops().is_finite() && op.bytes().bytes() > 0.0);
    }
});
