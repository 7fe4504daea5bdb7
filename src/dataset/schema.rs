//! The columns of our tables: name, range, and how each is read from a row and written to one.
//!
//! One table serves Parquet files, the lines of journals, the digest, the checks and `data/README.md`.
//! A column that is added or changes its meaning raises [`SCHEMA`].

use super::draft::Draft;
use super::{Cache, Kernel, Measured, Role, Row, Stop};
use crate::error::Error;
use crate::ops::{Dimension, Domain, OpKind, Value};
use crate::units::{Hertz, Seconds};
use std::fmt::{self, Write};
use std::sync::LazyLock;

/// The layout that is written; the columns of [`MEASURED`] came with 2.
pub const SCHEMA: u64 = 2;

/// The oldest layout that is read.
pub(super) const OLDEST_SCHEMA: u64 = 1;

/// Significant decimal digits of a time on disk: more than any clock resolves, fewer than a
/// double holds, so that a time reads back as the very number that was written.
const TIME_DIGITS: usize = 9;

/// Largest count: 2^53, beyond which a double skips integers.
const LARGEST_COUNT: u64 = 1 << 53;

/// Largest of the small counts.
const LARGEST_32: u64 = u32::MAX as u64;

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
    content: Content,
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
enum Content {
    /// A field of operators, by [`OpKind`].
    Dimension([Option<&'static Dimension>; OpKind::ALL.len()]),
    Text {
        may_be_empty: bool,
        get: fn(&Row) -> Option<&str>,
        set: fn(&mut Draft, &str),
    },
    /// One of a few names; `set` answers nothing to another.
    Name {
        names: &'static [&'static str],
        get: fn(&Row) -> Option<&'static str>,
        set: fn(&mut Draft, &str) -> Option<()>,
    },
    /// Microseconds, rounded to [`TIME_DIGITS`].
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
        get: fn(&Row) -> Option<bool>,
        set: fn(&mut Draft, bool),
    },
}

/// The type of a column on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The family, then every field of operators: names, counts, flags.
static OPERATOR: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let mut columns = vec![Column {
        name: "family",
        meaning: "which operator; the columns of the other families are null",
        presence: Presence::Always,
        content: Content::Name {
            names: &OpKind::NAMES,
            get: |row| Some(row.op.kind().name()),
            set: |draft, name| OpKind::parse(name).map(|kind| draft.row.op = kind.smallest()),
        },
    }];
    for kind in OpKind::ALL {
        for dimension in kind.dimensions() {
            let known = columns
                .iter()
                .position(|column| column.name == dimension.name);
            let place = known.unwrap_or_else(|| {
                columns.push(Column {
                    name: dimension.name,
                    meaning: "",
                    presence: Presence::Operator,
                    content: Content::Dimension([None; OpKind::ALL.len()]),
                });
                columns.len() - 1
            });
            if let Content::Dimension(families) = &mut columns[place].content {
                families[kind as usize] = Some(dimension);
            }
        }
    }
    columns.sort_by_key(|column| match column.kind() {
        Kind::Text => 0,
        Kind::Whole | Kind::Real => 1,
        Kind::Flag => 2,
    });
    columns
});

/// What all rows of a run share.
const IDENTITY: &[Column] = &[
    text(
        "gpu",
        "our name of the GPU",
        |row| Some(&row.gpu),
        |draft, text| {
            draft.row.gpu = draft.share(text);
        },
    )
    .always(),
    text(
        "stack",
        "the software that ran, with its version",
        |row| Some(&row.stack),
        |draft, text| draft.row.stack = draft.share(text),
    )
    .always(),
];

