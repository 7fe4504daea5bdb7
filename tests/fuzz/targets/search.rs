//! The body of `/v1/search`, up to the request with everything filled in.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::gpu::Gpu;
use shapewise::request::SearchRequest;
use shapewise::serve::body;

fuzz_target!(|bytes: &[u8]| {
    let Some(asked) = read::<SearchRequest>(bytes) else {
        return;
    };
    let like = asked.like.as_ref();
    if let Ok(like) = like.map(|model| body::architecture(model, "like")).transpose() {
        let _ = asked.request(like.as_ref(), Gpu::find("h100").unwrap());
    }
});
