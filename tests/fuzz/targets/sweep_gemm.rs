//! The body of `/v1/sweep/gemm`, and the GEMMs along it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::request::{GemmRequest, OperatorRequest, Sizes};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(asked) = body::read::<GemmRequest>(bytes, None) {
        let _ = Sizes::swept(|sizes| asked.request.op(sizes));
        for value in [1, 4_294_967_296] {
            if let Ok(op) = asked.request.op(&mut Sizes::at(value)) {
                let _ = op.flops();
            }
        }
    }
});
