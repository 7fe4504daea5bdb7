//! Sets of GEMMs.

use super::Sizing;
use super::rates::flops_in;
use super::shares::in_shares;
use super::sobol::{Sobol, log_between};
use crate::ops::{Dtype, Gemm, Layout, Op};
use crate::random::Random;
use std::ops::RangeInclusive;

/// Hidden sizes of published transformers, then awkward ones: odd, not multiples of 64, or just
/// beside one.
const WIDTHS: [u64; 22] = [
    768, 1024, 1280, 1536, 1600, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 12288, 1000, 2049, 2304, 2504, 4100,
    5000, 6000, 7680,
];

/// Vocabularies of Llama 2, GPT-2, GPT-2 padded, Llama 3 and Qwen 2.
const VOCABULARIES: [u64; 5] = [32000, 50257, 50304, 128_256, 151_936];

/// Tokens of a micro-batch in training.
const TOKENS: [u64; 5] = [512, 2048, 4096, 8192, 16384];

/// Tokens of a decoding batch.
const DECODED: [u64; 5] = [1, 4, 16, 64, 128];

/// Largest dimension of a space-filling shape.
const LARGEST: f64 = 131_072.0;

/// What sizes are multiples of, by turns.
const UNITS: [u64; 3] = [1, 8, 64];

/// Linear layers of transformers: QKV, projection, both halves of the MLP, logits; forward and both
/// gradients.
pub fn transformer(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let shrink = shrink(sizing);
    let mut random = Random::new(sizing.seed, "transformer");
    let mut layers: Vec<(u64, u64)> = Vec::new();
    for hidden in WIDTHS.map(|width| (width / shrink).max(8)) {
        // Plain, gated unrounded, gated rounded up to 256.
        let gated = hidden * 8 / 3;
        for ranks in [1, 2, 4, 8] {
            layers.extend([(3 * hidden / ranks, hidden), (hidden, hidden / ranks)]);
            for mlp in [4 * hidden, gated, gated.next_multiple_of(256)] {
                layers.extend([(mlp / ranks, hidden), (hidden, mlp / ranks)]);
            }
            layers.extend(VOCABULARIES.map(|words| (words.div_ceil(shrink * ranks), hidden)));
        }
    }
    let tokens = |numbers: [u64; 5]| numbers.map(|tokens| (tokens / shrink).max(1));
    let shares = sizing.plan.layouts.iter().map(|&(layout, weight)| {
        let mut shapes: Vec<(u64, u64, u64, Layout)> = Vec::new();
        for &(out, input) in &layers {
            let run = |tokens: u64| match layout {
                Layout::Tn => (tokens, out, input, layout),
                Layout::Nn => (tokens, input, out, layout),
                Layout::Nt | Layout::Tt => (out, input, tokens, layout),
            };
            shapes.extend(tokens(TOKENS).map(run));
            if layout == Layout::Tn {
                shapes.extend(DECODED.map(run));
            }
        }
        shapes.sort_unstable();
        shapes.dedup();
        random.shuffle(&mut shapes);
        (weight, shapes)
    });
    let shapes = in_shares(shares.collect());
    let mut kept = kept(sizing, "transformer rows");
    let shapes = shapes.filter(|&(m, ..)| kept(m));
    let cases = shapes.filter_map(|(m, n, k, layout)| {
        let dtype = sizing.supported.dtype(random.uniform());
        let mut allowed = sizing.supported.layouts(dtype).iter();
        let layout = match allowed.any(|(allowed, _)| *allowed == layout) {
            true => layout,
            false => sizing.supported.layout(dtype),
        };
        fitting(sizing, gemm([m, n, k], layout, dtype)?)
    });
    cases.take(wanted).collect()
}

/// Rows of GEMMs that a plan may draw oftener than others.
const FEW_ROWS: RangeInclusive<u64> = 17..=512;

/// Whether a GEMM of so many rows is kept, so that those of few rows are as much oftener as the plan says.
fn kept(sizing: &Sizing<'_>, stream: &str) -> impl FnMut(u64) -> bool + use<> {
    let mut random = Random::new(sizing.seed, stream);
    let weight = sizing.plan.few_rows;
    move |m| FEW_ROWS.contains(&m) || weight == 1.0 || random.uniform() * weight < 1.0
}

