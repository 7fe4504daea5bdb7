//! What a layer consists of, and where its time goes as it gets wider.

use crate::arch::AttentionKernel;
use crate::arch::Role;
use crate::error::Result;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::RATE_ERROR;
use crate::reproduce::judge::SHARE_ERROR;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::median_error;
use crate::reproduce::layer::Layer;
use crate::reproduce::layer::is_mlp;
use crate::reproduce::machines::Machines;
use crate::reproduce::machines::name;

/// Heads of the sweep by hidden size.
const HEADS: u64 = 128;

/// Hidden size, measured milliseconds of an unfused layer with 128 heads, share of its attention block (EleutherAI/cookbook
/// raw logs and TransformerSizing, benchmarks_39232.out and benchmarks_28471.out).
const WIDTHS: [(u64, f64, f64); 8] = [
    (2048, 24.8, 0.88),
    (4096, 36.0, 0.70),
    (6144, 53.7, 0.59),
    (8192, 78.6, 0.49),
    (10240, 110.7, 0.46),
    (12288, 148.1, 0.43),
    (16384, 245.9, 0.39),
    (20480, 366.7, 0.375),
];

/// Part, its operators, its measured share of a layer of hidden size 3,072 with 24 heads (TransformerSizing,
/// results/individual_latency.out).
const PARTS: [(&str, &[Role], f64); 6] = [
    ("QKV, (b·s, h) x (h, 3h)", &[Role::Qkv], 0.142),
    (
        "score, b·a times (s, h/a) x (h/a, s)",
        &[Role::AttentionScore],
        0.077,
    ),
    (
        "mask and softmax of b·a·s² scores",
        &[Role::AttentionMask, Role::AttentionSoftmax],
        0.181,
    ),
    (
        "value, b·a times (s, s) x (s, h/a)",
        &[Role::AttentionValue],
        0.052,
    ),
    (
        "projection, (b·s, h) x (h, h)",
        &[Role::AttentionProjection],
        0.051,
    ),
    (
        "MLP up and down, (b·s, h) x (h, 4h) and back",
        &[Role::MlpUp, Role::MlpDown],
        0.384,
    ),
];

/// Shares of a layer of hidden size 3,072 with 24 heads.
const MEDIUM: (u64, u64) = (3072, 24);

/// Attention and MLP take equal parts between these widths.
const CROSSING: (u64, u64) = (8192, 10240);

pub(super) fn gemm_shares(machines: &Machines) -> Result<Finding> {
    let unfused =
        |hidden, heads| Layer::predict(&machines.a100, hidden, heads, AttentionKernel::Unfused);
    let mut shares = Vec::new();
    let mut times = Vec::new();
    for (hidden, ..) in WIDTHS {
        let layer = unfused(hidden, HEADS)?;
        shares.push((hidden as f64, 1.0 - layer.share(is_mlp)));
        times.push((hidden as f64, layer.time().millis()));
    }
    let mut flash = Vec::new();
    for (hidden, ..) in WIDTHS {
        let layer = Layer::predict(&machines.target, hidden, HEADS, AttentionKernel::Flash)?;
        flash.push((hidden as f64, 1.0 - layer.share(is_mlp)));
    }
    let medium = unfused(MEDIUM.0, MEDIUM.1)?;
    let comparisons: Vec<_> = PARTS
        .iter()
        .map(|(what, roles, measured)| {
            let predicted = medium.share(|role| roles.contains(&role));
            Comparison::new(*what, Some(*measured), predicted, Unit::Share)
        })
        .collect();

    let widest = |pairs: &mut dyn Iterator<Item = f64>| pairs.fold(0.0, f64::max);
    let of_attention = widest(
        &mut WIDTHS
            .iter()
            .zip(&shares)
            .map(|(width, share)| (width.2 - share.1).abs()),
    );
    let of_parts = widest(&mut comparisons.iter().filter_map(|part| {
        part.measured
            .map(|measured| (measured - part.predicted).abs())
    }));
    let pairs: Vec<_> = WIDTHS
        .iter()
        .zip(&times)
        .map(|(width, time)| (width.1, time.1))
        .collect();
    let falls = shares.windows(2).all(|pair| pair[0].1 > pair[1].1);
    let at = |hidden: u64| shares.iter().find(|share| share.0 == hidden as f64);
    let crosses = at(CROSSING.0).is_some_and(|share| share.1 > 0.5)
        && at(CROSSING.1).is_some_and(|share| share.1 < 0.5);
    let criteria = vec![
        Criterion::at_most(
            "share of attention by hidden size, a100-40gb: greatest difference",
            Basis::KeptOut,
            of_attention,
            Unit::Share,
            SHARE_ERROR,
        ),
        Criterion::at_most(
            "time of a layer by hidden size, a100-40gb: median error",
            Basis::KeptOut,
            median_error(&pairs),
            Unit::Share,
            RATE_ERROR,
        ),
        Criterion::at_most(
            "shares of the parts at hidden size 3,072: greatest difference",
            Basis::KeptOut,
            of_parts,
            Unit::Share,
            SHARE_ERROR,
        ),
        Criterion::holds(
            "the share of attention falls with every hidden size",
            Basis::KeptOut,
            falls,
        ),
        Criterion::holds(
            "attention and MLP change places between 8,192 and 10,240",
            Basis::KeptOut,
            crosses,
        ),
    ];
    let conditions = format!(
        "128 heads, batch 4 x 2,048 tokens, fp16, forward; {}",
        name(&machines.a100)
    );
    let measured = |value: fn(&(u64, f64, f64)) -> f64| -> Vec<_> {
        WIDTHS
            .iter()
            .map(|width| (width.0 as f64, value(width)))
            .collect()
    };
    let panels = vec![
        Panel::new(
            "Share of the attention block in a layer",
            Axis::plain("hidden size"),
            Axis::of("share of the time", Unit::Share),
        )
        .conditions(conditions.clone())
        .predicted("predicted, unfused", shares)
        .predicted(
            format!("predicted, flash attention, {}", name(&machines.target)),
            flash,
        )
        .measured(
            "measured, unfused",
            Basis::KeptOut,
            measured(|width| width.2),
        ),
        Panel::new(
            "Time of an unfused layer",
            Axis::plain("hidden size"),
            Axis::of("time", Unit::Millis),
        )
        .conditions(conditions)
        .predicted("predicted", times)
        .measured("measured", Basis::KeptOut, measured(|width| width.1)),
    ];
    Ok(Finding {
        id: "gemm-shares",
        title: "Operators as matrix products, and their shares of the time",
        claim: "Matrix products take most of the time of a transformer; attention weighs most in small models, the MLP in large ones.",
        source: "claim: a summary of the full paper (taesiri/ArXivQA, 2401.14489); numbers: EleutherAI/cookbook raw logs, \
                 Oct 2023, and jahatef/TransformerSizing, results/individual_latency.out, on an A100 with 40 GB",
        rules: &["micro-batch", "few-heads"],
        panels,
        comparisons,
        criteria,
        notes: vec![
            "The paper's own table of shares was not seen; these are the logs behind it. Products alone are 62 to 74 % of a small \
             unfused layer: mask, softmax and norms are the rest."
                .to_owned(),
        ],
        ..Finding::default()
    })
}
