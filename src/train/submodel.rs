//! One sub-model from rows to calibrated nets.
//!
//! The same recipe again and again: without held-out keys, which gives the error table and the conformal
//! calibration; with all rows, which gives the nets that are shipped. A tenth of the keys is held out at once;
//! of few keys, as of head counts or model sizes, each is held out by one of several fits.

use crate::dataset::{HeldOut, Row, is_reserved};
use crate::error::{Error, Result};
use crate::families::{Family, sample_unlabelled};
use crate::ops::Op;
use crate::random::Random;
use crate::regressor::artifact::{self, Submodel, Training, Weights};
use crate::regressor::net::{Net, Output};
use crate::train::Effort;
use crate::train::Event;
use crate::train::Run;
use crate::train::calibrate::{Residuals, apes, quantile};
use crate::train::distil::label;
use crate::train::fit::{FitConfig, Samples, fit, forward, fresh};
use crate::train::prune::pruned;
use crate::train::tables::Tables;
use crate::train::teacher::{LabelledTable, Prior, Teacher};
use crate::units::Seconds;
use rayon::prelude::*;

/// Share of the keys held out for the error table and the calibration, where they are not few.
const HELD_OUT: f64 = 0.12;

/// Least rows that a sub-model of this family can be trained and calibrated on.
pub const fn least_rows(family: Family) -> usize {
    match family {
        // One kernel, whose time follows its traffic.
        Family::Memory => 16,
        _ => 40,
    }
}

/// Raw features and targets of several tables, one after the other.
fn samples_of(tables: &[LabelledTable<'_>], family: Family) -> Samples {
    let mut all = Samples::empty(family.width());
    for table in tables {
        all.append(table.samples(family));
    }
    all
}

/// Trains one sub-model.
pub fn train_submodel(
    submodel_key: artifact::Key,
    tables: &Tables<'_>,
    start: Option<(&Submodel, &Weights)>,
    effort: &Effort,
    run: &Run<'_>,
) -> Result<(Submodel, Weights)> {
    let rows = tables.own_rows().count();
    let family = submodel_key.family;
    let least = least_rows(family);
    if rows < least {
        return Err(Error::infeasible(format!(
            "{} {} has {rows} rows of {family} {}; allowed: {least} or more",
            submodel_key.gpu, submodel_key.stack, submodel_key.variant
        )));
    }
    let seed = run.seed;
    let held_out = HeldOut::of(tables.own_rows(), HELD_OUT, seed);
    let seen = |row: &Row| !is_reserved(row);
    // Nets of this GPU and format may know more than a small table holds.
    let base = start.filter(|(base, _)| (&base.key.gpu, base.key.variant) == (&submodel_key.gpu, submodel_key.variant));
    let start = start.map(|(_, weights)| weights);
    let held_out_fits = || -> Result<(Residuals, Residuals)> {
        let (mut residuals, mut of_base) = (Residuals::new(family), Residuals::new(family));
        for fit in 0..held_out.fits() {
            let hidden = |row: &Row| held_out.holds(row, fit);
            // Rows of our own that are reserved for tests are probed by the first fit alone, unless their key is held out.
            let probed = |row: &Row| hidden(row) || (fit == 0 && is_reserved(row));
            let probe = tables.labelled(probed);
            let samples = samples_of(&probe, family);
            run.tell(Event::SubmodelStarted {
                key: &submodel_key,
                rows,
                held_out: samples.len(),
            });
            let weights = fit_net(
                &submodel_key,
                tables,
                &|row: &Row| !hidden(row) && seen(row),
                start,
                effort,
                run,
                Some(Probe {
                    samples: &samples,
                    tables: &probe,
                    fit,
                }),
            )?;
            residuals.add(&weights, &samples, &probe);
            if let Some((base, weights)) = base {
                let launch = Seconds::from_micros(base.launch_us);
                let probe: Vec<_> = tables
                    .own
                    .iter()
                    .map(|table| table.labelled_from(launch, probed))
                    .collect();
                of_base.add(weights, &samples_of(&probe, family), &probe);
            }
        }
        Ok((residuals, of_base))
    };
    // Rows of our own that are reserved for tests stay out of what is shipped, too.
    let shipped_fit = || fit_net(&submodel_key, tables, &seen, start, effort, run, None);
    let (residuals, weights) = rayon::join(held_out_fits, shipped_fit);
    let ((residuals, of_base), weights) = (residuals?, weights?);
    if let Some((base, weights)) = base
        && !residuals.is_better_than(&of_base)
    {
        run.tell(Event::BaseKept {
            key: &submodel_key,
            base: of_base.mean_error(),
            learned: residuals.mean_error(),
        });
        return Ok((base.clone(), weights.clone()));
    }
    let calibration = residuals.calibrate();
    let errors = residuals.errors(&calibration);
    run.tell(Event::SubmodelHeldOut { errors: &errors });

    let submodel = Submodel {
        features: family.schema().digest.clone(),
        launch_us: tables.launch().micros(),
        hidden: weights.nets[0].hidden(),
        members: weights.nets.len(),
        training: Training {
            seed,
            epochs: effort.epochs,
            batch: effort.batch,
            learning_rate: effort.learning_rate,
            weight_decay: effort.weight_decay,
            huber: HUBER,
            choices: (!tables.choices.is_empty()).then_some(tables.choices.len()),
            teacher_trees: effort.forests * effort.trees,
            pseudo_labels: effort.pseudo_labels,
            held_out_fraction: held_out.fraction(),
            backend: run.backend.name().to_owned(),
            distilled: effort.distilled,
            kriged: tables.kriged && start.is_none(),
            waves: tables.waves.filter(|_| start.is_none() && effort.forests > 0),
        },
        data: tables.sources(),
        coverage: tables.coverage(),
        calibration,
        held_out: errors,
        key: submodel_key,
    };
    Ok((submodel, weights))
}

/// Residual (of a logarithm) where the loss of every fit turns from squared to absolute.
const HUBER: f32 = 0.02;

/// Held-out rows that a held-out fit is watched on.
#[derive(Clone, Copy)]
struct Probe<'a> {
    samples: &'a Samples,
    tables: &'a [LabelledTable<'a>],
    /// The number of the fit.
    fit: usize,
}

