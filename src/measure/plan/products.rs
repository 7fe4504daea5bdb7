//! Sets of matrix products.

use super::scale::flops_in;
use super::sobol::Sobol;
use super::{Sizing, product};
use crate::measure::device::Case;
use crate::ops::Dtype;
use crate::ops::Gemm;
use crate::ops::Layout;
use crate::ops::Op;
use crate::random::Random;
use crate::units::FlopsPerSecond;

/// Hidden sizes of published transformers, then awkward ones: odd, not multiples of 64, or just beside one.
const WIDTHS: [u64; 22] = [
    768, 1024, 1280, 1536, 1600, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 12288, 1000, 2049,
    2304, 2504, 4100, 5000, 6000, 7680,
];

/// Vocabularies of Llama 2, GPT-2, GPT-2 padded, Llama 3 and Qwen 2.
const VOCABULARIES: [u64; 5] = [32000, 50257, 50304, 128_256, 151_936];

/// Tokens of a micro-batch in training, and of a decoding batch.
const TOKENS: [u64; 5] = [512, 2048, 4096, 8192, 16384];
const DECODED: [u64; 5] = [1, 4, 16, 64, 128];

/// Largest dimension of a made-up shape.
const LARGEST: f64 = 131_072.0;

/// Algorithms that are tried of one shape.
const RANKS: u32 = 8;

/// Linear layers of transformers: QKV, projection, both halves of the MLP, logits; forward and both gradients.
pub fn transformer(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
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
    let mut shapes: Vec<(u64, u64, u64, Layout)> = Vec::new();
    for (out, input) in layers {
        for tokens in TOKENS.map(|tokens| (tokens / shrink).max(1)) {
            shapes.push((tokens, out, input, Layout::Tn));
            shapes.push((tokens, input, out, Layout::Nn));
            shapes.push((out, input, tokens, Layout::Nt));
        }
        for tokens in DECODED {
            shapes.push((tokens, out, input, Layout::Tn));
        }
    }
    shapes.sort_unstable();
    shapes.dedup();
    random.shuffle(&mut shapes);
    let cases = shapes.into_iter().filter_map(|(m, n, k, layout)| {
        let dtype = sizing.offer.dtype(random.uniform());
        let allowed = sizing.offer.layouts(dtype);
        let layout = if allowed.contains(&layout) {
            layout
        } else {
            sizing.offer.layout(dtype)
        };
        let gemm = gemm(m, n, k, layout, dtype)?;
        sizing.fits(&Op::Gemm(gemm)).then(|| product(gemm))
    });
    cases.take(wanted).collect()
}

/// The power of two by which widths and tokens are divided, so that most layers of the largest share of cases are short
/// enough for this device.
fn shrink(sizing: &Sizing<'_>) -> u64 {
    let dtype = sizing
        .offer
        .dtypes
        .iter()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let dtype = dtype.map_or(Dtype::Fp32, |most| most.0);
    let fits = |shrink: u64| {
        let shapes = WIDTHS
            .iter()
            .flat_map(|&width| TOKENS.map(|tokens| (width / shrink, tokens / shrink)));
        let (mut fit, mut all) = (0, 0);
        for (width, tokens) in shapes {
            all += 1;
            let layer = gemm(tokens, 4 * width, width, sizing.offer.layout(dtype), dtype);
            fit += usize::from(layer.is_some_and(|layer| sizing.fits(&Op::Gemm(layer))));
        }
        fit * 10 >= all * 6
    };
    (0..6)
        .map(|power| 1 << power)
        .find(|&by| fits(by))
        .unwrap_or(64)
}

/// Sobol points over the logarithms of FLOPs, `m/n` and `k/sqrt(mn)`: over independent sizes half of the points
/// would take a few microseconds. A third of the sizes is free, a third multiples of 8, a third of 64.
pub fn space_filling(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    sobol_products(sizing, "sobol", 20 * wanted.max(1), wanted)
}

