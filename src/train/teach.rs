//! A teacher of boosted trees, and the shapes it labels for the nets.
//!
//! Trees follow the jumps of kernel heuristics better than small nets on the same features, but are too slow
//! and too coarse to ship. So they see the head's own rows and those of its sister tables, and label shapes
//! that nobody measured; the nets learn rows and labels together (distillation, Hinton et al., arXiv 1503.02531).

use crate::features::{Family, Machine};
use crate::ops::{Attention, Gemm, Op};
use crate::random::Random;
use crate::regressor::artifact::{Waves, Weights};
use crate::train::fit::Samples;
use crate::train::trees::{Forest, TreesConfig, grow};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// One table as a teacher sees it.
pub struct Lesson<'a> {
    /// The GPU and launch term of the table.
    pub machine: Machine,
    /// Operators and seconds.
    pub rows: Vec<(&'a Op, f64)>,
}

impl Lesson<'_> {
    /// Raw features and targets of every row.
    pub fn samples(&self, family: Family) -> Samples {
        let width = family.width();
        let mut samples = Samples {
            width,
            inputs: vec![0.0; width * self.rows.len()],
            targets: Vec::with_capacity(self.rows.len()),
            weights: vec![1.0; self.rows.len()],
        };
        for ((op, seconds), row) in self.rows.iter().zip(samples.inputs.chunks_exact_mut(width)) {
            let reference = self.machine.features(op, row);
            samples
                .targets
                .push((seconds / reference.secs()).ln() as f32);
        }
        samples
    }
}

/// The part of every target that is known before a row is seen; trees only learn what it leaves.
#[derive(Clone, Copy)]
pub enum Prior<'a> {
    /// Nothing.
    Ignorance,
    /// What tiles and waves cost.
    Waves(Waves),
    /// What a finished model says: few rows only have to show how theirs differ.
    Base(&'a Weights),
}

/// Trees over several tables; the index of the table is one more feature, 0 for the head's own.
pub struct Teacher<'a> {
    family: Family,
    prior: Prior<'a>,
    forests: Vec<Forest>,
}

/// What trees see of operators, and the part of each target that is known beforehand.
#[derive(Default)]
struct Material {
    inputs: Vec<f32>,
    known: Vec<f32>,
}

/// The greatest power of two that the trees tell from smaller ones where tiles are known: 64 elements are the 128 bytes
/// of fp16 that matrix units want (NVIDIA Matrix Multiplication Background User's Guide). In such small tables every
/// large width is a multiple of 128, and trees would blame alignment for what width costs.
const ALIGNED: f32 = 6.0;

impl Material {
    /// Adds the operators of `lesson`, whose raw features are `inputs`, each with the index of its table.
    fn append(
        &mut self,
        lesson: &Lesson<'_>,
        family: Family,
        inputs: &[f32],
        table: usize,
        prior: Prior<'_>,
    ) {
        let first = self.known.len();
        self.known.resize(first + lesson.rows.len(), 0.0);
        if let Prior::Base(base) = prior {
            base.say(inputs, &mut self.known[first..]);
        }
        let known = &mut self.known[first..];
        let rows = lesson.rows.iter().zip(inputs.chunks_exact(family.width()));
        for (((op, _), row), known) in rows.zip(known) {
            let start = self.inputs.len();
            self.inputs.extend_from_slice(row);
            self.inputs.push(table as f32);
            if let (Prior::Waves(waves), Op::Gemm(gemm)) = (prior, op) {
                let (waste, idle) = lesson.machine.quantization(gemm, waves.tile);
                *known = (waves.share * (waste * idle).ln()) as f32;
                let seen = &mut self.inputs[start..];
                seen[family.tile_features()].fill(0.0);
                for power in &mut seen[family.alignment_features()] {
                    *power = power.min(ALIGNED);
                }
            }
        }
    }
}

