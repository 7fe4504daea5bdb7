//! The figures of one GPU by key, and those that every prediction asks for read out once.

use super::Figure;
use crate::ops::Dtype;
use std::collections::BTreeMap;
use std::ops::Deref;

/// Figures by key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    by_key: BTreeMap<String, Figure>,
    /// `memory_bandwidth_bytes_per_s`.
    pub bandwidth: Option<f64>,
    /// `reachable_bandwidth_fraction`.
    pub reachable: Option<f64>,
    /// `launch_floor_s`.
    pub launch: Option<f64>,
    /// `peak_…_flops_per_s` by format.
    pub peaks: [Option<f64>; Dtype::ALL.len()],
}

impl Figures {
    pub fn insert(&mut self, key: String, figure: Figure) {
        let mut by_key = std::mem::take(&mut self.by_key);
        by_key.insert(key, figure);
        *self = by_key.into();
    }
}

impl From<BTreeMap<String, Figure>> for Figures {
    fn from(by_key: BTreeMap<String, Figure>) -> Self {
        let get = |key: &str| by_key.get(key).map(|figure| figure.value);
        Self {
            bandwidth: get("memory_bandwidth_bytes_per_s"),
            reachable: get("reachable_bandwidth_fraction"),
            launch: get("launch_floor_s"),
            peaks: Dtype::ALL.map(|dtype| get(&format!("peak_{dtype}_flops_per_s"))),
            by_key,
        }
    }
}

impl Deref for Figures {
    type Target = BTreeMap<String, Figure>;

    fn deref(&self) -> &Self::Target {
        &self.by_key
    }
}
