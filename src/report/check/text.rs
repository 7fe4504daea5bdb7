//! A check as people read it: one line per rule, then a paragraph for each broken one.

use super::{CheckReport, FixKeys, RuleKeys, StepKeys};
use crate::arch::Dimension;
use crate::check::{Gain, Outlook};
use crate::report::table::{bad, doubtful, good, left, row, table};
use crate::report::{Report, grouped, joined, percent, signed, tier_shares_text};
use crate::rules::{Severity, State, Verdict};

/// A verdict as tables show it: broken rules that are no advice in capitals.
pub(in crate::report) fn verdict_text(verdict: &Verdict) -> String {
    match (verdict.state, verdict.severity) {
        (_, Some(Severity::Hard)) => bad("BROKEN"),
        (_, Some(Severity::Advice)) => doubtful("broken (advice)"),
        (_, Some(Severity::NoGain)) => "broken, no gain".to_owned(),
        (State::Met, _) => good("met"),
        _ => "-".to_owned(),
    }
}

impl Report for CheckReport {
    const LISTS: &'static [&'static str] = &["rules"];

    fn page(&self) -> String {
        let together = self.together.iter().map(|together| {
            let text = "\nAll that one shape can fix, the workload unchanged:\n";
            text.to_owned() + &self.proposal(together) + &lines(&[("fixes", together.fixes.join(", "))])
        });
        let rules = self.rules.iter().filter(|rule| rule.verdict.severity.is_some());
        let rules = rules.map(|rule| format!("\n{}", self.paragraph(rule)));
        let mut parts = vec![format!("{}\n{}", self.heading(), self.verdicts())];
        // Another layout comes before another shape.
        match self.rules.iter().filter_map(|rule| rule.fix.as_ref()).any(is_of_layout) {
            true => parts.extend(rules.chain(together)),
            false => parts.extend(together.chain(rules)),
        }
        parts.concat()
    }
}

impl CheckReport {
    fn heading(&self) -> String {
        let step = match (&self.predicted, &self.impossible) {
            (Some(step), _) => format!(
                "step {} under framework {}{}{}\ntiers {}\n",
                timed(step),
                step.framework,
                match step.framework_is_assumed {
                    true => " (assumed; `--framework` names yours, which may turn the verdicts on time)",
                    false => "",
                },
                unfit(step),
                tier_shares_text(step.tier_shares)
            ),
            (None, Some(why)) => format!("does not run: {why}\n"),
            (None, None) => String::new(),
        };
        let notes = self.notes.iter().map(|note| format!("note {note}\n"));
        format!(
            "{} ({} parameters) on {}\n{}\n{}{step}{}\n",
            self.model.name,
            grouped(self.model.parameters),
            self.gpu,
            self.workload,
            notes.collect::<String>(),
            summary(self.rules.iter().map(|rule| &rule.verdict))
        )
    }

    fn verdicts(&self) -> String {
        let headings = [left("rule"), left("verdict"), left("what decides")];
        let rows = self
            .rules
            .iter()
            .map(|rule| row![rule.id, verdict_text(&rule.verdict), rule.verdict.detail]);
        table(headings, rows)
    }

    fn paragraph(&self, rule: &RuleKeys) -> String {
        let mut text = format!("{}: {}\n", rule.id, rule.verdict.detail);
        text.push_str(&lines(&[
            ("asks", rule.demand.to_owned()),
            ("because", rule.reason.to_owned()),
            ("source", rule.source.to_owned()),
        ]));
        if let Some(fix) = &rule.fix {
            text.push_str(&self.proposal(fix));
        }
        if let Some(faster) = &rule.faster {
            text.push_str("  or, farther away:\n");
            text.push_str(&self.proposal(faster));
        }
        if let Some(why) = &rule.no_fix {
            let gain = match rule.verdict.counts(true) {
                true => "none near",
                false => "breaks the rule, but no fix is predicted to be faster",
            };
            text.push_str(&lines(&[("fix", format!("{gain}: {why}"))]));
        }
        text
    }

