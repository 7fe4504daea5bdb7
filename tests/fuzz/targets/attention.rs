//! The body of `/v1/predict/attention`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::query::operator;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(attention) = body::read::<wire::Attention>(bytes, None)
        && let Ok(op) = operator::Attention::from(&attention).op()
    {
        assert!(op.flops().flops().is_finite() && op.bytes().bytes() > 0.0);
    }
});
