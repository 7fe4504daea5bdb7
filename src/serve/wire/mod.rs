//! Questions as JSON: the keys are the options of the command line with `_` for `-`, the defaults are the same.
//!
//! These types are apart from those of [`crate::query`], so that the wire can stay as it is when those change. Unknown
//! keys are refused. What a number may be is part of its type, hence of the OpenAPI document.

mod architecture;

mod operator;

mod search;

mod size;

mod sweep;

mod workload;

pub use architecture::Architecture;
pub use operator::{
    Attention, AttentionOp, Batch, Gemm, GemmOp, MOST_OPS, SweptAttention, SweptGemm, operator,
    other_kind, take_kind,
};
pub use search::Search;
pub use sweep::Sweep;
pub use workload::{
    BesideConfig, KEYS as WORKLOAD_KEYS, Model, ModelOrConfig, SweptModel, SweptWorkload, Workload,
};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The GPU unless told otherwise.
fn usual_gpu() -> String {
    "h200".to_owned()
}

/// A body that can be asked with.
pub trait Question: DeserializeOwned {
    /// Turns the `config.json` of a model and the pairs of a query string into a question, where one may be sent.
    fn about(_config: Value, _pairs: Map<String, Value>) -> Option<Value> {
        None
    }

    /// Notes that the question came from [`Question::about`].
    fn note_bare(&mut self) {}
}

impl Question for Gemm {}
impl Question for Attention {}
impl Question for Batch {}
impl Question for Search {}
impl Question for Sweep {}
impl Question for SweptGemm {}
impl Question for SweptAttention {}
impl Question for SweptModel {}

impl Question for Model {
    fn about(config: Value, mut pairs: Map<String, Value>) -> Option<Value> {
        let mut question = Map::new();
        for key in ["gpu", "model"] {
            question.extend(pairs.remove(key).map(|value| (key.to_owned(), value)));
        }
        question.insert("architecture".to_owned(), config);
        question.insert("workload".to_owned(), Value::Object(pairs));
        Some(Value::Object(question))
    }

    fn note_bare(&mut self) {
        self.bare = true;
    }
}
