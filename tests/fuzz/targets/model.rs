//! The body of `/v1/predict/model` and `/v1/check`: a question or a config.json. What comes before the first line
//! break is the query string.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::arch::{lower, memory_use, parameters};
use shapewise::query::workload::Workload;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let [query, body] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
    let query = std::str::from_utf8(query).ok().filter(|text| !text.is_empty());
    let Ok(model) = body::read::<wire::Model>(body, query) else {
        return;
    };
    let Ok(architecture) = model.architecture.resolve("architecture") else {
        return;
    };
    let _ = parameters(&architecture);
    let workload = Workload::from(&model.workload);
    let _ = workload.described(&architecture);
    if let Ok(workload) = workload.on(&architecture) {
        lower(&architecture, &workload).unwrap();
        memory_use(&architecture, &workload).unwrap();
    }
});
