//! The cases that a run still has to time: one queue a set, and the order of the plan over them.

use crate::measure::plan::{Planned, Set};
use crate::ops::Op;
use std::collections::{BTreeMap, VecDeque};

/// Number of cases at the front of each queue that a device may set up ahead, and of which one that
/// is ready may overtake those that are not.
pub const LOOK_AHEAD: usize = 64;

/// A case with its place in the order of the plan.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: usize,
    planned: Planned,
}

/// The queues.
#[derive(Debug, Default)]
pub struct Queue {
    sets: BTreeMap<Set, VecDeque<Entry>>,
}

impl Queue {
    /// Queues cases in this order.
    pub fn new(cases: impl IntoIterator<Item = Planned>) -> Self {
        let mut queue = Self::default();
        for (place, planned) in cases.into_iter().enumerate() {
            let entries = queue.sets.entry(planned.set).or_default();
            entries.push_back(Entry { place, planned });
        }
        queue
    }

    /// Number of cases.
    pub fn len(&self) -> usize {
        self.sets.values().map(VecDeque::len).sum()
    }

    /// Whether no case is left.
    pub fn is_empty(&self) -> bool {
        self.sets.values().all(VecDeque::is_empty)
    }

    /// The sets with their numbers of cases.
    pub fn sizes(&self) -> impl Iterator<Item = (Set, usize)> {
        self.sets.iter().map(|(&set, entries)| (set, entries.len()))
    }

    /// The first cases in the order of the plan.
    pub fn first(&self, most: usize) -> Vec<Planned> {
        let mut found: Vec<&Entry> = self.sets.values().flatten().collect();
        found.sort_by_key(|entry| entry.place);
        found.iter().take(most).map(|entry| entry.planned).collect()
    }

    /// The cases at the front of all queues, which come next.
    pub fn upcoming(&self) -> impl Iterator<Item = &Op> {
        let fronts = self.sets.values();
        fronts.flat_map(|entries| entries.iter().take(LOOK_AHEAD).map(|at| &at.planned.op))
    }

    /// Takes the next case: one that is ready before one that is not, one of a set that need not
    /// wait before one of a set that must, then the first of the plan.
    pub fn next(&mut self, must_wait: impl Fn(Set) -> bool, is_ready: impl Fn(&Op) -> bool) -> Option<Planned> {
        let candidates = self.sets.iter().filter_map(|(&set, entries)| {
            let mut ahead = entries.iter().take(LOOK_AHEAD);
            let ready = ahead.position(|entry| is_ready(&entry.planned.op));
            let at = ready.unwrap_or(0);
            let place = entries.get(at)?.place;
            Some(((ready.is_none(), must_wait(set), place), set, at))
        });
        let (_, set, at) = candidates.min_by_key(|(order, _, _)| *order)?;
        Some(self.sets.get_mut(&set)?.remove(at)?.planned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Gemm, Op};

    fn planned(set: Set, size: u64) -> Planned {
        let op = Op::Gemm(Gemm::new(size, 8, 8));
        Planned { op, set }
    }

    fn sizes(mut queue: Queue, ready: impl Fn(u64) -> bool, waiting: &[Set]) -> Vec<u64> {
        let size = |op: &Op| match op {
            Op::Gemm(gemm) => gemm.m,
            _ => unreachable!(),
        };
        std::iter::from_fn(|| {
            let next = queue.next(|set| waiting.contains(&set), |op| ready(size(op)))?;
            Some(size(&next.op))
        })
        .collect()
    }

    /// Odd sizes in one set, even sizes in another.
    fn two_sets() -> Queue {
        Queue::new((1..=8).map(|size| match size % 2 {
            0 => planned(Set::Attention, size),
            _ => planned(Set::Sobol, size),
        }))
    }

    #[test]
    fn cases_come_in_the_order_of_the_plan_unless_they_wait_or_are_not_ready() {
        let all = |_| true;
        assert_eq!(sizes(two_sets(), all, &[]), [1, 2, 3, 4, 5, 6, 7, 8]);
        let waiting = [Set::Attention];
        assert_eq!(sizes(two_sets(), all, &waiting), [1, 3, 5, 7, 2, 4, 6, 8]);
        let ready = |size| size != 2 && size != 4;
        assert_eq!(sizes(two_sets(), ready, &[]), [1, 3, 5, 6, 7, 8, 2, 4]);
        // Where nothing is ready, the first of the plan is waited for.
        assert_eq!(sizes(two_sets(), |_| false, &[])[0], 1);
        let first = two_sets().first(3);
        assert_eq!(
            first,
            [1, 2, 3].map(|size| planned(if size == 2 { Set::Attention } else { Set::Sobol }, size))
        );
    }

    #[test]
    fn only_the_front_of_a_queue_is_looked_at() {
        let cases = (1..=2 * LOOK_AHEAD as u64).map(|size| planned(Set::Sobol, size));
        let queue = Queue::new(cases);
        assert_eq!(queue.upcoming().count(), LOOK_AHEAD);
        let last = 2 * LOOK_AHEAD as u64;
        assert_eq!(sizes(queue, |size| size == last, &[])[0], 1);
    }
}
