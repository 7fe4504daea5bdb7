//! The body of `/v1/plan` and `/v1/compare`, up to the queries with everything filled in.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::gpu::Gpu;
use shapewise::request::PlanRequest;
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let Some(asked) = read::<PlanRequest>(bytes) else {
        return;
    };
    if let Ok(architecture) = body::architecture(&asked.architecture, "architecture") {
        let _ = asked.planned(&architecture, Gpu::find("h100").unwrap());
    }
});
