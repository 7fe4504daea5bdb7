//! A real GPU, where `SHAPEWISE_DEVICE` says which: every path is right.

use shapewise::measure::checks::Verdict;
use shapewise::measure::cuda;
use shapewise::measure::device::Device;
use shapewise::ops::Dtype;

#[test]
fn a_real_gpu_passes_its_checks() {
    let Some(index) = std::env::var_os("SHAPEWISE_DEVICE") else {
        return crate::skip::skip("gpu", "SHAPEWISE_DEVICE names no GPU");
    };
    let index = index.to_str().and_then(|index| index.parse().ok());
    let mut device = cuda::open(index.expect("the number of a GPU")).unwrap();
    let verdict = Verdict::of(&device.check(&Dtype::ELEMENTS).unwrap());
    assert!(verdict.wrong.is_empty() && !verdict.paths.is_empty(), "{verdict:#?}");
}
