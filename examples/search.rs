//! The fastest shapes with as many parameters as a published model.

use shapewise::arch::{Architecture, Workload};
use shapewise::error::Result;
use shapewise::gpu::Gpu;
use shapewise::predict::Predictor;
use shapewise::search::{Request, search};
use std::ops::ControlFlow;

fn main() -> Result<()> {
    let model = Architecture::find("gpt3-1.3b")?;
    let predictor = Predictor::new(Gpu::find("a100")?, None)?;
    let request = Request {
        top: 3,
        ..Request::like(&model, Workload::train(4, 2048))
    };
    let found = search(&predictor, &request, &|_| ControlFlow::Continue(()))?;
    for shape in &found.shapes {
        let arch = &shape.ranked.architecture;
        println!(
            "{} layers of {}, {} heads, d_ff {}: {:.0} tokens/s per GPU, {:+.1} % at equal parameters",
            arch.layers,
            arch.hidden,
            arch.heads,
            arch.mlp.d_ff,
            shape.step.tokens_per_s_per_gpu(),
            100.0 * shape.gain,
        );
    }
    Ok(())
}
