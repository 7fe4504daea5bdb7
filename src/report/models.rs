//! The answer to `models`: what is built in, what it was learned from, how well it does.

use crate::families::Family;
use crate::regressor::artifact::{GroupErrors, Submodel, Weights};
use crate::report::table::{dash, left, right, row, table};
use crate::report::{Report, percent};
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
    /// What answers.
    #[serde(flatten)]
    pub submodel: SubmodelKeys,
    /// Median error on held-out shapes.
    pub median_ape: Option<f64>,
    /// Where the timings come from.
    pub sources: Vec<SourceKeys>,
    /// Size of the weights.
    pub size_bytes: u64,
}

/// What a sub-model has learned from, and how well.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SubmodelKeys {
    /// GPU it was learned on.
    pub gpu: String,
    /// Software stack it was learned on.
    pub stack: String,
    /// Operator family.
    pub family: Family,
    /// Number format or kernel within the family.
    pub dtype: String,
    /// Timings of every table that it was fitted to.
    pub rows: u64,
    /// Errors on shapes that the recipe had not seen, as fractions; the first group is all of them.
    pub held_out: Vec<GroupErrors>,
}

impl From<&Submodel> for SubmodelKeys {
    fn from(submodel: &Submodel) -> Self {
        Self {
            gpu: submodel.key.gpu.clone(),
            stack: submodel.key.stack.clone(),
            family: submodel.key.family,
            dtype: submodel.key.variant.to_string(),
            rows: submodel.data.iter().map(|source| source.rows as u64).sum(),
            held_out: submodel.held_out.clone(),
        }
    }
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
    /// Describes a sub-model of the model `name`.
    pub fn new(name: &str, submodel: &Submodel, weights: &Weights) -> Self {
        let parameters: usize = weights.nets.iter().map(|net| net.parameters()).sum();
        let sources = submodel.data.iter().map(|data| SourceKeys {
            gpu: data.gpu.clone(),
            stack: data.stack.clone(),
            source: data.source.clone(),
            licence: data.licence.clone(),
            rows: data.rows as u64,
        });
        Self {
            name: name.to_owned(),
            submodel: submodel.into(),
            median_ape: submodel.held_out.first().map(|errors| errors.median_ape),
            sources: sources.collect(),
            // Half precision on disk.
            size_bytes: 2 * parameters as u64,
        }
    }
}

impl Report for ModelsReport {
    const LISTS: &'static [&'static str] = &["models"];

    fn page(&self) -> String {
        let rows = self.models.iter().map(|line| {
            row![
                line.name,
                line.submodel.gpu,
                line.submodel.stack,
                line.submodel.family,
                line.submodel.dtype,
                line.submodel.rows,
                dash(line.median_ape.map(percent)),
                Bytes::from_bytes(line.size_bytes as f64),
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
