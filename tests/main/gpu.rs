//! The probe on a real GPU, where `SHAPEWISE_DEVICE` says which: every path is right, and what
//! `docs/gpu-log.md` asks is printed.

use shapewise::measure::cuda;
use shapewise::measure::probe::probe;
use shapewise::report::Report;
use shapewise::report::tables::probe::ProbeReport;

#[test]
fn a_real_gpu_passes_its_checks_and_answers_the_log() {
    let Some(index) = std::env::var_os("SHAPEWISE_DEVICE") else {
        return crate::skip::skip("gpu", "SHAPEWISE_DEVICE names no GPU");
    };
    let index = index.to_str().and_then(|index| index.parse().ok());
    let mut device = cuda::open(index.expect("the number of a GPU")).unwrap();
    let report = ProbeReport::new(&probe(&mut device).unwrap());
    println!("{}", report.text());
    assert!(report.is_sound() && report.checked_paths > 0);
}
