//! The time of one GEMM on one GPU, with its interval and where the number comes from.

use shapewise::error::Result;
use shapewise::gpu::Gpu;
use shapewise::ops::{Gemm, Op};
use shapewise::predict::Predictor;

fn main() -> Result<()> {
    let predictor = Predictor::new(Gpu::find("h200")?, None)?;
    let gemms = [4096, 4095].map(|n| Op::Gemm(Gemm::new(8192, n, 4096)));
    for (op, estimate) in gemms.iter().zip(predictor.predict(&gemms)) {
        println!(
            "{op}: {:.1} us (90 %: {:.1} to {:.1}), {}",
            estimate.time.micros(),
            estimate.low().micros(),
            estimate.high().micros(),
            estimate.tier.name(),
        );
    }
    Ok(())
}
