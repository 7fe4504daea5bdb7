//! The body of `/v1/predict/batch`, and each operator in it.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::gpu::Gpu;
use shapewise::request::BatchRequest;

fuzz_target!(|bytes: &[u8]| {
    let ops = read::<BatchRequest>(bytes).map(|asked| asked.ops(Gpu::find("h100").unwrap()));
    for op in ops.into_iter().flatten().flatten() {
        let _ = op.flops();
    }
});
