//! Importers as data: `data/imports/NAME.toml` says what the tables of the source `NAME` hold, and this reads them.
//!
//! `data/README.md` lists the keys, [`formula`](crate::dataset::formula) says what formulas, conditions and texts are.

use super::{Filter, Reading, Reason, unknown};
use crate::dataset::column::{Cell, Kind};
use crate::dataset::columns::{Parquet, Supplied};
use crate::dataset::formula::{Cells, Columns, Of, maps};
use crate::gpu::Gpu;
use crate::ops::{Dimension, Domain, Op, OpKind, Value};
use crate::units::Seconds;
use serde::Deserialize;
use serde_json::Value as Json;
use shapewise_data::IMPORTS;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// What one source publishes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    /// Repository and commit.
    repository: String,
    /// SPDX name of its licence.
    licence: String,
    /// What its files hold, for messages.
    holds: String,
    /// Other names of columns, each with the name that formulas use.
    #[serde(default)]
    same: BTreeMap<String, String>,
    /// Columns that are null where a file lacks them.
    #[serde(default)]
    null: Vec<String>,
    /// What holds of every table.
    #[serde(default)]
    every: RawRule,
    #[serde(default)]
    place: Vec<RawPlace>,
    table: Vec<RawTable>,
}

#[derive(Deserialize)]
struct RawTable {
    /// Columns that the file has besides those that are read.
    #[serde(default)]
    has: Vec<String>,
    /// Times below this one, which are rounded to 1 us, are left out.
    #[serde(default)]
    least_us: f64,
    /// Which rows are left out as slower than one with more work.
    untuned: Option<Untuned>,
    /// Besides those of every table.
    #[serde(default)]
    place: Vec<RawPlace>,
    #[serde(flatten)]
    base: RawRule,
    #[serde(default)]
    rules: Vec<RawRule>,
    /// Operators of a row, each of which holds or not; one, if there are none of these.
    #[serde(default)]
    operators: Vec<RawRule>,
}

/// Rows of stacks that begin with `stack` and take over `factor` times as long as one with more work.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Untuned {
    pub stack: String,
    pub factor: f64,
}

/// Where rows were timed: the last GPU that holds, all texts of the stack that hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlace {
    when: Option<String>,
    gpu: Option<String>,
    #[serde(default)]
    stack: String,
}

/// What rows are, all or those of a condition.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRule {
    when: Option<String>,
    /// Leaves the row out, for this reason.
    leave_out: Option<String>,
    /// Leaves the row out, as the text in this column is not known.
    unknown: Option<String>,
    /// Another operator, whose fields are read anew.
    op: Option<OpKind>,
    /// Formula of the time.
    seconds: Option<String>,
    /// Column that names the libraries below the stack.
    libraries: Option<String>,
    /// Formula of what rows have in common that are held out together; 0 for none.
    group: Option<String>,
    /// Fields of the operator: a constant, a formula or condition, or `{ column = { text = "name" } }`.
    #[serde(flatten)]
    fields: BTreeMap<String, Json>,
}

/// What one source publishes, and how it is read.
pub(super) struct Map {
    pub name: &'static str,
    pub repository: &'static str,
    pub licence: &'static str,
    pub holds: &'static str,
    raw: &'static Raw,
    tables: Vec<Table>,
}

/// How to read the rows of one kind of file.
pub(super) struct Table {
    has: Columns,
    /// Columns that say where a row was timed.
    pub identity: Vec<&'static str>,
    places: Vec<Place>,
    /// Columns that the rest reads.
    pub columns: Columns,
    rules: Vec<Rule>,
    operators: Vec<Rule>,
    least: Seconds,
    pub untuned: Option<&'static Untuned>,
}

struct Place {
    when: Of<bool>,
    gpu: Option<Of<String>>,
    stack: Of<String>,
}

