//! The body of `/v1/search`, up to the request with everything filled in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::serve::body;
use shapewise::serve::wire;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(search) = body::read::<wire::Search>(bytes, None)
        && let Ok(query) = search.query()
    {
        let _ = query.request();
    }
});
