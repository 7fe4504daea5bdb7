//! The body of `/v1/sweep/attention`, and the attentions along it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::query::operator;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(attention) = body::read::<wire::SweptAttention>(bytes, None) {
        let attention = operator::Attention::from(&attention);
        for value in [1, 4_294_967_296] {
            let _ = attention.map(|_, size| size.at(value)).op();
        }
    }
});
