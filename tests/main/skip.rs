//! Tests of optional things: libraries, compilers, browsers, public tables. `tests/skips.rs` lists what was skipped.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Reports that a test is skipped; fails where `SHAPEWISE_REQUIRE` lists `need`, or is `all`.
pub fn skip(need: &str, reason: impl Display) {
    let required = env::var("SHAPEWISE_REQUIRE").unwrap_or_default();
    let strict = required.split(',').any(|word| word == need || word == "all");
    assert!(!strict, "SHAPEWISE_REQUIRE={required} allows no skipped test: {reason}");
    let thread = std::thread::current();
    let reason = reason.to_string();
    let reason = reason.lines().next().unwrap_or_default();
    let line = format!("{}: {need}: {reason}\n", thread.name().unwrap_or("a test"));
    let file = OpenOptions::new().append(true).create(true).open(list());
    file.unwrap().write_all(line.as_bytes()).unwrap();
    // Not by a macro: what these print in a test that passes is not shown.
    let _ = write!(std::io::stderr(), "skipped: {line}");
}

/// What the test programs of one `cargo test` skipped: beside them, by the process that started them.
pub fn list() -> PathBuf {
    #[cfg(unix)]
    let run = std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    let run = 0;
    env::current_exe().unwrap().with_file_name(format!("skipped-{run}"))
}
