//! What comes between the cases of a plan: anchors against drift, repeats for the noise, rounds of cases asked for.

use super::course::{REPEAT_EVERY, Run, set_of};
use super::{Event, Options, Propose, Watch, case_of, is_own};
use crate::dataset;
use crate::dataset::Role;
use crate::error::Result;
use crate::measure::describe::part;
use crate::measure::device::Case;
use crate::measure::plan::{Planned, Set, Sizing};
use crate::ops::Op;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

/// A repeat is at least this far from its first time, and at least a sixth of the budget.
const REPEAT_AFTER: Duration = Duration::from_secs(20);

/// Share of the time between two rounds of anchors that a round may take.
const ANCHOR_SHARE: f64 = 0.05;

/// Candidates of an active round for each case that is wanted.
const CANDIDATES: usize = 10;

impl Run<'_> {
    /// Times every anchor; in the first round as many as may be, so that a round stays cheap.
    pub(super) fn visit_anchors(&mut self, watch: &mut Watch<'_>) -> Result<ControlFlow<()>> {
        let begin = self.spent();
        let period = self.options.plan.anchor_period.min(self.options.budget / 4);
        let first = self.anchor_cost.is_zero();
        let mut flow = ControlFlow::Continue(());
        for (index, anchor) in self.anchors.clone().into_iter().enumerate() {
            let cost = self.spent().saturating_sub(begin);
            if first && index > 0 && cost > period.mul_f64(ANCHOR_SHARE) {
                self.anchors.truncate(index);
                break;
            }
            if flow.is_break() || self.spent() + self.margin() >= self.options.budget {
                break;
            }
            flow = self.case(&anchor, Role::Anchor, 0, 0, watch)?;
        }
        self.anchor_cost = self.spent().saturating_sub(begin);
        self.next_anchors = self.spent() + period;
        Ok(flow)
    }

    /// The earliest row that was not repeated yet, if it is long ago; once nothing else is left to do, one of so many
    /// rows is repeated in any case.
    pub(super) fn repeat(&mut self) -> Option<Planned> {
        let budget = self.options.budget;
        let mut after = REPEAT_AFTER.max(budget / 6).min(budget / 4);
        if self.queue.is_empty() {
            if self.repeats * REPEAT_EVERY >= self.added {
                return None;
            }
            after = Duration::ZERO;
        }
        let now = self.earlier + self.device.now().as_secs_f64();
        while let Some(row) = self.rows.get(self.next_repeat) {
            if !dataset::is_timing(row) {
                self.next_repeat += 1;
                continue;
            }
            let at = row.measured.as_ref().map_or(now, |about| about.at_s);
            if now - at < after.as_secs_f64() {
                return None;
            }
            self.next_repeat += 1;
            self.repeats += 1;
            return Some(Planned {
                case: case_of(row),
                set: set_of(row),
            });
        }
        None
    }

    /// Asks for more cases and puts them first.
    pub(super) fn ask(
        &mut self,
        round: usize,
        share: f64,
        propose: &mut Propose<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let Options {
            plan, seed, shard, ..
        } = *self.options;
        let all = plan.cases_of(Set::Active) as f64 / (plan.active_rounds as f64 * shard.of as f64);
        let wanted = (all * share).round() as usize;
        if wanted == 0 || self.rows.is_empty() {
            return Ok(());
        }
        let mut known: HashSet<Case> = self
            .rows
            .iter()
            .filter(|row| is_own(row))
            .map(case_of)
            .chain(self.queue.iter().map(|(planned, _)| planned.case.clone()))
            .collect();
        let sizing = Sizing {
            plan,
            scale: &self.header.scale,
            offer: &self.offer,
            most: self.most,
            seed,
        };
        let candidates = sizing.candidates(round, CANDIDATES * wanted * shard.of as usize);
        let candidates: Vec<Case> = candidates
            .into_iter()
            .filter(|case| {
                shard.holds(case)
                    && self.device.refuses(case).is_none()
                    && known.insert(case.clone())
            })
            .collect();
        let identity = self.device.identity();
        let gpu = part(&identity.gpu, &identity.facts, &self.rows)?;
        let ops: Vec<Op> = candidates.iter().map(|case| case.op).collect();
        let mut chosen = propose(&gpu, &self.rows, &ops, wanted);
        chosen.truncate(wanted);
        let _ = watch(&Event::Round {
            round: round + 1,
            cases: chosen.len(),
        });
        for place in chosen.into_iter().rev() {
            let planned = Planned {
                case: candidates[place].clone(),
                set: Set::Active,
            };
            self.queue.push_front((planned, Role::Active));
        }
        Ok(())
    }
}
