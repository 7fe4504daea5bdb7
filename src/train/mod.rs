//! From timing rows to a model: which sub-models, in what order, with checkpoints between the nets.
//!
//! Training is reproducible from its seed on one machine, and resumes after a kill: every finished net is
//! written to `OUT/.checkpoints` under a name that depends on the rows and the options.
//!
//! From a table to a prediction:
//!
//! ```no_run
//! # fn main() -> shapewise::error::Result<()> {
//! use shapewise::dataset;
//! use shapewise::gpu::{Gpu, GpuCatalog};
//! use shapewise::predict::Predictor;
//! use shapewise::train::fit::Backend;
//! use shapewise::train::{Options, train};
//! use std::path::{Path, PathBuf};
//!
//! let rows = dataset::read(Path::new("rows.parquet"))?;
//! let options = Options {
//!     out: PathBuf::from("mine"),
//!     gpus: GpuCatalog::default(),
//!     gpu: None,
//!     across: false,
//!     choices: vec![],
//!     base: None,
//!     seed: 0,
//!     backend: Backend::Cpu,
//!     epochs: None,
//!     labels: None,
//!     keep_out: None,
//! };
//! let artifact = train(&rows, &options, &|_| {})?;
//! let predictor = Predictor::new(Gpu::find("h200")?, Some(&artifact))?;
//! # drop(predictor);
//! # Ok(())
//! # }
//! ```

pub mod calibrate;

mod checkpoints;

mod choices;

#[cfg_attr(not(feature = "train"), path = "absent.rs")]
mod computer;

pub mod distil;

mod events;

pub mod fit;

mod kriging;

mod options;

mod plan;

mod prune;

pub mod recipe;

pub mod submodel;

pub mod tables;

pub mod teacher;

pub mod trees;

pub use checkpoints::Run;
pub use events::Event;
pub use options::{Effort, Options};

use crate::dataset::{Row, SCRIPTED, is_held_out, key, timings};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::regressor::artifact::{Artifact, Card, KeptOut, SCHEMA};
use crate::train::checkpoints::fingerprint;
use crate::train::plan::{plan, start_of, tables};
use crate::train::recipe::Recipe;
use crate::train::submodel::train_submodel;
use crate::train::tables::{TableRows, Tables};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seed of the keys that are kept out: not that of a run, so that the keys of a held-out fit are others.
const KEEP_OUT_SEED: u64 = 240_114_489;

/// Trains a model from `rows` and saves it to `options.out`.
pub fn train(rows: &[Row], options: &Options, listener: &(dyn Fn(Event<'_>) + Sync)) -> Result<Artifact> {
    let name = options
        .out
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Error::field("--out", "folder", options.out.display(), "a path that ends in a name"))?;
    if let Some(row) = rows.iter().find(|row| *row.gpu == *SCRIPTED) {
        return Err(Error::field(
            "data",
            "gpu",
            format!("`{}`", row.gpu),
            "rows that a device has timed; these are made up by a script",
        ));
    }
    // Of a table of `measure` alone this leaves rows out, or moves them; tables of others are large.
    let own = rows.iter().any(|row| row.measured.is_some());
    let rows = match own {
        true => Cow::Owned(timings(rows.to_vec()).rows),
        false => Cow::Borrowed(rows),
    };
    let computer = options.backend.device()?;
    let kept_out = options.keep_out.map(|fraction| KeptOut {
        fraction,
        seed: KEEP_OUT_SEED,
    });
    let seen = |row: &&Row| kept_out.is_none_or(|kept| !is_held_out(key(row), kept.fraction, kept.seed));
    let tables = tables(rows.iter().filter(seen))?;
    let asked_about = match options.choices.is_empty() {
        true => BTreeMap::new(),
        false => self::plan::tables(options.choices.iter().filter(seen))?,
    };
    if let Some((gpu, stack, ..)) = asked_about
        .keys()
        .find(|(gpu, stack, ..)| !tables.keys().any(|key| (key.0, key.1) == (*gpu, *stack)))
    {
        let held = format!("choices of {stack} on {gpu}");
        return Err(Error::field(
            "--choices",
            "run",
            held,
            "choices of a GPU and stack that --data holds",
        ));
    }
    let recipes = Recipe::shipped()?;
    let plan = plan(&tables, &recipes, options)?;
    let checkpoints = options.out.join(".checkpoints").join(fingerprint(&rows, options));
    std::fs::create_dir_all(&checkpoints).map_err(|source| Error::io(&checkpoints, source))?;
    let run = Run {
        seed: options.seed,
        backend: options.backend,
        computer,
        checkpoints,
        listener,
    };

    let mut card = Card {
        schema: SCHEMA,
        name: name.to_owned(),
        base: options.base.as_ref().map(|base| base.card.name.clone()),
        kept_out,
        weights_sha256: None,
        submodels: vec![],
        gpus: vec![],
    };
    let mut weights = Vec::new();
    for (key, sources) in plan {
        let gather = |(gpu, stack)| {
            let gpu: &Gpu = gpu;
            let rows = &tables[&(gpu.name.as_str(), stack, key.family, key.variant)];
            let from = sources.ranks_from.get(&(gpu.name.as_str(), stack));
            let asked = |row: &&&Row| match row.op {
                Op::Collective(op) => from.is_none_or(|&from| op.ranks >= from),
                _ => true,
            };
            TableRows {
                gpu,
                rows: rows.iter().filter(asked).copied().collect(),
            }
        };
        let recipe = sources.recipe;
        let learn = Tables {
            own: sources.own.iter().copied().map(gather).collect(),
            auxiliary: sources.auxiliary.iter().copied().map(gather).collect(),
            choices: asked_about
                .get(&(&*key.gpu, &*key.stack, key.family, key.variant))
                .cloned()
                .unwrap_or_default(),
            waves: recipe.and_then(|recipe| recipe.waves),
            kriged: recipe.is_some_and(|recipe| recipe.kriged),
        };
        let start = options.base.as_ref().and_then(|base| start_of(base, &key));
        let mut effort = match start {
            Some(_) => Effort::fine_tune(key.family),
            None => Effort::of(sources.budget, key.family),
        };
        // Many tables leave few shapes unlabelled.
        if learn.own.len() > 1 || recipe.is_some_and(|recipe| recipe.untaught) {
            effort.forests = 0;
        }
        if recipe.is_some_and(|recipe| recipe.distilled) {
            effort = effort.distilled(sources.budget);
        }
        effort.override_with(options);
        match train_submodel(key.clone(), &learn, start, &effort, &run) {
            Ok((submodel, nets)) => {
                let parts = learn.own.iter().map(|table| table.gpu);
                for gpu in parts.filter(|gpu| gpu.is_described()) {
                    if !card.gpus.contains(gpu) {
                        card.gpus.push(gpu.clone());
                    }
                }
                card.submodels.push(submodel);
                weights.push(Arc::new(nets));
            }
            Err(error) if error.is_infeasible() => {
                listener(Event::SubmodelSkipped {
                    reason: &error.to_string(),
                });
            }
            Err(error) => return Err(error),
        }
    }
    if card.submodels.is_empty() {
        return Err(Error::infeasible(
            "no GPU, stack, family and variant in the rows has enough of them to train on",
        ));
    }
    let mut artifact = Artifact { card, weights };
    artifact.save(&options.out)?;
    // Only after the model is safe; a leftover folder does no harm.
    let _ = std::fs::remove_dir_all(options.out.join(".checkpoints"));
    Ok(artifact)
}