/// What was timed, over all publishers.
const TIMING: &[Column] = &[
    time(
        "time_us",
        "the median, or what the source keeps",
        |row| Some(row.time),
        |draft, time| draft.row.time = time,
    )
    .always(),
    time(
        "p10_us",
        "10 % of the repetitions are faster",
        |row| row.p10,
        |draft, time| draft.row.p10 = Some(time),
    ),
    time(
        "p90_us",
        "90 % of the repetitions are faster",
        |row| row.p90,
        |draft, time| draft.row.p90 = Some(time),
    ),
    whole(
        "samples",
        "repetitions",
        [0, LARGEST_32],
        |row| row.samples.map(u64::from),
        |draft, samples| draft.row.samples = Some(samples as u32),
    ),
    real(
        "clock_hz",
        "SM clock",
        [1e6, 1e11],
        |row| row.clock.map(Hertz::hertz),
        |draft, clock| draft.row.clock = Some(Hertz::from_hertz(clock)),
    ),
    whole(
        "group",
        "rows of one group are held out together",
        [0, LARGEST_COUNT],
        |row| row.group,
        |draft, group| draft.row.group = Some(group),
    ),
];

/// Where a row is from.
const ORIGIN: &[Column] = &[
    text(
        "source",
        "repository and commit, or the tool that measured",
        |row| Some(&row.origin.source),
        |draft, text| text.clone_into(&mut draft.origin().source),
    )
    .always(),
    text(
        "licence",
        "SPDX name of the licence of the source",
        |row| Some(&row.origin.licence),
        |draft, text| text.clone_into(&mut draft.origin().licence),
    )
    .always(),
    text(
        "libraries",
        "versions below the stack",
        |row| row.origin.libraries.as_deref(),
        |draft, text| draft.origin().libraries = Some(text.to_owned()),
    )
    .maybe_empty(),
];

