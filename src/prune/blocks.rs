//! What each layer keeps of its attention and of its MLP.

use super::knapsack::{Item, Solution, solve};
use super::{Change, Cost, Costs, Found, Limits, Part, Query, Score, damage};
use crate::arch::{Architecture, LayerKind, attention_weights};
use crate::error::{Error, Result};
use crate::units::{Bytes, Seconds};
use std::collections::{BTreeMap, HashMap};

/// Eighths of its width that an MLP may keep.
const EIGHTHS: [u64; 6] = [7, 6, 5, 4, 2, 1];

/// Widths are whole tiles, on each tensor-parallel rank, and of those that Nemotron-NAS can have.
const TILE: u64 = 128;
const LEAST_WIDTH: u64 = 256;

/// Of equal layers those change first that are nearest to this share of the depth, where Nemotron-51B and 49B lost most; by how
/// little it is preferred.
const FIRST_DEPTH: f64 = 0.6;
const PREFERENCE: f64 = 1e-6;

/// How often blocks are chosen again, for a sum that is the predicted step of what they make.
const ROUNDS: usize = 8;

/// Costs are counted in picoseconds and bytes.
const PICOSECONDS: f64 = 1e12;

/// A part of a layer, and what may be left of it.
struct Class {
    layer: usize,
    part: Part,
    /// The first is what the model has.
    blocks: Vec<Block>,
}

#[derive(Clone, Copy)]
struct Block {
    left: u64,
    saved: Cost,
    damage: f64,
}

pub(super) fn prune(query: &Query<'_>, costs: &mut Costs<'_>, whole: Cost, limits: Limits) -> Result<Option<Found>> {
    let arch = query.architecture;
    let layers = arch.each_layer().ok_or_else(|| {
        let allowed =
            "a model whose layers are all attention, seen whole or through one window, and then an MLP or experts";
        Error::field("search", "from", &arch.name, allowed)
    })?;
    let classes = classes(query, costs, whole, &layers)?;
    // Budgets of what is saved less than by the blocks that save most, so that no cost is negative.
    let most = |of: fn(Cost) -> f64| -> f64 {
        let each = classes
            .iter()
            .map(|class| class.blocks.iter().map(|block| of(block.saved)).fold(0.0, f64::max));
        each.sum()
    };
    let savings: [fn(Cost) -> f64; 2] = [|cost| cost.time.secs() * PICOSECONDS, |cost| cost.memory.bytes()];
    let items: Vec<Vec<Item>> = classes.iter().map(|class| class.items(savings)).collect();
    let wanted = [
        limits.time.map(|time| time.secs() * PICOSECONDS),
        limits.memory.map(Bytes::bytes),
    ];
    let least = savings.map(|of| of(whole) - most(of));
    let mut budgets = wanted;
    let mut best: Option<Found> = None;
    for round in 0..ROUNDS {
        let room = [0, 1].map(|at| budgets[at].map_or(Some(u64::MAX), |budget| whole_number(budget - least[at])));
        let [Some(time), Some(memory)] = room else { break };
        let Some(solution) = solve(&items, [time, memory]) else {
            break;
        };
        let found = found(arch, &layers, &classes, &solution, whole);
        let Some(cost) = costs.of(&found.architecture) else {
            break;
        };
        // By what the step is above its target.
        let above = [0, 1].map(|at| wanted[at].map_or(0.0, |wanted| savings[at](cost) - wanted));
        let is_met = limits.are_met(cost);
        if is_met && best.as_ref().is_none_or(|best| found.damage < best.damage) {
            best = Some(found);
        }
        let again = above.iter().any(|above| *above > 0.0) || round < ROUNDS / 2;
        if !again {
            break;
        }
        for (budget, above) in budgets.iter_mut().zip(above) {
            // Nothing is gained by a budget above that of all blocks.
            *budget = budget.map(|budget| budget - above);
        }
    }
    Ok(best)
}

/// A room as a whole number; `None` below 0.
fn whole_number(room: f64) -> Option<u64> {
    (room >= 0.0).then_some(room as u64)
}

