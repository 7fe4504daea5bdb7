//! Traces of Nsight Systems: SQLite, as `nsys export --type sqlite` writes it.
//!
//! Operators are the NVTX ranges of `emit_nvtx(record_shapes=True)`, whose texts hold the sizes of the inputs:
//! `aten::mm, op_id = 12, sizes = [[4096, 4096], [4096, 11008]]`.

use super::event::Details;
use super::{Events, Kernel, Place, is_step};
use crate::error::{Error, Result};
use rusqlite::{Connection, OpenFlags, Row};
use rustc_hash::FxHashSet;
use serde_json::Value;
use std::fs::File;
use std::path::Path;

/// What is kept of the events of a file.
pub fn read(path: &Path) -> Result<Events> {
    File::open(path).map_err(|error| Error::io(path, error))?;
    let mut events = Events::default();
    match read_into(path, &mut events) {
        Ok(()) => Ok(events),
        Err(error) => Err(Error::bad_input(format!(
            "{}: {error}; allowed: a whole file of `nsys export --type sqlite`",
            path.display()
        ))),
    }
}

fn read_into(path: &Path, events: &mut Events) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = &Connection::open_with_flags(path, flags)?;
    each(file, "TARGET_INFO_GPU", "name", |row| {
        let name = row.get(0)?;
        events.device.get_or_insert(name);
        Ok(())
    })?;
    // Numbers of launches are those of a process.
    let launch = |process: i64, number: i64| ((process >> 24) & 0xff_ffff) << 32 | number;
    let kernels = "CUPTI_ACTIVITY_KIND_KERNEL LEFT JOIN StringIds ON StringIds.id = demangledName";
    each(file, kernels, "globalPid, correlationId, end - start, value", |row| {
        let name = row.get_ref(3)?.as_str().unwrap_or("without a name");
        let kernel = Kernel {
            launch: Some(launch(row.get(0)?, row.get(1)?)),
            operator: None,
            name: events.named(name),
            micros: row.get::<_, f64>(2)? / 1e3,
        };
        events.kernels.push(kernel);
        Ok(())
    })?;
    let launched: FxHashSet<Option<i64>> = events.kernels.iter().map(|kernel| kernel.launch).collect();
    each(
        file,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "globalTid, correlationId, start",
        |row| {
            let thread: i64 = row.get(0)?;
            let launch = launch(thread, row.get(1)?);
            if launched.contains(&Some(launch)) {
                events.launches.insert(launch, place(thread, row.get(2)?));
            }
            Ok(())
        },
    )?;
    let ranges = "NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId WHERE end IS NOT NULL";
    each(
        file,
        ranges,
        "globalTid, start, end - start, coalesce(text, value)",
        |row| {
            let Ok(text) = row.get_ref(3)?.as_str() else {
                return Ok(());
            };
            let begin = place(row.get(0)?, row.get(1)?);
            let micros = row.get::<_, f64>(2)? / 1e3;
            match is_step(text) {
                true => events.add_step(text, begin.1, micros),
                false => {
                    let name = text.split(", ").next().unwrap_or(text);
                    events.add_call(name, begin, micros, || details(text));
                }
            }
            Ok(())
        },
    )
}

/// Calls `add` with these columns of each row, unless there is no such table: those of nothing recorded are not written.
fn each(
    file: &Connection,
    table: &str,
    columns: &str,
    mut add: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let name = table.split(' ').next().unwrap_or(table);
    if !file.table_exists(None, name)? {
        return Ok(());
    }
    let mut rows = file.prepare(&format!("SELECT {columns} FROM {table}"))?;
    let mut rows = rows.query(())?;
    while let Some(row) = rows.next()? {
        add(row)?;
    }
    Ok(())
}

/// Thread and microseconds of nanoseconds.
fn place(thread: i64, nanos: f64) -> Place {
    ((thread.cast_unsigned(), 0), nanos / 1e3)
}

/// The sizes of the inputs that the text of a range holds.
fn details(text: &str) -> Details {
    let sizes = text.split_once("sizes = ").map_or("", |(_, sizes)| sizes);
    let list = serde_json::Deserializer::from_str(sizes)
        .into_iter::<Vec<Value>>()
        .next();
    Details {
        dims: list.and_then(std::result::Result::ok).unwrap_or_default(),
        ..Details::default()
    }
}
