//! A fingerprint of what a table says, for the cards of models that were trained on it.

use super::Row;
use super::cells::{self, COUNTS, NAMES};
use super::measured::{self, REALS, REMEASURED, TEXTS, WHOLES};
use crate::units::Hertz;
use sha2::{Digest, Sha256};
use std::fmt::{Display, Write};

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
    for name in NAMES {
        put(line, name, cells::name(&row.op, name));
    }
    for name in COUNTS {
        put(line, name, cells::count(&row.op, name));
    }
    put(line, "causal", cells::causal(&row.op));
    put(line, "gpu", Some(&row.gpu));
    put(line, "stack", Some(&row.stack));
    put(line, "time_us", Some(cells::micros(row.time)));
    put(line, "p10_us", row.p10.map(cells::micros));
    put(line, "p90_us", row.p90.map(cells::micros));
    put(line, "samples", row.samples);
    put(line, "clock_hz", row.clock.map(Hertz::hertz));
    put(line, "group", row.group);
    put(line, "source", Some(&row.origin.source));
    put(line, "licence", Some(&row.origin.licence));
    put(line, "libraries", row.origin.libraries.as_ref());
    // Nothing for rows of other tables: their digests stand in the cards of models.
    if let Some(about) = &row.measured {
        for name in TEXTS {
            put(line, name, measured::text(about, name));
        }
        for name in REALS {
            put(line, name, measured::real(about, name));
        }
        for name in WHOLES {
            put(line, name, measured::whole(about, name));
        }
        put(line, REMEASURED, Some(about.remeasured));
    }
}

fn put(line: &mut String, name: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        write!(line, "{name}={value}\t").expect("a String grows without failing");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::gemm_row;

    #[test]
    fn the_order_of_rows_does_not_count_but_every_field_does() {
        let (a, b) = (gemm_row(1, 2, 3), gemm_row(3, 2, 1));
        let both = digest(&[a.clone(), b.clone()]);
        assert_eq!(both.len(), 64);
        assert_eq!(both, digest(&[b.clone(), a.clone()]));
        assert_ne!(both, digest(&[a.clone(), a.clone()]));
        let slower = Row {
            time: b.time * 1.000_001,
            ..b.clone()
        };
        assert_ne!(both, digest(&[a.clone(), slower]));
        let grouped = Row {
            group: Some(1),
            ..b
        };
        assert_ne!(both, digest(&[a, grouped]));
    }
}
