//! The same loss of width in all layers, or fewer of them.

use super::{Change, Cost, Costs, Found, Limits, Query, TILE, damage};
use crate::arch::{Architecture, attention_weights, config_json};
use crate::error::{Error, Result};

/// What may be left of each dimension, in sixteenths: of widths every second.
const SIXTEENTHS: std::ops::RangeInclusive<u64> = 4..=16;

/// The name of the dimension that goes whole.
const LAYERS: &str = "layers";

/// The name of the dimension that counts with more than its own parameters.
const KEY_VALUES: &str = "key/value heads";

/// What may be left of a dimension, and the damage of that.
struct Dimension {
    name: &'static str,
    has: u64,
    set: fn(&mut Architecture, u64),
    left: Vec<(u64, f64)>,
}

pub(super) fn prune(query: &Query<'_>, costs: &mut Costs<'_>, whole: Cost, limits: Limits) -> Result<Option<Found>> {
    let arch = query.architecture;
    if arch.each_layer().is_none() || arch.mla.is_some() {
        let allowed = "a model whose layers all have attention that is not latent, and then an MLP or experts";
        return Err(Error::field("search", "from", &arch.name, allowed));
    }
    let dimensions = dimensions(query, costs, whole);
    let mut combinations: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new())];
    for dimension in &dimensions {
        let extended = combinations.iter().flat_map(|(damage, picks)| {
            let of = |(pick, (_, more)): (usize, &(u64, f64))| (damage + more, [picks.clone(), vec![pick]].concat());
            dimension.left.iter().enumerate().map(of).collect::<Vec<_>>()
        });
        combinations = extended.collect();
    }
    // The first that meets the targets does the least damage.
    combinations.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (damage, picks) in combinations {
        let changed: Vec<_> = dimensions
            .iter()
            .zip(picks)
            .map(|(of, pick)| (of, of.left[pick]))
            .collect();
        let mut left = arch.clone();
        for (dimension, (size, _)) in &changed {
            (dimension.set)(&mut left, *size);
        }
        let has_config = |positions| config_json(&left, positions).is_ok();
        let is_met =
            query.positions.is_none_or(has_config) && costs.of_candidate(&left).is_ok_and(|cost| limits.are_met(cost));
        if !is_met {
            continue;
        }
        let changes = changed.iter().filter(|(dimension, (size, _))| *size != dimension.has);
        let changes = changes.map(|(dimension, (size, damage))| Change {
            text: format!("{} {size} in place of {}", dimension.name, dimension.has),
            layers: left.layers,
            saved: alone(arch, costs, whole, dimension, *size).unwrap_or_default(),
            damage: *damage,
        });
        return Ok(Some(Found {
            changes: changes.collect(),
            layers: left.each_layer().unwrap_or_default(),
            architecture: left,
            damage,
            bound: damage,
            summed: None,
        }));
    }
    Ok(None)
}

/// What a model saves that has less of one dimension alone.
fn alone(arch: &Architecture, costs: &mut Costs<'_>, whole: Cost, dimension: &Dimension, size: u64) -> Option<Cost> {
    let mut left = arch.clone();
    (dimension.set)(&mut left, size);
    Some(whole.plus(-1.0, costs.of(&left).ok()?))
}

/// The dimensions that may shrink, with what may be left of each.
fn dimensions(query: &Query<'_>, costs: &mut Costs<'_>, whole: Cost) -> Vec<Dimension> {
    let arch = query.architecture;
    let tile = TILE * query.workload.tp;
    let mut all = vec![
        (LAYERS, arch.layers, 1, set_layers as fn(&mut Architecture, u64)),
        ("hidden", arch.hidden, TILE, |arch, size| arch.hidden = size),
        (KEY_VALUES, arch.kv_heads, 1, |arch, size| arch.kv_heads = size),
        (
            "heads",
            arch.heads,
            arch.kv_heads.max(query.workload.tp),
            |arch, size| arch.heads = size,
        ),
    ];
    match arch.moe {
        Some(moe) => all.push(("experts", moe.experts, query.workload.ep.max(8), |arch, size| {
            arch.moe.iter_mut().for_each(|moe| moe.experts = size);
        })),
        None => all.push(("MLP width", arch.mlp.d_ff, tile, |arch, size| arch.mlp.d_ff = size)),
    }
    let sized = all.into_iter().map(|(name, has, unit, set)| {
        let steps = SIXTEENTHS.rev().step_by(if name == LAYERS { 1 } else { 2 });
        let mut sizes: Vec<u64> = steps.map(|share| has * share / 16 / unit * unit).collect();
        sizes[0] = has;
        sizes.dedup();
        sizes.retain(|size| *size > 0);
        let mut dimension = Dimension {
            name,
            has,
            set,
            left: Vec::new(),
        };
        for size in sizes {
            let gone = 1.0 - size as f64 / has as f64;
            if let Some(saved) = alone(arch, costs, whole, &dimension, size) {
                let (part, gone) = match name {
                    // They go whole.
                    LAYERS => (saved.parameters, 1.0),
                    KEY_VALUES => (attention_weights(arch) as f64, gone),
                    _ => (saved.parameters / gone.max(f64::EPSILON), gone),
                };
                dimension.left.push((size, damage(part, gone, whole.parameters)));
            }
        }
        dimension
    });
    sized.collect()
}

/// Fewer layers, with a window in all of them as before.
fn set_layers(arch: &mut Architecture, layers: u64) {
    arch.layers = layers;
    arch.window.iter_mut().for_each(|window| window.layers = layers);
}
