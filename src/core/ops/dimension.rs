//! The fields of operators as data: what columns, documents, coverage and sweeps iterate over.

use super::{Op, OpKind};

/// One field of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// The field of the struct, and so the column on disk and the key on the wire.
    pub name: &'static str,
    /// What a count counts; empty for flags and choices.
    pub unit: &'static str,
    /// What the field may hold.
    pub domain: Domain,
    pub(super) get: fn(&Op) -> Option<Value>,
    pub(super) set: fn(&mut Op, Value) -> bool,
}

/// What a field may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Whole numbers.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// True or false.
    Flag,
    /// One of these names.
    Choice(&'static [&'static str]),
}

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// True or false.
    Flag(bool),
    /// A name.
    Choice(&'static str),
}

/// The largest size that may be asked for.
pub const LARGEST: u64 = 1 << 32;

impl Dimension {
    /// The key of this field beside the `kind` of operator, which is the struct's own name.
    pub fn key(&self, kind: OpKind) -> &'static str {
        match (kind, self.name) {
            (OpKind::Collective, "kind") => "pattern",
            (OpKind::LinearAttention, "kind") => "recurrence",
            (_, "kind") => "function",
            (_, name) => name,
        }
    }

    /// Whether an operator is not known without it: sizes are, but for those that are usually 1 or none, and the kind is.
    pub fn is_needed(&self) -> bool {
        let usual = ["batch", "window", "stride"].contains(&self.name);
        self.name == "kind" || !self.unit.is_empty() && !usual
    }

    /// The content of this field; `None` if the operator is of another family.
    pub fn get(&self, op: &Op) -> Option<Value> {
        (self.get)(op)
    }

    /// Writes the field; false where the operator is of another family or the value of another kind.
    #[must_use]
    pub fn set(&self, op: &mut Op, value: Value) -> bool {
        (self.set)(op, value)
    }
}

impl Domain {
    /// Whether a field may hold this.
    pub fn contains(&self, value: Value) -> bool {
        match (self, value) {
            (Self::Count { least, most }, Value::Count(count)) => (*least..=*most).contains(&count),
            (Self::Flag, Value::Flag(_)) => true,
            (Self::Choice(names), Value::Choice(name)) => names.contains(&name),
            _ => false,
        }
    }

    /// What is allowed, for messages.
    pub fn allowed(&self) -> String {
        match self {
            Self::Count { least, most } => format!("whole numbers from {least} to {most}"),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(names) => names.join(", "),
        }
    }

    /// Reads a content from text; what is allowed where the text is nothing of the kind.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self {
            Self::Count { .. } => text.parse().ok().map(Value::Count),
            Self::Flag => text.parse().ok().map(Value::Flag),
            Self::Choice(names) => {
                let known = names.iter().find(|name| **name == text);
                known.map(|name| Value::Choice(name))
            }
        };
        value
            .filter(|value| self.contains(*value))
            .ok_or_else(|| self.allowed())
    }
}

impl Value {
    /// The number of a count.
    pub const fn count(self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count),
            _ => None,
        }
    }

    /// The side of a flag.
    pub const fn flag(self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// The name of a choice.
    pub const fn choice(self) -> Option<&'static str> {
        match self {
            Self::Choice(name) => Some(name),
            _ => None,
        }
    }
}

/// A whole number of at least `least`.
macro_rules! count {
    ($family:ident, $field:ident, $least:literal, $unit:literal) => {
        $crate::ops::dimension::count!($family, $field, $least, $crate::ops::LARGEST, $unit)
    };
    ($family:ident, $field:ident, $least:literal, $most:expr, $unit:literal) => {
        $crate::ops::dimension::field!(
            $family,
            $field,
            $unit,
            $crate::ops::dimension::Domain::Count {
                least: $least,
                most: $most
            },
            Count(value) => Some(value),
            |value| value
        )
    };
}

