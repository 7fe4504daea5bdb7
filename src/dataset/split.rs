//! Holding out whole keys, never single rows, so that a test asks for shapes that were not seen.
//!
//! Timings of one `(n, k)` at neighbouring `m` are nearly the same number: a split by row would
//! test memory, not prediction. The side of a key depends on nothing but the key and the seed:
//! not on the order of the rows, on other rows, on the GPU, the stack or the platform.

use super::Row;
use crate::families;
use crate::ops::Op;
use crate::random::{fnv1a, scramble};
use std::collections::{BTreeMap, BTreeSet};

/// What is held out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// All rows of one [`Row::group`].
    Group(u64),
    /// All operators of a family with these sizes, as the family says: a number of the family first.
    Sizes([u64; 4]),
}

/// The key that a row is held out by.
pub fn key(row: &Row) -> Key {
    match row.group {
        Some(group) => Key::Group(group),
        None => Key::Sizes(families::split_key(&row.op)),
    }
}

/// Whether this key is among the `fraction` (0 to 1) of keys that a test keeps for itself.
pub fn is_held_out(key: Key, fraction: f64, seed: u64) -> bool {
    // The upper 53 bits are a fraction that a double holds exactly.
    let uniform = (hash(key, seed) >> 11) as f64 / (1u64 << 53) as f64;
    uniform < fraction
}

/// Below so many keys a share of them says little: every key is held out once.
const FEW_KEYS: usize = 20;

/// Fits that hold out few keys, each its part of them.
const FOLDS: usize = 4;

/// The keys that the held-out fits of a sub-model do not see.
#[derive(Clone, Debug)]
pub struct HeldOut {
    /// A fit of a fraction has none.
    folds: BTreeMap<Key, usize>,
    fraction: f64,
    seed: u64,
}

impl HeldOut {
    /// This fraction of the keys by one fit, or each of few keys by one of several.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>, fraction: f64, seed: u64) -> Self {
        let keys: BTreeSet<Key> = rows.into_iter().map(key).collect();
        let mut keys: Vec<Key> = keys.into_iter().collect();
        let few = match keys.first() {
            // Of twenty message sizes a share would be two, of forty optimizer steps five.
            Some(Key::Sizes([families::COLLECTIVE_KEY, ..] | [families::MEMORY_KEY, 1, ..])) => usize::MAX,
            _ => FEW_KEYS,
        };
        if !(FOLDS..few).contains(&keys.len()) {
            keys.clear();
        }
        keys.sort_by_key(|&key| hash(key, seed));
        let numbered = keys.into_iter().enumerate();
        Self {
            folds: numbered.map(|(place, key)| (key, place % FOLDS)).collect(),
            fraction,
            seed,
        }
    }

    /// How many fits hold keys out.
    pub fn fits(&self) -> usize {
        if self.folds.is_empty() { 1 } else { FOLDS }
    }

    /// The share of the keys that a fit does not see.
    pub fn fraction(&self) -> f64 {
        match self.fits() {
            1 => self.fraction,
            fits => 1.0 / fits as f64,
        }
    }

    /// Whether the fit of this number does not see the row.
    pub fn holds(&self, row: &Row, fit: usize) -> bool {
        let key = key(row);
        match self.folds.get(&key) {
            Some(&fold) => fold == fit,
            None => self.folds.is_empty() && is_held_out(key, self.fraction, self.seed),
        }
    }
}

/// A number drawn for an operator by its hash: which rows a sample by it holds depends on no other row.
pub fn draw(op: &Op) -> u64 {
    scramble(fnv1a(op.to_string().as_bytes()))
}

/// Absorbs the words of a key one by one, scrambling after each.
fn hash(key: Key, seed: u64) -> u64 {
    let words = match key {
        Key::Group(group) => [1, group, 0, 0],
        Key::Sizes(words) => words,
    };
    words.iter().fold(scramble(seed), |state, &word| scramble(state ^ word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::gemm_row;
    use crate::ops::{Collective, CollectiveKind, Dtype, Memory, MemoryKind, Op, Pass};
    use proptest::prelude::*;

    #[test]
    fn few_keys_are_each_held_out_by_one_fit() {
        let few: Vec<Row> = (1..7).map(|n| gemm_row(8, 64 * n, 64)).collect();
        let held_out = HeldOut::of(&few, 0.1, 0);
        assert_eq!((held_out.fits(), held_out.fraction()), (4, 0.25));
        for row in &few {
            let fits = (0..4).filter(|&fit| held_out.holds(row, fit)).count();
            assert_eq!(fits, 1);
        }
        let many: Vec<Row> = (1..70).map(|n| gemm_row(8, 64 * n, 64)).collect();
        let held_out = HeldOut::of(&many, 0.1, 0);
        assert_eq!((held_out.fits(), held_out.fraction()), (1, 0.1));
        for row in &many {
            assert_eq!(held_out.holds(row, 0), is_held_out(key(row), 0.1, 0));
        }
    }

    #[test]
    fn every_message_size_and_optimizer_step_is_held_out_once() {
        let reduce = |size: u64| {
            let reduce = Collective::new(CollectiveKind::AllReduce, 1 << size, 8);
            Op::Collective(reduce)
        };
        let update = |size: u64| {
            Op::Memory(Memory {
                kind: MemoryKind::Adam,
                rows: 1 << size,
                cols: 1,
                pass: Pass::Forward,
                dtype: Dtype::Fp32,
            })
        };
        for op in [&reduce as &dyn Fn(u64) -> Op, &update] {
            let row = |size| Row {
                op: op(size),
                ..gemm_row(8, 64, 64)
            };
            let rows: Vec<Row> = (0..50).map(row).collect();
            let held_out = HeldOut::of(&rows, 0.1, 0);
            assert_eq!(held_out.fits(), 4);
            assert!((0..4).all(|fit| rows.iter().any(|row| held_out.holds(row, fit))));
        }
    }

    proptest! {
        #[test]
        fn the_fraction_is_roughly_met(fraction in 0.05f64..0.95, seed: u64) {
            let keys = (0..4000).map(|i| Key::Sizes([2, i / 60 * 128, i % 60 * 128, 0]));
            let held_out = keys.filter(|&key| is_held_out(key, fraction, seed)).count();
            // Five standard deviations of 4000 coin flips.
            prop_assert!((held_out as f64 / 4000.0 - fraction).abs() < 0.04);
        }
    }

    #[test]
    fn keys_never_change_sides() {
        // Pinned: a change here would move shapes between the sides of published error tables.
        let pinned = hash(key(&gemm_row(1, 4096, 12288)), 0);
        assert_eq!(pinned, 1_885_905_272_494_425_321);
        assert_eq!(draw(&gemm_row(1, 4096, 12288).op), 8_631_955_110_715_456_559);
    }
}
