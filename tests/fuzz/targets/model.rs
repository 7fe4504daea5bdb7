//! The body of `/v1/predict/model` and `/v1/check`.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::arch::{Practice, lower, memory_use, parameters};
use shapewise::gpu::Gpu;
use shapewise::request::{Sizes, StepRequest};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let Some(asked) = read::<StepRequest>(bytes) else {
        return;
    };
    let model = &asked.model;
    let Ok(base) = body::architecture(&model.architecture, "architecture") else {
        return;
    };
    let _ = Sizes::fixed(Gpu::find("h100").unwrap(), |sizes| model.described(&base, sizes));
    if let Ok((architecture, workload)) = Sizes::fixed(Gpu::find("h100").unwrap(), |sizes| model.step(&base, sizes)) {
        let _ = parameters(&architecture);
        lower(&architecture, &workload).unwrap();
        memory_use(&architecture, &workload, &Practice::default()).unwrap();
    }
});
