//! Tests of a sweep's document, table and chart on a small predicted curve.

use super::*;
use crate::ops::{Gemm, Layout};
use crate::predict::Predictor;
use crate::report::Report;
use crate::sweep::operators;

fn op(n: u64) -> Op {
    Op::Gemm(Gemm {
        m: 2304,
        n,
        k: 4096,
        batch: 1,
        layout: Layout::Nn,
        dtype: Dtype::Fp16,
    })
}

fn report() -> SweepReport {
    let gpu = Gpu::find("v100").unwrap();
    let predictor = Predictor::new(gpu, None).unwrap();
    let range = Range::new(1536, 6144, 64).unwrap();
    let sweep = operators(&predictor, range, |n| Ok(op(n))).unwrap();
    let swept = Swept {
        gpu,
        dtype: Dtype::Fp16,
        dimension: "n".to_owned(),
        range,
        framework: None,
        basis: Vec::new(),
    };
    let measured = [Measured {
        value: 2240,
        op: op(2240),
        time: Seconds::from_micros(600.0),
        stack: "mine 1".to_owned(),
    }];
    SweepReport::operators(swept, &sweep, &measured)
}

#[test]
fn text_and_json_name_the_same_drops() {
    let report = report();
    let text = report.text();
    assert!(text.contains("m 2304, k 4096, nn, fp16"), "{text}");
    assert!(text.contains("n from 1536 to 6144 by 64"), "{text}");
    let rows = text.lines().filter(|line| line.ends_with("learned")).count();
    assert!((37..=41).contains(&rows), "{rows} rows in\n{text}");
    let json: Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!((&json["subject"], &json["dimension"]), (&"gemm".into(), &"n".into()));
    assert_eq!(json["points"].as_array().unwrap().len(), 73);
    for drop in json["drops"].as_array().unwrap() {
        let position = format!("{} (-", drop["value"]);
        assert!(text.contains(&position), "{position} is not in\n{text}");
    }
    assert_eq!(json["points"][1]["alignment"], 64);
}

#[test]
fn a_chart_has_the_curve_and_the_measurements() {
    let report = report();
    let chart = report.chart();
    assert_eq!(chart.lines[0].points.len(), 73);
    assert_eq!(chart.points[0].name, "measured, mine 1");
    assert!(chart.title.contains("V100") && chart.subtitle.contains("k 4096"));
}
