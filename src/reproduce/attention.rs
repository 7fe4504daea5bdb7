//! Attention: the size of heads and their number in the two products of unfused attention.

use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::predict::Predictor;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::RATE_ERROR;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::mean;
use crate::reproduce::judge::median_error;
use crate::reproduce::judge::ordered;
use crate::reproduce::layer::BATCH;
use crate::reproduce::layer::SEQ;
use crate::reproduce::machines::Machines;
use crate::reproduce::machines::Timings;
use crate::reproduce::machines::name;
use crate::reproduce::machines::rate;
use crate::reproduce::machines::rates;

const TABLE: &str = "cookbook_gemm_bmm.parquet";

/// Heads of the sweep by head size.
const HEADS: u64 = 128;

/// The score product of all heads, as the authors ran it: with both operands row-major.
fn score(heads: u64, head_dim: u64) -> Gemm {
    Gemm {
        m: SEQ,
        n: SEQ,
        k: head_dim,
        batch: BATCH * heads,
        layout: Layout::Nn,
        dtype: Dtype::Fp16,
    }
}

/// The product of probabilities and values of all heads.
fn value(heads: u64, head_dim: u64) -> Gemm {
    Gemm {
        n: head_dim,
        k: SEQ,
        ..score(heads, head_dim)
    }
}

