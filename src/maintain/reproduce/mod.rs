//! Every finding of the co-design paper (arXiv 2401.14489), predicted beside what was measured at
//! the time.
//!
//! A finding is data (`data/findings/*.toml`): a claim with its source, series of predicted and
//! measured values, the statistics of them that are shown and judged, and panels. One evaluator
//! makes a [`Finding`] of it. Measured numbers are either timings that the caller hands over, or
//! single numbers quoted in the file.

pub mod judge;

mod drops;

mod formula;

mod headline;

mod layer;

mod panel;

mod series;

mod spec;

mod statistic;

mod subject;

mod timings;

pub use timings::{AUTHORS, Timing, Timings};

use crate::reproduce::formula::{Formula, Sizes, fill};
use crate::reproduce::judge::{Basis, Criterion, Unit, Verdict};
use crate::reproduce::series::{Rows, Series};
use crate::reproduce::spec::FindingSpec;
use crate::reproduce::timings::Predictors;
use serde::{Deserialize, Serialize};
use shapewise::error::{Error, Result};
use shapewise::predict::Predictor;
use shapewise::regressor::artifact::Artifact;
use std::collections::BTreeMap;

/// One finding of the paper.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// Short name, stable.
    pub id: String,
    /// A few words.
    pub title: String,
    /// What the paper says, in one sentence.
    pub claim: String,
    /// The place of that and of the quoted numbers.
    pub source: String,
    /// The rules that follow, by their ids.
    pub rules: Vec<String>,
    /// What is drawn.
    pub panels: Vec<Panel>,
    /// Single numbers, measured beside predicted.
    pub comparisons: Vec<Comparison>,
    /// What decides.
    pub criteria: Vec<Criterion>,
    /// What a reader has to know: what was not seen, what is doubtful.
    pub notes: Vec<String>,
    /// Whether timings that are handed over would be shown here.
    pub takes_rows: bool,
    /// Public table whose rows would be shown here and were not handed over.
    pub missing: Option<String>,
}

impl Finding {
    /// What its criteria add up to.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.criteria)
    }
}

/// One plot.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// What is shown.
    pub title: String,
    /// For which sizes, predicted with what.
    pub conditions: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Predicted series, joined.
    pub predicted: Vec<Curve>,
    /// Series of single points: measured where `basis` says what they are, else predicted.
    pub points: Vec<Curve>,
    /// What the measured series are, each kind once; `None` if nothing was measured.
    pub basis: Vec<Basis>,
    /// Horizontal positions that matter, by name.
    #[serde(skip)]
    pub marks: Option<(String, Vec<u64>)>,
}

/// One axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What is measured along it.
    pub label: String,
    /// What its numbers count; shares are given as fractions.
    #[serde(default = "Unit::plain")]
    pub unit: Unit,
    /// Whether equal distances are equal ratios.
    #[serde(default, skip_serializing)]
    pub log: bool,
}

impl Unit {
    const fn plain() -> Self {
        Self::Plain
    }
}

/// Values that belong together.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Their name.
    pub name: String,
    /// Horizontal and vertical values.
    pub points: Vec<(f64, f64)>,
    /// Labels of the points; empty, or one text per point.
    #[serde(skip)]
    pub labels: Vec<String>,
}

impl Curve {
    fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
            labels: Vec::new(),
        }
    }
}

/// One number, measured beside predicted.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What it is.
    pub what: String,
    /// As it was measured, where that was seen.
    pub measured: Option<f64>,
    /// As it is predicted.
    pub predicted: f64,
    /// What it counts.
    pub unit: Unit,
}

impl Comparison {
    fn new(what: impl Into<String>, measured: Option<f64>, predicted: f64, unit: Unit) -> Self {
        Self {
            what: what.into(),
            measured,
            predicted,
            unit,
        }
    }
}

/// A finding in the making.
struct Evaluation<'a> {
    spec: &'a FindingSpec,
    target: &'a str,
    series: BTreeMap<&'a str, Series>,
    /// Statistics that have a name.
    named: BTreeMap<String, f64>,
    finding: Finding,
}

impl Evaluation<'_> {
    /// A series of the file; that it exists was checked when the file was read.
    fn series(&self, name: &str) -> &Series {
        &self.series[name]
    }

    /// A text with the target and named statistics in place of their names in braces.
    fn text(&self, text: &str) -> Result<String> {
        self.filled(text, |name| match (name, self.named.get(name)) {
            ("target", _) => Ok(self.target.to_owned()),
            (_, Some(value)) => Ok(format!("{value:.1}")),
            (_, None) => Err(format!("text `{text}` names `{name}`; allowed: target, a statistic")),
        })
    }

    /// A text with sizes in place of their formulas in braces.
    fn label(&self, text: &str, sizes: &Sizes) -> Result<String> {
        self.filled(text, |formula| Ok(Formula::parse(formula)?.value(sizes)?.to_string()))
    }

    /// The labels of all predicted points of a series.
    fn labels(&self, text: &str, series: &Series) -> Result<Vec<String>> {
        let sizes = series.sizes.iter();
        sizes.map(|sizes| self.label(text, sizes)).collect()
    }

    fn filled(&self, text: &str, value: impl Fn(&str) -> std::result::Result<String, String>) -> Result<String> {
        let place = &self.spec.place;
        fill(text, value).map_err(|error| Error::bad_input(format!("{place}: {error}")))
    }
}

/// Every finding, in the order of the paper's argument.
///
/// Whole models are predicted with `target`, the sweeps with the models of the GPUs they were
/// measured on, or with `model` where it answers for these.
pub fn reproduce(target: Predictor, model: Option<&Artifact>, timings: &Timings) -> Result<Vec<Finding>> {
    let specs = FindingSpec::all()?;
    let predictors = Predictors::new(target, model, specs.iter().flat_map(FindingSpec::gpus))?;
    let rows = Rows {
        all: timings,
        judging: timings.judging(&predictors),
    };
    let findings = specs.iter().map(|spec| evaluate(spec, &predictors, &rows));
    findings.collect()
}

/// One finding from its file.
fn evaluate(spec: &FindingSpec, predictors: &Predictors, rows: &Rows) -> Result<Finding> {
    let mut evaluation = Evaluation {
        spec,
        target: predictors.target(),
        series: BTreeMap::new(),
        named: BTreeMap::new(),
        finding: Finding {
            id: spec.id.clone(),
            title: spec.title.clone(),
            claim: spec.claim.clone(),
            source: spec.source.clone(),
            rules: spec.rules.clone(),
            takes_rows: spec.table.is_some(),
            ..Finding::default()
        },
    };
    for series in &spec.series {
        let computed = Series::new(series, &spec.place, predictors, rows)?;
        evaluation.series.insert(&series.name, computed);
    }
    for statistic in &spec.statistics {
        statistic.evaluate(&mut evaluation)?;
    }
    for panel in &spec.panels {
        let panel = panel::evaluate(panel, &evaluation)?;
        evaluation.finding.panels.push(panel);
    }
    for note in &spec.notes {
        let note = evaluation.text(note)?;
        evaluation.finding.notes.push(note);
    }
    if let Some(headline) = &spec.headline {
        headline.evaluate(predictors, &mut evaluation.finding)?;
    }
    Ok(evaluation.finding)
}
