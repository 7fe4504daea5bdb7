//! The body of `/v1/predict/graph`; bytes that are no JSON are the ONNX model itself.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::answer;
use shapewise::graph;
use shapewise::request::GraphRequest;
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let listing = match read::<GraphRequest>(bytes) {
        Some(asked) => answer::graph::read(asked).map(|(listing, _)| listing),
        None => graph::of_onnx(bytes, &graph::Options::default(), "graph"),
    };
    for item in listing.map_or_else(|_| Vec::new(), |listing| listing.items) {
        assert!(item.op.flops().flops().is_finite() && item.op.flops().flops() >= 0.0 && item.op.bytes().bytes() >= 0.0);
    }
});
