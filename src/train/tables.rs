//! What a sub-model learns from: its own tables, the auxiliary tables its teacher sees, and what they cover.

use crate::dataset::{Row, digest};
use crate::families::collective::START;
use crate::families::{self, Coverage, GpuRates};
use crate::gpu::Gpu;
use crate::ops::Op;
use crate::regressor::artifact::{DataSource, Waves};
use crate::train::Effort;
use crate::train::choices;
use crate::train::teacher::LabelledTable;
use crate::units::Seconds;
use std::collections::BTreeMap;

/// Rows of one GPU and stack.
pub struct TableRows<'a> {
    /// Where they were timed.
    pub gpu: &'a Gpu,
    /// All of one family and variant.
    pub rows: Vec<&'a Row>,
}

impl<'a> TableRows<'a> {
    /// The additive launch term: a little under the fastest rows; of collectives the same everywhere.
    fn launch(&self) -> Seconds {
        if let [
            Row {
                op: Op::Collective(_), ..
            },
            ..,
        ] = self.rows[..]
        {
            return START;
        }
        let mut times: Vec<f64> = self.rows.iter().map(|row| row.time.secs()).collect();
        times.sort_by(f64::total_cmp);
        Seconds::from_secs(0.95 * times[times.len() / 200])
    }

    /// The rows that `keep` lets through, with the GPU and launch term they are seen with.
    pub fn labelled(&self, keep: impl Fn(&Row) -> bool) -> LabelledTable<'a> {
        self.labelled_from(self.launch(), keep)
    }

    /// The same with the launch term of another table.
    pub fn labelled_from(&self, launch: Seconds, keep: impl Fn(&Row) -> bool) -> LabelledTable<'a> {
        LabelledTable {
            rates: GpuRates::new(self.gpu, launch),
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

/// What a sub-model learns from.
pub struct Tables<'a> {
    /// The tables it answers for: one, or one a GPU for the model over all GPUs.
    pub own: Vec<TableRows<'a>>,
    /// Tables that only its teacher sees.
    pub auxiliary: Vec<TableRows<'a>>,
    /// Shapes that the library of the own table was asked about.
    pub choices: Vec<&'a Row>,
    /// What is known of the tiles of GEMMs beforehand.
    pub waves: Option<Waves>,
    /// Whether the teacher knows what neighbouring pairs `(n, k)` of GEMMs take.
    pub kriged: bool,
}

impl<'a> Tables<'a> {
    /// Every table, the sub-model's own first.
    pub fn all(&self) -> impl Iterator<Item = &TableRows<'a>> {
        self.own.iter().chain(&self.auxiliary)
    }

    /// Rows of the sub-model's own tables.
    pub fn own_rows(&self) -> impl Iterator<Item = &'a Row> {
        self.own.iter().flat_map(|table| table.rows.iter().copied())
    }

    /// The own rows that `keep` lets through.
    pub fn labelled(&self, keep: impl Fn(&Row) -> bool) -> Vec<LabelledTable<'a>> {
        self.own.iter().map(|table| table.labelled(&keep)).collect()
    }

    /// As many of the shapes that the library was asked about as get pseudo-labels, with times by trees that see its kernels.
    pub fn labelled_choices(&self, keep: impl Fn(&Row) -> bool, effort: &Effort, seed: u64) -> Vec<(&'a Op, f64)> {
        let [own] = &self.own[..] else { return vec![] };
        let kept = |rows: &[&'a Row]| rows.iter().copied().filter(|row| keep(row)).collect::<Vec<_>>();
        let mut asked = kept(&self.choices);
        asked.truncate(effort.pseudo_labels);
        if asked.is_empty() {
            return vec![];
        }
        let rates = GpuRates::new(own.gpu, own.launch());
        choices::labels(&kept(&own.rows), &asked, &rates, effort.trees, seed)
    }

    /// The launch term: of several tables the median.
    pub fn launch(&self) -> Seconds {
        let mut launches: Vec<f64> = self.own.iter().map(|table| table.launch().secs()).collect();
        launches.sort_by(f64::total_cmp);
        Seconds::from_secs(launches[launches.len() / 2])
    }
}

impl Tables<'_> {
    /// The region of shapes that the own rows span, and what the auxiliary tables add.
    pub fn coverage(&self) -> Coverage {
        let auxiliary = self.auxiliary.iter().flat_map(|table| &table.rows);
        families::coverage(self.own_rows().map(|row| &row.op), auxiliary.map(|row| &row.op))
    }

    /// Where all rows are from.
    pub fn sources(&self) -> Vec<DataSource> {
        self.all().flat_map(TableRows::sources).collect()
    }
}
