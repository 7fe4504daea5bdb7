//! Tables as maps: `data/runs/NAME.toml` says what each row of a publisher's table is, and this reads it.
//!
//! `[[row]]` after `[[row]]` sets names to values that follow from the columns of a row and from names that are set before
//! it, or leaves the row out. `data/README.md` lists the keys, [`formula`](crate::dataset::formula) says what formulas,
//! conditions and texts are.

use super::Reason;
use crate::dataset::column::{Cell, Kind};
use crate::dataset::columns::{Cells, Parquet};
use crate::dataset::formula::{Cells as CellsOf, Columns, Of, maps};
use crate::error::Error;
use crate::stats::median;
use serde::Deserialize;
use serde_json::{Map as Object, Value};
use shapewise_data::RUNS;
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

/// What the names of a row are set to.
pub(in crate::dataset) type Values = Object<String, Value>;

/// Sets a name; the one place that knows names with a meaning of their own.
pub(in crate::dataset) type Set = fn(&mut Values, &str, Value) -> Result<(), Reason>;

type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    /// A column that no other publisher's tables have.
    #[serde(default)]
    mark: String,
    /// Columns of sizes and times that a row need not state.
    #[serde(default)]
    optional: HashSet<String>,
    row: Vec<RawStep>,
    group: Option<Group>,
    #[serde(default)]
    run: Vec<RawStep>,
}

#[derive(Deserialize)]
struct RawStep {
    when: Option<String>,
    leave_out: Option<String>,
    #[serde(flatten)]
    set: Object<String, Value>,
}

/// Rows that are one: equal in some names, of others the median.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    by: Vec<String>,
    median: Vec<String>,
}

/// The map of one publisher's tables.
pub(in crate::dataset) struct Map {
    raw: &'static Raw,
    columns: Columns,
    /// Whether the file has the column, which else is a name that is set.
    is_of_file: Vec<bool>,
    rows: Vec<Step>,
    runs: Vec<Step>,
}

struct Step {
    when: Of<bool>,
    leave_out: Option<Of<Reason>>,
    set: Vec<(&'static str, Of<Result<Value, Reason>>)>,
}

static MAPS: LazyLock<BTreeMap<&str, Map>> = LazyLock::new(|| maps(&RUNS, |_, raw| Map::of(raw)));

impl Map {
    /// The map of this name. Panics if `data/runs` has none.
    pub fn find(name: &str) -> &'static Self {
        &MAPS[name]
    }

    pub fn mark(&self) -> &'static str {
        &self.raw.mark
    }

    fn of(raw: &'static Raw) -> Self {
        let mut map = Self {
            raw,
            columns: Columns::default(),
            is_of_file: Vec::new(),
            rows: Vec::new(),
            runs: Vec::new(),
        };
        let mut set = HashSet::new();
        for step in &raw.row {
            let read = Step::of(step, &mut map.columns);
            let added = &map.columns.0[map.is_of_file.len()..];
            let is_of_file = added.iter().map(|(name, _)| !set.contains(first(name)));
            map.is_of_file.extend(is_of_file.collect::<Vec<_>>());
            set.extend(step.set.keys().map(|name| first(name)));
            map.rows.push(read);
        }
        map.runs = raw.run.iter().map(|step| Step::of(step, &mut map.columns)).collect();
        map.is_of_file.resize(map.columns.0.len(), false);
        map
    }

    /// What each row of a file is, or why it is left out.
    pub fn rows(&self, file: &Parquet, set: Set) -> Result<Vec<Result<Values, Reason>>> {
        let columns = self.columns.0.iter().zip(&self.is_of_file);
        let names = columns.clone().filter(|(_, is_of_file)| **is_of_file);
        let names: Vec<&str> = names.map(|((name, _), _)| *name).collect();
        let mut rows = Vec::new();
        for batch in file.batches(&names, None)? {
            let batch = batch?;
            let cells = columns
                .clone()
                .map(|(&(name, kind), is_of_file)| is_of_file.then(|| batch.cells_of(name, kind)).transpose());
            let cells: Vec<Option<Cells<'_>>> = cells.collect::<Result<_>>()?;
            for row in 0..batch.len() {
                let cell = |place: usize| cells[place].as_ref()?.get(row);
                let mut values = Values::new();
                let taken = self.take(&self.rows, &mut values, &cell, set);
                rows.push(taken.map(|_| values));
            }
        }
        Ok(match &self.raw.group {
            Some(group) => group.medians(rows),
            None => rows,
        })
    }

    /// The runs of a row: each `[[run]]` whose condition it meets, or the row itself.
    pub fn runs(&self, row: Values, set: Set) -> Vec<Result<Values, Reason>> {
        if self.runs.is_empty() {
            return vec![Ok(row)];
        }
        let runs = self.runs.iter().filter_map(|step| {
            let mut values = row.clone();
            let taken = self.take(std::slice::from_ref(step), &mut values, &|_| None, set);
            taken.map(|any| any.then_some(values)).transpose()
        });
        runs.collect()
    }

    /// Takes the steps whose conditions are met, and returns whether there was one.
    fn take(&self, steps: &[Step], values: &mut Values, file: CellsOf<'_, '_>, set: Set) -> Result<bool, Reason> {
        let mut any = false;
        for step in steps {
            let missing = std::cell::Cell::new(None);
            let holds = (step.when)(&|place| self.cell(place, values, file, &missing));
            if !holds {
                continue;
            }
            any = true;
            if let Some(reason) = &step.leave_out {
                return Err(reason(&|place| self.cell(place, values, file, &missing)));
            }
            for (name, value) in &step.set {
                missing.set(None);
                let value = value(&|place| self.cell(place, values, file, &missing))?;
                if let Some(column) = missing.get() {
                    return Err(format!("`{column}` is not stated"));
                }
                set(values, name, value)?;
            }
        }
        Ok(any)
    }

    /// What a name is set to, else the cell of the file; `missing` becomes a column of sizes that the row does not state.
    fn cell<'a, 'f: 'a>(
        &self,
        place: usize,
        values: &'a Values,
        file: CellsOf<'_, 'f>,
        missing: &std::cell::Cell<Option<&'static str>>,
    ) -> Option<Cell<'a>> {
        let (name, kind) = self.columns.0[place];
        let Some(value) = value(values, name) else {
            let cell = file(place);
            let is_stated = cell.and_then(Cell::real).is_some_and(|number| number > 0.0);
            if kind == Kind::Real && !is_stated && !self.raw.optional.contains(name) {
                missing.set(Some(name));
            }
            return cell;
        };
        match (value, kind) {
            (Value::String(text), Kind::Real) => text.split(' ').next()?.parse().ok().map(Cell::Real),
            (Value::String(text), _) => Some(Cell::Text(text)),
            (Value::Bool(flag), _) => Some(Cell::Flag(*flag)),
            (Value::Number(number), Kind::Text) if number.is_i64() => number.as_i64().map(Cell::Whole),
            (value, _) => value.as_f64().map(Cell::Real),
        }
    }
}