/// How a row of `measure` was measured; null in rows of other tables, as the first column shows.
const MEASURED: &[Column] = &[
    text(
        "set",
        "the set of the plan",
        |row| measured(row).map(|about| about.set.as_str()),
        |draft, text| draft.begin_measured(text),
    )
    .measured(),
    name(
        "role",
        "why it was measured",
        &Role::NAMES,
        |row| measured(row).map(|about| about.role.name()),
        |draft, name| Role::parse(name).map(|role| draft.measured.role = role),
    ),
    name(
        "cache",
        "where the operands are when a call begins",
        &Cache::NAMES,
        |row| measured(row).map(|about| about.cache.name()),
        |draft, name| Cache::parse(name).map(|cache| draft.measured.cache = cache),
    ),
    name(
        "stop",
        "why no more replays were taken",
        &Stop::NAMES,
        |row| measured(row).map(|about| about.stop.name()),
        |draft, name| Stop::parse(name).map(|stop| draft.measured.stop = stop),
    ),
    text(
        "kernel",
        "the algorithm, where the library tells",
        |row| kernel(row)?.name.as_deref(),
        |draft, text| draft.kernel.name = Some(text.to_owned()),
    )
    .maybe_empty(),
    real(
        "at_s",
        "seconds since the run began, on the device's clock",
        [0.0, 1e9],
        |row| measured(row).map(|about| about.at_s),
        |draft, at_s| draft.measured.at_s = at_s,
    )
    .measured(),
    time(
        "min_us",
        "the fastest replay, per call",
        |row| measured(row).map(|about| about.min),
        |draft, time| draft.measured.min = time,
    )
    .measured(),
    time(
        "p25_us",
        "the lower quartile of the replays, per call",
        |row| measured(row).map(|about| about.quartiles.0),
        |draft, time| draft.measured.quartiles.0 = time,
    )
    .measured(),
    time(
        "p75_us",
        "the upper quartile of the replays, per call",
        |row| measured(row).map(|about| about.quartiles.1),
        |draft, time| draft.measured.quartiles.1 = time,
    )
    .measured(),
    real(
        "half_width",
        "half the 95 % interval of the median over the median; null under 7 replays",
        [0.0, 1e3],
        |row| measured(row)?.half_width,
        |draft, value| draft.measured.half_width = Some(value),
    ),
    real(
        "power_watts",
        "board power after the replays",
        [0.0, 1e5],
        |row| measured(row)?.power_watts,
        |draft, value| draft.measured.power_watts = Some(value),
    ),
    real(
        "temperature_celsius",
        "temperature after the replays",
        [-100.0, 300.0],
        |row| measured(row)?.temperature_celsius,
        |draft, value| draft.measured.temperature_celsius = Some(value),
    ),
    real(
        "waves",
        "rounds of blocks over all processors, as the library counts them",
        [0.0, 1e12],
        |row| kernel(row)?.waves,
        |draft, waves| draft.kernel.waves = Some(waves),
    ),
    whole(
        "rank",
        "the library's algorithm, 0 for its first choice",
        [0, LARGEST_32],
        |row| measured(row).map(|about| about.rank.into()),
        |draft, rank| draft.measured.rank = rank as u32,
    )
    .measured(),
    whole(
        "calls",
        "calls in the chain that one replay runs",
        [1, LARGEST_32],
        |row| measured(row).map(|about| about.calls.into()),
        |draft, calls| draft.measured.calls = calls as u32,
    )
    .measured(),
    whole(
        "tile_rows",
        "rows of the output that one block computes",
        [0, LARGEST_32],
        |row| kernel(row)?.tile.map(|tile| tile.0.into()),
        |draft, rows| draft.tile.0 = Some(rows as u32),
    ),
    whole(
        "tile_cols",
        "its columns",
        [0, LARGEST_32],
        |row| kernel(row)?.tile.map(|tile| tile.1.into()),
        |draft, cols| draft.tile.1 = Some(cols as u32),
    ),
    whole(
        "stages",
        "stages of the pipeline through shared memory",
        [0, LARGEST_32],
        |row| kernel(row)?.stages.map(u64::from),
        |draft, stages| draft.kernel.stages = Some(stages as u32),
    ),
    whole(
        "split_k",
        "parts that the reduction is split into",
        [0, LARGEST_32],
        |row| kernel(row)?.split_k.map(u64::from),
        |draft, parts| draft.kernel.split_k = Some(parts as u32),
    ),
    whole(
        "cluster_rows",
        "blocks of a cluster along the rows",
        [0, LARGEST_32],
        |row| kernel(row)?.cluster.map(|cluster| cluster.0.into()),
        |draft, rows| draft.cluster.0 = Some(rows as u32),
    ),
    whole(
        "cluster_cols",
        "and along the columns",
        [0, LARGEST_32],
        |row| kernel(row)?.cluster.map(|cluster| cluster.1.into()),
        |draft, cols| draft.cluster.1 = Some(cols as u32),
    ),
    whole(
        "workspace_bytes",
        "scratch memory that the algorithm asks for",
        [0, i64::MAX as u64],
        |row| kernel(row)?.workspace_bytes,
        |draft, bytes| draft.kernel.workspace_bytes = Some(bytes),
    ),
    Column {
        name: "remeasured",
        meaning: "whether the clock had dropped, so that this is the second time",
        presence: Presence::Measured,
        content: Content::Flag {
            get: |row| measured(row).map(|about| about.remeasured),
            set: |draft, flag| draft.measured.remeasured = flag,
        },
    },
];

/// The columns of a layout, each behind those that it depends on: the order of digests.
pub(super) fn columns(version: u64) -> impl Iterator<Item = &'static Column> {
    let measured = if version > OLDEST_SCHEMA {
        MEASURED
    } else {
        &[]
    };
    let rest = [IDENTITY, TIMING, ORIGIN, measured];
    OPERATOR.iter().chain(rest.into_iter().flatten())
}

/// Every column in the order that files have.
pub(super) fn columns_of_file() -> impl Iterator<Item = &'static Column> {
    let flags = |wanted: bool| {
        let columns = OPERATOR.iter();
        columns.filter(move |column| (column.kind() == Kind::Flag) == wanted)
    };
    let shared = IDENTITY.iter().chain(TIMING).chain(flags(true));
    shared.chain(ORIGIN).chain(flags(false)).chain(MEASURED)
}

