//! What `reproduce` takes.

use crate::cli::output::ReplaceArgs;
use clap::Args;
use std::path::PathBuf;

/// Reproducing the paper.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// The GPU that whole models are predicted for; sweeps are predicted for the parts they were measured on.
    #[arg(long, default_value = "a100", value_name = "NAME")]
    pub gpu: String,
    /// A built-in model by name, or the path of a trained one, that answers first for the GPUs it knows. One that
    /// was trained with `train --keep-out` is judged along the sweeps by the keys alone that it never saw: a test of prediction, not of
    /// the fit.
    #[arg(long, value_name = "NAME|PATH")]
    pub model: Option<String>,
    /// The paper's raw sweeps in our own schema (`shapewise import cookbook` writes them): measured points of every sweep.
    #[arg(long, num_args = 1.., value_name = "FILE.parquet")]
    pub data: Vec<PathBuf>,
    /// The folder of the report: report.html, which needs nothing else, and report.md with its plots.
    #[arg(long, default_value = "reproduction", value_name = "DIR")]
    pub out: PathBuf,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}
