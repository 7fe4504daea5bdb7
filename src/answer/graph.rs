//! The operators of a graph with their times.

use super::bases;
use crate::error::{Error, Result};
use crate::graph;
use crate::graph::{Listing, Options};
use crate::ops::{Dtype, Op};
use crate::predict::Predictor;
use crate::report::graph::GraphReport;
use crate::request::{GraphRequest, OperatorList};
use base64::prelude::{BASE64_STANDARD, Engine};

/// What a graph without a name is called.
const UNNAMED: &str = "graph";

/// How the graph of a request is read.
pub fn options(request: &GraphRequest) -> Result<Options> {
    if let Some(dtype) = request.dtype.filter(|dtype| !dtype.is_element()) {
        let allowed = Dtype::ELEMENT_NAMES.join(", ");
        return Err(Error::field("graph", "dtype", dtype, &allowed));
    }
    Ok(Options {
        dims: request.dims.iter().cloned().collect(),
        dtype: request.dtype,
        causal: request.causal,
    })
}

/// The operators that a request holds, and what the graph is called.
pub fn read(request: GraphRequest) -> Result<(Listing, String)> {
    let options = options(&request)?;
    let name = request.name.unwrap_or_else(|| UNNAMED.to_owned());
    let listing = match (request.onnx, request.ops) {
        (Some(onnx), None) => {
            let model = BASE64_STANDARD.decode(&onnx).map_err(|error| {
                let found = format!("no base64 ({error})");
                Error::field("request", "onnx", found, "an ONNX model as base64 with padding")
            })?;
            graph::of_onnx(&model, &options, &name)?
        }
        (None, Some(OperatorList::Lines(lines))) => graph::of_lines(&lines, &options, &name)?,
        (None, Some(OperatorList::Objects(ops))) => graph::of_operators(ops, &options, &name, "ops")?,
        (onnx, _) => {
            let found = onnx.map_or("absent, as is `ops`", |_| "given beside `ops`");
            let allowed = "an ONNX model here, or a list of operators in `ops`";
            return Err(Error::field("request", "onnx", found, allowed));
        }
    };
    Ok((listing, name))
}

/// The time of every operator of a graph, which `name` names, and their sum.
pub fn report(predictor: &Predictor, listing: &Listing, name: &str) -> Result<GraphReport> {
    let ops: Vec<Op> = listing.items.iter().map(|item| item.op).collect();
    let mut formats: Vec<Dtype> = ops.iter().filter_map(Op::dtype).collect();
    formats.sort_unstable();
    formats.dedup();
    predictor.gpu().require(formats.iter().copied())?;
    let estimates = predictor.predict(&ops);
    let answers = ops.iter().copied().zip(estimates.iter().map(|each| each.caveats));
    let bases = bases(predictor, predictor.kernels(), answers);
    let notes = formats.into_iter().filter_map(|dtype| predictor.format_note(dtype));
    Ok(GraphReport::new(predictor.gpu(), name, listing, &estimates, bases).with_notes(notes))
}
