//! The answer to `check`: what every rule says, what the broken ones cost, and what fixes them.

mod text;

pub(super) use text::{summary, verdict_text};

use crate::arch::{Architecture, Workload};
use crate::check::{Change, Check, Diagnosis, Fix, Gain, Remedy};
use crate::predict::Predictor;
use crate::predict::estimate::{Tier, TierShares};
use crate::predict::step::StepEstimate;
use crate::report::NamedGpu;
use crate::report::architecture::ArchitectureShape;
use crate::rules::{Rule, Verdict};
use crate::units::Seconds;
use serde::Serialize;
use utoipa::ToSchema;

/// One shape under all rules.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CheckReport {
    pub(super) gpu: NamedGpu,
    model: ArchitectureShape,
    workload: Workload,
    /// The step as it is; `None` if it does not run.
    predicted: Option<StepKeys>,
    /// Why it does not run.
    impossible: Option<String>,
    broken: usize,
    pub(super) rules: Vec<RuleKeys>,
    /// What the config says beyond the shape that was checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// One shape that fixes as many rules as possible.
    together: Option<FixKeys>,
}

/// A predicted step in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct StepKeys {
    /// Name of the framework that runs the step.
    framework: String,
    /// Whether none was named, so that this one was taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    framework_is_assumed: bool,
    time_us: Seconds,
    low_us: Seconds,
    high_us: Seconds,
    tokens_per_s: f64,
    fits: bool,
    tier: Tier,
    tier_shares: TierShares,
}

/// What one rule says.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RuleKeys {
    pub id: &'static str,
    pub title: &'static str,
    #[serde(flatten)]
    pub verdict: Verdict,
    pub demand: &'static str,
    pub reason: &'static str,
    pub source: &'static str,
    /// The nearest shape that fixes it.
    pub fix: Option<FixKeys>,
    /// One farther away that is predicted clearly faster.
    faster: Option<FixKeys>,
    /// Why there is no fix.
    no_fix: Option<String>,
}

/// Another shape.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct FixKeys {
    pub changes: Vec<Change>,
    architecture: ArchitectureShape,
    workload: Workload,
    parameter_change_fraction: f64,
    predicted: StepKeys,
    pub gain: Option<Gain>,
    fixes: Vec<&'static str>,
    breaks: Vec<&'static str>,
}

impl CheckReport {
    /// Whether a rule is broken that counts: advice where it is wanted, and where a least gain is named, only rules with
    /// a fix that is expected to save more than this fraction of the time.
    pub fn fails(&self, advice: bool, above: Option<f64>) -> bool {
        self.rules
            .iter()
            .filter(|rule| rule.verdict.counts(advice))
            .any(|rule| above.is_none_or(|least| rule.greatest_gain() > least))
    }

    /// Describes the check of `architecture` under `workload` by what `predictor` says.
    pub fn new(predictor: &Predictor, architecture: &Architecture, workload: &Workload, check: &Check) -> Self {
        let rules: Vec<_> = check.diagnoses.iter().map(RuleKeys::from).collect();
        Self {
            gpu: predictor.gpu().into(),
            model: architecture.into(),
            workload: *workload,
            predicted: check.as_is.as_ref().ok().map(|step| StepKeys {
                framework_is_assumed: predictor.assumes_framework(workload.mode),
                ..StepKeys::from(step)
            }),
            impossible: check.as_is.as_ref().err().map(ToString::to_string),
            broken: rules.iter().filter(|rule| rule.verdict.counts(true)).count(),
            rules,
            notes: architecture
                .notes(workload)
                .into_iter()
                .chain(of_one_shape(architecture))
                .collect(),
            together: check.together.as_ref().map(FixKeys::from),
        }
    }
}

/// What rules leave out of a model whose layers differ.
fn of_one_shape(architecture: &Architecture) -> Option<String> {
    let others: u64 = architecture.kinds.iter().map(|kind| kind.layers).sum();
    let judged = architecture.layers.saturating_sub(others);
    (others > 0).then(|| {
        format!("rules judge, and fixes change, the {judged} layers of the most frequent shape; {others} layers of other shapes are only timed")
    })
}

impl RuleKeys {
    /// The greatest share of the time that a fix is expected to save; `None` if there is no fix.
    fn greatest_gain(&self) -> f64 {
        let fixes = [&self.fix, &self.faster].into_iter().flatten();
        let gains = fixes.filter_map(|fix| fix.gain);
        gains.fold(0.0, |most, gain| most.max(gain.expected))
    }
}

impl From<&StepEstimate> for StepKeys {
    fn from(step: &StepEstimate) -> Self {
        Self {
            framework: step.framework.clone(),
            framework_is_assumed: false,
            time_us: step.time,
            low_us: step.low,
            high_us: step.high,
            tokens_per_s: step.tokens_per_s,
            fits: step.fits,
            tier: step.main_tier(),
            tier_shares: step.tier_shares,
        }
    }
}

impl From<&Diagnosis> for RuleKeys {
    fn from(diagnosis: &Diagnosis) -> Self {
        let rule = diagnosis.rule();
        let (fix, faster, no_fix) = match &diagnosis.remedy {
            None => (None, None, None),
            Some(Remedy::NoNearShape { why }) => (None, None, Some(why.clone())),
            Some(Remedy::NotFaster { met }) => {
                let why = format!("of {met} near shapes that meet the rule none is predicted faster");
                (None, None, Some(why))
            }
            Some(Remedy::Fixed { nearest, faster }) => (Some(&**nearest), faster.as_deref(), None),
        };
        Self {
            id: rule.id,
            title: rule.title,
            verdict: diagnosis.finding.verdict.clone(),
            demand: rule.demand,
            reason: rule.reason,
            source: rule.source,
            fix: fix.map(FixKeys::from),
            faster: faster.map(FixKeys::from),
            no_fix,
        }
    }
}

impl From<&Fix> for FixKeys {
    fn from(fix: &Fix) -> Self {
        let ids = |rules: &[&'static Rule]| rules.iter().map(|rule| rule.id).collect();
        Self {
            changes: fix.changes.clone(),
            architecture: ArchitectureShape::from(&fix.architecture),
            workload: fix.workload,
            parameter_change_fraction: fix.parameter_change,
            predicted: StepKeys::from(&fix.step),
            gain: fix.gain,
            fixes: ids(&fix.fixes),
            breaks: ids(&fix.breaks),
        }
    }
}