impl<'a> Teacher<'a> {
    /// Grows the trees over the head's own table (first) and its sisters, `forests` times from different seeds.
    pub fn new(
        lessons: &[Lesson<'_>],
        family: Family,
        prior: Prior<'a>,
        forests: usize,
        trees: usize,
        seed: u64,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Self {
        let mut material = Material::default();
        let mut targets = Vec::new();
        for (table, lesson) in lessons.iter().enumerate() {
            let samples = lesson.samples(family);
            material.append(lesson, family, &samples.inputs, table, prior);
            targets.extend(samples.targets);
        }
        for (target, known) in targets.iter_mut().zip(&material.known) {
            *target -= known;
        }
        let weights = vec![1.0; targets.len()];
        let mut config = TreesConfig {
            trees,
            ..TreesConfig::default()
        };
        let width = family.width() + 1;
        if matches!(prior, Prior::Base(_)) && targets.len() <= MOST_TRIED {
            config.trees = by_trial(width, &material.inputs, &targets, &config, seed);
        }
        let one = |forest: usize| {
            let mut first_only = |tree| {
                if forest == 0 {
                    progress(tree);
                }
            };
            grow(
                width,
                &material.inputs,
                &targets,
                &weights,
                &config,
                seed + forest as u64,
                &mut first_only,
            )
        };
        Self {
            family,
            prior,
            forests: (0..forests).into_par_iter().map(one).collect(),
        }
    }

    /// Labels the operators of `lesson`, whose raw features are `inputs`, as rows of the head's own table: the mean of
    /// the forests.
    pub fn label(&self, lesson: &Lesson<'_>, inputs: &[f32]) -> Vec<f32> {
        let mut material = Material::default();
        material.append(lesson, self.family, inputs, 0, self.prior);
        let mut labels = material.known;
        for forest in &self.forests {
            for (label, output) in labels.iter_mut().zip(forest.predict(&material.inputs)) {
                *label += output / self.forests.len() as f32;
            }
        }
        labels
    }
}

/// Most rows for which a trial says how many trees to grow on a base; more rows bear all of them.
const MOST_TRIED: usize = 5000;

/// Parts of the rows, each of which the others are tried on once.
const FOLDS: usize = 5;

/// The number of trees, a power of two up to that of `config`, after which rows that they have not seen are told best: few rows
/// of a part that the base knows show little but its level, and more trees would only learn their noise.
fn by_trial(
    width: usize,
    inputs: &[f32],
    targets: &[f32],
    config: &TreesConfig,
    seed: u64,
) -> usize {
    let mut fold: Vec<usize> = (0..targets.len()).map(|row| row % FOLDS).collect();
    Random::seeded(seed).shuffle(&mut fold);
    let counts: Vec<usize> = std::iter::successors(Some(1), |count| Some(2 * count))
        .take_while(|&count| count <= config.trees.max(1))
        .collect();
    let trial = |out: usize| -> Vec<f64> {
        let weights: Vec<f32> = fold
            .iter()
            .map(|&fold| f32::from(u8::from(fold != out)))
            .collect();
        let forest = grow(width, inputs, targets, &weights, config, seed, &mut |_| {});
        let miss = |count: &usize| {
            let told = forest.clone().first(*count).predict(inputs);
            let rows = told.iter().zip(targets).zip(&fold);
            let unseen = rows.filter(|(_, fold)| **fold == out);
            unseen
                .map(|((told, target), _)| f64::from((told - target).abs()))
                .sum()
        };
        counts.iter().map(miss).collect()
    };
    let misses: Vec<Vec<f64>> = (0..FOLDS).into_par_iter().map(trial).collect();
    let total = |place: usize| misses.iter().map(|of_fold| of_fold[place]).sum::<f64>();
    let best = (0..counts.len()).min_by(|&a, &b| total(a).total_cmp(&total(b)));
    best.map_or(config.trees, |place| counts[place])
}

/// Shapes inside the measured region: unseen combinations of measured sizes, and for products as many sizes
/// between them. None costs more traffic or arithmetic than the largest measured one.
pub fn invent(measured: &[&Op], count: usize, seed: u64) -> Vec<Op> {
    let Some(family) = measured.first().and_then(|op| Family::of(op)) else {
        return Vec::new();
    };
    let most =
        |amount: &dyn Fn(&Op) -> f64| measured.iter().map(|op| amount(op)).fold(0.0, f64::max);
    let most_bytes = most(&|op| op.bytes().bytes());
    let most_flops = most(&|op| op.flops().flops());
    let propose: Box<Proposal<'_>> = match family {
        Family::Gemm => Box::new(products(measured)),
        Family::Prefill | Family::Decode => Box::new(attentions(measured)),
    };
    let mut random = Random::seeded(seed);
    let mut shapes = BTreeSet::new();
    for _ in 0..8 * count {
        let fits = |op: &Op| {
            Family::of(op) == Some(family)
                && op.bytes().bytes() <= most_bytes
                && op.flops().flops() <= most_flops
        };
        shapes.extend(propose(&mut random).filter(fits));
        if shapes.len() == count {
            break;
        }
    }
    shapes.into_iter().collect()
}

/// Draws one shape, if the draw makes sense.
type Proposal<'a> = dyn Fn(&mut Random) -> Option<Op> + 'a;

fn products(measured: &[&Op]) -> impl Fn(&mut Random) -> Option<Op> {
    let known: Vec<Gemm> = measured
        .iter()
        .filter_map(|op| match op {
            Op::Gemm(gemm) => Some(*gemm),
            _ => None,
        })
        .collect();
    let [m, n, k] =
        [|op: &Gemm| op.m, |op: &Gemm| op.n, |op: &Gemm| op.k].map(|size| sizes(&known, size));
    let step = alignment(n.iter().chain(&k));
    move |random| {
        let mut op = known[random.below(known.len())];
        op.m = size(random, &m, 1);
        op.n = size(random, &n, step);
        op.k = size(random, &k, step);
        Some(Op::Gemm(op))
    }
}

fn attentions(measured: &[&Op]) -> impl Fn(&mut Random) -> Option<Op> {
    let known: Vec<Attention> = measured
        .iter()
        .filter_map(|op| match op {
            Op::Attention(attention) => Some(*attention),
            _ => None,
        })
        .collect();
    let [batch, heads, keys] = [
        |op: &Attention| op.batch,
        |op: &Attention| op.heads,
        |op: &Attention| op.seq_kv,
    ]
    .map(|size| sizes(&known, size));
    move |random| {
        let mut op = known[random.below(known.len())];
        let grouped = known[random.below(known.len())];
        let self_attending = op.seq_q == op.seq_kv;
        op.batch = random.pick(&batch);
        op.heads = random.pick(&heads);
        op.kv_heads = if grouped.heads == grouped.kv_heads {
            op.heads
        } else {
            grouped.kv_heads
        };
        op.seq_kv = random.pick(&keys);
        if self_attending {
            op.seq_q = op.seq_kv;
        }
        op.heads
            .is_multiple_of(op.kv_heads)
            .then_some(Op::Attention(op))
    }
}

/// The distinct sizes of one dimension, in order.
fn sizes<T>(known: &[T], size: fn(&T) -> u64) -> Vec<u64> {
    known
        .iter()
        .map(size)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// The greatest power of two, at most 128, that divides every size.
pub fn alignment<'a>(sizes: impl Iterator<Item = &'a u64>) -> u64 {
    1 << sizes
        .fold(0, |bits, size| bits | size)
        .trailing_zeros()
        .min(7)
}

/// Half the time one of the sorted `sizes`, else log-uniform between their ends, a multiple of `step`.
fn size(random: &mut Random, sizes: &[u64], step: u64) -> u64 {
    if random.uniform() < 0.5 {
        return random.pick(sizes);
    }
    let (low, high) = (sizes[0] as f64, sizes[sizes.len() - 1] as f64);
    let size = low * (high / low).powf(random.uniform());
    ((size / step as f64).round() as u64 * step).max(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::ops::{Dtype, Layout};
    use crate::units::Seconds;

    #[test]
    fn invented_products_stay_inside_the_measured_region_and_alignment() {
        let gemm = |m, n, k| {
            Op::Gemm(Gemm {
                m,
                n,
                k,
                batch: 1,
                layout: Layout::Tn,
                dtype: Dtype::Bf16,
            })
        };
        let measured = [gemm(1, 64, 4096), gemm(333, 1024, 96), gemm(8192, 32, 512)];
        let measured: Vec<&Op> = measured.iter().collect();
        let shapes = invent(&measured, 200, 7);
        assert_eq!(shapes.len(), 200);
        assert_eq!(shapes, invent(&measured, 200, 7));
        let mut between = 0;
        for op in &shapes {
            let Op::Gemm(gemm) = op else { panic!("{op}") };
            assert!(
                (1..=8192).contains(&gemm.m) && (32..=1024).contains(&gemm.n),
                "{op}"
            );
            assert_eq!((gemm.n % 32, gemm.k % 32), (0, 0), "{op}");
            between += usize::from(![1, 333, 8192].contains(&gemm.m));
        }
        assert!(between > 20);
    }

    /// Products on a V100 that take `time` of their reference.
    fn taught(time: impl Fn(&Gemm) -> f64) -> (Vec<Op>, Vec<f64>, Machine) {
        let machine = Machine::new(Gpu::find("v100").unwrap(), Seconds::from_micros(5.0));
        let products = (1..=60).map(|step| Gemm {
            m: 2304,
            n: 96 * step,
            k: 4096,
            batch: 1,
            layout: Layout::Nn,
            dtype: Dtype::Fp16,
        });
        let times = products
            .clone()
            .map(|gemm| machine.reference(&Op::Gemm(gemm)).secs() * time(&gemm));
        (
            products.clone().map(Op::Gemm).collect(),
            times.collect(),
            machine,
        )
    }

    fn teacher<'a>(lesson: &Lesson<'_>, prior: Prior<'a>) -> Teacher<'a> {
        let lessons = std::slice::from_ref(lesson);
        Teacher::new(lessons, Family::Gemm, prior, 1, 40, 0, &|_| {})
    }

    #[test]
    fn what_is_known_of_tiles_stands_in_the_labels() {
        let waves = Waves {
            tile: (256, 128),
            share: 0.5,
        };
        let factor = |machine: &Machine, gemm: &Gemm| {
            let (waste, idle) = machine.quantization(gemm, waves.tile);
            (waste * idle).powf(waves.share)
        };
        let (_, _, machine) = taught(|_| 1.0);
        // All that the products cost beyond 1.3 references is known, so that the trees have nothing left to learn.
        let (ops, times, _) = taught(|gemm| 1.3 * factor(&machine, gemm));
        let lesson = Lesson {
            machine,
            rows: ops.iter().zip(times).collect(),
        };
        let label = teacher(&lesson, Prior::Waves(waves))
            .label(&lesson, &lesson.samples(Family::Gemm).inputs);
        for (op, label) in ops.iter().zip(label) {
            let Op::Gemm(gemm) = op else { panic!("{op}") };
            let wanted = (1.3 * factor(&machine, gemm)).ln();
            assert!(
                (f64::from(label) - wanted).abs() < 1e-3,
                "{op}: {label} {wanted}"
            );
        }
    }

    #[test]
    fn trees_that_know_tiles_beforehand_see_none() {
        let (ops, times, machine) = taught(|gemm| 1.0 + gemm.n as f64 / 1e4);
        let lesson = Lesson {
            machine,
            rows: ops.iter().zip(times).collect(),
        };
        let inputs = lesson.samples(Family::Gemm).inputs;
        let mut changed = inputs.clone();
        for row in changed.chunks_exact_mut(Family::Gemm.width()) {
            row[Family::Gemm.tile_features()].fill(7.0);
        }
        let nothing = Waves {
            tile: (256, 128),
            share: 0.0,
        };
        let knowing = teacher(&lesson, Prior::Waves(nothing));
        assert_eq!(
            knowing.label(&lesson, &inputs),
            knowing.label(&lesson, &changed)
        );
        let seeing = teacher(&lesson, Prior::Ignorance);
        assert_ne!(
            seeing.label(&lesson, &inputs),
            seeing.label(&lesson, &changed)
        );
    }
}