struct Rule {
    when: Of<bool>,
    leave_out: Option<Of<Reason>>,
    op: Option<Op>,
    seconds: Option<Of<f64>>,
    libraries: Option<usize>,
    group: Option<Of<f64>>,
    fields: Vec<(&'static Dimension, Field)>,
}

type Field = Of<Result<Value, Reason>>;

/// The maps of all sources, by name.
pub(super) static MAPS: LazyLock<BTreeMap<&str, Map>> = LazyLock::new(|| {
    maps(&IMPORTS, |name, raw: &'static Raw| Map {
        name,
        repository: &raw.repository,
        licence: &raw.licence,
        holds: &raw.holds,
        raw,
        tables: raw.table.iter().map(|table| Table::of(raw, table)).collect(),
    })
});

impl Map {
    /// How to read a file with these columns; `None` if it is not of this source.
    pub fn table(&self, file: &Parquet) -> Option<&Table> {
        let has = |columns: &Columns| columns.0.iter().all(|(name, _)| file.has(name));
        let mut tables = self.tables.iter();
        tables.find(|table| has(&table.has) && has(&table.columns))
    }

    /// What files lack as they are published: the nearest part of the path that names a GPU, the name of the file as `table`,
    /// and the GPU that is asked for where nothing names another.
    pub fn supplied(&'static self, path: &Path, filter: &Filter) -> Vec<(&'static str, Supplied)> {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("");
        let folders = path.ancestors().skip(1);
        let folders = folders.filter_map(|folder| folder.file_name()?.to_str());
        let gpu = std::iter::once(stem)
            .chain(folders)
            .find(|name| Gpu::find(name).is_ok());
        let text = |text: &str| Supplied::Text(text.to_owned());
        let table = stem.strip_suffix("_perf").unwrap_or(stem);
        let same = self.raw.same.iter();
        let null = self.raw.null.iter();
        let asked = filter.supplied().filter(|(name, _)| *name == "gpu");
        gpu.map(|name| ("gpu", text(name)))
            .into_iter()
            .chain(same.map(|(other, name)| (name.as_str(), Supplied::Same(other))))
            .chain(asked)
            .chain([("table", text(table))])
            .chain(null.map(|name| (name.as_str(), Supplied::Null)))
            .collect()
    }
}

impl Table {
    fn of(map: &'static Raw, raw: &'static RawTable) -> Self {
        let (mut identity, mut columns) = (Columns::default(), Columns::default());
        let has = raw.has.iter().map(|name| (name.as_str(), Kind::Text)).collect();
        let places = map.place.iter().chain(&raw.place).map(|place| Place {
            when: identity.when(place.when.as_deref()),
            gpu: place.gpu.as_ref().map(|gpu| identity.text(gpu)),
            stack: identity.text(&place.stack),
        });
        let places = places.collect();
        let rules = [&map.every, &raw.base].into_iter().chain(&raw.rules);
        let kind = rules.clone().find_map(|rule| rule.op).expect("a table of an operator");
        let mut read = |rule| Rule::of(rule, kind, &mut columns);
        Self {
            has: Columns(has),
            identity: identity.0.iter().map(|(name, _)| *name).collect(),
            places,
            rules: rules.map(&mut read).collect(),
            operators: raw.operators.iter().map(&mut read).collect(),
            least: Seconds::from_micros(raw.least_us),
            untuned: raw.untuned.as_ref(),
            columns,
        }
    }

    /// GPU and stack, from the texts in the columns `identity`.
    pub fn identify(&self, cells: Cells<'_, '_>) -> (String, String) {
        let (mut gpu, mut stack) = (String::new(), String::new());
        for place in self.places.iter().filter(|place| (place.when)(cells)) {
            gpu = place.gpu.as_ref().map_or(gpu, |named| named(cells));
            stack += &(place.stack)(cells);
        }
        (gpu, stack)
    }

