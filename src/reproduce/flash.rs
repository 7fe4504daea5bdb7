//! What a fused attention kernel changes.

use crate::arch::AttentionKernel;
use crate::error::Result;
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
use crate::reproduce::layer::Layer;
use crate::reproduce::machines::Machines;

/// Heads of the sweep.
const HEADS: u64 = 128;

/// Head size, measured TFLOP/s of a whole attention block with 128 heads and FlashAttention (EleutherAI/cookbook raw logs,
/// flash_attn_hsweep.out, A100; board not recorded).
const FLASH: [(u64, f64); 21] = [
    (8, 21.9),
    (16, 48.8),
    (32, 87.0),
    (48, 102.8),
    (64, 136.1),
    (80, 207.7),
    (88, 214.0),
    (96, 216.5),
    (97, 198.7),
    (104, 215.3),
    (109, 180.4),
    (112, 218.8),
    (113, 183.1),
    (120, 227.6),
    (128, 222.5),
    (129, 207.7),
    (160, 226.3),
    (192, 234.1),
    (255, 226.6),
    (84, 204.9),
    (89, 196.6),
];

/// From here on the log is free of jumps that no rule explains: the timed region holds an allocator flush.
const PLATEAU: u64 = 84;

pub(super) fn flash(machines: &Machines) -> Result<Finding> {
    let rate_of = |head_dim: u64| -> Result<f64> {
        let layer = Layer::predict(
            &machines.a100,
            HEADS * head_dim,
            HEADS,
            AttentionKernel::Flash,
        )?;
        Ok(layer.attention_rate())
    };
    let mut predicted = Vec::new();
    for head_dim in (8..=255).chain([256]) {
        predicted.push((head_dim as f64, rate_of(head_dim)?));
    }
    let at = |head_dim: u64| predicted[head_dim as usize - 8].1;
    let measured = |head_dim: u64| {
        let found = FLASH.iter().find(|point| point.0 == head_dim);
        found.map_or(f64::NAN, |point| point.1)
    };
    let plateau: Vec<_> = FLASH
        .iter()
        .filter(|(d, _)| *d >= PLATEAU && d % 8 == 0)
        .map(|(d, measured)| (*measured, at(*d)))
        .collect();
    let neighbours = [(96, 97), (112, 113), (128, 129)];
    let lead = |rate: &dyn Fn(u64) -> f64| {
        mean(
            neighbours
                .iter()
                .map(|(whole, odd)| rate(*whole) / rate(*odd)),
        )
    };
    let flat = |rate: &dyn Fn(u64) -> f64| rate(192) / rate(96);
    let basis = Basis::KeptOut;
    let comparisons = vec![
        Comparison::new(
            "rate at head size 192 over 96",
            Some(flat(&measured)),
            flat(&at),
            Unit::Ratio,
        ),
        Comparison::new(
            "multiples of 8 over the next odd size (96, 112, 128)",
            Some(lead(&measured)),
            lead(&at),
            Unit::Ratio,
        ),
        Comparison::new(
            "rate at head size 128 over 64 (the logs are doubtful below 84)",
            Some(measured(128) / measured(64)),
            at(128) / at(64),
            Unit::Ratio,
        ),
    ];
    let criteria = vec![
        Criterion::at_most(
            "attention block at multiples of 8 from 84 on: median error of the rate",
            basis,
            median_error(&plateau),
            Unit::Share,
            RATE_ERROR,
        ),
        Criterion::near(
            "flat plateau: rate at 192 over 96",
            basis,
            flat(&at),
            flat(&measured),
        ),
        Criterion::near(
            "multiples of 8 lead the next odd size",
            basis,
            lead(&at),
            lead(&measured),
        ),
    ];
    let panel = Panel::new(
        "Attention block with a fused kernel on a100-40gb",
        Axis::plain("head size h/a"),
        Axis::rate(),
    )
    .conditions("QKV, flash attention and projection; 128 heads, batch 4 x 2,048 tokens, fp16, full square counted")
    .predicted("predicted", predicted.clone())
    .measured(
        "measured",
        basis,
        FLASH.iter().map(|(d, rate)| (*d as f64, *rate)).collect(),
    );
    Ok(Finding {
        id: "flash-plateau",
        title: "FlashAttention",
        claim: "With FlashAttention the power of two in the head size stops to matter; the rate rises with the hidden size and then stays flat.",
        source: "claim: figure 12 of the paper (stas00/ml-engineering, training/performance/images); numbers: EleutherAI/cookbook raw logs, \
                 flash_attn_hsweep.out, A100, board not recorded",
        rules: &["flash", "few-heads"],
        panels: vec![panel],
        comparisons,
        criteria,
        notes: vec![
            "The predictor computes a head size between two kernel sizes as the next kernel size, so its line has steps at 64, 128 and 192 \
             where the log of 2023 rises smoothly. The log keeps the slowest call and has an allocator flush inside, so only its \
             plateau and the lead of multiples of 8 are judged."
                .to_owned(),
        ],
        ..Finding::default()
    })
}
