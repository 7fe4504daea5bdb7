//! `shapewise predict batch`: every line of a file or of standard input, answered as it comes.

use crate::answer::question::{AtHand, Context, Question, unwatched};
use crate::cli::args::{BatchArgs, Format, View};
use crate::cli::target::answering;
use crate::cli::{Answer, BUG, DONE, FAILED, csv as table, one_line, say};
use crate::error::{Error, Result, require_regular};
use crate::ops::OpKind;
use crate::report::{AnyReport, SCHEMA};
use crate::request::{TargetRequest, json, number};
use crate::units::Seconds;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

/// The most bytes of one line: a request with a whole config has some thousands.
const LONGEST_LINE: u64 = 4 << 20;

/// The most bytes of an array, which is read before its first object is answered.
const LONGEST_ARRAY: u64 = 64 << 20;

/// The heading of answers as CSV.
const HEADING: [&str; 6] = ["line", "time_us", "low_us", "high_us", "tier", "error"];

pub(super) fn run(args: &BatchArgs, view: View) -> Result<Answer> {
    if view.format == Format::Md {
        let allowed = "text, csv or json for a batch";
        return Err(Error::field("command line", "--format", "md", allowed));
    }
    let name = args.file.display().to_string();
    let mut input: Box<dyn BufRead> = match args.file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => {
            require_regular(&args.file)?;
            let file = File::open(&args.file).map_err(|source| Error::io(&args.file, source))?;
            Box::new(BufReader::new(file))
        }
    };
    let context: Arc<dyn Context> = Arc::new(AtHand {
        base: None,
        predictor: Some(Arc::new(answering(&args.target)?)),
    });
    let (begin, blank) = begin(&mut *input).map_err(|source| Error::io(&name, source))?;
    let mut lines = Lines {
        name: &name,
        context: &context,
        target: &args.target.request,
        view,
        blank,
        asked: 0,
        refused: 0,
        code: DONE,
    };
    if view.format == Format::Csv && !lines.print(&table::line(HEADING))? {
        return Ok(String::new().into());
    }
    match begin {
        Some(b'{') => lines.read_json(input)?,
        Some(b'[') => lines.read_array(input)?,
        _ => lines.read_csv(input)?,
    }
    let (asked, refused) = (lines.asked, lines.refused);
    if asked == 0 {
        return Err(Error::bad_input(format!(
            "{name}: no question in it; allowed: JSON lines of one object each, or CSV with the keys in its first line"
        )));
    }
    if refused > 0 {
        say(&format!("{refused} of {asked} lines of {name} have no answer"));
    }
    Ok(Answer {
        text: String::new(),
        code: lines.code,
    })
}

/// The first byte that is no white space, which stays to be read, and the lines before; skips a byte order mark.
fn begin(input: &mut dyn BufRead) -> io::Result<(Option<u8>, u64)> {
    let mut mark = "\u{feff}".bytes().peekable();
    let mut lines = 0;
    while let Some(&byte) = input.fill_buf()?.first() {
        if mark.peek() == Some(&byte) {
            mark.next();
        } else if byte.is_ascii_whitespace() {
            lines += u64::from(byte == b'\n');
        } else {
            return Ok((Some(byte), lines));
        }
        input.consume(1);
    }
    Ok((None, lines))
}

/// The lines of one file.
struct Lines<'a> {
    name: &'a str,
    context: &'a Arc<dyn Context>,
    target: &'a TargetRequest,
    view: View,
    /// Lines before the first that says anything.
    blank: u64,
    asked: u64,
    refused: u64,
    code: u8,
}

