//! Frameworks of one's own: from measured steps in CSV to predictions, and how published frameworks answer.

use crate::cli::{data, json, number, parse, run, say};
use std::fmt::Write;
use std::path::Path;

/// Steps that are given as slower than the framework predicts.
const SLOWER: f64 = 1.3;

/// Models, micro-batch and sequence.
const STEPS: [(&str, u64, u64); 5] = [
    ("llama-3.2-1b", 4, 2048),
    ("llama-3.2-3b", 2, 4096),
    ("qwen3-4b", 2, 4096),
    ("qwen2.5-1.5b", 8, 2048),
    ("qwen2.5-3b", 1, 8192),
];

/// Writes the first `count` steps as runs that took longer than fsdp2 predicts.
fn write_runs(path: &Path, count: usize) {
    let mut csv = "model,gpu,mode,batch,seq,seconds\n".to_owned();
    for (model, batch, seq) in &STEPS[..count] {
        let line = format!("predict model {model} --gpu h100 --batch {batch} --seq {seq} --framework fsdp2");
        let seconds = SLOWER * number(&json(&line), "time_us") * 1e-6;
        writeln!(csv, "{model},h100,train,{batch},{seq},{seconds}").unwrap();
    }
    std::fs::write(path, csv).unwrap();
}

#[test]
fn runs_of_ones_own_become_a_framework() {
    let folder = tempfile::tempdir().unwrap();
    let [runs, out] = ["my.csv", "mine.toml"].map(|name| folder.path().join(name));
    let [runs, out] = [&runs, &out].map(|path| path.to_str().unwrap());
    write_runs(Path::new(runs), STEPS.len());
    let calibrate = format!("calibrate --runs {runs} --framework fsdp2 --out {out} --force -q");
    let report = json(&calibrate);
    assert_eq!(report["framework"], "mine");
    assert!(number(&report, "base_mean_ape") > 0.2, "{report}");
    let fit = &report["fits"]["train_dense"];
    assert_eq!(fit["runs"], 5);
    assert!(number(fit, "mean_ape") < 0.12, "{report}");

    let csv = folder.path().join("judged.csv");
    let each = format!("--csv {} --format json", csv.display());
    let asked = format!("evaluate --runs {runs} --framework {out} {each}");
    let judged = parse(&asked, &say(&asked).out);
    let text = std::fs::read_to_string(csv).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 1 + STEPS.len(), "{text}");
    assert!(lines[0].contains("run,measured_s,predicted_s,low_s,high_s"), "{text}");
    assert!(
        lines[1].starts_with("step,train_dense,mine,h100,bf16,native,"),
        "{text}"
    );
    assert!(number(&judged["overall"], "mean_ape") < 0.06, "{judged}");
    assert_eq!(judged["groups"][0]["framework"], "mine");
    let on = |gpu: &str| format!("evaluate --runs {runs} --framework {out} --gpu {gpu}");
    let all = number(&judged["overall"], "n");
    assert_eq!(number(&json(&on("h100"))["overall"], "n"), all);
    for (line, code, part) in [
        (
            on("h200"),
            1,
            "no run is left: 5 skipped (GPU `h100` was not asked for)",
        ),
        (on("h2000"), 2, "`h2000`"),
        (format!("{} --stack elsewhere", on("h100")), 1, "was not asked for"),
        (format!("{} --data {runs}", on("h100")), 2, "--data"),
        (format!("{} --from native", on("h100")), 2, "--from"),
        (format!("{} --kept-out --model h100", on("h100")), 2, "--kept-out"),
    ] {
        let output = say(&line);
        assert_eq!(output.code, code, "{line}: {}", output.err);
        assert!(output.err.contains(part), "{line}: {}", output.err);
    }
    let text = data(&format!("predict model llama-3.2-1b --gpu h100 --framework {out}"));
    assert!(
        text.contains("framework mine: calibrated on 5 runs, from fsdp2"),
        "{text}"
    );

    write_runs(Path::new(runs), 2);
    let few = say(&calibrate);
    assert_eq!(few.code, 1);
    assert!(
        few.err.contains("2 of the runs can be predicted; at least 3"),
        "{}",
        few.err
    );
}

#[test]
fn a_framework_that_does_not_run_the_mode_is_refused_by_name() {
    for (line, part) in [
        (
            "predict model llama-3-8b --framework vllm",
            "`framework` is `vllm`; allowed: in train: ",
        ),
        (
            "predict model llama-3-8b --mode decode --framework ddp",
            "allowed: in decode: burn, kernels, ",
        ),
        (
            "predict model llama-3-8b --framework fast",
            "`framework` is `fast`; allowed: burn, ddp, ",
        ),
        ("predict model llama-3-8b --framework nowhere.toml", "nowhere.toml"),
    ] {
        let outcome = say(line);
        let wanted = if part == "nowhere.toml" { 1 } else { 2 };
        assert_eq!(outcome.code, wanted, "{line}");
        assert!(outcome.err.contains(part), "{line}: {}", outcome.err);
    }
    let negative = run(&["predict", "model", "gpt2", "--network-gbit-per-s", "-1"]);
    assert_eq!(negative.code, 2);
}

#[test]
fn replicas_of_more_nodes_are_no_cliff() {
    let rate = |dp: u64| {
        let line =
            format!("predict model llama-3-8b --gpu h100 --zero 3 --seq 8192 --batch 1 --dp {dp} --framework fsdp2");
        number(&json(&line), "tokens_per_s_per_gpu")
    };
    let node = rate(8);
    for dp in [9, 16, 64, 512] {
        let ratio = rate(dp) / node;
        assert!((0.9..1.1).contains(&ratio), "{dp}: {ratio}");
    }
    let slow = "predict model llama-3-8b --gpu h100 --zero 3 --seq 8192 --batch 1 --dp 64 --framework fsdp2 \
                --network-gbit-per-s 10";
    assert!(number(&json(slow), "tokens_per_s_per_gpu") < node / 2.0);
}
