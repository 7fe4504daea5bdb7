//! Timings between the cases of a plan: anchors for the drift, repeats for the noise, and the cases
//! of active learning.

use super::scheduler::{REPEAT_EVERY, Run};
use super::{Event, Options, Propose, Watch};
use crate::dataset::{self, Role};
use crate::error::Result;
use crate::measure::describe::gpu_of;
use crate::measure::device::Case;
use crate::measure::plan::{Planned, Set};
use crate::ops::Op;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

/// Least time between a case and its repeat, besides a sixth of the budget.
const REPEAT_AFTER: Duration = Duration::from_secs(20);

/// Largest share of the anchor period that a visit of all anchors may take.
const ANCHOR_SHARE: f64 = 0.05;

/// Candidates of active learning for each case that is wanted.
const CANDIDATES: usize = 10;

impl Run<'_> {
    /// Times every anchor; the first visit drops the anchors beyond [`ANCHOR_SHARE`].
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

    /// The earliest row without a repeat, once it is old enough; with an empty queue the age does
    /// not matter, and one of [`REPEAT_EVERY`] rows is repeated.
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
            return Some(Planned::of(row));
        }
        None
    }

    /// Puts the cases that the query strategy chooses at the front of the queue.
    pub(super) fn query(
        &mut self,
        round: usize,
        share: f64,
        propose: &mut Propose<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let Options { plan, shard, .. } = *self.options;
        let all = plan.cases_of(Set::Active) as f64 / (plan.active_rounds as f64 * shard.of as f64);
        let wanted = (all * share).round() as usize;
        if wanted == 0 || self.rows.is_empty() {
            return Ok(());
        }
        let own = self.rows.iter().filter(|row| dataset::is_timing(row)).map(Case::of);
        let mut known: HashSet<Case> = own.chain(self.queue.cases()).collect();
        let drawn = CANDIDATES * wanted * shard.of as usize;
        let mut candidates = self.sizing.candidates(round, drawn);
        candidates.retain(|case| shard.holds(case) && self.device.refuses(case).is_none() && known.insert(*case));
        let identity = self.device.identity();
        let gpu = gpu_of(&identity.gpu, &identity.driver, &self.rows)?;
        let ops: Vec<Op> = candidates.iter().map(|case| case.op).collect();
        let mut chosen = propose(&gpu, &self.rows, &ops, wanted);
        chosen.truncate(wanted);
        let _ = watch(&Event::Round {
            round: round + 1,
            cases: chosen.len(),
        });
        let chosen = chosen.into_iter().map(|place| {
            let planned = Planned {
                case: candidates[place],
                set: Set::Active,
            };
            (planned, Role::Active)
        });
        self.queue.push_front(&chosen.collect::<Vec<_>>());
        Ok(())
    }
}
