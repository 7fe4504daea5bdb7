//! The region of shapes that a sub-model was trained on.

use super::{Caveat, Caveats};
use crate::ops::Layout;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What tables hold sizes of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the fields of operators
pub enum Extent {
    Backward,
    Batch,
    Bytes,
    Cols,
    ExpertShards,
    Experts,
    Gated,
    Group,
    HeadDim,
    Heads,
    Hidden,
    IndexHeads,
    K,
    /// In cards of older nets; nothing asks for it.
    KvHeads,
    M,
    N,
    Ranks,
    Rows,
    SeqKv,
    SeqQ,
    Tokens,
    TopK,
    ValueDim,
    WeightBits,
    Width,
    WidthShards,
}

impl Extent {
    const COUNT: usize = Self::WidthShards as usize + 1;
}

/// Least and greatest value of each extent; nothing of one that was not recorded. Every prediction asks for several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<Extent, [u64; 2]>", into = "BTreeMap<Extent, [u64; 2]>")]
pub struct Ranges([Option<(Extent, [u64; 2])>; Extent::COUNT]);

impl Ranges {
    fn get(&self, extent: Extent) -> Option<[u64; 2]> {
        self.0[extent as usize].map(|(_, range)| range)
    }

    fn set(&mut self, extent: Extent, range: [u64; 2]) {
        self.0[extent as usize] = Some((extent, range));
    }
}

impl TryFrom<BTreeMap<Extent, [u64; 2]>> for Ranges {
    type Error = String;

    fn try_from(known: BTreeMap<Extent, [u64; 2]>) -> Result<Self, String> {
        let mut ranges = Self::default();
        for (extent, [least, most]) in known {
            if least > most {
                let range = format!("the range of {extent:?} is [{least}, {most}]");
                return Err(format!("{range}; allowed: the least size first"));
            }
            ranges.set(extent, [least, most]);
        }
        Ok(ranges)
    }
}

impl From<Ranges> for BTreeMap<Extent, [u64; 2]> {
    fn from(ranges: Ranges) -> Self {
        ranges.0.into_iter().flatten().collect()
    }
}

/// The region of shapes that was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// Least and greatest value of each extent.
    pub ranges: Ranges,
    /// Greatest power of two that divides every `n` and `k` (GEMM only).
    pub alignment: u64,
    /// Head sizes that occur (attention only).
    pub head_dims: Vec<u64>,
    /// Head sizes that occur in auxiliary tables only; the trees carried them over.
    pub auxiliary_head_dims: Vec<u64>,
    /// Operand layouts that occur (GEMM only).
    pub layouts: Vec<Layout>,
    /// Whether sliding windows occur.
    pub windowed: bool,
    /// Masks that occur: causal, full.
    pub causal: Vec<bool>,
    /// Hidden size, width, experts and top-k of layers, of a format of which few were timed (MoE layers only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<[u64; 4]>,
    /// Whether these are backward passes (attention only).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backward: bool,
}

impl Coverage {
    /// Widens the ranges to hold these extents.
    pub(super) fn widen(&mut self, extents: impl IntoIterator<Item = (Extent, u64)>) {
        for (extent, size) in extents {
            let [least, most] = self.ranges.get(extent).unwrap_or([size, size]);
            self.ranges.set(extent, [least.min(size), most.max(size)]);
        }
    }

    /// The nearest measured size of an extent; any size where the extent was not recorded.
    pub(super) fn clamp(&self, extent: Extent, size: u64) -> u64 {
        match self.ranges.get(extent) {
            Some([least, most]) => size.clamp(least, most),
            None => size,
        }
    }

    /// Warns of every extent outside its range; an extent without a range was not recorded.
    pub(super) fn check(&self, extents: impl IntoIterator<Item = (Extent, u64)>, caveats: &mut Caveats) {
        let outside = |(extent, size): (Extent, u64)| {
            let range = self.ranges.get(extent);
            range.is_some_and(|[least, most]| !(least..=most).contains(&size))
        };
        caveats.insert_if(extents.into_iter().any(outside), Caveat::OutOfDomain);
    }
}

/// Adds a value that is not there yet.
pub(super) fn note<T: PartialEq>(values: &mut Vec<T>, value: T) {
    if !values.contains(&value) {
        values.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_upside_down_is_refused() {
        let read = |text| serde_json::from_str::<Ranges>(text).map_err(|error| error.to_string());
        assert!(read(r#"{"k": [8, 8192]}"#).is_ok());
        let sentence = read(r#"{"k": [8192, 8]}"#).unwrap_err();
        assert!(sentence.contains("K is [8192, 8]; allowed"), "{sentence}");
    }
}
