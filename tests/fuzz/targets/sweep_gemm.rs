//! The body of `/v1/sweep/gemm`, and the GEMMs along it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::gpu::Gpu;
use shapewise::request::{GemmRequest, OperatorRequest, Sizes};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(asked) = body::read::<GemmRequest>(bytes) {
        let _ = Sizes::swept(Gpu::find("h100").unwrap(), |sizes| asked.request.op(sizes));
        for value in [1, 4_294_967_296] {
            if let Ok(op) = asked.request.op(&mut Sizes::at(Gpu::find("h100").unwrap(), value)) {
                let _ = op.flops();
            }
        }
    }
});
