//! One column of our tables: what its cells hold, and how a row gives and takes them.

use super::draft::Draft;
use super::{Measured, Row};
use crate::error::Error;
use crate::ops::{Dimension, Domain, OpKind, Value};
use crate::stats::rounded;
use crate::units::Seconds;
use std::fmt;

/// Significant decimal digits of a time on disk: more than any clock resolves, fewer than a
/// double holds, so that a time reads back as the very number that was written.
const TIME_DIGITS: usize = 9;

/// Largest count: 2^53, beyond which a double skips integers.
pub(super) const LARGEST_COUNT: u64 = 1 << 53;

/// Longest time of one kernel in microseconds.
const LONGEST_US: f64 = 1e9;

/// One column.
pub(super) struct Column {
    /// The name on disk; it ends in the unit where there is one.
    pub name: &'static str,
    /// What a cell says, for `data/README.md`.
    pub meaning: &'static str,
    /// Which rows have it.
    pub presence: Presence,
    /// What the cells hold.
    pub content: Content,
}

/// Which rows have a cell that is not null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// All.
    Always,
    /// Those of operators that have this dimension.
    Operator,
    /// Those of `measure`.
    Measured,
    /// Those where it is known.
    Known,
}

/// What the cells hold, and how a row gives and takes it.
pub(super) enum Content {
    /// A field of operators, by [`OpKind`].
    Dimension([Option<&'static Dimension>; OpKind::ALL.len()]),
    /// A text; one that is not empty where rows must have it.
    Text {
        get: fn(&Row) -> Option<&str>,
        set: fn(&mut Draft, &str),
    },
    /// One of a few names; `set` returns `None` for any other.
    Name {
        names: &'static [&'static str],
        get: fn(&Row) -> Option<&'static str>,
        set: fn(&mut Draft, &str) -> Option<()>,
    },
    /// Microseconds on disk, rounded to [`TIME_DIGITS`].
    Time {
        get: fn(&Row) -> Option<Seconds>,
        set: fn(&mut Draft, Seconds),
    },
    Real {
        range: [f64; 2],
        get: fn(&Row) -> Option<f64>,
        set: fn(&mut Draft, f64),
    },
    Whole {
        range: [u64; 2],
        get: fn(&Row) -> Option<u64>,
        set: fn(&mut Draft, u64),
    },
    Flag {
        get: fn(&Measured) -> bool,
        set: fn(&mut Draft, bool),
    },
}

/// The type of a column on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// UTF-8.
    Text,
    /// 64-bit integers.
    Whole,
    /// 64-bit floating point.
    Real,
    /// True and false.
    Flag,
}

/// What one row holds in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Whole(i64),
    Real(f64),
    /// A time of a row, in microseconds before they are rounded for the disk.
    Micros(f64),
    Flag(bool),
}

/// A cell that breaks a rule.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    /// The column.
    pub column: &'static str,
    /// What the cell holds.
    pub value: String,
    /// What it may hold.
    pub allowed: String,
}

impl Problem {
    /// The problem as an error; `place` names the file and the row.
    pub fn at(&self, place: impl fmt::Display) -> Error {
        Error::field(place, self.column, &self.value, &self.allowed)
    }
}

impl Column {
    /// The layout that came with it, if it is one of operators.
    pub fn layout(&self) -> Option<u64> {
        let Content::Dimension(of) = &self.content else {
            return None;
        };
        let having = OpKind::ALL.into_iter().zip(of).filter(|(_, has)| has.is_some());
        having.map(|(kind, _)| kind.layout()).min()
    }

    /// Whether operators of this kind have it, and which of them are not known without it.
    pub fn need(&self, kind: OpKind) -> Option<bool> {
        match &self.content {
            Content::Dimension(of) => of[kind as usize].map(Dimension::is_needed),
            _ => None,
        }
    }

