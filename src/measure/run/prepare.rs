//! Everything before the first timing: room on the disk, right results, rates, cases.

use super::fair_share::FairShare;
use super::queue::Queue;
use super::scheduler::Run;
use super::{Event, Options, Watch};
use crate::dataset::steps::MeasuredStep;
use crate::dataset::{Role, Row, Skipped, is_timing};
use crate::error::Result;
use crate::measure::checks::verify;
use crate::measure::device::{Device, canonical};
use crate::measure::journal::{Earlier, Header, Journal, RunKey};
use crate::measure::path::KernelPath;
use crate::measure::plan::{self, DeviceRates, Planned, Set, Sizing, Supported};
use crate::measure::protocol::Clocks;
use crate::measure::stopping::Limits;
use crate::ops::Op;
use crate::units::Seconds;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// Upper bound of the bytes of a row in the journal and of its copies.
const ROW_BYTES: usize = 1000;

/// Opens the journal, checks disk and device, probes the rates and queues the cases; the run began at `start`.
pub fn prepare<'a>(
    device: &'a mut dyn Device,
    options: &'a Options<'a>,
    start: Duration,
    watch: &mut Watch<'_>,
) -> Result<Run<'a>> {
    let key = RunKey::new(device.identity(), options.plan, options.seed, options.shard);
    let (mut journal, earlier) = Journal::open(options.out, options.existing, &key)?;
    let plan = options.plan;
    let rows = plan.sets.iter().map(|(set, cases)| match set {
        // Two visits of a step with its architecture.
        Set::Steps => 4 * cases,
        _ => *cases,
    });
    journal.reserve(rows.sum::<usize>() / options.shard.of as usize * ROW_BYTES)?;
    if earlier.header.is_some() {
        let _ = watch(&Event::Resumed {
            rows: earlier.rows.len(),
            torn: earlier.torn,
        });
    }
    let formats: Vec<_> = plan.dtypes.iter().map(|&(dtype, _)| dtype).collect();
    let verdict = verify(device, &formats, options.strict)?;
    let _ = watch(&Event::Checked { verdict: &verdict });
    // A wrong or missing path keeps its share of the plan, so that each of its cases is refused with
    // the reason.
    let is_lost = |op: &Op| verdict.has_lost(KernelPath::of(op));
    let supported = Supported::new(plan, &|op| device.refuses(op).filter(|_| !is_lost(op)))?;
    let max_bytes = plan::max_bytes(key.identity.driver.memory_bytes);
    let known = earlier.header.as_ref().map(|header| &header.rates);
    let known = known.or(plan.rates.as_ref());
    let mut failed = Skipped::default();
    let rates = match known {
        Some(rates) => rates.clone(),
        None => {
            let rates = DeviceRates::probe(device, &supported, max_bytes, &mut failed)?;
            let _ = watch(&Event::Probed);
            rates
        }
    };
    let header = match &earlier.header {
        Some(header) => header.clone(),
        None => Header::new(key, rates.clone()),
    };
    let sizing = Sizing {
        plan,
        rates,
        supported,
        max_bytes,
        seed: options.seed,
    };
    let (cases, mut skipped) = queue(device, options, &sizing, &earlier);
    skipped.merge(&failed);
    let mut steps = sizing.steps();
    // Each shape comes as often as it is visited; earlier visits are done.
    let mut done: Vec<&_> = earlier.steps.iter().collect();
    steps.retain(|step| {
        let is_same = |done: &&MeasuredStep| done.is_again(&step.architecture, &step.workload);
        let found = done.iter().position(is_same);
        found.map(|place| done.swap_remove(place));
        options.shard.holds(&step.name) && found.is_none()
    });
    let queue = Queue::new(cases);
    let cases = queue.len() + steps.len();
    let _ = watch(&Event::Planned { cases });
    journal.begin(&header)?;
    let is_anchor = |row: &&Row| row.measured.as_ref().is_some_and(|about| about.role == Role::Anchor);
    let mut anchors: Vec<Planned> = Vec::new();
    for planned in earlier.rows.iter().filter(is_anchor).filter_map(Planned::of) {
        if !anchors.contains(&planned) {
            anchors.push(planned);
        }
    }
    let times = earlier
        .rows
        .iter()
        .flat_map(|row| &row.measured)
        .map(|about| about.at_s);
    Ok(Run {
        shares: FairShare::new(&queue, options.budget),
        earlier: times.fold(0.0, f64::max),
        next_repeat: earlier.rows.len(),
        shared: header.shared(),
        header,
        verdict,
        sizing,
        queue,
        skipped,
        planned_steps: steps.into(),
        rows: earlier.rows,
        steps: earlier.steps,
        steps_done: 0,
        longest_step: None,
        device,
        options,
        journal,
        start,
        anchors,
        added: 0,
        clocks: Clocks::default(),
        limits: Limits {
            chain: plan.chain,
            fewest: plan.fewest,
        },
        anchor_cost: Duration::ZERO,
        next_anchors: Duration::ZERO,
        repeats: 0,
        failures: BTreeMap::new(),
        lost: None,
        busy: Seconds::ZERO,
    })
}

/// The cases of this shard that are neither measured, failed nor refused, and the count of the
/// others.
fn queue(
    device: &dyn Device,
    options: &Options<'_>,
    sizing: &Sizing<'_>,
    earlier: &Earlier,
) -> (Vec<Planned>, Skipped) {
    let own = earlier.rows.iter().filter(|row| is_timing(row));
    let done: HashSet<Op> = own.map(|row| row.op).collect();
    let mut failed = HashSet::new();
    let mut skipped = Skipped::default();
    for (case, reason) in &earlier.failed {
        failed.insert(case.as_str());
        skipped.add(&format!("failed: {reason}"), 1);
    }
    let stack = &device.identity().stack;
    let refuses = |op: &Op| {
        let refusal = device.refuses(op);
        refusal.or_else(|| options.plan.leaves_out(stack, op))
    };
    let mut queue = Vec::new();
    let cases = sizing.cases();
    for &(set, wanted) in &options.plan.sets {
        // A family of operators that the device lacks altogether has no cases to refuse one by one.
        if wanted > 0 && set != Set::Steps && !cases.iter().any(|planned| planned.set == set) {
            let sample = plan::sample(set, &sizing.supported);
            let refusal = sample.and_then(|op| refuses(&op));
            let reason = refusal.unwrap_or_else(|| "nothing of it is short enough here".to_owned());
            let share = (wanted as u64).div_ceil(options.shard.of);
            skipped.add(&format!("refused: set {set}: {reason}"), share);
        }
    }
    for planned in cases {
        let op = &planned.op;
        let name = canonical(op);
        // The shard of a case follows from the case alone, as the probes of two nodes may make plans of different sizes.
        if !options.shard.holds(&name) {
            continue;
        }
        if let Some(reason) = refuses(op) {
            skipped.add(&format!("refused: {reason}"), 1);
        } else if !done.contains(op) && !failed.contains(name.as_str()) {
            queue.push(planned);
        }
    }
    (queue, skipped)
}
