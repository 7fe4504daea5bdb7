//! Whole runs on the scripted device: order, budget, anchors, drift, throttling, failures,
//! resuming.

use super::device::Device;
use super::journal::{Existing, Journal, RunKey, path_of};
use super::scripted::{Script, Scripted};
use super::{Ended, Event, Options, Outcome, measure};
use crate::dataset::{self, Role, Row};
use crate::error::Result;
use crate::measure::path::KernelPath;
use crate::measure::plan::{self, Plan};
use crate::ops::Op;
use crate::shard::Shard;
use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// A plan of a few hundred cases.
fn small() -> Plan {
    part_of_quick(20)
}

/// The quick plan with a part of its cases.
fn part_of_quick(part: usize) -> Plan {
    let mut plan = plan::find("quick").unwrap();
    for (_, cases) in &mut plan.sets {
        *cases = cases.div_ceil(part);
    }
    plan
}

/// How a test run differs from a plain one.
#[derive(Clone, Copy)]
struct Setting<'a> {
    plan: &'a Plan,
    existing: Existing,
    budget: Duration,
    seed: u64,
    shard: Shard,
    /// Ends the run after so many rows.
    most: usize,
    /// Whether that end is a panic, which leaves the journal as a kill does.
    killed: bool,
    strict: bool,
}

impl<'a> Setting<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            existing: Existing::Refuse,
            budget: plan.budget,
            seed: 0,
            shard: Shard::WHOLE,
            most: usize::MAX,
            killed: false,
            strict: false,
        }
    }

    fn resuming(plan: &'a Plan) -> Self {
        Self {
            existing: Existing::Resume,
            ..Self::new(plan)
        }
    }

    /// Kills the run after this many rows, so that its journal stays.
    fn kill(&self, most: usize, out: &Path) {
        let killed = Setting {
            most,
            killed: true,
            ..*self
        };
        let script = Script::default();
        assert!(crate::error::caught(|| killed.run(&script, out)).is_none());
        assert!(path_of(out).exists());
    }

    fn run(&self, script: &Script, out: &Path) -> Result<Outcome> {
        let mut device = Scripted::new(script.clone());
        let options = Options {
            out,
            existing: self.existing,
            plan: self.plan,
            budget: self.budget,
            seed: self.seed,
            shard: self.shard,
            strict: self.strict,
        };
        let mut rows = 0;
        let mut watch = |event: &Event<'_>| {
            rows += usize::from(matches!(event, Event::Measured { .. }));
            if rows >= self.most {
                assert!(!self.killed, "killed");
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        measure(&mut device, &options, &mut watch)
    }
}

fn roles(rows: &[Row], role: Role) -> impl Iterator<Item = &Row> {
    rows.iter()
        .filter(move |row| row.measured.as_ref().unwrap().role == role)
}

/// Cases of the plan with a row.
fn shapes(rows: &[Row]) -> HashSet<Op> {
    roles(rows, Role::Plan).map(|row| row.op).collect()
}

#[test]
fn a_run_measures_every_case_once_and_says_how() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let outcome = Setting::new(&plan).run(&Script::default(), &out).unwrap();
    assert_eq!((outcome.ended, outcome.unreached), (Ended::Complete, 0));
    assert_eq!(dataset::read(&out).unwrap().len(), outcome.rows.len());
    assert!(!path_of(&out).exists());
    let planned = roles(&outcome.rows, Role::Plan).count();
    assert_eq!(shapes(&outcome.rows).len(), planned);
    assert!(planned > 250, "{planned}");
    let device = Scripted::new(Script::default());
    let mut off: Vec<f64> = outcome
        .rows
        .iter()
        .map(|row| (row.time / device.truth(&row.op)).ln().abs())
        .collect();
    off.sort_by(f64::total_cmp);
    assert!(
        off[off.len() / 2] < 0.002 && off[off.len() - 1] < 0.02,
        "{:?}",
        off.last()
    );
    assert!(outcome.drift.unwrap().largest.abs() < 0.005);
    // Set-up runs each case once.
    assert!((1.5e-3..3e-3).contains(&outcome.set_up.secs()), "{}", outcome.set_up);
}

