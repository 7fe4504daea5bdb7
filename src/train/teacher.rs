//! A teacher of boosted trees, whose pseudo-labels the nets learn from.
//!
//! Trees follow the jumps of kernel heuristics better than small nets on the same features, but are too slow
//! and too coarse to ship. So they see the sub-model's own rows and those of its auxiliary tables, and give
//! pseudo-labels to unmeasured shapes; the nets learn rows and labels together (distillation, Hinton et al., arXiv 1503.02531).

use crate::families::{Family, GpuRates, Role};
use crate::ops::{Gemm, Op};
use crate::random::Random;
use crate::regressor::artifact::{Waves, Weights};
use crate::tiles::{Tile, Waves as Fill};
use crate::train::fit::Samples;
use crate::train::kriging::Kriging;
use crate::train::trees::{Forest, TreesConfig, grow};
use rayon::prelude::*;
use std::borrow::Cow;

/// Operators of one table with their times.
pub struct LabelledTable<'a> {
    /// Rates of the GPU and launch term of the table.
    pub rates: GpuRates,
    /// Operators and seconds.
    pub rows: Vec<(&'a Op, f64)>,
}

impl<'a> LabelledTable<'a> {
    /// Shapes that are yet to be labelled; the times that they carry mean nothing.
    pub fn unlabelled(shapes: &'a [Op], rates: GpuRates) -> Self {
        Self {
            rates,
            rows: shapes.iter().map(|op| (op, 1.0)).collect(),
        }
    }

    /// Raw features and targets of every row.
    pub fn samples(&self, family: Family) -> Samples {
        let width = family.width();
        let mut samples = Samples {
            width,
            inputs: vec![0.0; width * self.rows.len()],
            targets: Vec::with_capacity(self.rows.len()),
        };
        for ((op, seconds), row) in self.rows.iter().zip(samples.inputs.chunks_exact_mut(width)) {
            let reference = self.rates.features(op, row);
            samples.targets.push((seconds / reference.secs()).ln() as f32);
        }
        samples
    }
}

/// The part of every target that is known before a row is seen; trees only learn what it leaves.
#[derive(Clone, Copy)]
pub enum Prior<'a> {
    /// Nothing.
    None,
    /// What tiles and waves cost.
    Waves(Waves),
    /// What a finished model predicts: few rows only have to show how theirs differ.
    Base(&'a Weights),
    /// What neighbouring pairs `(n, k)` say, where the tables are grids: one forest sees it, the next learns what it leaves.
    Kriging,
}

/// Trees over several tables; the index of the table is one more feature, 0 for the sub-model's own.
pub struct Teacher<'a> {
    family: Family,
    prior: Prior<'a>,
    /// Of the sub-model's own table, where its neighbours are known.
    kriging: Option<Kriging>,
    forests: Vec<Forest>,
}

/// What trees see of operators, and the part of each target that is known beforehand.
#[derive(Default)]
struct TreeInputs {
    inputs: Vec<f32>,
    known: Vec<f32>,
    /// What the neighbours say; empty where nothing is known of them.
    kriged: Vec<f32>,
}

/// The greatest power of two that the trees distinguish from smaller ones where tiles are known: 64 elements are the 128 bytes
/// of fp16 that matrix units want (NVIDIA Matrix Multiplication Background User's Guide). In such small tables every
/// large width is a multiple of 128, and trees would blame alignment for what width costs.
const ALIGNED: f32 = 6.0;

/// How a GEMM falls into the tile that is known beforehand.
fn fill(gemm: &Gemm, waves: &Waves, rates: &GpuRates) -> Fill {
    Fill::new(gemm, Tile::new(waves.tile.0, waves.tile.1), rates.sms())
}

impl TreeInputs {
    /// Adds the operators of `table`, whose raw features are `inputs`, each with the index of its table.
    fn append(
        &mut self,
        table: &LabelledTable<'_>,
        family: Family,
        inputs: &[f32],
        index: usize,
        prior: Prior<'_>,
        kriging: Option<&Kriging>,
    ) {
        let first = self.known.len();
        self.known.resize(first + table.rows.len(), 0.0);
        if let Prior::Base(base) = prior {
            let known = self.known[first..].iter_mut();
            for (known, output) in known.zip(base.predict(inputs)) {
                *known = output.mean as f32;
            }
        }
        let known = &mut self.known[first..];
        self.kriged
            .extend(kriging.iter().flat_map(|kriging| kriging.column(table)));
        let mut kriged = self.kriged[first.min(self.kriged.len())..].iter();
        let rows = table.rows.iter().zip(inputs.chunks_exact(family.width()));
        for (((op, _), row), known) in rows.zip(known) {
            let start = self.inputs.len();
            self.inputs.extend_from_slice(row);
            self.inputs.push(index as f32);
            self.inputs.extend(kriged.next());
            if let (Prior::Waves(waves), Op::Gemm(gemm)) = (prior, op) {
                let fill = fill(gemm, &waves, &table.rates);
                *known = (waves.share * (fill.waste() * fill.idle()).ln()) as f32;
                let seen = &mut self.inputs[start..];
                let schema = family.schema();
                for place in schema.places(Role::Tile) {
                    seen[place] = 0.0;
                }
                for place in schema.places(Role::Alignment) {
                    seen[place] = seen[place].min(ALIGNED);
                }
            }
        }
    }
}

