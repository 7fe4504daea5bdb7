//! Differences of loss between shapes, judged on public runs.

use crate::cli::{json, number};
use crate::skip::skip;

/// The bounds that the laws have to meet: on pairs of shapes that no fit saw.
#[test]
fn differences_of_loss_are_predicted_for_shapes_that_no_fit_saw() {
    let Some(folder) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
        skip(
            "tables",
            "SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables",
        );
        return;
    };
    let table = std::path::Path::new(&folder).join("loss_runs.parquet");
    let document = json(&format!("evaluate --loss {}", table.display()));
    let overall = |judge: &str| {
        let mut all = document["overall"].as_array().unwrap().iter();
        all.find(|errors| errors["judge"] == judge).unwrap()
    };
    let refitted = overall("refitted without the shapes");
    assert!(number(refitted, "median_error_mnat") <= 14.0, "{refitted}");
    assert!(number(refitted, "sign_right") >= 0.92, "{refitted}");
    assert!(number(refitted, "coverage_90") >= 0.8, "{refitted}");
    let without = overall("refitted without a shape term");
    let [with, without] = [refitted, without].map(|errors| number(errors, "rms_error_mnat"));
    assert!(with < 0.5 * without, "{with} {without}");
}