#[test]
fn a_budget_ends_in_time_with_repeats_and_the_last_anchors() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan::find("full").unwrap();
    let mut setting = Setting::new(&plan);
    setting.budget = Duration::from_secs(30);
    let script = Script {
        drift_per_hour: 3.0,
        ..Script::default()
    };
    let outcome = setting.run(&script, &folder.path().join("cut.parquet")).unwrap();
    assert_eq!(outcome.ended, Ended::Budget);
    assert!(outcome.unreached > 10_000);
    assert!(
        (29.0..=30.05).contains(&outcome.spent.as_secs_f64()),
        "{:?}",
        outcome.spent
    );
    // 3 an hour is 2.5 % in 30 s.
    let drift = outcome.drift.unwrap();
    assert!((0.015..0.03).contains(&drift.last) && drift.is_bad(), "{drift:?}");
    assert!(drift.visits >= 4, "{drift:?}");
    let noise = outcome.noise.unwrap();
    assert!(noise.pairs > 20 && (0.002..0.03).contains(&noise.median), "{noise:?}");
}

#[test]
fn a_set_that_is_slow_to_set_up_does_not_starve_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let plan = small();
    let mut setting = Setting::new(&plan);
    setting.budget = Duration::from_secs(24);
    let script = Script {
        // In proportion, the budget would end long before the last of the others.
        compile: Duration::from_secs(1),
        ..Script::default()
    };
    let outcome = setting.run(&script, &folder.path().join("mine.parquet"));
    let rows = outcome.unwrap().rows;
    let of = |family: &str| {
        let is_attention = |row: &&Row| matches!(row.op, crate::ops::Op::Attention(_));
        roles(&rows, Role::Plan)
            .filter(|row| is_attention(row) == (family == "attention"))
            .count()
    };
    let complete = Setting::new(&plan)
        .run(&Script::default(), &folder.path().join("all.parquet"))
        .unwrap();
    let attention = |row: &&Row| matches!(row.op, crate::ops::Op::Attention(_));
    let all = roles(&complete.rows, Role::Plan).count();
    let slow = roles(&complete.rows, Role::Plan).filter(attention).count();
    assert!(slow > 20, "{slow}");
    assert_eq!(of("others"), all - slow, "all others come first");
    assert!((2..slow).contains(&of("attention")), "{}", of("attention"));
}

#[test]
fn a_throttled_case_is_flagged_and_its_first_time_kept() {
    let folder = tempfile::tempdir().unwrap();
    let plan = small();
    let throttled = Some(Duration::from_secs(8)..Duration::from_millis(8060));
    let script = Script {
        throttled,
        ..Script::default()
    };
    let run = |script: &Script, name| {
        let outcome = Setting::new(&plan).run(script, &folder.path().join(name));
        outcome.unwrap()
    };
    let (outcome, plain) = (run(&script, "hot.parquet"), run(&Script::default(), "plain.parquet"));
    let about = |row: &Row| row.measured.clone().unwrap();
    let flagged = outcome.rows.iter().filter(|row| about(row).throttled);
    let device = Scripted::new(Script::default());
    let mut count = 0;
    for row in flagged {
        count += 1;
        // Nothing rests: the time is that of the lower clock.
        let ratio = row.time / device.truth(&row.op);
        assert!((1.3..1.6).contains(&ratio), "{ratio}");
        assert!(row.clock.unwrap().hertz() < 0.8 * 1.5e9);
    }
    assert!((1..20).contains(&count), "{count}");
    let held = outcome.rows.iter().map(|row| about(row).clock_reasons.unwrap());
    let held: HashSet<String> = held.collect();
    assert_eq!(held, HashSet::from(["none".into(), "sw_power_cap".into()]));
    assert!(plain.rows.iter().all(|row| !about(row).throttled));
    // A flag costs no time beyond that of the slower calls.
    assert!(outcome.spent < plain.spent + Duration::from_millis(100));
}