/// True or false.
macro_rules! flag {
    ($family:ident, $field:ident) => {
        $crate::ops::dimension::field!(
            $family,
            $field,
            "",
            $crate::ops::dimension::Domain::Flag,
            Flag(value) => Some(value),
            |value| value
        )
    };
}

/// A name of an enum, or one of some of them.
macro_rules! choice {
    ($family:ident, $field:ident, $type:ident) => {
        $crate::ops::dimension::choice!($family, $field, $type, NAMES)
    };
    ($family:ident, $field:ident, $type:ident, $names:ident) => {
        $crate::ops::dimension::field!(
            $family,
            $field,
            "",
            $crate::ops::dimension::Domain::Choice(&$type::$names),
            Choice(value) => $type::parse(value),
            |value| value.name()
        )
    };
}

/// Reads and writes one field of one family.
macro_rules! field {
    ($family:ident, $field:ident, $unit:literal, $domain:expr, $kind:ident($value:ident) => $parsed:expr, |$held:ident| $shown:expr) => {
        Dimension {
            name: stringify!($field),
            unit: $unit,
            domain: $domain,
            get: |op| match op {
                Op::$family($family { $field: $held, .. }) => {
                    let $held = *$held;
                    Some($crate::ops::dimension::Value::$kind($shown))
                }
                _ => None,
            },
            set: |op, value| match (op, value) {
                (Op::$family(op), $crate::ops::dimension::Value::$kind($value)) => {
                    $parsed.map(|value| op.$field = value).is_some()
                }
                _ => false,
            },
        }
    };
}

pub(super) use {choice, count, field, flag};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attention, Gemm, OpKind};

    #[test]
    fn every_field_of_every_family_is_written_and_read_back() {
        for kind in OpKind::ALL {
            let smallest = kind.smallest();
            assert_eq!(smallest.kind(), kind);
            for dimension in kind.dimensions() {
                let values = match dimension.domain {
                    Domain::Count { least, most } => vec![Value::Count(least), Value::Count(most)],
                    Domain::Flag => vec![Value::Flag(false), Value::Flag(true)],
                    Domain::Choice(names) => names.iter().map(|name| Value::Choice(name)).collect(),
                };
                let mut changed = smallest;
                let mut differs = false;
                for value in values {
                    assert!(dimension.domain.contains(value), "{}", dimension.name);
                    assert!(dimension.set(&mut changed, value), "{}", dimension.name);
                    assert_eq!(dimension.get(&changed), Some(value), "{}", dimension.name);
                    let text = match value {
                        Value::Count(count) => count.to_string(),
                        Value::Flag(flag) => flag.to_string(),
                        Value::Choice(name) => name.to_owned(),
                    };
                    assert_eq!(dimension.domain.parse(&text), Ok(value));
                    differs |= changed != smallest;
                }
                assert!(differs, "{} is not written", dimension.name);
            }
            // What the table does not name would be missing on disk and on the wire: all fields are there.
            let shown = format!("{smallest:?}");
            assert_eq!(shown.matches(": ").count(), kind.dimensions().len(), "{shown}");
        }
    }

    #[test]
    fn values_of_another_kind_or_family_are_refused() {
        let mut op = Op::Gemm(Gemm::new(1, 2, 3));
        let m = op.dimension("m").unwrap();
        assert!(!m.set(&mut op, Value::Flag(true)));
        assert!(!op.dimension("layout").unwrap().set(&mut op, Value::Choice("bf16")));
        let mut other = Op::Attention(Attention::new(1, 2, 3, 4));
        assert!(!m.set(&mut other, Value::Count(7)) && m.get(&other).is_none());
        assert!(op.dimension("heads").is_none());
        assert_eq!(m.domain.parse("0"), Err(format!("whole numbers from 1 to {LARGEST}")));
        assert_eq!(m.domain.parse("x"), m.domain.parse("4294967297"));
    }
}