/// One of the two products of attention.
type Product = (&'static str, fn(u64, u64) -> Gemm);

const PRODUCTS: [Product; 2] = [("score", score), ("value", value)];

/// Mean rates over head sizes 128 to 255: odd ones, then multiples of 64 (EleutherAI/cookbook raw logs, Oct 2023).
const ODD_AND_WHOLE: [(f64, f64); 2] = [(60.3, 136.5), (72.8, 178.4)];

/// Head size, score and value TFLOP/s on one die of MI250X (TransformerSizing, results/3d_plot_mi250_*.out).
const MI250X: [(u64, [f64; 2]); 6] = [
    (64, [55.8, 50.5]),
    (80, [49.1, 38.6]),
    (96, [64.2, 47.1]),
    (128, [68.2, 61.8]),
    (192, [77.5, 65.6]),
    (256, [75.4, 68.2]),
];

/// Head size and score TFLOP/s on V100 (TransformerSizing, results/V100_median_h_sweep.out).
const V100: [(u64, f64); 6] = [
    (66, 27.8),
    (72, 32.0),
    (80, 35.0),
    (96, 42.0),
    (128, 47.0),
    (192, 53.0),
];

pub(super) fn head_size(machines: &Machines, timings: &Timings) -> Finding {
    let mut finding = Finding {
        id: "head-size",
        takes_rows: true,
        title: "Head size in the products of attention",
        claim: "The score and value products get faster with wider heads and with every power of two in the head size, up to 64.",
        source: "claim: figure 7 of the paper (stas00/ml-engineering, training/performance/images); numbers: EleutherAI/cookbook raw logs, \
                 Oct 2023, and jahatef/TransformerSizing for V100 and MI250X",
        rules: &["head-size", "few-heads"],
        ..Finding::default()
    };
    let basis = machines.fitted(&machines.a100);
    for ((product, at), (odd, whole)) in PRODUCTS.into_iter().zip(ODD_AND_WHOLE) {
        let grid: Vec<_> = (1..=255).map(|d| (d as f64, at(HEADS, d))).collect();
        let along = timings.along(&machines.a100, &grid);
        let mean_of = |wanted: fn(u64) -> bool| {
            let wide = along.predicted.iter().filter(|(d, _)| *d >= 128.0);
            mean(wide.filter(|(d, _)| wanted(*d as u64)).map(|point| point.1))
        };
        let predicted = mean_of(|d| d % 64 == 0) / mean_of(|d| d % 2 == 1);
        let text = format!("{product}: multiples of 64 over odd sizes from 128 on, a100-40gb");
        finding.comparisons.push(Comparison::new(
            &text,
            Some(whole / odd),
            predicted,
            Unit::Ratio,
        ));
        finding.criteria.push(Criterion::near(
            text,
            machines.quoted(&machines.a100),
            predicted,
            whole / odd,
        ));
        finding
            .criteria
            .extend(along.criteria(&format!("{product} along the head size"), basis));
        if !along.is_measured() {
            finding.missing = Some(TABLE);
        }
        finding.panels.push(
            Panel::new(
                format!("Head size in the {product} product on a100-40gb"),
                Axis::plain("head size h/a"),
                Axis::rate(),
            )
            .conditions("128 heads, batch 4 x 2,048 tokens, fp16, unfused")
            .by_alignment(basis, &along.predicted, &along.measured),
        );
    }
    other_makers(&mut finding, machines);
    finding
}

/// V100 and MI250X, whose attention products no table holds.
fn other_makers(finding: &mut Finding, machines: &Machines) {
    let basis = Basis::KeptOut;
    let sizes: Vec<_> = (16..=256).step_by(2).collect();
    let line = |predictor: &Predictor, at: fn(u64, u64) -> Gemm| -> Vec<_> {
        let products: Vec<_> = sizes.iter().map(|d| at(HEADS, *d)).collect();
        let rates = rates(predictor, &products);
        sizes.iter().map(|d| *d as f64).zip(rates).collect()
    };
    let mut panel = Panel::new(
        "Head size on the other parts of the authors",
        Axis::plain("head size h/a"),
        Axis::rate(),
    )
    .conditions("score product, 128 heads, batch 4 x 2,048 tokens, fp16, unfused; even sizes");
    let points = |at: &[(u64, f64)]| at.iter().map(|(d, rate)| (*d as f64, *rate)).collect();
    let scores = MI250X.map(|(d, rates)| (d, rates[0]));
    panel = panel
        .predicted("predicted, v100", line(&machines.v100, score))
        .predicted("predicted, mi250x", line(&machines.mi250x, score))
        .measured("measured, v100", basis, points(&V100))
        .measured("measured, mi250x", basis, points(&scores));
    finding.panels.push(panel);

    let mut judge =
        |predictor: &Predictor, what: &str, at: fn(u64, u64) -> Gemm, measured: &[(u64, f64)]| {
            let pairs: Vec<_> = measured
                .iter()
                .map(|(d, measured)| (*measured, rate(predictor, at(HEADS, *d))))
                .collect();
            finding.criteria.push(Criterion::at_most(
                format!(
                    "{what}, {}: median error over quoted sizes",
                    name(predictor)
                ),
                basis,
                median_error(&pairs),
                Unit::Share,
                RATE_ERROR,
            ));
        };
    judge(&machines.v100, "score", score, &V100);
    for (at, (product, of)) in PRODUCTS.into_iter().enumerate() {
        let measured = MI250X.map(|(d, rates)| (d, rates[at]));
        judge(&machines.mi250x, product, of, &measured);
    }
    let ratio = |predictor: &Predictor| {
        rate(predictor, score(HEADS, 80)) / rate(predictor, score(HEADS, 64))
    };
    // d = 64 on V100 was not seen; from 62.6 to 78.4 on A100, from 55.8 to 49.1 on MI250X.
    let [a100, mi250x] = [&machines.a100, &machines.mi250x].map(ratio);
    for (gpu, measured, predicted, basis) in [
        (
            "a100-40gb",
            78.4 / 62.6,
            a100,
            machines.quoted(&machines.a100),
        ),
        ("mi250x", 49.1 / 55.8, mi250x, basis),
    ] {
        let text = format!("score: rate at head size 80 over 64, {gpu}");
        finding.hold_ratio(text, basis, predicted, measured);
    }
    finding.notes.push(
        "V100 and MI250X were trained with plain products and batched squares only; their curves by head size are carried over to \
         shapes that no table holds."
            .to_owned(),
    );
}

/// A number of heads with the rates of both products.
type ByHeads = (u64, [f64; 2]);

/// Heads at hidden size 14,336, score and value TFLOP/s (TransformerSizing, results/A100_n_sweep.out and V100_n_sweep.out).
const AT_14336: [(&str, [ByHeads; 6]); 2] = [
    (
        "a100-40gb",
        [
            (8, [240.6, 239.1]),
            (16, [227.1, 214.7]),
            (32, [200.0, 211.0]),
            (64, [148.2, 197.3]),
            (128, [95.4, 127.1]),
            (256, [54.1, 71.5]),
        ],
    ),
    (
        "v100",
        [
            (8, [68.3, 69.9]),
            (16, [66.5, 69.4]),
            (32, [63.1, 68.2]),
            (64, [56.0, 58.1]),
            (128, [41.1, 52.6]),
            (256, [30.1, 23.6]),
        ],
    ),
];

pub(super) fn few_heads(machines: &Machines) -> Finding {
    let mut finding = Finding {
        id: "few-heads",
        title: "Fewer heads",
        claim: "At equal hidden size, fewer and wider heads make both products of attention faster.",
        source: "claim: figure 8 of the paper (stas00/ml-engineering, training/performance/images); numbers: jahatef/TransformerSizing, \
                 results/A100_n_sweep.out and V100_n_sweep.out",
        rules: &["few-heads"],
        ..Finding::default()
    };
    let basis = Basis::KeptOut;
    for (predictor, (gpu, measured)) in [&machines.a100, &machines.v100].into_iter().zip(AT_14336) {
        let mut panel = Panel::new(
            format!("Heads at hidden size 14,336 on {gpu}"),
            Axis::log("heads"),
            Axis::rate(),
        )
        .conditions("batch 4 x 2,048 tokens, fp16, unfused");
        for (at, (product, of)) in PRODUCTS.into_iter().enumerate() {
            let predicted: Vec<_> = measured
                .iter()
                .map(|(heads, _)| (*heads as f64, rate(predictor, of(*heads, 14336 / heads))))
                .collect();
            let points: Vec<_> = measured
                .iter()
                .map(|(heads, rates)| (*heads as f64, rates[at]))
                .collect();
            let pairs: Vec<_> = points
                .iter()
                .zip(&predicted)
                .map(|(a, b)| (a.1, b.1))
                .collect();
            finding.criteria.push(Criterion::at_least(
                format!("{product}, {gpu}: neighbours in the measured order"),
                basis,
                ordered(&pairs),
                Unit::Share,
                1.0,
            ));
            finding.criteria.push(Criterion::at_most(
                format!("{product}, {gpu}: median error of the rate"),
                basis,
                median_error(&pairs),
                Unit::Share,
                RATE_ERROR,
            ));
            panel = panel
                .predicted(format!("predicted, {product}"), predicted)
                .measured(format!("measured, {product}"), basis, points);
        }
        finding.panels.push(panel);
    }
    finding
}
