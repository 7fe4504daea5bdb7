//! The software that an interval holds for, and how much wider it is for any.

use crate::families::{Family, Variant};
use crate::framework::Engine;
use crate::gpu::Generation;
use crate::ops::{Dtype, Op};
use crate::predict::ratios::Carried;
use crate::toml_text::built_in;
use serde::Deserialize;
use std::sync::LazyLock;

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

/// How another stack's times of one family differ.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherStack {
    family: Family,
    /// Formats that it holds for; empty means all.
    dtypes: Option<Vec<Dtype>>,
    /// The kind that it holds for; empty means all.
    kind: Option<String>,
    /// The engine whose kernels another's answer for, and the generation of the GPU.
    engine: Option<(Engine, Generation)>,
    /// Its time over that of the kernels that answer; empty means 1.
    factor: Option<f64>,
    /// What it adds to the half width of an interval.
    half_width: f64,
    #[allow(dead_code)] // evidence for readers of the file
    tables: u64,
    #[allow(dead_code)] // evidence for readers of the file
    coverage: f64,
}

impl OtherStack {
    fn holds(&self, family: Family, variant: Variant, engine: Option<(Engine, Generation)>) -> bool {
        let has = |dtype| self.dtypes.as_ref().is_none_or(|all| all.contains(&dtype));
        let is_of_kind = |kind: &String| variant.kind() == Some(kind);
        self.family == family
            && self.engine == engine
            && variant.dtype().is_none_or(has)
            && self.kind.as_ref().is_none_or(is_of_kind)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherStacks {
    entry: Vec<OtherStack>,
}

static OTHER_STACKS: LazyLock<OtherStacks> = LazyLock::new(|| built_in(&shapewise_data::OTHER_STACKS));

/// What carries an answer over to another stack of the GPU, or to an engine whose kernels were not timed; `None` if
/// `data/other_stacks.toml` has no entry.
pub fn other_stacks(op: &Op, engine: Option<(Engine, Generation)>) -> Option<Carried> {
    let (family, variant) = (Family::of(op), Variant::of(op));
    let mut entries = OTHER_STACKS.entry.iter();
    let entry = entries.find(|entry| entry.holds(family, variant, engine))?;
    Some(Carried {
        factor: entry.factor.unwrap_or(1.0),
        half_width: entry.half_width,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Collective, CollectiveKind, Gemm};

    #[test]
    fn every_family_and_variant_has_a_width_of_other_stacks() {
        for family in Family::ALL {
            for variant in family.variants() {
                let known = OTHER_STACKS
                    .entry
                    .iter()
                    .find(|entry| entry.holds(family, variant, None));
                let width = known.map(|entry| entry.half_width);
                assert!(width.is_some_and(|width| width > 0.0), "{family} {variant}");
            }
        }
        for entry in &OTHER_STACKS.entry {
            let variants = entry.family.variants();
            let mut held = variants
                .iter()
                .filter(|&&variant| entry.holds(entry.family, variant, entry.engine));
            assert!(held.next().is_some(), "{entry:?}");
        }
    }

    #[test]
    fn formats_and_kinds_have_widths_of_their_own() {
        let gemm = |dtype| {
            let op = Gemm {
                dtype,
                ..Gemm::new(4096, 4096, 4096)
            };
            other_stacks(&Op::Gemm(op), None).unwrap().half_width
        };
        assert!(gemm(Dtype::Bf16) < gemm(Dtype::Fp8));
        let sum = |kind| {
            let op = Collective::new(kind, 1 << 20, 8);
            other_stacks(&Op::Collective(op), None).unwrap().half_width
        };
        assert!(sum(CollectiveKind::ReduceScatter) < sum(CollectiveKind::AllReduce));
    }
}
