//! Traces of Nsight Systems: SQLite, as `nsys export --type sqlite` writes it.
//!
//! Operators are the NVTX ranges of `emit_nvtx(record_shapes=True)`, whose texts hold the sizes of the inputs:
//! `aten::mm, op_id = 12, sizes = [[4096, 4096], [4096, 11008]]`.

use crate::dataset::trace::{Details, Events, Kernel, Place, is_step};
use crate::error::{Error, Result, require_regular};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Row};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use std::path::Path;

/// The table of kernels.
const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";

/// What is kept of the events of a file.
pub fn read(path: &Path) -> Result<Events> {
    require_regular(path)?;
    let mut events = Events::default();
    read_into(path, &mut events).map_err(|error| {
        let place = path.display();
        Error::bad_input(format!(
            "{place}: {error}; allowed: a whole file of `nsys export --type sqlite`"
        ))
    })?;
    Ok(events)
}

/// Keeps what is wanted of a file.
fn read_into(path: &Path, events: &mut Events) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = &Connection::open_with_flags(path, flags)?;
    // A view may be a query without an end.
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let mut unreadable = 0;
    // Numbers of launches are those of a process.
    let launch = |process: i64, launch: i64| number((pid(process), launch));
    let says = file.column_exists(None, KERNELS, "deviceId")?;
    let kernels = format!("{KERNELS} LEFT JOIN StringIds ON StringIds.id = demangledName");
    let device = if says { "deviceId" } else { "NULL" };
    let columns = format!("globalPid, correlationId, end - start, value, {device}");
    let mut used = FxHashSet::default();
    unreadable += each(file, &kernels, &columns, |row| {
        let name = row.get_ref(3)?.as_str().unwrap_or("without a name");
        let process = row.get(0)?;
        let gpu = row.get::<_, Option<i64>>(4)?.map(|device| (pid(process), device));
        used.extend(gpu);
        let kernel = Kernel {
            launch: Some(launch(process, row.get(1)?)),
            operator: None,
            name: events.named(name),
            micros: row.get::<_, f64>(2)? / 1e3,
            gpu: gpu.map(number),
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
    let names = gpus(file)?;
    // A process numbers the devices that it sees.
    let seen = seen(file)?;
    events.gpus = match says {
        true => used
            .into_iter()
            .filter_map(|device| {
                let gpu = seen.get(&device).copied().unwrap_or(device.1);
                Some((number(device), names.get(&gpu)?.clone()))
            })
            .collect(),
        false => names,
    };
    Ok(())
}

/// The names of the GPUs of the machine, by their numbers.
fn gpus(file: &Connection) -> rusqlite::Result<FxHashMap<i64, String>> {
    let mut names = FxHashMap::default();
    let has = |column| file.column_exists(None, "TARGET_INFO_GPU", column);
    if has("id")? && has("name")? {
        each(file, "TARGET_INFO_GPU", "id, name", |row| {
            names.insert(row.get(0)?, row.get(1)?);
            Ok(())
        })?;
    }
    Ok(names)
}

/// The GPUs of the machine by process and its own number of each.
fn seen(file: &Connection) -> rusqlite::Result<FxHashMap<(i64, i64), i64>> {
    let mut seen = FxHashMap::default();
    if file.column_exists(None, "TARGET_INFO_CUDA_DEVICE", "gpuId")? {
        each(file, "TARGET_INFO_CUDA_DEVICE", "pid, cudaId, gpuId", |row| {
            seen.insert((row.get(0)?, row.get(1)?), row.get(2)?);
            Ok(())
        })?;
    }
    Ok(seen)
}

/// The process of a `globalPid` or `globalTid`.
const fn pid(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// One number for a device of a process.
const fn number((process, device): (i64, i64)) -> i64 {
    process << 32 | device
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
