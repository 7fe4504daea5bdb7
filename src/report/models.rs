//! The answer to `models`: what is built in, what it was learned from, how well it does.

use crate::report::Report;
use crate::report::percent;
use crate::report::table::Side;
use crate::report::table::table;
use crate::units::Bytes;
use serde::Serialize;

/// The built-in models.
#[derive(Clone, Debug, Serialize)]
pub struct ModelsReport {
    /// One line per model, operator family and number format.
    pub models: Vec<ModelLine>,
}

/// What one model answers for.
#[derive(Clone, Debug, Serialize)]
pub struct ModelLine {
    /// Name for `--model`.
    pub name: String,
    /// GPU it was learned on.
    pub gpu: String,
    /// Software stack it was learned on.
    pub stack: String,
    /// Operator family.
    pub family: &'static str,
    /// Number format.
    pub dtype: &'static str,
    /// Timings it was fitted to.
    pub rows: u64,
    /// Median error on held-out shapes.
    pub median_ape: Option<f64>,
    /// Size of the weights.
    pub size_bytes: u64,
}

impl Report for ModelsReport {
    fn text(&self) -> String {
        let rows = self.models.iter().map(|line| {
            [
                line.name.clone(),
                line.gpu.clone(),
                line.stack.clone(),
                line.family.to_owned(),
                line.dtype.to_owned(),
                line.rows.to_string(),
                line.median_ape.map_or_else(|| "-".to_owned(), percent),
                Bytes::from_bytes(line.size_bytes as f64).to_string(),
            ]
        });
        table(
            [
                ("name", Side::Left),
                ("GPU", Side::Left),
                ("stack", Side::Left),
                ("operators", Side::Left),
                ("dtype", Side::Left),
                ("rows", Side::Right),
                ("held-out median", Side::Right),
                ("size", Side::Right),
            ],
            rows,
        )
    }
}
