//! The operators of a graph.

use crate::ops::Dtype;
use crate::request::Size;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Operators with the keys that answers have under `op`, and `count` for how often each runs.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a list of objects, or one text with an object a line"
)]
pub enum OperatorList {
    /// One object an operator.
    #[schema(value_type = Vec<Object>)]
    Objects(Vec<Map<String, Value>>),
    /// JSON lines, one operator a line.
    Lines(String),
}

/// Every operator of an ONNX model, or of a list.
#[derive(Clone, Debug, serde::Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct GraphRequest {
    /// The bytes of an ONNX model, as base64; either this or `ops`.
    #[arg(skip)]
    #[schema(content_encoding = "base64")]
    pub onnx: Option<String>,
    /// A list of operators instead.
    #[arg(skip)]
    pub ops: Option<OperatorList>,
    /// What the answer calls the graph, such as the name of its file [default: graph].
    #[arg(skip)]
    #[schema(default = "graph")]
    pub name: Option<String>,
    /// The size of a symbolic dimension of the model; once for each.
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = named_size)]
    #[serde(default, deserialize_with = "sizes")]
    #[schema(value_type = BTreeMap<String, Size>)]
    pub dims: Vec<(String, u64)>,
    /// Number format of all operators [default: what the graph says].
    #[arg(long)]
    pub dtype: Option<Dtype>,
    /// Masks that the graph adds to the scores of attention hide what follows a query, so half of it is computed; in a list,
    /// attention that does not say `causal` is.
    #[arg(long)]
    #[serde(default)]
    pub causal: bool,
}

fn sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, u64)>, D::Error> {
    let sizes = BTreeMap::<String, Size>::deserialize(deserializer)?;
    let read = sizes.into_iter().map(|(name, size)| match size {
        Size::Number(number) => Ok((name, number)),
        Size::Range(_) => Err(D::Error::custom("expected a number for each")),
    });
    read.collect()
}

/// `batch=8`.
fn named_size(text: &str) -> Result<(String, u64), String> {
    use crate::ops::LARGEST;
    use crate::request::number;

    let (name, size) = text.split_once('=').unwrap_or_default();
    let size = number::size(size).filter(|size| (1..=LARGEST).contains(size));
    match size {
        Some(size) => Ok((name.to_owned(), size)),
        None => Err(format!(
            "allowed: NAME=SIZE, a size from 1 to {LARGEST}, such as batch=8"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::json;
    use serde_json::json;

    #[test]
    fn a_wrong_body_names_its_field() {
        for (body, field) in [
            (json!({"ops": [1]}), "ops"),
            (json!({"ops": {}}), "ops"),
            (json!({"onnx": 1}), "onnx"),
            (json!({"onnx": "", "dims": {"batch": 0}}), "dims.batch"),
            (json!({"onnx": "", "dims": {"batch": "1:4"}}), "dims"),
            (json!({"onnx": "", "dims": [4]}), "dims"),
            (json!({"onnx": "", "causal": 1}), "causal"),
        ] {
            let refused = json::plain::<GraphRequest>(body.clone()).unwrap_err();
            assert_eq!(refused.field_error().unwrap().field, field, "{body}");
        }
    }
}
