//! The answer to `check`: what every rule says, what the broken ones cost, and what fixes them.

use crate::arch::Architecture;
use crate::arch::Dimension;
use crate::arch::Workload;
use crate::check::Check;
use crate::check::Diagnosis;
use crate::check::Fix;
use crate::check::Gain;
use crate::check::Remedy;
use crate::gpu::Gpu;
use crate::predict::estimate::Tier;
use crate::predict::step::StepEstimate;
use crate::report::architecture::ArchitectureShape;
use crate::rules::Rule;
use crate::rules::Severity;
use crate::rules::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// One shape under all rules.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CheckReport {
    pub(super) gpu: String,
    #[serde(skip)]
    pub(super) gpu_title: String,
    pub(super) model: ArchitectureShape,
    pub(super) workload: Workload,
    /// The step as it is; `None` if it does not run.
    pub(super) predicted: Option<StepKeys>,
    /// Why it does not run.
    pub(super) impossible: Option<String>,
    pub(super) broken: usize,
    pub(super) rules: Vec<RuleKeys>,
    /// What the config says beyond the shape that was checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    /// One shape that fixes as many rules as possible.
    pub(super) together: Option<FixKeys>,
}

/// A predicted step in short.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct StepKeys {
    /// Name of the framework that runs the step.
    pub framework: String,
    pub time_us: f64,
    pub low_us: f64,
    pub high_us: f64,
    pub tokens_per_s: f64,
    pub fits: bool,
    pub tier: Tier,
    pub tier_shares: BTreeMap<Tier, f64>,
}

/// What one rule says.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RuleKeys {
    pub id: &'static str,
    pub title: &'static str,
    pub verdict: &'static str,
    pub severity: Option<&'static str>,
    pub detail: String,
    pub value: Option<f64>,
    pub wanted: Option<String>,
    pub demand: &'static str,
    pub reason: &'static str,
    pub source: &'static str,
    /// The nearest shape that fixes it.
    pub fix: Option<FixKeys>,
    /// One farther away that is predicted clearly faster.
    pub faster: Option<FixKeys>,
    /// Why there is no fix.
    pub no_fix: Option<String>,
}

/// Another shape.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct FixKeys {
    pub changes: Vec<ChangeKeys>,
    pub architecture: ArchitectureShape,
    pub workload: Workload,
    pub parameter_change_fraction: f64,
    pub predicted: StepKeys,
    pub gain: Option<GainKeys>,
    pub fixes: Vec<&'static str>,
    pub breaks: Vec<&'static str>,
}

/// One changed dimension.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct ChangeKeys {
    pub dimension: Dimension,
    pub from: u64,
    pub to: u64,
}

/// GPU time per token that is saved, as fractions of what it is.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct GainKeys {
    pub time_saved_fraction: f64,
    pub low_fraction: f64,
    pub high_fraction: f64,
    pub outlook: &'static str,
}

impl CheckReport {
    /// Whether any rule is broken.
    pub fn is_broken(&self) -> bool {
        self.broken > 0
    }

    /// Whether a rule is broken that counts: advice where it is wanted, and where a least gain is named, only rules with
    /// a fix that is expected to save more than this fraction of the time.
    pub fn fails(&self, advice: bool, above: Option<f64>) -> bool {
        self.rules
            .iter()
            .filter(|rule| rule.is_broken() && (advice || rule.severity != Some(ADVICE)))
            .any(|rule| above.is_none_or(|least| rule.greatest_gain() > least))
    }

    /// Describes the check of `architecture` under `workload` on `gpu`.
    pub fn new(gpu: &Gpu, architecture: &Architecture, workload: &Workload, check: &Check) -> Self {
        let rules: Vec<_> = check.diagnoses.iter().map(RuleKeys::from).collect();
        Self {
            gpu: gpu.name.clone(),
            gpu_title: gpu.title.clone(),
            model: ArchitectureShape::from(architecture),
            workload: *workload,
            predicted: check.as_is.as_ref().ok().map(StepKeys::from),
            impossible: check.as_is.as_ref().err().map(ToString::to_string),
            broken: check.diagnoses.iter().filter(|one| one.is_broken()).count(),
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

/// The severity of rules whose breach may be meant.
pub(super) const ADVICE: &str = Severity::Advice.name();

impl RuleKeys {
    pub(super) fn is_broken(&self) -> bool {
        self.verdict == "broken"
    }

    /// The greatest share of the time that a fix is expected to save; `None` if there is no fix.
    fn greatest_gain(&self) -> f64 {
        let fixes = [&self.fix, &self.faster].into_iter().flatten();
        let gains = fixes.filter_map(|fix| fix.gain);
        gains.fold(0.0, |most, gain| most.max(gain.time_saved_fraction))
    }
}

impl From<&StepEstimate> for StepKeys {
    fn from(step: &StepEstimate) -> Self {
        Self {
            framework: step.framework.clone(),
            time_us: step.time.micros(),
            low_us: step.low.micros(),
            high_us: step.high.micros(),
            tokens_per_s: step.tokens_per_s,
            fits: step.fits,
            tier: step.main_tier(),
            tier_shares: Tier::ALL.into_iter().zip(step.tier_shares).collect(),
        }
    }
}

impl From<&Diagnosis> for RuleKeys {
    fn from(diagnosis: &Diagnosis) -> Self {
        let rule = diagnosis.rule();
        let verdict = &diagnosis.finding.verdict;
        let (value, wanted) = match verdict {
            Verdict::Broken { value, wanted, .. } => (Some(*value), Some(wanted.clone())),
            _ => (None, None),
        };
        let (fix, faster, no_fix) = match &diagnosis.remedy {
            None => (None, None, None),
            Some(Remedy::NoNearShape { why }) => (None, None, Some(why.clone())),
            Some(Remedy::Fixed { nearest, faster }) => (
                Some(FixKeys::from(&**nearest)),
                faster.as_deref().map(FixKeys::from),
                None,
            ),
        };
        Self {
            id: rule.id,
            title: rule.title,
            verdict: verdict.name(),
            severity: verdict.severity().map(|severity| severity.name()),
            detail: verdict.detail().to_owned(),
            value,
            wanted,
            demand: rule.demand,
            reason: rule.reason,
            source: rule.source,
            fix,
            faster,
            no_fix,
        }
    }
}

impl From<&Fix> for FixKeys {
    fn from(fix: &Fix) -> Self {
        let ids = |rules: &[&'static Rule]| rules.iter().map(|rule| rule.id).collect();
        Self {
            changes: fix
                .changes
                .iter()
                .map(|change| ChangeKeys {
                    dimension: change.dimension,
                    from: change.from,
                    to: change.to,
                })
                .collect(),
            architecture: ArchitectureShape::from(&fix.architecture),
            workload: fix.workload,
            parameter_change_fraction: fix.parameter_change,
            predicted: StepKeys::from(&fix.step),
            gain: fix.gain.map(GainKeys::from),
            fixes: ids(&fix.fixes),
            breaks: ids(&fix.breaks),
        }
    }
}

impl From<Gain> for GainKeys {
    fn from(gain: Gain) -> Self {
        Self {
            time_saved_fraction: gain.expected,
            low_fraction: gain.low,
            high_fraction: gain.high,
            outlook: gain.outlook().name(),
        }
    }
}
