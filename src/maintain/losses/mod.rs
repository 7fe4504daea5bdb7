//! `losses`: predicted differences of loss between shapes, judged on published runs.

mod fit;

mod pairs;

mod report;

mod runs;

use crate::args::LossesArgs;
use pairs::pair_test;
use report::LossReport;
use runs::read_losses;
use shapewise::cli::args::View;
use shapewise::cli::{render, rows};
use shapewise::error::Result;

/// The pair test of these tables.
pub fn run(args: &LossesArgs, view: View) -> Result<String> {
    let test = pair_test(&read_losses(&args.files)?)?;
    let report = LossReport::new(&test, rows::skipped(&test.skipped));
    Ok(render(&report, view))
}
