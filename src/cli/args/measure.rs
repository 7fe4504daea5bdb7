//! What `measure` may be asked.

use crate::shard::Shard;
use crate::units::duration;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Timing operators on a device.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// What to measure: cuda:N or wgpu:N, N the number of the GPU from 0, or cpu.
    #[arg(long, value_name = "DEVICE")]
    pub device: String,
    /// quick (2 minutes), standard (5), full (9), steps (10, with whole steps of small transformers),
    /// training, attention (9) or gaps (2) for a data-centre GPU, or a plan of your own: a TOML
    /// file with the numbers of cases of each set, number formats and times; docs/measure.md describes
    /// it, data/plans has the built-in ones.
    #[arg(long, default_value = "standard", value_name = "PLAN|FILE.toml")]
    pub plan: String,
    /// Stop in time, with a balanced sample of the plan; such as 90s or 9m [default: as the plan
    /// says].
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub budget: Option<Duration>,
    /// The Parquet file to write; rows are safe in FILE.parquet.journal as they come.
    #[arg(long, value_name = "FILE.parquet")]
    pub out: PathBuf,
    /// Time nothing: ask the library which kernel it puts first for so many GEMMs, and write these answers to --out.
    #[arg(long, value_name = "SHAPES", conflicts_with_all = ["shard", "strict"],
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub choices: Option<u64>,
    /// Threads of --choices, each with a handle of the library [default: the processor's cores less one, at most 8].
    #[arg(long, value_name = "N", requires = "choices", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: Option<u64>,
    /// Go on with an interrupted run, or add to a finished file what the plan still misses.
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Begin anew and replace what is there.
    #[arg(long)]
    pub force: bool,
    /// Measure shard I of N of the plan; `import native` puts the files together [default: all].
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// End the run if one result disagrees with the CPU; without it a wrong kernel or library path
    /// costs its rows, is named in the report, and the exit code is 1.
    #[arg(long)]
    pub strict: bool,
    /// Equal plans and seeds give equal cases in equal order.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// Reads a time of more than nothing.
fn budget(text: &str) -> Result<Duration, String> {
    let budget = duration(text)?;
    match budget.is_zero() {
        true => Err("more than nothing is allowed".to_owned()),
        false => Ok(budget),
    }
}
