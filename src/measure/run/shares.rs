//! The time that each set of a plan takes: none may starve the others because its cases are slow to set up.

use crate::dataset::Role;
use crate::measure::plan::{Planned, Set};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A set that has taken so many times its share of the time waits: its share is that of its cases in the plan.
const PATIENCE: f64 = 3.0;

/// Share of the budget that a set may take in any case, so that every set begins.
const BEGINNING: f64 = 0.01;

/// Time by set.
#[derive(Debug)]
pub struct Shares {
    sets: BTreeMap<Set, Taken>,
    all: Duration,
    beginning: Duration,
}

#[derive(Debug, Default)]
struct Taken {
    share: f64,
    took: Duration,
    cases: u32,
}

impl Shares {
    /// The shares of the sets in a plan's queue.
    pub fn new(queue: &VecDeque<(Planned, Role)>, budget: Duration) -> Self {
        let mut sets: BTreeMap<Set, Taken> = BTreeMap::new();
        for (planned, _) in queue {
            sets.entry(planned.set).or_default().share += 1.0 / queue.len() as f64;
        }
        Self {
            sets,
            all: Duration::ZERO,
            beginning: budget.mul_f64(BEGINNING),
        }
    }

    /// Counts a case.
    pub fn add(&mut self, set: Set, took: Duration) {
        let taken = self.sets.entry(set).or_default();
        taken.took += took;
        taken.cases += 1;
        self.all += took;
    }

    /// Cases that were counted, and the time of all of them.
    pub fn total(&self) -> (u32, Duration) {
        (self.sets.values().map(|taken| taken.cases).sum(), self.all)
    }

    /// Whether cases of this set wait for those of others. What was asked for during the run never does.
    pub fn must_wait(&self, set: Set) -> bool {
        let Some(taken) = self.sets.get(&set).filter(|_| set != Set::Active) else {
            return false;
        };
        let share = self.all.mul_f64((PATIENCE * taken.share).min(1.0));
        taken.took > share.max(self.beginning)
    }

    /// The mean time of a case in the set whose cases take the longest.
    pub fn slowest(&self) -> Duration {
        let means = self.sets.values().filter(|taken| taken.cases > 0);
        let means = means.map(|taken| taken.took / taken.cases);
        means.max().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::cold;
    use crate::ops::{Dtype, Gemm, Layout, Op};

    #[test]
    fn a_slow_set_waits_until_the_others_have_had_their_time() {
        let planned = |set, size| {
            let gemm = Gemm {
                m: size,
                n: 8,
                k: 8,
                batch: 1,
                layout: Layout::Tn,
                dtype: Dtype::Fp32,
            };
            let case = cold(Op::Gemm(gemm));
            (Planned { case, set }, Role::Plan)
        };
        let cases = (0..100).map(|index| match index % 10 {
            0 => planned(Set::Attention, index + 1),
            _ => planned(Set::Sobol, index + 1),
        });
        let mut shares = Shares::new(&cases.collect(), Duration::from_secs(100));
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
        // Whoever is asked for knows why.
        shares.add(Set::Active, Duration::from_secs(50));
        assert!(!shares.must_wait(Set::Active));
    }
}
