//! A framework of one's own from measured steps.

use crate::answer::predictors::{artifact, built_in, described_by, framework_content, framework_file};
use crate::arch::Mode;
use crate::calibrate::{Sample, calibrate, departures};
use crate::dataset::runs::{Runs, read_csv_text, read_objects, read_runs};
use crate::error::{Error, Result};
use crate::evaluate::runs::{Choice, fittable, judge};
use crate::framework::Framework;
use crate::gpu::{Generation, Gpu, GpuCatalog};
use crate::predict::Predictor;
use crate::report::calibration::CalibrationReport;
use crate::request::{CalibrateRequest, FrameworkRequest, MeasuredRun, json};

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

/// The most runs of a request without files.
const MOST_RUNS: usize = 1000;

/// Refuses paths, and more runs than one request may hold.
pub fn refuse_files(args: &CalibrateRequest) -> Result<()> {
    let refused = |field: &str, found: String, allowed: &str| Err(Error::field(json::PLACE, field, found, allowed));
    if let Some(at) = args.runs.iter().position(|run| matches!(run, MeasuredRun::File(_))) {
        let found = "the path of a file".to_owned();
        return refused(&format!("runs[{at}]"), found, "an object with columns as keys");
    }
    let lines = args.csv.as_deref().map_or(0, |text| text.lines().count());
    for (field, found) in [("runs", args.runs.len()), ("csv", lines.saturating_sub(1))] {
        if found > MOST_RUNS {
            return refused(field, format!("{found} long"), &format!("up to {MOST_RUNS}"));
        }
    }
    args.model.as_deref().map(built_in).transpose()?;
    match &args.framework {
        Some(FrameworkRequest::Named(name)) => Framework::check_name(name),
        _ => Ok(()),
    }
}

/// Fits the framework and describes it.
pub fn run(args: &CalibrateRequest) -> Result<CalibrationReport> {
    if let Some(name) = args.name.as_deref().filter(|name| name.trim().is_empty()) {
        let allowed = "a text with a letter or a digit in it";
        return Err(Error::field(json::PLACE, "name", format!("`{name}`"), allowed));
    }
    let (mut files, mut objects) = (Vec::new(), Vec::new());
    for runs in &args.runs {
        match runs {
            MeasuredRun::File(path) => files.push(path),
            MeasuredRun::Run(run) => objects.push(run.clone()),
        }
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
        UNNAMED.clone_into(&mut fitted.name);
        fitted.title = format!("calibrated on {} runs, from {}", samples.len(), base.name);
        fitted.software.clear();
        fitted.aliases.clear();
        // It stays what it is when the built-in one changes.
        fitted.inherits = None;
    }
    if let Some(name) = &args.name {
        fitted.name.clone_from(name);
    }
    let names = files.iter().filter_map(|path| path.file_stem());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if !objects.is_empty() || args.csv.is_some() {
        names.push(REQUEST.to_owned());
    }
    fitted
        .fits
        .values_mut()
        .for_each(|fit| fit.runs_from = names.join(", "));
    Ok(CalibrationReport::new(&base, &fitted, &samples))
}
