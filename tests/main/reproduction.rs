//! `reproduce`: the findings of the co-design paper, from the shipped models alone and beside the authors' sweeps.

use crate::cli::{Outcome, parse, refuses, run};
use serde_json::Value;
use std::fs;
use std::path::Path;

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

/// Runs the command into a folder.
fn reproduce(folder: &Path, options: &[&str]) -> Outcome {
    let out = folder.to_str().unwrap();
    let outcome = run(&[&["reproduce", "--out", out, "--force"], options].concat());
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    outcome
}

fn document(folder: &Path, options: &[&str]) -> Value {
    let outcome = reproduce(folder, &[options, &["--format", "json"]].concat());
    assert!(outcome.err.contains("report.html"), "{}", outcome.err);
    parse("reproduce", &outcome.out)
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
    if cfg!(feature = "dataset") {
        refuses(&data, 1, &["absent.parquet"]);
    } else {
        refuses(&data, 1, &["--data", "feature `dataset`"]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(feature = "dataset")]
mod with_data {
    use super::*;
    use crate::made_up;

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
        let Some(tables) = std::env::var_os("SHAPEWISE_PUBLIC_DATA") else {
            return crate::skip::skip(
                "tables",
                "SHAPEWISE_PUBLIC_DATA does not name the folder of the public tables",
            );
        };
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let public = |name: &str| Path::new(&tables).join(name).to_str().unwrap().to_owned();
        let rows = file("rows.parquet");
        let sources = [
            public("cookbook_gemm_bmm.parquet"),
            public("cookbook_wave_sweeps_eval_only.parquet"),
        ];
        let [a, b] = sources.each_ref().map(String::as_str);
        let outcome = run(&["import", "cookbook", a, b, "--out", &rows]);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        let document = document(&folder.path().join("report"), &["--data", &rows]);
        is_whole(&folder.path().join("report"), &document);
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
}