    /// The type on disk.
    pub fn kind(&self) -> Kind {
        match &self.content {
            Content::Dimension(_) => match self.domain(None) {
                Domain::Count { .. } => Kind::Whole,
                Domain::Flag => Kind::Flag,
                Domain::Choice(_) => Kind::Text,
            },
            Content::Text { .. } | Content::Name { .. } => Kind::Text,
            Content::Time { .. } | Content::Real { .. } => Kind::Real,
            Content::Whole { .. } => Kind::Whole,
            Content::Flag { .. } => Kind::Flag,
        }
    }

    /// What the row holds; `None` if the cell is null.
    pub fn get<'a>(&self, row: &'a Row) -> Option<Cell<'a>> {
        Some(match &self.content {
            Content::Dimension(of) => match of[row.op.kind() as usize]?.get(&row.op)? {
                Value::Count(count) => Cell::Whole(count as i64),
                Value::Flag(flag) => Cell::Flag(flag),
                Value::Choice(name) => Cell::Text(name),
            },
            Content::Text { get, .. } => Cell::Text(get(row)?),
            Content::Name { get, .. } => Cell::Text(get(row)?),
            Content::Time { get, .. } => Cell::Micros(get(row)?.micros()),
            Content::Real { get, .. } => Cell::Real(get(row)?),
            Content::Whole { get, .. } => Cell::Whole(get(row)? as i64),
            Content::Flag { get, .. } => Cell::Flag(get(row.measured.as_deref()?)),
        })
    }

    /// Writes a cell into the draft of a row.
    ///
    /// Null texts and times that every row needs stay empty or 0, which [`Column::check`] refuses.
    pub fn set(&self, draft: &mut Draft, cell: Option<Cell<'_>>) -> Result<(), Problem> {
        let kind = draft.row.op.kind();
        let needed = match (&self.content, self.presence) {
            (Content::Dimension(of), _) if of[kind as usize].is_none() => return Ok(()),
            (Content::Dimension(_), _) | (Content::Name { .. }, Presence::Always) => true,
            (_, presence) => presence == Presence::Measured && draft.is_measured(),
        };
        let Some(cell) = cell else {
            let is_text = self.kind() == Kind::Text;
            let null = if is_text { "`null`" } else { "null" };
            return match needed {
                true => Err(self.problem(null.to_owned(), kind)),
                false => Ok(()),
            };
        };
        match (&self.content, cell) {
            (Content::Dimension(of), cell) if fill(of[kind as usize], draft, cell) => {}
            (Content::Text { set, .. }, Cell::Text(text)) => set(draft, text),
            (Content::Name { set, .. }, Cell::Text(text)) if set(draft, text).is_some() => {}
            (Content::Time { set, .. }, Cell::Real(value)) => {
                set(draft, Seconds::from_micros(value));
            }
            (Content::Real { set, .. }, Cell::Real(value)) => set(draft, value),
            (Content::Whole { set, .. }, Cell::Whole(value)) if self.holds(cell, kind) => {
                set(draft, value as u64);
            }
            (Content::Flag { set, .. }, Cell::Flag(flag)) => set(draft, flag),
            _ => return Err(self.problem(cell.quoted(), kind)),
        }
        Ok(())
    }

    /// Checks what a reader of this column relies on.
    pub fn check(&self, row: &Row) -> Result<(), Problem> {
        let kind = row.op.kind();
        match self.get(row) {
            Some(cell) if !self.holds(cell, kind) => Err(self.problem(cell.quoted(), kind)),
            _ => Ok(()),
        }
    }

    /// Whether a cell is in the range of the column; types have made sure of names and flags.
    fn holds(&self, cell: Cell<'_>, kind: OpKind) -> bool {
        match (&self.content, cell) {
            (Content::Dimension(_), Cell::Whole(value)) => match self.domain(Some(kind)) {
                Domain::Count { least, .. } => is_within(value, [least, LARGEST_COUNT]),
                Domain::Flag | Domain::Choice(_) => false,
            },
            (Content::Text { .. }, Cell::Text(text)) => self.presence == Presence::Known || !text.is_empty(),
            (Content::Time { .. }, Cell::Micros(micros)) => micros > 0.0 && micros <= LONGEST_US,
            (Content::Real { range, .. }, Cell::Real(value)) => (range[0]..=range[1]).contains(&value),
            (Content::Whole { range, .. }, Cell::Whole(value)) => is_within(value, *range),
            _ => true,
        }
    }

    fn problem(&self, value: String, kind: OpKind) -> Problem {
        Problem {
            column: self.name,
            value,
            allowed: self.allowed(Some(kind)),
        }
    }

    /// What a cell may hold, in rows of such operators.
    pub fn allowed(&self, kind: Option<OpKind>) -> String {
        match &self.content {
            Content::Dimension(_) => match self.domain(kind) {
                Domain::Count { least, .. } => whole_range([least, LARGEST_COUNT]),
                Domain::Flag => "true or false".to_owned(),
                Domain::Choice(names) => names.join(", "),
            },
            Content::Text { .. } => "a text".to_owned(),
            Content::Name { names, .. } => names.join(", "),
            Content::Time { .. } => "more than 0 and at most 1e9".to_owned(),
            Content::Real { range, .. } => {
                let [least, most] = range.map(|bound| match bound.abs() >= 1e4 {
                    true => format!("{bound:e}"),
                    false => bound.to_string(),
                });
                format!("{least} to {most}")
            }
            Content::Whole { range, .. } => whole_range(*range),
            Content::Flag { .. } => "true or false".to_owned(),
        }
    }

    /// What a dimension may hold in operators of this family, or of the first that has it.
    fn domain(&self, kind: Option<OpKind>) -> Domain {
        let Content::Dimension(of) = &self.content else {
            unreachable!("only dimensions have a domain");
        };
        let of_kind = kind.and_then(|kind| of[kind as usize]);
        let first = || of.iter().copied().flatten().next();
        of_kind.or_else(first).expect("some family has it").domain
    }
}

