//! What a head learns from: its own tables, the sister tables its teacher sees, and what they cover.

use crate::dataset::{Row, digest};
use crate::features::Machine;
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::regressor::artifact::{Coverage, DataSource, Waves};
use crate::train::teach::{Lesson, alignment};
use crate::units::Seconds;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of one GPU and stack.
pub struct TableRows<'a> {
    /// Where they were timed.
    pub gpu: &'a Gpu,
    /// All of one family and format.
    pub rows: Vec<&'a Row>,
}

impl<'a> TableRows<'a> {
    /// The additive launch term: a little under the fastest rows.
    fn launch(&self) -> Seconds {
        let mut times: Vec<f64> = self.rows.iter().map(|row| row.time.secs()).collect();
        times.sort_by(f64::total_cmp);
        Seconds::from_secs(0.95 * times[times.len() / 200])
    }

    /// The rows that `keep` lets through, with the GPU and launch term they are seen with.
    pub fn lesson(&self, keep: impl Fn(&Row) -> bool) -> Lesson<'a> {
        Lesson {
            machine: Machine::new(self.gpu, self.launch()),
            rows: self
                .rows
                .iter()
                .filter(|row| keep(row))
                .map(|row| (&row.op, row.time.secs()))
                .collect(),
        }
    }

    /// Where the rows are from, an entry a publisher.
    fn sources(&self) -> Vec<DataSource> {
        let mut origins: BTreeMap<(&str, &str), Vec<Row>> = BTreeMap::new();
        for row in &self.rows {
            let origin = (row.origin.source.as_str(), row.origin.licence.as_str());
            origins.entry(origin).or_default().push((*row).clone());
        }
        let describe = |((source, licence), rows): ((&str, &str), Vec<Row>)| DataSource {
            source: source.to_owned(),
            licence: licence.to_owned(),
            gpu: self.gpu.name.clone(),
            stack: rows[0].stack.to_string(),
            rows: rows.len(),
            sha256: digest(&rows),
        };
        origins.into_iter().map(describe).collect()
    }
}

/// What a head learns from.
pub struct Tables<'a> {
    /// The tables it answers for: one, or one a GPU for the model over all GPUs.
    pub own: Vec<TableRows<'a>>,
    /// Tables that only its teacher sees.
    pub sisters: Vec<TableRows<'a>>,
    /// What is known of the tiles of products beforehand.
    pub waves: Option<Waves>,
}

impl<'a> Tables<'a> {
    /// Every table, the head's own first.
    pub fn all(&self) -> impl Iterator<Item = &TableRows<'a>> {
        self.own.iter().chain(&self.sisters)
    }

    /// Rows of the head's own tables.
    pub fn own_rows(&self) -> impl Iterator<Item = &'a Row> {
        self.own.iter().flat_map(|table| table.rows.iter().copied())
    }

    /// The own rows that `keep` lets through.
    pub fn lessons(&self, keep: impl Fn(&Row) -> bool) -> Vec<Lesson<'a>> {
        self.own.iter().map(|table| table.lesson(&keep)).collect()
    }

    /// The launch term: of several tables the median.
    pub fn launch(&self) -> Seconds {
        let mut launches: Vec<f64> = self.own.iter().map(|table| table.launch().secs()).collect();
        launches.sort_by(f64::total_cmp);
        Seconds::from_secs(launches[launches.len() / 2])
    }
}

impl Tables<'_> {
    /// The region of shapes the own rows span, and the head sizes the sisters add.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage {
            alignment: 1,
            ..Coverage::default()
        };
        let mut widths = Vec::new();
        let mut see = |name: &str, size: u64| {
            let range = coverage
                .ranges
                .entry(name.to_owned())
                .or_insert([size, size]);
            *range = [range[0].min(size), range[1].max(size)];
        };
        for row in self.own_rows() {
            match row.op {
                Op::Gemm(op) => {
                    for (name, size) in [("m", op.m), ("n", op.n), ("k", op.k), ("batch", op.batch)]
                    {
                        see(name, size);
                    }
                    widths.extend([op.n, op.k]);
                    if !coverage.layouts.contains(&op.layout) {
                        coverage.layouts.push(op.layout);
                    }
                }
                Op::Attention(op) => {
                    for (name, size) in [
                        ("batch", op.batch),
                        ("heads", op.heads),
                        ("kv_heads", op.kv_heads),
                        ("group", op.heads / op.kv_heads),
                        ("seq_q", op.seq_q),
                        ("seq_kv", op.seq_kv),
                    ] {
                        see(name, size);
                    }
                    if !coverage.head_dims.contains(&op.head_dim) {
                        coverage.head_dims.push(op.head_dim);
                    }
                    if !coverage.causal.contains(&op.causal) {
                        coverage.causal.push(op.causal);
                    }
                    coverage.windowed |= op.window > 0;
                }
                Op::Memory(_) | Op::Collective(_) => {}
            }
        }
        coverage.head_dims.sort_unstable();
        let taught: BTreeSet<u64> = self
            .sisters
            .iter()
            .flat_map(|sister| &sister.rows)
            .filter_map(|row| match row.op {
                Op::Attention(op) if !coverage.head_dims.contains(&op.head_dim) => {
                    Some(op.head_dim)
                }
                _ => None,
            })
            .collect();
        coverage.taught_head_dims = taught.into_iter().collect();
        if !widths.is_empty() {
            coverage.alignment = alignment(widths.iter());
        }
        coverage
    }

    /// Where all rows are from.
    pub fn sources(&self) -> Vec<DataSource> {
        self.all().flat_map(TableRows::sources).collect()
    }
}
