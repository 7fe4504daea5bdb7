//! A training step of a published model: time, tokens per second, MFU, memory.

use shapewise::arch::{Architecture, Workload};
use shapewise::error::Result;
use shapewise::gpu::Gpu;
use shapewise::predict::Predictor;
use shapewise::predict::step::estimate_step;

fn main() -> Result<()> {
    let model = Architecture::find("llama-3-8b")?;
    let workload = Workload {
        tp: 2,
        ..Workload::train(1, 8192)
    };
    let predictor = Predictor::new(Gpu::find("b200")?, None)?;
    let step = estimate_step(&predictor, &model, &workload)?;
    println!(
        "{}: {:.1} ms a step, {:.0} tokens/s per GPU, MFU {:.0} %, {:.1} GB of memory ({})",
        model.name,
        step.time.secs() * 1e3,
        step.tokens_per_s_per_gpu(),
        100.0 * step.mfu,
        step.memory.total().bytes() / 1e9,
        if step.fits { "fits" } else { "does not fit" },
    );
    for line in step.lines.iter().take(5) {
        println!("  {}: {:.0} us", line.item.op, line.time.micros());
    }
    Ok(())
}
