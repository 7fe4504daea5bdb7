//! A framework of one's own from measured steps.

use crate::answer::predictors::framework_file;
use crate::arch::Mode;
use crate::calibrate::{Sample, calibrate, departures};
use crate::dataset::runs::{Runs, read_runs};
use crate::error::{Error, Result, write_atomically};
use crate::evaluate::runs::{Choice, judge};
use crate::framework::Framework;
use crate::gpu::{Generation, Gpu};
use crate::predict::Predictor;
use crate::report::calibration::CalibrationReport;
use crate::request::CalibrateRequest;

/// Runs that a calibration needs at least.
const LEAST_RUNS: usize = 3;

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

/// Fits the framework, writes its file and describes it.
pub fn run(args: &CalibrateRequest) -> Result<CalibrationReport> {
    let runs = read_runs(&args.runs)?;
    let base = match &args.framework {
        Some(name) => framework(name, &runs)?,
        None => Framework::default_for(mode(&runs)).clone(),
    };
    let answer = |gpu: &Gpu| Predictor::new(gpu, None);
    let mut judged = judge(&runs, &Choice::Given(&base), &answer)?;
    if args.refit {
        judged.retain(|each| {
            let run = each.run;
            let known = Framework::recognise(&run.software, run.workload.mode, run.gpu.generation);
            let is_base = |known: &Framework| {
                known.name == base.name && known.generations == base.generations
            };
            base.name == Framework::UNKNOWN || known.is_some_and(is_base)
        });
    }
    let samples: Vec<Sample> = judged.into_iter().map(|each| each.sample).collect();
    if samples.len() < LEAST_RUNS {
        return Err(Error::infeasible(format!(
            "calibrate: {} of the runs can be predicted; at least {LEAST_RUNS} are needed",
            samples.len()
        )));
    }
    let prior = if args.refit {
        base.clone()
    } else {
        departures(&base)
    };
    let mut fitted = calibrate(&prior, &samples);
    if !args.refit {
        fitted.name = args
            .out
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        fitted.title = format!("calibrated on {} runs, from {}", samples.len(), base.name);
        fitted.software.clear();
    }
    let names = args.runs.iter().filter_map(|path| path.file_stem());
    let names: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    fitted
        .fits
        .values_mut()
        .for_each(|fit| fit.runs_from = names.join(", "));
    write_atomically(&args.out, fitted.to_toml().as_bytes())?;
    Ok(CalibrationReport::new(&base, &fitted, &samples, &args.out))
}
