//! XLA's own cost tables: collectives by kind, size and group, where all groups of the machine run at once.

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Collective, CollectiveKind, Op};

const COLLECTIVE: &[&str] = &["collective", "tensor_bytes", "gpus_per_group", "time_us"];

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ROCm/xla@d02afb4f",
    licence: "Apache-2.0",
    tables: "its collectives with collective, tensor_bytes, gpus_per_group and time_us",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    file.has_all(COLLECTIVE).then_some(Recipe {
        identity: &["gpu"],
        identify: |texts| (texts[0].to_owned(), "xla".to_owned()),
        columns: COLLECTIVE,
        reader: collective,
    })
}

fn collective<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let kind = rows.texts("collective")?;
    let (bytes, ranks) = (rows.counts("tensor_bytes")?, rows.counts("gpus_per_group")?);
    let time = rows.numbers("time_us")?;
    Ok(Box::new(move |row| {
        let kind = match kind.get(row) {
            Some("all-reduce") => CollectiveKind::AllReduce,
            Some("all-gather") => CollectiveKind::AllGather,
            Some("reduce-scatter") => CollectiveKind::ReduceScatter,
            Some("all-to-all") => CollectiveKind::AllToAll,
            // Several pairs of one machine send at once.
            other => return Err(unknown("collective", other)),
        };
        Ok(Reading {
            op: Op::Collective(Collective::new(kind, bytes.size(row), ranks.size(row))),
            time: time.time(row, MICROSECOND),
            group: None,
            libraries: None,
        })
    }))
}
