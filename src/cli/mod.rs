//! The command line: one file per command, and what they share. Only this module prints or exits.

pub mod args;

mod batch;

mod check;

mod csv;

mod environment;

mod evaluate;

mod help;

mod hints;

mod import;

mod measure;

mod manual;

#[doc(hidden)]
pub mod output;

mod predict;

#[doc(hidden)]
pub mod rows;

mod search;

mod sweep;

mod target;

mod train;

use crate::answer::{self, catalog, question};
use crate::cli::args::{CalibrateArgs, Cli, Command, Format, GpusArgs, PlanArgs, Predict, View};
use crate::cli::target::answer;
use crate::error::{Error, Result, panics_are_expected};
use crate::gpu::Gpu;
use crate::mcp;
use crate::predict::Predictor;
use crate::report::Report;
use crate::request::CalibrateRequest;
use crate::serve;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ffi::OsString;
use std::io::{self, Write};
use std::panic::{self, UnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The command did what it was asked.
const DONE: u8 = 0;

/// The request cannot be met, or `check --strict` found a broken rule.
const FAILED: u8 = 1;

/// The command line breaks its grammar, or has an option or a name that is not allowed.
const USAGE: u8 = 2;

/// The program is wrong, not the user.
const BUG: u8 = 70;

/// Whether progress and notes are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// The least width that a result is fitted to.
const LEAST_WIDTH: usize = 40;

/// Runs the program with these arguments, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(code(args))
}

/// The exit code of the program with these arguments, for those who run it inside another one.
pub fn code(args: impl IntoIterator<Item = OsString>) -> u8 {
    let cli = match Cli::read(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too; a closed pipe is not an error.
            let _ = error.print();
            return if error.use_stderr() { USAGE } else { 0 };
        }
    };
    finish(cli.view, || {
        if let Some(gpu) = &cli.gpu_of_environment {
            note(&format!("--gpu {gpu} by {}", environment::GPU_VARIABLE));
        }
        cli.files.check()?;
        execute(&cli).map_err(|error| match &cli.gpu_of_environment {
            Some(gpu) => environment::explain(error, gpu),
            None => error,
        })
    })
}

/// Runs the command of a program, prints its answer or its error, and returns the exit code.
pub fn finish(view: View, command: impl FnOnce() -> Result<Answer> + UnwindSafe) -> u8 {
    announce_bugs();
    QUIET.store(view.quiet, Ordering::Relaxed);
    match view.color {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    #[cfg(unix)]
    outlive_file_limits();
    let outcome = panic::catch_unwind(|| {
        let answer = command()?;
        print(&answer.text).map(|()| answer.code)
    });
    match outcome {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            say(&format!("error: {error}"));
            if error.is_usage() { USAGE } else { FAILED }
        }
        Err(_) => BUG,
    }
}

/// What belongs on standard output, and the exit code.
pub struct Answer {
    text: String,
    code: u8,
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        Self { text, code: DONE }
    }
}

/// Runs one command.
fn execute(cli: &Cli) -> Result<Answer> {
    if cli.view.format == Format::Sarif && !matches!(cli.command, Command::Check(_)) {
        let allowed = "text, md, csv or json; check alone has sarif";
        return Err(Error::field("command line", "--format", "sarif", allowed));
    }
    let text = match &cli.command {
        Command::Check(args) => return check::run(args, cli.view),
        Command::Predict(Predict::Batch(args)) => return batch::run(args, cli.view),
        Command::Predict(args) => predict::run(args, cli.view),
        Command::Plan(args) => plan(args, cli.view),
        Command::Compare(args) => Ok(render(&answer(question::compare, args)?, cli.view)),
        Command::Search(args) => return search::run(args, cli.view),
        Command::Sweep(args) => sweep::run(args, cli.view),
        Command::Gpus(args) => gpus(args, cli.view),
        Command::Completions(args) => Ok(manual::completions(args)),
        Command::Manual(args) => manual::pages(args),
        Command::Models => Ok(render(&catalog::models()?, cli.view)),
        Command::Presets => Ok(render(&catalog::presets(), cli.view)),
        Command::Serve(args) => {
            let options = serve::Options::new(args.listen, args.cors.clone());
            serve::run(&options, say).map(|()| String::new())
        }
        Command::Mcp => mcp::run().map(|()| String::new()),
        Command::Evaluate(args) => evaluate::run(args, cli.view),
        Command::Calibrate(args) => calibrate(args, cli.view),
        Command::Import(args) => import::run(args, cli.view),
        Command::Measure(args) => return measure::run(args, cli.view),
        Command::Train(args) => train::run(args, cli.view),
    };
    text.map(Answer::from)
}

fn plan(args: &PlanArgs, view: View) -> Result<String> {
    let report = answer(question::plan, &args.subject)?;
    output::draw(report.drawn(), args.plot.as_deref())?;
    Ok(render(&report, view))
}

fn gpus(args: &GpusArgs, view: View) -> Result<String> {
    Ok(match &args.name {
        Some(name) => {
            let predictor = Predictor::new(Gpu::find(name)?, None)?;
            render(&catalog::gpu(&predictor), view)
        }
        None => render(&catalog::gpus(), view),
    })
}

/// Fits a framework and writes its file, which names it.
fn calibrate(args: &CalibrateArgs, view: View) -> Result<String> {
    let name = args.out.file_stem().map(|name| name.to_string_lossy().into_owned());
    // A refit is of the framework that it is of, whatever its file.
    let name = name.filter(|_| !args.request.refit);
    let report = answer::calibrate::run(&CalibrateRequest {
        name,
        ..args.request.clone()
    })?;
    output::write(&args.out, report.toml.as_bytes())?;
    Ok(render(&report, view))
}

/// The report in the format that was asked for.
pub fn render(report: &impl Report, view: View) -> String {
    match view.format {
        Format::Text => report.shown((!view.wide).then(width)),
        Format::Md => report.markdown(),
        Format::Csv => csv::table([(None, report)]),
        Format::Json | Format::Sarif => report.json(),
    }
}

/// Columns of the terminal; 100 if standard output is no terminal.
fn width() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(100, |(width, _)| usize::from(width.0).max(LEAST_WIDTH))
}

/// A JSON document on one line.
fn one_line(document: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(document).expect("reports are JSON");
    format!("{document}\n")
}

/// Writes to standard output, without colours where they are not wanted; a reader that has seen enough is not an error.
fn print(text: &str) -> Result<()> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", error)),
        _ => Ok(()),
    }
}

/// Writes one line to standard error that can be missed.
pub fn note(line: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        say(line);
    }
}

/// Writes one line to standard error; a closed one is no failure.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A progress bar on standard error, hidden where that is no terminal.
fn progress_bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("templates are fixed");
    let bar = ProgressBar::new(1).with_style(style);
    if QUIET.load(Ordering::Relaxed) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// Makes a file that grows beyond the limit of the shell (`ulimit -f`) an error of writing; the signal would end the
/// program without a word.
#[cfg(unix)]
fn outlive_file_limits() {
    let ignored = std::sync::Arc::default();
    // Where no handler can be set, the signal ends the program as before.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored);
}

/// Makes a panic say that it is a bug and where; the full trace comes with `RUST_BACKTRACE`.
fn announce_bugs() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if panics_are_expected() {
            return;
        }
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            default(info);
        }
        let message = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map_or_else(String::new, |at| format!(" at {at}"));
        say(&format!(
            "bug: {message}{place}; this is a fault of shapewise, not of your input: please report it with the command line"
        ));
    }));
}
