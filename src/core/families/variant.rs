//! What selects kernels besides the family of an operator.

use super::{Family, Kernels};
use crate::ops::{CollectiveKind, Dtype, MemoryKind, Op, Recurrence};
use std::fmt;

/// What selects kernels besides the family: a sub-model knows one variant of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// The operand format, of GEMMs, attention and experts.
    Format(Dtype),
    /// What a memory-bound kernel does, and its format.
    Kernel(MemoryKind, Dtype),
    /// The pattern of a collective, which moves bytes of any format.
    Pattern(CollectiveKind),
    /// How a token changes the states of linear attention, and its format.
    Recurrence(Recurrence, Dtype),
}

impl Variant {
    /// The variant of an operator.
    pub fn of(op: &Op) -> Self {
        dispatch!(op, F, op => F::variant(op))
    }

    /// The operand format, where there is one.
    pub const fn dtype(self) -> Option<Dtype> {
        match self {
            Self::Format(dtype) | Self::Kernel(_, dtype) | Self::Recurrence(_, dtype) => Some(dtype),
            Self::Pattern(_) => None,
        }
    }

    /// The name of what the kernel does, where a family holds several.
    pub const fn kind(self) -> Option<&'static str> {
        match self {
            Self::Format(_) => None,
            Self::Kernel(kind, _) => Some(kind.name()),
            Self::Pattern(kind) => Some(kind.name()),
            Self::Recurrence(kind, _) => Some(kind.name()),
        }
    }

    /// How a token changes the states, of linear attention.
    pub const fn recurrence(self) -> Option<Recurrence> {
        match self {
            Self::Recurrence(kind, _) => Some(kind),
            _ => None,
        }
    }

    /// The place among [`Family::variants`].
    pub const fn index(self) -> usize {
        match self {
            Self::Format(dtype) => dtype as usize,
            Self::Kernel(kind, dtype) => kind as usize * Dtype::ALL.len() + dtype as usize,
            Self::Pattern(kind) => kind as usize,
            Self::Recurrence(kind, dtype) => kind as usize * Dtype::ALL.len() + dtype as usize,
        }
    }

    /// The variant of a family with these names, on disk, else what is allowed.
    pub fn parse(family: Family, kind: Option<&str>, dtype: Option<Dtype>) -> Result<Self, &'static str> {
        match (family, kind, dtype) {
            (Family::Memory, Some(kind), Some(dtype)) => {
                let kind = MemoryKind::parse(kind).ok_or("the kind of a memory-bound kernel")?;
                Ok(Self::Kernel(kind, dtype))
            }
            (Family::Memory, ..) => Err("a kind and a dtype"),
            (Family::Collective, Some(kind), None) => {
                let kind = CollectiveKind::parse(kind).ok_or("the kind of a collective")?;
                Ok(Self::Pattern(kind))
            }
            (Family::Collective, ..) => Err("a kind and no dtype"),
            (Family::LinearPrefill | Family::LinearDecode, Some(kind), Some(dtype)) => {
                let kind = Recurrence::parse(kind).ok_or("the recurrence of linear attention")?;
                Ok(Self::Recurrence(kind, dtype))
            }
            (Family::LinearPrefill | Family::LinearDecode, ..) => Err("a kind and a dtype"),
            (_, None, Some(dtype)) => Ok(Self::Format(dtype)),
            _ => Err("a dtype and no kind"),
        }
    }
}

impl From<Dtype> for Variant {
    fn from(dtype: Dtype) -> Self {
        Self::Format(dtype)
    }
}

/// `bf16`, `rms_norm bf16`, `all_reduce`.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(dtype) => f.pad(dtype.name()),
            Self::Kernel(kind, dtype) => f.pad(&format!("{kind} {dtype}")),
            Self::Recurrence(kind, dtype) => f.pad(&format!("{kind} {dtype}")),
            Self::Pattern(kind) => f.pad(kind.name()),
        }
    }
}

impl Family {
    /// Every variant, in the order of [`Variant::index`].
    pub fn variants(self) -> Vec<Variant> {
        match self {
            Self::Memory => MemoryKind::ALL
                .into_iter()
                .flat_map(|kind| Dtype::ALL.map(|dtype| Variant::Kernel(kind, dtype)))
                .collect(),
            Self::Collective => CollectiveKind::ALL.map(Variant::Pattern).to_vec(),
            Self::LinearPrefill | Self::LinearDecode => Recurrence::ALL
                .into_iter()
                .flat_map(|kind| Dtype::ALL.map(|dtype| Variant::Recurrence(kind, dtype)))
                .collect(),
            _ => Dtype::ALL.map(Variant::Format).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_places_and_names_of_their_own() {
        for family in Family::ALL {
            for (place, variant) in family.variants().into_iter().enumerate() {
                assert_eq!(variant.index(), place, "{family} {variant}");
                let parsed = Variant::parse(family, variant.kind(), variant.dtype());
                assert_eq!(parsed, Ok(variant));
            }
            assert!(Variant::parse(family, Some("no-such-kind"), None).is_err());
            assert!(Variant::parse(family, None, None).is_err());
        }
    }
}