/// The first `wanted` products that this many points of a sequence give.
fn sobol_products(sizing: &Sizing<'_>, name: &str, points: usize, wanted: usize) -> Vec<Case> {
    let sequence = Sobol::new(sizing.seed, name);
    let cases = sequence
        .take(points)
        .enumerate()
        .filter_map(|(index, point)| {
            let dtype = sizing.offer.dtype(point[3]);
            let gemm = shape(
                sizing,
                &point,
                [1, 8, 64][index % 3],
                layout(sizing, dtype, point[4]),
                dtype,
            )?;
            Some(product(gemm))
        });
    cases.take(wanted).collect()
}

/// Three quarters in the layout of a forward pass, the rest in the others.
fn layout(sizing: &Sizing<'_>, dtype: Dtype, at: f64) -> Layout {
    let allowed = sizing.offer.layouts(dtype);
    match (allowed.len(), at < 0.75) {
        (0 | 1, _) | (_, true) => sizing.offer.layout(dtype),
        (others, false) => {
            let place = (at - 0.75) / 0.25 * (others - 1) as f64;
            allowed[(1 + place as usize).min(others - 1)]
        }
    }
}

/// The product at a point of the unit cube.
fn shape(
    sizing: &Sizing<'_>,
    point: &[f64],
    unit: u64,
    layout: Layout,
    dtype: Dtype,
) -> Option<Gemm> {
    let log = |least: f64, most: f64, at: f64| (least.ln() + (most / least).ln() * at).exp();
    let rate = rate(sizing, dtype)?;
    let least = flops_in(sizing.shortest(), rate).flops();
    let most = flops_in(sizing.plan.longest, rate).flops();
    let volume = log(least, most, point[0]) / 2.0;
    let (aspect, depth) = (
        log(1.0 / 256.0, 256.0, point[1]),
        log(1.0 / 16.0, 16.0, point[2]),
    );
    let side = (volume / depth).cbrt();
    let size = |exact: f64| {
        let units = (exact.clamp(1.0, LARGEST) / unit as f64).round().max(1.0);
        units as u64 * unit
    };
    let (m, n) = (size(side * aspect.sqrt()), size(side / aspect.sqrt()));
    let gemm = gemm(m, n, size(depth * side), layout, dtype)?;
    sizing.fits(&Op::Gemm(gemm)).then_some(gemm)
}

fn rate(sizing: &Sizing<'_>, dtype: Dtype) -> Option<FlopsPerSecond> {
    let any = Op::Gemm(Gemm::square(1, sizing.offer.layout(dtype), dtype));
    sizing.scale.rate(&any)
}

/// The largest power of two, 128 to 4096, whose square product takes at most a fifth of the longest call.
fn base(sizing: &Sizing<'_>, dtype: Dtype) -> u64 {
    let short = |size: u64| {
        let op = Op::Gemm(Gemm::square(size, sizing.offer.layout(dtype), dtype));
        sizing.scale.guess(&op) <= sizing.plan.longest / 5.0
    };
    let powers = (7..=12).rev().map(|power| 1 << power);
    powers.into_iter().find(|&size| short(size)).unwrap_or(128)
}

/// Both contiguous dimensions as odd multiples of 1, 2, … 128 near three base sizes, for every layout.
///
/// Forward and input gradient read and write rows along `k` and `n`, the weight gradient along `m` and `n`.
pub fn alignment(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let mut random = Random::new(sizing.seed, "alignment cases");
    let mut cases = Vec::new();
    let dtype = most_wanted(sizing);
    let top = base(sizing, dtype);
    let classes = || (0..8).map(|power| 1u64 << power);
    let near = |base: u64, class: u64| ((base / class) | 1) * class;
    for base in [top, top / 2, top / 4] {
        for &layout in sizing.offer.layouts(dtype) {
            for (first, second) in classes().flat_map(|one| classes().map(move |two| (one, two))) {
                let (first, second) = (near(base, first), near(base, second));
                let gemm = match layout {
                    Layout::Tn | Layout::Nn => gemm(base, first, second, layout, dtype),
                    Layout::Nt | Layout::Tt => gemm(first, second, base, layout, dtype),
                };
                cases.extend(gemm.map(product));
            }
        }
    }
    random.shuffle(&mut cases);
    cases.truncate(wanted);
    cases
}

