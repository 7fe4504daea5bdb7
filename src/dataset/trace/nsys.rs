//! Traces of Nsight Systems: SQLite, as `nsys export --type sqlite` writes it.
//!
//! Operators are the NVTX ranges of `emit_nvtx(record_shapes=True)`, whose texts hold the sizes of the inputs:
//! `aten::mm, op_id = 12, sizes = [[4096, 4096], [4096, 11008]]`.

use super::event::Details;
use super::{Events, Kernel, Place, is_step};
use crate::error::{Error, Result, require_regular};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Row};
use rustc_hash::FxHashSet;
use serde_json::Value;
use std::path::Path;

/// What is kept of the events of a file.
pub fn read(path: &Path) -> Result<Events> {
    require_regular(path)?;
    let mut events = Events::default();
    let wrong = |what: &str, allowed| Error::bad_input(format!("{}: {what}; allowed: {allowed}", path.display()));
    let mut gpus = read_into(path, &mut events)
        .map_err(|error| wrong(&error.to_string(), "a whole file of `nsys export --type sqlite`"))?;
    if gpus.len() > 1 {
        let names = gpus.iter().map(|gpu| gpu.as_deref().unwrap_or("one without a name"));
        let names = names.collect::<Vec<_>>().join(" and ");
        return Err(wrong(
            &format!("the trace has several kinds of GPU, {names}"),
            "one that was recorded on one kind",
        ));
    }
    events.device = gpus.pop().flatten();
    Ok(events)
}

/// Keeps what is wanted of a file, and answers the names of its GPUs.
fn read_into(path: &Path, events: &mut Events) -> rusqlite::Result<Vec<Option<String>>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = &Connection::open_with_flags(path, flags)?;
    // A view may be a query without an end.
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let mut unreadable = 0;
    // Numbers of launches are those of a process.
    let launch = |process: i64, number: i64| ((process >> 24) & 0xff_ffff) << 32 | number;
    let kernels = "CUPTI_ACTIVITY_KIND_KERNEL LEFT JOIN StringIds ON StringIds.id = demangledName";
    unreadable += each(file, kernels, "globalPid, correlationId, end - start, value", |row| {
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
    unreadable += each(
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
    unreadable += each(
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
    )?;
    events.unreadable = unreadable;
    gpus(file)
}

/// The names of the GPUs that ran kernels, each once; of all GPUs, where kernels do not say on which they ran.
fn gpus(file: &Connection) -> rusqlite::Result<Vec<Option<String>>> {
    let has = |table, column| file.column_exists(None, table, column);
    let mut names = Vec::new();
    if !has("TARGET_INFO_GPU", "name")? {
        return Ok(names);
    }
    let says = has("CUPTI_ACTIVITY_KIND_KERNEL", "deviceId")? && has("TARGET_INFO_GPU", "id")?;
    // A process numbers the devices that it sees.
    let renumbers = has("TARGET_INFO_CUDA_DEVICE", "gpuId")?;
    let from = match (says, renumbers) {
        (false, _) => "TARGET_INFO_GPU",
        (true, false) => {
            "CUPTI_ACTIVITY_KIND_KERNEL LEFT JOIN TARGET_INFO_GPU ON TARGET_INFO_GPU.id = deviceId ORDER BY name"
        }
        (true, true) => {
            "CUPTI_ACTIVITY_KIND_KERNEL
             LEFT JOIN TARGET_INFO_CUDA_DEVICE ON cudaId = deviceId AND pid = globalPid >> 24 & 0xffffff
             LEFT JOIN TARGET_INFO_GPU ON TARGET_INFO_GPU.id = coalesce(gpuId, deviceId) ORDER BY name"
        }
    };
    each(file, from, "DISTINCT name", |row| {
        names.push(row.get(0)?);
        Ok(())
    })?;
    Ok(names)
}

/// Calls `add` with these columns of each row, and counts the rows that lack one of them or have one of another type.
///
/// There may be no such table: those of nothing recorded are not written.
fn each(
    file: &Connection,
    table: &str,
    columns: &str,
    mut add: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<u64> {
    let name = table.split_whitespace().next().unwrap_or(table);
    if !file.table_exists(None, name)? {
        return Ok(0);
    }
    let mut unreadable = 0;
    let mut rows = file.prepare(&format!("SELECT {columns} FROM {table}"))?;
    let mut rows = rows.query(())?;
    while let Some(row) = rows.next()? {
        match add(row) {
            Err(rusqlite::Error::InvalidColumnType(..)) => unreadable += 1,
            added => added?,
        }
    }
    Ok(unreadable)
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
