//! How fast a run is on the clock of the scripted H200: rows a minute, compiling ahead.

use super::{Setting, roles};
use crate::dataset::{Role, Row};
use crate::measure::plan::{self, Plan, Set};
use crate::measure::scripted::Script;
use crate::measure::{Ended, Outcome};
use crate::ops::Op;
use crate::units::Seconds;

/// The plan for training with these sets alone.
fn only(sets: &[(Set, usize)]) -> Plan {
    let mut plan = plan::find("training").unwrap();
    plan.sets = sets.to_vec();
    plan
}

fn run(plan: &Plan, script: &Script) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let outcome = Setting::new(plan).run(script, &folder.path().join("mine.parquet"));
    outcome.unwrap()
}

/// Rows a minute after the soak.
fn a_minute(outcome: &Outcome, plan: &Plan) -> f64 {
    let spent = outcome.spent - plan.soak;
    outcome.rows.len() as f64 / spent.as_secs_f64() * 60.0
}

fn is_attention(row: &&Row) -> bool {
    matches!(row.op, Op::Attention(_))
}

#[test]
fn an_h200_times_6500_gemms_a_minute() {
    // The proportions of the plan for training.
    let plan = only(&[
        (Set::Transformer, 2800),
        (Set::Alignment, 307),
        (Set::Sobol, 600),
        (Set::Batched, 120),
    ]);
    let outcome = run(&plan, &Script::h200());
    assert_eq!(outcome.ended, Ended::Complete);
    let rate = a_minute(&outcome, &plan);
    println!("{rate:.0} GEMMs a minute");
    assert!(rate >= 6500.0, "{rate}");
    // With the chains and replays of the other plans it is fewer.
    let usual = Plan {
        chain: Seconds::from_micros(1000.0),
        fewest: 7,
        ..plan
    };
    let slower = a_minute(&run(&usual, &Script::h200()), &usual);
    println!("{slower:.0} with chains of a millisecond");
    assert!(slower < 0.8 * rate, "{slower}");
}

#[test]
fn an_h200_times_600_attentions_a_minute_because_workers_compile_ahead() {
    let plan = only(&[(Set::Attention, 600)]);
    let outcome = run(&plan, &Script::h200());
    assert_eq!(outcome.ended, Ended::Complete);
    assert!(roles(&outcome.rows, Role::Plan).filter(is_attention).count() > 550);
    let rate = a_minute(&outcome, &plan);
    println!("{rate:.0} attentions a minute");
    assert!(rate >= 600.0, "{rate}");
    let alone = Script {
        workers: 0,
        ..Script::h200()
    };
    let slower = a_minute(&run(&plan, &alone), &plan);
    println!("{slower:.0} when the timing thread compiles");
    assert!(slower < 100.0, "{slower}");
}

#[test]
fn what_is_compiled_ahead_is_timed_as_well_as_what_is_not() {
    let plan = only(&[(Set::Attention, 60), (Set::Memory, 200), (Set::Sobol, 200)]);
    let with = |workers| {
        let script = Script {
            workers,
            ..Script::h200()
        };
        let mut rows = run(&plan, &script).rows;
        rows.retain(|row| row.measured.as_ref().unwrap().role == Role::Plan);
        let mut shapes: Vec<String> = rows.iter().map(|row| row.op.to_string()).collect();
        shapes.sort();
        shapes
    };
    assert_eq!(with(12), with(0));
    // More cases than a device looks ahead, and fewer workers than cores.
    assert_eq!(with(1), with(0));
}

#[test]
fn the_plan_for_training_ends_within_300_s() {
    let plan = plan::find("training").unwrap();
    let cases: usize = plan.sets.iter().map(|(_, cases)| cases).sum();
    assert!(cases >= 12_500 && plan.cases_of(Set::Attention) >= 3000);
    let outcome = run(&plan, &Script::h200());
    assert_eq!((outcome.ended, outcome.unreached), (Ended::Complete, 0));
    let attentions = roles(&outcome.rows, Role::Plan).filter(is_attention).count();
    let (all, spent) = (outcome.rows.len(), outcome.spent.as_secs_f64());
    println!("{all} rows, {attentions} attentions of the plan, in {spent:.0} s");
    assert!(all > 12_500 && attentions > 2900, "{all} {attentions}");
    assert!(spent <= 300.0, "{spent}");
}
