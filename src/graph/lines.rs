//! A list of operators with the keys that answers have: `kind`, the sizes, and `count` beside them.

use super::{Listing, Options, checked};
use crate::error::{Error, Result};
use crate::ops::{Op, OpKind};
use serde_json::{Map, Value};
use std::fmt::Display;

/// Reads one operator a line.
pub(super) fn read(text: &str, options: &Options, place: &str) -> Result<Listing> {
    let mut listing = Listing::default();
    for (line, text) in text.lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let place = format!("{place}:{}", line + 1);
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            Error::bad_input(format!(
                "{place}: no JSON object ({error}); allowed: one operator a line"
            ))
        })?;
        let (op, count) = operator(object, options, &place, "")?;
        listing.add(op.kind().name(), op, count);
    }
    filled(listing, options, place)
}

/// Reads operators that were read as JSON; errors call the list `field`.
pub(super) fn listed(
    operators: Vec<Map<String, Value>>,
    options: &Options,
    place: &str,
    field: &str,
) -> Result<Listing> {
    let mut listing = Listing::default();
    for (at, object) in operators.into_iter().enumerate() {
        let (op, count) = operator(object, options, place, &format!("{field}[{at}]."))?;
        listing.add(op.kind().name(), op, count);
    }
    filled(listing, options, place)
}

fn filled(listing: Listing, options: &Options, place: &str) -> Result<Listing> {
    if let Some((name, _)) = options.dims.iter().next() {
        let allowed = "nothing: a list of operators has no symbolic dimensions";
        return Err(Error::field("request", "dims", format!("`{name}`"), allowed));
    }
    match listing.items.is_empty() {
        true => Err(Error::bad_input(format!(
            "{place}: no operator; allowed: at least one, one a line"
        ))),
        false => Ok(listing),
    }
}

/// The operator of an object and how often it runs. Sizes that are left out are those of the smallest operator, but those
/// of attention that follow from others. Errors put `before` in front of the field.
fn operator(mut object: Map<String, Value>, options: &Options, place: &str, before: &str) -> Result<(Op, u64)> {
    let wrong = |field: &str, value: &dyn Display, allowed: &str| {
        Error::field(place, &format!("{before}{field}"), value, allowed)
    };
    let kind = object.remove("kind").unwrap_or_default();
    let found = kind.as_str().and_then(OpKind::parse);
    let kind = found.ok_or_else(|| wrong("kind", &kind, &OpKind::NAMES.join(", ")))?;
    let count = object.remove("count").unwrap_or_else(|| 1.into());
    let times = count.as_u64().filter(|count| (1..=1 << 32).contains(count));
    let times = times.ok_or_else(|| wrong("count", &count, "a whole number from 1 to 4294967296"))?;
    // A name is for people.
    object.remove("name");
    if kind == OpKind::Attention {
        for (from, to) in [("heads", "kv_heads"), ("seq_q", "seq_kv"), ("head_dim", "value_dim")] {
            if let (Some(value), false) = (object.get(from).cloned(), object.contains_key(to)) {
                object.insert(to.to_owned(), value);
            }
        }
        object.entry("causal").or_insert_with(|| options.causal.into());
    }
    let mut op = kind.smallest();
    for dimension in kind.dimensions() {
        let key = dimension.key(kind);
        let Some(value) = object.remove(key) else {
            if dimension.is_needed() {
                return Err(wrong(key, &"absent", &dimension.domain.allowed()));
            }
            continue;
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let parsed = dimension.domain.parse(&text);
        let parsed = parsed.map_err(|allowed| wrong(key, &value, &allowed))?;
        assert!(dimension.set(&mut op, parsed), "it is a dimension of this kind");
    }
    if let Some(dtype) = options.dtype
        && let Some(dimension) = op.dimension("dtype")
        && let Ok(value) = dimension.domain.parse(dtype.name())
    {
        assert!(dimension.set(&mut op, value), "it has a format");
    }
    if let Some((key, value)) = object.iter().next() {
        let keys: Vec<_> = kind.dimensions().iter().map(|dimension| dimension.key(kind)).collect();
        let allowed = format!("{}, count, name", keys.join(", "));
        return Err(wrong(key, value, &allowed));
    }
    let op = checked(op).map_err(|what| Error::bad_input(format!("{place}: {what}")))?;
    Ok((op, times))
}