/// The power of two that widths and tokens are divided by, so that 60 % of the layers in the most
/// wanted format are short enough for this device.
fn shrink(sizing: &Sizing<'_>) -> u64 {
    let dtype = most_wanted(sizing);
    let layout = sizing.supported.layout(dtype);
    let fits = |shrink: u64| {
        let layer = |width: u64, tokens: u64| {
            let (width, tokens) = (width / shrink, tokens / shrink);
            let layer = gemm([tokens, 4 * width, width], layout, dtype);
            layer.is_some_and(|layer| sizing.fits(&Op::Gemm(layer)))
        };
        let layers = WIDTHS
            .iter()
            .flat_map(|&width| TOKENS.map(|tokens| layer(width, tokens)));
        let fitting = layers.filter(|&fits| fits).count();
        fitting * 10 >= WIDTHS.len() * TOKENS.len() * 6
    };
    let powers = (0..6).map(|power| 1 << power);
    powers.into_iter().find(|&by| fits(by)).unwrap_or(64)
}

/// Sobol points over the logarithms of FLOPs, `m/n` and `k/sqrt(mn)`; a third of the sizes is free,
/// a third multiples of 8, a third of 64.
///
/// Over independent sizes half of the points would take a few microseconds.
pub fn space_filling(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let mut kept = kept(sizing, "sobol rows");
    sobol_gemms(sizing, "sobol", 20 * wanted.max(1), |_| 1)
        .filter(|op| matches!(op, Op::Gemm(op) if kept(op.m)))
        .take(wanted)
        .collect()
}

/// Batches of 2 to 512 GEMMs: heads of unfused attention, experts.
pub fn batched(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let batch = |at: f64| (1u64 << (1 + (at * 9.0) as u32)).min(512);
    sobol_gemms(sizing, "batched", 20 * wanted.max(1), batch)
        .take(wanted)
        .collect()
}

/// The GEMMs at this many points of a Sobol sequence; `batch` maps the last coordinate to a batch.
fn sobol_gemms(sizing: &Sizing<'_>, name: &str, points: usize, batch: impl Fn(f64) -> u64) -> impl Iterator<Item = Op> {
    let sequence = Sobol::new(sizing.seed, name).take(points).zip(0..);
    sequence.filter_map(move |(point, index)| {
        let dtype = sizing.supported.dtype(point[3]);
        let layout = sizing.supported.layout_at(dtype, point[4]);
        let unit = UNITS[index % UNITS.len()];
        let one = shape(sizing, &point, unit, layout, dtype)?;
        let batch = batch(point[5]);
        if batch == 1 {
            return fitting(sizing, one);
        }
        // The FLOPs of the point are those of the whole batch.
        let size = |size: u64| {
            let size = (size as f64 / (batch as f64).cbrt()).round() as u64;
            size.max(1).next_multiple_of(unit)
        };
        let gemm = gemm([one.m, one.n, one.k].map(size), layout, dtype)?;
        fitting(sizing, Gemm { batch, ..gemm })
    })
}

/// The GEMM at a point of the unit cube, if it is short and small enough.
fn shape(sizing: &Sizing<'_>, point: &[f64], unit: u64, layout: Layout, dtype: Dtype) -> Option<Gemm> {
    let rate = sizing.rates.rate(&Op::Gemm(Gemm::square(1, layout, dtype)))?;
    let least = flops_in(sizing.shortest(), rate).flops();
    let most = flops_in(sizing.plan.longest, rate).flops();
    let volume = log_between((least, most), point[0]) / 2.0;
    let aspect = log_between((1.0 / 256.0, 256.0), point[1]);
    let depth = log_between((1.0 / 16.0, 16.0), point[2]);
    let side = (volume / depth).cbrt();
    let size = |exact: f64| {
        let units = (exact.clamp(1.0, LARGEST) / unit as f64).round().max(1.0);
        units as u64 * unit
    };
    let sizes = [side * aspect.sqrt(), side / aspect.sqrt(), depth * side];
    let gemm = gemm(sizes.map(size), layout, dtype)?;
    sizing.fits(&Op::Gemm(gemm)).then_some(gemm)
}

