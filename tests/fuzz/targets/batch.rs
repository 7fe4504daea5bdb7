//! The body of `/v1/predict/batch`, and each operator in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::gpu::Gpu;
use shapewise::request::read_operator;
use shapewise::serve::body::{self, BatchRequest};

fuzz_target!(|bytes: &[u8]| {
    let Ok(asked) = body::read::<BatchRequest>(bytes) else {
        return;
    };
    for op in asked.request.ops {
        if let Ok(op) = read_operator(Gpu::find("h100").unwrap(), op) {
            let _ = op.flops();
        }
    }
});
