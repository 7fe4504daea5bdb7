//! `shapewise sweep` as scripts meet it: documents, tables, plots, sentences.

use crate::cli::{data, json, number, refused, say};
use serde_json::Value;
use std::path::Path;

/// The sweep of arXiv 2401.14489 that shows waves.
const WAVES: &str = "sweep gemm -m 2304 -k 4096 -n 1536:6144:64";

/// The values of these entries.
fn values(entries: &Value) -> Vec<u64> {
    let entries = entries.as_array().unwrap().iter();
    entries.map(|entry| entry["value"].as_u64().unwrap()).collect()
}

/// Runs a sweep that writes a file, and returns the file.
fn written(line: &str, option: &str, path: &Path) -> Vec<u8> {
    let outcome = say(&format!("{line} {option} {}", path.display()));
    let said = format!("wrote {}\n", path.display());
    assert_eq!((outcome.code, outcome.err), (0, said), "{line}");
    assert!(outcome.out.contains("drops"), "{line}: {}", outcome.out);
    std::fs::read(path).unwrap()
}

#[test]
fn a_product_falls_where_a_further_wave_begins() {
    let line = format!("{WAVES} --gpu a100");
    let document = json(&line);
    assert_eq!(document["dimension"], "n");
    assert_eq!(document["first"]["n"], 1536);
    assert_eq!(document["last"]["n"], 6144);
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 73);
    for point in points {
        let [low, time, high] = ["low_us", "time_us", "high_us"].map(|key| number(point, key));
        assert!(low < time && time < high, "{point}");
        assert!(number(point, "tflops_per_s") < 312.0, "{point}");
    }
    // Where tiles of 128 x 256 begin a further wave, which the A100's timings show.
    assert_eq!(values(&document["drops"]), [1600, 3136, 4672]);
    let text = data(&line);
    for part in ["1600", "3136", "4672", "90 %"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(text.lines().count() < 55, "{text}");
}

#[test]
fn any_size_can_be_the_range() {
    for (line, count) in [
        ("sweep gemm -m 64:512:64 -n 4096 -k 4096", 8),
        ("sweep gemm -m 512 -n 4096 -k 1024:2048:512", 3),
        ("sweep gemm -m 512 -n 512 -k 512 --batch-count 1:4", 4),
        ("sweep attention --batch 1:3 --heads 8 --seq 512 --head-dim 64", 3),
        ("sweep attention --batch 1 --heads 8:16:8 --seq 512 --head-dim 64", 2),
        (
            "sweep attention --batch 1 --heads 8 --seq 256:512:128 --head-dim 64 --causal",
            3,
        ),
        (
            "sweep attention --batch 8 --heads 8 --seq 1 --kv-seq 512:1024:256 --head-dim 64",
            3,
        ),
        ("sweep attention --batch 1 --heads 8 --seq 512 --head-dim 64:128:8", 9),
        (
            "sweep attention --batch 1 --heads 8 --seq 512 --head-dim 64 --value-dim 64:128:64",
            2,
        ),
        ("sweep model gpt2 --layers 10:12", 3),
        ("sweep model gpt2 --dp 1:8", 8),
        ("sweep model gpt2 --hidden 768:960:96", 3),
        ("sweep model gpt2 --d-ff 3072:3136:16", 5),
        ("sweep model gpt2 --vocab 50256:50304:16", 4),
        ("sweep model gpt2 --batch 1:3", 3),
        ("sweep model gpt2 --seq 256:1024:256", 4),
        ("sweep model llama-3-8b --tp 1:4", 3),
        ("sweep model llama-3-8b --kv-heads 4:8:4", 2),
        ("sweep model llama-3-8b --mode decode --context 0:1024:512", 3),
    ] {
        let document = json(line);
        let points = document["points"].as_array().unwrap();
        assert_eq!(points.len(), count, "{line}");
        assert!(data(line).contains("drops"), "{line}");
    }
}

