//! One item of each class within two budgets at the least damage: the multiple-choice knapsack problem, solved exactly.
//!
//! Partial choices are extended class by class. One that costs no less than another and does no less damage goes, and so does one
//! whose Lagrangian bound (multipliers of Everett 1963, dynamic programming with bounds of Dyer, Riha and Walker 1995) says that
//! its best completion is worse than what is looked for. What is looked for grows until a choice is found that does no more.

use std::cmp::Ordering;

/// The most partial choices that are kept, over all classes; beyond a class's share of them optimality is not proven.
const MOST_STATES: usize = 1_000_000;

/// The first share of the damage of all worst items that a choice may be above the bound, and what that grows by.
const SLACK: f64 = 1e-4;
const GROWTH: f64 = 4.0;

/// Steps of the search for each multiplier.
const STEPS: usize = 48;

/// What may be chosen of a class, or a sum of such. Costs are whole numbers, so that equal sums are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Item {
    pub costs: [f64; 2],
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
#[derive(Clone, Copy, Default)]
struct State {
    sum: Item,
    /// The state that it extends, and by which item.
    from: u32,
    pick: u32,
}

impl Item {
    /// Its damage and its costs at prices.
    fn priced(&self, prices: [f64; 2]) -> f64 {
        self.damage + self.costs[0] * prices[0] + self.costs[1] * prices[1]
    }
}

/// The choice within the budgets that does the least damage; `None` if there is none.
pub(super) fn solve(classes: &[Vec<Item>], room: [f64; 2]) -> Option<Solution> {
    let worst = |of: &dyn Fn(&Item) -> f64| -> f64 {
        let each = classes.iter().map(|class| class.iter().map(of).fold(0.0, f64::max));
        each.sum()
    };
    let damage = worst(&|item| item.damage);
    let most = [0, 1].map(|at| worst(&|item| item.costs[at]));
    // A budget that holds every item has no price.
    let room = [0, 1].map(|at| room[at].min(most[at]));
    let ends = [0, 1].map(|at| {
        if most[at] > room[at] {
            100.0 * damage / most[at]
        } else {
            0.0
        }
    });
    let bound = |prices| bound(classes, room, prices);
    let second = |first| peak(ends[1], |second| bound([first, second]));
    let first = peak(ends[0], |first| bound([first, second(first)]));
    let prices = [first, second(first)];
    let within = |limit| within(classes, room, prices, limit);
    let mut slack = SLACK;
    while slack < 2.0 * GROWTH {
        let limit = bound(prices) + slack * damage;
        // What was left out does more damage than the limit, so one above it may be beaten.
        let found = within(limit).and_then(|first| match first.damage <= limit {
            true => Some(first),
            false => within(first.damage),
        });
        if let Some(found) = found {
            return Some(Solution {
                bound: found.bound.max(bound(prices)),
                ..found
            });
        }
        slack *= GROWTH;
    }
    None
}

/// Where a concave function is highest between 0 and an end.
fn peak(end: f64, of: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, end);
    for _ in 0..if end > 0.0 { STEPS } else { 0 } {
        let third = (high - low) / 3.0;
        match of(low + third) < of(high - third) {
            true => low += third,
            false => high -= third,
        }
    }
    low
}

/// The damage that a choice from these classes within the budgets does at least.
fn bound(classes: &[Vec<Item>], room: [f64; 2], prices: [f64; 2]) -> f64 {
    let least = |class: &Vec<Item>| {
        class
            .iter()
            .map(|item| item.priced(prices))
            .fold(f64::INFINITY, f64::min)
    };
    let budgets = Item {
        costs: room,
        damage: 0.0,
    };
    classes.iter().map(least).sum::<f64>() - budgets.priced(prices)
}

