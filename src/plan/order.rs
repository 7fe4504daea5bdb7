//! What plans take from measured layouts: how much memory they fill, and how surely their order is known.

use crate::framework::{Framework, Kind};
use crate::gpu::Generation;
use crate::toml_text::built_in;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::ToSchema;

/// Errors of predicted ratios between measured layouts of one model, GPU and number of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Two layouts closer than this, in `ln(time)`, are tied: their order would be wrong more than one time in five.
    pub tie: f64,
    /// Half width of the 90 % interval of `ln` of the ratio of two times.
    pub half_width: f64,
    /// Pairs of measured layouts that both follow from.
    pub pairs: u64,
    /// Which pairs.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    memory_share: f64,
    order: BTreeMap<Kind, Order>,
    /// Generations of the GPUs of measured engines of today's servers.
    generations: Vec<Generation>,
    /// Of engines on other GPUs, or of servers of any year.
    elsewhere: BTreeMap<Kind, Order>,
}

static FILE: LazyLock<File> = LazyLock::new(|| built_in(&shapewise_data::LAYOUTS));

impl Order {
    /// That of a kind of step; `None` if no pairs of layouts were measured.
    pub fn of(kind: Kind) -> Option<&'static Self> {
        FILE.order.get(&kind)
    }

    /// That of engines of a framework on GPUs of this generation.
    pub fn of_engines(kind: Kind, framework: &Framework, generation: Generation) -> Option<&'static Self> {
        let is_measured = FILE.generations.contains(&generation) && !framework.software.is_empty();
        let orders = if is_measured { &FILE.order } else { &FILE.elsewhere };
        orders.get(&kind)
    }
}

/// The share of a GPU's memory that servers take: vLLM's default of `--gpu-memory-utilization`.
pub const SERVING_MEMORY_SHARE: f64 = 0.9;

/// The share of a GPU's memory that a planned layout takes at most, by the memory model.
pub fn memory_share() -> f64 {
    FILE.memory_share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_layouts_have_an_order() {
        for kind in [Kind::TrainDense, Kind::TrainMoe] {
            let order = Order::of(kind).unwrap();
            assert!(0.0 < order.tie && order.tie < order.half_width && order.pairs > 0);
        }
        assert!(Order::of(Kind::Prefill).is_none());
        assert!((0.5..=1.0).contains(&memory_share()));
    }
}
