//! `shapewise calibrate`: a framework of one's own from measured steps.

use crate::arch::Mode;
use crate::calibrate::{Sample, calibrate, departures};
use crate::cli::args::{CalibrateArgs, Format};
use crate::cli::render;
use crate::dataset::runs::read_runs;
use crate::error::{Error, Result, write_atomically};
use crate::evaluate::runs::{Choice, judge};
use crate::framework::Framework;
use crate::gpu::{Generation, Gpu};
use crate::predict::Predictor;
use crate::report::calibration::CalibrationReport;
use std::path::Path;

/// Runs that a calibration needs at least.
const LEAST_RUNS: usize = 3;

/// The framework of this name that runs the mode, or the one that a file describes.
pub(super) fn framework(
    name_or_path: &str,
    mode: Mode,
    generation: Generation,
) -> Result<Framework> {
    let path = Path::new(name_or_path);
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        let text = crate::error::read_text(path)?;
        return Framework::from_toml(&text, &path.display().to_string());
    }
    Framework::find(name_or_path, mode, generation).cloned()
}

pub(super) fn run(args: &CalibrateArgs, format: Format) -> Result<String> {
    let runs = read_runs(&args.runs)?;
    let first = runs.runs.first();
    let (mode, generation) = first.map_or((Mode::Train, Generation::Other), |run| {
        (run.workload.mode, run.gpu.generation)
    });
    let base = match &args.framework {
        Some(name) => framework(name, mode, generation)?,
        None => Framework::default_for(mode).clone(),
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
    let mut calibration = calibrate(&prior, &samples);
    let fitted = &mut calibration.framework;
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
    let report = CalibrationReport::new(&base, &calibration, &samples, &args.out);
    Ok(render(&report, format))
}
