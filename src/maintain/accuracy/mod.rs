//! `accuracy`: writes the page on the accuracy of the built-in models.

mod page;

use crate::accuracy::page::{Judged, class, fitted, markdown};
use crate::args::AccuracyArgs;
use shapewise::arch::Workload;
use shapewise::calibrate::{Sample, calibrate};
use shapewise::cli::output::write_all;
use shapewise::cli::rows;
use shapewise::dataset::runs::{Publisher, read_runs};
use shapewise::dataset::{self, Filter, Row};
use shapewise::error::{Error, Result};
use shapewise::evaluate::runs::{Choice, Judged as JudgedRun, fittable, judge, placed};
use shapewise::evaluate::{Errors, Score, evaluate, family};
use shapewise::families::{Family, Variant};
use shapewise::framework::{Fit, Framework, Kind};
use shapewise::gpu::{Gpu, GpuCatalog};
use shapewise::plan::{self, Query};
use shapewise::predict::memo::Memo;
use shapewise::predict::{Predictor, library};
use shapewise::regressor::artifact::Submodel;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Of so many rows one is judged, drawn by its operator.
const ONE_IN: u64 = 7;

/// Writes the page from timing tables, public ones or our own, and whole-model measurements.
pub fn run(args: &AccuracyArgs) -> Result<String> {
    let AccuracyArgs {
        data,
        runs,
        out,
        replace,
    } = args;
    let models = library::all()?;
    if models.is_empty() {
        return Err(Error::infeasible("no model is built in"));
    }
    let submodels: Vec<&Submodel> = models.iter().flat_map(|model| &model.card.submodels).collect();
    let mut judged = Judged {
        left_out: left_out(data, &submodels)?,
        ..Judged::default()
    };
    if !runs.is_empty() {
        judge_runs(runs, &mut judged)?;
    }
    let page = (out.clone(), markdown(&models, &judged).into_bytes());
    write_all("--out", &[page], *replace)?;
    Ok(format!(
        "wrote {} from {} timings of {} models and {} runs that no constant was fitted to\n",
        out.display(),
        judged.left_out.values().map(|errors| errors.n).sum::<usize>(),
        models.len(),
        judged.unfitted.values().map(|errors| errors.n).sum::<usize>()
    ))
}

/// Each GPU as if it had no table: the rows that its own sub-models learned from.
fn left_out(data: &[PathBuf], submodels: &[&Submodel]) -> Result<BTreeMap<[String; 2], Errors>> {
    let of = |name: fn(&Submodel) -> &String| {
        let known = submodels.iter().filter(|submodel| Gpu::find(&submodel.key.gpu).is_ok());
        let names: BTreeSet<&String> = known.map(|submodel| name(submodel)).collect();
        Some(names.into_iter().cloned().collect())
    };
    let filter = Filter {
        gpus: of(|submodel| &submodel.key.gpu),
        stacks: of(|submodel| &submodel.key.stack),
        ..Filter::default()
    };
    let table = rows::recognised(data, &filter, &mut GpuCatalog::default())?;
    let mut rows = dataset::timings(table.rows).rows;
    rows.retain(|row| {
        dataset::draw(&row.op).is_multiple_of(ONE_IN) && submodels.iter().any(|submodel| is_of(row, submodel))
    });
    let evaluation = evaluate(&rows, &GpuCatalog::default(), &Predictor::leaving_out)?;
    let mut scores: BTreeMap<[String; 2], Vec<Score>> = BTreeMap::new();
    for (score, place) in evaluation.scores.into_iter().zip(evaluation.places) {
        let row = &rows[place];
        let key = [row.gpu.to_string(), class(family(&row.op)).to_owned()];
        scores.entry(key).or_default().push(score);
    }
    Ok(errors(scores))
}

fn errors<K: Ord>(scores: BTreeMap<K, Vec<Score>>) -> BTreeMap<K, Errors> {
    scores
        .into_iter()
        .map(|(key, scores)| (key, Errors::of(&scores)))
        .collect()
}

