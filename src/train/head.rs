//! One head from rows to calibrated nets.
//!
//! Twice the same recipe: first without a held-out tenth of the keys, which gives the error table and the
//! conformal calibration; then with all rows, which gives the nets that are shipped.

use crate::dataset::{Row, digest, is_held_out, key};
use crate::error::{Error, Result};
use crate::features::{Machine, schema_hash};
use crate::gpu::Gpu;
use crate::op::Op;
use crate::regressor::artifact::{
    Calibration, Coverage, DataSource, GroupErrors, Head, Key, Training, Weights,
};
use crate::train::Effort;
use crate::train::Event;
use crate::train::Run;
use crate::train::fit::{FitConfig, Random, Samples, fit, fresh};
use crate::train::teach::{Lesson, Teacher, alignment, invent};
use crate::units::Seconds;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Share of the keys held out for the error table and the calibration.
const HELD_OUT: f64 = 0.12;

/// Least rows that a head can be trained and calibrated on.
const LEAST_ROWS: usize = 40;

/// Upper ends of the size groups of the calibration, in microseconds of reference time.
const BOUNDS_US: [f64; 4] = [5.0, 20.0, 100.0, 1000.0];

/// Least held-out rows of a calibration group; smaller ones use the factor of all rows.
const LEAST_GROUP: usize = 60;

/// Rows of one GPU and stack.
pub struct TableRows<'a> {
    /// Where they were timed.
    pub gpu: &'static Gpu,
    /// All of one family and format.
    pub rows: Vec<&'a Row>,
}

impl<'a> TableRows<'a> {
    /// The additive launch term: a little under the fastest rows.
    fn launch(&self) -> Seconds {
        let mut times: Vec<f64> = self.rows.iter().map(|row| row.time.secs()).collect();
        times.sort_by(f64::total_cmp);
        Seconds::from_secs(0.95 * times[times.len() / 200])
    }

    fn lesson(&self, keep: impl Fn(&Row) -> bool) -> Lesson<'a> {
        Lesson {
            machine: Machine::new(self.gpu, self.launch()),
            rows: self
                .rows
                .iter()
                .filter(|row| keep(row))
                .map(|row| (&row.op, row.time.secs()))
                .collect(),
        }
    }

    fn source(&self) -> Vec<DataSource> {
        let mut origins: BTreeMap<_, Vec<Row>> = BTreeMap::new();
        for row in &self.rows {
            let origin = (&row.origin.source, &row.origin.licence, &row.stack);
            origins.entry(origin).or_default().push((*row).clone());
        }
        let describe =
            |((source, licence, stack), rows): ((&String, &String, _), Vec<Row>)| DataSource {
                source: source.clone(),
                licence: licence.clone(),
                gpu: self.gpu.name.clone(),
                stack: String::from(&**(stack as &std::sync::Arc<str>)),
                rows: rows.len(),
                sha256: digest(&rows),
            };
        origins.into_iter().map(describe).collect()
    }
}

