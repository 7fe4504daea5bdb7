//! Whole steps that `measure` has timed: objects in its journal, runs in the file beside its rows.

use super::RunToRun;
use super::runs::{Publisher, Run, read_runs_of, write_runs};
use crate::arch::{Architecture, Workload};
use crate::error::Result;
use crate::gpu::{Gpu, GpuCatalog};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

/// One timing of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredStep {
    /// The transformer.
    pub architecture: Architecture,
    /// What one step of it does.
    pub workload: Workload,
    /// Median wall time.
    pub seconds: f64,
}

impl MeasuredStep {
    /// Whether both are of one shape.
    pub fn is_again(&self, architecture: &Architecture, workload: &Workload) -> bool {
        self.workload == *workload && self.architecture == *architecture
    }
}

/// The runs beside a table of timings: `mine.steps.parquet` beside `mine.parquet`.
pub fn steps_path(timings: &Path) -> PathBuf {
    timings.with_extension("steps.parquet")
}

/// Writes steps as runs of `docs/runs.md`.
pub fn write_steps(path: &Path, steps: &[MeasuredStep], gpu: &Gpu, software: &str) -> Result<()> {
    let run = |step: &MeasuredStep| Run {
        software: software.to_owned(),
        ..Run::measured(
            Cow::Owned(gpu.clone()),
            step.architecture.clone(),
            step.workload,
            Seconds::from_secs(step.seconds),
        )
    };
    let runs: Vec<Run> = steps.iter().map(run).collect();
    write_runs(path, &runs)
}

/// Reads what [`write_steps`] has written.
pub fn read_steps(path: &Path) -> Result<Vec<MeasuredStep>> {
    let gpus = GpuCatalog::built_in();
    let runs = read_runs_of(&[path], Some(Publisher::Native), &gpus)?.runs;
    let step = |run: Run| MeasuredStep {
        seconds: run.time.secs(),
        architecture: run.architecture,
        workload: run.workload,
    };
    Ok(runs.into_iter().map(step).collect())
}

/// The noise from run to run: every further timing of a shape against its first; `None` if nothing was repeated.
pub fn steps_run_to_run(steps: &[MeasuredStep]) -> Option<RunToRun> {
    let mut first = HashMap::new();
    let mut differences = Vec::new();
    for step in steps {
        match first.entry((&step.architecture, &step.workload)) {
            Entry::Vacant(entry) => {
                entry.insert(step.seconds);
            }
            Entry::Occupied(first) => differences.push((step.seconds / first.get()).ln().abs()),
        }
    }
    RunToRun::of(differences)
}
