//! Every finding of the co-design paper (arXiv 2401.14489), predicted beside what was measured at the time.
//!
//! A [`Finding`] is data: a claim with its source, panels of predicted and measured series, the criteria that decide
//! its verdict, and the rules that follow. Small functions compute them, one file per group of findings. Measured
//! numbers are either timings that the caller hands over, or single numbers quoted with their source.

pub mod judge;

mod machines;

mod layer;

mod shares;

mod alignment;

mod waves;

mod attention;

mod flash;

mod shapes;

mod widths;

mod parallel;

mod stages;

mod headline;

pub use machines::{AUTHORS, Timing, Timings};

use crate::error::Result;
use crate::predict::Predictor;
use crate::regressor::artifact::Artifact;
use crate::reproduce::judge::Basis;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::Unit;
use crate::reproduce::judge::Verdict;
use crate::reproduce::machines::Machines;

/// One finding of the paper.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// Short name, stable.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// What the paper says, in one sentence.
    pub claim: &'static str,
    /// Where that and the quoted numbers stand.
    pub source: &'static str,
    /// The rules that follow, by their ids.
    pub rules: &'static [&'static str],
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
    pub missing: Option<&'static str>,
}

impl Finding {
    /// What its criteria add up to.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(&self.criteria)
    }

    /// Shows a measured ratio beside the predicted one, and asks for them to be near.
    fn hold_ratio(&mut self, what: String, basis: Basis, predicted: f64, measured: f64) {
        let shown = Comparison::new(&what, Some(measured), predicted, Unit::Ratio);
        self.comparisons.push(shown);
        self.criteria
            .push(Criterion::near(what, basis, predicted, measured));
    }
}

/// One plot.
#[derive(Clone, Debug)]
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
    /// Measured series, or single predicted points.
    pub points: Vec<Curve>,
    /// What the measured series are, each kind once; none where nothing was measured.
    pub basis: Vec<Basis>,
    /// Horizontal positions that matter, by name.
    pub marks: Option<(String, Vec<u64>)>,
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is measured along it.
    pub label: String,
    /// What its numbers count; shares are given as fractions.
    pub unit: Unit,
    /// Whether equal distances are equal ratios.
    pub log: bool,
}

/// Values that belong together.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Their name.
    pub name: String,
    /// Horizontal and vertical values.
    pub points: Vec<(f64, f64)>,
    /// What stands beside each point; empty, or one text per point.
    pub labels: Vec<String>,
}

/// One number, measured beside predicted.
#[derive(Clone, Debug)]
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

impl Panel {
    fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            conditions: String::new(),
            x,
            y,
            predicted: Vec::new(),
            points: Vec::new(),
            basis: Vec::new(),
            marks: None,
        }
    }

    fn conditions(mut self, conditions: impl Into<String>) -> Self {
        self.conditions = conditions.into();
        self
    }

    fn predicted(mut self, name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        self.predicted.push(Curve::new(name, points));
        self
    }

    /// Measured points, unless there are none.
    fn measured(mut self, name: impl Into<String>, basis: Basis, points: Vec<(f64, f64)>) -> Self {
        if !points.is_empty() {
            self.points.push(Curve::new(name, points));
            if !self.basis.contains(&basis) {
                self.basis.push(basis);
            }
        }
        self
    }

    /// A curve against sizes, one series for each alignment that its values have, measured points in the same series.
    fn by_alignment(
        mut self,
        basis: Basis,
        predicted: &[(f64, f64)],
        measured: &[(f64, f64)],
    ) -> Self {
        type Class = (&'static str, fn(u64) -> bool);
        let classes: [Class; 3] = [
            ("multiple of 8", |size| size % 8 == 0),
            ("other even sizes", |size| size % 2 == 0 && size % 8 != 0),
            ("odd sizes", |size| size % 2 == 1),
        ];
        let of = |points: &[(f64, f64)], wanted: fn(u64) -> bool| -> Vec<_> {
            let wanted = points.iter().filter(|point| wanted(point.0 as u64));
            wanted.copied().collect()
        };
        for (class, wanted) in classes {
            let line = of(predicted, wanted);
            if !line.is_empty() {
                self = self
                    .predicted(format!("predicted, {class}"), line)
                    .measured(format!("measured, {class}"), basis, of(measured, wanted));
            }
        }
        self
    }

    fn labelled(mut self, name: impl Into<String>, points: Vec<(String, f64, f64)>) -> Self {
        self.points.push(Curve {
            name: name.into(),
            labels: points.iter().map(|(label, ..)| label.clone()).collect(),
            points: points.into_iter().map(|(_, x, y)| (x, y)).collect(),
        });
        self
    }
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

impl Axis {
    fn plain(label: impl Into<String>) -> Self {
        Self::of(label, Unit::Plain)
    }

    fn log(label: impl Into<String>) -> Self {
        Self {
            log: true,
            ..Self::plain(label)
        }
    }

    fn of(label: impl Into<String>, unit: Unit) -> Self {
        Self {
            label: label.into(),
            unit,
            log: false,
        }
    }

    fn rate() -> Self {
        Self::of("rate", Unit::TflopsPerS)
    }
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

/// Every finding, in the order of the paper's argument.
///
/// Whole models are predicted with `target`, the sweeps with the models of the parts they were measured on, or with
/// `model` where it answers for these.
pub fn reproduce(
    target: Predictor,
    model: Option<&Artifact>,
    timings: &Timings,
) -> Result<Vec<Finding>> {
    let machines = Machines::new(target, model)?;
    let judging = timings.judging(&machines);
    Ok(vec![
        shares::gemm_shares(&machines)?,
        alignment::output_width(&machines, &judging),
        alignment::vocabulary(&machines, &judging),
        alignment::hidden(&machines, &judging, timings),
        waves::waves(&machines, timings)?,
        attention::head_size(&machines, &judging),
        attention::few_heads(&machines),
        flash::flash(&machines)?,
        shapes::vocabulary_padding(&machines)?,
        widths::swiglu_width(&machines)?,
        parallel::tensor_parallel(&machines)?,
        parallel::micro_batch(&machines)?,
        shapes::reshaped(&machines)?,
        shapes::near_2_7b(&machines)?,
        widths::wide_and_shallow(&machines)?,
        stages::six_to_a_node(&machines)?,
        stages::pipeline(&machines)?,
        stages::parallel_layers(&machines)?,
        headline::headline(&machines)?,
    ])
}
