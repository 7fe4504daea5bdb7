//! `shapewise train`: timing tables to a model.

use crate::cli::args::Backend;
use crate::cli::args::Format;
use crate::cli::args::TrainArgs;
use crate::dataset;
use crate::dataset::Table;
use crate::error::Error;
use crate::error::Result;

pub(super) fn run(args: &TrainArgs, format: Format) -> Result<String> {
    if args.backend == Backend::Wgpu && !cfg!(feature = "wgpu") {
        return Err(Error::feature_off("`train --backend wgpu`", "wgpu"));
    }
    let table = dataset::alarms::screen(dataset::read_many(&args.data)?);
    if table.rows.is_empty() {
        return Err(Error::infeasible(format!(
            "no row is left to train on; {} rows were skipped",
            table.skipped.total()
        )));
    }
    fit(args, &table, format)
}

/// Fits the nets to these rows, writes the model and reports its held-out errors.
fn fit(_args: &TrainArgs, _table: &Table, _format: Format) -> Result<String> {
    Err(Error::infeasible("training is not connected yet"))
}