/// Whole lines through five bases: ±64 in steps of one, then 60 multiples of 8 up to three times the base.
pub fn sweeps(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let dtype = most_wanted(sizing);
    let top = base(sizing, dtype);
    let layout = sizing.offer.layout(dtype);
    let bases = [(4, 4, 4), (2, 4, 8), (8, 2, 4), (1, 8, 4), (4, 1, 8)];
    let mut lines: Vec<(usize, usize)> = (0..bases.len())
        .flat_map(|base| (0..3).map(move |axis| (base, axis)))
        .collect();
    Random::new(sizing.seed, "sweep lines").shuffle(&mut lines);
    let mut cases = Vec::new();
    for (base, axis) in lines {
        let (m, n, k) = bases[base];
        let sizes = [m, n, k].map(|quarters| top * quarters / 4);
        let center = sizes[axis];
        let fine = center.saturating_sub(64).max(1)..=center + 64;
        let (least, most) = (64f64, 3.0 * center as f64);
        let coarse = (0..60).map(|step| {
            let size = least * (most / least).powf(f64::from(step) / 59.0);
            (size / 8.0).round() as u64 * 8
        });
        for size in fine.chain(coarse) {
            if cases.len() >= wanted {
                return cases;
            }
            let mut sizes = sizes;
            sizes[axis] = size;
            let gemm = gemm(sizes[0], sizes[1], sizes[2], layout, dtype);
            cases.extend(gemm.map(product));
        }
    }
    cases
}

/// Batches of 2 to 512 products: heads of unfused attention, experts.
pub fn batched(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let sequence = Sobol::new(sizing.seed, "batched");
    let cases = sequence
        .take(20 * wanted.max(1))
        .enumerate()
        .filter_map(|(index, point)| {
            let dtype = sizing.offer.dtype(point[3]);
            let batch = (1u64 << (1 + (point[5] * 9.0) as u32)).min(512);
            let layout = layout(sizing, dtype, point[4]);
            let one = shape(sizing, &point, [1, 8, 64][index % 3], layout, dtype)?;
            // The FLOPs of the point are those of the whole batch.
            let shrunk = |size: u64| ((size as f64 / (batch as f64).cbrt()).round() as u64).max(1);
            let unit = [1, 8, 64][index % 3];
            let size = |size: u64| shrunk(size).next_multiple_of(unit);
            let gemm = Gemm {
                batch,
                ..gemm(size(one.m), size(one.n), size(one.k), layout, dtype)?
            };
            sizing.fits(&Op::Gemm(gemm)).then(|| product(gemm))
        });
    cases.take(wanted).collect()
}

/// Shapes of the space-filling set with each of the library's first eight algorithms.
pub fn best_of(sizing: &Sizing<'_>, wanted: usize) -> Vec<Case> {
    let shapes = space_filling(sizing, wanted);
    let ranked = shapes.into_iter().flat_map(|case| {
        (0..RANKS).map(move |rank| Case {
            rank,
            ..case.clone()
        })
    });
    ranked.collect()
}

/// The format with the largest share.
fn most_wanted(sizing: &Sizing<'_>) -> Dtype {
    let most = sizing
        .offer
        .dtypes
        .iter()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or(Dtype::Fp32, |most| most.0)
}

/// A product of sizes that are all at least one.
fn gemm(m: u64, n: u64, k: u64, layout: Layout, dtype: Dtype) -> Option<Gemm> {
    let whole = [m, n, k].iter().all(|&size| size >= 1);
    whole.then_some(Gemm {
        m,
        n,
        k,
        batch: 1,
        layout,
        dtype,
    })
}

/// Random candidates for active rounds: more points of the space-filling set.
pub fn candidates(sizing: &Sizing<'_>, round: usize, wanted: usize) -> Vec<Case> {
    sobol_products(sizing, &format!("candidates {round}"), 2 * wanted, wanted)
}