/// The columns of one line of a journal, whose header holds what all rows share.
pub(super) fn columns_of_line() -> impl Iterator<Item = &'static Column> {
    OPERATOR.iter().chain(TIMING).chain(MEASURED)
}

/// Every column as a Markdown table, in the order of files, as `data/README.md` holds it.
pub fn columns_markdown() -> String {
    let mut table = "| column | rows | meaning | holds |\n|---|---|---|---|\n".to_owned();
    for column in columns_of_file() {
        let (rows, meaning) = match &column.content {
            Content::Dimension(families) => {
                let known = OpKind::ALL.into_iter().zip(families);
                let known = known.filter_map(|(kind, dimension)| Some((kind, (*dimension)?)));
                let (kinds, mut units): (Vec<_>, Vec<_>) =
                    known.map(|(kind, about)| (kind.name(), about.unit)).unzip();
                units.dedup();
                (kinds.join(", "), units.join(" or "))
            }
            _ => {
                let rows = match column.presence {
                    Presence::Always => "all",
                    Presence::Measured => "`measure`",
                    Presence::Operator | Presence::Known => "where known",
                };
                (rows.to_owned(), column.meaning.to_owned())
            }
        };
        let (name, allowed) = (column.name, column.allowed(None));
        writeln!(table, "| `{name}` | {rows} | {meaning} | {allowed} |")
            .expect("a String grows without failing");
    }
    table
}

/// Checks everything about a row that a reader relies on.
pub(super) fn check(row: &Row) -> Result<(), Problem> {
    columns(SCHEMA).try_for_each(|column| column.check(row))
}

impl Column {
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