/// Trains one head on its own table (first) with the help of sister tables.
pub fn train_head(
    head_key: Key,
    tables: &[TableRows<'_>],
    start: Option<&Weights>,
    effort: &Effort,
    run: &Run<'_>,
) -> Result<(Head, Weights)> {
    let own = &tables[0];
    if own.rows.len() < LEAST_ROWS {
        return Err(Error::infeasible(format!(
            "{} {} has {} rows of {} {}; allowed: {LEAST_ROWS} or more",
            head_key.gpu,
            head_key.stack,
            own.rows.len(),
            head_key.family.name(),
            head_key.dtype.name()
        )));
    }
    let family = head_key.family;
    let seed = run.seed;
    let held = |row: &Row| is_held_out(key(row), HELD_OUT, seed);
    let probe = own.lesson(held);
    let probe_samples = probe.samples(family);

    run.tell(Event::HeadStarted {
        key: &head_key,
        rows: own.rows.len(),
        held_out: probe.rows.len(),
    });
    let rehearsal = ensemble(
        &head_key,
        tables,
        &|row: &Row| !held(row),
        start,
        effort,
        run,
        Some(&probe_samples),
    )?;
    let residuals = Residuals::new(&rehearsal, &probe_samples, &probe);
    let calibration = residuals.calibrate();
    let held_out = residuals.errors(&calibration);
    run.tell(Event::HeadRehearsed {
        key: &head_key,
        errors: &held_out,
    });
    let weights = ensemble(&head_key, tables, &|_: &Row| true, start, effort, run, None)?;

    let head = Head {
        features: schema_hash(family),
        launch_us: own.launch().micros(),
        hidden: hidden_of(&weights),
        members: weights.nets.len(),
        training: Training {
            seed,
            epochs: effort.epochs,
            batch: effort.batch,
            learning_rate: effort.learning_rate,
            weight_decay: WEIGHT_DECAY,
            huber: HUBER,
            teacher_trees: effort.forests * effort.trees,
            invented_shapes: effort.invented,
            held_out_fraction: HELD_OUT,
            backend: run.backend.name().to_owned(),
        },
        data: tables.iter().flat_map(TableRows::source).collect(),
        coverage: coverage(tables),
        calibration,
        held_out,
        key: head_key,
    };
    Ok((head, weights))
}

/// Decoupled weight decay of every fit.
const WEIGHT_DECAY: f32 = 0.02;

/// Residual (of a logarithm) where the loss of every fit turns from squared to absolute.
const HUBER: f32 = 0.02;

fn hidden_of(weights: &Weights) -> Vec<usize> {
    let layers = &weights.nets[0].layers;
    layers[..layers.len() - 1]
        .iter()
        .map(|layer| layer.outputs)
        .collect()
}

/// Fits the members on the rows that `keep` lets through, and on what the teacher says of invented shapes.
fn ensemble(
    head_key: &Key,
    tables: &[TableRows<'_>],
    keep: &(dyn Fn(&Row) -> bool + Sync),
    start: Option<&Weights>,
    effort: &Effort,
    run: &Run<'_>,
    probe: Option<&Samples>,
) -> Result<Weights> {
    let family = head_key.family;
    let phase = if probe.is_some() {
        "rehearsal"
    } else {
        "final"
    };
    let name = |member: usize| {
        let Key {
            gpu,
            stack,
            family,
            dtype,
        } = head_key;
        format!(
            "{gpu}-{stack}-{}-{}-{phase}-{member}",
            family.name(),
            dtype.name()
        )
    };
    let own = tables[0].lesson(keep);
    if own.rows.is_empty() {
        return Err(Error::infeasible(format!(
            "{} {}: every key is held out",
            head_key.gpu, head_key.stack
        )));
    }
    let finished: Vec<_> = (0..effort.members)
        .map(|member| run.checkpoint(&name(member)))
        .collect();
    // A teacher is dear: skip it when every member is already there.
    let teach = effort.forests > 0 && finished.iter().any(Option::is_none);

    let mut samples = own.samples(family);
    let (mean, scale) = match start {
        Some(base) => (base.mean.clone(), base.scale.clone()),
        None => moments(&samples),
    };
    if teach {
        let lessons: Vec<_> = tables.iter().map(|table| table.lesson(keep)).collect();
        let progress = |tree| {
            run.tell(Event::Tree {
                key: head_key,
                tree,
                of: effort.trees,
            })
        };
        let teacher = Teacher::new(
            &lessons,
            family,
            effort.forests,
            effort.trees,
            run.seed,
            &progress,
        );
        if let Some(probe) = probe {
            let labels = teacher.label(&probe.inputs, probe.width);
            run.tell(Event::TeacherRehearsed {
                key: head_key,
                median_ape: quantile(apes(&labels, &probe.targets), 0.5),
                p90_ape: quantile(apes(&labels, &probe.targets), 0.9),
            });
        }
        let measured: Vec<&Op> = lessons
            .iter()
            .flat_map(|lesson| lesson.rows.iter().map(|(op, _)| *op))
            .collect();
        let shapes = invent(&measured, effort.invented, run.seed);
        let invented = Lesson {
            machine: own.machine,
            rows: shapes.iter().map(|op| (op, 1.0)).collect(),
        };
        let mut invented = invented.samples(family);
        invented.targets = teacher.label(&invented.inputs, invented.width);
        samples.append(invented);
    }
    let mut weights = Weights {
        mean,
        scale,
        nets: Vec::new(),
    };
    weights.normalise(&mut samples.inputs);
    let probe = probe.map(|probe| {
        let mut inputs = probe.inputs.clone();
        weights.normalise(&mut inputs);
        (inputs, &probe.targets)
    });
    let config = FitConfig {
        epochs: effort.epochs,
        batch: effort.batch,
        learning_rate: effort.learning_rate,
        weight_decay: WEIGHT_DECAY,
        warm_up: 0.1,
        huber: HUBER,
    };
    let device = run.backend.device()?;
    let fit_member = |(member, done): (usize, Option<_>)| {
        if let Some(net) = done {
            return Ok(net);
        }
        let member_seed = Random(run.seed ^ (member as u64 + 1)).bits();
        let net = match start {
            Some(base) => base.nets[member % base.nets.len()].clone(),
            None => fresh(family.width(), &effort.hidden, member_seed),
        };
        let net = fit(
            &net,
            &samples,
            &config,
            member_seed,
            &device,
            |epoch, loss, net| {
                let last = epoch + 1 == effort.epochs;
                let held_out = probe
                    .as_ref()
                    .filter(|_| last || epoch % 10 == 9)
                    .map(|(inputs, targets)| quantile(apes(&net().forward(inputs), targets), 0.5));
                run.tell(Event::Epoch {
                    key: head_key,
                    member,
                    epoch,
                    of: effort.epochs,
                    loss,
                    held_out,
                });
            },
        )
        .rounded();
        run.save_checkpoint(&name(member), &net)?;
        Ok(net)
    };
    weights.nets = finished
        .into_par_iter()
        .enumerate()
        .map(fit_member)
        .collect::<Result<_>>()?;
    Ok(weights)
}

/// `|predicted / measured - 1|` of outputs and targets, both logarithms.
fn apes(outputs: &[f32], targets: &[f32]) -> Vec<f64> {
    outputs
        .iter()
        .zip(targets)
        .map(|(y, t)| f64::from(y - t).exp_m1().abs())
        .collect()
}

/// Mean and reciprocal deviation of each feature; constant features are switched off.
fn moments(samples: &Samples) -> (Vec<f32>, Vec<f32>) {
    let rows = samples.len() as f64;
    let mut sums = vec![(0.0f64, 0.0f64); samples.width];
    for row in samples.inputs.chunks_exact(samples.width) {
        for ((sum, squares), &value) in sums.iter_mut().zip(row) {
            *sum += f64::from(value);
            *squares += f64::from(value).powi(2);
        }
    }
    sums.into_iter()
        .map(|(sum, squares)| {
            let mean = sum / rows;
            let deviation = (squares / rows - mean * mean).max(0.0).sqrt();
            (
                mean as f32,
                if deviation < 1e-4 {
                    0.0
                } else {
                    (1.0 / deviation) as f32
                },
            )
        })
        .unzip()
}

/// What the rehearsal got wrong on keys it had not seen.
struct Residuals {
    /// Signed `ln(predicted / measured)`.
    errors: Vec<f64>,
    spreads: Vec<f64>,
    references_us: Vec<f64>,
}

impl Residuals {
    fn new(weights: &Weights, probe: &Samples, lesson: &Lesson<'_>) -> Self {
        let mut inputs = probe.inputs.clone();
        weights.normalise(&mut inputs);
        let outputs: Vec<_> = weights
            .nets
            .iter()
            .map(|net| net.forward(&inputs))
            .collect();
        let members = outputs.len() as f64;
        let mut residuals = Self {
            errors: Vec::new(),
            spreads: Vec::new(),
            references_us: Vec::new(),
        };
        for (row, (op, _)) in lesson.rows.iter().enumerate() {
            let values = || outputs.iter().map(|output| f64::from(output[row]));
            let mean = values().sum::<f64>() / members;
            let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / members;
            residuals.errors.push(mean - f64::from(probe.targets[row]));
            residuals.spreads.push(variance.sqrt());
            residuals
                .references_us
                .push(lesson.machine.reference(op).micros());
        }
        residuals
    }

    /// The split-conformal quantile of `|error| / (spread + floor)` in each size group.
    fn calibrate(&self) -> Calibration {
        let floor = quantile(self.spreads.clone(), 0.5).max(1e-3);
        let scores = |chosen: &dyn Fn(f64) -> bool| -> Vec<f64> {
            (0..self.errors.len())
                .filter(|&row| chosen(self.references_us[row]))
                .map(|row| self.errors[row].abs() / (self.spreads[row] + floor))
                .collect()
        };
        let all = conformal(scores(&|_| true));
        let mut calibration = Calibration {
            floor,
            bounds_us: BOUNDS_US.to_vec(),
            factors: Vec::new(),
            rows: Vec::new(),
        };
        for group in 0..=BOUNDS_US.len() {
            let members = scores(&|reference| calibration.group(reference) == group);
            calibration.rows.push(members.len());
            calibration.factors.push(if members.len() < LEAST_GROUP {
                all
            } else {
                conformal(members)
            });
        }
        calibration
    }

    fn errors(&self, calibration: &Calibration) -> Vec<GroupErrors> {
        let bounds: Vec<String> = calibration
            .bounds_us
            .iter()
            .map(|bound| format!("{bound} us"))
            .collect();
        let mut table = vec![self.group_errors("all".to_owned(), calibration, &|_| true)];
        for group in 0..=bounds.len() {
            let name = match group {
                0 => format!("under {}", bounds[0]),
                last if last == bounds.len() => format!("from {}", bounds[last - 1]),
                middle => format!("{} to {}", bounds[middle - 1], bounds[middle]),
            };
            table.push(self.group_errors(name, calibration, &|reference| {
                calibration.group(reference) == group
            }));
        }
        table.retain(|errors| errors.n > 0);
        table
    }

    fn group_errors(
        &self,
        group: String,
        calibration: &Calibration,
        chosen: &dyn Fn(f64) -> bool,
    ) -> GroupErrors {
        let rows: Vec<usize> = (0..self.errors.len())
            .filter(|&row| chosen(self.references_us[row]))
            .collect();
        let widths: Vec<f64> = rows
            .iter()
            .map(|&row| calibration.half_width(self.references_us[row], self.spreads[row]))
            .collect();
        let covered = rows
            .iter()
            .zip(&widths)
            .filter(|&(&row, width)| self.errors[row].abs() <= *width)
            .count();
        let apes: Vec<f64> = rows
            .iter()
            .map(|&row| self.errors[row].exp_m1().abs())
            .collect();
        let n = rows.len();
        GroupErrors {
            group,
            n,
            median_ape: quantile(apes.clone(), 0.5),
            mean_ape: apes.iter().sum::<f64>() / n.max(1) as f64,
            p90_ape: quantile(apes, 0.9),
            coverage_90: covered as f64 / n.max(1) as f64,
            interval_half_width_median: quantile(widths, 0.5),
        }
    }
}

/// The `ceil((n + 1)·0.9)`-th smallest score: with it, a new score of the same kind stays below with
/// probability 0.9 or more.
fn conformal(mut scores: Vec<f64>) -> f64 {
    scores.sort_by(f64::total_cmp);
    let rank = ((scores.len() + 1) as f64 * 0.9).ceil() as usize;
    scores
        .get(rank.min(scores.len()).wrapping_sub(1))
        .copied()
        .unwrap_or(3.0)
        .max(1e-3)
}

/// The `share`-quantile, the lower of two neighbours; 0 of nothing.
fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(((values.len() as f64 * share) as usize).min(values.len().wrapping_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

/// The region of shapes a head's own rows span, and the head sizes its sisters add.
fn coverage(tables: &[TableRows<'_>]) -> Coverage {
    let (table, sisters) = tables.split_first().expect("a head has a table of its own");
    let mut coverage = Coverage {
        alignment: 1,
        ..Coverage::default()
    };
    let mut widths = Vec::new();
    let mut see = |name: &str, size: u64| {
        let range = coverage
            .ranges
            .entry(name.to_owned())
            .or_insert([size, size]);
        *range = [range[0].min(size), range[1].max(size)];
    };
    for row in &table.rows {
        match row.op {
            Op::Gemm(op) => {
                for (name, size) in [("m", op.m), ("n", op.n), ("k", op.k), ("batch", op.batch)] {
                    see(name, size);
                }
                widths.extend([op.n, op.k]);
                if !coverage.layouts.contains(&op.layout) {
                    coverage.layouts.push(op.layout);
                }
            }
            Op::Attention(op) => {
                for (name, size) in [
                    ("batch", op.batch),
                    ("heads", op.heads),
                    ("kv_heads", op.kv_heads),
                    ("group", op.heads / op.kv_heads),
                    ("seq_q", op.seq_q),
                    ("seq_kv", op.seq_kv),
                ] {
                    see(name, size);
                }
                if !coverage.head_dims.contains(&op.head_dim) {
                    coverage.head_dims.push(op.head_dim);
                }
                if !coverage.causal.contains(&op.causal) {
                    coverage.causal.push(op.causal);
                }
                coverage.windowed |= op.window > 0;
            }
            Op::Memory(_) | Op::Collective(_) => {}
        }
    }
    coverage.head_dims.sort_unstable();
    let taught: BTreeSet<u64> = sisters
        .iter()
        .flat_map(|sister| &sister.rows)
        .filter_map(|row| match row.op {
            Op::Attention(op) if !coverage.head_dims.contains(&op.head_dim) => Some(op.head_dim),
            _ => None,
        })
        .collect();
    coverage.taught_head_dims = taught.into_iter().collect();
    if !widths.is_empty() {
        coverage.alignment = alignment(widths.iter());
    }
    coverage
}