    /// A fix and its predicted cost.
    fn proposal(&self, fix: &FixKeys) -> String {
        let heads = fix.changes.iter().find(|one| one.dimension == Dimension::Heads);
        let changes = fix
            .changes
            .iter()
            // Where every head has its own keys, both change alike.
            .filter(|one| {
                one.dimension != Dimension::KvHeads
                    || heads.is_none_or(|heads| (heads.from, heads.to) != (one.from, one.to))
            })
            .map(|one| format!("{} {} -> {}", one.dimension, one.from, one.to));
        let mut all = vec![("fix", joined(", ", changes))];
        if fix.parameter_change_fraction.abs() >= 5e-5 {
            let change = fix.parameter_change_fraction * 100.0;
            all.push(("size", format!("{change:+.2} % parameters")));
        }
        let after = fix.predicted.time_us;
        let cost = match (&self.predicted, &fix.gain) {
            (Some(before), Some(gain)) => format!("{} -> {after}: {}", before.time_us, self.outcome(fix, gain)),
            _ => format!("step {}{}", timed(&fix.predicted), unfit(&fix.predicted)),
        };
        all.push(("cost", cost));
        if !fix.breaks.is_empty() {
            all.push(("breaks", fix.breaks.join(", ")));
        }
        lines(&all)
    }

    /// What a gain means, and for what where a step is not the same work.
    fn outcome(&self, fix: &FixKeys, gain: &Gain) -> String {
        let (now, then) = (&self.workload, &fix.workload);
        let alike = (now.batch, now.seq, now.tp, now.pp) == (then.batch, then.seq, then.tp, then.pp);
        let word = match (alike, gain.expected < 0.0) {
            (true, false) => "less time",
            (true, true) => "more time",
            (false, false) => "less GPU time per token",
            (false, true) => "more GPU time per token",
        };
        let verdict = match gain.outlook {
            Outlook::Faster => "",
            Outlook::Slower => "; it does not pay",
            _ => "; that it pays is not certain",
        };
        let saved = format!("{} {word}", percent(gain.expected.abs()));
        format!(
            "{} (90 %: {} to {}){verdict}",
            match gain.outlook {
                Outlook::Faster => good(&saved),
                Outlook::Slower => bad(&saved),
                _ => saved,
            },
            signed(gain.low),
            signed(gain.high)
        )
    }
}

fn is_of_layout(fix: &FixKeys) -> bool {
    fix.changes.iter().any(|change| change.dimension.is_of_layout())
}

/// How many rules are broken, and how many more without a gain.
pub(in crate::report) fn summary<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let applicable: Vec<_> = verdicts.filter(|verdict| verdict.is_met().is_some()).collect();
    let count = |is: fn(&Verdict) -> bool| applicable.iter().filter(|verdict| is(verdict)).count();
    let (all, broken) = (applicable.len(), count(|verdict| verdict.counts(true)));
    match count(|verdict| verdict.severity.is_some()) - broken {
        0 if broken == 0 => format!("all {all} rules that apply are met"),
        0 => format!("{broken} of {all} rules that apply are broken"),
        more => format!(
            "{broken} of {all} rules that apply are broken; {more} more with no fix that is predicted to be faster"
        ),
    }
}

/// `254.4 ms (90 %: 224.0 ms to 288.9 ms)`.
fn timed(step: &StepKeys) -> String {
    let (time, low, high) = (step.time_us, step.low_us, step.high_us);
    format!("{time} (90 %: {low} to {high})")
}

/// That a step does not fit, where it does not.
fn unfit(step: &StepKeys) -> String {
    match step.fits {
        true => String::new(),
        false => format!("; {}", bad("DOES NOT FIT the memory")),
    }
}

/// Indented lines with a name each.
fn lines(all: &[(&str, String)]) -> String {
    let line = |(name, value): &(&str, String)| format!("  {name:<8} {value}\n");
    all.iter().map(line).collect()
}
