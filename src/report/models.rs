//! The answer to `models`: what is built in, what it was learned from, how well it does.

use crate::regressor::artifact::GroupErrors;
use crate::regressor::artifact::Submodel;
use crate::regressor::artifact::Weights;
use crate::report::Report;
use crate::report::percent;
use crate::report::table::{left, right, table};
use crate::units::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

/// The built-in models.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ModelsReport {
    /// One line per model, operator family and number format.
    pub models: Vec<ModelLine>,
}

/// What one model answers for.
#[derive(Clone, Debug, Serialize, ToSchema)]
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
    pub dtype: String,
    /// Timings it was fitted to.
    pub rows: u64,
    /// Median error on held-out shapes.
    pub median_ape: Option<f64>,
    /// Errors on shapes that the recipe had not seen, as fractions; the first group is all of them.
    pub held_out: Vec<ErrorKeys>,
    /// Where the timings come from.
    pub sources: Vec<SourceKeys>,
    /// Size of the weights.
    pub size_bytes: u64,
}

/// Errors of one group of held-out shapes, as fractions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorKeys {
    group: String,
    n: usize,
    median_ape: f64,
    mean_ape: f64,
    p90_ape: f64,
    coverage_90: f64,
    interval_half_width_median: f64,
}

/// Where timings come from.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SourceKeys {
    gpu: String,
    stack: String,
    source: String,
    licence: String,
    rows: u64,
}

impl ModelLine {
    /// Describes one head of the model `name`.
    pub fn new(name: &str, head: &Submodel, weights: &Weights) -> Self {
        let parameters: usize = weights.nets.iter().map(|net| net.parameters()).sum();
        let sources = head.data.iter().map(|data| SourceKeys {
            gpu: data.gpu.clone(),
            stack: data.stack.clone(),
            source: data.source.clone(),
            licence: data.licence.clone(),
            rows: data.rows as u64,
        });
        Self {
            name: name.to_owned(),
            gpu: head.key.gpu.clone(),
            stack: head.key.stack.clone(),
            family: head.key.family.name(),
            dtype: head.key.variant.to_string(),
            rows: head.data.iter().map(|source| source.rows as u64).sum(),
            median_ape: head.held_out.first().map(|errors| errors.median_ape),
            held_out: head.held_out.iter().map(ErrorKeys::from).collect(),
            sources: sources.collect(),
            // Half precision on disk.
            size_bytes: 2 * parameters as u64,
        }
    }
}

impl From<&GroupErrors> for ErrorKeys {
    fn from(errors: &GroupErrors) -> Self {
        Self {
            group: errors.group.clone(),
            n: errors.n,
            median_ape: errors.median_ape,
            mean_ape: errors.mean_ape,
            p90_ape: errors.p90_ape,
            coverage_90: errors.coverage_90,
            interval_half_width_median: errors.interval_half_width_median,
        }
    }
}

impl Report for ModelsReport {
    const LISTS: &'static [&'static str] = &["models"];

    fn page(&self) -> String {
        let rows = self.models.iter().map(|line| {
            [
                line.name.clone(),
                line.gpu.clone(),
                line.stack.clone(),
                line.family.to_owned(),
                line.dtype.clone(),
                line.rows.to_string(),
                line.median_ape.map_or_else(|| "-".to_owned(), percent),
                Bytes::from_bytes(line.size_bytes as f64).to_string(),
            ]
        });
        table(
            [
                left("name"),
                left("GPU"),
                left("stack"),
                left("operators"),
                left("dtype"),
                right("rows").minor(2),
                right("held-out median"),
                right("size").minor(3),
            ],
            rows,
        )
    }
}
