//! The body of `/v1/sweep/gemm`, and the GEMMs along it.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::gpu::Gpu;
use shapewise::request::{GemmRequest, OperatorRequest, Sizes};

fuzz_target!(|bytes: &[u8]| {
    if let Some(asked) = read::<GemmRequest>(bytes) {
        let _ = Sizes::swept(Gpu::find("h100").unwrap(), |sizes| asked.op(sizes));
        for value in [1, 4_294_967_296] {
            if let Ok(op) = asked.op(&mut Sizes::at(Gpu::find("h100").unwrap(), value)) {
                let _ = op.flops();
            }
        }
    }
});
