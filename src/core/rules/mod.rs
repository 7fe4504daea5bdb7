//! The sizing rules of arXiv 2401.14489 and its follow-ups, as data.
//!
//! A [`Rule`] says what it asks of a shape, why, and who found out; its predicate looks at a [`Subject`]:
//! an architecture, a workload and a GPU. The alignment is the GPU's own ([`Gpu::alignment`]): 8 elements of
//! 16 bits on V100, 64 on A100 and later, none on MI250X, where the paper's sweeps show no effect.

mod alignment;

mod attention;

mod fill;

mod operator;

mod parallel;

mod table;

pub use attention::{FLASH_SIZES, fused_head};
pub use operator::{LOAD_BYTES, OperatorFinding, judge_operator};
pub use table::RULES;

use crate::arch::{Architecture, Practice, Workload, memory_use};
use crate::gpu::Gpu;
use serde::Serialize;
use utoipa::ToSchema;

/// One sizing rule.
#[derive(Debug)]
pub struct Rule {
    /// Stable name on the wire, in kebab-case.
    pub id: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// What it asks.
    pub demand: &'static str,
    /// Why.
    pub reason: &'static str,
    /// Who says so.
    pub source: &'static str,
    /// What it is about.
    pub kind: Kind,
    /// What may be changed to meet it, in the order in which it is tried; empty where nothing can be.
    pub fix: &'static [Adjust],
    /// Whether it is about heads, so that it does not apply to a model without attention.
    of_heads: bool,
    judge: fn(&Subject) -> Verdict,
}

named_enum! {
    /// What a rule is about.
    Kind {
        /// How fast the shape runs.
        Speed = "speed",
        /// Whether the ranks can divide the model at all; nothing else can be judged by its GEMMs before.
        Split = "split",
        /// Whether the memory is used; a shape breaks it by needing less, which is no fault of the shape.
        Memory = "memory",
    }
}

/// One way to change a shape or its workload so that it meets a rule; `check` makes candidates of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjust {
    /// The vocabulary is padded.
    Vocab,
    /// The same width of attention is cut into other heads.
    Heads,
    /// The same, and where no cut is good, other hidden widths too.
    HeadsOrHidden,
    /// Other numbers of key/value heads.
    KvHeads,
    /// Other hidden widths, the MLP and the layers fitted to the parameters.
    Hidden,
    /// Other widths of the MLPs.
    DFf,
    /// Layers that the pipeline stages divide.
    Layers,
    /// Everything that the tensor-parallel ranks must divide.
    EveryDivided,
    /// Fewer layers of greater width.
    Shallower,
    /// Near micro-batches.
    NearBatch,
    /// Doubled micro-batches.
    LargerBatch,
    /// Near sequence lengths.
    Seq,
    /// Fewer tensor-parallel ranks, the vocabulary padded for them, or whole experts on them.
    FewerRanks,
    /// Fewer pipeline stages.
    FewerStages,
}

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The shape.
    pub arch: &'a Architecture,
    /// What is run on it.
    pub work: &'a Workload,
    /// On which GPU.
    pub gpu: &'a Gpu,
    /// How the framework keeps memory.
    pub practice: &'a Practice,
}

named_enum! {
    /// How much a broken rule says.
    Severity {
        /// Loses speed wherever it was measured, or does not run at all.
        Hard = "hard",
        /// Usually loses speed; library, accuracy or taste may decide otherwise.
        Advice = "advice",
        /// No near shape that meets the rule is predicted faster; neither counted nor an exit code.
        NoGain = "no_gain",
    }
}

named_enum! {
    /// Whether a subject does what a rule asks.
    State {
        /// It does.
        Met = "met",
        /// It does not.
        Broken = "broken",
        /// The rule has nothing to say here.
        NotApplicable = "not_applicable",
    }
}

