//! A model of one's own timings: rows to a table, a table to a model, the model to a prediction.
//!
//! The timings here come from a formula; real ones come from `shapewise measure` or an importer. The
//! schedule is far too short for a good model.

use shapewise::dataset::{self, Origin, Row};
use shapewise::gpu::{Gpu, GpuCatalog};
use shapewise::ops::{Dtype, Gemm, Op};
use shapewise::predict::Predictor;
use shapewise::train::fit::Backend;
use shapewise::train::{Event, Options, train};
use shapewise::units::Seconds;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("shapewise-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let gpu = Gpu::find("h200")?;

    let origin = Arc::new(Origin {
        source: "formula".into(),
        licence: "CC0-1.0".into(),
        libraries: None,
    });
    let mut rows = Vec::new();
    for m in [16, 128, 1024, 4096] {
        for n in [512, 1024, 2048, 4096, 8192] {
            for k in [512, 1024, 4096, 8192] {
                let op = Op::Gemm(Gemm::new(m, n, k));
                let compute = op.flops() / gpu.nearest_peak(Dtype::Bf16);
                let memory = op.bytes() / gpu.bandwidth();
                let time = Seconds::from_micros(4.0) + compute.max(memory) * 1.4;
                rows.push(Row {
                    origin: origin.clone(),
                    ..Row::new(op, "h200", "formula 1", time)
                });
            }
        }
    }
    let table = folder.join("rows.parquet");
    dataset::write(&table, &rows)?;

    let options = Options {
        out: folder.join("mine"),
        gpus: GpuCatalog::default(),
        gpu: None,
        across: false,
        choices: vec![],
        base: None,
        seed: 0,
        backend: Backend::Cpu,
        epochs: Some(10),
        labels: Some(500),
        keep_out: None,
    };
    let listener = |event: Event<'_>| {
        if let Event::SubmodelHeldOut { errors } = event {
            println!("median error on held-out keys: {:.1} %", 100.0 * errors[0].median_ape);
        }
    };
    let model = train(&rows, &options, &listener)?;
    let predictor = Predictor::new(gpu, Some(&model))?;
    let op = Op::Gemm(Gemm::new(2048, 2048, 2048));
    let estimate = &predictor.predict(&[op])[0];
    println!("{op}: {:.1} us, {}", estimate.time.micros(), estimate.tier.name());
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
