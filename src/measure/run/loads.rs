//! Sustained loads of a run: each operator alone with cold operands first, then all of them in
//! windows for 1.5 s.

use super::scheduler::Run;
use super::{Event, Watch, is_own};
use crate::dataset::Role;
use crate::dataset::loads::{Load, Part};
use crate::error::{Error, Result};
use crate::measure::device::Case;
use crate::measure::load::{self, sustain};
use crate::measure::plan::{Planned, PlannedLoad};
use crate::ops::Op;
use crate::units::Seconds;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

impl Run<'_> {
    /// Time that the next load may take: that of its operators alone, and of its windows.
    pub(super) fn load_margin(&self) -> Duration {
        let next = self.planned_loads.front();
        let operators = next.map_or(0, |load| load.items.len() as u32);
        load::COST + operators * self.margin()
    }

    /// Measures the next load and journals it, or counts why not.
    pub(super) fn load(&mut self, watch: &mut Watch<'_>) -> Result<ControlFlow<()>> {
        let Some(planned) = self.planned_loads.pop_front() else {
            return Ok(ControlFlow::Continue(()));
        };
        self.loads_done += 1;
        let ops: Vec<Op> = planned.items.iter().map(|(_, op)| *op).collect();
        let refusal = ops
            .iter()
            .find_map(|op| self.device.refuses(&Case::cold(*op)));
        if let Some(reason) = refusal {
            self.skipped.add(&format!("refused: load: {reason}"), 1);
            return Ok(ControlFlow::Continue(()));
        }
        // What is slow to set up is prepared while the load before runs.
        let next = self.planned_loads.front().into_iter();
        let next = next.flat_map(|load| load.items.iter().map(|(_, op)| op));
        let coming: Vec<Case> = ops.iter().chain(next).copied().map(Case::cold).collect();
        self.device.look_ahead(&mut coming.iter());
        let mut cold: HashMap<Op, Seconds> = HashMap::new();
        for &op in &ops {
            if cold.contains_key(&op) {
                continue;
            }
            let before = self.rows.len();
            let flow = self.alone(op, &planned, watch)?;
            cold.extend(self.rows.get(before).map(|row| (op, row.time)));
            if flow.is_break() {
                return Ok(flow);
            }
        }
        let sustained = match sustain(self.device, &ops) {
            Ok(sustained) => sustained,
            Err(error) => return self.fail_beside("load", &planned.name, &error, watch),
        };
        let times = planned.items.into_iter().zip(sustained.operators);
        let parts = times.map(|((role, op), time)| Part {
            role,
            op,
            time,
            cold: cold.get(&op).copied(),
        });
        let load = Load {
            name: planned.name,
            kind: planned.kind,
            windows: sustained.windows,
            parts: parts.collect(),
        };
        self.journal.load(&load)?;
        let flow = watch(&Event::Loaded { load: &load });
        self.loads.push(load);
        Ok(flow)
    }

    /// Counts a load or a step that failed; a lost device ends the run.
    pub(super) fn fail_beside(
        &mut self,
        what: &str,
        name: &str,
        error: &Error,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let reason = error.to_string().replace('\n', " ");
        self.skipped.add(&format!("failed: {what}: {reason}"), 1);
        self.lost = self.device.lost();
        let flow = watch(&Event::LoadFailed {
            name,
            reason: &reason,
        });
        Ok(self.unless_lost(flow))
    }

    /// Times an operator of a load alone; where the plan has a row of it, the row is a repeat.
    fn alone(
        &mut self,
        op: Op,
        load: &PlannedLoad,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>> {
        let case = Case::cold(op);
        let known = self
            .rows
            .iter()
            .any(|row| is_own(row) && Case::of(row) == case);
        let role = if known { Role::Repeat } else { Role::Plan };
        let planned = Planned {
            case,
            set: load.set(),
        };
        self.case(&planned, role, 0, 0, watch)
    }
}
