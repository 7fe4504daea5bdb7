//! An operator as nullable columns of a flat table, and what each column may hold.

use super::{Row, measured};
use crate::error::Error;
use crate::ops::{Attention, Collective, Gemm, Memory, Op};
use crate::units::Seconds;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as NameError;

/// Columns that hold a dimension or another count; null where the family has none.
pub(super) const COUNTS: [&str; 15] = [
    "m",
    "n",
    "k",
    "batch",
    "heads",
    "kv_heads",
    "seq_q",
    "seq_kv",
    "head_dim",
    "value_dim",
    "window",
    "rows",
    "cols",
    "bytes",
    "ranks",
];

/// Columns that hold a name; null where the family has none.
pub(super) const NAMES: [&str; 5] = ["family", "layout", "dtype", "pass", "kind"];

/// The column that holds the mask of attention.
pub(super) const CAUSAL: &str = "causal";

/// Significant decimal digits of a time on disk: more than any clock resolves, fewer than a
/// double holds, so that a time reads back as the very number that was written.
const TIME_DIGITS: usize = 9;

/// Largest count: 2^53, beyond which a double skips integers.
const LARGEST_COUNT: u64 = 1 << 53;

/// Longest time of one kernel.
const LONGEST: Seconds = Seconds::from_secs(1e3);

/// The least that a count may be, and its range for messages; only a window may be 0, for none.
fn range(column: &str) -> (u64, &'static str) {
    match column {
        "window" => (0, "0 to 2^53"),
        _ => (1, "1 to 2^53"),
    }
}

/// The content of a count column.
pub(super) fn count(op: &Op, column: &str) -> Option<u64> {
    Some(match (op, column) {
        (Op::Gemm(op), "m") => op.m,
        (Op::Gemm(op), "n") => op.n,
        (Op::Gemm(op), "k") => op.k,
        (Op::Gemm(op), "batch") => op.batch,
        (Op::Attention(op), "batch") => op.batch,
        (Op::Attention(op), "heads") => op.heads,
        (Op::Attention(op), "kv_heads") => op.kv_heads,
        (Op::Attention(op), "seq_q") => op.seq_q,
        (Op::Attention(op), "seq_kv") => op.seq_kv,
        (Op::Attention(op), "head_dim") => op.head_dim,
        (Op::Attention(op), "value_dim") => op.value_dim,
        (Op::Attention(op), "window") => op.window,
        (Op::Memory(op), "rows") => op.rows,
        (Op::Memory(op), "cols") => op.cols,
        (Op::Collective(op), "bytes") => op.bytes,
        (Op::Collective(op), "ranks") => op.ranks,
        _ => return None,
    })
}

/// The content of a name column.
pub(super) fn name(op: &Op, column: &str) -> Option<&'static str> {
    Some(match (op, column) {
        (op, "family") => family(op),
        (op, "dtype") => op.dtype()?.name(),
        (Op::Gemm(op), "layout") => op.layout.name(),
        (Op::Attention(op), "pass") => op.pass.name(),
        (Op::Memory(op), "pass") => op.pass.name(),
        (Op::Memory(op), "kind") => op.kind.name(),
        (Op::Collective(op), "kind") => op.kind.name(),
        _ => return None,
    })
}

/// The content of the mask column.
pub(super) fn causal(op: &Op) -> Option<bool> {
    match op {
        Op::Attention(op) => Some(op.causal),
        _ => None,
    }
}

/// The family of an operator, as on disk.
pub(super) fn family(op: &Op) -> &'static str {
    match op {
        Op::Gemm(_) => "gemm",
        Op::Attention(_) => "attention",
        Op::Memory(_) => "memory",
        Op::Collective(_) => "collective",
    }
}

/// The cells of one row; nothing where a cell is null.
pub(super) trait Cells {
    /// A cell of one of [`COUNTS`].
    fn count(&self, column: &str) -> Option<i64>;
    /// A cell of one of [`NAMES`].
    fn name(&self, column: &str) -> Option<&str>;
    /// The cell of [`CAUSAL`].
    fn causal(&self) -> Option<bool>;
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
    pub fn at(&self, place: impl std::fmt::Display) -> Error {
        Error::field(place, self.column, &self.value, &self.allowed)
    }

    /// A cell of this column holds what it may not.
    pub fn new(column: &'static str, value: impl ToString, allowed: impl ToString) -> Self {
        let (value, allowed) = (value.to_string(), allowed.to_string());
        Self {
            column,
            value,
            allowed,
        }
    }
}