impl Class {
    fn items(&self, savings: [fn(Cost) -> f64; 2]) -> Vec<Item> {
        let most = savings.map(|of| self.blocks.iter().map(|block| of(block.saved)).fold(0.0, f64::max));
        let item = |block: &Block| Item {
            costs: [0, 1].map(|at| (most[at] - savings[at](block.saved)).round() as u64),
            damage: block.damage,
        };
        self.blocks.iter().map(item).collect()
    }
}

/// Every part of every layer, with what may be left of it.
fn classes(query: &Query<'_>, costs: &mut Costs<'_>, whole: Cost, layers: &[LayerKind]) -> Result<Vec<Class>> {
    let mut scores: BTreeMap<(usize, Part), Vec<&Score>> = BTreeMap::new();
    for score in query.scores {
        let layer = check(score, layers)?;
        scores.entry((layer, score.part)).or_default().push(score);
    }
    let mut known: HashMap<(LayerKind, LayerKind), Option<Cost>> = HashMap::new();
    let mut classes = Vec::new();
    for (layer, kind) in layers.iter().enumerate() {
        let depth = (layer as f64 + 0.5) / layers.len() as f64;
        let preference = 1.0 + PREFERENCE * (depth - FIRST_DEPTH).abs();
        for part in Part::ALL {
            let has = part.size(kind);
            let scored = scores.get(&(layer, part)).map_or(&[][..], Vec::as_slice);
            let scored = scored.iter().map(|score| (score.choice, Some(score.score)));
            let usual = part.smaller(kind, query).into_iter().map(|left| (left, None));
            let lefts: Vec<_> = match query.scores.is_empty() {
                true => usual.collect(),
                false => scored.collect(),
            };
            let own = lefts
                .iter()
                .find(|(left, _)| *left == has)
                .and_then(|(_, score)| *score);
            let mut blocks = vec![Block {
                left: has,
                saved: Cost::default(),
                damage: own.unwrap_or(0.0),
            }];
            for (left, score) in lefts.into_iter().filter(|(left, _)| *left != has) {
                let to = part.reduced(*kind, left);
                let saved = known
                    .entry((*kind, to))
                    .or_insert_with(|| saved(query.architecture, costs, whole, layers, *kind, to));
                let Some(saved) = *saved else { continue };
                let gone = 1.0 - left as f64 / has as f64;
                let parameters = match part {
                    Part::Attention => attention_weights(query.architecture) as f64 / layers.len() as f64,
                    Part::Mlp => saved.parameters / gone,
                };
                blocks.push(Block {
                    left,
                    saved,
                    damage: score.unwrap_or_else(|| damage(parameters, gone, whole.parameters) * preference),
                });
            }
            classes.push(Class { layer, part, blocks });
        }
    }
    Ok(classes)
}

/// What one layer saves that becomes another: a share of what every second of its kind saves, so that others are left.
fn saved(
    arch: &Architecture,
    costs: &mut Costs<'_>,
    whole: Cost,
    layers: &[LayerKind],
    from: LayerKind,
    to: LayerKind,
) -> Option<Cost> {
    let mut changed = layers.to_vec();
    let mut count = 0;
    for layer in changed.iter_mut().filter(|layer| **layer == from).step_by(2) {
        *layer = to;
        count += 1;
    }
    let cost = costs.of(&arch.with_layers(&changed))?;
    let each = f64::from(count).recip();
    Some(Cost {
        time: (whole.time - cost.time) * each,
        memory: (whole.memory - cost.memory) * each,
        parameters: (whole.parameters - cost.parameters) * each,
    })
}

