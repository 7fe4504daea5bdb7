//! The tools of the maintainers: findings of the co-design paper, from the shipped models alone and beside the authors' sweeps, and
//! the page on accuracy.

#[path = "../../../tests/main/browser.rs"]
mod browser;

#[path = "../../../tests/main/files.rs"]
#[expect(dead_code, reason = "other tests walk folders")]
mod files;

#[path = "../../../tests/main/made_up.rs"]
mod made_up;

#[path = "../../../tests/main/skip.rs"]
mod skip;

use assert_cmd::cargo::cargo_bin;
use files::{blessing, root, text_of};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Every finding, in the order of the report.
const FINDINGS: [&str; 19] = [
    "gemm-shares",
    "alignment-output",
    "alignment-vocabulary",
    "alignment-hidden",
    "waves",
    "head-size",
    "few-heads",
    "flash-plateau",
    "vocabulary-padding",
    "swiglu-width",
    "tensor-parallel",
    "micro-batch",
    "gpt3-2.7b-heads",
    "near-2.7b",
    "wide-shallow",
    "six-to-a-node",
    "pipeline-stages",
    "parallel-layers",
    "headline",
];

/// Findings whose measured points come with `--data`.
const SWEEPS: [&str; 5] = [
    "alignment-output",
    "alignment-vocabulary",
    "alignment-hidden",
    "waves",
    "head-size",
];

/// The exit code of a command, its standard output and its standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(cargo_bin("shapewise-maintain"))
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("no signal ended it");
    (code, text(output.stdout), text(output.stderr))
}

/// A failed command leaves standard output empty and one sentence that holds all these parts.
fn refuses(args: &[&str], code: i32, parts: &[&str]) {
    let (ended, out, err) = run(args);
    assert_eq!((ended, &*out), (code, ""), "{args:?}: {err}");
    assert!(err.starts_with("error: "), "{err}");
    assert!(code != 1 || err.lines().count() == 1, "{err}");
    for part in parts {
        assert!(err.contains(part), "{args:?}: `{part}` is not in {err}");
    }
}

/// The document of a report that is written to a folder.
fn document(folder: &Path, options: &[&str]) -> Value {
    let out = folder.to_str().unwrap();
    let args = ["reproduce", "--out", out, "--force", "--format", "json"];
    let (code, out, err) = run(&[&args, options].concat());
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("report.html"), "{err}");
    fs::write(folder.join("report.json"), &out).unwrap();
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["schema"], 1);
    document
}

/// A file of the repository has this text, or is written where that is asked.
fn holds(file: &str, text: &str) {
    if blessing() {
        fs::write(root().join(file), text).unwrap();
    }
    assert!(
        text_of(file) == text,
        "{file} is out of date (SHAPEWISE_BLESS=1 writes it)"
    );
}

/// A public table; `None`, and a line that says so, without the folder of them.
fn public(name: &str) -> Option<String> {
    let Some(folder) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
        let reason = "SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables";
        skip::skip("tables", reason);
        return None;
    };
    let path = Path::new(&folder).join(name).with_extension("parquet");
    Some(path.to_str().unwrap().to_owned())
}

fn texts<'a>(values: &'a Value, key: &str) -> Vec<&'a str> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value[key].as_str().unwrap()).collect()
}

fn finding<'a>(document: &'a Value, id: &str) -> &'a Value {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["id"] == id).unwrap()
}

/// Files need no others, and every panel has its picture in both of them.
fn is_whole(folder: &Path, document: &Value) {
    let html = fs::read_to_string(folder.join("report.html")).unwrap();
    for reference in ["src=", "url(", "<link", "<script", "@import", "://"] {
        assert!(!html.contains(reference), "the page holds `{reference}`");
    }
    let links = html.matches("href=").count();
    assert_eq!(links, html.matches("href=\"#").count());
    let markdown = fs::read_to_string(folder.join("report.md")).unwrap();
    let mut panels = 0;
    for finding in document["findings"].as_array().unwrap() {
        let id = finding["id"].as_str().unwrap();
        assert!(html.contains(&format!("<section id=\"{id}\">")), "{id}");
        let own = finding["panels"].as_array().unwrap();
        assert!(!own.is_empty(), "{id} draws nothing");
        for (at, panel) in own.iter().enumerate() {
            let file = format!("{id}-{}.svg", at + 1);
            let picture = fs::read_to_string(folder.join(&file)).unwrap();
            assert!(
                picture.contains("<polyline") || picture.contains("<circle"),
                "{file} is empty"
            );
            assert!(markdown.contains(&format!("]({file})")), "{file}");
            let title = panel["title"].as_str().unwrap();
            assert!(html.contains(&format!("aria-label=\"{title}\"")), "{title}");
            panels += 1;
        }
    }
    assert_eq!(html.matches("<svg ").count(), panels);
    assert_eq!(html.matches("</svg>").count(), panels);
}