    /// What the row holds; nothing where the cell is null.
    pub fn get<'a>(&self, row: &'a Row) -> Option<Cell<'a>> {
        match &self.content {
            Content::Dimension(families) => {
                let value = families[row.op.kind() as usize]?.get(&row.op)?;
                Some(match value {
                    Value::Count(count) => Cell::Whole(count as i64),
                    Value::Flag(flag) => Cell::Flag(flag),
                    Value::Choice(name) => Cell::Text(name),
                })
            }
            Content::Text { get, .. } => get(row).map(Cell::Text),
            Content::Name { get, .. } => get(row).map(Cell::Text),
            Content::Time { get, .. } => get(row).map(|time| Cell::Real(micros(time))),
            Content::Real { get, .. } => get(row).map(Cell::Real),
            Content::Whole { get, .. } => get(row).map(|value| Cell::Whole(value as i64)),
            Content::Flag { get, .. } => get(row).map(Cell::Flag),
        }
    }

    /// Writes a cell into the draft of a row.
    ///
    /// Null texts and times that every row needs stay empty or 0, which [`check`] refuses.
    pub fn set(&self, draft: &mut Draft, cell: Option<Cell<'_>>) -> Result<(), Problem> {
        let kind = draft.row.op.kind();
        let needed = match (&self.content, self.presence) {
            (Content::Dimension(families), _) if families[kind as usize].is_none() => return Ok(()),
            (Content::Dimension(_), _) => true,
            (Content::Name { .. }, Presence::Always) => true,
            (_, presence) => presence == Presence::Measured && draft.is_measured(),
        };
        let Some(cell) = cell else {
            let is_name = self.kind() == Kind::Text;
            let null = if is_name { "`null`" } else { "null" };
            return match needed {
                true => Err(self.problem(null, Some(kind))),
                false => Ok(()),
            };
        };
        let is_taken = match (&self.content, cell) {
            (Content::Dimension(families), cell) => {
                let dimension = families[kind as usize].expect("others have returned");
                let value = match (dimension.domain, cell) {
                    (Domain::Count { .. }, Cell::Whole(count)) => {
                        u64::try_from(count).ok().map(Value::Count)
                    }
                    (Domain::Flag, Cell::Flag(flag)) => Some(Value::Flag(flag)),
                    (Domain::Choice(names), Cell::Text(text)) => {
                        let name = names.iter().find(|name| **name == text);
                        name.map(|name| Value::Choice(name))
                    }
                    _ => None,
                };
                value.is_some_and(|value| dimension.set(&mut draft.row.op, value))
            }
            (Content::Text { set, .. }, Cell::Text(text)) => {
                set(draft, text);
                true
            }
            (Content::Name { set, .. }, Cell::Text(text)) => set(draft, text).is_some(),
            (Content::Time { set, .. }, Cell::Real(value)) => {
                set(draft, Seconds::from_micros(value));
                true
            }
            (Content::Real { set, .. }, Cell::Real(value)) => {
                set(draft, value);
                true
            }
            (Content::Whole { set, range, .. }, Cell::Whole(value)) => {
                let [least, most] = *range;
                let value = u64::try_from(value).ok();
                let value = value.filter(|value| (least..=most).contains(value));
                value.map(|value| set(draft, value)).is_some()
            }
            (Content::Flag { set, .. }, Cell::Flag(flag)) => {
                set(draft, flag);
                true
            }
            // A cell of another type than the column's.
            _ => false,
        };
        match is_taken {
            true => Ok(()),
            false => Err(self.problem(cell.quoted(), Some(kind))),
        }
    }

    fn check(&self, row: &Row) -> Result<(), Problem> {
        let kind = row.op.kind();
        let problem = |value: &dyn fmt::Display| Err(self.problem(value, Some(kind)));
        match &self.content {
            Content::Dimension(_) => match (self.get(row), self.domain(Some(kind))) {
                (Some(Cell::Whole(value)), Domain::Count { least, .. })
                    if !(least as i64..=LARGEST_COUNT as i64).contains(&value) =>
                {
                    problem(&value)
                }
                _ => Ok(()),
            },
            Content::Text {
                get, may_be_empty, ..
            } => match get(row) {
                Some("") if !may_be_empty => problem(&"empty"),
                _ => Ok(()),
            },
            Content::Time { get, .. } => match get(row) {
                Some(time) if !(time > Seconds::ZERO && time.micros() <= LONGEST_US) => {
                    problem(&time.micros())
                }
                _ => Ok(()),
            },
            Content::Real {
                get,
                range: [least, most],
                ..
            } => match get(row) {
                Some(value) if !(*least..=*most).contains(&value) => problem(&value),
                _ => Ok(()),
            },
            Content::Whole {
                get,
                range: [least, most],
                ..
            } => match get(row) {
                Some(value) if !(*least..=*most).contains(&value) => problem(&value),
                _ => Ok(()),
            },
            Content::Name { .. } | Content::Flag { .. } => Ok(()),
        }
    }

    fn problem(&self, value: impl fmt::Display, kind: Option<OpKind>) -> Problem {
        Problem {
            column: self.name,
            value: value.to_string(),
            allowed: self.allowed(kind),
        }
    }

    /// What a cell may hold, in rows of such operators.
    fn allowed(&self, kind: Option<OpKind>) -> String {
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
        let Content::Dimension(families) = &self.content else {
            unreachable!("only dimensions have a domain");
        };
        let of_kind = kind.and_then(|kind| families[kind as usize]);
        let first = || families.iter().copied().flatten().next();
        of_kind.or_else(first).expect("some family has it").domain
    }

    const fn always(mut self) -> Self {
        self.presence = Presence::Always;
        self
    }

    const fn measured(mut self) -> Self {
        self.presence = Presence::Measured;
        self
    }

    const fn maybe_empty(mut self) -> Self {
        if let Content::Text { may_be_empty, .. } = &mut self.content {
            *may_be_empty = true;
        }
        self
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
    pub fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(value) => Some(value),
            _ => None,
        }
    }

    /// The content of a column of real numbers.
    pub fn real(self) -> Option<f64> {
        match self {
            Self::Real(value) => Some(value),
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
            Self::Text(text) => format!("`{text}`"),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Whole(value) => value.fmt(f),
            Self::Real(value) => value.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
        }
    }
}

