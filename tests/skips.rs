//! The last of the test programs of the package: lists the checks that the others skipped, each with what it lacks.

#[path = "main/skip.rs"]
#[expect(dead_code, reason = "other test programs skip")]
mod skip;

use std::collections::BTreeSet;

fn main() {
    let list = std::fs::read_to_string(skip::list()).unwrap_or_default();
    let _ = std::fs::remove_file(skip::list());
    let checks: BTreeSet<&str> = list.lines().collect();
    println!(
        "\n{} checks were skipped (.ci/run explains what they lack)",
        checks.len()
    );
    for check in checks {
        println!("  {check}");
    }
}
