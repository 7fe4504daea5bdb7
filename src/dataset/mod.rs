//! Timing tables: our Parquet schema, importers of public tables, physics alarms, splits.
//!
//! A [`Row`] is one operator timed on one GPU under one software stack. Rows come from our own
//! files ([`read`]) or from public tables ([`import()`]); a public row that is not kept is counted
//! in [`Skipped`] with the reason. `formats` alone knows the Parquet crate.

pub mod alarms;
pub mod choices;
mod clock;
mod column;
mod columns;
mod digest;
mod draft;
mod file;
#[cfg_attr(not(feature = "dataset"), path = "formats/absent.rs")]
mod formats;
mod formula;
mod import;
pub mod line;
mod measured;
pub mod runs;
mod schema;
mod select;
mod split;
pub mod steps;
pub mod trace;

pub use digest::digest;
pub use file::{check_target, described_gpus, property, read, read_known, read_many, write, write_with};
pub use import::{Filter, Source, Stated, import};
pub use measured::{Cache, Measured, Role, SLOW_SUMS, Stop};
pub use schema::{SCHEMA, columns_markdown};
pub use select::{
    AnchorChange, Drift, OWN_KERNELS, RESERVED, RunToRun, anchor_change, drift, is_own_kernel, is_reserved, is_timing,
    run_to_run, timings,
};
pub use split::{HeldOut, Key, draw, is_held_out, key};

use crate::ops::Op;
use crate::units::{Hertz, Seconds};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One operator timed on one GPU under one software stack.
///
/// Texts are shared between rows: a table has millions of rows and a handful of stacks.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What ran.
    pub op: Op,
    /// Our name of the GPU, as in `data/gpus`.
    pub gpu: Arc<str>,
    /// The software that ran it, with its version (`trtllm 1.3.0rc20`).
    pub stack: Arc<str>,
    /// The median, or the statistic that the source keeps.
    pub time: Seconds,
    /// The time that 10 % of the repetitions stay under.
    pub p10: Option<Seconds>,
    /// The time that 90 % of the repetitions stay under.
    pub p90: Option<Seconds>,
    /// How many repetitions the statistic is taken over.
    pub samples: Option<u32>,
    /// SM clock while it ran.
    pub clock: Option<Hertz>,
    /// Rows that share a group are held out together, whatever their shapes; a transformer's
    /// hidden size, where a row was measured as part of one.
    pub group: Option<u64>,
    /// Where the row is from.
    pub origin: Arc<Origin>,
    /// How it was measured, for rows of our own.
    pub measured: Option<Box<Measured>>,
}

impl Row {
    /// A time of which nothing else is known.
    pub fn new(op: Op, gpu: impl Into<Arc<str>>, stack: impl Into<Arc<str>>, time: Seconds) -> Self {
        Self {
            op,
            gpu: gpu.into(),
            stack: stack.into(),
            time,
            p10: None,
            p90: None,
            samples: None,
            clock: None,
            group: None,
            origin: Arc::default(),
            measured: None,
        }
    }
}

/// Where rows are from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Repository and commit (`ai-dynamo/aiconfigurator@095f58a`), or the tool that measured.
    pub source: String,
    /// SPDX name of the licence of the source.
    pub licence: String,
    /// Kernel library or versions below the stack (`vllm_flash_attn_fa3`), where known.
    pub libraries: Option<String>,
}

/// GPU name of the rows that the scripted device makes up for tests; no model is trained on them.
pub const SCRIPTED: &str = "scripted";

/// The algorithm that a library chose; `None` if it does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The name of the kernel, or the library's number of the algorithm.
    pub name: Option<String>,
    /// Rows and columns of the output that one block computes.
    pub tile: Option<(u32, u32)>,
    /// Stages of the pipeline through shared memory.
    pub stages: Option<u32>,
    /// Parts that the reduction is split into.
    pub split_k: Option<u32>,
    /// Blocks in a cluster, along rows and columns.
    pub cluster: Option<(u32, u32)>,
    /// Rounds of blocks over all processors, as the library counts them.
    pub waves: Option<f64>,
    /// Scratch memory that it asks for.
    pub workspace_bytes: Option<u64>,
}

/// Rows with an account of the rows that were left out.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The rows that were kept.
    pub rows: Vec<Row>,
    /// The rows that were not, by reason.
    pub skipped: Skipped,
}

/// How many rows were left out, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<String, LeftOut>);

/// Rows that were left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    rows: u64,
    /// The file and row of the first of them, where it is known.
    first: Option<String>,
}

impl Skipped {
    /// Counts `rows` more rows under this reason.
    pub fn add(&mut self, reason: &str, rows: u64) {
        self.add_at(reason, rows, || None);
    }

    /// The same, the first of which `place` names.
    pub fn add_at(&mut self, reason: &str, rows: u64, place: impl FnOnce() -> Option<String>) {
        match self.0.get_mut(reason) {
            Some(known) => known.rows += rows,
            None if rows > 0 => {
                let first = place();
                self.0.insert(reason.to_owned(), LeftOut { rows, first });
            }
            None => {}
        }
    }

    /// Adds the counts of another table.
    pub fn merge(&mut self, other: &Self) {
        for (reason, left_out) in &other.0 {
            self.add_at(reason, left_out.rows, || left_out.first.clone());
        }
    }

    /// All rows left out.
    pub fn total(&self) -> u64 {
        self.0.values().map(|left_out| left_out.rows).sum()
    }

    /// Reasons in alphabetical order, each with its number of rows.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let reasons = self.0.iter();
        reasons.map(|(reason, left_out)| (reason.as_str(), left_out.rows))
    }

    /// The file and row of the first row left out for this reason, where it is known.
    pub fn first(&self, reason: &str) -> Option<&str> {
        self.0.get(reason)?.first.as_deref()
    }
}

/// One line per reason, the number of rows first.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (reason, rows) in self.iter() {
            writeln!(f, "{rows:>9}  {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
