//! Panels: series as they are drawn.

use crate::reproduce::series::Series;
use crate::reproduce::spec::{CurveSpec, PanelSpec};
use crate::reproduce::{Curve, Evaluation, Panel};
use shapewise::error::Result;

/// The panel of a finding that this describes.
pub fn evaluate(spec: &PanelSpec, evaluation: &Evaluation) -> Result<Panel> {
    let mut panel = Panel {
        title: evaluation.text(&spec.title)?,
        conditions: evaluation.text(&spec.conditions)?,
        x: spec.x.clone(),
        y: spec.y.clone(),
        predicted: Vec::new(),
        points: Vec::new(),
        basis: Vec::new(),
        marks: spec.marks.as_ref().map(|marks| (marks.name.clone(), marks.at.clone())),
    };
    for curve in &spec.curves {
        match curve {
            CurveSpec::Line {
                series,
                predicted,
                measured,
            } => {
                let series = evaluation.series(series);
                let name = evaluation.text(predicted)?;
                panel.predicted.push(Curve::new(name, series.predicted.clone()));
                if let Some(name) = measured {
                    panel.measured(name, series, |_| true);
                }
            }
            CurveSpec::ByAlignment { series } => panel.by_alignment(evaluation.series(series)),
            CurveSpec::Points { series, name, label } => {
                let series = evaluation.series(series);
                panel.points.push(Curve {
                    labels: evaluation.labels(label, series)?,
                    ..Curve::new(evaluation.text(name)?, series.predicted.clone())
                });
            }
            CurveSpec::Parity { series, name, label } => {
                let series = evaluation.series(series);
                let points = series.judged.iter().map(|point| (point.measured, point.predicted));
                panel.points.push(Curve {
                    labels: evaluation.labels(label, series)?,
                    ..Curve::new(evaluation.text(name)?, points.collect())
                });
                panel.basis.push(series.basis);
            }
            CurveSpec::Fixed { name, points } => {
                panel.predicted.push(Curve::new(name, points.clone()));
            }
        }
    }
    Ok(panel)
}

impl Panel {
    /// Measured points whose size passes a test, unless there are none.
    fn measured(&mut self, name: &str, series: &Series, wanted: impl Fn(u64) -> bool) {
        let points = of_sizes(&series.measured, wanted);
        if !points.is_empty() {
            self.points.push(Curve::new(name, points));
            if !self.basis.contains(&series.basis) {
                self.basis.push(series.basis);
            }
        }
    }

    /// A curve for each alignment that the sizes have, measured points apart in the same way.
    fn by_alignment(&mut self, series: &Series) {
        type Class = (&'static str, fn(u64) -> bool);
        let classes: [Class; 3] = [
            ("multiple of 8", |size| size % 8 == 0),
            ("other even sizes", |size| size % 2 == 0 && size % 8 != 0),
            ("odd sizes", |size| size % 2 == 1),
        ];
        for (class, wanted) in classes {
            let line = of_sizes(&series.predicted, wanted);
            if !line.is_empty() {
                self.predicted.push(Curve::new(format!("predicted, {class}"), line));
                self.measured(&format!("measured, {class}"), series, wanted);
            }
        }
    }
}

fn of_sizes(points: &[(f64, f64)], wanted: impl Fn(u64) -> bool) -> Vec<(f64, f64)> {
    let points = points.iter().filter(|point| wanted(point.0 as u64));
    points.copied().collect()
}
