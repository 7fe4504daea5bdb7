//! Fair sharing of a run's time among the sets of its plan, so that a set whose cases are slow to
//! set up does not starve the others.

use super::queue::Queue;
use crate::measure::plan::Set;
use std::collections::BTreeMap;
use std::time::Duration;

/// A set waits once it has used this many times its share, which is that of its cases in the plan.
const MAX_OVERUSE: f64 = 3.0;

/// Share of the budget that every set may use.
const MIN_SHARE: f64 = 0.01;

/// Time used by each set.
#[derive(Debug)]
pub struct FairShare {
    sets: BTreeMap<Set, Usage>,
    total: Duration,
    minimum: Duration,
}

#[derive(Debug, Default)]
struct Usage {
    share: f64,
    time: Duration,
    cases: u32,
}

impl FairShare {
    /// The shares of the sets in a plan's queue.
    pub fn new(queue: &Queue, budget: Duration) -> Self {
        let all = queue.len() as f64;
        let usage = |size| Usage {
            share: size as f64 / all,
            ..Usage::default()
        };
        Self {
            sets: queue.sizes().map(|(set, size)| (set, usage(size))).collect(),
            total: Duration::ZERO,
            minimum: budget.mul_f64(MIN_SHARE),
        }
    }

    /// Counts a case.
    pub fn add(&mut self, set: Set, time: Duration) {
        let usage = self.sets.entry(set).or_default();
        usage.time += time;
        usage.cases += 1;
        self.total += time;
    }

    /// Number of counted cases, and their time.
    pub fn total(&self) -> (u32, Duration) {
        let cases = self.sets.values().map(|usage| usage.cases).sum();
        (cases, self.total)
    }

    /// Whether cases of this set wait for those of others.
    pub fn must_wait(&self, set: Set) -> bool {
        let Some(usage) = self.sets.get(&set) else {
            return false;
        };
        let share = self.total.mul_f64((MAX_OVERUSE * usage.share).min(1.0));
        usage.time > share.max(self.minimum)
    }

    /// Mean time of a case in the set whose cases take the longest.
    pub fn slowest(&self) -> Duration {
        let used = self.sets.values().filter(|usage| usage.cases > 0);
        let means = used.map(|usage| usage.time / usage.cases);
        means.max().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::Planned;
    use crate::ops::{Gemm, Op};

    #[test]
    fn a_slow_set_waits_until_the_others_have_had_their_time() {
        let planned = |set, size| {
            let op = Op::Gemm(Gemm::new(size, 8, 8));
            Planned { op, set }
        };
        let cases = (0..100).map(|index| match index % 10 {
            0 => planned(Set::Attention, index + 1),
            _ => planned(Set::Sobol, index + 1),
        });
        let mut shares = FairShare::new(&Queue::new(cases), Duration::from_secs(100));
        assert_eq!(shares.slowest(), Duration::ZERO);
        // The first case of a set never waits, and one that takes its share never does.
        assert!(!shares.must_wait(Set::Attention));
        shares.add(Set::Attention, Duration::from_secs(2));
        assert!(shares.must_wait(Set::Attention));
        shares.add(Set::Sobol, Duration::from_secs(4));
        assert!(shares.must_wait(Set::Attention));
        shares.add(Set::Sobol, Duration::from_secs(1));
        assert!(!shares.must_wait(Set::Attention) && !shares.must_wait(Set::Sobol));
        assert_eq!(shares.slowest(), Duration::from_millis(2500));
        assert_eq!(shares.total(), (3, Duration::from_secs(7)));
    }
}
