//! The nearest shape that fixes a broken rule, and the one that fixes most rules at once.

use crate::arch::{Architecture, Practice, Workload, parameters};
use crate::check::candidates::{Candidate, candidates};
use crate::check::change::{Change, changes, distance, keep_weights, only};
use crate::check::compare::Gain;
use crate::check::{MOST_PARAMETER_CHANGE, Remedy};
use crate::predict::Predictor;
use crate::predict::step::{StepEstimate, estimate_step};
use crate::rules::{Finding, Kind, RULES, Rule, Severity, Subject, is_met, judge_all};

/// Near shapes of one rule that are predicted. Ours: each takes the prediction of a whole step, and they come nearest
/// first, so that more of them are only farther.
const PREDICTED: usize = 12;

/// Near shapes of one rule among which the one that fixes most rules is looked for. Ours: the candidates of two
/// dimensions, seven steps in three units each, and a few.
const JUDGED: usize = 48;

/// A shape is worth naming when it gains this much, and a farther one this much more than the nearest. Ours: half a percent of a step is
/// less than any rule here is about.
const WORTH_NAMING: f64 = 0.005;

/// A shape near the one that was checked.
#[derive(Clone, Debug)]
pub struct Fix {
    /// The shape.
    pub architecture: Architecture,
    /// What is run on it.
    pub workload: Workload,
    /// What is different.
    pub changes: Vec<Change>,
    /// Change of the number of parameters, as a fraction.
    pub parameter_change: f64,
    /// Its step.
    pub step: StepEstimate,
    /// What it gains; `None` if the shape as it is does not run.
    pub gain: Option<Gain>,
    /// Broken rules that it meets.
    pub fixes: Vec<&'static Rule>,
    /// Rules of advice that were met and that it breaks.
    pub breaks: Vec<&'static Rule>,
}

impl Fix {
    /// Whether the layout changes, or padding of the vocabulary, and no weight.
    pub fn keeps_weights(&self) -> bool {
        keep_weights(&self.changes)
    }

    fn is_worth_naming(&self) -> bool {
        let left = |gain: Gain| (1.0 - gain.expected) / size(self.parameter_change);
        self.gain.is_none_or(|gain| 1.0 - left(gain) >= WORTH_NAMING)
    }

    /// GPU time of a token at no fewer parameters.
    fn cost(&self) -> f64 {
        self.step.gpu_time_per_token().secs() / size(self.parameter_change)
    }
}

/// What the time of a shape is divided by, so that a smaller model is no faster by its size.
fn size(parameter_change: f64) -> f64 {
    1.0 + parameter_change.min(0.0)
}

/// Looks for fixes of one shape.
pub(super) struct Fixer<'a> {
    predictor: &'a Predictor,
    arch: &'a Architecture,
    work: &'a Workload,
    as_is: Option<&'a StepEstimate>,
    findings: &'a [Finding],
    practice: Practice,
    parameters: f64,
}

/// Why near shapes were refused, counted.
#[derive(Default)]
struct Refused {
    impossible: usize,
    parameters: usize,
    unmet: usize,
    other_rules: usize,
    memory: usize,
}

impl Refused {
    fn sentence(&self) -> String {
        let reasons = [
            (self.parameters, "change the parameters by more than 1 %"),
            (self.unmet, "do not meet the rule either"),
            (self.other_rules, "break another rule"),
            (self.memory, "do not fit the memory"),
            (self.impossible, "cannot be built or split like this"),
        ];
        let total: usize = reasons.iter().map(|(count, _)| count).sum();
        if total == 0 {
            return "no dimension of this shape can be moved for it".to_owned();
        }
        let parts: Vec<_> = reasons
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, reason)| format!("{count} {reason}"))
            .collect();
        format!("of {total} near shapes {}", parts.join(", "))
    }
}

impl<'a> Fixer<'a> {
    pub fn new(
        predictor: &'a Predictor,
        arch: &'a Architecture,
        work: &'a Workload,
        as_is: Option<&'a StepEstimate>,
        findings: &'a [Finding],
    ) -> Self {
        Self {
            predictor,
            arch,
            work,
            as_is,
            findings,
            practice: predictor.practice(work.mode),
            parameters: parameters(arch).total as f64,
        }
    }

