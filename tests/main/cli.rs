//! The command line as scripts see it: exit codes, streams, JSON keys, sentences, help.

use assert_cmd::Command;
use serde_json::Value;

const GEMM: [&str; 8] = ["predict", "gemm", "-m", "4096", "-n", "5120", "-k", "2560"];

/// What one run left behind.
struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

fn shapewise(args: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_shapewise"))
        .args(args)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    Outcome {
        code: output.status.code().expect("an exit code, not a signal"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The text of a run that must succeed and have nothing to say.
fn text(args: &[&str]) -> String {
    let outcome = shapewise(args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{args:?}");
    outcome.stdout
}

/// The document of a run that must succeed.
fn json(args: &[&str]) -> Value {
    let document: Value = serde_json::from_str(&text(&[args, &["--format", "json"]].concat()))
        .unwrap_or_else(|error| panic!("{args:?}: {error}"));
    assert_eq!(document["schema"], 1, "{args:?}");
    document
}

/// Checks that a run is refused with this code, in one sentence that holds all of these parts.
fn refuses(args: &[&str], code: i32, parts: &[&str]) {
    let outcome = shapewise(args);
    assert_eq!(outcome.code, code, "{args:?}: {}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "{args:?}");
    assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
    if code == 1 {
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    }
    for part in parts {
        let found = outcome.stderr.contains(part);
        assert!(found, "{args:?}: {part} is not in\n{}", outcome.stderr);
    }
}

/// Checks that an object has these keys and that each holds a number.
fn has_numbers(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(
            object[key].is_number(),
            "{key} is {} in {object}",
            object[key]
        );
    }
}

#[test]
fn a_product_is_answered_in_both_formats() {
    let document = json(&GEMM);
    has_numbers(
        &document,
        &[
            "time_us",
            "low_us",
            "high_us",
            "flops",
            "bytes",
            "tflops_per_s",
            "peak_fraction",
            "intensity_flops_per_byte",
        ],
    );
    assert_eq!(document["gpu"], "h200");
    assert_eq!(document["op"]["k"], 2560);
    assert_eq!(document["bound"], "compute");
    let number = |key: &str| document[key].as_f64().unwrap();
    assert!(number("low_us") < number("time_us") && number("time_us") < number("high_us"));
    let text = text(&GEMM);
    for part in [
        "(4096, 2560) x (2560, 5120) tn bf16",
        "90 %",
        "TFLOP/s",
        "tier",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn no_product_beats_the_peak_on_any_gpu_learned_or_not() {
    let gpus = json(&["gpus"]);
    for gpu in gpus["gpus"].as_array().unwrap() {
        let name = gpu["name"].as_str().unwrap();
        let document = json(&[&GEMM[..], &["--gpu", name]].concat());
        let fraction = document["peak_fraction"].as_f64().unwrap();
        assert!(fraction <= 1.0, "{name} at {fraction} of its peak");
    }
}

#[test]
fn attention_defaults_to_as_many_keys_and_key_heads_as_queries() {
    let document = json(&[
        "predict",
        "attention",
        "--batch",
        "2",
        "--heads",
        "32",
        "--seq",
        "1024",
        "--head-dim",
        "128",
        "--causal",
        "--pass",
        "backward",
        "--gpu",
        "a100",
    ]);
    let op = &document["op"];
    assert_eq!((&op["kv_heads"], &op["seq_kv"]), (&32.into(), &1024.into()));
    assert_eq!(
        (&op["pass"], &op["causal"]),
        (&"backward".into(), &true.into())
    );
    assert_eq!(document["gpu"], "a100");
}

#[test]
fn a_model_is_answered_operator_by_operator() {
    for mode in ["train", "prefill", "decode"] {
        let document = json(&["predict", "model", "gpt3-2.7b", "--mode", mode]);
        has_numbers(
            &document,
            &[
                "time_us",
                "low_us",
                "high_us",
                "tokens_per_s",
                "tokens_per_s_low",
                "tokens_per_s_high",
                "mfu",
            ],
        );
        assert_eq!(document["workload"]["mode"], mode);
        has_numbers(&document["memory"], &["memory_bytes", "capacity_bytes"]);
        assert_eq!(document["memory"]["fits"], true);
        let lines = document["lines"].as_array().unwrap();
        for line in lines {
            has_numbers(line, &["count", "time_us", "share", "tflops_per_s"]);
            assert!(
                line["role"].is_string() && line["tier"].is_string(),
                "{line}"
            );
        }
        let sum = |values: &mut dyn Iterator<Item = &Value>| -> f64 {
            values.map(|value| value.as_f64().unwrap()).sum()
        };
        let shares = sum(&mut lines.iter().map(|line| &line["share"]));
        let tiers = sum(&mut document["tier_shares"].as_object().unwrap().values());
        assert!(
            (shares - 1.0).abs() < 1e-9 && (tiers - 1.0).abs() < 1e-9,
            "{shares} {tiers}"
        );
    }
}

#[test]
fn the_table_of_a_training_step_fits_a_screen() {
    let text = text(&["predict", "model", "gpt3-2.7b", "--gpu", "h200"]);
    for part in [
        "role",
        "shape",
        "count",
        "time",
        "share",
        "TFLOP/s",
        "tier",
        "qkv",
        "mlp_up",
        "optimizer",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    for part in [
        "tokens/s",
        "90 %",
        "MFU",
        "memory",
        "fits",
        "2,651,553,280 parameters",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.lines().count() < 40, "{text}");
}

#[test]
fn a_hugging_face_config_is_read_and_an_unsupported_one_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.json");
    let config = r#"{"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 2, "n_positions": 256, "vocab_size": 1000}"#;
    std::fs::write(&path, config).unwrap();
    let name = path.to_str().unwrap();
    let document = json(&["predict", "model", name]);
    assert_eq!(document["model"], "tiny");
    assert_eq!(
        document["workload"]["seq"], 256,
        "the position table has 256 rows"
    );
    std::fs::write(&path, config.replace("gpt2", "mamba")).unwrap();
    refuses(
        &["predict", "model", name],
        1,
        &["tiny.json", "model_type", "mamba"],
    );
}

#[test]
fn what_cannot_be_met_exits_1_with_one_sentence() {
    let attention = [
        "predict",
        "attention",
        "--batch",
        "1",
        "--heads",
        "32",
        "--seq",
        "64",
        "--head-dim",
        "64",
    ];
    let with = |more: &[&'static str]| [&attention[..], more].concat();
    refuses(
        &with(&["--kv-heads", "5"]),
        1,
        &["--kv-heads", "5", "divisor", "32"],
    );
    refuses(
        &with(&["--kv-seq", "32", "--causal"]),
        1,
        &["--kv-seq", "32", "at least"],
    );
    refuses(
        &["predict", "model", "lama-2-7b"],
        1,
        &["lama-2-7b", "llama-2-7b"],
    );
    refuses(&["predict", "model", "absent.json"], 1, &["absent.json"]);
    refuses(
        &["predict", "model", "gpt2", "--tp", "5"],
        1,
        &["`tp` is 5", "divisor"],
    );
    refuses(
        &["predict", "model", "gpt2", "--seq", "4096"],
        1,
        &["`seq` is 4096", "1024"],
    );
    refuses(&["gpus", "h2000"], 1, &["h2000", "h200"]);
    refuses(
        &[&GEMM[..], &["--gpu", "h2000"]].concat(),
        1,
        &["h2000", "h200"],
    );
    refuses(
        &[&GEMM[..], &["--model", "absent"]].concat(),
        1,
        &["model", "absent"],
    );
}

#[test]
fn wrong_usage_exits_2_and_names_flag_value_and_what_is_allowed() {
    let m = |value: &'static str| ["predict", "gemm", "-m", value, "-n", "8", "-k", "8"];
    for value in ["0", "-5", "1.5", "many", "99999999999999999999"] {
        refuses(&m(value), 2, &["-m", value, "whole numbers from 1"]);
    }
    refuses(
        &[&GEMM[..], &["--dtype", "int8"]].concat(),
        2,
        &["--dtype", "int8", "bf16"],
    );
    refuses(
        &[&GEMM[..], &["--layout", "xy"]].concat(),
        2,
        &["--layout", "xy", "tn"],
    );
    refuses(
        &["predict", "model", "gpt2", "--zero", "4"],
        2,
        &["--zero", "4", "0..=3"],
    );
    refuses(&["predict", "gemm", "-m", "8"], 2, &["-n", "-k"]);
    refuses(
        &["import", "elsewhere", "x", "--out", "y"],
        2,
        &["elsewhere", "aiconfigurator"],
    );
    refuses(&["divine"], 2, &["divine"]);
}

#[test]
fn help_names_every_flag_of_the_contract() {
    let contract: [(&[&str], &[&str]); 10] = [
        (
            &[],
            &[
                "predict", "train", "evaluate", "import", "gpus", "models", "--format",
            ],
        ),
        (&["predict"], &["gemm", "attention", "model"]),
        (
            &["predict", "gemm"],
            &[
                "-m ",
                "-n ",
                "-k ",
                "--batch-count",
                "--dtype",
                "--layout",
                "--gpu",
                "--model",
                "--data",
                "--format",
            ],
        ),
        (
            &["predict", "attention"],
            &[
                "--batch",
                "--heads",
                "--kv-heads",
                "--seq",
                "--kv-seq",
                "--head-dim",
                "--causal",
                "--pass",
                "--dtype",
                "--gpu",
                "--model",
                "--data",
                "--format",
            ],
        ),
        (
            &["predict", "model"],
            &[
                "--mode",
                "--batch",
                "--seq",
                "--context",
                "--dtype",
                "--tp",
                "--pp",
                "--dp",
                "--zero",
                "--recompute",
                "--attention",
                "--microbatches",
                "--sequence-parallel",
                "--gpu",
                "--model",
                "--data",
                "--format",
            ],
        ),
        (
            &["train"],
            &[
                "--data",
                "--out",
                "--base",
                "--seed",
                "--backend",
                "--format",
            ],
        ),
        (
            &["evaluate"],
            &[
                "--data", "--from", "--model", "--gpu", "--stack", "--format",
            ],
        ),
        (
            &["import"],
            &["--out", "--gpu", "--stack", "--force", "--format"],
        ),
        (&["gpus"], &["--format"]),
        (&["models"], &["--format"]),
    ];
    for (command, flags) in contract {
        let help = text(&[command, &["--help"]].concat());
        for flag in flags {
            assert!(
                help.contains(flag),
                "{command:?} does not tell of {flag}:\n{help}"
            );
        }
    }
}

#[test]
fn gpus_are_listed_and_every_figure_has_its_source() {
    let all = json(&["gpus"]);
    let h200 = all["gpus"]
        .as_array()
        .unwrap()
        .iter()
        .find(|gpu| gpu["name"] == "h200")
        .unwrap();
    has_numbers(
        h200,
        &[
            "sm_count",
            "peak_bf16_flops_per_s",
            "memory_bandwidth_bytes_per_s",
            "memory_bytes",
        ],
    );
    let one = json(&["gpus", "NVIDIA H200"]);
    assert_eq!(one["name"], "h200");
    for line in one["figures"].as_array().unwrap() {
        assert!(
            line["value"].is_number() && !line["source"].as_str().unwrap().is_empty(),
            "{line}"
        );
    }
    assert!(text(&["gpus"]).contains("h200"));
    assert!(text(&["gpus", "h200"]).contains("datasheet"));
    assert!(json(&["models"])["models"].is_array());
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    for args in [&["gpus", "--format", "json"][..], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_shapewise"))
            .args(args)
            .stdout(writer)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), said.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
#[cfg(not(feature = "dataset"))]
fn a_command_whose_feature_is_off_names_it() {
    refuses(
        &["import", "cookbook", "x", "--out", "y"],
        1,
        &["`import`", "--features dataset"],
    );
    refuses(
        &["evaluate", "--data", "x"],
        1,
        &["`evaluate`", "--features dataset"],
    );
    refuses(
        &["train", "--data", "x", "--out", "y"],
        1,
        &["`train`", "--features train"],
    );
    refuses(
        &[&GEMM[..], &["--data", "x"]].concat(),
        1,
        &["`--data`", "--features dataset"],
    );
}

#[test]
#[cfg(feature = "dataset")]
fn tables_are_measured_evaluated_and_refused_when_they_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("own.parquet");
    write_table(&table);
    let name = table.to_str().unwrap();

    let measured = json(&[&GEMM[..], &["--data", name]].concat());
    assert_eq!(measured["tier"], "measured");
    assert!(
        (measured["time_us"].as_f64().unwrap() - 170.0).abs() < 1e-6,
        "{measured}"
    );
    let other = [&GEMM[..], &["--data", name, "--gpu", "a100"]].concat();
    refuses(&other, 1, &["own.parquet", "no row of a100"]);

    let document = json(&["evaluate", "--data", name]);
    let keys = [
        "n",
        "median_ape",
        "mean_ape",
        "p90_ape",
        "max_ape",
        "r2",
        "spearman",
        "coverage_90",
        "interval_half_width_median",
    ];
    has_numbers(&document["overall"], &keys);
    let group = &document["groups"][0];
    has_numbers(group, &keys);
    for (key, value) in [
        ("op", "gemm"),
        ("dtype", "bf16"),
        ("gpu", "h200"),
        ("stack", "made-up 1"),
    ] {
        assert_eq!(group[key], value);
    }
    assert_eq!(document["skipped"].as_array().unwrap().len(), 0);
    refuses(
        &["evaluate", "--data", name, "--gpu", "a100"],
        1,
        &["no row is left", "`h200` was not asked for"],
    );

    let empty = folder.path().join("empty.parquet");
    std::fs::write(&empty, "").unwrap();
    let bad = empty.to_str().unwrap();
    refuses(&["evaluate", "--data", bad], 1, &["empty.parquet"]);
    refuses(
        &["evaluate", "--data", "absent.parquet"],
        1,
        &["absent.parquet"],
    );
    refuses(
        &["import", "cookbook", bad, "--out", name],
        1,
        &["own.parquet", "exists already", "--force"],
    );
    refuses(
        &["import", "cookbook", name, "--out", name, "--force"],
        1,
        &["own.parquet", "cookbook"],
    );
    assert_eq!(
        json(&["evaluate", "--data", name])["overall"]["n"],
        2,
        "a refused import loses nothing"
    );
}

/// Two products on a made-up stack.
#[cfg(feature = "dataset")]
fn write_table(path: &std::path::Path) {
    use shapewise::dataset::{Origin, Row, write};
    use shapewise::op::{Dtype, Gemm, Layout, Op};
    use shapewise::units::Seconds;

    let row = |m: u64, micros: f64| Row {
        op: Op::Gemm(Gemm {
            m,
            n: 5120,
            k: 2560,
            batch: 1,
            layout: Layout::Tn,
            dtype: Dtype::Bf16,
        }),
        gpu: "h200".into(),
        stack: "made-up 1".into(),
        time: Seconds::from_micros(micros),
        p10: None,
        p90: None,
        samples: None,
        clock: None,
        group: None,
        origin: Origin {
            source: "test".into(),
            licence: "MIT".into(),
            libraries: None,
        }
        .into(),
    };
    write(path, &[row(4096, 170.0), row(8192, 330.0)]).unwrap();
}
