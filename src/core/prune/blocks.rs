//! What each layer keeps of its attention and of its MLP.

use super::knapsack::{Item, solve};
use super::{Change, Cost, Costs, Found, Limits, Part, Query, Score, TILE, damage};
use crate::arch::{Architecture, LayerKind, attention_weights, layers_json};
use crate::error::{Error, Result};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Eighths of its width that an MLP may keep.
const EIGHTHS: [u64; 6] = [7, 6, 5, 4, 2, 1];

/// Widths are among those that Nemotron-NAS can have.
const LEAST_WIDTH: u64 = 256;

/// Of equal layers those change first that are nearest to this share of the depth, where Nemotron-51B and 49B lost most; by how
/// little it is preferred.
const FIRST_DEPTH: f64 = 0.6;
const PREFERENCE: f64 = 1e-6;

/// Without scores parts go whole no farther from it than this, in half of the layers: that much attention Llama 2 70B could lose
/// (arXiv 2406.15786), Nemotron-51B and 49B lost that of 26 and 31 layers of 80.
const WHOLE_DEPTH: f64 = 0.25;

/// How often blocks are chosen again, for a sum that is the predicted step of what they make.
const ROUNDS: usize = 8;

/// The highest score, of which sums are finite.
const MOST_SCORE: f64 = 1e12;

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

/// What is saved, as the solver counts it.
fn counted(cost: Cost) -> [f64; 2] {
    [(cost.time.secs() * PICOSECONDS).round(), cost.memory.bytes().round()]
}