/// The verdict of a rule on a subject, with the numbers that decided it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Verdict {
    /// Whether the subject does what is asked.
    #[serde(rename = "verdict")]
    pub state: State,
    /// How much it says that the rule is broken; `None` if it is not.
    pub severity: Option<Severity>,
    /// The numbers in one sentence, or why the rule does not apply.
    pub detail: String,
    /// The number that is wrong; `None` if none is.
    pub value: Option<f64>,
    /// What it should be.
    pub wanted: Option<String>,
}

impl Verdict {
    /// Whether the rule is met; `None` if it does not apply.
    pub const fn is_met(&self) -> Option<bool> {
        match self.state {
            State::Met => Some(true),
            State::Broken => Some(false),
            State::NotApplicable => None,
        }
    }

    /// The same of `severity`, if the rule is broken.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = self.severity.map(|_| severity);
        self
    }

    /// Whether the rule is broken, a fix may be faster, and it is no advice unless that is wanted.
    pub const fn counts(&self, advice: bool) -> bool {
        match self.severity {
            Some(Severity::Hard) => true,
            Some(Severity::Advice) => advice,
            Some(Severity::NoGain) | None => false,
        }
    }

    fn new(state: State, detail: impl Into<String>) -> Self {
        Self {
            state,
            severity: None,
            detail: detail.into(),
            value: None,
            wanted: None,
        }
    }

    fn met(detail: impl Into<String>) -> Self {
        Self::new(State::Met, detail)
    }

    fn not_applicable(why: impl Into<String>) -> Self {
        Self::new(State::NotApplicable, why)
    }

    /// `detail; wanted wanted`.
    fn broken(severity: Severity, value: f64, wanted: String, detail: &str) -> Self {
        let detail = format!("{detail}; {wanted} wanted");
        Self {
            severity: Some(severity),
            value: Some(value),
            wanted: Some(wanted),
            ..Self::new(State::Broken, detail)
        }
    }
}

/// A rule and what it says.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// What it says.
    pub verdict: Verdict,
}

impl Rule {
    /// The rule with this id.
    pub fn find(id: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.id == id)
    }

    /// Judges the subject by this rule.
    pub fn judge(&self, subject: &Subject) -> Verdict {
        if self.of_heads && subject.arch.attention_layers() == 0 {
            return Verdict::not_applicable("no layer has attention");
        }
        (self.judge)(subject)
    }
}

/// Whether the subject meets the rule; `None` if it does not apply.
pub fn is_met(rule: &Rule, subject: &Subject) -> Option<bool> {
    rule.judge(subject).is_met()
}

/// What every rule says, in the order of [`RULES`]; the architecture must be valid, the workload may ask for a split that
/// it does not allow.
pub fn judge_all(subject: &Subject) -> Vec<Finding> {
    let judged = RULES.iter().map(|rule| Finding {
        rule,
        verdict: rule.judge(subject),
    });
    judged.collect()
}

impl Subject<'_> {
    /// Whether the architecture under another workload fits the memory.
    fn holds(&self, work: &Workload) -> bool {
        memory_use(self.arch, work, self.practice).is_ok_and(|memory| memory.fits(self.gpu))
    }

    /// Elements that the sides of the linear maps should be a multiple of.
    fn alignment(&self) -> u64 {
        self.gpu.alignment(self.work.dtype)
    }

    /// The same for what stays in 16 bits when the linear maps run in fp8: attention and head.
    fn wide_alignment(&self) -> u64 {
        self.gpu.alignment(self.work.activation_dtype())
    }
}

/// The largest power of two that divides `value`; 0 for 0.
const fn power_of_two(value: u64) -> u64 {
    value & value.wrapping_neg()
}

/// `80 = 16 · 5`; `50257 is odd`.
fn factors(value: u64) -> String {
    match power_of_two(value) {
        1 => format!("{value} is odd"),
        power if power == value => format!("{value} is a power of two"),
        power => format!("{value} = {power} · {}", value / power),
    }
}

#[cfg(test)]
mod tests;
