//! Results for readers: one serialisable document per command, printed as tables or as JSON.
//!
//! A document holds plain numbers whose keys carry the unit; text and JSON are made from the same
//! document, so they cannot disagree. Nothing here prints.

pub mod architecture;

pub mod calibration;

pub mod check;

pub mod gpus;

pub mod graph;

pub mod models;

pub mod operator;

pub mod operator_check;

pub mod plan;

pub mod plot;

pub mod presets;

pub mod prune;

mod roofline;

pub mod sarif;

pub mod search;

mod shape;

pub mod step;

pub mod sweep;

#[doc(hidden)]
pub mod table;

pub mod tables;

use crate::gpu::Gpu;
use crate::predict::estimate::{Caveat, TierShares};
use crate::predict::scope::Scope;
use crate::report::plot::Chart;
use crate::units::{Seconds, significant};
use serde::{Serialize, Serializer};
use std::fmt::{self, Display};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The version of every JSON document; raised when a key changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// A result that can be read by people and by programs.
pub trait Report: Serialize + Sized {
    /// The lists of the document whose entries are the lines of its CSV, an inner list after a dot; the document itself
    /// is the only line if there are none.
    const LISTS: &'static [&'static str] = &[];

    /// Sentences and marked tables, with a line break at the end.
    fn page(&self) -> String;

    /// What a picture of it shows; `None` if there is none.
    fn drawn(&self) -> Option<Chart> {
        None
    }

    /// Tables and sentences, with a line break at the end, every column and line as wide as it comes.
    fn text(&self) -> String {
        table::laid_out(&self.page(), None, false)
    }

    /// The same for a terminal: verdicts, gains and losses are coloured; in lines of at most `width` characters, for
    /// which columns of little importance are left out and named.
    fn shown(&self, width: Option<usize>) -> String {
        table::laid_out(&self.page(), width, true)
    }

    /// Tables of Markdown, and the text between them as it is.
    fn markdown(&self) -> String {
        table::markdown(&self.page())
    }

    /// One JSON document, with a line break at the end.
    fn json(&self) -> String {
        let document = Document {
            schema: SCHEMA,
            report: self,
        };
        let mut text =
            serde_json::to_string_pretty(&document).expect("documents hold strings, numbers and lists of them only");
        text.push('\n');
        text
    }
}

/// A report of any kind.
pub trait AnyReport: Send + Sync {
    /// Tables and sentences, with a line break at the end.
    fn text(&self) -> String;

    /// The same with tables of Markdown.
    fn markdown(&self) -> String;

    /// One JSON document, with a line break at the end.
    fn json(&self) -> String;

    /// What a picture of it shows; `None` if there is none.
    fn drawn(&self) -> Option<Chart>;
}

impl<R: Report + Send + Sync> AnyReport for R {
    fn text(&self) -> String {
        Report::text(self)
    }

    fn markdown(&self) -> String {
        Report::markdown(self)
    }

    fn json(&self) -> String {
        Report::json(self)
    }

    fn drawn(&self) -> Option<Chart> {
        Report::drawn(self)
    }
}

#[derive(Serialize)]
struct Document<'a, R> {
    schema: u32,
    #[serde(flatten)]
    report: &'a R,
}

/// The GPU of a document: its name in JSON, title and name for people.
#[derive(Clone, Debug, PartialEq)]
struct NamedGpu {
    name: String,
    title: String,
}

impl From<&Gpu> for NamedGpu {
    fn from(gpu: &Gpu) -> Self {
        Self {
            name: gpu.name.clone(),
            title: gpu.title.clone(),
        }
    }
}

impl Display for NamedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.name)
    }
}

impl Serialize for NamedGpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name.serialize(serializer)
    }
}

impl PartialSchema for NamedGpu {
    fn schema() -> RefOr<Schema> {
        String::schema()
    }
}

impl ToSchema for NamedGpu {}

/// What the numbers of one operator family are based on.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Basis {
    /// Operator family.
    pub family: &'static str,
    /// Number format; of memory-bound kernels and collectives with what they do.
    pub dtype: String,
    /// Software stack and GPU that were learned from; `None` if nothing was learned.
    pub stack: Option<String>,
    /// The software that the 90 % intervals of these operators hold for.
    pub interval: Scope,
}

impl Basis {
    /// `gemm bf16: trtllm 1.3.0rc20 on h200`.
    fn text(&self) -> String {
        let stack = self.stack.as_deref().unwrap_or("roofline, nothing learned");
        let holds = match self.interval {
            Scope::ThisStack => "",
            Scope::AnyStack => ", intervals of operators for any stack",
        };
        format!("{} {}: {stack}{holds}", self.family, self.dtype)
    }
}

/// What all numbers are based on, in words.
fn based_on(basis: &[Basis]) -> String {
    match basis {
        [] => "a roofline, nothing learned".to_owned(),
        _ => joined("; ", basis.iter().map(Basis::text)),
    }
}

/// Texts with this between them.
fn joined<T: Display>(between: &str, texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| text.to_string()).collect();
    texts.join(between)
}

/// `254.4 ms   (90 %: 224.0 ms to 288.9 ms)`.
fn time_text(time: Seconds, low: Seconds, high: Seconds) -> String {
    format!("{time}   (90 %: {low} to {high})")
}

/// `vllm takes at least 3.300 ms a decode step, whatever the model`.
fn server_text(framework: &str, least: Seconds) -> String {
    format!("{framework} takes at least {least} a decode step, whatever the model")
}

/// Lines with a name each.
fn named_lines(lines: &[(&str, String)]) -> String {
    let line = |(name, text): &(&str, String)| format!("{name:<9} {text}\n");
    lines.iter().map(line).collect()
}

/// A warning about a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
pub struct Warning {
    /// Which.
    pub caveat: Caveat,
    /// What it means.
    pub text: &'static str,
}

impl From<Caveat> for Warning {
    fn from(caveat: Caveat) -> Self {
        Self {
            caveat,
            text: caveat.text(),
        }
    }
}

/// A fraction as people read it: `94 %`, `3.4 %`, `0.2 %`.
pub fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    match value.abs() {
        none if none < 0.05 => "0.0 %".to_owned(),
        less if less < 9.95 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// A change as people read it: `+4.2 %`, `-12 %`.
pub fn signed(fraction: f64) -> String {
    let shown = percent(fraction);
    match fraction > 0.0 && shown != percent(0.0) {
        true => format!("+{shown}"),
        false => shown,
    }
}

/// The tiers with any share: `94 % learned, 6.0 % roofline`.
fn tier_shares_text(shares: TierShares) -> String {
    let mut present: Vec<_> = shares.each().filter(|(_, share)| *share > 0.0).collect();
    present.sort_by(|a, b| b.1.total_cmp(&a.1));
    let part = |(tier, share)| format!("{} {tier}", percent(share));
    joined(", ", present.into_iter().map(part))
}

/// A rate of tokens: whole above a hundred, four digits below.
fn tokens(rate: f64) -> String {
    if rate >= 100.0 {
        grouped(rate.round() as u64)
    } else {
        significant(rate)
    }
}

/// A whole number with commas between thousands.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (shown, expected) in [
            (percent(0.943), "94 %"),
            (percent(0.0996), "10 %"),
            (percent(0.0341), "3.4 %"),
            (grouped(1_234_567), "1,234,567"),
            (grouped(999), "999"),
            (tokens(81.256), "81.26"),
            (tokens(23_456.7), "23,457"),
        ] {
            assert_eq!(shown, expected);
        }
    }
}