/// Fits the members to the rows that `keep` lets through and to pseudo-labels of unlabelled shapes; where they are
/// distilled, then one net to what members and teacher say.
fn fit_net(
    submodel_key: &artifact::Key,
    tables: &Tables<'_>,
    keep: &(dyn Fn(&Row) -> bool + Sync),
    start: Option<&Weights>,
    effort: &Effort,
    run: &Run<'_>,
    probe: Option<Probe<'_>>,
) -> Result<Weights> {
    let family = submodel_key.family;
    let phase = match probe {
        None => "final".to_owned(),
        Some(Probe { fit: 0, .. }) => "held-out".to_owned(),
        Some(Probe { fit, .. }) => format!("held-out-{fit}"),
    };
    let checkpoint = |net: &str| format!("{submodel_key}-{phase}-{net}");
    let mut own = tables.labelled(keep);
    let choices = tables.labelled_choices(keep, effort, run.seed);
    own[0].rows.extend(&choices);
    let mut samples = samples_of(&own, family);
    if samples.is_empty() {
        return Err(Error::infeasible(format!(
            "{} {}: every key is held out",
            submodel_key.gpu, submodel_key.stack
        )));
    }
    let (mean, scale) = match start {
        Some(base) => (base.mean.clone(), base.scale.clone()),
        None => moments(&samples),
    };
    let mut weights = Weights {
        mean,
        scale,
        nets: vec![],
    };
    const DISTILLED: &str = "distilled";
    if let Some(net) = run.checkpoint(&checkpoint(DISTILLED)) {
        weights.nets.push(net);
        return Ok(weights);
    }
    let finished: Vec<_> = (0..effort.members)
        .map(|member| run.checkpoint(&checkpoint(&format!("member {member}"))))
        .collect();
    // Growing the trees is expensive: skip it where nothing learns from them any more.
    let is_taught = effort.distilled.is_some() || finished.iter().any(Option::is_none);

    let mut teacher = None;
    if effort.forests > 0 && is_taught {
        let mut labelled: Vec<_> = tables.all().map(|table| table.labelled(keep)).collect();
        labelled[0].rows.extend(&choices);
        let progress = |tree| run.tell(Event::Tree { tree, of: effort.trees });
        let grown = Teacher::new(
            &labelled,
            family,
            match (start, tables.waves) {
                (Some(base), _) => Prior::Base(base),
                (None, Some(waves)) => Prior::Waves(waves),
                (None, None) if tables.kriged => Prior::Kriging,
                (None, None) => Prior::None,
            },
            effort.forests,
            effort.trees,
            run.seed,
            &progress,
        );
        // Several own tables have no teacher, so all of the probe is of one.
        if let Some(Probe { samples, tables, .. }) = probe {
            let labels = grown.label(&tables[0], &samples.inputs);
            let apes = apes(&labels, &samples.targets);
            run.tell(Event::TeacherHeldOut {
                median_ape: quantile(apes.clone(), 0.5),
                p90_ape: quantile(apes, 0.9),
            });
        }
        let measured: Vec<&Op> = labelled
            .iter()
            .flat_map(|table| table.rows.iter().map(|(op, _)| *op))
            .collect();
        let shapes = sample_unlabelled(&measured, effort.pseudo_labels, run.seed);
        let unlabelled = LabelledTable::unlabelled(&shapes, own[0].rates);
        let mut pseudo = unlabelled.samples(family);
        pseudo.targets = grown.label(&unlabelled, &pseudo.inputs);
        samples.append(pseudo);
        teacher = Some(grown);
    }
    weights.normalise(&mut samples.inputs);
    let probe = probe.map(|probe| {
        let mut inputs = probe.samples.inputs.clone();
        weights.normalise(&mut inputs);
        (inputs, &probe.samples.targets)
    });
    let mut config = FitConfig {
        epochs: effort.epochs,
        batch: effort.batch,
        learning_rate: effort.learning_rate,
        weight_decay: effort.weight_decay,
        warm_up: 0.1,
        huber: HUBER,
    };
    let fit_one = |name: &str, from: &Net, samples: &Samples, config: &FitConfig, seed: u64| {
        fit(from, samples, config, seed, &run.computer, |epoch, loss, net| {
            let last = epoch + 1 == config.epochs;
            let held_out = probe
                .as_ref()
                .filter(|_| last || epoch % 10 == 9)
                .map(|(inputs, targets)| {
                    let answers = forward(&net().first_output(), inputs, &run.computer);
                    quantile(apes(&answers, targets), 0.5)
                });
            run.tell(Event::Epoch {
                net: name,
                epoch,
                of: config.epochs,
                loss,
                held_out,
            });
        })
    };
    // Rounding to 8 bits adds a sixth to the median error of nets of our own rows, and nothing to that of public tables (docs/method/notebook.md).
    let rounded = match tables.own_rows().all(|row| row.measured.is_some()) {
        true => Net::rounded,
        false => Net::narrowed,
    };
    let fit_member = |(member, done): (usize, Option<Net>)| {
        if let Some(net) = done {
            return Ok(net);
        }
        let name = format!("member {member}");
        let seed = Random::seeded(run.seed ^ (member as u64 + 1)).bits();
        let from = match start {
            Some(base) => base.nets[member % base.nets.len()].clone().first_output(),
            None => fresh(family.width(), &effort.hidden, 1, seed),
        };
        let net = rounded(fit_one(&name, &from, &samples, &config, seed));
        run.save_checkpoint(&checkpoint(&name), &net)?;
        Ok(net)
    };
    let members = finished.into_par_iter().enumerate().map(fit_member);
    weights.nets = members.collect::<Result<_>>()?;
    let Some(distilled) = effort.distilled else {
        return Ok(weights);
    };
    drop(samples);
    config.epochs = distilled.epochs;
    let seed = Random::seeded(run.seed ^ DISTILLED_STREAM).bits();
    let from = fresh(family.width(), &DISTILLED_HIDDEN, Output::WIDTH, seed);
    let labelled = label(&weights, teacher.as_ref(), &own, distilled.labels, family, seed);
    let net = fit_one(DISTILLED, &from, &labelled, &config, seed);
    let net = rounded(pruned(net, &labelled.inputs, &run.computer));
    run.save_checkpoint(&checkpoint(DISTILLED), &net)?;
    weights.nets = vec![net];
    Ok(weights)
}

/// Widths of the hidden layers of a distilled net before it is pruned: depth follows the jumps of trees where width does not (docs/method/notebook.md).
const DISTILLED_HIDDEN: [usize; 3] = [128, 128, 128];

/// Sets the random numbers of a distilled net apart from those of the members.
const DISTILLED_STREAM: u64 = 1 << 32;

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
