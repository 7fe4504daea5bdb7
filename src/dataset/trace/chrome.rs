//! Traces of `torch.profiler`: JSON, as libkineto writes it.

use super::event::{Detailed, Event};
use super::objects::Objects;
use super::{Events, Kernel, is_step};
use crate::dataset::formats;
use crate::error::{Error, Result};
use crate::random::fnv1a;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// What is kept of the events of a file.
pub fn read(path: &Path) -> Result<Events> {
    let (mut events, mut number) = (Events::default(), 0);
    match read_into(path, &mut events, &mut number) {
        Ok(()) => Ok(events),
        Err(error) => Err(match error.kind() {
            ErrorKind::UnexpectedEof => Error::bad_input(format!(
                "{}: the file is cut off after event {number}; allowed: a whole trace",
                path.display()
            )),
            ErrorKind::InvalidData | ErrorKind::InvalidInput => Error::bad_input(format!(
                "{}: after event {number} this is no JSON, packed by gzip or not ({error}); allowed: a trace of torch.profiler",
                path.display()
            )),
            _ => Error::io(path, error),
        }),
    }
}

/// Keeps what is wanted of a file, and counts its events.
fn read_into(path: &Path, events: &mut Events, number: &mut u64) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let from: Box<dyn Read> = match file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        true => formats::unpacked(file)?,
        false => Box::new(file),
    };
    let mut objects = Objects::new(from);
    while let Some(text) = objects.next()? {
        *number += 1;
        if add(text, events).is_none() {
            events.unreadable += 1;
        }
    }
    Ok(())
}

/// Keeps what is wanted of an event; `None` if it is not written as libkineto writes events.
fn add(text: &[u8], events: &mut Events) -> Option<()> {
    let event: Event<'_> = serde_json::from_slice(text).ok()?;
    if !event.compute_major.is_null() {
        events.gpus.insert(event.id.as_i64()?, event.name.into_owned());
        return Some(());
    }
    let kind = event.cat.as_ref();
    let is_operator = matches!(kind, "cpu_op" | "Operator" | "operator");
    if (is_operator || kind == "user_annotation") && is_step(&event.name) {
        events.add_step(&event.name, event.ts, event.dur);
        return Some(());
    }
    let is_kernel = matches!(kind, "kernel" | "Kernel");
    let is_launch = matches!(kind, "cuda_runtime" | "cuda_driver" | "Runtime" | "hip_runtime");
    if !(is_operator || is_kernel || is_launch) {
        return Some(());
    }
    let Detailed { args } = serde_json::from_slice(text).ok()?;
    let begin = ((identity(&event.pid), identity(&event.tid)), event.ts);
    if is_launch {
        events.launches.extend(args.launch().map(|launch| (launch, begin)));
        return Some(());
    }
    let name = events.named(&event.name);
    if is_kernel {
        events.kernels.push(Kernel {
            launch: args.launch(),
            operator: args.external.as_i64(),
            name,
            micros: event.dur,
            gpu: args.device.as_i64(),
        });
        return Some(());
    }
    let operator = args.external.as_i64();
    events
        .operators
        .extend(operator.map(|operator| (operator, (begin, name))));
    events.add_call(&event.name, begin, event.dur, || args);
    Some(())
}

/// A process or thread, whose number may be a text.
fn identity(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| fnv1a(value.to_string().as_bytes()))
}
