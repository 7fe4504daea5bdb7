//! Tests of optional things: libraries, compilers, browsers, public tables.

use std::env::var_os;
use std::fmt::Display;

/// Reports that a test is skipped; fails where `SHAPEWISE_REQUIRE_ALL` is set.
pub fn skip(reason: impl Display) {
    let strict = var_os("SHAPEWISE_REQUIRE_ALL").is_some();
    assert!(
        !strict,
        "SHAPEWISE_REQUIRE_ALL allows no skipped test: {reason}"
    );
    eprintln!("skipped: {reason}");
}
