//! The software that an interval holds for, and how much wider it is for any.

use crate::error::Result;
use crate::families::{Family, Variant};
use crate::ops::{Dtype, Op};
use crate::predict::built_in;
use serde::Deserialize;
use std::sync::OnceLock;

named_enum! {
    /// The software that a 90 % interval holds for.
    #[derive(Default)]
    Scope {
        /// The stack that the basis names.
        #[default]
        ThisStack = "this_stack",
        /// Any stack of the GPU: another release, library or engine.
        AnyStack = "any_stack",
    }
}

impl Scope {
    /// Any stack where that is asked for.
    pub const fn of(any_stack: bool) -> Self {
        match any_stack {
            true => Self::AnyStack,
            false => Self::ThisStack,
        }
    }
}

/// What another stack adds to the half width of an interval of one family.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherStack {
    family: Family,
    /// Formats that it holds for; nothing stands for all.
    dtypes: Option<Vec<Dtype>>,
    /// The kind that it holds for; nothing stands for all.
    kind: Option<String>,
    half_width: f64,
    #[allow(dead_code)] // evidence for whoever reads the file
    tables: u64,
    #[allow(dead_code)] // evidence for whoever reads the file
    coverage: f64,
}

impl OtherStack {
    fn holds(&self, family: Family, variant: Variant) -> bool {
        let has = |dtype| self.dtypes.as_ref().is_none_or(|all| all.contains(&dtype));
        let is_of_kind = |kind: &String| variant.kind() == Some(kind);
        self.family == family
            && variant.dtype().is_none_or(has)
            && self.kind.as_ref().is_none_or(is_of_kind)
    }
}

/// What software stacks of one GPU differ by.
pub struct OtherStacks(&'static [OtherStack]);

impl OtherStacks {
    /// Those of `data/other_stacks.toml`.
    pub fn built_in() -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            entry: Vec<OtherStack>,
        }
        static FILE: OnceLock<File> = OnceLock::new();
        let text = include_str!("../../data/other_stacks.toml");
        Ok(Self(
            &built_in(&FILE, "data/other_stacks.toml", text)?.entry,
        ))
    }

    /// The half width that another stack of the GPU adds to an answer; none where the file has no entry.
    pub fn half_width(&self, op: &Op) -> Option<f64> {
        let (family, variant) = (Family::of(op), Variant::of(op));
        let mut entries = self.0.iter();
        let entry = entries.find(|entry| entry.holds(family, variant));
        entry.map(|entry| entry.half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Collective, CollectiveKind, Gemm};

    #[test]
    fn every_family_and_variant_has_a_width_of_other_stacks() {
        let stacks = OtherStacks::built_in().unwrap();
        for family in Family::ALL {
            for variant in family.variants() {
                let known = stacks.0.iter().find(|entry| entry.holds(family, variant));
                let width = known.map(|entry| entry.half_width);
                assert!(width.is_some_and(|width| width > 0.0), "{family} {variant}");
            }
        }
        for entry in stacks.0 {
            let variants = entry.family.variants();
            let mut held = variants
                .iter()
                .filter(|&&variant| entry.holds(entry.family, variant));
            assert!(held.next().is_some(), "{entry:?}");
        }
    }

    #[test]
    fn formats_and_kinds_have_widths_of_their_own() {
        let stacks = OtherStacks::built_in().unwrap();
        let gemm = |dtype| {
            let op = Gemm {
                dtype,
                ..Gemm::new(4096, 4096, 4096)
            };
            stacks.half_width(&Op::Gemm(op)).unwrap()
        };
        assert!(gemm(Dtype::Bf16) < gemm(Dtype::Fp8));
        let sum = |kind| {
            let op = Collective::new(kind, 1 << 20, 8);
            stacks.half_width(&Op::Collective(op)).unwrap()
        };
        assert!(sum(CollectiveKind::ReduceScatter) < sum(CollectiveKind::AllReduce));
    }
}