#[test]
fn a_case_that_fails_is_left_out_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let whole = Setting::new(&plan)
        .run(&Script::default(), &folder.path().join("whole.parquet"))
        .unwrap();
    // The probe sets up fewer than 60 cases.
    let script = Script {
        failing: vec![200, 230],
        ..Script::default()
    };
    let outcome = Setting::new(&plan).run(&script, &out).unwrap();
    let failed: u64 = outcome
        .skipped
        .iter()
        .filter(|(reason, _)| reason.starts_with("failed: "))
        .map(|(_, rows)| rows)
        .sum();
    assert_eq!(failed, 2);
    assert_eq!(shapes(&whole.rows).len() - shapes(&outcome.rows).len(), 2);
}

#[test]
fn any_number_of_failures_in_a_row_costs_their_rows_alone() {
    let folder = tempfile::tempdir().unwrap();
    let plan = small();
    let whole = Setting::new(&plan)
        .run(&Script::default(), &folder.path().join("whole.parquet"))
        .unwrap();
    let script = Script {
        failing: (150..200).collect(),
        ..Script::default()
    };
    let out = folder.path().join("mine.parquet");
    let outcome = Setting::new(&plan).run(&script, &out).unwrap();
    assert_eq!((outcome.ended, outcome.lost), (Ended::Complete, None));
    let missing = shapes(&whole.rows).len() - shapes(&outcome.rows).len();
    assert!((30..=50).contains(&missing), "{missing}");

    // Paths that never time a case are given up, with the count of what was left of them.
    let script = Script {
        failing: (60..100_000).collect(),
        ..Script::default()
    };
    let out = folder.path().join("few.parquet");
    let outcome = Setting::new(&part_of_quick(4)).run(&script, &out).unwrap();
    let reasons = outcome.skipped.to_string();
    let given_up = "refused: the first 16 cases of gemm ";
    assert!(reasons.contains(given_up), "{reasons}");
    assert_eq!((outcome.ended, outcome.lost), (Ended::Complete, None));
}

#[test]
fn a_device_that_is_lost_ends_the_run_with_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let script = Script {
        dies: Some(200),
        ..Script::default()
    };
    let outcome = Setting::new(&plan).run(&script, &out).unwrap();
    assert_eq!(outcome.ended, Ended::DeviceLost);
    assert!(outcome.lost.unwrap().contains("die with case 200"));
    assert!(outcome.unreached > 50 && outcome.rows.len() > 100);
    assert_eq!(dataset::read(&out).unwrap().len(), outcome.rows.len());
    assert!(!path_of(&out).exists());
    // The next run goes on with what is left.
    let resumed = Setting::resuming(&plan);
    let again = resumed.run(&Script::default(), &out).unwrap();
    assert_eq!(again.ended, Ended::Complete);
    assert!(again.rows.len() > outcome.rows.len() + 50);
}

#[test]
fn a_family_that_the_device_lacks_is_counted_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let plan = small();
    let script = Script {
        attention: false,
        ..Script::default()
    };
    let outcome = Setting::new(&plan)
        .run(&script, &folder.path().join("a.parquet"))
        .unwrap();
    let reason = "refused: set attention: there is no fused attention here";
    let wanted = plan.cases_of(plan::Set::Attention) as u64;
    assert!(outcome.skipped.iter().any(|skip| skip == (reason, wanted)));
}