/// The largest power of two, 128 to 4096, whose square GEMM takes at most a fifth of the longest
/// call.
fn base(sizing: &Sizing<'_>, dtype: Dtype) -> u64 {
    let short = |size: u64| {
        let op = Op::Gemm(Gemm::square(size, sizing.supported.layout(dtype), dtype));
        sizing.rates.roofline(&op) <= sizing.plan.longest / 5.0
    };
    let powers = (7..=12).rev().map(|power| 1 << power);
    powers.into_iter().find(|&size| short(size)).unwrap_or(128)
}

/// Both contiguous dimensions as odd multiples of 1, 2, … 128 near four base sizes, in the plan's
/// layouts.
///
/// Forward and input gradient read and write rows along `k` and `n`, the weight gradient along `m`
/// and `n`.
pub fn alignment(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let mut random = Random::new(sizing.seed, "alignment cases");
    let dtype = most_wanted(sizing);
    let top = base(sizing, dtype);
    let classes = || (0..8).map(|power| 1u64 << power);
    let near = |base: u64, class: u64| ((base / class) | 1) * class;
    let shares = sizing.supported.layouts(dtype).iter().map(|&(layout, weight)| {
        let mut cases = Vec::new();
        for base in [top, top / 2, top / 4, 3 * top / 4] {
            for (first, second) in classes().flat_map(|one| classes().map(move |two| (one, two))) {
                let (first, second) = (near(base, first), near(base, second));
                let sizes = match layout {
                    Layout::Tn | Layout::Nn => [base, first, second],
                    Layout::Nt | Layout::Tt => [first, second, base],
                };
                cases.extend(gemm(sizes, layout, dtype).map(Op::Gemm));
            }
        }
        random.shuffle(&mut cases);
        (weight, cases)
    });
    in_shares(shares.collect()).take(wanted).collect()
}

/// Whole lines through five bases, each in one of the plan's layouts by their shares: ±64 in steps
/// of one, then 60 multiples of 8 up to three times the base.
pub fn sweeps(sizing: &Sizing<'_>, wanted: usize) -> Vec<Op> {
    let dtype = most_wanted(sizing);
    let top = base(sizing, dtype);
    let bases = [[4, 4, 4], [2, 4, 8], [8, 2, 4], [1, 8, 4], [4, 1, 8]];
    let mut random = Random::new(sizing.seed, "sweep lines");
    let shares = sizing.supported.layouts(dtype).iter().map(|&(layout, weight)| {
        let mut lines: Vec<([u64; 3], usize, Layout)> = bases
            .into_iter()
            .flat_map(|base| (0..3).map(move |axis| (base, axis, layout)))
            .collect();
        random.shuffle(&mut lines);
        (weight, lines)
    });
    let lines = in_shares(shares.collect());
    let cases = lines.flat_map(|(quarters, axis, layout)| {
        let sizes = quarters.map(|quarters| top * quarters / 4);
        let center = sizes[axis];
        let fine = center.saturating_sub(64).max(1)..=center + 64;
        let range = (64.0, 3.0 * center as f64);
        let coarse = (0..60).map(move |step| (log_between(range, f64::from(step) / 59.0) / 8.0).round() as u64 * 8);
        fine.chain(coarse).filter_map(move |size| {
            let mut sizes = sizes;
            sizes[axis] = size;
            gemm(sizes, layout, dtype).map(Op::Gemm)
        })
    });
    cases.take(wanted).collect()
}

/// The format with the largest share.
pub fn most_wanted(sizing: &Sizing<'_>) -> Dtype {
    let dtypes = sizing.supported.dtypes.iter();
    let most = dtypes.max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or(Dtype::Fp32, |most| most.0)
}

/// A GEMM of sizes that are all at least one.
fn gemm([m, n, k]: [u64; 3], layout: Layout, dtype: Dtype) -> Option<Gemm> {
    let whole = m >= 1 && n >= 1 && k >= 1;
    whole.then_some(Gemm {
        layout,
        dtype,
        ..Gemm::new(m, n, k)
    })
}

/// The GEMM, if it is short and small enough.
fn fitting(sizing: &Sizing<'_>, gemm: Gemm) -> Option<Op> {
    Some(Op::Gemm(gemm)).filter(|op| sizing.fits(op))
}