/// The name that a path such as `arch.moe.experts` begins with.
fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// What a name, or a path into an object, is set to; `None` if nothing set it.
fn value<'a>(values: &'a Values, name: &str) -> Option<&'a Value> {
    let mut parts = name.split('.');
    let whole = values.get(parts.next()?)?;
    Some(parts.fold(whole, |value, part| &value[part]))
}

/// Sets a name, or what a path leads to.
pub(in crate::dataset) fn put(values: &mut Values, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            values.insert(name.to_owned(), value);
        }
        Some((outer, inner)) => {
            let object = values.entry(outer).or_insert(Value::Null);
            if !object.is_object() {
                *object = Value::Object(Values::new());
            }
            put(object.as_object_mut().expect("an object"), inner, value);
        }
    }
}

impl Step {
    fn of(raw: &'static RawStep, columns: &mut Columns) -> Self {
        Self {
            when: columns.when(raw.when.as_deref()),
            leave_out: raw.leave_out.as_deref().map(|reason| columns.text(reason)),
            set: raw
                .set
                .iter()
                .map(|(name, content)| (name.as_str(), setting(content, columns)))
                .collect(),
        }
    }
}

/// A value: `= formula`, `? condition`, a text with columns, a number or a flag, or `column = { text = value }` with what
/// is `otherwise` the value or the reason to `leave_out` the row.
fn setting(content: &'static Value, columns: &mut Columns) -> Of<Result<Value, Reason>> {
    match content {
        Value::String(content) => match content.split_at_checked(1) {
            Some(("=", formula)) => {
                let number = columns.number(formula);
                Box::new(move |cells| {
                    let number = number(cells);
                    Ok(match number.fract() == 0.0 {
                        true => (number as u64).into(),
                        false => number.into(),
                    })
                })
            }
            Some(("?", condition)) => {
                let holds = columns.condition(condition);
                Box::new(move |cells| Ok(holds(cells).into()))
            }
            _ => {
                let text = columns.text(content);
                Box::new(move |cells| Ok(text(cells).trim().into()))
            }
        },
        Value::Object(content) => {
            let names = content
                .iter()
                .find_map(|(column, names)| Some((column, names.as_object()?)));
            let (column, names) = names.expect("a column with its texts");
            let known = columns.one_of(column, names.iter().map(|(text, value)| (text.as_str(), value)));
            let otherwise = content.get("otherwise").map(|value| setting(value, columns));
            let leave_out = content.get("leave_out").and_then(Value::as_str);
            let leave_out = columns.text(leave_out.unwrap_or_default());
            Box::new(move |cells| match (known(cells), &otherwise) {
                (Some(value), _) => Ok(value.clone()),
                (None, Some(otherwise)) => otherwise(cells),
                (None, None) => Err(leave_out(cells)),
            })
        }
        constant => Box::new(|_| Ok(constant.clone())),
    }
}

impl Group {
    /// Rows that are one as one, after those that are left out.
    fn medians(&self, rows: Vec<Result<Values, Reason>>) -> Vec<Result<Values, Reason>> {
        let key = |row: &Values| -> Vec<(String, u64)> {
            let parts = self.by.iter().map(|name| &row[name]);
            let ordered = parts.map(|part| (part.as_str().unwrap_or_default().to_owned(), part.as_u64().unwrap_or(0)));
            ordered.collect()
        };
        let mut groups: BTreeMap<_, Vec<Values>> = BTreeMap::new();
        let mut found = Vec::new();
        for row in rows {
            match row {
                Ok(row) => groups.entry(key(&row)).or_default().push(row),
                left_out => found.push(left_out),
            }
        }
        found.extend(groups.into_values().map(|rows| {
            let mut one = rows[0].clone();
            for name in &self.median {
                let numbers = rows.iter().filter_map(|row| row[name].as_f64());
                one.insert(name.clone(), median(numbers.collect()).into());
            }
            Ok(one)
        }));
        found
    }
}
