//! A fingerprint of what a table says, for the cards of models that were trained on it.

use super::Row;
use super::cells::{self, COUNTS, NAMES};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// SHA-256 in hexadecimal over the content of all rows, whatever their order.
///
/// Times count to the digits that are kept on disk, so writing and reading rows does not change it.
pub fn digest(rows: &[Row]) -> String {
    let mut line = String::new();
    let mut hashes: Vec<[u8; 32]> = rows
        .iter()
        .map(|row| {
            line.clear();
            canonical(row, &mut line);
            Sha256::digest(&line).into()
        })
        .collect();
    hashes.sort_unstable();
    let mut whole = Sha256::new();
    for hash in &hashes {
        whole.update(hash);
    }
    format!("{:x}", whole.finalize())
}

/// Every field of a row on one line, as `name=value` where there is a value.
fn canonical(row: &Row, line: &mut String) {
    let mut put = |name: &str, value: Option<&dyn std::fmt::Display>| {
        if let Some(value) = value {
            write!(line, "{name}={value}\t").expect("a String grows without failing");
        }
    };
    macro_rules! field {
        ($name:expr, $value:expr) => {
            put(
                $name,
                $value.as_ref().map(|value| value as &dyn std::fmt::Display),
            )
        };
    }
    for name in NAMES {
        field!(name, cells::name(&row.op, name));
    }
    for name in COUNTS {
        field!(name, cells::count(&row.op, name));
    }
    field!("causal", cells::causal(&row.op));
    field!("gpu", Some(&row.gpu));
    field!("stack", Some(&row.stack));
    field!("time_us", Some(cells::micros(row.time)));
    field!("p10_us", row.p10.map(cells::micros));
    field!("p90_us", row.p90.map(cells::micros));
    field!("samples", row.samples);
    field!("clock_hz", row.clock.map(|clock| clock.hertz()));
    field!("group", row.group);
    field!("source", Some(&row.origin.source));
    field!("licence", Some(&row.origin.licence));
    field!("libraries", row.origin.libraries);
}
