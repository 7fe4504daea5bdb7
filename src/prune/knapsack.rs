//! One item of each class within two budgets at the least damage: the multiple-choice knapsack problem, solved exactly.
//!
//! Partial choices are extended class by class. One that costs no less than another and does no less damage goes, and so does one
//! whose Lagrangian bound (multipliers of Everett 1963, dynamic programming with bounds of Dyer, Riha and Walker 1995) says that
//! its best completion is worse than what is looked for. What is looked for grows until a choice is found that does no more.

/// Dimensions of a cost.
pub(super) const COSTS: usize = 2;

/// The most partial choices that are kept of a class; beyond them optimality is not proven.
const MOST_STATES: usize = 100_000;

/// The first share of the damage of all worst items that a choice may be above the bound, and what that grows by.
const SLACK: f64 = 1e-4;
const GROWTH: f64 = 4.0;

/// Steps of the search for each multiplier.
const STEPS: usize = 48;

/// What may be chosen of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub costs: [u64; COSTS],
    pub damage: f64,
}

/// The best choice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// The item of each class.
    pub picks: Vec<usize>,
    pub damage: f64,
    /// Less damage than this no choice does.
    pub bound: f64,
}

/// A choice for the first classes.
#[derive(Clone, Copy)]
struct State {
    costs: [u64; COSTS],
    damage: f64,
    /// The state that it extends, and by which item.
    from: (u32, u32),
}

/// The choice within the budgets that does the least damage; `None` if there is none.
pub(super) fn solve(classes: &[Vec<Item>], room: [u64; COSTS]) -> Option<Solution> {
    let of_all = |worst: fn(&Item) -> f64| -> f64 {
        let each = classes.iter().map(|class| class.iter().map(worst).fold(0.0, f64::max));
        each.sum()
    };
    let damage = of_all(|item| item.damage).max(f64::MIN_POSITIVE);
    // Of a budget that holds every item the multiplier is 0.
    let most = [of_all(|item| item.costs[0] as f64), of_all(|item| item.costs[1] as f64)];
    let highest = [0, 1].map(|at| match most[at] > room[at] as f64 {
        true => 100.0 * damage / most[at],
        false => 0.0,
    });
    let best = |first: f64| highest_of(highest[1], |second| bound(classes, room, [first, second]));
    let first = highest_of(highest[0], |first| best(first).1).0;
    let second = best(first).0;
    let least = bound(classes, room, [first, second]);
    let within = |limit| within(classes, room, [first, second], limit);
    let mut slack = SLACK;
    while slack < 2.0 * GROWTH {
        let limit = least + slack * damage;
        // What was left out does more damage than the limit, so one above it may be beaten.
        let found = within(limit).and_then(|first| match first.damage <= limit {
            true => Some(first),
            false => within(first.damage),
        });
        if let Some(found) = found {
            return Some(Solution {
                bound: found.bound.max(least),
                ..found
            });
        }
        slack *= GROWTH;
    }
    None
}

/// Where a concave function is highest between 0 and an end, and how high.
fn highest_of(end: f64, of: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut low, mut high) = (0.0, end);
    for _ in 0..if end > 0.0 { STEPS } else { 0 } {
        let third = (high - low) / 3.0;
        match of(low + third) < of(high - third) {
            true => low += third,
            false => high -= third,
        }
    }
    (low, of(low))
}

/// Damage and weighted costs of an item.
fn weighed(item: &Item, weights: [f64; COSTS]) -> f64 {
    item.damage + priced(item.costs, weights)
}

fn priced(costs: [u64; COSTS], weights: [f64; COSTS]) -> f64 {
    costs[0] as f64 * weights[0] + costs[1] as f64 * weights[1]
}

/// The damage that a choice from these classes within the budgets does at least.
fn bound(classes: &[Vec<Item>], room: [u64; COSTS], weights: [f64; COSTS]) -> f64 {
    let least = |class: &Vec<Item>| {
        class
            .iter()
            .map(|item| weighed(item, weights))
            .fold(f64::INFINITY, f64::min)
    };
    classes.iter().map(least).sum::<f64>() - priced(room, weights)
}

