//! From a bare machine to a prediction: measure the CPU (or a GPU through wgpu), train on the rows,
//! ask the model.

use crate::cli::{parse, run};
use crate::skip::skip;
use serde_json::Value;
use shapewise::dataset::{is_timing, read};
use shapewise::ops::Op;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Some hundred short GEMMs: enough to train on, few enough for a test. They take twelve seconds on
/// two idle cores; beside a browser on both of them two minutes were once too short for a quarter
/// of them.
const PLAN: &str = r#"
name = "tiny"
budget = "6m"
soak = "0s"
anchors = 2
anchor_period = "5s"
shortest_us = 20
longest_us = 2000
dtypes = { fp32 = 1.0 }

[sets]
transformer = 40
sobol = 170
memory = 20
"#;

fn answer(args: &[&str]) -> Value {
    let outcome = run(&[args, &["--format", "json"]].concat());
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.err);
    parse(args[0], &outcome.out)
}

/// Measures, trains and asks; the device must not be one that `data/gpus` knows.
fn whole_way(device: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (plan, table, model) = (path("tiny.toml"), path("mine.parquet"), path("mine"));
    fs::write(&plan, PLAN).unwrap();

    let measure = ["measure", "--device", device, "--plan", &plan, "--out", &table];
    let outcome = run(&[&measure[..], &["--format", "json"]].concat());
    if outcome.err.contains("wgpu cannot open") {
        return skip("wgpu", &outcome.err);
    }
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let measured = parse("measure", &outcome.out);
    let rows = read(Path::new(&table)).unwrap();
    assert_eq!(measured["rows"].as_u64().unwrap(), rows.len() as u64);
    let gpu = measured["gpu"].as_str().unwrap();
    assert!(rows.iter().all(|row| &*row.gpu == gpu));
    let shapes: BTreeSet<Op> = rows.iter().map(|row| row.op).collect();
    assert!(shapes.len() >= 60, "{} shapes: {measured}", shapes.len());
    assert!(rows.iter().all(|row| row.samples.unwrap() >= 3));
    assert!(measured["run_to_run"]["median"].as_f64().unwrap() >= 0.0, "{measured}");

    let trained = answer(&[
        "train", "--data", &table, "--out", &model, "--epochs", "8", "--labels", "500",
    ]);
    let head = &trained["submodels"][0];
    assert_eq!(head["gpu"], gpu);
    let held_out = &head["held_out"][0];
    assert!(held_out["n"].as_u64().unwrap() > 0, "{trained}");
    // The noise of the measurements is printed beside the error of the model.
    assert!(head["run_to_run_median"].as_f64().is_some(), "{trained}");

    // Nothing but the model is named: it is of one device, which it describes itself.
    let shape = ["gemm", "-m", "160", "-n", "224", "-k", "192", "--dtype", "fp32"];
    let ask = |more: &[&str]| answer(&[&["predict"], &shape[..], more].concat());
    let learned = ask(&["--model", &model]);
    assert_eq!(learned["gpu"], gpu);
    assert_eq!(learned["tier"], "learned", "{learned}");
    assert!(learned["time_us"].as_f64().unwrap() > 0.0);

    // A shape of the table is answered as it was measured.
    let gemm = rows.iter().find_map(|row| match row.op {
        Op::Gemm(op) if op.batch == 1 && is_timing(row) => Some(op),
        _ => None,
    });
    let gemm = gemm.unwrap();
    let [m, n, k] = [gemm.m, gemm.n, gemm.k].map(|size| size.to_string());
    let exact = answer(&[
        "predict",
        "gemm",
        "-m",
        &m,
        "-n",
        &n,
        "-k",
        &k,
        "--layout",
        gemm.layout.name(),
        "--dtype",
        "fp32",
        "--model",
        &model,
        "--data",
        &table,
    ]);
    assert_eq!(exact["tier"], "measured", "{exact}");
}

#[test]
fn the_cpu_is_measured_trained_on_and_predicted() {
    whole_way("cpu");
}

/// On whatever adapter is there: in continuous integration that is lavapipe.
#[cfg(feature = "wgpu")]
#[test]
fn wgpu_is_measured_trained_on_and_predicted() {
    whole_way("wgpu:0");
}