impl Lines<'_> {
    fn read_json(&mut self, mut input: Box<dyn BufRead>) -> Result<()> {
        let mut text = Vec::new();
        for line in self.blank + 1.. {
            text.clear();
            let mut limited = (&mut input).take(LONGEST_LINE);
            let read = limited.read_until(b'\n', &mut text);
            if read.map_err(|source| Error::io(self.name, source))? == 0 {
                break;
            }
            if text.len() as u64 == LONGEST_LINE {
                return Err(self.too_long(line));
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let body =
                serde_json::from_slice(&text).map_err(|error| Error::bad_input(format!("not a JSON object: {error}")));
            if !self.answer(line, body)? {
                break;
            }
        }
        Ok(())
    }

    /// An array around the objects, of which each counts as a line.
    fn read_array(&mut self, input: Box<dyn BufRead>) -> Result<()> {
        let name = self.name;
        let mut limited = input.take(LONGEST_ARRAY);
        let bodies: serde_json::Result<Vec<Value>> = serde_json::from_reader(&mut limited);
        let bodies = bodies.map_err(|error| {
            Error::bad_input(match limited.limit() {
                0 => format!("{name}: an array of more than {LONGEST_ARRAY} bytes; allowed: one JSON object a line"),
                _ => format!("{name}: {error}; allowed: one JSON object a line, or an array of them"),
            })
        })?;
        for (body, line) in bodies.into_iter().zip(1..) {
            if !self.answer(line, Ok(body))? {
                break;
            }
        }
        Ok(())
    }

    fn too_long(&self, line: u64) -> Error {
        Error::bad_input(format!("{}:{line}: more than {LONGEST_LINE} bytes", self.name))
    }

    fn read_csv(&mut self, input: Box<dyn BufRead>) -> Result<()> {
        let damaged = |error: csv::Error| Error::bad_input(format!("{}: {error}", self.name));
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.trim(csv::Trim::All);
        let mut reader = reader.from_reader(input.take(LONGEST_LINE));
        let keys = reader.headers().map_err(damaged)?.clone();
        let mut record = csv::StringRecord::new();
        let mut line = self.blank + 1;
        loop {
            // An open quote makes one record of all that follows.
            if reader.get_ref().limit() == 0 {
                return Err(self.too_long(line));
            }
            line = self.blank + reader.position().line();
            reader.get_mut().set_limit(LONGEST_LINE);
            let read = reader.read_record(&mut record);
            if reader.get_ref().limit() == 0 {
                continue;
            }
            let (line, body) = match read.map(|more| more.then_some(&record)) {
                Ok(None) => break,
                Ok(Some(record)) => {
                    let cells = keys.iter().zip(record).filter(|(_, cell)| !cell.is_empty());
                    let body = cells.map(|(key, text)| {
                        let key = key.to_lowercase();
                        let cell = cell(&key, text);
                        (key, cell)
                    });
                    (line, Ok(Value::Object(body.collect())))
                }
                Err(error) => (line, Err(Error::bad_input(error.to_string()))),
            };
            if !self.answer(line, body)? {
                break;
            }
        }
        Ok(())
    }

    /// Answers a line and prints the answer; false if the reader is gone.
    fn answer(&mut self, line: u64, body: Result<Value>) -> Result<bool> {
        self.asked += 1;
        let body = body.and_then(|body| {
            let answer = panic::catch_unwind(AssertUnwindSafe(|| self.ask(body)));
            answer.unwrap_or_else(|_| {
                self.code = BUG;
                Err(Error::infeasible("a bug of shapewise, named above"))
            })
        });
        let error = body.as_ref().err().map(|error| json::in_keys(&error.to_string()));
        if let Some(error) = &error {
            self.refused += 1;
            self.code = self.code.max(FAILED);
            say(&format!("{}:{line}: {error}", self.name));
        }
        let text = match (self.view.format, &body) {
            (Format::Text, Ok(report)) => short(line, &**report),
            (Format::Text, Err(_)) => format!("{line:>8}  no answer\n"),
            (Format::Csv, _) => {
                let answer = body.ok().map(|report| document(&*report)).unwrap_or_default();
                let cell = |key: &&str| match *key {
                    "line" => line.to_string(),
                    "error" => error.clone().unwrap_or_default(),
                    key => table::text(&answer[key]),
                };
                table::line(HEADING.iter().map(cell))
            }
            (_, Ok(report)) => one_line(&report.json()),
            (_, Err(_)) => format!("{}\n", json!({"schema": SCHEMA, "line": line, "error": error})),
        };
        self.print(&text)
    }

    /// Prints a text; false if the reader is gone.
    fn print(&self, text: &str) -> Result<bool> {
        match io::stdout().lock().write_all(text.as_bytes()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Error::io("standard output", error)),
        }
    }

    fn ask(&self, body: Value) -> Result<Box<dyn AnyReport>> {
        let (kind, mut body) = json::kind_of(body);
        let has = |key: &str| body.get(key).is_some();
        let named = kind.as_ref().and_then(Value::as_str);
        let named = match named {
            Some(named) => named,
            None if kind.is_none() && has("architecture") => "model",
            None if kind.is_none() && has("m") => "gemm",
            None if kind.is_none() && has("head_dim") => "attention",
            None => "",
        };
        let is_line = has("count") || has("name");
        let question = match named {
            "gemm" if !is_line => "predict_gemm",
            "attention" if !is_line => "predict_attention",
            "model" => "predict_model",
            _ if OpKind::parse(named).is_some() => {
                body = as_graph(named, body);
                "predict_graph"
            }
            _ => {
                let allowed = format!("model, {}", OpKind::NAMES.join(", "));
                return Err(json::other_kind(kind, &allowed));
            }
        };
        let has = |key: &str| body.get(key).is_some();
        // A line that names one of them keeps the others of the command line.
        let named = TargetRequest::KEYS.iter().any(|key| has(key));
        if named && let Some(object) = body.as_object_mut() {
            let target = serde_json::to_value(self.target).expect("a target is JSON");
            for (key, value) in target.as_object().into_iter().flatten() {
                if !value.is_null() {
                    object.entry(key).or_insert_with(|| value.clone());
                }
            }
        }
        Question::find(question)?.ask(body, Arc::clone(self.context), &unwatched)
    }
}

