//! The body of `/v1/predict/model` and `/v1/check`: a request or a config.json. What comes before the first line
//! break is the query string.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::arch::{Practice, lower, memory_use, parameters};
use shapewise::gpu::Gpu;
use shapewise::request::{Sizes, StepRequest};
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let [query, body] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
    let query = std::str::from_utf8(query).ok().filter(|text| !text.is_empty());
    let Ok(asked) = body::read::<StepRequest>(body, query) else {
        return;
    };
    let model = &asked.request.model;
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