    /// Passes on each operator of a row.
    pub fn read<'a>(&self, cells: Cells<'_, 'a>, mut each: impl FnMut(Result<Reading<'a>, Reason>)) {
        if self.operators.is_empty() {
            each(self.reading(cells, None));
        }
        for operator in self.operators.iter().filter(|operator| (operator.when)(cells)) {
            each(self.reading(cells, Some(operator)));
        }
    }

    fn reading<'a>(&self, cells: Cells<'_, 'a>, operator: Option<&Rule>) -> Result<Reading<'a>, Reason> {
        let rules = || self.rules.iter().filter(|rule| (rule.when)(cells)).chain(operator);
        if let Some(reason) = rules().find_map(|rule| rule.leave_out.as_ref()) {
            return Err(reason(cells));
        }
        let mut reading = Reading {
            op: OpKind::Gemm.smallest(),
            time: Seconds::ZERO,
            group: None,
            libraries: None,
        };
        for rule in rules() {
            if let Some(op) = rule.op {
                reading.op = op;
            }
            for (dimension, field) in &rule.fields {
                let is_set = dimension.set(&mut reading.op, field(cells)?);
                debug_assert!(is_set, "`{}` is no field of this operator", dimension.name);
            }
            if let Some(seconds) = &rule.seconds {
                reading.time = Seconds::from_secs(seconds(cells));
            }
            if let Some(group) = &rule.group {
                reading.group = Some(group(cells) as u64).filter(|&group| group > 0);
            }
            if let Some(libraries) = rule.libraries {
                reading.libraries = cells(libraries).and_then(Cell::text);
            }
        }
        match reading.time < self.least {
            true => Err(format!("less than {} us, rounded to 1 us", self.least.micros())),
            false => Ok(reading),
        }
    }
}

impl Rule {
    fn of(raw: &'static RawRule, kind: OpKind, columns: &mut Columns) -> Self {
        let kind = raw.op.unwrap_or(kind);
        let fields = kind.dimensions().iter().filter_map(|dimension| {
            let content = raw.fields.get(dimension.name)?;
            Some((dimension, field(dimension.domain, content, columns)))
        });
        let fields: Vec<_> = fields.collect();
        assert_eq!(
            fields.len(),
            raw.fields.len(),
            "a key or a field of {kind}: {:?}",
            raw.fields
        );
        let unknown = raw.unknown.as_deref().map(|column| -> Of<Reason> {
            let place = columns.place(column, Kind::Text);
            Box::new(move |cells| unknown(column, cells(place).and_then(Cell::text)))
        });
        Self {
            fields,
            op: raw.op.map(OpKind::smallest),
            when: columns.when(raw.when.as_deref()),
            leave_out: unknown.or_else(|| raw.leave_out.as_ref().map(|reason| columns.text(reason))),
            libraries: raw.libraries.as_ref().map(|name| columns.place(name, Kind::Text)),
            seconds: raw.seconds.as_ref().map(|formula| columns.number(formula)),
            group: raw.group.as_ref().map(|formula| columns.number(formula)),
        }
    }
}

/// How a field is read.
fn field(domain: Domain, content: &'static Json, columns: &mut Columns) -> Field {
    let constant = |text: &str| domain.parse(text);
    match content {
        Json::Object(names) => {
            let (column, names) = names.iter().next().expect("a column");
            let place = columns.place(column, Kind::Text);
            let names = names.as_object().expect("texts with their names").iter();
            let names = names.map(|(text, name)| {
                let value = name.as_str().and_then(|name| constant(name).ok());
                (text.as_str(), value.expect("a name of the field"))
            });
            let known = columns.one_of(column, names);
            Box::new(move |cells| known(cells).ok_or_else(|| unknown(column, cells(place).and_then(Cell::text))))
        }
        Json::String(text) => match (constant(text), domain) {
            (Ok(value), _) => Box::new(move |_| Ok(value)),
            (Err(_), Domain::Count { .. }) => {
                let number = columns.number(text);
                Box::new(move |cells| Ok(Value::Count(number(cells).round() as u64)))
            }
            (Err(_), Domain::Flag) => {
                let flag = columns.condition(text);
                Box::new(move |cells| Ok(Value::Flag(flag(cells))))
            }
            (Err(allowed), Domain::Choice(_)) => panic!("`{text}` is no name; allowed: {allowed}"),
        },
        other => {
            let value = constant(&other.to_string()).expect("a value of the field");
            Box::new(move |_| Ok(value))
        }
    }
}
