//! Whole-model measurements: training iterations, prefills and decode steps that others published.
//!
//! Which publisher a file is from shows in its columns. A [`Run`] is one measured step together
//! with the architecture and the workload that describe it to a predictor; what a table does not
//! say is filled in by the stated assumptions of its publisher (`docs/runs.md`).

mod map;
mod native;
mod published;

pub use native::{columns_markdown, read_csv_text, read_object, read_objects, write_runs};
#[cfg(test)]
pub use published::read_rows;

use self::map::{Map, Values, put};
use super::columns::Parquet;
use super::{Filter, Skipped};
use crate::arch::{Architecture, Workload};
use crate::error::{Error, Result};
use crate::gpu::{Gpu, GpuCatalog};
use crate::named_enum;
use crate::units::{BytesPerSecond, Seconds};
use std::borrow::Cow;
use std::path::Path;

named_enum! {
    /// A publisher of whole-model measurements.
    Publisher {
        /// mosaicml/llm-foundry: throughput of MPT under FSDP.
        LlmFoundry = "llm-foundry",
        /// VIA-Research/vTrain: iterations of GPT under Megatron-DeepSpeed.
        Vtrain = "vtrain",
        /// zksainx/pipeweave: prefill and decode of three served models.
        Pipeweave = "pipeweave",
        /// Vendors, benchmarks and trainers: steps of modern training software.
        TrainingSteps = "training-steps",
        /// Serving engines and their vendors: latencies under load.
        InferenceRuns = "inference-runs",
        /// argonne-lcf/LLM-Inference-Bench: whole static batches under serving engines.
        LlmInferenceBench = "llm-inference-bench",
        /// sitar-lab/NeuSight: forward and backward passes in PyTorch.
        Neusight = "neusight",
        /// Trainers and their users: fine-tuning of all weights or of adapters.
        TuningRuns = "tuning-runs",
        /// Any other: our own schema of runs.
        Native = "native",
    }
}

impl Publisher {
    /// A column that no other publisher's tables have, or the one of our own schema.
    fn mark(self) -> &'static str {
        match self {
            Self::Native => "seconds",
            other => Map::find(other.name()).mark(),
        }
    }
}

named_enum! {
    /// What was timed.
    #[derive(Default)]
    Measure {
        /// A step: an optimizer step, one batch of prompts, one token of a static batch.
        #[default]
        Step = "step",
        /// Time to the first token of a request.
        Ttft = "ttft",
        /// Time per further token of a request.
        Tpot = "tpot",
        /// Time of a static batch: its prompts together, then all further tokens.
        Batch = "batch",
    }
}

/// The load that a server was measured under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Requests in flight on all data-parallel ranks together.
    pub concurrency: u64,
    /// Tokens of a prompt.
    pub prompt: u64,
    /// Tokens that a request generates.
    pub output: u64,
}

impl Serving {
    /// Requests in flight on one of `dp` data-parallel ranks, which share them.
    pub fn per_rank(&self, dp: u64) -> u64 {
        self.concurrency.div_ceil(dp)
    }
}

/// One measured step of a whole model.
#[derive(Clone, Debug)]
pub struct Run {
    /// Whose measurement.
    pub publisher: Publisher,
    /// Which run (`mpt-7b, 8 x a100, batch 6 x 21, 2048 tokens`).
    pub label: String,
    /// The GPU it ran on.
    pub gpu: Cow<'static, Gpu>,
    /// The model.
    pub architecture: Architecture,
    /// What one step of it does.
    pub workload: Workload,
    /// Wall time of the step.
    pub time: Seconds,
    /// What was timed.
    pub measure: Measure,
    /// The load, where a server was measured.
    pub serving: Option<Serving>,
    /// Name and version of the software as the source writes them; they select a framework.
    pub software: String,
    /// Model, GPU and number format: runs of one configuration are held out together.
    pub configuration: String,
    /// Bandwidth between nodes of one GPU in one direction, where the source says.
    pub network: Option<BytesPerSecond>,
    /// Whether the source says what is recomputed; where it does not, [`Workload::recompute`] is assumed.
    pub recompute_stated: bool,
    /// Why no constant is fitted to the run although it is judged; `None` if constants may be.
    pub unfitted: Option<String>,
}

