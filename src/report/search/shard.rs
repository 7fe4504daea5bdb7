//! The answer to `search --shard`: how much of the lattice was looked at.

use crate::report::{Report, grouped};
use crate::search::Seen;
use serde::Serialize;
use std::path::Path;

/// A shard that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct ShardReport {
    /// The file that was written.
    out: String,
    /// Number of the shard, from 1.
    shard: u64,
    /// How many there are.
    shards: u64,
    /// Shapes of the whole lattice.
    lattice_shapes: u64,
    /// Shapes of this shard that were predicted.
    evaluations: u64,
    /// Shapes of this shard that bounds or memory ruled out.
    refused: u64,
}

impl ShardReport {
    /// What was seen, written to `out`.
    pub fn new(seen: &Seen, out: &Path) -> Self {
        Self {
            out: out.display().to_string(),
            shard: seen.shard.index,
            shards: seen.shard.of,
            lattice_shapes: seen.lattice,
            evaluations: seen.evaluations(),
            refused: seen.refused(),
        }
    }
}

impl Report for ShardReport {
    fn page(&self) -> String {
        format!(
            "shard {} of {}: {} of the {} shapes of the lattice, of which {} fit bounds and memory\n\
             next: the same command with --merge and the files of all shards in place of --shard and --out\n",
            self.shard,
            self.shards,
            grouped(self.evaluations + self.refused),
            grouped(self.lattice_shapes),
            grouped(self.evaluations),
        )
    }
}
