//! Timings between the cases of a plan: anchors for the drift and repeats for the noise.

use super::Watch;
use super::scheduler::{REPEAT_EVERY, Run};
use crate::dataset::{self, Role};
use crate::error::Result;
use crate::measure::plan::Planned;
use std::ops::ControlFlow;
use std::time::Duration;

/// Least time between a case and its repeat, besides a sixth of the budget.
const REPEAT_AFTER: Duration = Duration::from_secs(20);

/// Largest share of the anchor period that a visit of all anchors may take.
const ANCHOR_SHARE: f64 = 0.05;

impl Run<'_> {
    /// Times every anchor; the first visit drops the anchors beyond [`ANCHOR_SHARE`].
    pub fn visit_anchors(&mut self, watch: &mut Watch<'_>) -> Result<ControlFlow<()>> {
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
    pub fn repeat(&mut self) -> Option<Planned> {
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
            return Planned::of(row);
        }
        None
    }
}
