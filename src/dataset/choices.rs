//! Which algorithm a library puts first for a GEMM, without a time: a table of its own.

use super::column::Column;
use super::columns::{Field, Parquet};
use super::draft::{Draft, unmeasured};
use super::file::check_target;
use super::formats::encode;
use super::schema::columns_of_line;
use super::{Kernel, Measured, Row};
use crate::error::{Error, Result, write_atomically};
use crate::ops::{Gemm, Op};
use crate::units::Seconds;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// The answer of a library for one GEMM.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The GEMM.
    pub gemm: Gemm,
    /// Its first algorithm.
    pub kernel: Kernel,
}

impl Choice {
    /// The answer as a row without a time.
    pub fn into_row(self, gpu: &Arc<str>, stack: &Arc<str>) -> Row {
        Row {
            measured: Some(Box::new(Measured {
                kernel: Some(self.kernel),
                ..unmeasured("")
            })),
            ..Row::new(Op::Gemm(self.gemm), gpu.clone(), stack.clone(), Seconds::ZERO)
        }
    }
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

/// The columns of rows that an answer has.
static COLUMNS: LazyLock<Vec<&Column>> = LazyLock::new(|| {
    let names =
        "dtype layout m n k kernel tile_rows tile_cols stages split_k cluster_rows cluster_cols workspace_bytes";
    let column = |name| columns_of_line().find(|column| column.name == name);
    names.split(' ').filter_map(column).collect()
});

/// Columns that no answer leaves out.
const ALWAYS: usize = 5;

/// Writes answers to a file, replacing it; the folder must exist.
pub fn write_choices(path: &Path, choices: &[Choice], asked: &Asked) -> Result<()> {
    check_target(path)?;
    let fields = COLUMNS.iter().enumerate().map(|(place, column)| Field {
        name: column.name,
        kind: column.kind(),
        may_be_null: place >= ALWAYS,
    });
    let fields: Vec<Field<'_>> = fields.collect();
    let nothing = Arc::from("");
    let rows = choices.iter().map(|choice| choice.clone().into_row(&nothing, &nothing));
    let rows: Vec<Row> = rows.collect();
    let about = serde_json::to_string(asked).expect("only plain fields");
    let properties = [(ABOUT.to_owned(), about)];
    let content = encode(&fields, &properties, rows.len(), |place, row| {
        COLUMNS[place].get(&rows[row])
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
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    let mut draft = Draft::new("".into(), "".into(), Arc::default());
    for batch in file.batches(&names, None)? {
        let batch = batch?;
        let cells = batch.cells(COLUMNS.iter().map(|column| (column.name, column.kind())))?;
        for row in 0..batch.len() {
            draft.begin_measured("");
            for (column, cells) in COLUMNS.iter().zip(&cells) {
                let read = column
                    .set(&mut draft, cells.get(row))
                    .and_then(|()| column.check(&draft.row));
                read.map_err(|problem| problem.at(batch.position(row)))?;
            }
            let kernel = draft.kernel();
            if let Op::Gemm(gemm) = draft.row.op {
                choices.push(Choice { gemm, kernel });
            }
        }
    }
    Ok((about, choices))
}

/// The answers of such tables as rows without times, each of the GPU and stack of its table.
pub fn read_rows(paths: &[impl AsRef<Path>]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for path in paths {
        let (asked, choices) = read_choices(path.as_ref())?;
        let [gpu, stack] = [asked.gpu, asked.stack].map(Arc::from);
        rows.extend(choices.into_iter().map(|choice| choice.into_row(&gpu, &stack)));
    }
    Ok(rows)
}
