//! The body of `/v1/sweep/gemm`, and the products along it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::query::operator;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(gemm) = body::read::<wire::SweptGemm>(bytes, None) {
        let gemm = operator::Gemm::from(&gemm);
        for value in [1, 4_294_967_296] {
            let _ = gemm.map(|_, size| size.at(value)).op().flops();
        }
    }
});
