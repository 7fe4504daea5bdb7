//! Linear maps and weights beside attention and MLP: sizes written as sums of products of fields.

use super::super::{Architecture, FurtherMap};
use super::fields::Fields;
use super::table::Row;
use crate::error::Result;
use serde::Deserialize;
use serde_json::Value;

/// An entry of a row: each size is a text as `2 * layers + 3 * rank - 1`, of fields and of sizes as they
/// are read (`layers`, `hidden`, `d_ff`, `heads`, `kv_heads`, `head_dim`); 0 if it is empty.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Further {
    count: String,
    inputs: String,
    outputs: String,
    vectors: String,
    copied: String,
    /// A field without which, or with 0 in which, there is no such entry.
    given: String,
}

impl Default for Further {
    fn default() -> Self {
        let none = String::new;
        Self {
            count: "layers".to_owned(),
            inputs: none(),
            outputs: none(),
            vectors: none(),
            copied: none(),
            given: "1".to_owned(),
        }
    }
}

/// Adds the entries of a row.
pub(super) fn read(row: &'static Row, fields: &mut Fields<'_>, arch: &mut Architecture) -> Result<()> {
    for entry in &row.further {
        let mut size = |text: &'static str| size(text, row, fields, arch);
        if size(&entry.given)? == 0 {
            continue;
        }
        let map = FurtherMap {
            count: size(&entry.count)?,
            inputs: size(&entry.inputs)?,
            outputs: size(&entry.outputs)?,
            vectors: size(&entry.vectors)?,
            copied: size(&entry.copied)?,
        };
        arch.further.extend((map.count > 0).then_some(map));
    }
    Ok(())
}

/// The value of a text; one that is too large is refused later.
fn size(text: &'static str, row: &'static Row, fields: &mut Fields<'_>, arch: &Architecture) -> Result<u64> {
    let mut sum = 0_u64;
    for term in text.split(" + ").filter(|term| !term.is_empty()) {
        let mut parts = Vec::new();
        for part in term.split(" - ") {
            let mut product = 1_u64;
            for factor in part.split(" * ") {
                let value = match (factor, factor.parse()) {
                    (_, Ok(number)) => number,
                    ("layers", _) => arch.layers,
                    ("hidden", _) => arch.hidden,
                    ("d_ff", _) => arch.mlp.d_ff,
                    ("heads", _) => arch.heads,
                    ("kv_heads", _) => arch.kv_heads,
                    ("head_dim", _) => arch.head_dim,
                    _ => match (fields.value(factor), row.usual.get(factor)) {
                        (Some(Value::Bool(flag)), _) => u64::from(*flag),
                        (_, Some(usual)) => fields.number_or(factor, *usual)?,
                        (_, None) => fields.number(factor)?,
                    },
                };
                product = product.saturating_mul(value);
            }
            parts.push(product);
        }
        let term = parts.into_iter().reduce(u64::saturating_sub).unwrap_or(0);
        sum = sum.saturating_add(term);
    }
    Ok(sum)
}