    /// What can be done about a finding; none unless it is a broken rule.
    pub fn remedy(&self, finding: &Finding) -> Option<Remedy> {
        if finding.verdict.is_met() != Some(false) {
            return None;
        }
        let mut refused = Refused::default();
        let mut fixes = Vec::new();
        for near in self.nearest_first(finding.rule, self.arch) {
            if !self.is_possible(finding.rule, &near, &mut refused) {
                continue;
            }
            let Some((fixed, breaks)) = self.effect(&near) else {
                refused.other_rules += 1;
                continue;
            };
            if let Some(fix) = self.predicted(near, fixed, breaks) {
                fixes.push(fix);
            }
            if fixes.len() == PREDICTED {
                break;
            }
        }
        // A shape that is no faster is no fix of a rule about speed.
        let met = fixes.len();
        if finding.rule.kind == Kind::Speed {
            fixes.retain(Fix::is_worth_naming);
        }
        if met > 0 && fixes.is_empty() {
            return Some(Remedy::NotFaster { met });
        }
        // Near stays before far among those that break no advice; the faster of two equally near ones comes first.
        let distance = |fix: &Fix| distance(&fix.changes);
        fixes.sort_by(|a, b| {
            let rank = |fix: &Fix| (!fix.breaks.is_empty(), !fix.keeps_weights());
            let rank = rank(a).cmp(&rank(b)).then(distance(a).total_cmp(&distance(b)));
            rank.then(a.cost().total_cmp(&b.cost()))
        });
        if fixes.is_empty() {
            let why = if self.as_is.is_none() && finding.rule.kind != Kind::Split {
                let split = split_rules().map(|rule| rule.id).collect::<Vec<_>>();
                let split = split.join(", ");
                format!("alone it leaves a split that does not run; fix {split} first")
            } else {
                refused.sentence()
            };
            return Some(Remedy::NoNearShape { why });
        }
        let nearest = Box::new(fixes.remove(0));
        let faster = fixes
            .into_iter()
            // Another workload is not farther away, only larger.
            .filter(|fix| fix.workload == *self.work && clearly_faster(fix, &nearest))
            .min_by(|a, b| a.cost().total_cmp(&b.cost()));
        Some(Remedy::Fixed {
            nearest,
            faster: faster.map(Box::new),
        })
    }

    /// The shape that fixes as many rules as possible without touching the workload.
    pub fn together(&self) -> Option<Fix> {
        let mut current = self.arch.clone();
        let mut broken = count_broken(self.findings);
        // Nothing else can be judged by its GEMMs until the ranks divide them.
        let others = RULES.iter().filter(|rule| rule.kind != Kind::Split);
        for rule in split_rules().chain(others) {
            if is_met(rule, &self.subject(&current, self.work)) != Some(false) {
                continue;
            }
            let mut refused = Refused::default();
            let mut best: Vec<(usize, Candidate)> = Vec::new();
            for near in self.nearest_first(rule, &current) {
                if near.work != *self.work || !self.is_possible(rule, &near, &mut refused) {
                    continue;
                }
                let findings = judge_all(&self.subject(&near.arch, &near.work));
                if self.is_worse(&findings) {
                    continue;
                }
                best.push((count_broken(&findings), near));
                if best.len() == JUDGED {
                    break;
                }
            }
            let Some(fewest) = best.iter().map(|(count, _)| *count).min() else {
                continue;
            };
            if fewest >= broken {
                continue;
            }
            // The nearest says which dimensions; how far they go is for the predictor.
            best.retain(|(count, _)| *count == fewest);
            let nearest = self.changes(&best[0].1);
            let fastest = best
                .into_iter()
                .filter(|(_, near)| only(&self.changes(near), &nearest))
                .take(PREDICTED)
                .filter_map(|(_, near)| {
                    let step = estimate_step(self.predictor, &near.arch, &near.work).ok()?;
                    Some((step.time.secs() / size(self.parameter_change(&near.arch)), near.arch))
                })
                .min_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((_, arch)) = fastest {
                current = arch;
                broken = fewest;
            }
        }
        if current == *self.arch {
            return None;
        }
        let near = Candidate {
            arch: current,
            work: *self.work,
        };
        let (fixed, breaks) = self.effect(&near)?;
        let is_of_speed = fixed.iter().all(|rule| rule.kind == Kind::Speed);
        let fix = self.predicted(near, fixed, breaks)?;
        (!is_of_speed || fix.is_worth_naming()).then_some(fix)
    }

