//! Which algorithm a library puts first for a GEMM, without a time: a table of its own.

use super::Kernel;
use super::column::{Cell, Kind};
use super::columns::Parquet;
use super::columns::write::{self, Field, Values};
use super::file::check_target;
use crate::error::{Error, Result, write_atomically};
use crate::ops::{Dtype, Gemm, Layout};
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The answer of a library for one GEMM.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The GEMM.
    pub gemm: Gemm,
    /// Its first algorithm.
    pub kernel: Kernel,
}

/// What all answers of a table share; tables with equal values but for `asked` may be continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Our name of the GPU.
    pub gpu: String,
    /// Libraries with their versions.
    pub stack: String,
    /// Versions below them.
    pub libraries: String,
    /// Seed of the shapes.
    pub seed: u64,
    /// Shapes that the library was asked about, those without an algorithm included.
    pub asked: u64,
}

/// The key of [`Asked`] in the metadata of the file.
const ABOUT: &str = "shapewise.choices";

/// A column: name, type, and what an answer holds.
type Column = (&'static str, Kind, fn(&Choice) -> Option<Cell<'_>>);

const COLUMNS: [Column; 13] = [
    ("dtype", Kind::Text, |at| Some(Cell::Text(at.gemm.dtype.name()))),
    ("layout", Kind::Text, |at| Some(Cell::Text(at.gemm.layout.name()))),
    ("m", Kind::Whole, |at| Some(Cell::Whole(at.gemm.m as i64))),
    ("n", Kind::Whole, |at| Some(Cell::Whole(at.gemm.n as i64))),
    ("k", Kind::Whole, |at| Some(Cell::Whole(at.gemm.k as i64))),
    ("kernel", Kind::Text, |at| at.kernel.name.as_deref().map(Cell::Text)),
    ("tile_rows", Kind::Whole, |at| whole(at.kernel.tile?.0)),
    ("tile_cols", Kind::Whole, |at| whole(at.kernel.tile?.1)),
    ("stages", Kind::Whole, |at| whole(at.kernel.stages?)),
    ("split_k", Kind::Whole, |at| whole(at.kernel.split_k?)),
    ("cluster_rows", Kind::Whole, |at| whole(at.kernel.cluster?.0)),
    ("cluster_cols", Kind::Whole, |at| whole(at.kernel.cluster?.1)),
    ("workspace_bytes", Kind::Whole, |at| {
        Some(Cell::Whole(at.kernel.workspace_bytes? as i64))
    }),
];

/// Columns that no answer leaves out.
const ALWAYS: usize = 5;

fn whole<'a>(value: u32) -> Option<Cell<'a>> {
    Some(Cell::Whole(value.into()))
}

/// Writes answers to a file, replacing it; the folder must exist.
pub fn write_choices(path: &Path, choices: &[Choice], asked: &Asked) -> Result<()> {
    check_target(path)?;
    let field = |(place, (name, kind, _)): (usize, Column)| Field {
        name,
        kind,
        may_be_null: place >= ALWAYS,
    };
    let fields: Vec<Field<'_>> = COLUMNS.into_iter().enumerate().map(field).collect();
    let about = serde_json::to_string(asked).expect("only plain fields");
    let properties = vec![KeyValue::new(ABOUT.to_owned(), about)];
    let content = write::encode(&fields, properties, choices.len(), |place, rows| {
        let (_, kind, get) = COLUMNS[place];
        let cells = choices[rows].iter().map(get);
        match kind {
            Kind::Text => Values::Texts(cells.map(|cell| cell?.text()).collect()),
            _ => Values::Wholes(cells.map(|cell| cell?.whole()).collect()),
        }
    })
    .map_err(|error| Error::bad_input(format!("{}: cannot encode: {error}", path.display())))?;
    write_atomically(path, &content)
}

/// Reads a table of [`write_choices`].
pub fn read_choices(path: &Path) -> Result<(Asked, Vec<Choice>)> {
    let file = Parquet::open(path)?;
    let about = file.property(ABOUT).and_then(|text| serde_json::from_str(text).ok());
    let about: Asked = about.ok_or_else(|| {
        let allowed = "a file of `shapewise measure --choices`";
        Error::field(file.place(), ABOUT, "missing or not readable", allowed)
    })?;
    let mut choices = Vec::new();
    for batch in file.batches(&COLUMNS.map(|(name, ..)| name), None)? {
        let batch = batch?;
        let (dtypes, layouts, kernels) = (batch.texts("dtype")?, batch.texts("layout")?, batch.texts("kernel")?);
        let whole = |name: &str| batch.counts(name);
        let sizes = [whole("m")?, whole("n")?, whole("k")?];
        let tile = [whole("tile_rows")?, whole("tile_cols")?];
        let cluster = [whole("cluster_rows")?, whole("cluster_cols")?];
        let (stages, splits, workspace) = (whole("stages")?, whole("split_k")?, whole("workspace_bytes")?);
        for row in 0..batch.len() {
            let refuse = |column: &str, allowed: &str| {
                Error::field(batch.position(row), column, "missing or another value", allowed)
            };
            let small = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
            let pair = |of: &[super::columns::Counts<'_>; 2]| Some((small(of[0].get(row))?, small(of[1].get(row))?));
            let dtype = dtypes.get(row).and_then(Dtype::parse);
            let layout = layouts.get(row).and_then(Layout::parse);
            let [m, n, k] = [0, 1, 2].map(|at: usize| {
                let size = sizes[at].get(row).unwrap_or(0);
                u64::try_from(size).unwrap_or(0)
            });
            if m.min(n).min(k) == 0 {
                return Err(refuse("m", "whole numbers of 1 or more in m, n and k"));
            }
            choices.push(Choice {
                gemm: Gemm {
                    dtype: dtype.ok_or_else(|| refuse("dtype", &Dtype::NAMES.join(", ")))?,
                    layout: layout.ok_or_else(|| refuse("layout", &Layout::NAMES.join(", ")))?,
                    ..Gemm::new(m, n, k)
                },
                kernel: Kernel {
                    name: kernels.get(row).map(str::to_owned),
                    tile: pair(&tile),
                    stages: small(stages.get(row)),
                    split_k: small(splits.get(row)),
                    cluster: pair(&cluster),
                    waves: None,
                    workspace_bytes: workspace.get(row).and_then(|bytes| u64::try_from(bytes).ok()),
                },
            });
        }
    }
    Ok((about, choices))
}