/// The verdict of each finding follows from its criteria, and these from their numbers.
fn adds_up(document: &Value) {
    for finding in document["findings"].as_array().unwrap() {
        let criteria = finding["criteria"].as_array().unwrap();
        for criterion in criteria {
            let value = criterion["value"].as_f64();
            let least = criterion["at_least"].as_f64();
            let most = criterion["at_most"].as_f64();
            let met = value
                .is_some_and(|value| least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most));
            assert_eq!(criterion["is_met"], met, "{criterion}");
        }
        let met = criteria.iter().filter(|each| each["is_met"] == true);
        let met = met.count();
        assert_eq!(finding["criteria_met"], met);
        let verdict = match met {
            0 if criteria.is_empty() => "open",
            0 => "not_reproduced",
            met if met == criteria.len() => "reproduced",
            _ => "partly",
        };
        assert_eq!(finding["verdict"], verdict, "{}", finding["id"]);
        let measured = criteria.iter().any(|each| each["basis"] != "claim");
        assert_eq!(finding["measured"], measured, "{}", finding["id"]);
        for key in ["claim", "source"] {
            assert!(finding[key].as_str().unwrap().len() > 20);
        }
        let rules = finding["rules"].as_array().unwrap();
        assert!(!rules.is_empty(), "{} names no rule", finding["id"]);
    }
}

#[test]
fn the_report_comes_out_of_the_shipped_models_alone() {
    let folder = tempfile::tempdir().unwrap();
    let document = document(folder.path(), &["--gpu", "h200"]);
    assert_eq!(document["gpu"], "h200");
    assert_eq!(texts(&document["findings"], "id"), FINDINGS);
    is_whole(folder.path(), &document);
    adds_up(&document);
    for finding in document["findings"].as_array().unwrap() {
        let sweeps = SWEEPS.contains(&finding["id"].as_str().unwrap());
        let missing = finding["missing"].as_str();
        assert_eq!(missing.is_some(), sweeps, "{}", finding["id"]);
        assert!(missing.is_none_or(|text| text.contains("shapewise import cookbook")));
    }
    // What was not seen is said, and no number replaces it.
    let pythia = finding(&document, "wide-shallow");
    assert_eq!(pythia["measured"], false);
    assert!(pythia["notes"][0].as_str().unwrap().contains("not seen"));
    for comparison in pythia["comparisons"].as_array().unwrap() {
        assert!(comparison["measured"].is_null(), "{comparison}");
    }
    // Whole layers were never trained on and come out as measured.
    for id in ["gemm-shares", "gpt3-2.7b-heads", "near-2.7b"] {
        assert_eq!(finding(&document, id)["verdict"], "reproduced", "{id}");
    }
    let markdown = fs::read_to_string(folder.path().join("report.md")).unwrap();
    for part in ["NVIDIA H200", "import cookbook", "**Verdict: partly**"] {
        assert!(markdown.contains(part), "`{part}` is not in\n{markdown}");
    }
    for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let drawn = fs::read_to_string(folder.path().join(&name)).expect(&name);
        holds(&format!("docs/guide/{name}"), &drawn);
    }
}

#[test]
fn the_report_is_whole_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    document(folder.path(), &[]);
    browser::passes("report.test.mjs", "SHAPEWISE_REPORT", folder.path());
}

