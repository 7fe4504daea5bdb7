//! Tests of optional things: libraries, compilers, browsers, public tables.

use std::env;
use std::fmt::Display;

/// Reports that a test is skipped; fails where `SHAPEWISE_REQUIRE` lists `need`, or is `all`.
pub fn skip(need: &str, reason: impl Display) {
    let required = env::var("SHAPEWISE_REQUIRE").unwrap_or_default();
    let strict = required
        .split(',')
        .any(|word| word == need || word == "all");
    assert!(
        !strict,
        "SHAPEWISE_REQUIRE={required} allows no skipped test: {reason}"
    );
    eprintln!("skipped: {reason}");
}

/// A need without a meaning would never be required by anybody.
#[test]
fn every_need_is_explained_where_tests_are_run() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(root.join(".ci/run")).unwrap();
    for need in [
        "tables", "nvrtc", "browser", "wgpu", "c++", "full", "curl", "slurm",
    ] {
        let explained = |line: &str| line.starts_with("# ") && line.contains(&format!(" {need} "));
        assert!(
            script.lines().any(explained),
            ".ci/run explains no `{need}`"
        );
        let required = format!("{need},");
        let listed = script.contains(&required) || script.contains(&format!(",{need}"));
        assert!(listed, ".ci/run requires no `{need}`");
    }
}
