//! The keys of the document.

use crate::report::reproduce::how_to_get;
use crate::reproduce::Axis;
use crate::reproduce::Comparison;
use crate::reproduce::Curve;
use crate::reproduce::Finding;
use crate::reproduce::Panel;
use crate::reproduce::judge;
use crate::reproduce::judge::Criterion;
use crate::reproduce::judge::Limit;
use crate::reproduce::judge::Unit;
use crate::rules::RULES;
use serde::Serialize;

/// The limits that criteria are held to unless they say otherwise.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ThresholdKeys {
    pub least_correlation: f64,
    pub greatest_median_error_of_rates: f64,
    pub greatest_error_of_ratios: f64,
    pub greatest_difference_of_shares: f64,
}

impl Default for ThresholdKeys {
    fn default() -> Self {
        Self {
            least_correlation: judge::CORRELATION,
            greatest_median_error_of_rates: judge::RATE_ERROR,
            greatest_error_of_ratios: judge::RATIO_ERROR,
            greatest_difference_of_shares: judge::SHARE_ERROR,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct FindingKeys {
    pub id: &'static str,
    pub title: &'static str,
    pub claim: &'static str,
    pub source: &'static str,
    pub verdict: &'static str,
    pub verdict_text: &'static str,
    pub measured: bool,
    /// What the criteria stand on, each kind once.
    pub stands_on: Vec<&'static str>,
    pub criteria_met: usize,
    pub criteria: Vec<CriterionKeys>,
    pub comparisons: Vec<ComparisonKeys>,
    pub panels: Vec<PanelKeys>,
    pub rules: Vec<RuleKeys>,
    pub notes: Vec<String>,
    pub missing: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RuleKeys {
    pub id: &'static str,
    pub demand: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct CriterionKeys {
    pub statement: String,
    pub basis: &'static str,
    #[serde(skip)]
    pub basis_text: &'static str,
    pub value: f64,
    pub unit: &'static str,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    pub is_met: bool,
    #[serde(skip)]
    pub value_text: String,
    #[serde(skip)]
    pub limit_text: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ComparisonKeys {
    pub what: String,
    pub measured: Option<f64>,
    pub predicted: f64,
    pub unit: &'static str,
    #[serde(skip)]
    pub measured_text: String,
    #[serde(skip)]
    pub predicted_text: String,
    #[serde(skip)]
    pub difference_text: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PanelKeys {
    pub title: String,
    pub conditions: String,
    pub x: AxisKeys,
    pub y: AxisKeys,
    /// Series of predictions.
    pub predicted: Vec<CurveKeys>,
    /// Series of single points: measurements where `basis` names what they are.
    pub points: Vec<CurveKeys>,
    pub basis: Vec<&'static str>,
    #[serde(skip)]
    pub basis_text: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct AxisKeys {
    pub label: String,
    pub unit: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct CurveKeys {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl FindingKeys {
    /// What the verdict stands on, for a narrow column.
    pub(super) fn stands_on(&self) -> String {
        let texts = self.stands_on.iter().map(|basis| basis.replace('_', " "));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// The file of a plot.
    pub(super) fn picture(&self, at: usize) -> String {
        format!("{}-{}.svg", self.id, at + 1)
    }
}

impl From<&Finding> for FindingKeys {
    fn from(finding: &Finding) -> Self {
        let verdict = finding.verdict();
        let mut stands_on = Vec::new();
        for criterion in &finding.criteria {
            if !stands_on.contains(&criterion.basis.name()) {
                stands_on.push(criterion.basis.name());
            }
        }
        let rules = finding.rules.iter().filter_map(|id| {
            let rule = RULES.iter().find(|rule| rule.id == *id)?;
            Some(RuleKeys {
                id: rule.id,
                demand: rule.demand,
            })
        });
        Self {
            id: finding.id,
            title: finding.title,
            claim: finding.claim,
            source: finding.source,
            verdict: verdict.outcome.name(),
            verdict_text: verdict.text(),
            measured: verdict.measured,
            stands_on,
            criteria_met: verdict.met,
            criteria: finding.criteria.iter().map(CriterionKeys::from).collect(),
            comparisons: finding
                .comparisons
                .iter()
                .map(ComparisonKeys::from)
                .collect(),
            panels: finding.panels.iter().map(PanelKeys::from).collect(),
            rules: rules.collect(),
            notes: finding.notes.clone(),
            missing: finding.missing.map(how_to_get),
        }
    }
}

impl From<&Criterion> for CriterionKeys {
    fn from(criterion: &Criterion) -> Self {
        let text = |value| criterion.unit.text(value);
        let (at_least, at_most, limit_text) = match criterion.limit {
            Limit::AtLeast(least) => (Some(least), None, format!("at least {}", text(least))),
            Limit::AtMost(most) => (None, Some(most), format!("at most {}", text(most))),
        };
        Self {
            statement: criterion.statement.clone(),
            basis: criterion.basis.name(),
            basis_text: criterion.basis.text(),
            value: criterion.value,
            unit: criterion.unit.name(),
            at_least,
            at_most,
            is_met: criterion.is_met(),
            value_text: text(criterion.value),
            limit_text,
        }
    }
}

impl From<&Comparison> for ComparisonKeys {
    fn from(comparison: &Comparison) -> Self {
        let Comparison {
            measured,
            predicted,
            unit,
            ..
        } = *comparison;
        let difference_text = match (measured, unit) {
            (None, _) => "-".to_owned(),
            (Some(measured), Unit::Share) => {
                unsigned_zero(format!("{:+.1} points", (predicted - measured) * 100.0))
            }
            (Some(measured), _) => {
                unsigned_zero(format!("{:+.0} %", (predicted / measured - 1.0) * 100.0))
            }
        };
        Self {
            what: comparison.what.clone(),
            measured,
            predicted,
            unit: unit.name(),
            measured_text: measured.map_or("not seen".to_owned(), |value| unit.text(value)),
            predicted_text: unit.text(predicted),
            difference_text,
        }
    }
}

impl From<&Panel> for PanelKeys {
    fn from(panel: &Panel) -> Self {
        let curves = |curves: &[Curve]| curves.iter().map(CurveKeys::from).collect();
        Self {
            title: panel.title.clone(),
            conditions: panel.conditions.clone(),
            x: AxisKeys::from(&panel.x),
            y: AxisKeys::from(&panel.y),
            predicted: curves(&panel.predicted),
            points: curves(&panel.points),
            basis: panel.basis.iter().map(|basis| basis.name()).collect(),
            basis_text: joined(&panel.basis),
        }
    }
}

/// Nothing is neither more nor less.
fn unsigned_zero(text: String) -> String {
    let digits = text.trim_start_matches(['+', '-']);
    let is_zero = !digits.contains(|digit: char| ('1'..='9').contains(&digit));
    if is_zero { digits.to_owned() } else { text }
}

/// What several bases are, in words.
fn joined(bases: &[judge::Basis]) -> String {
    let texts: Vec<_> = bases.iter().map(|basis| basis.text()).collect();
    texts.join(" and ")
}

impl From<&Axis> for AxisKeys {
    fn from(axis: &Axis) -> Self {
        Self {
            label: axis.label.clone(),
            unit: axis.unit.name(),
        }
    }
}

impl From<&Curve> for CurveKeys {
    fn from(curve: &Curve) -> Self {
        Self {
            name: curve.name.clone(),
            points: curve.points.clone(),
        }
    }
}
