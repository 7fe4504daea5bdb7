//! The body of `/v1/sweep/model`, and the first step along it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::query::Size;
use shapewise::query::sweep::Sizes;
use shapewise::query::workload::Workload;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = body::read::<wire::SweptModel>(bytes, None) else {
        return;
    };
    let _ = Sizes::from(&model);
    let Ok(architecture) = model.architecture.resolve("architecture") else {
        return;
    };
    let workload = Workload::<Size>::from(&model.workload);
    let _ = workload.map(|_, size| size.at(1)).on(&architecture);
});