#[test]
fn what_is_asked_for_has_to_exist() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    refuses(&["reproduce", "--out", out, "--gpu", "a1000"], 2, &["a1000"]);
    refuses(
        &["reproduce", "--out", out, "--model", "nowhere"],
        2,
        &["model", "nowhere"],
    );
    let data = ["reproduce", "--out", out, "--data", "absent.parquet"];
    refuses(&data, 1, &["absent.parquet"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn rows_of_no_sweep_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("rows.parquet");
    shapewise::dataset::write(&table, &made_up::rows("b200")).unwrap();
    let (table, out) = (table.to_str().unwrap(), folder.path().join("report"));
    let out = out.to_str().unwrap();
    refuses(
        &["reproduce", "--data", table, "--out", out],
        1,
        &[table, "no row lies on a sweep", "v100"],
    );
    assert!(!Path::new(out).exists());
}

#[test]
fn the_authors_sweeps_are_laid_beside_the_prediction() {
    use shapewise::dataset::{Filter, Source, import, write};
    let folder = tempfile::tempdir().unwrap();
    let tables = ["cookbook_gemm_bmm", "cookbook_wave_sweeps_eval_only"];
    let Some(tables) = tables.into_iter().map(public).collect::<Option<Vec<_>>>() else {
        return;
    };
    let rows = folder.path().join("rows.parquet");
    let cookbook = Source::find("cookbook").unwrap();
    write(&rows, &import(cookbook, &tables, &Filter::default()).unwrap().rows).unwrap();
    let out = folder.path().join("report");
    let document = document(&out, &["--data", rows.to_str().unwrap()]);
    is_whole(&out, &document);
    adds_up(&document);
    for id in SWEEPS {
        let finding = finding(&document, id);
        assert!(finding["missing"].is_null(), "{id}");
        for panel in finding["panels"].as_array().unwrap() {
            assert!(!panel["points"].as_array().unwrap().is_empty(), "{panel}");
        }
    }
    // The sweep that no net was trained on: all six drops of the A100 are found.
    let waves = finding(&document, "waves");
    let found = waves["criteria"].as_array().unwrap().iter().find(|each| {
        let text = each["statement"].as_str().unwrap();
        text.starts_with("a100-40gb: share of the 6 wave drops found")
    });
    let found = found.unwrap();
    assert_eq!((&found["is_met"], &found["basis"]), (&true.into(), &"kept_out".into()));
    assert_eq!(finding(&document, "alignment-output")["verdict"], "reproduced");
}

/// Timing tables and whole models that the page on accuracy is written from.
const PAGE: [(&str, &[&str]); 2] = [
    (
        "--data",
        &[
            "aic_gemm_bf16",
            "aic_gemm_fp8",
            "aic_context_attention_bf16",
            "aic_generation_attention_bf16",
            "aic_moe",
        ],
    ),
    (
        "--runs",
        &[
            "training_steps",
            "inference_runs",
            "pipeweave_e2e_inference",
            "llmfoundry_training_throughput",
            "vtrain_training_iterations",
            "neusight_model_runs",
            "llm_inference_bench",
        ],
    ),
];

#[test]
fn the_page_on_accuracy_is_what_the_program_writes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("accuracy.md").to_str().unwrap().to_owned();
    let mut command: Vec<String> = ["accuracy", "--out", &out].map(str::to_owned).to_vec();
    for (option, tables) in PAGE {
        command.push(option.to_owned());
        for table in tables {
            let Some(path) = public(table) else { return };
            command.push(path);
        }
    }
    let (code, _, err) = run(&command.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 0, "{err}");
    holds("docs/accuracy.md", &fs::read_to_string(&out).unwrap());
    // A page that exists is replaced with `--force` alone.
    let data = ["accuracy", "--data", &command[4], "--out", &out];
    refuses(&data, 1, &["--out", "--force"]);
}

/// The bounds that the laws have to meet: on pairs of shapes that no fit saw.
#[test]
fn differences_of_loss_are_predicted_for_shapes_that_no_fit_saw() {
    let Some(table) = public("loss_runs") else { return };
    let (code, out, err) = run(&["losses", &table, "--format", "json"]);
    assert_eq!(code, 0, "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    let overall = |judge: &str| {
        let mut all = document["overall"].as_array().unwrap().iter();
        all.find(|errors| errors["judge"] == judge).unwrap()
    };
    let refitted = overall("refitted without the shapes");
    assert!(refitted["median_error_mnat"].as_f64().unwrap() <= 14.0, "{refitted}");
    assert!(refitted["sign_right"].as_f64().unwrap() >= 0.92, "{refitted}");
    assert!(refitted["coverage_90"].as_f64().unwrap() >= 0.8, "{refitted}");
    let without = overall("refitted without a shape term");
    let [with, without] = [refitted, without].map(|errors| errors["rms_error_mnat"].as_f64().unwrap());
    assert!(with < 0.5 * without, "{with} {without}");
}