    fn subject<'s>(&'s self, arch: &'s Architecture, work: &'s Workload) -> Subject<'s> {
        Subject {
            arch,
            work,
            gpu: self.predictor.gpu(),
            practice: &self.practice,
        }
    }

    /// Candidates for a rule around `arch`: another layout or a padded vocabulary before another shape, then those that
    /// change least first.
    fn nearest_first(&self, rule: &Rule, arch: &Architecture) -> Vec<Candidate> {
        let near = candidates(rule, arch, self.work, self.predictor.gpu());
        let ranked = near.into_iter().map(|near| {
            let changes = self.changes(&near);
            (!keep_weights(&changes), distance(&changes), near)
        });
        let mut ranked = Vec::from_iter(ranked.filter(|(_, distance, _)| *distance > 0.0));
        ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // Equal shapes are equally far, so they are neighbours.
        ranked.dedup_by(|a, b| a.2.arch == b.2.arch && a.2.work == b.2.work);
        ranked.into_iter().map(|(_, _, near)| near).collect()
    }

    fn changes(&self, near: &Candidate) -> Vec<Change> {
        changes((self.arch, self.work), (&near.arch, &near.work))
    }

    /// Whether the shape exists, keeps parameters and memory, and meets the rule.
    fn is_possible(&self, rule: &Rule, near: &Candidate, refused: &mut Refused) -> bool {
        let gpu = self.predictor.gpu();
        let subject = self.subject(&near.arch, &near.work);
        let is_on_fewer = near.work.tp * near.work.pp < self.work.tp * self.work.pp;
        // Key/value heads that the ranks divide stay so.
        let splits = |arch: &Architecture| arch.kv_heads.is_multiple_of(self.work.tp);
        let reason = if near.arch.validate().is_err()
            || near.work.validate(&near.arch).is_err()
            || (near.work.tp == self.work.tp && splits(self.arch) && !splits(&near.arch))
        {
            &mut refused.impossible
        } else if self.parameter_change(&near.arch).abs() > MOST_PARAMETER_CHANGE {
            &mut refused.parameters
        } else if is_met(rule, &subject) != Some(true) {
            &mut refused.unmet
        } else if (self.must_fit() || is_on_fewer)
            && !self
                .predictor
                .memory_use(&near.arch, &near.work)
                .is_ok_and(|memory| memory.fits(gpu))
        {
            &mut refused.memory
        } else {
            return true;
        };
        *reason += 1;
        false
    }

    /// What does not fit as it is need not fit fixed.
    fn must_fit(&self) -> bool {
        self.as_is.is_some_and(|step| step.fits)
    }

    fn parameter_change(&self, arch: &Architecture) -> f64 {
        parameters(arch).total as f64 / self.parameters - 1.0
    }

    /// Whether a hard rule is broken that was not, or was only advice.
    fn is_worse(&self, findings: &[Finding]) -> bool {
        self.findings.iter().zip(findings).any(|(before, after)| {
            after.verdict.severity == Some(Severity::Hard) && before.verdict.severity != Some(Severity::Hard)
        })
    }

    /// Broken rules that the shape meets and advice that it breaks; `None` if it breaks a hard rule that was met.
    fn effect(&self, near: &Candidate) -> Option<(Vec<&'static Rule>, Vec<&'static Rule>)> {
        let findings = judge_all(&self.subject(&near.arch, &near.work));
        if self.is_worse(&findings) {
            return None;
        }
        let changed = |from: bool| {
            let pairs = self.findings.iter().zip(&findings);
            pairs
                .filter(|(before, _)| !from || before.rule.kind != Kind::Memory)
                .filter(|(before, after)| {
                    before.verdict.is_met() == Some(from) && after.verdict.is_met() == Some(!from)
                })
                .map(|(before, _)| before.rule)
                .collect()
        };
        Some((changed(false), changed(true)))
    }

    /// The shape with its predicted step; `None` if it cannot be lowered.
    fn predicted(&self, near: Candidate, fixes: Vec<&'static Rule>, breaks: Vec<&'static Rule>) -> Option<Fix> {
        let step = estimate_step(self.predictor, &near.arch, &near.work).ok()?;
        let framework = self.predictor.framework(near.work.mode).ok()?;
        Some(Fix {
            changes: self.changes(&near),
            parameter_change: self.parameter_change(&near.arch),
            gain: self.as_is.map(|before| Gain::between(framework, before, &step)),
            architecture: near.arch,
            workload: near.work,
            step,
            fixes,
            breaks,
        })
    }
}

/// The rules without which a model cannot be split.
fn split_rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(|rule| rule.kind == Kind::Split)
}

fn clearly_faster(fix: &Fix, nearest: &Fix) -> bool {
    fix.breaks.len() <= nearest.breaks.len()
        && fix.step.fits >= nearest.step.fits
        && only(&fix.changes, &nearest.changes)
        && fix.cost() < nearest.cost() * (1.0 - WORTH_NAMING)
}

fn count_broken(findings: &[Finding]) -> usize {
    findings
        .iter()
        .filter(|finding| finding.verdict.is_met() == Some(false))
        .filter(|finding| finding.rule.kind != Kind::Memory)
        .count()
}
