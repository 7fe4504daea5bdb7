//! The body of `/v1/predict/batch`, and each operator in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = body::read::<wire::Batch>(bytes, None) else {
        return;
    };
    for op in batch.ops {
        if let Ok(op) = wire::operator(op) {
            let _ = op.flops();
        }
    }
});
