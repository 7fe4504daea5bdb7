//! A framework of one's own from measured steps.

use crate::answer::predictors::{artifact, described_by, framework_content, framework_file};
use crate::arch::Mode;
use crate::calibrate::{Sample, calibrate, departures};
use crate::dataset::runs::{Runs, read_csv_text, read_objects, read_runs};
use crate::error::{Error, Result, is_same_file, write_atomically};
use crate::evaluate::runs::{Choice, fittable, judge};
use crate::framework::Framework;
use crate::gpu::{Generation, Gpu, GpuCatalog};
use crate::predict::Predictor;
use crate::report::calibration::CalibrationReport;
use crate::request::{CalibrateRequest, FrameworkRequest, MeasuredRun};
use std::ffi::OsStr;
use std::path::Path;

/// Runs that a calibration needs at least.
const LEAST_RUNS: usize = 3;

/// What a framework is called that is written to no file.
const UNNAMED: &str = "calibrated";

/// Where runs are from that no file holds.
const REQUEST: &str = "the request";

/// The framework of this name that runs what the first of the runs did, or the one that a file describes.
pub fn framework(name_or_path: &str, runs: &Runs) -> Result<Framework> {
    if let Some(framework) = framework_file(name_or_path)? {
        return Ok(framework);
    }
    let generation = runs.runs.first().map(|run| run.gpu.generation);
    let generation = generation.unwrap_or(Generation::Other);
    Framework::find(name_or_path, mode(runs), generation).cloned()
}

/// What the first of the runs did.
fn mode(runs: &Runs) -> Mode {
    let first = runs.runs.first();
    first.map_or(Mode::Train, |run| run.workload.mode)
}

/// Fits the framework, describes it, and writes its file where one is asked for.
pub fn run(args: &CalibrateRequest) -> Result<CalibrationReport> {
    let (mut files, mut objects) = (Vec::new(), Vec::new());
    for runs in &args.runs {
        match runs {
            MeasuredRun::File(path) => files.push(path),
            MeasuredRun::Run(run) => objects.push(run.clone()),
        }
    }
    if let Some(out) = &args.out
        && files.iter().any(|file| is_same_file(file, out))
    {
        let allowed = "a file that holds no runs to fit to";
        return Err(Error::field("request", "out", out.display(), allowed));
    }
    let model = args.model.as_deref().map(artifact).transpose()?;
    let gpus = GpuCatalog::from_iter(described_by(model.as_deref()));
    let mut runs = read_runs(&files, &gpus)?;
    runs.runs.extend(read_objects(&objects)?);
    if let Some(text) = &args.csv {
        runs.runs.extend(read_csv_text(text)?);
    }
    let base = match &args.framework {
        Some(FrameworkRequest::Named(name)) => framework(name, &runs)?,
        Some(FrameworkRequest::Content { toml }) => framework_content(toml)?,
        None => Framework::default_for(mode(&runs)).clone(),
    };
    let answer = |gpu: &Gpu| Predictor::new(gpu, model.as_deref());
    let judged = match args.refit {
        true => fittable(&runs, &base, &answer)?,
        false => judge(&runs, &Choice::Given(&base), &answer)?,
    };
    let samples: Vec<Sample> = judged.into_iter().map(|each| each.sample).collect();
    if samples.len() < LEAST_RUNS {
        return Err(Error::infeasible(format!(
            "calibrate: {} of the runs can be predicted; at least {LEAST_RUNS} are needed",
            samples.len()
        )));
    }
    let prior = if args.refit { base.clone() } else { departures(&base) };
    let mut fitted = calibrate(&prior, &samples);
    if !args.refit {
        let stem = args.out.as_deref().and_then(Path::file_stem);
        fitted.name = stem.map_or_else(|| UNNAMED.to_owned(), named);
        fitted.title = format!("calibrated on {} runs, from {}", samples.len(), base.name);
        fitted.software.clear();
        fitted.aliases.clear();
        // It stays what it is when the built-in one changes.
        fitted.inherits = None;
    }
    let names = files.iter().filter_map(|path| path.file_stem());
    let mut names: Vec<_> = names.map(named).collect();
    if !objects.is_empty() || args.csv.is_some() {
        names.push(REQUEST.to_owned());
    }
    fitted
        .fits
        .values_mut()
        .for_each(|fit| fit.runs_from = names.join(", "));
    if let Some(out) = &args.out {
        write_atomically(out, fitted.to_toml().as_bytes())?;
    }
    let out = args.out.as_deref();
    Ok(CalibrationReport::new(&base, &fitted, &samples, out))
}

fn named(text: &OsStr) -> String {
    text.to_string_lossy().into_owned()
}
