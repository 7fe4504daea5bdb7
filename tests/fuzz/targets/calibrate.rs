//! The body of `/v1/calibrate`: its runs, as objects and as CSV, and the framework to depart from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shapewise::answer::predictors::framework_content;
use shapewise::dataset::runs::{read_csv_text, read_objects};
use shapewise::request::FrameworkRequest;
use shapewise::serve::body;
use shapewise::serve::calibrate::CalibrateBody;

fuzz_target!(|bytes: &[u8]| {
    let Ok(asked) = body::read::<CalibrateBody>(bytes) else {
        return;
    };
    let asked = asked.request;
    let _ = read_objects(&asked.runs);
    if let Some(text) = &asked.csv {
        let _ = read_csv_text(text);
    }
    if let Some(FrameworkRequest::Content { toml }) = &asked.framework
        && let Ok(framework) = framework_content(toml)
    {
        let _ = framework.to_toml();
    }
});