/// The best of the choices that are not bound to do more damage than this; its own bound is 0 if more were left out.
fn within(classes: &[Vec<Item>], room: [u64; COSTS], weights: [f64; COSTS], limit: f64) -> Option<Solution> {
    let mut layers: Vec<Vec<State>> = vec![vec![State {
        costs: [0; COSTS],
        damage: 0.0,
        from: (0, 0),
    }]];
    let mut is_whole = true;
    for (at, class) in classes.iter().enumerate() {
        let rest = &classes[at + 1..];
        let behind = bound(rest, room, weights);
        let least = [0, 1].map(|cost| {
            let each = rest.iter().map(|class| class.iter().map(|item| item.costs[cost]).min());
            each.map(Option::unwrap_or_default).sum::<u64>()
        });
        let mut states: Vec<State> = Vec::new();
        for (before, state) in layers[at].iter().enumerate() {
            for (pick, item) in class.iter().enumerate() {
                let costs = [0, 1].map(|cost| state.costs[cost].saturating_add(item.costs[cost]));
                let damage = state.damage + item.damage;
                let fits = (0..COSTS).all(|cost| costs[cost].saturating_add(least[cost]) <= room[cost]);
                if fits && damage + priced(costs, weights) + behind <= limit {
                    let from = (before as u32, pick as u32);
                    states.push(State { costs, damage, from });
                }
            }
        }
        let mut states = undominated(states);
        if states.len() > MOST_STATES {
            let total = |state: &State| state.damage + priced(state.costs, weights);
            states.sort_by(|a, b| total(a).total_cmp(&total(b)));
            states.truncate(MOST_STATES);
            is_whole = false;
        }
        layers.push(states);
    }
    let ends = layers.last()?.iter();
    let mut state = *ends.min_by(|a, b| a.damage.total_cmp(&b.damage))?;
    let damage = state.damage;
    let mut picks = vec![0; classes.len()];
    for at in (0..classes.len()).rev() {
        picks[at] = state.from.1 as usize;
        state = layers[at][state.from.0 as usize];
    }
    let bound = if is_whole { damage } else { 0.0 };
    Some(Solution { picks, damage, bound })
}

/// The states than which none costs no more and does no more damage.
fn undominated(mut states: Vec<State>) -> Vec<State> {
    states.sort_by(|a, b| a.costs.cmp(&b.costs).then(a.damage.total_cmp(&b.damage)));
    // Second costs of states so far, rising, with damages that fall.
    let mut stairs: Vec<(u64, f64)> = Vec::new();
    states.retain(|state| {
        let above = stairs.partition_point(|(cost, _)| *cost <= state.costs[1]);
        if above > 0 && stairs[above - 1].1 <= state.damage {
            return false;
        }
        let from = stairs.partition_point(|(cost, _)| *cost < state.costs[1]);
        let worse = stairs[from..]
            .iter()
            .take_while(|(_, damage)| *damage >= state.damage)
            .count();
        stairs.splice(from..from + worse, [(state.costs[1], state.damage)]);
        true
    });
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The least damage, by looking at every choice.
    fn by_enumeration(classes: &[Vec<Item>], room: [u64; COSTS]) -> Option<f64> {
        let Some((class, rest)) = classes.split_first() else {
            return Some(0.0);
        };
        let each = class.iter().filter_map(|item| {
            let left = [room[0].checked_sub(item.costs[0])?, room[1].checked_sub(item.costs[1])?];
            Some(item.damage + by_enumeration(rest, left)?)
        });
        each.min_by(f64::total_cmp)
    }

    #[test]
    fn random_problems_are_solved_as_by_looking_at_every_choice() {
        let mut random = Random::new(7, "knapsack");
        let mut solved = 0;
        for _ in 0..200 {
            let mut below = |most: usize| random.below(most) as u64;
            let classes: Vec<Vec<Item>> = (0..6)
                .map(|_| {
                    let items = (0..4).map(|_| Item {
                        costs: [below(50), below(50)],
                        damage: below(1000) as f64 / 100.0,
                    });
                    items.collect()
                })
                .collect();
            let room = [40 + below(160), if below(2) == 0 { u64::MAX } else { 40 + below(160) }];
            let found = solve(&classes, room);
            let wanted = by_enumeration(&classes, room);
            match (&found, wanted) {
                (Some(found), Some(wanted)) => {
                    assert!((found.damage - wanted).abs() < 1e-9, "{found:?} {wanted}");
                    assert!((found.bound - wanted).abs() < 1e-9, "{found:?}");
                    let picked = found.picks.iter().zip(&classes).map(|(pick, class)| class[*pick]);
                    for (cost, room) in room.into_iter().enumerate() {
                        assert!(picked.clone().map(|item| item.costs[cost]).sum::<u64>() <= room);
                    }
                    solved += 1;
                }
                _ => assert_eq!(found.is_none(), wanted.is_none()),
            }
        }
        assert!(solved > 100, "{solved}");
    }
}
