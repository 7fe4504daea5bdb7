//! `shapewise evaluate --accuracy`: writes the document on the accuracy of the built-in models.

use crate::cli::rows;
use crate::dataset;
use crate::dataset::Filter;
use crate::dataset::Row;
use crate::dataset::runs::{Publisher, read_runs};
use crate::error::Error;
use crate::error::Result;
use crate::error::write_atomically;
use crate::evaluate::baselines::baselines;
use crate::evaluate::evaluate;
use crate::evaluate::layouts::planned;
use crate::evaluate::runs::{Choice, Judged, compared, judge as judge_runs};
use crate::families::{Family, Variant};
use crate::gpu::Gpu;
use crate::gpu::GpuCatalog;
use crate::predict::Predictor;
use crate::predict::library;
use crate::regressor::artifact::Artifact;
use crate::regressor::artifact::Submodel;
use crate::report::accuracy::HeadAccuracy;
use crate::report::accuracy::ModelAccuracy;
use crate::report::accuracy::WholeModels;
use crate::report::accuracy::markdown;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;

/// Writes `out` from timing tables, public ones or our own, and whole-model measurements.
pub(super) fn run(data: &[PathBuf], runs: &[PathBuf], out: &Path) -> Result<String> {
    let models = built_in()?;
    let filter = filter(&models);
    let table = rows::recognised(data, &filter, &mut GpuCatalog::default())?;
    let mut rows = dataset::timings(table.rows).rows;
    let timings = rows.len();
    let heads = || models.iter().flat_map(|artifact| &artifact.card.submodels);
    rows.retain(|row| heads().any(|head| is_of(row, head)));
    // As if nobody had measured the GPU of each row.
    let left_out = evaluate(&rows, &GpuCatalog::default(), &Predictor::leaving_out)?;
    let models: Vec<ModelAccuracy<'_>> = models
        .iter()
        .map(|artifact| judge(artifact, &rows))
        .collect();
    let whole = if runs.is_empty() {
        None
    } else {
        let answer = |gpu: &Gpu| Predictor::new(gpu, None);
        let runs = read_runs(runs, &GpuCatalog::built_in())?;
        let judged = judge_runs(&runs, &Choice::Auto, &answer)?;
        let comparison = compared(&runs, &judged);
        // Others publish sweeps over layouts, or what fits: nobody called those the fastest.
        let tuned = |judged: &Judged<'_>| {
            judged.run.publisher == Publisher::TrainingSteps && judged.framework.name == "megatron"
        };
        let tuned: Vec<_> = judged.into_iter().filter(tuned).collect();
        Some(WholeModels {
            comparison,
            planned: planned(&tuned, &answer)?,
        })
    };
    let text = markdown(&models, &left_out, whole.as_ref());
    write_atomically(out, text.as_bytes())?;
    Ok(format!(
        "wrote {} from {} timings of {} models and {} groups of whole-model runs\n",
        out.display(),
        timings,
        models.len(),
        whole.map_or(0, |whole| whole.comparison.groups.len())
    ))
}

/// The built-in models: those of one GPU by name, then the one over all GPUs.
fn built_in() -> Result<Vec<&'static Artifact>> {
    let mut names: Vec<&str> = library::names().collect();
    names.sort_unstable_by_key(|&name| (name == library::BASE, name));
    let models: Vec<&Artifact> = names
        .into_iter()
        .filter_map(|name| library::find(name).transpose())
        .collect::<Result<_>>()?;
    if models.is_empty() {
        return Err(Error::infeasible("no model is built in"));
    }
    Ok(models)
}

/// Lets through what some head was trained for; a public table holds far more.
fn filter(models: &[&Artifact]) -> Filter {
    let heads = || models.iter().flat_map(|artifact| &artifact.card.submodels);
    let known = |head: &&Submodel| Gpu::find(&head.key.gpu).is_ok();
    let gpus: BTreeSet<String> = heads().filter(known).map(|h| h.key.gpu.clone()).collect();
    let stacks: BTreeSet<String> = heads().filter(known).map(|h| h.key.stack.clone()).collect();
    Filter {
        gpus: Some(gpus.into_iter().collect()),
        stacks: Some(stacks.into_iter().collect()),
        ..Filter::default()
    }
}

/// Every head beside the simple predictors on the rows it was trained for.
fn judge<'a>(artifact: &'a Artifact, rows: &[Row]) -> ModelAccuracy<'a> {
    let heads = artifact.card.submodels.par_iter().map(|head| HeadAccuracy {
        head,
        baselines: Gpu::find(&head.key.gpu).ok().and_then(|gpu| {
            let own: Vec<&Row> = rows.iter().filter(|row| is_of(row, head)).collect();
            let training = &head.training;
            baselines(gpu, &own, training.held_out_fraction, training.seed)
        }),
    });
    ModelAccuracy {
        artifact,
        heads: heads.collect(),
    }
}

fn is_of(row: &Row, head: &Submodel) -> bool {
    *row.gpu == *head.key.gpu
        && *row.stack == *head.key.stack
        && Family::of(&row.op) == head.key.family
        && Variant::of(&row.op) == head.key.variant
}