/// The best of the choices that are not bound to do more damage than this; its own bound is 0 if more were left out.
fn within(classes: &[Vec<Item>], room: [f64; 2], prices: [f64; 2], limit: f64) -> Option<Solution> {
    let share = MOST_STATES / classes.len().max(1);
    let mut states = vec![State::default()];
    // The first of each class are what it extends.
    let mut origins: Vec<Vec<(u32, u32)>> = Vec::new();
    let mut is_whole = true;
    for (at, class) in classes.iter().enumerate() {
        let behind = bound(&classes[at + 1..], room, prices);
        let extended = states.iter().zip(0..).flat_map(|(State { sum, .. }, from)| {
            class.iter().zip(0..).map(move |(item, pick)| State {
                sum: Item {
                    costs: [sum.costs[0] + item.costs[0], sum.costs[1] + item.costs[1]],
                    damage: sum.damage + item.damage,
                },
                from,
                pick,
            })
        });
        let fits = |State { sum, .. }: &State| {
            sum.costs[0] <= room[0] && sum.costs[1] <= room[1] && sum.priced(prices) + behind <= limit
        };
        states = undominated(extended.filter(fits).collect());
        if states.len() > share {
            states.sort_by(|a, b| a.sum.priced(prices).total_cmp(&b.sum.priced(prices)));
            states.truncate(share);
            is_whole = false;
        }
        origins.push(states.iter().map(|state| (state.from, state.pick)).collect());
    }
    let (end, best) = (0..)
        .zip(&states)
        .min_by(|(_, a), (_, b)| a.sum.damage.total_cmp(&b.sum.damage))?;
    let damage = best.sum.damage;
    let mut at: u32 = end;
    let mut picks = vec![0; classes.len()];
    for (pick, stage) in picks.iter_mut().zip(&origins).rev() {
        let (from, picked) = stage[at as usize];
        (at, *pick) = (from, picked as usize);
    }
    let bound = if is_whole { damage } else { 0.0 };
    Some(Solution { picks, damage, bound })
}

/// The states than which none costs no more and does no more damage.
fn undominated(mut states: Vec<State>) -> Vec<State> {
    let key = |state: &State| (state.sum.costs, state.sum.damage);
    states.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal));
    // Second costs of states so far, rising, with damages that fall.
    let mut stairs: Vec<(f64, f64)> = Vec::new();
    states.retain(|State { sum, .. }| {
        let (cost, damage) = (sum.costs[1], sum.damage);
        let from = stairs.partition_point(|stair| stair.0 < cost);
        let is_beaten = |stair: Option<&(f64, f64)>| stair.is_some_and(|stair| stair.0 <= cost && stair.1 <= damage);
        if is_beaten(stairs.get(from)) || is_beaten(stairs[..from].last()) {
            return false;
        }
        let worse = stairs[from..].iter().take_while(|stair| stair.1 >= damage).count();
        stairs.splice(from..from + worse, [(cost, damage)]);
        true
    });
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The least damage, by looking at every choice.
    fn by_enumeration(classes: &[Vec<Item>], room: [f64; 2]) -> Option<f64> {
        let Some((class, rest)) = classes.split_first() else {
            return Some(0.0);
        };
        let each = class.iter().filter_map(|item| {
            let left = [room[0] - item.costs[0], room[1] - item.costs[1]];
            let fits = left.iter().all(|left| *left >= 0.0);
            Some(item.damage + by_enumeration(rest, left).filter(|_| fits)?)
        });
        each.min_by(f64::total_cmp)
    }

    #[test]
    fn random_problems_are_solved_as_by_looking_at_every_choice() {
        let mut random = Random::new(7, "knapsack");
        let mut solved = 0;
        for _ in 0..200 {
            let mut below = |most: usize| random.below(most) as f64;
            let classes: Vec<Vec<Item>> = (0..6)
                .map(|_| {
                    let items = (0..4).map(|_| Item {
                        costs: [below(50), below(50)],
                        damage: below(1000) / 100.0,
                    });
                    items.collect()
                })
                .collect();
            let room = [
                40.0 + below(160),
                if below(2) == 0.0 {
                    f64::INFINITY
                } else {
                    40.0 + below(160)
                },
            ];
            let found = solve(&classes, room);
            let wanted = by_enumeration(&classes, room);
            match (&found, wanted) {
                (Some(found), Some(wanted)) => {
                    assert!((found.damage - wanted).abs() < 1e-9, "{found:?} {wanted}");
                    assert!((found.bound - wanted).abs() < 1e-9, "{found:?}");
                    let picked = found.picks.iter().zip(&classes).map(|(pick, class)| class[*pick]);
                    for (cost, room) in room.into_iter().enumerate() {
                        assert!(picked.clone().map(|item| item.costs[cost]).sum::<f64>() <= room);
                    }
                    solved += 1;
                }
                _ => assert_eq!(found.is_none(), wanted.is_none()),
            }
        }
        assert!(solved > 100, "{solved}");
    }
}
