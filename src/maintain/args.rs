//! What the command line of the maintainers may say. Doc comments are the help.

use clap::{Args, Parser, Subcommand};
use shapewise::cli::args::View;
use shapewise::cli::output::ReplaceArgs;
use std::path::PathBuf;

/// Tools of the maintainers of shapewise.
#[derive(Debug, Parser)]
#[command(name = "shapewise-maintain", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How the result is shown.
    #[command(flatten)]
    pub view: View,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Hold the predictor against every finding of the paper behind the sizing rules: a report with plots.
    Reproduce(ReproduceArgs),
    /// Write the page on the accuracy of all built-in models and frameworks: held-out errors, each GPU as if it had no table, and
    /// whole runs.
    Accuracy(AccuracyArgs),
    /// Judge the laws of the loss by published runs: differences between pairs of shapes.
    Losses(LossesArgs),
    /// Search shapes for each GPU as if it had no table, and judge the first by what is known of that GPU: median and worst loss of
    /// speed over five budgets, in percent.
    Transfer,
}

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

/// Writing the page on accuracy.
#[derive(Debug, Args)]
pub struct AccuracyArgs {
    /// Timing tables, public ones or our own, whose rows each GPU is judged by as if it had no table.
    #[arg(long, num_args = 1.., value_name = "FILE", required = true)]
    pub data: Vec<PathBuf>,
    /// Measured whole models (docs/runs.md).
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub runs: Vec<PathBuf>,
    /// The page.
    #[arg(long, default_value = "docs/accuracy.md", value_name = "FILE.md")]
    pub out: PathBuf,
    /// Files that exist.
    #[command(flatten)]
    pub replace: ReplaceArgs,
}

/// Judging the laws of the loss.
#[derive(Debug, Args)]
pub struct LossesArgs {
    /// Tables of final losses (docs/runs.md).
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}
