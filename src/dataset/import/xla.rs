//! XLA's own cost tables: collectives by kind, size and group, where all groups of the machine run at once.

use super::{Batch, Importer, MICROSECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Collective, CollectiveKind, Op};

const COLLECTIVE: &[&str] = &[
    "collective",
    "tensor_bytes",
    "gpus_per_group",
    "time_us",
    "throughput_gb_s",
];

/// GB/s below which a rate in whole hundredths says nothing of the time that follows from it: 2 % at the least.
const LEAST_RATE: f64 = 0.25;

/// The publisher and its tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "ROCm/xla@d02afb4f",
    licence: "Apache-2.0",
    tables: "its collectives with collective, tensor_bytes, gpus_per_group, throughput_gb_s and time_us",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    file.has_all(COLLECTIVE).then_some(Recipe {
        identity: &["gpu"],
        identify: |texts| (texts[0].to_owned(), "xla".to_owned()),
        columns: COLLECTIVE,
        readers: vec![collective],
    })
}

fn collective<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let kind = rows.texts("collective")?;
    let (bytes, ranks) = (rows.counts("tensor_bytes")?, rows.counts("gpus_per_group")?);
    let (time, rate) = (rows.numbers("time_us")?, rows.numbers("throughput_gb_s")?);
    Ok(Box::new(move |row| {
        let hundredths = 100.0 * rate.get(row).unwrap_or(0.0);
        let rounded = (hundredths - hundredths.round()).abs() < 1e-4;
        if rounded && hundredths < 100.0 * LEAST_RATE {
            return Err("time of a rate that is rounded to 0.01 GB/s".to_owned());
        }
        let kind = match kind.get(row) {
            Some("all-reduce") => CollectiveKind::AllReduce,
            Some("all-gather") => CollectiveKind::AllGather,
            Some("reduce-scatter") => CollectiveKind::ReduceScatter,
            Some("all-to-all") => CollectiveKind::AllToAll,
            // Every GPU sends to its neighbour.
            Some("collective-permute") => CollectiveKind::SendReceive,
            other => return Err(unknown("collective", other)),
        };
        let ranks = match kind {
            CollectiveKind::SendReceive => 2,
            _ => ranks.size(row),
        };
        Ok(Reading {
            op: Op::Collective(Collective::new(kind, bytes.size(row), ranks)),
            time: time.time(row, MICROSECOND),
            group: None,
            libraries: None,
        })
    }))
}
