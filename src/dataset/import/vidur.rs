//! Tables of microsoft/vidur and zksainx/pipeweave: collectives in steps of a few kilobytes, medians in milliseconds.
//!
//! Ranks that fill no node are spread evenly over nodes. Systems whose GPUs are linked in pairs are no GPU of ours: their
//! links differ.

use super::{Batch, Importer, MILLISECOND, Parquet, Reader, Reading, Recipe, unknown};
use crate::error::Result;
use crate::ops::{Collective, CollectiveKind, Op};

const COLLECTIVE: &[&str] = &[
    "collective",
    "num_workers",
    "devices_per_node",
    "max_devices_per_node",
    "size",
    "median",
];

/// The publishers and their tables.
pub(super) const IMPORTER: Importer = Importer {
    repository: "microsoft/vidur@7d475133 and zksainx/pipeweave@55e03178",
    licence: "MIT and Apache-2.0",
    tables: "collectives with system, collective, num_workers, devices_per_node, size and median",
    recipe,
};

/// What to do with a file, judged by its columns.
fn recipe(file: &Parquet) -> Option<Recipe> {
    let known = file.has_all(COLLECTIVE) && file.has("system");
    known.then_some(Recipe {
        identity: &["system"],
        identify: |texts| match texts[0].strip_prefix("pipeweave ") {
            Some("RTX PRO 6000 S") => ("rtx-pro-6000".to_owned(), "pipeweave".to_owned()),
            Some(gpu) => (gpu.to_owned(), "pipeweave".to_owned()),
            None => {
                let gpu = texts[0].trim_end_matches("_dgx");
                (gpu.to_owned(), "vidur".to_owned())
            }
        },
        columns: COLLECTIVE,
        reader: collective,
    })
}

fn collective<'a>(rows: &'a Batch<'_>) -> Result<Reader<'a>> {
    let (kind, ranks) = (rows.texts("collective")?, rows.counts("num_workers")?);
    let inside = rows.counts("devices_per_node")?;
    let node = rows.counts("max_devices_per_node")?;
    let (bytes, median) = (rows.counts("size")?, rows.numbers("median")?);
    Ok(Box::new(move |row| {
        let (ranks, inside) = (ranks.size(row), inside.size(row));
        let kind = match kind.get(row) {
            Some("all_reduce") => CollectiveKind::AllReduce,
            Some("send_recv") => CollectiveKind::SendReceive,
            other => return Err(unknown("collective", other)),
        };
        let stride = match ranks > inside {
            true => node.size(row) / inside.max(1),
            false => 1,
        };
        Ok(Reading {
            op: Op::Collective(Collective {
                stride,
                ..Collective::new(kind, bytes.size(row), ranks)
            }),
            time: median.time(row, MILLISECOND),
            group: None,
            libraries: None,
        })
    }))
}
