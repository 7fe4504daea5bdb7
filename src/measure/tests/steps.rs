//! Whole steps on the scripted device: two visits, order, resuming, shards, what cannot run.

use super::*;
use crate::arch::lower;
use crate::dataset::runs::read_runs;
use crate::dataset::steps::{read_steps, steps_path};
use crate::gpu::GpuCatalog;
use crate::units::Seconds;

/// A plan of steps beside a few cases.
fn stepped(steps: usize) -> Plan {
    let mut plan = plan::find("steps").unwrap();
    plan.sets = vec![(plan::Set::Sobol, 120), (plan::Set::Steps, steps)];
    plan
}

#[test]
fn every_step_is_timed_twice_and_written_as_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = stepped(12);
    let outcome = Setting::new(&plan).run(&Script::default(), &out).unwrap();
    assert_eq!((outcome.ended, outcome.unreached), (Ended::Complete, 0));
    let steps = &outcome.steps;
    assert_eq!(steps.len(), 24);
    let device = Scripted::new(Script::default());
    for step in steps {
        let visits = steps
            .iter()
            .filter(|other| other.is_again(&step.architecture, &step.workload));
        assert_eq!(visits.count(), 2, "{}", step.architecture.name);
        // The chain of the operators, but for the sums of gradients.
        let lowered = lower(&step.architecture, &step.workload).unwrap();
        let items = lowered.items.iter();
        let truth = items.map(|item| device.truth(&item.op) * item.count as f64);
        let truth = truth.sum::<Seconds>().secs();
        let share = step.seconds / truth;
        assert!((0.8..1.25).contains(&share), "{share}");
    }
    let noise = crate::dataset::steps::steps_run_to_run(steps).unwrap();
    assert!(noise.pairs == 12 && noise.median < 0.05, "{noise:?}");
    // Rows of a script describe no GPU that a model could be trained for.
    assert!(dataset::described_gpus(&out).unwrap().is_empty());
    // The file describes its GPU, so that it can be read as runs elsewhere.
    let beside = steps_path(&out);
    assert_eq!(read_steps(&beside).unwrap(), *steps);
    let runs = read_runs(&[beside], &GpuCatalog::built_in()).unwrap().runs;
    assert!(runs.iter().all(|run| run.gpu.name == dataset::SCRIPTED));
    assert!(runs.iter().all(|run| run.software == "scripted 1"));
}

#[test]
fn steps_are_resumed_and_shared_by_shards() {
    let folder = tempfile::tempdir().unwrap();
    let plan = stepped(10);
    let path = |name: &str| folder.path().join(name);
    let all = Setting::new(&plan).run(&Script::default(), &path("all.parquet"));
    let all = all.unwrap().steps;
    let out = path("mine.parquet");
    Setting::new(&plan).kill(70, &out);
    let resumed = Setting::resuming(&plan).run(&Script::default(), &out);
    let names = |steps: &[dataset::steps::MeasuredStep]| {
        let names = steps.iter();
        let mut names: Vec<_> = names
            .map(|step| format!("{} {}", step.architecture.name, step.workload))
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(&resumed.unwrap().steps), names(&all));
    // A finished file misses nothing.
    let again = Setting::resuming(&plan).run(&Script::default(), &out);
    assert_eq!(again.unwrap().steps.len(), all.len());
    let mut parts = Vec::new();
    for index in 1..=3 {
        let setting = Setting {
            shard: Shard { index, of: 3 },
            ..Setting::new(&plan)
        };
        let out = path(&format!("part-{index}.parquet"));
        parts.extend(setting.run(&Script::default(), &out).unwrap().steps);
    }
    assert_eq!(names(&parts), names(&all));
}

#[test]
fn steps_whose_operators_a_device_lacks_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let plan = stepped(4);
    let script = Script {
        attention: false,
        ..Script::default()
    };
    let outcome = Setting::new(&plan).run(&script, &folder.path().join("mine.parquet"));
    let outcome = outcome.unwrap();
    assert!(outcome.steps.is_empty());
    let failed = outcome.skipped.iter();
    let failed: u64 = failed
        .filter(|(reason, _)| reason.starts_with("failed: step: "))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(failed, 8);
    assert!(!steps_path(&folder.path().join("mine.parquet")).exists());
}