/// The layer of a score that says what a block can be.
fn check(score: &Score, layers: &[LayerKind]) -> Result<usize> {
    let refuse = |field, value: &dyn std::fmt::Display, allowed: String| {
        Err(Error::field("search", &format!("scores.{field}"), value, &allowed))
    };
    let layer = usize::try_from(score.layer).unwrap_or(usize::MAX);
    let Some(kind) = layers.get(layer) else {
        return refuse("layer", &score.layer, format!("0 to {}", layers.len() - 1));
    };
    if !(score.score.is_finite() && score.score >= 0.0) {
        return refuse("score", &score.score, "a number of at least 0".to_owned());
    }
    let has = score.part.size(kind);
    let can_be = match score.part {
        Part::Attention => score.choice == 0 || (score.choice <= has && kind.heads.is_multiple_of(score.choice)),
        Part::Mlp => score.choice == 0 || score.choice == has || (score.choice < has && !kind.experts),
    };
    match can_be && has > 0 {
        true => Ok(layer),
        false => refuse(
            "choice",
            &score.choice,
            format!("what may be left of {has} of {}", score.part),
        ),
    }
}

impl Part {
    /// What a layer has of it: key/value heads, width, 1 for experts.
    fn size(self, kind: &LayerKind) -> u64 {
        match self {
            Self::Attention => kind.kv_heads,
            Self::Mlp => kind.d_ff + u64::from(kind.experts),
        }
    }

    /// A layer in which so much of it is left.
    fn reduced(self, kind: LayerKind, left: u64) -> LayerKind {
        match self {
            Self::Attention => kind.with_kv_heads(left),
            Self::Mlp => kind.with_d_ff(left),
        }
    }

    /// What may be left of it without scores, falling.
    fn smaller(self, kind: &LayerKind, query: &Query<'_>) -> Vec<u64> {
        let has = self.size(kind);
        let mut smaller: Vec<u64> = match self {
            Self::Attention if query.architecture.mla.is_some() => Vec::new(),
            Self::Attention => std::iter::successors(Some(has), |kv| kv.is_multiple_of(2).then_some(kv / 2)).collect(),
            Self::Mlp if kind.experts => Vec::new(),
            Self::Mlp => {
                let unit = LEAST_WIDTH.max(TILE * query.workload.tp);
                EIGHTHS
                    .iter()
                    .map(|eighths| (has * eighths / 8 + unit / 2) / unit * unit)
                    .collect()
            }
        };
        smaller.push(0);
        smaller.dedup();
        smaller.retain(|left| *left < has);
        smaller
    }

    /// A change of it, as people say it.
    fn change(self, has: u64, left: u64, experts: bool) -> String {
        match (self, left) {
            (Self::Attention, 0) => "no attention".to_owned(),
            (Self::Attention, _) => format!("{left} of {has} key/value heads"),
            (Self::Mlp, 0) if experts => "no experts".to_owned(),
            (Self::Mlp, 0) => "no MLP".to_owned(),
            (Self::Mlp, _) => format!("MLP of {left} in place of {has}"),
        }
    }
}

/// The model of a choice of blocks.
fn found(arch: &Architecture, layers: &[LayerKind], classes: &[Class], solution: &Solution, whole: Cost) -> Found {
    let mut left = layers.to_vec();
    let mut time = whole.time;
    let mut changes: BTreeMap<String, Change> = BTreeMap::new();
    for (class, pick) in classes.iter().zip(&solution.picks) {
        let block = class.blocks[*pick];
        let kind = &mut left[class.layer];
        let has = class.blocks[0].left;
        if block.left == has {
            continue;
        }
        let text = class.part.change(has, block.left, kind.experts);
        *kind = class.part.reduced(*kind, block.left);
        time = time - block.saved.time;
        let change = changes.entry(text.clone()).or_insert_with(|| Change {
            text,
            layers: 0,
            saved: Cost::default(),
            damage: 0.0,
        });
        change.layers += 1;
        change.saved.time += block.saved.time;
        change.saved.memory += block.saved.memory;
        change.saved.parameters += block.saved.parameters;
        change.damage += block.damage;
    }
    Found {
        architecture: arch.with_layers(&left),
        layers: left,
        damage: solution.damage,
        bound: solution.bound,
        summed: Some(time.max(Seconds::ZERO)),
        changes: changes.into_values().collect(),
    }
}