#[test]
fn a_wrong_path_costs_its_rows_and_many_end_the_run_before_anything_is_timed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let script = |wrong| Script {
        wrong,
        ..Script::default()
    };
    let ended = |strict, wrong| {
        let setting = Setting {
            strict,
            ..Setting::new(&plan)
        };
        setting.run(&script(wrong), &out)
    };
    for (strict, wrong, expected) in [
        (true, 1, "is off by 5.000e-1"),
        (false, 2, "2 of 18 paths are wrong, over 5 %: the result of"),
        (false, 18, "all paths of gemm are wrong: the result of"),
    ] {
        let sentence = ended(strict, wrong).unwrap_err().to_string();
        assert!(sentence.contains(expected), "{sentence}");
        assert!(sentence.ends_with("nothing was timed"), "{sentence}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let outcome = ended(false, 1).unwrap();
    assert_eq!(outcome.verdict.wrong.len(), 1);
    let wrong = outcome.verdict.wrong[0].path;
    let of_wrong = |row: &&Row| KernelPath::of(&row.op) == wrong;
    assert_eq!(outcome.rows.iter().filter(of_wrong).count(), 0);
    let refused: Vec<_> = outcome.skipped.iter().collect();
    let lost = refused.iter().find(|(why, _)| why.starts_with("refused: wrong: "));
    let all = Setting::new(&plan)
        .run(&script(0), &folder.path().join("all.parquet"))
        .unwrap();
    let planned = roles(&all.rows, Role::Plan).filter(of_wrong).count() as u64;
    assert_eq!(lost.map(|(_, rows)| *rows), Some(planned), "{refused:?}");
    assert!(planned > 0);
}

#[test]
fn an_interrupted_run_writes_its_rows_and_goes_on_to_the_same_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let (out, other) = (folder.path().join("mine.parquet"), folder.path().join("whole.parquet"));
    let plan = small();
    let whole = Setting::new(&plan).run(&Script::default(), &other).unwrap();
    let cut = Setting {
        most: 90,
        ..Setting::new(&plan)
    };
    let outcome = cut.run(&Script::default(), &out).unwrap();
    assert_eq!((outcome.ended, outcome.rows.len()), (Ended::Interrupted, 90));
    assert_eq!(dataset::read(&out).unwrap().len(), 90);

    let resumed = Setting::resuming(&plan);
    let script = Script {
        seed: 5,
        ..Script::default()
    };
    let outcome = resumed.run(&script, &out).unwrap();
    assert_eq!(outcome.ended, Ended::Complete);
    assert_eq!(outcome.added + 90, outcome.rows.len());
    assert_eq!(shapes(&outcome.rows), shapes(&whole.rows));
    // Times go on where they were.
    let at = |row: &Row| row.measured.as_ref().unwrap().at_s;
    assert!(outcome.rows.windows(2).all(|pair| at(&pair[0]) < at(&pair[1])));
    // Nothing is left to do.
    let again = resumed.run(&script, &out).unwrap();
    assert_eq!(shapes(&again.rows), shapes(&whole.rows));
    assert_eq!(roles(&again.rows, Role::Plan).count(), shapes(&whole.rows).len());
}

#[test]
fn shards_of_a_run_have_the_shapes_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let plan = small();
    let whole = Setting::new(&plan)
        .run(&Script::default(), &folder.path().join("whole.parquet"))
        .unwrap();
    let mut all = HashSet::new();
    for index in 1..=3 {
        let shard = Setting {
            shard: Shard { index, of: 3 },
            ..Setting::new(&plan)
        };
        let outcome = shard
            .run(&Script::default(), &folder.path().join(format!("{index}.parquet")))
            .unwrap();
        for shape in shapes(&outcome.rows) {
            assert!(all.insert(shape), "two shards hold {shape:?}");
        }
    }
    assert_eq!(all, shapes(&whole.rows));
}

#[test]
fn what_is_there_is_not_mixed_with_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let cut = Setting {
        most: 20,
        ..Setting::new(&plan)
    };
    cut.run(&Script::default(), &out).unwrap();
    let sentence = cut.run(&Script::default(), &out).unwrap_err().to_string();
    assert!(
        sentence.contains("exists already; allowed: --resume") && sentence.contains("--force"),
        "{sentence}"
    );

    let resume = || Setting::resuming(&plan);
    let mut longer = plan.clone();
    longer.anchors += 1;
    let other_stack = Script {
        stack: "scripted 2".to_owned(),
        ..Script::default()
    };
    for (setting, script, expected) in [
        (
            resume(),
            other_stack.clone(),
            "`stack` is `scripted 1`; allowed: `scripted 2`",
        ),
        (
            Setting { seed: 1, ..resume() },
            Script::default(),
            "`seed` is `0`; allowed: `1`",
        ),
        (
            Setting {
                shard: Shard { index: 1, of: 2 },
                ..resume()
            },
            Script::default(),
            "`shard` is `1/1`; allowed: `1/2`",
        ),
        (
            Setting {
                plan: &longer,
                ..resume()
            },
            Script::default(),
            "`plan` is `quick ",
        ),
    ] {
        let sentence = setting.run(&script, &out).unwrap_err().to_string();
        assert!(
            sentence.contains(expected) && sentence.contains("--force"),
            "{sentence}"
        );
        assert_eq!(dataset::read(&out).unwrap().len(), 20);
        assert!(!path_of(&out).exists());
    }
    // The file stays until the new one is whole.
    let forced = Setting {
        existing: Existing::Replace,
        most: 5,
        ..Setting::new(&plan)
    };
    assert_eq!(forced.run(&other_stack, &out).unwrap().rows.len(), 5);
    assert_eq!(dataset::read(&out).unwrap().len(), 5);

    dataset::write(&out, &[]).unwrap();
    let sentence = resume().run(&Script::default(), &out).unwrap_err().to_string();
    assert!(
        sentence.contains("is not of a run of `shapewise measure`"),
        "{sentence}"
    );
}

