//! The body of `/v1/calibrate`: its runs, as objects and as CSV, and the framework to depart from.
#![no_main]

mod read;

use libfuzzer_sys::fuzz_target;
use read::read;
use shapewise::answer::predictors::framework_content;
use shapewise::dataset::runs::{read_csv_text, read_objects};
use shapewise::request::{CalibrateRequest, FrameworkRequest, MeasuredRun};

fuzz_target!(|bytes: &[u8]| {
    let Some(asked) = read::<CalibrateRequest>(bytes) else {
        return;
    };
    let objects = asked.runs.iter().filter_map(|run| match run {
        MeasuredRun::Run(run) => Some(run.clone()),
        MeasuredRun::File(_) => None,
    });
    let _ = read_objects(&objects.collect::<Vec<_>>());
    if let Some(text) = &asked.csv {
        let _ = read_csv_text(text);
    }
    if let Some(FrameworkRequest::Content { toml }) = &asked.framework
        && let Ok(framework) = framework_content(toml)
    {
        let _ = framework.to_toml();
    }
});
