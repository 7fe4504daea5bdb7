//! Operators out of what frameworks export: an ONNX graph, or a list of operators as JSON lines.
//!
//! A [`Listing`] holds every operator that is timed with how often it runs, and accounts for every node that is not:
//! what costs nothing or runs inside another kernel is counted, what is not known is named with its reason.

mod attention;

mod lines;

mod lowering;

mod onnx;

mod shapes;

mod wire;

use crate::error::{Error, Result, read_bytes, read_text};
use crate::ops::{Dtype, Op};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use utoipa::ToSchema;

/// How a graph is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sizes of symbolic dimensions by name.
    pub dims: BTreeMap<String, u64>,
    /// The number format of all operators that the graph does not quantize, in place of the graph's own.
    pub dtype: Option<Dtype>,
    /// Whether a mask that the graph adds to attention scores hides what follows a query.
    pub causal: bool,
}

/// One operator of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What the graph calls it.
    pub kind: String,
    /// The operator.
    pub op: Op,
    /// How often it runs.
    pub count: u64,
}

/// Nodes of one type that are not timed, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UnknownNodes)]
pub struct Unknown {
    /// Their type.
    #[serde(rename = "label")]
    pub kind: String,
    /// How many.
    pub nodes: u64,
    /// Why, in the words for the first.
    pub reason: String,
}

/// Everything that a graph does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// What is timed, equal operators of one type once, in order of first execution.
    pub items: Vec<Item>,
    /// What is not.
    pub unknown: Vec<Unknown>,
    /// Nodes that run inside the kernel of another.
    pub fused: u64,
    /// Nodes that move no data: views, constants, arithmetic on shapes.
    pub free: u64,
    /// What is assumed.
    pub notes: Vec<String>,
    /// Where equal operators and types that are not timed are listed: graphs have thousands of nodes.
    item_of: HashMap<(String, Op), usize>,
    unknown_of: HashMap<String, usize>,
}

impl Listing {
    fn add(&mut self, kind: &str, op: Op, count: u64) {
        let key = (kind.to_owned(), op);
        let at = *self.item_of.entry(key).or_insert(self.items.len());
        match self.items.get_mut(at) {
            Some(item) => item.count += count,
            None => self.items.push(Item {
                kind: kind.to_owned(),
                op,
                count,
            }),
        }
    }

    fn leave(&mut self, kind: &str, reason: &str) {
        let known = self.unknown_of.entry(kind.to_owned());
        let at = *known.or_insert(self.unknown.len());
        match self.unknown.get_mut(at) {
            Some(unknown) => unknown.nodes += 1,
            None => self.unknown.push(Unknown {
                kind: kind.to_owned(),
                reason: reason.to_owned(),
                nodes: 1,
            }),
        }
    }
}

/// Reads a graph; the ending of the file says which kind it is.
pub fn read(path: &Path, options: &Options) -> Result<Listing> {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let place = path.display().to_string();
    match ending.to_lowercase().as_str() {
        "onnx" => of_onnx(&read_bytes(path, onnx::MOST_BYTES)?, options, &place),
        "jsonl" => of_lines(&read_text(path)?, options, &place),
        _ => {
            let value = format!("`{ending}`");
            Err(Error::field(place, "extension", value, ".onnx or .jsonl"))
        }
    }
}

/// Reads an ONNX model; `place` is where errors say it is.
pub fn of_onnx(model: &[u8], options: &Options, place: &str) -> Result<Listing> {
    let graph = onnx::Graph::new(model, options, place)?;
    lowering::lowered(&graph, options, place)
}

/// Reads a list of operators as JSON lines.
pub fn of_lines(text: &str, options: &Options, place: &str) -> Result<Listing> {
    lines::read(text, options, place)
}

/// Reads a list of operators; errors call it `field`.
pub fn of_operators(
    operators: Vec<Map<String, Value>>,
    options: &Options,
    place: &str,
    field: &str,
) -> Result<Listing> {
    lines::listed(operators, options, place, field)
}

/// The operator; `None` if a size is out of range.
fn checked(op: Op) -> std::result::Result<Op, String> {
    for dimension in op.kind().dimensions() {
        if let Some(value) = dimension.get(&op)
            && !dimension.domain.contains(value)
        {
            let allowed = dimension.domain.allowed();
            return Err(format!("its {} is out of range; allowed: {allowed}", dimension.name));
        }
    }
    if let Some((field, value, allowed)) = op.misfit() {
        return Err(format!("its {field} is {value}; allowed: {allowed}"));
    }
    Ok(op)
}

#[cfg(test)]
mod tests;
