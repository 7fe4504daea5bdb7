//! `shapewise measure`: times operators on a device, with progress on standard error.

use crate::cli::args::View;
use crate::cli::args::measure::MeasureArgs;
use crate::cli::{Answer, DONE, FAILED, note, progress_bar, render, rows, say};
use crate::error::Result;
use crate::measure::journal::{self, Existing};
use crate::measure::plan;
use crate::measure::{self, Event, Options};
use crate::report::Report;
use crate::report::tables::choices::ChoicesReport;
use crate::report::tables::measure::MeasureReport;
use crate::shard::Shard;
use indicatif::ProgressBar;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by Ctrl-C; the run then ends after the case in flight and writes its file.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of a program that SIGINT has ended, as in shells.
const ENDED_BY_INTERRUPT: i32 = 130;

pub(super) fn run(args: &MeasureArgs, view: View) -> Result<Answer> {
    let out = args.out.as_path();
    let existing = match (args.resume, args.force) {
        (true, _) => Existing::Resume,
        (_, true) => Existing::Replace,
        _ => Existing::Refuse,
    };
    // Checks the arguments before a device is opened.
    journal::check_target(out, existing)?;
    if let Some(shapes) = args.choices {
        return choices(args, out, existing, shapes, view);
    }
    let plan = plan::find(&args.plan)?;
    let mut device = measure::open(&args.device)?;
    let _ = ctrlc::set_handler(interrupt);
    let options = Options {
        out,
        existing,
        plan: &plan,
        budget: args.budget.unwrap_or(plan.budget),
        seed: args.seed,
        shard: args.shard.unwrap_or(Shard::WHOLE),
        strict: args.strict,
    };
    let bar = progress_bar("measuring {bar:30} {pos}/{len}  {msg}");
    let mut watch = |event: &Event<'_>| {
        show(event, &bar);
        unless_interrupted()
    };
    let outcome = measure::measure(&mut *device, &options, &mut watch);
    bar.finish_and_clear();
    let outcome = outcome?;
    let report = MeasureReport::new(out, &outcome, rows::skipped(&outcome.skipped));
    if outcome.lost.is_some() {
        // Its libraries may wait for a lost device for ever.
        std::mem::forget(device);
    }
    Ok(answer(&report, report.is_sound(), view))
}

/// Breaks a run off once Ctrl-C was pressed.
fn unless_interrupted() -> ControlFlow<()> {
    match INTERRUPTED.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Asks for the kernels of many GEMMs.
fn choices(args: &MeasureArgs, out: &Path, existing: Existing, shapes: u64, view: View) -> Result<Answer> {
    let device = measure::open(&args.device)?;
    let _ = ctrlc::set_handler(interrupt);
    let options = measure::choices::Options {
        out,
        existing,
        shapes,
        budget: args.budget,
        threads: args.threads.map(|threads| threads as usize),
        seed: args.seed,
    };
    let bar = progress_bar("asking {bar:30} {pos}/{len}");
    bar.set_length(shapes);
    let mut watch = |asked: u64| {
        bar.set_position(asked);
        unless_interrupted()
    };
    let outcome = measure::choices::choices(&*device, &options, &mut watch);
    bar.finish_and_clear();
    let outcome = outcome?;
    let report = ChoicesReport::new(out, &outcome, rows::skipped(&outcome.skipped));
    Ok(answer(&report, true, view))
}

/// The report; what is not sound exits with 1.
fn answer(report: &impl Report, is_sound: bool, view: View) -> Answer {
    Answer {
        text: render(report, view),
        code: match is_sound {
            true => DONE,
            false => FAILED,
        },
    }
}

/// Handles Ctrl-C: the first waits for the case in flight, the second does not and loses its row.
fn interrupt() {
    if INTERRUPTED.swap(true, Ordering::Relaxed) {
        say("ended at once; the rows before are safe, --resume goes on");
        std::process::exit(ENDED_BY_INTERRUPT);
    }
    say("ending after the case in flight; once more to end at once");
}

fn show(event: &Event<'_>, bar: &ProgressBar) {
    let milestone = |line: String| bar.suspend(|| note(&line));
    match event {
        Event::Resumed { rows, torn } => {
            let torn = match torn {
                true => "; the row that was being written is lost",
                false => "",
            };
            milestone(format!("going on after {rows} rows{torn}"));
        }
        Event::Checked { verdict } => {
            let right = verdict.paths.len() - verdict.wrong.len();
            milestone(format!("{right} kernels and library paths agree with the CPU"));
            for lost in verdict.wrong.iter().chain(&verdict.missing) {
                milestone(format!("not timed: {}: {}", lost.path, lost.reason));
            }
        }
        Event::Probed => milestone("sizes follow from a probe of the device".to_owned()),
        Event::Planned { cases } => {
            bar.set_length(*cases as u64);
            milestone(format!("{cases} cases to measure"));
        }
        Event::Soaking { duration } => {
            milestone(format!("warming up for {:.1} s", duration.as_secs_f64()));
        }
        Event::Measured {
            done,
            cases,
            spent,
            row,
        } => {
            if *done > 0 {
                bar.set_length(*cases as u64);
                bar.set_position(*done as u64);
            }
            bar.set_message(format!("{:.0} s, {} in {}", spent.as_secs_f64(), row.op, row.time));
        }
        Event::Stepped { step } => {
            let (name, workload) = (&step.architecture.name, step.workload);
            bar.set_message(format!("{name}, {workload} in {:.4} s", step.seconds));
        }
        Event::StepFailed { name, reason } => milestone(format!("left out: {name}: {reason}")),
        Event::Failed { op, reason } => milestone(format!("left out: {op}: {reason}")),
        Event::Writing { rows } => milestone(format!("writing {rows} rows")),
    }
}