#[test]
fn a_journal_is_cut_after_its_last_whole_line_and_damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    Setting::new(&plan).kill(10, &out);
    let journal = fs::read(path_of(&out)).unwrap();
    let lines: Vec<usize> = journal
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let resumed = Setting {
        most: 1,
        ..Setting::resuming(&plan)
    };
    // Cut inside the header, right behind it, and inside the last line.
    for (cut, rows) in [
        (lines[0] / 2, 0),
        (lines[0], 0),
        (lines[3], 3),
        (lines[4] - 1, 3),
        (lines[3] + 1, 3),
    ] {
        let _ = fs::remove_file(&out);
        fs::write(path_of(&out), &journal[..cut]).unwrap();
        let outcome = resumed.run(&Script::default(), &out).unwrap();
        assert_eq!(outcome.rows.len() - outcome.added, rows, "cut at {cut}");
    }
    let _ = fs::remove_file(&out);
    let mut damaged = journal.clone();
    damaged[lines[2] + 3] = b'!';
    fs::write(path_of(&out), &damaged).unwrap();
    let sentence = resumed.run(&Script::default(), &out).unwrap_err().to_string();
    assert!(
        sentence.contains(".journal: line 4: not a line of a journal") && sentence.contains("allowed: "),
        "{sentence}"
    );
    // A row of a set that is gone stays as it is; what cannot be read is named by its set or its kind.
    let whole = std::str::from_utf8(&journal[..lines[3]]).unwrap();
    let (before, last) = whole.trim_end().rsplit_once('\n').unwrap();
    let (known, _) = last.split_once("\"set\":\"").unwrap();
    let (_, behind) = last[known.len() + 7..].split_once('"').unwrap();
    let row = format!("{before}\n{known}\"set\":\"hot\"{behind}\n");
    fs::write(path_of(&out), &row).unwrap();
    let rows = resumed.run(&Script::default(), &out).unwrap().rows;
    assert_eq!(rows[2].measured.as_ref().unwrap().set, "hot");
    for (line, what) in [
        (r#"{"load":{"set":"layers","op":1}}"#, "`load` of the set `layers`"),
        (r#"{"load":{"name":"layer 1"}}"#, "`load`"),
    ] {
        let _ = fs::remove_file(&out);
        fs::write(path_of(&out), format!("{row}{line}\n")).unwrap();
        let sentence = resumed.run(&Script::default(), &out).unwrap_err().to_string();
        let wanted = format!(".journal: line 5: {what}, which this version does not measure; allowed: the version");
        assert!(sentence.contains(&wanted), "{sentence}");
    }
}

#[test]
fn a_kill_between_the_file_and_the_end_of_the_journal_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let cut = Setting {
        most: 30,
        ..Setting::new(&plan)
    };
    cut.run(&Script::default(), &out).unwrap();
    let first = fs::read(&out).unwrap();
    // A run that continues the file, stopped by failures: its journal stays.
    let resume = |most| Setting {
        most,
        ..Setting::resuming(&plan)
    };
    resume(usize::MAX).kill(40, &out);
    let journal = fs::read(path_of(&out)).unwrap();
    let outcome = resume(1).run(&Script::default(), &out).unwrap();
    let rows = outcome.rows.len();
    assert!(rows > 60);
    // The journal is back, as if the kill had come before it was removed.
    fs::write(path_of(&out), &journal).unwrap();
    let outcome = resume(1).run(&Script::default(), &out).unwrap();
    assert_eq!(outcome.rows.len(), rows + 1);
    // And with the file from before the rename.
    fs::write(&out, &first).unwrap();
    fs::write(path_of(&out), &journal).unwrap();
    assert_eq!(resume(1).run(&Script::default(), &out).unwrap().rows.len(), rows);
}

