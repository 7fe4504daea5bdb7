//! The body of `/v1/plan` and `/v1/compare`, up to the queries with everything filled in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::gpu::Gpu;
use shapewise::request::PlanRequest;
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let Ok(asked) = body::read::<PlanRequest>(bytes) else {
        return;
    };
    if let Ok(architecture) = body::architecture(&asked.request.architecture, "architecture") {
        let _ = asked.request.planned(&architecture, Gpu::find("h100").unwrap());
    }
});
