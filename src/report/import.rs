//! The answer to `import`: how many rows were kept, and why the others were not.

use crate::report::Report;
use crate::report::SkippedRows;
use crate::report::skipped_text;
use crate::report::table::Side;
use crate::report::table::table;
use serde::Serialize;

/// What an import kept and left out.
#[derive(Clone, Debug, Serialize)]
pub struct ImportReport {
    /// The file that was written.
    pub out: String,
    /// Rows in it.
    pub kept_rows: u64,
    /// Those rows by GPU, stack, family and format.
    pub kept: Vec<KeptRows>,
    /// Rows that are not in it.
    pub skipped: Vec<SkippedRows>,
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptRows {
    /// GPU.
    pub gpu: String,
    /// Software stack.
    pub stack: String,
    /// Operator family.
    pub op: String,
    /// Number format; none for collectives.
    pub dtype: Option<&'static str>,
    /// How many.
    pub rows: u64,
}

impl Report for ImportReport {
    fn text(&self) -> String {
        let rows = self.kept.iter().map(|kept| {
            [
                kept.gpu.clone(),
                kept.stack.clone(),
                kept.op.clone(),
                kept.dtype.unwrap_or("-").to_owned(),
                kept.rows.to_string(),
            ]
        });
        let headings = [
            ("GPU", Side::Left),
            ("stack", Side::Left),
            ("operators", Side::Left),
            ("dtype", Side::Left),
            ("rows", Side::Right),
        ];
        format!(
            "{}\nkept {} rows in {}\n{}",
            table(headings, rows),
            self.kept_rows,
            self.out,
            skipped_text(&self.skipped)
        )
    }
}