fn measured(row: &Row) -> Option<&Measured> {
    row.measured.as_deref()
}

fn kernel(row: &Row) -> Option<&Kernel> {
    measured(row)?.kernel.as_ref()
}

/// A time in microseconds, rounded to the digits that are kept on disk.
fn micros(time: Seconds) -> f64 {
    let micros = time.micros();
    let rounded = format!("{micros:.*e}", TIME_DIGITS - 1);
    rounded.parse().unwrap_or(micros)
}

/// A range of whole numbers, large ends as powers of two.
fn whole_range([least, most]: [u64; 2]) -> String {
    match most.is_power_of_two() {
        true => format!("{least} to 2^{}", most.ilog2()),
        false => format!("{least} to 2^{} - 1", most.ilog2() + 1),
    }
}

const fn column(name: &'static str, meaning: &'static str, content: Content) -> Column {
    Column {
        name,
        meaning,
        presence: Presence::Known,
        content,
    }
}

const fn text(
    name: &'static str,
    meaning: &'static str,
    get: fn(&Row) -> Option<&str>,
    set: fn(&mut Draft, &str),
) -> Column {
    let may_be_empty = false;
    column(
        name,
        meaning,
        Content::Text {
            may_be_empty,
            get,
            set,
        },
    )
}

/// A name of an enum in rows of `measure`.
const fn name(
    name: &'static str,
    meaning: &'static str,
    names: &'static [&'static str],
    get: fn(&Row) -> Option<&'static str>,
    set: fn(&mut Draft, &str) -> Option<()>,
) -> Column {
    column(name, meaning, Content::Name { names, get, set }).measured()
}

const fn time(
    name: &'static str,
    meaning: &'static str,
    get: fn(&Row) -> Option<Seconds>,
    set: fn(&mut Draft, Seconds),
) -> Column {
    column(name, meaning, Content::Time { get, set })
}

const fn real(
    name: &'static str,
    meaning: &'static str,
    range: [f64; 2],
    get: fn(&Row) -> Option<f64>,
    set: fn(&mut Draft, f64),
) -> Column {
    column(name, meaning, Content::Real { range, get, set })
}

const fn whole(
    name: &'static str,
    meaning: &'static str,
    range: [u64; 2],
    get: fn(&Row) -> Option<u64>,
    set: fn(&mut Draft, u64),
) -> Column {
    column(name, meaning, Content::Whole { range, get, set })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of this list is a change of the layout on disk: it raises [`SCHEMA`].
    #[test]
    fn files_have_these_columns_in_this_order() {
        let names: Vec<&str> = columns_of_file().map(|column| column.name).collect();
        let expected = "gpu stack time_us p10_us p90_us samples clock_hz group causal source licence \
             libraries family layout dtype pass kind m n k batch heads kv_heads seq_q seq_kv head_dim \
             value_dim window rows cols bytes ranks set role cache stop kernel at_s min_us p25_us p75_us \
             half_width power_watts temperature_celsius waves rank calls tile_rows tile_cols stages split_k \
             cluster_rows cluster_cols workspace_bytes remeasured";
        assert_eq!(names.join(" "), expected);
        let required = columns_of_file().filter(|column| column.presence == Presence::Always);
        let required: Vec<&str> = required.map(|column| column.name).collect();
        assert_eq!(
            required.join(" "),
            "gpu stack time_us source licence family"
        );
        let mut of_digest: Vec<&str> = columns(SCHEMA).map(|column| column.name).collect();
        let mut names = names;
        of_digest.sort_unstable();
        names.sort_unstable();
        assert_eq!(of_digest, names);
    }

    #[test]
    fn the_readme_documents_every_column() {
        let readme = include_str!("../../data/README.md");
        let table = columns_markdown();
        assert!(readme.contains(&table), "data/README.md must hold\n{table}");
    }
}
