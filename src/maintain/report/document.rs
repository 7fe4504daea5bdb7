//! The document of a finding.

use crate::report::how_to_get;
use crate::reproduce::judge::{Basis, Criterion, Limit, Outcome, Unit};
use crate::reproduce::{Comparison, Finding, Panel, judge};
use serde::Serialize;
use shapewise::rules::RULES;

/// The limits that criteria are held to unless they say otherwise.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ThresholdDocument {
    least_correlation: f64,
    greatest_median_error_of_rates: f64,
    greatest_error_of_ratios: f64,
    greatest_difference_of_shares: f64,
}

impl Default for ThresholdDocument {
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
pub(super) struct FindingDocument {
    pub id: String,
    pub title: String,
    pub claim: String,
    pub source: String,
    pub verdict: Outcome,
    pub verdict_text: &'static str,
    pub measured: bool,
    /// The evidence of the criteria, each kind once.
    stands_on: Vec<Basis>,
    pub criteria_met: usize,
    pub criteria: Vec<CriterionDocument>,
    pub comparisons: Vec<Comparison>,
    pub panels: Vec<Panel>,
    pub rules: Vec<RuleDocument>,
    pub notes: Vec<String>,
    pub missing: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RuleDocument {
    pub id: &'static str,
    pub demand: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct CriterionDocument {
    pub statement: String,
    pub basis: Basis,
    value: f64,
    unit: Unit,
    at_least: Option<f64>,
    at_most: Option<f64>,
    pub is_met: bool,
}

impl FindingDocument {
    /// The evidence of the verdict, for a narrow column.
    pub(super) fn stands_on(&self) -> String {
        let texts = self.stands_on.iter().map(|basis| basis.name().replace('_', " "));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// How many criteria are met.
    pub(super) fn met(&self) -> String {
        format!("{} of {}", self.criteria_met, self.criteria.len())
    }

    /// The first criterion that is not met, else the first, with its value.
    pub(super) fn decides(&self) -> String {
        let unmet = self.criteria.iter().find(|criterion| !criterion.is_met);
        let decides = unmet.or(self.criteria.first());
        decides.map_or(String::new(), |criterion| {
            format!("{} {}", criterion.statement, criterion.value())
        })
    }

    /// The file of a plot.
    pub(super) fn picture(&self, at: usize) -> String {
        format!("{}-{}.svg", self.id, at + 1)
    }
}

impl CriterionDocument {
    /// The value with its unit.
    pub(super) fn value(&self) -> String {
        self.unit.text(self.value)
    }

    /// What is allowed, with its unit.
    pub(super) fn limit(&self) -> String {
        let least = self.at_least.map(|least| format!("at least {}", self.unit.text(least)));
        let most = self.at_most.map(|most| format!("at most {}", self.unit.text(most)));
        least.into_iter().chain(most).collect()
    }
}

impl From<&Finding> for FindingDocument {
    fn from(finding: &Finding) -> Self {
        let verdict = finding.verdict();
        let mut stands_on = Vec::new();
        for criterion in &finding.criteria {
            if !stands_on.contains(&criterion.basis) {
                stands_on.push(criterion.basis);
            }
        }
        let rules = finding.rules.iter().filter_map(|id| {
            let rule = RULES.iter().find(|rule| rule.id == *id)?;
            Some(RuleDocument {
                id: rule.id,
                demand: rule.demand,
            })
        });
        Self {
            id: finding.id.clone(),
            title: finding.title.clone(),
            claim: finding.claim.clone(),
            source: finding.source.clone(),
            verdict: verdict.outcome,
            verdict_text: verdict.text(),
            measured: verdict.measured,
            stands_on,
            criteria_met: verdict.met,
            criteria: finding.criteria.iter().map(CriterionDocument::from).collect(),
            comparisons: finding.comparisons.clone(),
            panels: finding.panels.clone(),
            rules: rules.collect(),
            notes: finding.notes.clone(),
            missing: finding.missing.as_deref().map(how_to_get),
        }
    }
}

impl From<&Criterion> for CriterionDocument {
    fn from(criterion: &Criterion) -> Self {
        let (at_least, at_most) = match criterion.limit {
            Limit::AtLeast(least) => (Some(least), None),
            Limit::AtMost(most) => (None, Some(most)),
        };
        Self {
            statement: criterion.statement.clone(),
            basis: criterion.basis,
            value: criterion.value,
            unit: criterion.unit,
            at_least,
            at_most,
            is_met: criterion.is_met(),
        }
    }
}