/// A line of a list of operators as a graph of that operator alone.
fn as_graph(kind: &str, mut line: Value) -> Value {
    let mut graph = Map::new();
    if let Some(line) = line.as_object_mut() {
        let keys = TargetRequest::KEYS.into_iter();
        graph.extend(keys.filter_map(|key| line.remove_entry(key)));
        let name = line.get("name").cloned();
        graph.insert("name".to_owned(), name.unwrap_or_else(|| kind.into()));
        line.insert("kind".to_owned(), kind.into());
    }
    graph.insert("ops".to_owned(), Value::Array(vec![line]));
    Value::Object(graph)
}

/// Keys whose cells are texts even where they look like numbers, as `4090` does, or have units of their own, as 4M tokens.
const TEXTS: [&str; 7] = ["architecture", "framework", "gpu", "kind", "model", "name", "tokens"];

/// A cell of CSV as JSON: a truth value, a whole number, a number, else a text.
fn cell(key: &str, text: &str) -> Value {
    match text {
        _ if TEXTS.contains(&key) => return text.into(),
        "true" => return true.into(),
        "false" => return false.into(),
        _ => {}
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    match (number::size(text), number) {
        (Some(size), _) => size.into(),
        (None, Some(number)) => number.into(),
        (None, None) => text.into(),
    }
}

/// The time of one line with its interval, the tier of most of it, and what was asked.
fn short(line: u64, report: &dyn AnyReport) -> String {
    let answer = document(report);
    let time = |key: &str| Seconds::from_micros(answer[key].as_f64().unwrap_or(f64::NAN)).to_string();
    let [time, low, high] = ["time_us", "low_us", "high_us"].map(time);
    let tier = main_tier(&answer).unwrap_or_else(|| answer["tier"].as_str().unwrap_or_default().to_owned());
    let text = report.text();
    let mut heading = text.lines();
    // The first line of an operator is its shape; a model's name is followed by its workload.
    let subject = heading.next().unwrap_or_default();
    let subject = match (answer.get("workload"), heading.next()) {
        (Some(_), Some(workload)) => {
            let name = subject.split_once(" (").map_or(subject, |(name, _)| name);
            format!("{name}, {workload}")
        }
        _ => subject.to_owned(),
    };
    format!("{line:>8}  {time:>10}  ({low} to {high})  {tier:<11}  {subject}\n")
}

fn document(report: &dyn AnyReport) -> Value {
    serde_json::from_str(&report.json()).expect("reports are JSON")
}

/// The tier of most of the time of a step; `None` of an operator.
fn main_tier(answer: &Value) -> Option<String> {
    let share = |value: &Value| value.as_f64().unwrap_or_default();
    let shares = answer.get("tier_shares")?.as_object()?;
    let most = shares.iter().max_by(|a, b| share(a.1).total_cmp(&share(b.1)))?;
    Some(format!("{} {:.0} %", most.0, 100.0 * share(most.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_json_holds_them() {
        for (key, text, wanted) in [
            ("m", "8k", json!(8192)),
            ("tokens", "4M", json!("4M")),
            ("gpu", "4090", json!("4090")),
            ("causal", "true", json!(true)),
            ("price", "2.5", json!(2.5)),
        ] {
            assert_eq!(cell(key, text), wanted, "{key} {text}");
        }
    }
}
