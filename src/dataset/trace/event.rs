//! One event of a trace, as libkineto writes it.

use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// What every event says, or a device of the header.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Event<'a> {
    #[serde(borrow)]
    pub cat: Cow<'a, str>,
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// Microseconds.
    pub ts: f64,
    /// Microseconds.
    pub dur: f64,
    pub pid: Value,
    pub tid: Value,
    /// Of a device alone.
    pub id: Value,
    /// Of a device alone.
    #[serde(rename = "computeMajor")]
    pub compute_major: Value,
}

/// What an event says besides.
#[derive(Deserialize)]
pub struct Detailed {
    #[serde(default)]
    pub args: Details,
}

/// Arguments of operators and kernels.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The operator that an event belongs to.
    #[serde(rename = "External id", alias = "External Id", alias = "external id")]
    pub external: Value,
    /// The launch that a kernel comes from.
    pub correlation: Value,
    /// The number of the GPU that ran a kernel.
    pub device: Value,
    #[serde(rename = "Input Dims", alias = "Input dims")]
    pub dims: Vec<Value>,
    #[serde(rename = "Input Strides")]
    pub strides: Vec<Value>,
    #[serde(rename = "Input type")]
    pub types: Vec<Value>,
    #[serde(rename = "Concrete Inputs")]
    pub concrete: Vec<Value>,
}

impl Details {
    /// The number that a launch and its kernel share; ROCm 6 names it as that of operators.
    pub fn launch(&self) -> Option<i64> {
        self.correlation.as_i64().or_else(|| self.external.as_i64())
    }
}
