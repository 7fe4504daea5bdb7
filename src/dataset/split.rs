//! Holding out whole keys, never single rows, so that a test asks for shapes that were not seen.
//!
//! Timings of one `(n, k)` at neighbouring `m` are nearly the same number: a split by row would
//! test memory, not prediction. The side of a key depends on nothing but the key and the seed:
//! not on the order of the rows, on other rows, on the GPU, the stack or the platform.

use super::Row;
use crate::op::Op;

/// What is held out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Key {
    /// All rows of one [`Row::group`].
    Group(u64),
    /// All products with these weights, whatever `m`.
    Product { n: u64, k: u64 },
    /// All attention with these heads, whatever batch and lengths.
    Heads {
        heads: u64,
        kv_heads: u64,
        head_dim: u64,
    },
    /// All memory-bound kernels over this width.
    Width(u64),
    /// All collectives of this size in bytes.
    Message(u64),
}

/// The key that a row is held out by.
pub fn key(row: &Row) -> Key {
    if let Some(group) = row.group {
        return Key::Group(group);
    }
    match row.op {
        Op::Gemm(op) => Key::Product { n: op.n, k: op.k },
        Op::Attention(op) => Key::Heads {
            heads: op.heads,
            kv_heads: op.kv_heads,
            head_dim: op.head_dim,
        },
        Op::Memory(op) => Key::Width(op.cols),
        Op::Collective(op) => Key::Message(op.bytes),
    }
}

/// Whether this key is among the `fraction` (0 to 1) of keys that a test keeps for itself.
pub fn is_held_out(key: Key, fraction: f64, seed: u64) -> bool {
    // The upper 53 bits are a fraction that a double holds exactly.
    let uniform = (hash(key, seed) >> 11) as f64 / (1u64 << 53) as f64;
    uniform < fraction
}

/// Splits rows into those to train on and those to test with, by whole key.
pub fn split(rows: &[Row], fraction: f64, seed: u64) -> (Vec<&Row>, Vec<&Row>) {
    rows.iter()
        .partition(|row| !is_held_out(key(row), fraction, seed))
}

/// Which of `folds` parts this key belongs to, for cross-validation.
pub fn fold(key: Key, folds: usize, seed: u64) -> usize {
    (hash(key, seed) % folds.max(1) as u64) as usize
}

/// Absorbs the words of a key one by one, scrambling after each.
fn hash(key: Key, seed: u64) -> u64 {
    let words = match key {
        Key::Group(group) => [1, group, 0, 0],
        Key::Product { n, k } => [2, n, k, 0],
        Key::Heads {
            heads,
            kv_heads,
            head_dim,
        } => [3, heads, kv_heads, head_dim],
        Key::Width(cols) => [4, cols, 0, 0],
        Key::Message(bytes) => [5, bytes, 0, 0],
    };
    words
        .iter()
        .fold(scramble(seed), |state, &word| scramble(state ^ word))
}

/// One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): wrapping 64-bit integers only,
/// so every platform agrees.
fn scramble(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