#[test]
fn heads_of_a_model_are_swept_at_equal_parameters() {
    let line = "sweep model gpt3-2.7b --heads 16:64";
    let document = json(line);
    assert_eq!(values(&document["points"]), [16, 20, 32, 40, 64]);
    assert_eq!(document["alignment_of"], "head_dim");
    let skipped = &document["skipped"][0];
    assert_eq!(skipped["points"], 44);
    let points = document["points"].as_array().unwrap();
    for point in points {
        assert_eq!(point["parameters"], points[0]["parameters"]);
        let rates = ["tokens_per_s_low", "tokens_per_s", "tokens_per_s_high"].map(|key| number(point, key));
        assert!(rates[0] < rates[1] && rates[1] < rates[2], "{point}");
    }
    // Heads of 128 are faster than those of 80 that the published shape has.
    let rate = |at: usize| number(&points[at], "tokens_per_s");
    assert!(rate(1) > rate(2), "{} {}", rate(1), rate(2));
    let text = data(line);
    for part in ["skipped   44 values", "`heads` is 17; allowed: a divisor of", "MFU"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn aligned_widths_are_faster_and_marked() {
    let document = json("sweep model gpt3-2.7b --gpu a100 --d-ff 10236:10244");
    let points = document["points"].as_array().unwrap();
    let aligned = points.iter().find(|point| point["value"] == 10240).unwrap();
    assert_eq!(aligned["alignment"], 2048);
    let odd = points.iter().filter(|point| point["alignment"] == 1);
    for point in odd {
        assert!(number(point, "mfu") < number(aligned, "mfu"), "{point}");
    }
    assert!(!document["drops"].as_array().unwrap().is_empty());
}

#[test]
fn more_ranks_are_used_less() {
    let document = json("sweep model llama-3-8b --tp 1:4");
    // 3 ranks do not share 32 heads.
    assert_eq!(values(&document["points"]), [1, 2, 4]);
    assert_eq!(values(&document["drops"]), [2, 4]);
    let points = document["points"].as_array().unwrap();
    let falls = 1.0 - number(&points[1], "mfu") / number(&points[0], "mfu");
    assert!((falls - number(&document["drops"][0], "depth")).abs() < 1e-9);
}

#[test]
fn a_decode_step_is_held_against_the_bandwidth() {
    let line = "sweep model llama-3-8b --mode decode --batch 16 --context 4096 --tp 1:4";
    let document = json(line);
    assert_eq!(document["drops_of"], "bandwidth_fraction");
    let points = document["points"].as_array().unwrap();
    let share = |at: usize| number(&points[at], "bandwidth_fraction");
    assert!(share(0) > 0.4 && share(0) < 1.0, "{}", points[0]);
    assert_eq!(values(&document["drops"]), [2, 4]);
    let falls = 1.0 - share(1) / share(0);
    assert!((falls - number(&document["drops"][0], "depth")).abs() < 1e-9);
    let text = data(line);
    assert!(
        text.contains("the share of the bandwidth falls by more than 3.0 % at tp = 2"),
        "{text}"
    );
    assert!(!text.contains("MFU") && text.contains("  bandwidth  "), "{text}");
    assert_eq!(json("sweep model gpt2 --batch 1:3")["drops_of"], "mfu");
}

#[test]
fn files_are_written_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{WAVES} --gpu a100");
    let csv = data(&format!("{line} --format csv"));
    assert!(csv.starts_with("value,alignment,time_us,low_us,high_us,tflops_per_s,"));
    assert_eq!(csv.lines().count(), 74);
    let model = data("sweep model gpt3-2.7b --heads 16:64 --format csv");
    assert!(model.starts_with("value,alignment,time_us,low_us,high_us,tflops_per_s,tokens_per_s,"));
    assert_eq!(model.lines().count(), 6);
    let svg = written(&line, "--plot", &folder.path().join("deep/waves.svg"));
    let svg = String::from_utf8(svg).unwrap();
    for part in ["<svg", "A100", "TFLOP/s", "90 % interval"] {
        assert!(svg.contains(part), "`{part}` is not in the plot");
    }
    let png = written(&line, "--plot", &folder.path().join("waves.PNG"));
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
}

#[test]
fn what_cannot_be_swept_is_refused() {
    for (line, code, parts) in [
        (
            "sweep gemm -m 1 -n 2 -k 3",
            2,
            &["range", "absent", "exactly one of m, n, k"][..],
        ),
        ("sweep gemm -m 1:4 -n 2:8 -k 3", 2, &["in m and n", "START:END:STEP"]),
        ("sweep model gpt2", 2, &["absent", "heads", "vocab", "context", "tp"]),
        ("sweep model gpt2 --heads 1:4 --batch 1:4", 2, &["in heads and batch"]),
        (
            "sweep model gpt2 --heads 13:15",
            1,
            &["no value of the range is possible", "`heads` is 13"],
        ),
        ("sweep model gpt5 --heads 1:4", 2, &["gpt5"]),
        ("sweep gemm -m 4:1 -n 2 -k 3", 2, &["'4:1'", "at least the start"]),
        ("sweep gemm -m 1:x -n 2 -k 3", 2, &["'1:x'", "whole numbers"]),
        ("sweep gemm -m 0:4 -n 2 -k 3", 2, &["'0:4'", "from 1"]),
        ("sweep gemm -m 1:4:0 -n 2 -k 3", 2, &["'1:4:0'"]),
        ("sweep gemm -m 1:900000:1 -n 2 -k 3", 2, &["at most 100000"]),
        (
            "sweep gemm -m odd -n 2 -k 3",
            2,
            &["'odd'", "4096,8192", "START:END:xFACTOR"],
        ),
        (
            "sweep gemm -m 1:4 -n 2 -k 3 --plot waves.pdf",
            2,
            &["waves.pdf", ".svg or .png"],
        ),
        ("predict gemm -m 1:4 -n 2 -k 3", 2, &["'1:4'", "-m"]),
        ("sweep", 2, &[]),
    ] {
        let stream = say(line);
        assert_eq!(stream.out, "", "{line}");
        if !parts.is_empty() {
            refused(line, code, parts);
        }
        assert_eq!(stream.code, code, "{line}: {}", stream.err);
    }
    for command in ["gemm", "attention", "model"] {
        let help = data(&format!("sweep {command} --help"));
        for option in ["--plot", "--gpu", "--data", "--dtype"] {
            assert!(help.contains(option), "{option} is not in\n{help}");
        }
    }
    assert!(data("sweep --help").contains("START:END:STEP"));
}

#[test]
fn a_sweep_takes_lists_factors_and_a_hundred_points() {
    let values = |line: &str| -> Vec<u64> {
        let points = json(line)["points"].as_array().unwrap().clone();
        points.iter().map(|point| point["value"].as_u64().unwrap()).collect()
    };
    let listed = values("sweep gemm -m 4096 -n 4096,8192,11008 -k 4096");
    assert_eq!(listed, [4096, 8192, 11008]);
    let grown = values("sweep attention --batch 1:64:x2 --heads 8 --seq 1024 --head-dim 128");
    assert_eq!(grown, [1, 2, 4, 8, 16, 32, 64]);
    let usual = values("sweep gemm -m 4096 -n 4096:8192 -k 4096");
    assert_eq!((usual.len(), usual[1]), (65, 4160));
    assert_eq!(values("sweep model gpt2 --batch 2,8 --gpu a100"), [2, 8]);
    let text = data("sweep gemm -m 4096 -n 4096,8192,11008 -k 4096");
    assert!(text.contains("n over 4096,8192,11008"), "{text}");
}

#[cfg(feature = "dataset")]
#[test]
fn own_timings_stand_beside_the_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    shapewise::dataset::write(&path, &crate::made_up::rows("b200")).unwrap();
    let line = "sweep gemm -m 100:2048:4 -n 4096 -k 4096 --gpu b200";
    let own = format!("{line} --data {}", path.display());
    let (plain, own_points) = (json(line), json(&own));
    assert_eq!(plain["points"], own_points["points"]);
    assert_eq!(values(&own_points["measured"]), [100, 128, 512, 2048]);
    assert_eq!(own_points["measured"][0]["stack"], "made-up 1");
    assert!(data(&own).contains("4 timings between 100 and 2048"));
    let plot = written(&own, "--plot", &folder.path().join("own.svg"));
    assert!(String::from_utf8(plot).unwrap().contains("measured, made-up 1"));
    let csv = data(&format!("{own} --format csv"));
    assert_eq!(csv.lines().filter(|line| line.ends_with(",made-up 1")).count(), 4);
    let elsewhere = format!("{own} --layout nt");
    refused(&elsewhere, 1, &["no row of b200 lies on the sweep", "n"]);
}
