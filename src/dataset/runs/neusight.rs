//! sitar-lab/NeuSight: forward and backward passes of small models in PyTorch (`scripts/asplos`, arXiv 2407.13853).

use super::cells::Cells;
use super::{Publisher, Reason, Run, Runs, known_gpu};
use crate::arch::{Architecture, AttentionKernel, Mlp, Preset, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::ops::Dtype;
use crate::units::Seconds;

/// What a table must have.
const COLUMNS: &[&str] = &["gpu", "e2e_latency", "model", "mode", "seq", "batch", "extra"];

/// One training step a row.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    Runs::of_rows(file, COLUMNS, run)
}

fn run(cells: Cells<'_>) -> Result<Run, Reason> {
    let gpu = known_gpu(&cells.text_or_empty("gpu")?.replace('_', " "))?;
    let architecture = architecture(cells.text_or_empty("model")?)?;
    if cells.text_or_empty("mode")? != "train" {
        return Err("a pass without gradients scores every position, a prefill the last".to_owned());
    }
    let extra = cells.text_or_empty("extra")?;
    let (tp, pp, dp) = match extra {
        "" => (1, 1, 1),
        "tp4" => (4, 1, 1),
        "pp4_1" => (1, 4, 1),
        "dp4" => (1, 1, 4),
        other => return Err(format!("variant `{other}` is not known")),
    };
    let batch = cells.size("batch")?;
    if !batch.is_multiple_of(dp) {
        return Err("the replicas do not share the batch evenly".to_owned());
    }
    let workload = Workload {
        dtype: Dtype::Fp32,
        attention: AttentionKernel::Unfused,
        tp,
        pp,
        dp,
        ..Workload::train(batch / dp, cells.size("seq")?)
    };
    let time = cells.number("e2e_latency")?.unwrap_or(0.0);
    let time = Seconds::from_secs(time * 1e-3);
    let label = format!("{}, {} x {}, {workload}", architecture.name, workload.gpus(), gpu.name);
    let step = Run::step(Publisher::Neusight, gpu, architecture, workload, time);
    Ok(Run { label, ..step })
}

/// The shapes that the publisher's table of operators shows.
fn architecture(model: &str) -> Result<Architecture, Reason> {
    let preset = |name: &str| {
        let found = Preset::find(name).map_err(|error| error.to_string())?;
        Ok(found.architecture.clone())
    };
    match model {
        "gpt2_large" => preset("gpt2-large"),
        "opt_13" => preset("opt-1.3b"),
        "gpt3_27" => preset("gpt3-2.7b"),
        // 24 heads of 128, as table 2.1 of arXiv 2005.14165 prints them, and a hidden size of 3072 to match.
        "gpt3_xl" => {
            let base = preset("gpt3-2.7b")?;
            Ok(Architecture {
                name: "gpt3-xl".to_owned(),
                layers: 24,
                hidden: 3072,
                heads: 24,
                kv_heads: 24,
                head_dim: 128,
                mlp: Mlp {
                    d_ff: 12_288,
                    ..base.mlp
                },
                ..base
            })
        }
        other => Err(format!("no preset describes `{other}`")),
    }
}
