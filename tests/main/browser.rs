//! Tests in a headless Chromium, where node, Chromium and the packages of `tests/page` are there.

use std::path::Path;
use std::process::Command;

/// Runs a file of `tests/page` with a variable set; without node or a browser it says so, or fails where nothing may be skipped.
pub fn passes(file: &str, variable: &str, value: &Path) {
    let folder = crate::files::root().join("tests/page");
    let browser = std::env::var("CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    let missing = if Command::new("node").arg("--version").output().is_err() {
        "node"
    } else if !folder.join("node_modules/playwright-core").exists() {
        "playwright-core (npm ci in tests/page)"
    } else if !Path::new(&browser).exists() {
        "Chromium"
    } else {
        ""
    };
    if !missing.is_empty() {
        return crate::skip::skip("browser", format!("{missing} is missing"));
    }
    let tests = Command::new("node")
        .args(["--test", "--test-concurrency=1", file])
        .current_dir(&folder)
        .env(variable, value)
        .env("CHROMIUM", browser)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{output}");
    // A run in which no test was found is no success.
    let passed = output.lines().find_map(|line| line.split_once("pass "));
    let passed: u32 = passed.map_or(0, |(_, count)| count.trim().parse().unwrap());
    assert!(passed > 0, "{output}");
}
