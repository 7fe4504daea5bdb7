//! How wide the inner layer of a gated MLP and the model itself should be.

use crate::arch::Architecture;
use crate::arch::AttentionKernel;
use crate::arch::Workload;
use crate::arch::parameters;
use crate::error::Result;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::predict::step::estimate_step;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::alignment::product;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::CORRELATION;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::correlation;
use crate::reproduce::judge::mean;
use crate::reproduce::machines::Machines;
use crate::reproduce::machines::name;
use crate::reproduce::machines::rates;
use crate::reproduce::shapes::training;

/// Width, TFLOP/s on H100 of `(4, 4096, f) x (4, f, 4096)` (stas00/ml-engineering, swiglu-maf-bench).
const SWIGLU: [(u64, f64); 6] = [
    (10848, 395.62),
    (10880, 395.52),
    (10912, 395.16),
    (10922, 272.73),
    (10944, 398.38),
    (11008, 395.01),
];

pub(super) fn swiglu_width(machines: &Machines) -> Result<Finding> {
    let at = |d_ff: u64| Gemm {
        batch: 4,
        ..product(4096, 4096, d_ff, Layout::Nn)
    };
    let widths: Vec<_> = (10822..=11022).step_by(2).collect();
    let products: Vec<_> = widths.iter().map(|d_ff| at(*d_ff)).collect();
    let line: Vec<_> = widths
        .iter()
        .map(|d_ff| *d_ff as f64)
        .zip(rates(&machines.h100, &products))
        .collect();
    let predicted = |d_ff: u64| line[(d_ff - 10822) as usize / 2].1;
    let pairs: Vec<_> = SWIGLU
        .iter()
        .map(|(d_ff, rate)| (*rate, predicted(*d_ff)))
        .collect();
    let level = mean(pairs.iter().map(|pair| pair.1 / pair.0));
    let basis = Basis::KeptOut;
    let gain = predicted(10944) / predicted(10922);
    let measured_gain = SWIGLU[4].1 / SWIGLU[3].1;
    let step = |d_ff: u64| -> Result<f64> {
        let mut arch = Architecture::find("llama-2-7b")?;
        arch.mlp.d_ff = d_ff;
        training(&machines.target, &arch, AttentionKernel::Flash)
    };
    let gpu = name(&machines.target);
    let whole = step(10944)? / step(10922)?;
    let text = format!("training step of Llama-2-7B on {gpu}: 10944 over 10922");
    Ok(Finding {
        id: "swiglu-width",
        title: "SwiGLU's 8h/3",
        claim: "8h/3 of a power of two is no whole number and rounds to a badly aligned one: at h = 4096 the width 10944 is 46 % faster than 10922.",
        source: "stas00/ml-engineering, training/performance and benchmarks/matrix-shape/swiglu-maf-bench.py, on H100",
        rules: &["swiglu-width", "mlp-shard"],
        panels: vec![
            Panel::new(
                "Inner width near 8h/3 on h100",
                Axis::plain("inner width of the MLP"),
                Axis::rate(),
            )
            .conditions("4 times (4096, f) x (f, 4096): the down projection of h 4,096")
            .by_alignment(basis, &line, &SWIGLU.map(|(d_ff, rate)| (d_ff as f64, rate))),
        ],
        comparisons: vec![
            Comparison::new(
                "product on h100: 10944 over 10922",
                Some(measured_gain),
                gain,
                Unit::Ratio,
            ),
            Comparison::new(&text, None, whole, Unit::Ratio),
        ],
        criteria: vec![
            Criterion::near("10944 over 10922", basis, gain, measured_gain),
            Criterion::at_least(
                "six quoted widths: correlation",
                basis,
                correlation(&pairs),
                Unit::Plain,
                CORRELATION,
            ),
            Criterion::at_least(text, Basis::Claim, whole, Unit::Ratio, 1.0),
        ],
        notes: vec![
            "The measured product has the width as its reduction only. The penalty of odd widths on Hopper is carried over from the A100 \
             sweeps."
                .to_owned(),
            format!(
                "Only the ratios are judged: the quoted rates are {:.1} times lower than predicted for the SXM part, whose best products reach \
                 794 TFLOP/s in the same source. Board, clock and operands of that run were not recorded.",
                level
            ),
        ],
        ..Finding::default()
    })
}

/// Layers, hidden size and heads of 64 with about as many parameters in the layers as Pythia-410M.
const EQUAL: [(u64, u64, u64); 6] = [
    (6, 2048, 32),
    (12, 1472, 23),
    (17, 1216, 19),
    (24, 1024, 16),
    (50, 704, 11),
    (95, 512, 8),
];

/// Cached tokens of a decoding step.
const CONTEXT: u64 = 1024;

pub(super) fn wide_and_shallow(machines: &Machines) -> Result<Finding> {
    let target = &machines.target;
    let gpu = name(target);
    let work = Workload::decode(1, CONTEXT);
    let latency = |arch: &Architecture| -> Result<f64> {
        Ok(estimate_step(target, arch, &work)?.time.millis())
    };
    let small = Architecture::find("pythia-410m")?;
    let large = Architecture::find("pythia-1b")?;
    let slower = latency(&large)? / latency(&small)?;
    let bigger = parameters(&large).non_embedding as f64 / parameters(&small).non_embedding as f64;
    let mut line = Vec::new();
    for (layers, hidden, heads) in EQUAL {
        let mut arch = small.clone();
        arch.layers = layers;
        arch.hidden = hidden;
        (arch.heads, arch.kv_heads) = (heads, heads);
        arch.mlp.d_ff = 4 * hidden;
        line.push((layers as f64, latency(&arch)?));
    }
    let rising = line.windows(2).filter(|pair| pair[0].1 < pair[1].1).count();
    let criteria = vec![
        Criterion::at_least(
            format!(
                "decoding on {gpu}: Pythia-1B over Pythia-410M in parameters, over the same in time"
            ),
            Basis::Claim,
            bigger / slower,
            Unit::Ratio,
            1.0,
        ),
        Criterion::at_least(
            format!(
                "decoding on {gpu} at equal parameters: share of steps to more layers that are slower"
            ),
            Basis::Claim,
            rising as f64 / (line.len() - 1) as f64,
            Unit::Share,
            1.0,
        ),
    ];
    Ok(Finding {
        id: "wide-shallow",
        title: "Wide and shallow against narrow and deep",
        claim: "A wide and shallow model answers faster than a narrow and deep one of its size: Pythia-1B has fewer layers than Pythia-410M.",
        source: "stas00/ml-engineering, training/performance, and the Pythia model cards",
        rules: &["depth"],
        panels: vec![
            Panel::new(
                format!("A token at equal parameters on {gpu}"),
                Axis::log("layers"),
                Axis::of("time", Unit::Millis),
            )
            .conditions(format!(
                "about 302M parameters in layers, heads of 64, decoding 1 sequence at {CONTEXT} cached tokens, bf16"
            ))
            .predicted("predicted", line),
        ],
        comparisons: vec![
            Comparison::new("Pythia-1B over Pythia-410M: parameters in layers", None, bigger, Unit::Ratio),
            Comparison::new("Pythia-1B over Pythia-410M: time of a token", None, slower, Unit::Ratio),
        ],
        criteria,
        notes: vec![
            "The paper's latencies of Pythia-410M and Pythia-1B were not seen, so the direction alone is judged."
                .to_owned(),
        ],
        ..Finding::default()
    })
}