/// By how much the published layout of each training configuration is predicted to take longer than the best of a plan for
/// the same GPUs and batch; `None` if no layout of the plan fits.
fn behind(judged: &[JudgedRun<'_>], answer: &dyn Fn(&Gpu) -> Result<Predictor>) -> Result<Vec<(Kind, Option<f64>)>> {
    let mut known: Vec<(&str, Workload)> = Vec::new();
    let mut all = Vec::new();
    for each in judged.iter().filter(|judged| judged.run.workload.trains()) {
        let (run, work) = (each.run, each.run.workload);
        if known.contains(&(&run.label, work)) {
            continue;
        }
        known.push((&run.label, work));
        let predictor = answer(&placed(run))?.with_framework(each.framework.clone());
        let published = Memo::new(&predictor).cost(&run.architecture, &work)?.time;
        let query = Query::training(work.gpus(), work.sequences() * work.dp, &work);
        let tried = plan::tried(&predictor, &run.architecture, &query).ok();
        let behind = tried.map(|tried| published / tried.layouts[0].time - 1.0);
        all.push((each.kind(), behind));
    }
    Ok(all)
}

fn judge_runs(files: &[PathBuf], to: &mut Judged) -> Result<()> {
    let answer = |gpu: &Gpu| Predictor::new(gpu, None);
    let mut scores: BTreeMap<[String; 3], Vec<Score>> = BTreeMap::new();
    for file in files {
        let runs = read_runs(std::slice::from_ref(file), &GpuCatalog::built_in())?;
        let judged = judge(&runs, &Choice::Auto, &answer)?;
        for each in judged.iter().filter(|each| !is_fitted_to(each, file)) {
            let (measure, kind) = (each.run.measure.name(), each.kind().name());
            let key = [measure, kind, &each.framework.name].map(str::to_owned);
            scores.entry(key).or_default().push(each.score());
        }
        // Others publish sweeps over layouts, or what fits: no source calls those the fastest.
        let tuned = |judged: &JudgedRun<'_>| {
            judged.run.publisher == Publisher::TrainingSteps && judged.framework.name == "megatron"
        };
        let tuned: Vec<_> = judged.into_iter().filter(tuned).collect();
        to.behind.extend(behind(&tuned, &answer)?);
    }
    to.unfitted = errors(scores);
    for framework in fitted() {
        let is_used = |file: &&PathBuf| framework.fits.values().any(|fit| is_from(file, fit));
        let files: Vec<&PathBuf> = files.iter().filter(is_used).collect();
        if files.is_empty() {
            continue;
        }
        let runs = read_runs(&files, &GpuCatalog::built_in())?;
        let judged = fittable(&runs, framework, &answer)?;
        let samples = judged.into_iter().map(|each| Sample {
            configuration: each.run.architecture.name.clone(),
            ..each.sample
        });
        let mut by_model = calibrate(framework, &samples.collect::<Vec<_>>());
        for kind in framework.fits.keys() {
            if let Some(half_width) = framework.half_width(*kind) {
                by_model.set_half_width(*kind, half_width);
            }
        }
        to.by_model.push(by_model);
    }
    Ok(())
}

/// Whether constants of its framework were fitted to this run of a file.
fn is_fitted_to(judged: &JudgedRun<'_>, file: &Path) -> bool {
    let names = [&judged.framework.name, Framework::UNKNOWN];
    let of_kind = |known: &Framework| {
        let fit = known.fits.get(&judged.kind());
        fit.is_some_and(|fit| is_from(file, fit))
    };
    let known = Framework::all().iter();
    let mut known = known.filter(|known| names.contains(&known.name.as_str()));
    judged.sample.fitted && known.any(of_kind)
}

/// Whether the constants were fitted to runs of this file.
fn is_from(file: &Path, fit: &Fit) -> bool {
    file.file_stem()
        .is_some_and(|stem| fit.runs_from.split(", ").any(|from| from == stem))
}

fn is_of(row: &Row, submodel: &Submodel) -> bool {
    *row.gpu == *submodel.key.gpu
        && *row.stack == *submodel.key.stack
        && Family::of(&row.op) == submodel.key.family
        && Variant::of(&row.op) == submodel.key.variant
}
