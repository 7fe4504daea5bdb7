//! Panels as charts.

use crate::reproduce::judge::Unit;
use crate::reproduce::{Axis, Curve, Finding, Panel};
use shapewise::report::plot::{self, Chart, Mark, Marks, Series};

/// The plots of a finding.
pub(super) fn charts(finding: &Finding) -> Vec<Chart> {
    finding.panels.iter().map(chart).collect()
}

fn chart(panel: &Panel) -> Chart {
    let series = |curve: &Curve| series(curve, panel.y.unit);
    let marks = panel.marks.iter().map(|(name, at)| Marks {
        name: name.clone(),
        strong: true,
        at: at
            .iter()
            .map(|x| Mark {
                x: *x as f64,
                label: String::new(),
            })
            .collect(),
    });
    Chart {
        title: panel.title.clone(),
        subtitle: wrapped(&panel.conditions),
        x: axis(&panel.x),
        y: axis(&panel.y),
        lines: panel.predicted.iter().map(series).collect(),
        points: panel.points.iter().map(series).collect(),
        marks: marks.collect(),
        ..Chart::default()
    }
}

/// Lines that fit a plot.
fn wrapped(text: &str) -> String {
    const MOST: usize = 96;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].chars().count() + word.chars().count() >= MOST {
            lines.push(word.to_owned());
        } else {
            let gap = if lines[last].is_empty() { "" } else { " " };
            lines[last].push_str(gap);
            lines[last].push_str(word);
        }
    }
    lines.join("\n")
}

fn axis(axis: &Axis) -> plot::Axis {
    plot::Axis {
        label: axis.label.clone(),
        unit: axis.unit.label().to_owned(),
        log: axis.log,
    }
}

/// Shares are drawn in percent.
fn series(curve: &Curve, unit: Unit) -> Series {
    let factor = match unit {
        Unit::Share => 100.0,
        _ => 1.0,
    };
    Series {
        name: curve.name.clone(),
        points: curve.points.iter().map(|(x, y)| (*x, y * factor)).collect(),
        labels: curve.labels.clone(),
    }
}
