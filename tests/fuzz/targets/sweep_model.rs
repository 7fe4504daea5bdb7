//! The body of `/v1/sweep/model`, and the first step along it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::gpu::Gpu;
use shapewise::request::{ModelRequest, Sizes};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let Ok(asked) = body::read::<ModelRequest>(bytes) else {
        return;
    };
    let Ok(base) = body::architecture(&asked.request.architecture, "architecture") else {
        return;
    };
    let _ = Sizes::swept(Gpu::find("h100").unwrap(), |sizes| asked.request.described(&base, sizes));
    let _ = asked.request.step(&base, &mut Sizes::at(Gpu::find("h100").unwrap(), 1));
});
