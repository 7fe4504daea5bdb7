//! `reproduce`: the findings of the co-design paper, predicted beside what was measured.

use crate::args::ReproduceArgs;
use crate::report::ReproduceReport;
use crate::reproduce::{AUTHORS, Finding, Timing, Timings, reproduce};
use shapewise::answer::predictors::{artifact, described_by};
use shapewise::cli::args::View;
use shapewise::cli::output::write_all;
use shapewise::cli::rows::is_kept_out;
use shapewise::cli::{note, render};
use shapewise::dataset;
use shapewise::error::{Error, Result};
use shapewise::gpu::GpuCatalog;
use shapewise::predict::Predictor;
use shapewise::regressor::artifact::Artifact;
use std::path::PathBuf;

pub fn run(args: &ReproduceArgs, view: View) -> Result<String> {
    let model = args.model.as_deref().map(artifact).transpose()?;
    let mut gpus = GpuCatalog::default();
    gpus.extend(described_by(model.as_deref()));
    let target = Predictor::new(gpus.find(&args.gpu)?, model.as_deref())?;
    let timings = timings(&args.data, model.as_deref())?;
    if !args.data.is_empty() && timings.0.is_empty() {
        return Err(no_row(&args.data));
    }
    let gpu = target.gpu().clone();
    let findings = reproduce(target, model.as_deref(), &timings)?;
    let with_rows = |finding: &Finding| finding.takes_rows && finding.missing.is_none();
    if !args.data.is_empty() && !findings.iter().any(with_rows) {
        return Err(no_row(&args.data));
    }
    let report = ReproduceReport::new(&gpu, timings.0.len() as u64, &findings);
    let files = report.files()?.into_iter();
    let files: Vec<_> = files
        .map(|file| (args.out.join(file.name), file.content.into_bytes()))
        .collect();
    write_all("--out", &files, args.replace)?;
    note(&format!("wrote {}", args.out.join("report.html").display()));
    note(&format!("wrote {}", args.out.join("report.md").display()));
    Ok(render(&report, view))
}

fn no_row(paths: &[PathBuf]) -> Error {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    Error::infeasible(format!(
        "--data {}: no row lies on a sweep of the paper; allowed: tables of `shapewise import cookbook` with rows of {}",
        names.join(" "),
        AUTHORS.join(", ")
    ))
}

/// The rows of the authors' GPUs; empty if no table is named.
fn timings(paths: &[PathBuf], model: Option<&Artifact>) -> Result<Timings> {
    if paths.is_empty() {
        return Ok(Timings::default());
    }
    let rows = dataset::timings(dataset::read_many(paths)?).rows.into_iter();
    let of_authors = rows.filter(|row| AUTHORS.contains(&&*row.gpu));
    let timings = of_authors.map(|row| Timing {
        gpu: row.gpu.to_string(),
        kept_out: model.is_some_and(|model| is_kept_out(&row, model)),
        op: row.op,
        time: row.time,
    });
    Ok(Timings(timings.collect()))
}
