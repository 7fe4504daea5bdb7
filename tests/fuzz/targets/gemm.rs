//! The body of `/v1/predict/gemm`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::query::operator;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(gemm) = body::read::<wire::Gemm>(bytes, None) {
        let op = operator::Gemm::from(&gemm).op();
        assert!(op.flops().flops().is_finite() && op.bytes().bytes() > 0.0);
    }
});
