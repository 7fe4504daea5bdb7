//! The body of `/v1/predict/batch`, and each operator in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::query::operator;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = body::read::<wire::Batch>(bytes, None) else {
        return;
    };
    for op in batch.ops {
        if let Ok(gemm) = body::parse::<wire::GemmOp>(op.clone()) {
            let _ = operator::Gemm::from(&gemm).op().flops();
        }
        if let Ok(attention) = body::parse::<wire::AttentionOp>(op) {
            let _ = operator::Attention::from(&attention).op();
        }
    }
});