impl Run {
    /// A step of our own, with its usual label; its configuration is model, GPU and format.
    pub fn measured(gpu: Cow<'static, Gpu>, architecture: Architecture, workload: Workload, time: Seconds) -> Self {
        let run = Self {
            publisher: Publisher::Native,
            label: String::new(),
            configuration: String::new(),
            gpu,
            architecture,
            workload,
            time,
            measure: Measure::Step,
            serving: None,
            software: String::new(),
            network: None,
            recompute_stated: true,
            unfitted: None,
        };
        Self {
            label: run.usual_label(),
            configuration: run.usual_configuration(),
            ..run
        }
    }

    /// Model, GPUs and workload.
    fn usual_label(&self) -> String {
        let (gpus, gpu) = (self.workload.gpus(), &self.gpu.name);
        format!("{}, {gpus} x {gpu}, {}", self.architecture.name, self.workload)
    }

    /// Model, GPU and number format.
    fn usual_configuration(&self) -> String {
        let format = self.workload.format_name();
        format!("{} {} {format}", self.architecture.name, self.gpu.name)
    }
}

/// Runs with an account of the rows that were left out.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// The runs that were kept.
    pub runs: Vec<Run>,
    /// The rows that were not, by reason.
    pub skipped: Skipped,
}

impl Runs {
    /// Leaves the runs on these GPUs and of this software, as it is written.
    pub fn retain(&mut self, filter: &Filter) {
        let skipped = &mut self.skipped;
        self.runs.retain(|run| {
            let objection = filter.objection(&run.gpu.name, &run.software);
            objection.map(|reason| skipped.add(&reason, 1)).is_none()
        });
    }
}

/// Why a row is not kept.
type Reason = String;

/// Reads tables of any of the publishers, each by its columns; runs of our own schema may be on any GPU of `gpus`, and
/// on those that their file describes.
pub fn read_runs<P: AsRef<Path>>(paths: &[P], gpus: &GpuCatalog) -> Result<Runs> {
    read_runs_of(paths, None, gpus)
}

/// Reads tables of one publisher, or of any.
pub fn read_runs_of<P: AsRef<Path>>(paths: &[P], publisher: Option<Publisher>, gpus: &GpuCatalog) -> Result<Runs> {
    let mut all = Runs::default();
    for path in paths {
        let path = path.as_ref();
        let file = Parquet::open(path)?;
        let found = match publisher.map_or_else(|| recognise(&file), Ok)? {
            Publisher::Native => Runs {
                runs: native::read(&file, Some(path), gpus)?,
                ..Runs::default()
            },
            publisher => published::read(publisher, &file)?,
        };
        all.runs.extend(found.runs);
        all.skipped.merge(&found.skipped);
    }
    Ok(all)
}

/// What each row of a file is by the map `data/runs/NAME.toml`, or why it is left out.
#[doc(hidden)]
pub fn mapped_rows(name: &str, path: &Path) -> Result<Vec<Result<Values, Reason>>> {
    Map::find(name).rows(&Parquet::open(path)?, |values, name, value| {
        put(values, name, value);
        Ok(())
    })
}

/// The publisher whose mark is among the columns; of CSV without one that of our own schema, which then says what is missing.
fn recognise(file: &Parquet) -> Result<Publisher> {
    let mut publishers = Publisher::ALL.into_iter();
    publishers
        .find(|publisher| file.has(publisher.mark()))
        .or(file.is_text().then_some(Publisher::Native))
        .ok_or_else(|| {
            let marks = Publisher::ALL.map(Publisher::mark).join(", ");
            let place = file.place();
            Error::bad_input(format!(
                "{place}: no known table of whole-model runs has these columns; allowed: a file with one of {marks}"
            ))
        })
}

impl Runs {
    /// Keeps a run that can be described to a predictor, or counts why it cannot.
    fn keep(&mut self, run: Result<Run, Reason>) {
        let checked = run.and_then(|run| {
            if !(run.time > Seconds::ZERO && run.time.secs().is_finite()) {
                return Err("the time is not more than 0".to_owned());
            }
            let model = run.architecture.validate();
            let valid = model.and_then(|()| run.workload.validate(&run.architecture));
            valid.map_err(|error| error.to_string())?;
            Ok(run)
        });
        match checked {
            Ok(run) => self.runs.push(run),
            Err(reason) => self.skipped.add(&reason, 1),
        }
    }
}
