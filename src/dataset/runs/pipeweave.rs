//! zksainx/pipeweave: prefill and decode times of three served models (`e2e/real`).

use super::cells::Cells;
use super::{Publisher, Reason, Run, Runs, known_gpu};
use crate::arch::{Preset, Workload};
use crate::dataset::columns::Parquet;
use crate::error::Result;
use crate::stats::median;
use crate::units::Seconds;
use std::collections::BTreeMap;

/// What a table must have.
const COLUMNS: &[&str] = &[
    "file",
    "run_name",
    "batch_size",
    "output_len",
    "total_prefill_tokens",
    "iteration",
    "prefill_latency",
    "median_decode_latency",
];

/// What was run: file, name, batch, prompt tokens, generated tokens per sequence.
type Setting = (String, String, u64, u64, u64);

/// Measured prefills and decode steps in seconds, one of each per iteration.
type Times = (Vec<f64>, Vec<f64>);

/// One prefill and one decode step per setting; each time is the median over the iterations.
pub(super) fn read(file: &Parquet) -> Result<Runs> {
    let mut runs = Runs::default();
    let mut settings: BTreeMap<Setting, Times> = BTreeMap::new();
    Cells::each(file, COLUMNS, |cells| match timed(cells) {
        Ok((setting, [prefill, decode])) => {
            let times = settings.entry(setting).or_default();
            times.0.push(prefill);
            times.1.push(decode);
        }
        Err(reason) => runs.skipped.add(&reason, 1),
    })?;
    for (setting, (prefill, decode)) in settings {
        let rows = prefill.len() as u64;
        // A setting has the iterations that made it one.
        let (Some(prefill), Some(decode)) = (median(prefill), median(decode)) else {
            continue;
        };
        match pair(&setting, prefill, decode) {
            Ok(pair) => pair.into_iter().for_each(|run| runs.keep(Ok(run))),
            Err(reason) => runs.skipped.add(&reason, rows),
        }
    }
    Ok(runs)
}

/// One iteration of a setting: its prefill and its decode step.
fn timed(cells: Cells<'_>) -> Result<(Setting, [f64; 2]), Reason> {
    let (Some(file), Some(name)) = (cells.text("file")?, cells.text("run_name")?) else {
        return Err("the run has no name".to_owned());
    };
    if cells.number("iteration")?.is_none() {
        return Err("not one iteration of a run".to_owned());
    }
    let (Some(prefill), Some(decode)) = (cells.number("prefill_latency")?, cells.number("median_decode_latency")?)
    else {
        return Err("a time is missing".to_owned());
    };
    let [batch, prompt, output] = ["batch_size", "total_prefill_tokens", "output_len"].map(|name| cells.size(name));
    let setting = (file.to_owned(), name.to_owned(), batch?, prompt?, output?);
    Ok((setting, [prefill, decode]))
}

/// The prefill and the decode step of one setting.
fn pair(setting: &Setting, prefill: f64, decode: f64) -> Result<[Run; 2], Reason> {
    let (file, name, batch, prompt, output) = setting;
    let (tp, gpu) = ranks(file);
    let gpu = known_gpu(match gpu {
        "RTX_PRO_6000_S" => "rtx-pro-6000",
        other => other,
    })?;
    // `Qwen2.5-14B-arxiv_8`: model, set of prompts, batch.
    let model = name.rsplit_once('-').map_or(name.as_str(), |(model, _)| model);
    let preset = Preset::find(match model {
        "Llama-3.1-70B" => "llama-3-70b",
        other => other,
    });
    let architecture = &preset
        .map_err(|_| format!("model `{model}` is not known"))?
        .architecture;
    let tokens = (*prompt as f64 / *batch as f64).round() as u64;
    let run = |what: &str, workload: Workload, time: f64| Run {
        label: format!("{name}, {what}, tp {tp} x {}", gpu.name),
        ..Run::step(
            Publisher::Pipeweave,
            gpu,
            architecture.clone(),
            Workload { tp, ..workload },
            Seconds::from_secs(time),
        )
    };
    Ok([
        run("prefill", Workload::prefill(*batch, tokens), prefill),
        run("decode", Workload::decode(*batch, tokens + output / 2), decode),
    ])
}

/// `tp2_A100` is two ranks of A100; a bare name is one.
fn ranks(file: &str) -> (u64, &str) {
    let ranked = file
        .strip_prefix("tp")
        .and_then(|rest| rest.split_once('_'))
        .and_then(|(ranks, gpu)| Some((ranks.parse().ok()?, gpu)));
    ranked.unwrap_or((1, file))
}
