//! Many questions in one run: `predict batch`, `check` of several models, and what scripts of others read.

use crate::cli::{data, program, refused, run};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const GEMM: &str = "predict gemm -m 4096 -n 8192 -k 1024 --gpu a100 --format json";
const MODEL: &str = "predict model gpt2 --mode decode --batch 4 --gpu l40s --format json";

/// The document of a single question on one line.
fn alone(line: &str) -> String {
    let document: Value = serde_json::from_str(&data(line)).unwrap();
    format!("{document}\n")
}

/// What `predict batch` makes of these bytes on standard input: exit code, standard output, standard error.
fn batch(input: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let mut child = Command::new(program())
        .args(["predict", "batch", "-", "--gpu", "a100"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What is refused is not read to its end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_line_asks_for_an_interval_of_any_stack_as_the_option_does() {
    let any = alone(&format!("{GEMM} --any-stack"));
    assert!(any.contains("\"interval\":\"any_stack\"") && any != alone(GEMM));
    let line = |any_stack| json!({"kind": "gemm", "m": 4096, "n": 8192, "k": 1024, "any_stack": any_stack});
    let input = format!("{}\n{}\n", line(true), line(false));
    let (_, out, err) = batch(&input, &["--format", "json"]);
    assert_eq!(err, "");
    assert_eq!(out, any + &alone(GEMM));
}

#[test]
fn a_line_is_answered_as_the_single_question_is() {
    let op = serde_json::from_str::<Value>(&data(GEMM)).unwrap()["op"].clone();
    let lines = [
        json!({"kind": "gemm", "m": 4096, "n": 8192, "k": 1024}),
        op,
        json!({"architecture": "gpt2", "mode": "decode", "batch": 4, "gpu": "l40s"}),
        json!({"kind": "model", "architecture": "gpt2", "workload": {"mode": "decode", "batch": 4}, "gpu": "l40s"}),
        json!({"m": 4096, "n": 8192, "k": 1024, "gpu": "a100"}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n\n")).collect();
    let (code, out, err) = batch(&input, &["--format", "json"]);
    assert_eq!((code, &*err), (Some(0), ""));
    let (gemm, model) = (alone(GEMM), alone(MODEL));
    assert_eq!(out, [&*gemm, &gemm, &model, &model, &gemm].concat());
    let table = "kind,m,n,k,architecture,mode,batch,gpu\n\
                 gemm,4096,\"8,192\",1k,,,,\n\
                 model,,,,gpt2,decode,4,l40s\n";
    let (code, out, err) = batch(table, &["--format", "json"]);
    assert_eq!((code, &*err), (Some(0), ""));
    assert_eq!(out, [gemm, model].concat());
    let (code, out, _) = batch(table, &[]);
    assert_eq!((code, out.lines().count()), (Some(0), 2));
    assert!(out.lines().all(|line| line.contains(" to ")), "{out}");
}

#[test]
fn a_bad_line_is_named_and_keeps_its_place() {
    let input = "{\"m\": 8, \"n\": 8, \"k\": 8}\n{\"m\": 0, \"n\": 8, \"k\": 8}\nnonsense\n\
                 {\"kind\": \"convolution\"}\n{\"m\": 8, \"n\": 8, \"k\": 8}\n";
    let (code, out, err) = batch(input, &["--format", "json"]);
    assert_eq!(code, Some(1));
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 5);
    assert_eq!(answers[0], answers[4]);
    for (at, part) in [(1, "`m` is 0"), (2, "not a JSON object"), (3, "`kind` is")] {
        let sentence = answers[at]["error"].as_str().unwrap();
        assert!(sentence.contains(part), "{sentence}");
        assert_eq!(answers[at]["line"], at + 1);
        assert!(err.contains(&format!("-:{}: {sentence}", at + 1)), "{err}");
    }
    assert!(err.ends_with("3 of 5 lines of - have no answer\n"), "{err}");
    let (code, out, _) = batch(input, &["--format", "csv"]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        (code, lines.len(), lines[0]),
        (Some(1), 6, "line,time_us,low_us,high_us,tier,error"),
        "{out}"
    );
    assert!(lines[1].starts_with(&format!("1,{},", answers[0]["time_us"])), "{out}");
    assert!(lines[2].starts_with("2,,,,,") && lines[2].contains("`m` is 0"), "{out}");
    refused("predict batch nowhere.jsonl", 1, &["nowhere.jsonl"]);
}

#[test]
fn an_array_and_a_byte_order_mark_are_read_and_no_question_is_an_error() {
    let line = "{\"kind\": \"gemm\", \"m\": 4096, \"n\": 8192, \"k\": 1024}";
    let gemm = alone(GEMM);
    let json = ["--format", "json"];
    for input in [
        format!("[{line}]"),
        format!("\u{feff}[{line}]\n"),
        format!("\u{feff}{line}"),
        format!("\n \n{line}\n"),
        "\u{feff}kind,m,n,k\ngemm,4096,8192,1024\n".to_owned(),
    ] {
        let (code, out, err) = batch(&input, &json);
        assert_eq!((code, &*out, &*err), (Some(0), &*gemm, ""), "{input}");
    }
    let (_, out, _) = batch(&format!("\n\n{line}\n{{}}\n"), &json);
    assert!(out.contains("\"line\":4"), "{out}");
    for (input, part) in [
        ("", "no question"),
        ("\u{feff}\n", "no question"),
        ("\"x\"", "no question"),
        ("aaaa", "no question"),
        ("m,n,k\n", "no question"),
        ("[]", "no question"),
        ("[{\"m\": 1}", "one JSON object a line"),
        ("[1]", "`kind` is absent"),
    ] {
        let (code, _, err) = batch(input, &json);
        assert!(code == Some(1) && err.contains(part), "{input}: {err}");
    }
    let heading = format!("m,n,k,{}\n1,1,1,1\n", "x".repeat(5 << 20));
    let quote = format!("m,n,k\n1,1,1\n1,1,\"{}\n", "x".repeat(5 << 20));
    for input in [heading, quote] {
        let (code, out, err) = batch(&input, &json);
        assert!(code == Some(1) && out.len() < 10_000, "{err}");
        assert!(err.contains("more than 4194304 bytes"), "{err}");
    }
}

/// A decoding step in a window of one key sees itself alone.
#[test]
fn a_window_of_one_key_is_answered() {
    let op = "\"heads\": 8, \"seq_q\": 1, \"seq_kv\": 2048, \"head_dim\": 128";
    let window = |keys| format!("{{\"kind\": \"attention\", \"batch\": 1, {op}, \"window\": {keys}}}\n");
    let (code, out, err) = batch(&(window(1) + &window(2) + &window(64)), &["--format", "json"]);
    assert_eq!((code, out.lines().count(), &*err), (Some(0), 3, ""), "{out}");
}

fn written(folder: &Path, name: &str, heads: u64) -> String {
    let config = json!({
        "model_type": "gpt2", "n_embd": 2560, "n_layer": 32, "n_head": heads, "vocab_size": 50304,
        "n_positions": 2048, "tie_word_embeddings": true,
    });
    let path = folder.join(name);
    std::fs::write(&path, config.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn several_models_are_checked_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let odd = written(folder.path(), "odd.json", 32);
    let even = written(folder.path(), "even.json", 20);
    let both = run(&["check", &odd, &even, "--gpu", "a100", "--format", "json"]);
    assert_eq!((both.code, both.out.lines().count()), (0, 2), "{}", both.err);
    for (line, path) in both.out.lines().zip([&odd, &even]) {
        let single = run(&["check", path, "--gpu", "a100", "--format", "json"]).out;
        let [one, single]: [Value; 2] = [line, &single].map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(one, single);
    }
    let missing = run(&["check", &odd, "nowhere.json", &even, "--gpu", "a100"]);
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("nowhere.json"), "{}", missing.err);
    assert!(
        missing.out.contains("odd") && missing.out.contains("even"),
        "{}",
        missing.out
    );
}

#[test]
fn what_fails_a_check_can_be_chosen() {
    let code = |line: &str| run(&line.split(' ').collect::<Vec<_>>()).code;
    // Its vocabulary is odd and its head size is off the tile: hard rules with a gain of several percent.
    assert_eq!(code("check gpt3-2.7b --gpu a100 --strict"), 1);
    assert_eq!(code("check gpt3-2.7b --gpu a100 --strict --no-advice"), 1);
    assert_eq!(code("check gpt3-2.7b --gpu a100 --fail-above 1%"), 1);
    assert_eq!(code("check gpt3-2.7b --gpu a100 --fail-above 90%"), 0);
    assert_eq!(code("check gpt3-2.7b --gpu a100"), 0);
    // It breaks advice alone.
    let advised = "check falcon-7b --gpu h200";
    assert_eq!(code(&format!("{advised} --strict")), 1);
    assert_eq!(code(&format!("{advised} --strict --no-advice")), 0);
    refused("check gpt2 --strict --fail-above 1%", 2, &["--fail-above"]);
}

#[test]
fn broken_rules_are_written_for_code_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let odd = written(folder.path(), "odd.json", 32);
    let outcome = run(&["check", &odd, "gpt2", "--gpu", "a100", "--format", "sarif"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    let document: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(document["version"], "2.1.0");
    let run = &document["runs"][0];
    let results = run["results"].as_array().unwrap();
    let rules: Vec<_> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| &rule["id"])
        .collect();
    assert!(!results.is_empty() && !rules.is_empty());
    for result in results {
        assert!(rules.contains(&&result["ruleId"]), "{result}");
        assert!(result["message"]["text"].as_str().unwrap().contains("a100"), "{result}");
        assert!(
            ["note", "warning"].contains(&result["level"].as_str().unwrap()),
            "{result}"
        );
    }
    let place = |result: &Value| result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].clone();
    assert!(results.iter().any(|result| place(result) == odd.as_str()));
    assert!(results.iter().any(|result| place(result).is_null()));
    refused("predict model gpt2 --format sarif", 2, &["sarif", "check"]);
}

/// The job of `docs/measure.sbatch` with `srun` as it is on a node: it runs what it is given.
#[cfg(all(unix, feature = "dataset"))]
#[test]
fn tasks_of_a_cluster_go_on_where_they_were_killed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(program(), bin.path().join("shapewise")).unwrap();
    let srun = bin.path().join("srun");
    let plan = folder.path().join("small.toml");
    std::fs::write(
        &plan,
        "name = \"small\"\nbudget = \"9m\"\nsoak = \"0s\"\nanchors = 4\nanchor_period = \"1s\"\n\
         shortest_us = 0.2\nlongest_us = 10000\ndtypes = { bf16 = 1.0 }\n\
         [sets]\ntransformer = 60\nsobol = 60\n",
    )
    .unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/measure.sbatch");
    let task = |id: u64, srun_text: &str| {
        std::fs::write(&srun, format!("#!/bin/sh\n{srun_text}\n")).unwrap();
        std::fs::set_permissions(&srun, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new("bash");
        for (name, value) in [("ID", id), ("COUNT", 2)] {
            command.env(format!("SLURM_ARRAY_TASK_{name}"), value.to_string());
        }
        let path = format!("{}:{}", bin.path().display(), std::env::var("PATH").unwrap());
        command
            .arg(&script)
            .current_dir(folder.path())
            .env("PATH", path)
            .env("DEVICE", "scripted")
            .env("PLAN", &plan);
        command.output().unwrap()
    };
    let whole = "exec \"$@\"";
    let killed = task(1, "timeout -s KILL 0.3 \"$@\"");
    for id in [1, 2] {
        let output = task(id, whole);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{:?} {said}", killed.status);
    }
    let parts = ["part-1.parquet", "part-2.parquet"].map(|part| folder.path().join(part));
    let out = folder.path().join("mine.parquet");
    let merged = Command::new(program())
        .args(["import", "native"])
        .args(&parts)
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let planned = |path: &Path| {
        let rows = shapewise::dataset::read(path).unwrap();
        let planned = rows
            .iter()
            .filter(|row| row.measured.as_ref().unwrap().role == shapewise::dataset::Role::Plan);
        planned.count()
    };
    let [one, two] = [planned(&parts[0]), planned(&parts[1])];
    assert!(one > 20 && two > 20, "{one} {two}");
    assert_eq!(planned(&out), one + two);
}