pub(super) fn prune(query: &Query<'_>, costs: &mut Costs<'_>, whole: Cost, limits: Limits) -> Result<Option<Found>> {
    let layers = query.architecture.each_layer().ok_or_else(|| {
        let allowed =
            "a model whose layers are all attention, seen whole or through one window, and then an MLP or experts";
        Error::field("search", "from", &query.architecture.name, allowed)
    })?;
    let classes = classes(query, costs, whole, &layers)?;
    // A block costs what it saves less than that which saves most.
    let mut most = [0.0; 2];
    let mut items = Vec::new();
    for class in &classes {
        let saved: Vec<_> = class.blocks.iter().map(|block| counted(block.saved)).collect();
        let best = [0, 1].map(|at| saved.iter().map(|saved| saved[at]).fold(0.0, f64::max));
        most = [most[0] + best[0], most[1] + best[1]];
        let items_of = class.blocks.iter().zip(saved).map(|(block, saved)| Item {
            costs: [best[0] - saved[0], best[1] - saved[1]],
            damage: block.damage,
        });
        items.push(items_of.collect::<Vec<_>>());
    }
    let before = counted(whole);
    let wanted = counted(limits.0);
    let mut budgets = wanted;
    // What the sum of blocks allows; later rounds have other budgets.
    let (mut bound, mut failed) = (None, None);
    let mut best: Option<Found> = None;
    let mut try_picks = |picks: &[usize]| -> Result<Cost> {
        let found = found(query, &layers, &classes, picks, whole);
        let cost = costs.of_candidate(&found.architecture)?;
        if limits.are_met(cost) && best.as_ref().is_none_or(|best| found.damage < best.damage) {
            best = Some(found);
        }
        Ok(cost)
    };
    for measure in [0, 1] {
        let least = |items: &Vec<Item>| {
            (0..items.len()).min_by(|a, b| items[*a].costs[measure].total_cmp(&items[*b].costs[measure]))
        };
        // What cannot run is no answer.
        let _ = try_picks(&items.iter().filter_map(least).collect::<Vec<_>>());
    }
    for round in 0..ROUNDS {
        let room = [0, 1].map(|at| most[at] - before[at] + budgets[at]);
        let Some(solution) = solve(&items, room) else { break };
        bound.get_or_insert(solution.bound);
        let cost = match try_picks(&solution.picks) {
            Ok(cost) => cost,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        if limits.are_met(cost) && round >= ROUNDS / 2 {
            break;
        }
        // By what the step is above its target.
        let above = counted(cost);
        budgets = [0, 1].map(|at| budgets[at] - (above[at] - wanted[at]));
    }
    match (best, failed) {
        (None, Some(error)) => Err(error),
        (best, _) => Ok(best.map(|found| Found {
            bound: bound.unwrap_or(0.0).min(found.damage),
            ..found
        })),
    }
}

/// Every part of every layer, with what may be left of it.
fn classes(query: &Query<'_>, costs: &mut Costs<'_>, whole: Cost, layers: &[LayerKind]) -> Result<Vec<Class>> {
    let mut scores: BTreeMap<(usize, Part), BTreeMap<u64, f64>> = BTreeMap::new();
    for score in query.scores {
        let layer = check(score, layers, query.architecture)?;
        match scores.entry((layer, score.part)).or_default().entry(score.choice) {
            Entry::Vacant(free) => free.insert(score.score),
            Entry::Occupied(_) => {
                let allowed = format!("one score for this choice of {} in layer {layer}", score.part);
                return Err(Error::field("search", "scores.choice", score.choice, &allowed));
            }
        };
    }
    let mut known: HashMap<[LayerKind; 2], Result<Cost>> = HashMap::new();
    let mut classes = Vec::new();
    for (layer, kind) in layers.iter().enumerate() {
        let depth = (layer as f64 + 0.5) / layers.len() as f64;
        let away = (depth - FIRST_DEPTH).abs();
        let preference = 1.0 + PREFERENCE * away;
        for part in Part::ALL {
            let has = part.size(kind);
            let scored = scores.get(&(layer, part)).into_iter().flatten();
            let scored = scored.map(|(choice, score)| (*choice, Some(*score)));
            let usual = part.smaller(kind, query).into_iter();
            let usual = usual
                .filter(|left| *left > 0 || away <= WHOLE_DEPTH)
                .map(|left| (left, None));
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
                if let Some(positions) = query.positions.filter(|_| score.is_some()) {
                    layers_json(query.architecture, &[to], positions)?;
                }
                let change = [*kind, to];
                let saved = known
                    .entry(change)
                    .or_insert_with(|| saved(query, costs, whole, layers, change));
                let saved = match saved {
                    Ok(saved) => *saved,
                    Err(_) if score.is_none() => continue,
                    Err(error) => {
                        let allowed = format!("what can run in layer {layer}: {error}");
                        return Err(Error::field("search", "scores.choice", left, &allowed));
                    }
                };
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
    query: &Query<'_>,
    costs: &mut Costs<'_>,
    whole: Cost,
    layers: &[LayerKind],
    [from, to]: [LayerKind; 2],
) -> Result<Cost> {
    let mut changed = layers.to_vec();
    let mut count = 0;
    for layer in changed.iter_mut().filter(|layer| **layer == from).step_by(2) {
        *layer = to;
        count += 1;
    }
    let cost = costs.of(&query.architecture.with_layers(&changed))?;
    let each = f64::from(count).recip();
    Ok(Cost::default().plus(each, whole).plus(-each, cost))
}

/// The layer of a score that says what a block can be.
fn check(score: &Score, layers: &[LayerKind], arch: &Architecture) -> Result<usize> {
    let refuse = |field, value: &dyn std::fmt::Display, allowed: String| {
        Err(Error::field("search", &format!("scores.{field}"), value, &allowed))
    };
    let layer = usize::try_from(score.layer).unwrap_or(usize::MAX);
    let Some(kind) = layers.get(layer) else {
        return refuse("layer", &score.layer, format!("0 to {}", layers.len() - 1));
    };
    if !(0.0..=MOST_SCORE).contains(&score.score) {
        return refuse("score", &score.score, "a number from 0 to 1e12".to_owned());
    }
    let has = score.part.size(kind);
    let can_be = match score.part {
        _ if score.choice == 0 || score.choice == has => true,
        Part::Attention => arch.mla.is_none() && score.choice < has && kind.heads.is_multiple_of(score.choice),
        Part::Mlp => score.choice < has && !kind.experts,
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
fn found(query: &Query<'_>, layers: &[LayerKind], classes: &[Class], picks: &[usize], whole: Cost) -> Found {
    let mut left = layers.to_vec();
    let (mut sum, mut damage) = (whole, 0.0);
    let mut changes: BTreeMap<String, Change> = BTreeMap::new();
    for (class, pick) in classes.iter().zip(picks) {
        let (block, has) = (class.blocks[*pick], class.blocks[0].left);
        damage += block.damage;
        if block.left == has {
            continue;
        }
        let kind = &mut left[class.layer];
        let text = class.part.change(has, block.left, kind.experts);
        *kind = class.part.reduced(*kind, block.left);
        sum = sum.plus(-1.0, block.saved);
        let change = changes.entry(text.clone()).or_default();
        *change = Change {
            text,
            layers: change.layers + 1,
            saved: change.saved.plus(1.0, block.saved),
            damage: change.damage + block.damage,
        };
    }
    Found {
        architecture: query.architecture.with_layers(&left),
        layers: left,
        damage,
        bound: damage,
        summed: Some(sum.time),
        changes: changes.into_values().collect(),
    }
}