/// Writes a cell to a field of the operator; false where it cannot hold it.
fn fill(dimension: Option<&Dimension>, draft: &mut Draft, cell: Cell<'_>) -> bool {
    let Some(dimension) = dimension else {
        return false;
    };
    let value = match (dimension.domain, cell) {
        (Domain::Count { .. }, Cell::Whole(count)) => u64::try_from(count).ok().map(Value::Count),
        (Domain::Flag, Cell::Flag(flag)) => Some(Value::Flag(flag)),
        (Domain::Choice(names), Cell::Text(text)) => {
            let name = names.iter().find(|name| **name == text);
            name.map(|name| Value::Choice(name))
        }
        _ => None,
    };
    value.is_some_and(|value| dimension.set(&mut draft.row.op, value))
}

fn is_within(value: i64, [least, most]: [u64; 2]) -> bool {
    u64::try_from(value).is_ok_and(|value| (least..=most).contains(&value))
}

/// A range of whole numbers, large ends as powers of two.
fn whole_range([least, most]: [u64; 2]) -> String {
    match most.is_power_of_two() {
        true => format!("{least} to 2^{}", most.ilog2()),
        false => format!("{least} to 2^{} - 1", most.ilog2() + 1),
    }
}

impl<'a> Cell<'a> {
    /// The content of a text column.
    pub fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The content of a column of whole numbers.
    #[allow(dead_code, reason = "nothing is written without `dataset`")]
    pub fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(value) => Some(value),
            _ => None,
        }
    }

    /// The content of a column of real numbers, as on disk.
    pub fn real(self) -> Option<f64> {
        match self {
            Self::Real(value) => Some(value),
            Self::Micros(micros) => Some(rounded(micros, TIME_DIGITS)),
            _ => None,
        }
    }

    /// The content of a column of true and false.
    pub fn flag(self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// As messages show it.
    fn quoted(self) -> String {
        match self {
            Self::Text("") => "empty".to_owned(),
            Self::Text(text) => format!("`{text}`"),
            Self::Micros(micros) => micros.to_string(),
            other => other.to_string(),
        }
    }
}

/// As digests have it.
impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
            Self::Micros(micros) => rounded(*micros, TIME_DIGITS).fmt(f),
            Self::Flag(flag) => flag.fmt(f),
        }
    }
}