/// Puts an operator together from its cells.
pub(super) fn op(cells: &impl Cells) -> std::result::Result<Op, Problem> {
    let count = |column| {
        let allowed = range(column).1;
        let value = cells
            .count(column)
            .ok_or_else(|| Problem::new(column, "null", allowed))?;
        u64::try_from(value).map_err(|_| Problem::new(column, value, allowed))
    };
    let op = match cells.name("family").unwrap_or("null") {
        "gemm" => Op::Gemm(Gemm {
            m: count("m")?,
            n: count("n")?,
            k: count("k")?,
            batch: count("batch")?,
            layout: parse(cells, "layout")?,
            dtype: parse(cells, "dtype")?,
        }),
        "attention" => Op::Attention(Attention {
            batch: count("batch")?,
            heads: count("heads")?,
            kv_heads: count("kv_heads")?,
            seq_q: count("seq_q")?,
            seq_kv: count("seq_kv")?,
            head_dim: count("head_dim")?,
            value_dim: count("value_dim")?,
            causal: cells
                .causal()
                .ok_or_else(|| Problem::new(CAUSAL, "null", "true or false"))?,
            window: count("window")?,
            pass: parse(cells, "pass")?,
            dtype: parse(cells, "dtype")?,
        }),
        "memory" => Op::Memory(Memory {
            kind: parse(cells, "kind")?,
            rows: count("rows")?,
            cols: count("cols")?,
            pass: parse(cells, "pass")?,
            dtype: parse(cells, "dtype")?,
        }),
        "collective" => Op::Collective(Collective {
            kind: parse(cells, "kind")?,
            bytes: count("bytes")?,
            ranks: count("ranks")?,
        }),
        other => {
            let allowed = "gemm, attention, memory, collective";
            return Err(Problem::new("family", format!("`{other}`"), allowed));
        }
    };
    check_op(&op).map(|()| op)
}

/// Reads a name through the type's own `Deserialize`, which also lists the names it knows.
fn parse<'a, T: Deserialize<'a>>(
    cells: &'a impl Cells,
    column: &'static str,
) -> std::result::Result<T, Problem> {
    let text = cells.name(column).unwrap_or("null");
    T::deserialize(text.into_deserializer()).map_err(|error: NameError| {
        let error = error.to_string();
        let allowed = error.split("expected ").last().unwrap_or_default();
        Problem::new(column, format!("`{text}`"), allowed.replace('`', ""))
    })
}

/// Checks the dimensions of an operator.
fn check_op(op: &Op) -> std::result::Result<(), Problem> {
    for column in COUNTS {
        let (least, allowed) = range(column);
        if let Some(value) = count(op, column)
            && !(least..=LARGEST_COUNT).contains(&value)
        {
            return Err(Problem::new(column, value, allowed));
        }
    }
    Ok(())
}

/// Checks everything about a row that a reader relies on.
pub(super) fn check_row(row: &Row) -> std::result::Result<(), Problem> {
    check_op(&row.op)?;
    let times = [
        ("time_us", Some(row.time)),
        ("p10_us", row.p10),
        ("p90_us", row.p90),
    ];
    for (column, time) in times {
        if let Some(time) = time
            && !(time > Seconds::ZERO && time <= LONGEST)
        {
            let allowed = "more than 0 and at most 1e9";
            return Err(Problem::new(column, time.micros(), allowed));
        }
    }
    if let Some(clock) = row.clock
        && !(1e6..=1e11).contains(&clock.hertz())
    {
        return Err(Problem::new("clock_hz", clock.hertz(), "1e6 to 1e11"));
    }
    if let Some(group) = row.group
        && group > LARGEST_COUNT
    {
        return Err(Problem::new("group", group, "0 to 2^53"));
    }
    let texts: [(_, &str); 4] = [
        ("gpu", &row.gpu),
        ("stack", &row.stack),
        ("source", &row.origin.source),
        ("licence", &row.origin.licence),
    ];
    if let Some((column, _)) = texts.into_iter().find(|(_, text)| text.is_empty()) {
        return Err(Problem::new(column, "empty", "a text"));
    }
    row.measured.as_deref().map_or(Ok(()), measured::check)
}

/// A time in microseconds, rounded to the digits that are kept on disk.
pub(super) fn micros(time: Seconds) -> f64 {
    let micros = time.micros();
    let rounded = format!("{micros:.*e}", TIME_DIGITS - 1);
    rounded.parse().unwrap_or(micros)
}
