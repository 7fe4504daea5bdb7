//! The body of `/v1/sweep/model`, and the first step along it.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::gpu::Gpu;
use shapewise::request::{ModelRequest, Sizes};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let Some(asked) = read::<ModelRequest>(bytes) else {
        return;
    };
    let Ok(base) = body::architecture(&asked.architecture, "architecture") else {
        return;
    };
    let _ = Sizes::swept(Gpu::find("h100").unwrap(), |sizes| asked.described(&base, sizes));
    let _ = asked.step(&base, &mut Sizes::at(Gpu::find("h100").unwrap(), 1));
});
