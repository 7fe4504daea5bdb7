//! A fingerprint of what a table says, for the cards of models that were trained on it.

use super::Row;
use super::schema::{SCHEMA, columns};
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

/// Every cell of a row on one line, as `name=value` where it is not null.
///
/// Nothing of `measure` for rows of other tables: their digests are in the cards of models.
fn canonical(row: &Row, line: &mut String) {
    for column in columns(SCHEMA) {
        if let Some(cell) = column.get(row) {
            write!(line, "{}={cell}\t", column.name).expect("a String grows without failing");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{gemm_row, measured_row};
    use crate::ops::{Attention, Dtype, Op, Pass};
    use crate::units::{Hertz, Seconds};
    use std::sync::Arc;

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
        let grouped = Row { group: Some(1), ..b };
        assert_ne!(both, digest(&[a, grouped]));
    }

    /// Cards of models hold digests, so the columns, their order and how they are written stay.
    #[test]
    fn digests_stay_as_the_cards_of_models_have_them() {
        let ours = digest(&[measured_row(1, 2, 3)]);
        assert_eq!(ours, "5500e1422f514aeaf4e6358ec687f5fc7ee48e1c6ffc0534c5c2bb4119d7d985");
        let attention = Attention {
            kv_heads: 3,
            seq_q: 4,
            seq_kv: 5,
            head_dim: 6,
            value_dim: 7,
            causal: true,
            pass: Pass::Backward,
            dtype: Dtype::Fp16,
            ..Attention::new(1, 2, 4, 6)
        };
        let mut row = gemm_row(1, 2, 3);
        row.op = Op::Attention(attention);
        row.time = Seconds::from_micros(1.0 / 3.0);
        row.p10 = Some(Seconds::from_micros(9.0));
        row.p90 = Some(Seconds::from_micros(11.5));
        row.clock = Some(Hertz::from_hertz(1.98e9));
        row.group = Some(4096);
        Arc::make_mut(&mut row.origin).libraries = Some("fa3".to_owned());
        assert_eq!(
            digest(&[row]),
            "0567ced42ee8f2a1e41fdfb45e8f5a538d14cd0888caadf848c5a185d0649907"
        );
    }
}
