//! Which dimensions a shape changes, and how far that takes it from the original.

use crate::arch::{Architecture, Dimension, Workload};
use serde::Serialize;
use utoipa::ToSchema;

/// What changing one dimension more counts beside the change itself: as much as a tenth of a dimension, so that
/// one dimension moved by 10 % is as near as two that hardly move. Ours: every changed dimension has to be argued for.
const EACH_CHANGE: f64 = 0.1;

/// One dimension that a fix changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Change {
    /// Which one.
    pub dimension: Dimension,
    /// What it is.
    pub from: u64,
    /// What it becomes.
    pub to: u64,
}

/// Every dimension that is different.
pub(super) fn changes(from: (&Architecture, &Workload), to: (&Architecture, &Workload)) -> Vec<Change> {
    Dimension::ALL
        .into_iter()
        .map(|dimension| Change {
            dimension,
            from: dimension.get(from.0, from.1),
            to: dimension.get(to.0, to.1),
        })
        .filter(|change| change.from != change.to)
        .collect()
}

/// The relative changes of the dimensions, in logarithms, and a fixed part for each of them.
pub(super) fn distance(changes: &[Change]) -> f64 {
    let change_of = |dimension| changes.iter().find(|change| change.dimension == dimension);
    let heads = change_of(Dimension::Heads);
    changes
        .iter()
        // Head size and key/value heads follow the heads, windowed and linear ones the layers; that is one change.
        .filter(|change| match (change.dimension, heads) {
            (Dimension::HeadDim, Some(_)) => false,
            (Dimension::KvHeads, Some(heads)) => ratio(change) != ratio(heads),
            (Dimension::WindowLayers | Dimension::LinearLayers, _) => change_of(Dimension::Layers).is_none(),
            _ => true,
        })
        .map(|change| ratio(change).ln().abs() + EACH_CHANGE)
        .sum()
}

/// Whether nothing is changed but the layout and the padding of the vocabulary, which leave the weights as they are.
pub(super) fn keep_weights(changes: &[Change]) -> bool {
    let mut names = changes.iter().map(|change| change.dimension);
    names.all(|name| name == Dimension::Vocab || name.is_of_layout())
}

fn ratio(change: &Change) -> f64 {
    change.to.max(1) as f64 / change.from.max(1) as f64
}

/// Whether no other dimension is changed than in `allowed`.
pub(super) fn only(changes: &[Change], allowed: &[Change]) -> bool {
    changes.iter().all(|change| {
        let mut names = allowed.iter().map(|allowed| allowed.dimension);
        names.any(|name| name == change.dimension)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(change: impl FnOnce(&mut Architecture)) -> Vec<Change> {
        let work = Workload::train(4, 2048);
        let arch = Architecture::find("gpt3-2.7b").unwrap();
        let mut other = arch.clone();
        change(&mut other);
        changes((&arch, &work), (&other, &work))
    }

    #[test]
    fn cutting_heads_anew_is_one_change() {
        let cut = |heads: u64| {
            near(|arch| {
                (arch.heads, arch.kv_heads) = (heads, heads);
                arch.head_dim = arch.hidden / heads;
            })
        };
        assert_eq!(cut(40).len(), 3);
        assert!((distance(&cut(40)) - (1.25f64.ln() + EACH_CHANGE)).abs() < 1e-12);
        assert!(distance(&cut(40)) < distance(&cut(20)));
        assert_eq!(distance(&near(|_| ())), 0.0);
    }

    #[test]
    fn few_changed_dimensions_are_nearer_than_many() {
        let wider = near(|arch| arch.mlp.d_ff = 10368);
        let both = near(|arch| (arch.layers, arch.mlp.d_ff) = (31, 10368));
        assert!(distance(&wider) < distance(&both));
        assert!(only(&wider, &both) && !only(&both, &wider));
    }
}
