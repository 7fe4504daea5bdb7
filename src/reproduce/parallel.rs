//! How the work of a GPU is cut: tensor-parallel ranks and micro-batches.

use crate::arch::Architecture;
use crate::arch::Workload;
use crate::error::Result;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::predict::Predictor;
use crate::predict::step::estimate_step;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::alignment::product;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::RATE_ERROR;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::mean;
use crate::reproduce::judge::median_error;
use crate::reproduce::layer::BATCH;
use crate::reproduce::layer::SEQ;
use crate::reproduce::machines::Machines;
use crate::reproduce::machines::name;
use crate::reproduce::machines::rate;
use crate::reproduce::machines::rates;

/// Tensor-parallel ranks of the logs.
pub(super) const RANKS: [u64; 4] = [1, 2, 4, 8];

/// Heads of the sweep.
const HEADS: u64 = 128;

/// One product of a layer, by hidden size and ranks, with its mean measured rate for each of [`RANKS`].
type Sharded = (&'static str, fn(u64, u64) -> Gemm, [f64; 4]);

const fn batched(n: u64, k: u64, ranks: u64) -> Gemm {
    Gemm {
        m: SEQ,
        n,
        k,
        batch: BATCH * HEADS / ranks,
        layout: Layout::Nn,
        dtype: Dtype::Fp16,
    }
}

/// Means over hidden sizes 8,192 to 16,383 (EleutherAI/cookbook raw logs, h_sweep.out); two to a panel.
const SHARDED: [[Sharded; 2]; 3] = [
    [
        (
            "QKV",
            |h, t| product(8192, 3 * h / t, h, Layout::Tn),
            [249.0, 243.0, 243.0, 244.0],
        ),
        (
            "projection",
            |h, t| product(8192, h, h / t, Layout::Tn),
            [246.0, 241.0, 219.0, 201.0],
        ),
    ],
    [
        (
            "MLP up",
            |h, t| product(8192, 4 * h / t, h, Layout::Tn),
            [253.0, 248.0, 242.0, 245.0],
        ),
        (
            "MLP down",
            |h, t| product(8192, h, 4 * h / t, Layout::Tn),
            [247.0, 245.0, 244.0, 241.0],
        ),
    ],
    [
        (
            "score",
            |h, t| batched(SEQ, h / HEADS, t),
            [47.8, 47.5, 47.2, 44.9],
        ),
        (
            "value",
            |h, t| batched(h / HEADS, SEQ, t),
            [79.4, 78.6, 74.3, 73.2],
        ),
    ],
];

pub(super) fn tensor_parallel(machines: &Machines) -> Result<Finding> {
    let mut finding = Finding {
        id: "tensor-parallel",
        title: "Tensor parallelism of each operator",
        claim: "Every tensor-parallel rank more makes the products smaller, so take as few as fit; the attention projection, whose reduction \
                shrinks, loses most.",
        source: "rule: stas00/ml-engineering, training/performance; numbers: EleutherAI/cookbook raw logs, Oct 2023, h_sweep.out, products of one \
                 rank without collectives, on an A100 with 40 GB",
        rules: &["tensor-parallel", "hidden-shard", "qkv-shard", "mlp-shard"],
        ..Finding::default()
    };
    let basis = machines.quoted(&machines.a100);
    let widths: Vec<u64> = (8192..16384).step_by(128).collect();
    let mut pairs = Vec::new();
    for two in SHARDED {
        let mut panel = Panel::new(
            format!("{} and {} by ranks, a100-40gb", two[0].0, two[1].0),
            Axis::log("tensor-parallel ranks"),
            Axis::rate(),
        )
        .conditions("mean over hidden sizes 8,192 to 16,383 by 128; 128 heads, 8,192 tokens, fp16, one rank, no collectives");
        for (what, at, measured) in two {
            let predicted = RANKS.map(|ranks| {
                let products: Vec<_> = widths.iter().map(|h| at(*h, ranks)).collect();
                mean(rates(&machines.a100, &products).into_iter())
            });
            let spots = |rates: [f64; 4]| {
                RANKS
                    .map(|ranks| ranks as f64)
                    .into_iter()
                    .zip(rates)
                    .collect()
            };
            pairs.extend(measured.into_iter().zip(predicted));
            let (was, is) = (measured[3] / measured[0], predicted[3] / predicted[0]);
            let text = format!("{what}: rate with 8 ranks over 1");
            finding
                .comparisons
                .push(Comparison::new(&text, Some(was), is, Unit::Ratio));
            finding.criteria.push(Criterion::near(text, basis, is, was));
            panel = panel
                .predicted(format!("predicted, {what}"), spots(predicted))
                .measured(format!("measured, {what}"), basis, spots(measured));
        }
        finding.panels.push(panel);
    }
    finding.criteria.push(Criterion::at_most(
        "all products and ranks: median error of the mean rate",
        basis,
        median_error(&pairs),
        Unit::Share,
        RATE_ERROR,
    ));
    let arch = Architecture::find("gpt3-6.7b")?;
    let mut line = Vec::new();
    for tp in RANKS {
        let work = Workload {
            tp,
            ..Workload::train(BATCH, SEQ)
        };
        line.push((tp as f64, per_gpu(&machines.target, &arch, &work)?));
    }
    let gpu = name(&machines.target);
    let falls = line.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    finding.criteria.push(Criterion::at_least(
        format!(
            "training of GPT-3 6.7B on {gpu}: share of doublings that lower the throughput of a GPU"
        ),
        Basis::Claim,
        falls as f64 / (line.len() - 1) as f64,
        Unit::Share,
        1.0,
    ));
    finding.panels.push(
        Panel::new(
            format!("GPT-3 6.7B by ranks on {gpu}"),
            Axis::log("tensor-parallel ranks"),
            Axis::of("throughput of a GPU", Unit::TokensPerS),
        )
        .conditions("training, batch 4 x 2,048 tokens, bf16, flash attention, collectives at the bandwidth of the links; whether it fits is not asked")
        .predicted("predicted", line),
    );
    finding.notes.push(
        "Nothing over several GPUs was measured by the authors' code: its whole-layer runs with more ranks repeat the unsharded times."
            .to_owned(),
    );
    Ok(finding)
}

/// Tokens per second of one GPU.
pub(super) fn per_gpu(predictor: &Predictor, arch: &Architecture, work: &Workload) -> Result<f64> {
    Ok(estimate_step(predictor, arch, work)?.tokens_per_s_per_gpu())
}

/// Measured TFLOP/s of squares of 1,024, one and many to a batch (EleutherAI/cookbook raw logs, bmm).
const SQUARES: [(f64, u64, f64); 3] = [(40.0, 32, 62.8), (59.5, 64, 229.1), (42.5, 64, 90.0)];

pub(super) fn micro_batch(machines: &Machines) -> Result<Finding> {
    let mut finding = Finding {
        id: "micro-batch",
        title: "Micro-batch",
        claim: "The micro-batch should be as large as memory allows: more tokens are more blocks for every product.",
        source: "rule: stas00/ml-engineering, training/performance; numbers: EleutherAI/cookbook raw logs, Oct 2023, batched squares",
        rules: &["micro-batch", "tokens"],
        ..Finding::default()
    };
    for (predictor, (one, many, all)) in machines.authors().into_iter().zip(SQUARES) {
        let square = |batch| Gemm {
            batch,
            ..product(1024, 1024, 1024, Layout::Nn)
        };
        let predicted = rate(predictor, square(many)) / rate(predictor, square(1));
        let text = format!(
            "squares of 1,024 on {}: {many} in a batch over 1",
            name(predictor)
        );
        finding.comparisons.push(Comparison::new(
            &text,
            Some(all / one),
            predicted,
            Unit::Ratio,
        ));
        finding.criteria.push(Criterion::near(
            text,
            machines.quoted(predictor),
            predicted,
            all / one,
        ));
    }
    let gpu = name(&machines.target);
    let mut panel = Panel::new(
        format!("Throughput by micro-batch on {gpu}"),
        Axis::log("sequences of a micro-batch"),
        Axis::of("throughput over that of one sequence", Unit::Ratio),
    )
    .conditions(
        "training, 2,048 tokens a sequence, bf16, flash attention; whether it fits is not asked",
    );
    for (model, title) in [("gpt3-350m", "GPT-3 350M"), ("gpt3-2.7b", "GPT-3 2.7B")] {
        let arch = Architecture::find(model)?;
        let mut line = Vec::new();
        for batch in [1, 2, 4, 8, 16, 32] {
            let work = Workload::train(batch, SEQ);
            line.push((batch as f64, per_gpu(&machines.target, &arch, &work)?));
        }
        let rises = line.windows(2).filter(|pair| pair[1].1 > pair[0].1).count();
        finding.criteria.push(Criterion::at_least(
            format!("{title} on {gpu}: share of doublings that raise the throughput"),
            Basis::Claim,
            rises as f64 / (line.len() - 1) as f64,
            Unit::Share,
            1.0,
        ));
        let one = line[0].1;
        let over_one = line.iter().map(|(batch, rate)| (*batch, rate / one));
        panel = panel.predicted(format!("predicted, {title}"), over_one.collect());
    }
    finding.panels.push(panel);
    finding
        .notes
        .push("The paper's own numbers by micro-batch were not seen. What is measured is the mechanism: more members of a batched product.".to_owned());
    Ok(finding)
}
