//! What a model has beside attention, MLP and head: thin linear maps, norms, tables.

use super::layer::{Linear, StageLayers};
use super::validate::{MAX_LAYERS, MAX_WIDTH};
use super::workload::is_default;
use super::{Architecture, Role};
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// Most entries of a model.
const MAX_ENTRIES: u64 = 64;
/// Most weights of one entry that are of no linear map.
const MAX_VECTORS: u64 = 1 << 40;

/// A linear map, weights of none, and a pass over activations that layers or the model have beside attention and MLP; whole
/// on every tensor-parallel rank (hyper-connections of DeepSeek-V4, embeddings of each layer of Gemma 3n).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FurtherMap {
    /// How many the model has, all layers together.
    pub count: u64,
    /// Width that the linear map takes; 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub inputs: u64,
    /// Width that it gives; 0 without one.
    #[serde(skip_serializing_if = "is_default")]
    pub outputs: u64,
    /// Weights of no linear map: norms, biases, rows that are looked up.
    #[serde(skip_serializing_if = "is_default")]
    pub vectors: u64,
    /// Elements of each token that are read, and as many written, besides.
    #[serde(skip_serializing_if = "is_default")]
    pub copied: u64,
}

impl FurtherMap {
    fn linear(&self) -> Linear {
        Linear::new(Role::FurtherMap, self.inputs, self.outputs, false)
    }

    /// All weights of one.
    fn parameters(&self) -> u64 {
        self.linear().parameters() + self.vectors
    }
}

impl Architecture {
    /// The entries, and how many of each the layers of a stage have.
    pub(super) fn further_in(&self, stage: StageLayers) -> impl Iterator<Item = (FurtherMap, u64)> {
        let share = move |count: u64| (count * stage.layers).div_ceil(self.layers);
        self.further.iter().map(move |map| (*map, share(map.count)))
    }

    /// Their linear maps on one rank of a stage, and how many there are of each.
    pub(super) fn further_linears(&self, stage: StageLayers) -> impl Iterator<Item = (Linear, u64)> {
        let maps = self.further_in(stage).filter(|(map, _)| map.inputs > 0);
        maps.map(|(map, count)| (map.linear(), count))
    }

    /// Their parameters on one rank of a stage.
    pub(super) fn further_parameters(&self, stage: StageLayers) -> u64 {
        self.further_in(stage)
            .map(|(map, count)| count * map.parameters())
            .sum()
    }

    /// Weights that multiply each token.
    pub(super) fn further_weights(&self) -> u64 {
        let maps = self.further.iter();
        maps.map(|map| map.count * map.inputs * map.outputs).sum()
    }

    /// Elements of each token that their linear maps take and give, in a layer.
    pub(super) fn further_activations(&self) -> f64 {
        let widths = self.further.iter().map(|map| map.count * (map.inputs + map.outputs));
        widths.sum::<u64>() as f64 / self.layers as f64
    }

    pub(super) fn validate_further(&self) -> Result<()> {
        self.within("further", self.further.len() as u64, 0, MAX_ENTRIES)?;
        for map in &self.further {
            for (field, value, least, most) in [
                ("further.count", map.count, 1, 16 * MAX_LAYERS),
                ("further.inputs", map.inputs, u64::from(map.outputs > 0), MAX_WIDTH),
                ("further.outputs", map.outputs, u64::from(map.inputs > 0), MAX_WIDTH),
                ("further.vectors", map.vectors, 0, MAX_VECTORS),
                ("further.copied", map.copied, 0, MAX_WIDTH),
            ] {
                self.within(field, value, least, most)?;
            }
        }
        Ok(())
    }
}