#[test]
fn a_journal_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    let plan = small();
    let device = Scripted::new(Script::default());
    let wanted = RunKey::new(device.identity(), &plan, 0, Shard::WHOLE);
    let held = Journal::open(&out, Existing::Refuse, &wanted).unwrap();
    let resumed = Setting {
        most: 1,
        ..Setting::resuming(&plan)
    };
    let sentence = resumed.run(&Script::default(), &out).unwrap_err().to_string();
    assert!(
        sentence.contains("another run is writing to it; allowed: "),
        "{sentence}"
    );
    drop(held);
    resumed.run(&Script::default(), &out).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_before_anything_is_timed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("mine.parquet");
    // Whatever is written to this name meets a full disk.
    std::os::unix::fs::symlink("/dev/full", folder.path().join(".mine.parquet.room")).unwrap();
    let wanted_plan = small();
    let device = Scripted::new(Script::default());
    let wanted = RunKey::new(device.identity(), &wanted_plan, 0, Shard::WHOLE);
    let (journal, _) = Journal::open(&out, Existing::Refuse, &wanted).unwrap();
    // Opening sweeps leftovers of killed runs; here it is the disk that is full.
    std::os::unix::fs::symlink("/dev/full", folder.path().join(".mine.parquet.room")).unwrap();
    let sentence = journal.reserve(1_000_000).unwrap_err().to_string();
    assert!(
        sentence.contains("no room for the 1 MB") && sentence.contains("No space left"),
        "{sentence}"
    );
    let missing = folder.path().join("no/mine.parquet");
    let sentence = Setting::new(&wanted_plan)
        .run(&Script::default(), &missing)
        .unwrap_err()
        .to_string();
    assert!(sentence.contains("which does not exist; allowed: "), "{sentence}");
}

mod speed;
mod steps;

#[test]
fn kernels_that_no_framework_runs_are_timed_where_a_plan_asks_and_never_learned() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script {
        stack: "cublaslt 1 cudnn 2".to_owned(),
        ..Script::default()
    };
    let run = |plan: &Plan, name: &str| {
        let out = folder.path().join(name);
        let outcome = Setting::new(plan).run(&script, &out).unwrap();
        (outcome, dataset::read(&out).unwrap())
    };
    let is_own = |row: &&Row| dataset::is_own_kernel(&row.stack, &row.op);
    let mut plan = small();
    let (outcome, rows) = run(&plan, "usual.parquet");
    assert_eq!(roles(&rows, Role::Plan).filter(is_own).count(), 0);
    let left_out = outcome.skipped.iter();
    let left_out = left_out.filter(|(reason, _)| reason.contains("no framework runs this kernel"));
    assert!(left_out.map(|(_, cases)| cases).sum::<u64>() > 30);
    plan.own_kernels = true;
    let (_, rows) = run(&plan, "own.parquet");
    let own: Vec<&Row> = roles(&rows, Role::Plan).filter(is_own).collect();
    assert!(own.iter().any(|row| matches!(row.op, Op::Attention(_))));
    assert!(own.iter().any(|row| matches!(row.op, Op::Memory(_))));
    for row in &rows {
        let stack = match is_own(&row) {
            true => dataset::OWN_KERNELS,
            false => &script.stack,
        };
        assert_eq!(*row.stack, *stack);
    }
    let (kept, all) = (dataset::timings(rows.clone()), rows.len());
    assert!(kept.rows.iter().all(|row| !is_own(&row)) && !kept.rows.is_empty());
    assert_eq!(kept.rows.len() + kept.skipped.total() as usize, all);
    // Files of before name the libraries in every row.
    let named = |mut row: Row| {
        row.stack = "cublaslt 13.1.0".into();
        row
    };
    let old = dataset::timings(rows.into_iter().map(named).collect());
    assert_eq!(old.rows.len(), kept.rows.len());
}
