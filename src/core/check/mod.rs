//! What a broken rule costs, and the nearest shape that fixes it.
//!
//! A fix changes as little as it can, keeps the parameters within 1 %, meets the rule and breaks no hard rule that was
//! met. Rules on the workload are fixed by another batch, sequence or number of ranks. Every cost is a prediction
//! of both steps by one predictor, with the interval of their difference (`compare`).

mod candidates;

mod change;

mod compare;

mod fix;

mod operator;

mod workloads;

pub use candidates::MOST_PARAMETER_CHANGE;
pub use change::Change;
pub use compare::{Gain, Outlook};
pub use fix::Fix;
pub use operator::{Faster, Limit, Limits, OperatorDiagnosis, Resize, check_operator, limits, refusal};

use crate::arch::{Architecture, Workload};
use crate::check::fix::Fixer;
use crate::error::{Error, Result};
use crate::predict::Predictor;
use crate::predict::step::{StepEstimate, estimate_step};
use crate::rules::{Finding, Rule, Severity, Subject, judge_all};

/// Everything that the rules and the predictor say of one shape.
#[derive(Debug)]
pub struct Check {
    /// The step of the shape as it is; where its tensor-parallel split does not run, the reason.
    pub as_is: std::result::Result<StepEstimate, Error>,
    /// Every rule, in the order of [`crate::rules::RULES`].
    pub diagnoses: Vec<Diagnosis>,
    /// One shape that fixes as many rules as possible by its dimensions alone; `None` if none can be fixed.
    pub together: Option<Fix>,
}

/// What a rule says, and what can be done.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The rule and its verdict.
    pub finding: Finding,
    /// What can be done; none unless the rule is broken.
    pub remedy: Option<Remedy>,
}

/// How a broken rule is fixed.
#[derive(Clone, Debug)]
pub enum Remedy {
    /// By a near shape.
    Fixed {
        /// The nearest one.
        nearest: Box<Fix>,
        /// One farther away that is predicted clearly faster than the nearest.
        faster: Option<Box<Fix>>,
    },
    /// Near shapes meet the rule, and none is predicted faster by half a percent.
    NotFaster {
        /// How many were predicted.
        met: usize,
    },
    /// Not by a near shape, and why.
    NoNearShape {
        /// One sentence.
        why: String,
    },
}

impl Diagnosis {
    /// The rule.
    pub fn rule(&self) -> &'static Rule {
        self.finding.rule
    }

    /// Whether the rule is broken and a fix may be faster.
    pub fn is_broken(&self) -> bool {
        self.finding.verdict.counts(true)
    }
}

impl Check {
    /// The finding on the rule with this id.
    pub fn diagnosis(&self, id: &str) -> Option<&Diagnosis> {
        self.diagnoses.iter().find(|diagnosis| diagnosis.rule().id == id)
    }
}

/// What every rule says of a shape under the framework of the predictor.
pub fn findings(predictor: &Predictor, arch: &Architecture, work: &Workload) -> Vec<Finding> {
    judge_all(&Subject {
        arch,
        work,
        gpu: predictor.gpu(),
        practice: &predictor.practice(work.mode),
    })
}

/// Judges `arch` under `work` by every rule, with the predicted cost and the fix of each broken one.
///
/// Fails where architecture or workload is impossible; a tensor-parallel split that does not run is a finding.
///
/// ```
/// # use shapewise_core as shapewise;
/// use shapewise::arch::{Architecture, Workload};
/// use shapewise::check::check;
/// use shapewise::gpu::Gpu;
/// use shapewise::predict::Predictor;
///
/// # fn main() -> shapewise::error::Result<()> {
/// let predictor = Predictor::new(Gpu::find("a100")?, None)?;
/// // 50257 tokens: the logits are no multiple of what the matrix units take.
/// let model = Architecture::find("gpt2")?;
/// let checked = check(&predictor, &model, &Workload::train(4, 1024))?;
/// assert!(checked.diagnosis("vocabulary").is_some_and(|rule| rule.is_broken()));
/// # Ok(())
/// # }
/// ```
pub fn check(predictor: &Predictor, arch: &Architecture, work: &Workload) -> Result<Check> {
    arch.validate()?;
    let unsplit = Workload {
        tp: 1,
        // Experts may be spread over the tensor-parallel ranks.
        dp: if work.ep > 1 { work.dp * work.tp } else { work.dp },
        sequence_parallel: false,
        ..*work
    };
    unsplit.validate(arch)?;
    let as_is = estimate_step(predictor, arch, work);
    let findings = findings(predictor, arch, work);
    let fixer = Fixer::new(predictor, arch, work, as_is.as_ref().ok(), &findings);
    let mut remedies: Vec<_> = findings.iter().map(|finding| fixer.remedy(finding)).collect();
    let together = fixer.together();
    if let Some(fix) = &together {
        let is_fixed = |finding: &Finding| fix.fixes.iter().any(|rule| rule.id == finding.rule.id);
        let both = findings.iter().zip(&mut remedies);
        let fixed = Vec::from_iter(both.filter(|(finding, _)| is_fixed(finding)).map(|(_, remedy)| remedy));
        // A farther shape is faster than the near ones of each rule.
        if fixed
            .iter()
            .all(|remedy| matches!(remedy, Some(Remedy::NotFaster { .. })))
        {
            for remedy in fixed {
                let nearest = Box::new(fix.clone());
                *remedy = Some(Remedy::Fixed { nearest, faster: None });
            }
        }
    }
    let diagnoses = findings
        .into_iter()
        .zip(remedies)
        .map(|(mut finding, remedy)| {
            if matches!(remedy, Some(Remedy::NotFaster { .. })) {
                finding.verdict = finding.verdict.with_severity(Severity::NoGain);
            }
            Diagnosis { finding, remedy }
        })
        .collect();
    Ok(Check {
        as_is,
        diagnoses,
        together,
    })
}

#[cfg(test)]
mod tests;
