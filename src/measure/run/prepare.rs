//! Everything before the first timing: room on the disk, right results, rates, cases.

use super::{Event, Options, Watch, case_of, is_own, name_of};
use crate::dataset::Role;
use crate::dataset::Skipped;
use crate::error::Error;
use crate::error::Result;
use crate::measure::device::{Case, Checked, Device};
use crate::measure::journal::{Header, Journal, Left, Wanted};
use crate::measure::plan::{self, Offer, Planned, Scale, Set, Sizing};
use crate::units::Bytes;
use std::collections::{HashSet, VecDeque};

/// Bytes of a row in the journal and of its copies, at most.
const ROW_BYTES: usize = 1000;

/// What a run starts with.
pub struct Prepared {
    pub header: Header,
    pub checked: usize,
    pub offer: Offer,
    pub most: Bytes,
    pub queue: VecDeque<(Planned, Role)>,
    pub skipped: Skipped,
}

/// Everything before the first timing: room on the disk, right results, rates, cases.
pub fn prepare(
    device: &mut dyn Device,
    options: &Options<'_>,
    wanted: &Wanted<'_>,
    left: &Left,
    journal: &Journal,
    watch: &mut Watch<'_>,
) -> Result<Prepared> {
    let Options {
        plan, seed, shard, ..
    } = *options;
    let most_rows: usize = plan
        .sets
        .iter()
        .map(|(set, cases)| match set {
            Set::BestOf => 8 * cases,
            _ => *cases,
        })
        .sum();
    journal.reserve(most_rows / shard.of as usize * ROW_BYTES)?;
    if left.header.is_some() {
        let _ = watch(&Event::Resumed {
            rows: left.rows.len(),
            torn: left.torn,
        });
    }
    let paths = device.check()?;
    let is_wrong = |path: &&Checked| path.error.is_nan() || path.error > path.allowed;
    if let Some(wrong) = paths.iter().find(is_wrong) {
        return Err(Error::infeasible(format!(
            "{}: the result of {} is off by {:.3e} of the reference's norm; allowed: {:.3e}; nothing was timed",
            wanted.identity.gpu, wrong.path, wrong.error, wrong.allowed
        )));
    }
    let _ = watch(&Event::Checked { paths: &paths });
    let offer = Offer::new(plan, &|case| device.refuses(case))?;
    let most = plan::most_bytes(wanted.identity.facts.memory_bytes);
    let known = left
        .header
        .as_ref()
        .map(|header| &header.scale)
        .or(plan.scale.as_ref());
    let (scale, probed) = match known {
        Some(scale) => (scale.clone(), false),
        None => (Scale::probe(device, &offer, most)?, true),
    };
    let _ = watch(&Event::Scaled {
        scale: &scale,
        probed,
    });
    let (queue, skipped) = queue(device, options, &scale, &offer, most, left);
    let _ = watch(&Event::Planned { cases: queue.len() });
    let header = match &left.header {
        Some(header) => header.clone(),
        None => Header::new(wanted.identity, plan, seed, shard, scale),
    };
    Ok(Prepared {
        checked: paths.len(),
        header,
        offer,
        most,
        queue,
        skipped,
    })
}

/// The cases of this part of the plan that are neither measured, failed nor refused, and the count of the others.
fn queue(
    device: &dyn Device,
    options: &Options<'_>,
    scale: &Scale,
    offer: &Offer,
    most: Bytes,
    left: &Left,
) -> (VecDeque<(Planned, Role)>, Skipped) {
    let done: HashSet<Case> = left
        .rows
        .iter()
        .filter(|row| is_own(row))
        .map(case_of)
        .collect();
    let failed: HashSet<&str> = left.failed.iter().map(|(case, _)| case.as_str()).collect();
    let mut skipped = Skipped::default();
    for (_, reason) in &left.failed {
        skipped.add(&format!("failed: {reason}"), 1);
    }
    let mut queue = VecDeque::new();
    let sizing = Sizing {
        plan: options.plan,
        scale,
        offer,
        most,
        seed: options.seed,
    };
    let cases = sizing.cases();
    for &(set, wanted) in &options.plan.sets {
        // A family of operators that the device lacks altogether has no cases to refuse one by one.
        if wanted > 0 && set != Set::Active && !cases.iter().any(|planned| planned.set == set) {
            let refusal = plan::sample(set, offer).and_then(|case| device.refuses(&case));
            let reason = refusal.unwrap_or_else(|| "nothing of it is short enough here".to_owned());
            let share = (wanted as u64).div_ceil(options.shard.of);
            skipped.add(&format!("refused: set {}: {reason}", set.name()), share);
        }
    }
    for planned in cases
        .into_iter()
        .filter(|planned| options.shard.holds(&planned.case))
    {
        if let Some(reason) = device.refuses(&planned.case) {
            skipped.add(&format!("refused: {reason}"), 1);
        } else if !done.contains(&planned.case) && !failed.contains(name_of(&planned.case).as_str())
        {
            queue.push_back((planned, Role::Plan));
        }
    }
    (queue, skipped)
}