impl<'a> Teacher<'a> {
    /// Grows the trees over the sub-model's own table (first) and its auxiliary tables, `forests` times from different seeds.
    pub fn new(
        tables: &[LabelledTable<'_>],
        family: Family,
        prior: Prior<'a>,
        forests: usize,
        trees: usize,
        seed: u64,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Self {
        let mut rows = TreeInputs::default();
        let mut targets = Vec::new();
        let samples: Vec<Samples> = tables.iter().map(|table| table.samples(family)).collect();
        let mut kriging = match prior {
            Prior::Kriging => Kriging::of_tables(tables, &samples),
            _ => vec![],
        };
        for (index, (table, samples)) in tables.iter().zip(samples).enumerate() {
            let neighbours = kriging.get(index);
            rows.append(table, family, &samples.inputs, index, prior, neighbours);
            targets.extend(samples.targets);
        }
        for (target, known) in targets.iter_mut().zip(&rows.known) {
            *target -= known;
        }
        let weights = vec![1.0; targets.len()];
        let mut config = TreesConfig {
            trees,
            ..TreesConfig::default()
        };
        let width = rows.inputs.len() / targets.len();
        // Of thirty rows, leaves of ten could only separate small from large.
        let most = (targets.len() / 10).max(2);
        config.min_leaf_rows = config.min_leaf_rows.min(most);
        if matches!(prior, Prior::Base(_)) && targets.len() <= MOST_CROSS_VALIDATED {
            config.trees = cross_validated_trees(width, &rows.inputs, &targets, &config, seed);
        }
        let one = |forest: usize| {
            let mut first_only = |tree| {
                if forest == 0 {
                    progress(tree);
                }
            };
            let learned: Cow<'_, [f32]> = match learns_the_rest(forest) && !rows.kriged.is_empty() {
                true => {
                    let known = targets.iter().zip(&rows.kriged);
                    known.map(|(target, kriged)| target - kriged).collect()
                }
                false => Cow::Borrowed(&targets),
            };
            grow(
                width,
                &rows.inputs,
                &learned,
                &weights,
                &config,
                seed + forest as u64,
                &mut first_only,
            )
        };
        Self {
            family,
            prior,
            kriging: (!kriging.is_empty()).then(|| kriging.swap_remove(0)),
            forests: (0..forests).into_par_iter().map(one).collect(),
        }
    }

    /// Labels the operators of `table`, whose raw features are `inputs`, as rows of the sub-model's own table: the mean of
    /// the forests.
    pub fn label(&self, table: &LabelledTable<'_>, inputs: &[f32]) -> Vec<f32> {
        let mut rows = TreeInputs::default();
        rows.append(table, self.family, inputs, 0, self.prior, self.kriging.as_ref());
        let mut labels = rows.known;
        for (number, forest) in self.forests.iter().enumerate() {
            let share = 1.0 / self.forests.len() as f32;
            for (label, output) in labels.iter_mut().zip(forest.predict(&rows.inputs)) {
                *label += output * share;
            }
            if learns_the_rest(number) {
                for (label, kriged) in labels.iter_mut().zip(&rows.kriged) {
                    *label += kriged * share;
                }
            }
        }
        labels
    }
}

/// Whether a forest learns what the neighbours leave, where they are known.
const fn learns_the_rest(forest: usize) -> bool {
    forest % 2 == 1
}

/// Most rows for which cross-validation chooses the number of trees on a base; with more rows all trees are grown.
const MOST_CROSS_VALIDATED: usize = 5000;

/// Folds of the cross-validation.
const FOLDS: usize = 5;

/// The number of trees, a power of two up to that of `config`, with the least k-fold cross-validated error: few rows of a
/// GPU that the base knows show little but its level, and more trees would only learn their noise.
fn cross_validated_trees(width: usize, inputs: &[f32], targets: &[f32], config: &TreesConfig, seed: u64) -> usize {
    let mut fold: Vec<usize> = (0..targets.len()).map(|row| row % FOLDS).collect();
    Random::seeded(seed).shuffle(&mut fold);
    let counts: Vec<usize> = std::iter::successors(Some(1), |count| Some(2 * count))
        .take_while(|&count| count <= config.trees.max(1))
        .collect();
    let errors_without = |out: usize| -> Vec<f64> {
        let weights: Vec<f32> = fold.iter().map(|&fold| f32::from(u8::from(fold != out))).collect();
        let forest = grow(width, inputs, targets, &weights, config, seed, &mut |_| {});
        let miss = |count: &usize| {
            let predicted = forest.clone().first(*count).predict(inputs);
            let rows = predicted.iter().zip(targets).zip(&fold);
            let unseen = rows.filter(|(_, fold)| **fold == out);
            unseen.map(|((time, target), _)| f64::from((time - target).abs())).sum()
        };
        counts.iter().map(miss).collect()
    };
    let misses: Vec<Vec<f64>> = (0..FOLDS).into_par_iter().map(errors_without).collect();
    let total = |place: usize| misses.iter().map(|of_fold| of_fold[place]).sum::<f64>();
    let best = (0..counts.len()).min_by(|&a, &b| total(a).total_cmp(&total(b)));
    best.map_or(config.trees, |place| counts[place])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::ops::{Dtype, Layout};
    use crate::units::Seconds;

    /// GEMMs on a V100 that take `time` of their reference.
    fn taught(time: impl Fn(&Gemm) -> f64) -> (Vec<Op>, Vec<f64>, GpuRates) {
        let rates = GpuRates::new(Gpu::find("v100").unwrap(), Seconds::from_micros(5.0));
        let gemms = (1..=60).map(|step| Gemm {
            m: 2304,
            n: 96 * step,
            k: 4096,
            batch: 1,
            layout: Layout::Nn,
            dtype: Dtype::Fp16,
        });
        let times = gemms
            .clone()
            .map(|gemm| rates.reference(&Op::Gemm(gemm)).secs() * time(&gemm));
        (gemms.clone().map(Op::Gemm).collect(), times.collect(), rates)
    }

    fn teacher<'a>(table: &LabelledTable<'_>, prior: Prior<'a>) -> Teacher<'a> {
        let tables = std::slice::from_ref(table);
        Teacher::new(tables, Family::Gemm, prior, 1, 40, 0, &|_| {})
    }

    #[test]
    fn what_is_known_of_tiles_stands_in_the_labels() {
        let waves = Waves {
            tile: (256, 128),
            share: 0.5,
        };
        let factor = |rates: &GpuRates, gemm: &Gemm| {
            let fill = fill(gemm, &waves, rates);
            (fill.waste() * fill.idle()).powf(waves.share)
        };
        let (_, _, rates) = taught(|_| 1.0);
        // All that the GEMMs cost beyond 1.3 references is known, so that the trees have nothing left to learn.
        let (ops, times, _) = taught(|gemm| 1.3 * factor(&rates, gemm));
        let table = LabelledTable {
            rates,
            rows: ops.iter().zip(times).collect(),
        };
        let label = teacher(&table, Prior::Waves(waves)).label(&table, &table.samples(Family::Gemm).inputs);
        for (op, label) in ops.iter().zip(label) {
            let Op::Gemm(gemm) = op else { panic!("{op}") };
            let wanted = (1.3 * factor(&rates, gemm)).ln();
            assert!((f64::from(label) - wanted).abs() < 1e-3, "{op}: {label} {wanted}");
        }
    }

    #[test]
    fn thirty_rows_tell_more_than_small_from_large() {
        let factor = |gemm: &Gemm| 1.0 + gemm.n as f64 / 1000.0;
        let (ops, times, rates) = taught(factor);
        // Every other row, so that those between are labelled unseen.
        let table = LabelledTable {
            rates,
            rows: ops.iter().zip(times).step_by(2).collect(),
        };
        let tables = std::slice::from_ref(&table);
        let teacher = Teacher::new(tables, Family::Gemm, Prior::None, 1, 600, 0, &|_| {});
        let between: Vec<Op> = ops.iter().skip(1).step_by(2).cloned().collect();
        let asked = LabelledTable::unlabelled(&between, rates);
        let labels = teacher.label(&asked, &asked.samples(Family::Gemm).inputs);
        let errors = between.iter().zip(labels).map(|(op, label)| {
            let Op::Gemm(gemm) = op else { panic!("{op}") };
            (f64::from(label) - factor(gemm).ln()).abs()
        });
        let mean = errors.sum::<f64>() / between.len() as f64;
        assert!(mean < 0.06, "{mean}");
    }

    #[test]
    fn trees_that_know_tiles_beforehand_see_none() {
        let (ops, times, rates) = taught(|gemm| 1.0 + gemm.n as f64 / 1e4);
        let table = LabelledTable {
            rates,
            rows: ops.iter().zip(times).collect(),
        };
        let inputs = table.samples(Family::Gemm).inputs;
        let mut changed = inputs.clone();
        for row in changed.chunks_exact_mut(Family::Gemm.width()) {
            for place in Family::Gemm.schema().places(Role::Tile) {
                row[place] = 7.0;
            }
        }
        let nothing = Waves {
            tile: (256, 128),
            share: 0.0,
        };
        let knowing = teacher(&table, Prior::Waves(nothing));
        assert_eq!(knowing.label(&table, &inputs), knowing.label(&table, &changed));
        let seeing = teacher(&table, Prior::None);
        assert_ne!(seeing.label(&table, &inputs), seeing.label(&table, &changed));
    }
}
